//! Pods of which nothing is known but the address: every judge says the same of them, and none of them fares better than a pod that could be there.
#![expect(clippy::unwrap_used, reason = "all of this is tests, and clippy knows them by their attribute only")]

use std::net::IpAddr;

use palisade_engine::{decide, decide_direction};
use palisade_model::{
    Action, Direction, End, Endpoint, Family, Flow, IpBlock, LabelSelector, Model, NamespaceSet, NetworkId, Operator, Path, Peer, PeerSet,
    PerDirection, Place, PodName, Policy, PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Protocol, Requirement, Rule,
    Shape, Subject, Tier, Verdict,
};
use palisade_nft::Origin;
use palisade_spec::judge;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::nodes::Nodes;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 60;
/// Small ones, in which nearly every rule has something to say about an unknown pod.
const DENSE: u64 = 400;

/// In the ranges of pods, unless the cluster gives them to somebody; in an exception of them; and elsewhere.
const ADDRESSES: [&str; 8] = ["10.0.0.3", "10.0.0.6", "10.0.0.77", "fd00::6", "fd00::77", "10.0.0.250", "10.0.1.5", "2001:db8::5"];
const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: one, labels: {app: a}}, spec: {nodeName: n1, containers: [{name: m, image: i, ports: [{name: web, containerPort: 80}]}]}, status: {podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: b, name: two, labels: {app: b}}, spec: {nodeName: n2, containers: [{name: m, image: i, ports: [{name: web, protocol: UDP, containerPort: 53}]}]}, status: {podIPs: [{ip: 10.0.0.2}]}}
";
const PORTS: [u16; 7] = [1, 9, 53, 80, 443, 8080, 65535];

/// The cluster of a seed, in which unknown addresses of pods are pods.
fn cluster(seed: u64) -> Model {
    within_ranges(snapshot("cluster.json", &generate(seed).objects.to_json()).model)
}

fn within_ranges(mut model: Model) -> Model {
    let block = |cidr: &str, except: &[&str]| IpBlock {
        cidr: cidr.parse().unwrap(),
        except: except.iter().map(|it| it.parse().unwrap()).collect(),
    };
    model.pod_ranges = vec![block("10.0.0.0/24", &["10.0.0.240/28"]), block("fd00::/64", &[])];
    model
}

/// Two pods, and random policies for both in all tiers.
fn dense(seed: u64) -> Model {
    let random = &mut Random::new(seed);
    let mut model = within_ranges(snapshot("cluster.yaml", PODS).model);
    for (tier, name) in [(Tier::Admin, "a"), (Tier::NetworkPolicy, "n"), (Tier::Baseline, "b")] {
        if random.percent(80) {
            let rules = PerDirection { egress: rules(random, tier), ingress: rules(random, tier) };
            model.policies.push(Policy {
                network: NetworkId::DEFAULT,
                origin: PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: name.into() },
                tier,
                rank: 1,
                subject: Subject::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() },
                shape: Shape::Only,
                isolates: PerDirection { egress: tier == Tier::NetworkPolicy, ingress: tier == Tier::NetworkPolicy },
                rules,
            });
        }
    }
    model
}

fn rules(random: &mut Random, tier: Tier) -> Vec<Rule> {
    let everywhere = || NamespaceSet::Matching(LabelSelector::default());
    let labelled = || LabelSelector { requirements: vec![Requirement { key: "app".into(), operator: Operator::Equals("a".into()) }] };
    let block = |cidr: &str| Peer::Networks(vec![IpBlock::whole(cidr.parse().unwrap())]);
    let one = |random: &mut Random, index| {
        let action = if tier == Tier::NetworkPolicy { Action::Accept } else { random.of([Action::Accept, Action::Deny, Action::Pass]) };
        let peers = match random.below(8) {
            0 | 1 => PeerSet::Any,
            2 => PeerSet::Of(vec![Peer::Pods { namespaces: everywhere(), pods: LabelSelector::default() }]),
            3 | 4 => PeerSet::Of(vec![Peer::Pods { namespaces: everywhere(), pods: labelled() }]),
            5 => PeerSet::Of(vec![block("10.0.0.0/25"), block("fd00::/16")]),
            6 => PeerSet::Of(vec![block("10.0.0.64/26"), Peer::Pods { namespaces: NamespaceSet::Own("a".into()), pods: labelled() }]),
            _ => PeerSet::Of(vec![Peer::Nodes(LabelSelector::default()), block("203.0.113.0/24")]),
        };
        let ports = match random.below(4) {
            0 => PortSet::Of(vec![PortMatch::Named { protocol: random.of([None, Some(PortProtocol::Udp)]), name: "web".into() }]),
            1 => PortSet::Of(vec![PortMatch::Numbers { protocol: PortProtocol::Tcp, ports: Ports::range(53, 443).unwrap() }]),
            _ => PortSet::Any,
        };
        Rule { index, name: None, action, peers, ports, fail_closed: None }
    };
    (0..random.between(1, 4)).map(|index| one(random, index)).collect()
}

/// Each pod with each address that is nobody's, both ways, with all traffic.
fn flows(model: &Model) -> Vec<(Direction, Flow)> {
    let ports = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp]
        .into_iter()
        .flat_map(|it| PORTS.map(|port| (Protocol::Port(it), Some(port))));
    let traffic: Vec<(Protocol, Option<u16>)> = ports.chain([(Protocol::Icmp, None)]).collect();
    let strangers: Vec<End> = ADDRESSES
        .iter()
        .map(|it| it.parse::<IpAddr>().unwrap())
        .filter(|it| model.place_of(NetworkId::DEFAULT, *it) == Place::Outside)
        .map(|address| End { place: Place::Outside, address: Some(address) })
        .collect();
    let pods = model
        .endpoints
        .iter()
        .flat_map(|it| &it.addresses)
        .map(|address| End { place: model.place_of(NetworkId::DEFAULT, *address), address: Some(*address) });
    let pods: Vec<End> = pods.filter(|it| matches!(it.place, Place::Pod(_))).collect();
    let mut flows = Vec::new();
    for pod in &pods {
        let family = |it: &End| it.address.map(Family::of);
        for stranger in strangers.iter().filter(|it| family(it) == family(pod)) {
            for (protocol, port) in &traffic {
                let flow = |from, to| Flow { network: NetworkId::DEFAULT, from, to, protocol: *protocol, port: *port, path: Path::Direct };
                flows.push((Direction::Egress, flow(*pod, *stranger)));
                flows.push((Direction::Ingress, flow(*stranger, *pod)));
            }
        }
    }
    flows
}

fn stranger(direction: Direction, flow: &Flow) -> &End {
    match direction {
        Direction::Egress => &flow.to,
        Direction::Ingress => &flow.from,
    }
}

#[test]
fn every_judge_says_the_same_of_an_unknown_pod() {
    let (mut asked, mut unlike_outside) = (0, 0);
    for (seed, model) in (0..CLUSTERS).map(|seed| (seed, cluster(seed))).chain((0..DENSE).map(|seed| (seed, dense(seed)))) {
        let without = Model { pod_ranges: Vec::new(), ..model.clone() };
        let nodes = Nodes::of(&model);
        for (direction, flow) in flows(&model) {
            let (judged, decided) = (judge(&model, &flow), decide(&model, &flow));
            let (verdict, reason) = judged.directions.of(direction);
            let walk = decided.walks.of(direction);
            assert_eq!((*verdict, reason), (walk.verdict, &walk.reason), "seed {seed}: {flow:?}");
            let passed = nodes.pass(&flow).unwrap().unwrap_or_else(|| panic!("seed {seed}: {flow:?} meets no node"));
            assert_eq!(passed.accepted, decided.verdict == Verdict::Accept, "seed {seed}: {flow:?}: {decided:?}");
            if !passed.accepted {
                let by = Origin::Policy { direction, reason: walk.reason.clone() };
                assert_eq!(passed.dropped_by, Some(by), "seed {seed}: {flow:?}");
            }
            asked += 1;
            unlike_outside += usize::from(decide(&without, &flow).verdict != decided.verdict);
            if !model.is_unknown_pod(NetworkId::DEFAULT, stranger(direction, &flow)) {
                assert_eq!(decide(&without, &flow), decided, "seed {seed}: {flow:?}");
            }
        }
    }
    assert!(asked > 50_000 && unlike_outside > 1_000, "{asked} flows, {unlike_outside} of them not as if the pod was of the outside");
}

/// Whichever pod of the cluster is put there: what is accepted while it is not known is accepted when it is.
#[test]
fn an_unknown_pod_fares_no_better_than_any_pod_it_could_be() {
    let (mut accepted, mut closer) = (0, 0);
    for (seed, model) in (0..CLUSTERS).map(|seed| (seed, cluster(seed))).chain((0..DENSE).map(|seed| (seed, dense(seed)))) {
        for address in ADDRESSES.iter().map(|it| it.parse::<IpAddr>().unwrap()) {
            let unknown = End { place: Place::Outside, address: Some(address) };
            if model.place_of(NetworkId::DEFAULT, address) != Place::Outside || !model.is_unknown_pod(NetworkId::DEFAULT, &unknown) {
                continue;
            }
            for candidate in candidates(&model) {
                let mut known = model.clone();
                // Behind all others, so that nobody else has another number.
                known.endpoints.push(Endpoint { addresses: vec![address], ..candidate });
                for (direction, flow) in
                    flows(&model).into_iter().filter(|(direction, flow)| *stranger(*direction, flow) == unknown).step_by(5)
                {
                    let place = known.place_of(NetworkId::DEFAULT, address);
                    let mut there = flow.clone();
                    match direction {
                        Direction::Egress => there.to.place = place,
                        Direction::Ingress => there.from.place = place,
                    }
                    let before = decide_direction(&model, &flow, direction).verdict;
                    let after = decide_direction(&known, &there, direction);
                    if before == Verdict::Accept {
                        assert_eq!(after.verdict, Verdict::Accept, "seed {seed}: {flow:?}: {after:#?}");
                        accepted += 1;
                    } else {
                        closer += usize::from(after.verdict == Verdict::Accept);
                    }
                }
            }
        }
    }
    assert!(accepted > 10_000 && closer > 1_000, "{accepted} flows accepted, {closer} denied only while unknown");
}

/// The pods of the cluster under another name, and one of a namespace with no labels.
fn candidates(model: &Model) -> Vec<Endpoint> {
    let named = |pod: &Endpoint| Endpoint { name: PodName { namespace: pod.name.namespace.clone(), name: "zz-new".into() }, ..pod.clone() };
    let mut all: Vec<Endpoint> = model.endpoints.iter().map(named).collect();
    let bare = all.first().map(|it| Endpoint {
        name: PodName { namespace: "zz-new".into(), name: "zz-new".into() },
        labels: palisade_model::Labels::default(),
        ports: Vec::new(),
        ..it.clone()
    });
    all.extend(bare);
    all
}
