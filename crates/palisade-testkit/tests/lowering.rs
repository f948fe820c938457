//! A ruleset that follows the changes of a cluster is what would be lowered at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use palisade_engine::compile;
use palisade_model::{Endpoint, EndpointId, Model, NodeId, Readiness, Running};
use palisade_nft::{Ids, Layout, Lowering, NodeView, PodLinks, Ruleset, Unknown, Worked, lower};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 60;
const CHANGES: usize = 60;

/// How often a ruleset came about in each way.
#[derive(Debug, Default)]
struct Ways {
    anew: usize,
    by_elements: usize,
    nothing_to_do: usize,
}

fn model(seed: u64) -> Model {
    snapshot("cluster.json", &generate(seed).objects.to_json()).model
}

/// The links of pods of the node. They are not known in some clusters, and shared by two pods in others.
fn view(model: &Model, seed: u64) -> NodeView {
    let local = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(NodeId(0)) && !seed.is_multiple_of(4));
    let link = |it: &Endpoint| if seed % 4 == 1 { "veth-all".to_owned() } else { format!("veth-{}", it.name.name) };
    let links = local.map(|(at, it)| (EndpointId(at), link(it))).collect();
    let unknown = if seed.is_multiple_of(3) { Unknown::Open } else { Unknown::Closed(PodLinks::default()) };
    NodeView { node: NodeId(0), links, unknown }
}

fn assert_follows(lowering: &mut Lowering, model: &Model, view: &NodeView, when: &str) -> (Arc<Ruleset>, Worked) {
    let (ruleset, worked) = lowering.lower(model, view);
    let fresh = lower(model, &compile(model), view, &mut Ids::default());
    assert!(*ruleset == fresh, "{when}, {worked:?}\n{}", differences(&ruleset, &fresh));
    (ruleset, worked)
}

/// Only what differs is worth reading.
fn differences(followed: &Ruleset, fresh: &Ruleset) -> String {
    let [followed, fresh] = [followed, fresh].map(|it| format!("{it:#?}"));
    let lines = |of: &str, other: &str| -> Vec<String> {
        let known: BTreeSet<&str> = other.lines().collect();
        of.lines().filter(|it| !known.contains(it)).map(ToOwned::to_owned).collect()
    };
    format!("followed: {:#?}\nfresh: {:#?}", lines(&followed, &fresh), lines(&fresh, &followed))
}

/// An address near those of other pods, of which policies may speak. It is rarely somebody's: then nobody follows until it is no longer.
fn address(model: &Model, like: IpAddr, random: &mut Random) -> IpAddr {
    let all: Vec<IpAddr> = model.endpoints.iter().flat_map(|it| &it.addresses).copied().collect();
    let near: Vec<IpAddr> = all.iter().copied().filter(|it| it.is_ipv4() == like.is_ipv4()).collect();
    let near = random.pick(&near).copied().unwrap_or(like);
    let by = (1..64).map(|_| random.of([1_u8, 2, 3, 4, 7, 8, 11, 16, 21, 32, 42, 63]));
    let mut near = by.map(|by| match near {
        IpAddr::V4(it) => IpAddr::from(Ipv4Addr::from_bits(it.to_bits() ^ u32::from(by))),
        IpAddr::V6(it) => IpAddr::from(Ipv6Addr::from_bits(it.to_bits() ^ u128::from(by))),
    });
    near.find(|it| !all.contains(it)).unwrap_or(like)
}

/// A pod like another, with addresses of its own.
fn replica(model: &Model, number: usize, random: &mut Random) -> Option<Endpoint> {
    let mut pod = model.endpoints.get(random.below(model.endpoints.len()))?.clone();
    pod.name.name = format!("{}-{number}", random.pick(&["a", "m", "z"])?).into();
    for address in &mut pod.addresses {
        *address = self::address(model, *address, random);
    }
    // Every rollout has labels of its own, which no policy asks for.
    if random.below(3) == 0 {
        pod.labels.set("pod-template-hash", &number.to_string());
    }
    Some(pod)
}

/// Changes one pod, or two that have to do with each other.
fn change(model: &mut Model, number: usize, random: &mut Random) {
    let count = model.endpoints.len();
    let nodes = model.nodes.len();
    let new = replica(model, number, random);
    let (at, other) = (random.below(count.max(1)), random.below(count.max(1)));
    let Some(other) = model.endpoints.get(other).cloned() else { return };
    let what = random.below(24);
    let Some(pod) = model.endpoints.get_mut(at) else { return };
    match what {
        0 | 1 if count > 3 => drop(model.endpoints.remove(at)),
        2 => pod.node = Some(NodeId(random.below(nodes.max(1)))),
        3 => pod.labels = other.labels,
        4 => pod.addresses.clear(),
        5 if number.is_multiple_of(4) => pod.addresses = other.addresses,
        6 => pod.readiness = if pod.readiness == Readiness::Ready { Readiness::NotReady } else { Readiness::Ready },
        7 => pod.running = if pod.running == Running::Yes { Running::NotSaid } else { Running::Yes },
        8 if number.is_multiple_of(4) => drop(model.policies.pop()),
        9 if number.is_multiple_of(4) => {
            let name = pod.name.namespace.clone();
            let namespace = model.namespaces.entry(name).or_default();
            namespace.labels.set("team", if number.is_multiple_of(2) { "a" } else { "b" });
        }
        _ => model.endpoints.extend(new),
    }
    let mut names = BTreeSet::new();
    model.endpoints = model.endpoints.iter().filter(|it| names.insert(&it.name)).cloned().collect();
    model.endpoints.sort_by(|a, b| a.name.cmp(&b.name));
}

#[test]
fn changes_come_to_what_is_lowered_at_once() {
    let mut ways = Ways::default();
    for seed in 0..CLUSTERS {
        let mut random = Random::new(seed);
        let (mut model, mut lowering) = (model(seed), Lowering::new(Layout::CURRENT));
        for number in 0..CHANGES {
            let view = view(&model, seed);
            let (_, worked) = assert_follows(&mut lowering, &model, &view, &format!("seed {seed}, change {number}"));
            match worked {
                Worked::Anew => ways.anew += 1,
                Worked::ByElements => ways.by_elements += 1,
                Worked::NothingToDo => ways.nothing_to_do += 1,
            }
            let steps = if random.below(4) == 0 { 3 } else { 1 };
            (0..steps).for_each(|step| change(&mut model, number * 3 + step, &mut random));
        }
    }
    let Ways { anew, by_elements, nothing_to_do } = ways;
    assert!(anew > 300 && by_elements > 300 && nothing_to_do > 100, "{ways:?}");
}

const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: one}, status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: two}, status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: db}, spec: {podSelector: {matchLabels: {app: db}},
 ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}, {from: [{ipBlock: {cidr: 10.0.2.8/29}}]}]}}
";

fn pod(name: &str, app: &str, node: &str, address: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{namespace: shop, name: {name}, labels: {{app: {app}, name: {name}}}}}, \
         spec: {{nodeName: {node}, containers: [{{name: m, image: i}}]}}, status: {{podIP: {address}}}}}"
    )
}

/// What comes of one more pod where there are some.
fn check(pods: &[String], more: &str, expected: Worked) {
    let read = |more: &[&str]| {
        let all: Vec<&str> = [CLUSTER].into_iter().chain(pods.iter().map(String::as_str)).chain(more.iter().copied()).collect();
        snapshot("cluster.yaml", &all.join("\n---\n")).model
    };
    let (without, with) = (read(&[]), read(&[more]));
    let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
    let mut lowering = Lowering::default();
    assert_follows(&mut lowering, &without, &view, "at first");
    for (model, when) in [(&with, "one more"), (&without, "one less")] {
        let (_, worked) = assert_follows(&mut lowering, model, &view, &format!("{when}: {more}"));
        assert_eq!(worked, expected, "{when}: {more}");
    }
}

#[test]
fn a_pod_among_others_like_it_is_a_matter_of_elements() {
    let pods = [
        pod("d1", "db", "one", "10.0.1.1"),
        pod("d2", "db", "one", "10.0.1.2"),
        pod("w1", "web", "two", "10.0.2.1"),
        pod("w2", "web", "two", "10.0.2.9"),
        pod("x1", "cache", "one", "10.0.1.9"),
    ];
    // Elsewhere one that is like it tells, on the node there must be two: one alone never meets another of its class.
    check(&pods, &pod("w9", "web", "two", "10.0.2.2"), Worked::ByElements);
    check(&pods, &pod("w9", "web", "two", "10.0.2.10"), Worked::ByElements);
    check(&pods, &pod("a9", "db", "one", "10.0.1.3"), Worked::ByElements);
    check(&pods, &pod("x9", "cache", "one", "10.0.1.10"), Worked::Anew);
    // Nobody of its labels, nobody of its labels where it is, nobody of them in that block.
    check(&pods, &pod("n9", "new", "two", "10.0.2.2"), Worked::Anew);
    check(&pods, &pod("w9", "web", "one", "10.0.1.3"), Worked::Anew);
    check(&pods, &pod("a9", "db", "one", "10.0.2.10"), Worked::Anew);
    // Two claim one address.
    check(&pods, &pod("w9", "web", "two", "10.0.2.1"), Worked::Anew);
    check(&pods, &pod("w9", "web", "two", "192.168.0.2"), Worked::Anew);
}
