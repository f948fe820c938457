//! Policies with many ranges of addresses and ports, nested, beside each other and without parts: the ruleset of a node does what the specification says,
//! by the rule that it names, and changes safely.
#![expect(clippy::unwrap_used, reason = "all of this is tests, and clippy knows them by their attribute only")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use palisade_engine::decide;
use palisade_model::{
    Action, Direction, End, Flow, IpBlock, LabelSelector, Model, NamespaceSet, NetworkId, Path, Peer, PeerSet, PerDirection, Place, Policy,
    PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Protocol, Reason, Rule, Shape, Subject, Tier, Verdict,
};
use palisade_nft::{Ids, Origin, Ruleset, Statement, Verdict as Goes, plan};
use palisade_testkit::check::snapshot;
use palisade_testkit::interleaved::{check, closed, on_one_node};
use palisade_testkit::journeys;
use palisade_testkit::nodes::Nodes;
use palisade_testkit::random::Random;

/// Two pods on one node, one of them in many ranges, and one elsewhere.
const PODS: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: a, labels: {app: a}}, spec: {nodeName: node-1, containers: [{name: c, image: i, ports: [{name: web, containerPort: 8080}]}]},
 status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: b, labels: {app: b}}, spec: {nodeName: node-1}, status: {podIPs: [{ip: 10.1.0.1}, {ip: "fd00:1::1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: c, labels: {app: b}}, spec: {nodeName: node-2}, status: {podIPs: [{ip: 10.1.0.2}, {ip: "fd00:1::2"}]}}
"#;

/// How the ranges of a policy lie to each other.
#[derive(Clone, Copy, Debug)]
enum Ranges {
    /// Around one address, of any length.
    Nested,
    /// Anywhere.
    Anywhere,
    /// All addresses, or many, but some.
    AllBut,
}

fn net(ranges: Ranges, random: &mut Random) -> IpNet {
    let near = match ranges {
        Ranges::Nested => 0,
        Ranges::Anywhere | Ranges::AllBut => u32::try_from(random.below(1 << 12)).unwrap() << 8,
    };
    if random.percent(50) {
        let length = u8::try_from(random.between(0, 32)).unwrap();
        return Ipv4Net::new(Ipv4Addr::from_bits((10 << 24) + near), length).unwrap().trunc().into();
    }
    let length = u8::try_from(random.between(0, 128)).unwrap();
    Ipv6Net::new(Ipv6Addr::from_bits((0xfd00 << 112) + (u128::from(near) << 80)), length).unwrap().trunc().into()
}

fn block(ranges: Ranges, random: &mut Random) -> IpBlock {
    let except = |random: &mut Random| (0..random.between(1, 3)).map(|_| net(Ranges::Anywhere, random)).collect::<Vec<IpNet>>();
    let (cidr, except) = match ranges {
        Ranges::AllBut => (random.of(["0.0.0.0/0", "10.0.0.0/8", "::/0", "fd00::/8"]).parse().unwrap(), except(random)),
        Ranges::Nested | Ranges::Anywhere => (net(ranges, random), if random.percent(10) { except(random) } else { Vec::new() }),
    };
    // As the API server has it, exceptions lie within and leave something.
    let except = except.into_iter().filter(|it: &IpNet| cidr.contains(it) && *it != cidr).collect();
    IpBlock { cidr, except }
}

fn ports(random: &mut Random) -> PortSet {
    let protocol = random.of([PortProtocol::Tcp, PortProtocol::Tcp, PortProtocol::Tcp, PortProtocol::Udp]);
    let one = |random: &mut Random| {
        let first = u16::try_from(random.between(0, 400)).unwrap() * 20;
        let last = first + u16::try_from(random.of([0, 0, 1, 19, 20, 500])).unwrap();
        PortMatch::Numbers { protocol, ports: Ports::range(first, last).unwrap() }
    };
    match random.below(30) {
        0 => PortSet::Any,
        1 => PortSet::Of(vec![PortMatch::Named { protocol: None, name: "web".into() }]),
        2 => PortSet::Of(vec![PortMatch::Numbers { protocol, ports: Ports::range(1, u16::MAX).unwrap() }]),
        _ => PortSet::Of((0..random.between(1, 2)).map(|_| one(random)).collect()),
    }
}

fn rule(index: usize, tier: Tier, ranges: Ranges, random: &mut Random) -> Rule {
    let blocks: Vec<IpBlock> = (0..random.of([1, 1, 1, 3])).map(|_| block(ranges, random)).collect();
    let peers = if random.percent(5) { PeerSet::Any } else { PeerSet::Of(vec![Peer::Networks(blocks)]) };
    let action = match tier {
        Tier::NetworkPolicy => Action::Accept,
        Tier::Admin | Tier::Baseline => random.of([Action::Accept, Action::Deny, Action::Pass]),
    };
    Rule { index, name: None, action, peers, ports: ports(random), fail_closed: None }
}

fn policy(tier: Tier, random: &mut Random) -> Policy {
    let ranges = random.of([Ranges::Nested, Ranges::Nested, Ranges::Anywhere, Ranges::AllBut]);
    let count = random.between(30, 150);
    let rules = |random: &mut Random| (0..count).map(|at| rule(at, tier, ranges, random)).collect::<Vec<Rule>>();
    let (kind, namespace) = match tier {
        Tier::NetworkPolicy => (PolicyKind::NetworkPolicy, Some("x".into())),
        Tier::Admin | Tier::Baseline => (PolicyKind::ClusterNetworkPolicy, None),
    };
    let namespaces = match tier {
        Tier::NetworkPolicy => NamespaceSet::Own("x".into()),
        Tier::Admin | Tier::Baseline => NamespaceSet::Matching(LabelSelector::default()),
    };
    let isolates = tier == Tier::NetworkPolicy;
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind, namespace, name: format!("large-{tier:?}").to_lowercase().into() },
        shape: Shape::Only,
        tier,
        rank: 10,
        subject: Subject::Pods { namespaces, pods: LabelSelector::default() },
        isolates: PerDirection { egress: isolates, ingress: isolates },
        rules: PerDirection { egress: rules(random), ingress: rules(random) },
    }
}

fn cluster(seed: u64) -> Model {
    let mut random = Random::new(seed);
    let mut model = snapshot("pods.yaml", PODS).model;
    model.policies.push(policy(Tier::NetworkPolicy, &mut random));
    if random.percent(40) {
        model.policies.push(policy(Tier::Admin, &mut random));
    }
    model.policies.sort_by(Policy::in_order);
    model
}

/// Addresses at and beside the edges of what rules name.
fn edges(model: &Model) -> Vec<IpAddr> {
    let rules = model.policies.iter().flat_map(|it| it.rules.egress.iter().chain(&it.rules.ingress));
    let peers = rules.flat_map(|it| if let PeerSet::Of(peers) = &it.peers { peers.as_slice() } else { &[] });
    let blocks = peers.flat_map(|it| if let Peer::Networks(blocks) = it { blocks.as_slice() } else { &[] });
    let nets = blocks.flat_map(|it| std::iter::once(it.cidr).chain(it.except.iter().copied()));
    let mut edges: Vec<IpAddr> = nets.flat_map(|it| [it.network(), it.broadcast()]).flat_map(|it| [before(it), it, after(it)]).collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn before(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(it) => Ipv4Addr::from_bits(it.to_bits().wrapping_sub(1)).into(),
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits().wrapping_sub(1)).into(),
    }
}

fn after(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(it) => Ipv4Addr::from_bits(it.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits().wrapping_add(1)).into(),
    }
}

/// A connection between a pod of the node and somebody.
fn draw(model: &Model, edges: &[IpAddr], random: &mut Random) -> Flow {
    let other = *random.pick(edges).unwrap();
    let pod = model.endpoints.iter().zip(0..).find(|(it, _)| &*it.name.name == "a").map(|it| it.1).unwrap();
    let own = model.endpoints.iter().nth(pod).unwrap().addresses.iter().find(|it| it.is_ipv4() == other.is_ipv4()).copied();
    let pod = End { place: Place::Pod(palisade_model::EndpointId(pod)), address: own };
    let other = End { place: model.place_of(NetworkId::DEFAULT, other), address: Some(other) };
    let (from, to) = if random.percent(50) { (pod, other) } else { (other, pod) };
    let protocol = random.of([PortProtocol::Tcp, PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp]);
    let near = u16::try_from(random.between(0, 420)).unwrap() * 20;
    let port = near.saturating_add(random.of([0, 1, 2, 19, 20])).saturating_sub(1);
    let port = if random.percent(5) { random.of([0, 8080, u16::MAX]) } else { port };
    if random.percent(5) {
        return Flow { network: NetworkId::DEFAULT, from, to, protocol: Protocol::Icmp, port: None, path: Path::Direct };
    }
    Flow { network: NetworkId::DEFAULT, from, to, protocol: Protocol::Port(protocol), port: Some(port), path: Path::Direct }
}

fn goes_on(ruleset: &Ruleset) -> usize {
    let leaves = ruleset.chains.iter().filter(|(name, _)| name.starts_with("leaf-"));
    let last = leaves.filter_map(|(_, it)| it.rules.last()?.statements.last());
    last.filter(|it| matches!(it, Statement::Verdict(Goes::Goto(_)))).count()
}

#[test]
fn many_ranges_and_ports_do_what_the_specification_says() {
    let (mut flows, mut by_rule, mut sharing) = (0, 0, 0);
    for seed in 0..16 {
        let model = cluster(seed);
        let (nodes, edges) = (Nodes::of(&model), edges(&model));
        sharing += nodes.rulesets().iter().map(goes_on).sum::<usize>();
        let mut random = Random::new(seed);
        for _ in 0..300 {
            let flow = draw(&model, &edges, &mut random);
            let expected = palisade_spec::judge(&model, &flow);
            let decision = decide(&model, &flow);
            let walks = &decision.walks;
            let directions = PerDirection {
                egress: (walks.egress.verdict, walks.egress.reason.clone()),
                ingress: (walks.ingress.verdict, walks.ingress.reason.clone()),
            };
            assert_eq!(directions, expected.directions, "seed {seed}: {flow:?}");
            let Some(passed) = nodes.pass(&flow).unwrap() else { continue };
            assert_eq!(passed.accepted, expected.verdict == Verdict::Accept, "seed {seed}: {flow:?}: {expected:?}, {passed:?}");
            let denied = Direction::BOTH.into_iter().find(|it| expected.directions.of(*it).0 != Verdict::Accept);
            if let Some(direction) = denied {
                let reason = expected.directions.of(direction).1.clone();
                assert_eq!(passed.dropped_by, Some(Origin::Policy { direction, reason }), "seed {seed}: {flow:?}");
            } else {
                for direction in Direction::BOTH {
                    let reason = expected.directions.of(direction).1.clone();
                    by_rule += usize::from(matches!(reason, Reason::Rule(_)));
                    let is_pod = reason != Reason::NotAPod;
                    let words = Origin::Policy { direction, reason }.to_string();
                    assert!(!is_pod || passed.comments.contains(&words), "seed {seed}: {flow:?}: {words}, {passed:?}");
                }
            }
            flows += 1;
        }
    }
    assert!(flows > 3_500 && by_rule > 500 && sharing > 100, "{flows} connections, {by_rule} by a rule, {sharing} leaves go on to others");
}

/// Rules of large policies come, go and change.
#[test]
fn large_policies_change_without_a_leak_or_a_loss() {
    let (mut looked, mut sharing) = (0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let old = cluster(seed);
        let mut new = old.clone();
        for policy in new.policies.iter_mut() {
            let (tier, at) = (policy.tier, random.below(policy.rules.ingress.len()));
            match random.below(3) {
                0 => drop(policy.rules.ingress.remove(at)),
                1 => policy.rules.ingress.insert(at, rule(at, tier, Ranges::Nested, &mut random)),
                _ => policy.rules.ingress.get_mut(at).unwrap().ports = ports(&mut random),
            }
            policy.rules.ingress.iter_mut().enumerate().for_each(|(at, it)| it.index = at);
        }
        let mut ids = Ids::default();
        let [old, new] = [&old, &new].map(|it| on_one_node(it, &mut ids, closed(), |name| !name.ends_with('c')));
        sharing += goes_on(&new);
        for (from, to) in [(&old, &new), (&new, &old)] {
            let some = journeys::some(from, to, &mut random, 60);
            let found = check(from, to, &plan(from, to), &some).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            looked += found.commits;
        }
    }
    assert!(looked > 20 && sharing > 20, "{looked} commits, {sharing} leaves go on to others");
}
