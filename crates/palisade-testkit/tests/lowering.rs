//! A ruleset that follows the changes of a cluster is what would be lowered at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use palisade_engine::compile;
use palisade_model::{Endpoint, EndpointId, Model, NetworkId, NodeId, Policy, Readiness, Running};
use palisade_nft::{Auditing, Ids, Layout, Lowering, NodeView, PodLinks, Ruleset, Unknown, Worked, audit, lower, plan, plan_whole};
use palisade_testkit::audits::put_into_audit;
use palisade_testkit::changes::{Incremental, between};
use palisade_testkit::check::{snapshot, snapshot_with_networks};
use palisade_testkit::generate::generate;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 60;
const CHANGES: usize = 120;

/// How often a ruleset came about in each way.
#[derive(Debug, Default)]
struct Ways {
    anew: usize,
    by_elements: usize,
    nothing_to_do: usize,
}

impl Ways {
    fn count(&mut self, worked: Option<Worked>) {
        match worked {
            Some(Worked::Anew) => self.anew += 1,
            Some(Worked::ByElements) => self.by_elements += 1,
            Some(Worked::NothingToDo) => self.nothing_to_do += 1,
            None => {}
        }
    }
}

fn model(seed: u64) -> Model {
    snapshot_with_networks("cluster.json", &generate(seed).objects.to_json()).model
}

/// The links of pods of the node. They are not known in some clusters, and shared by two pods in others.
fn view(model: &Model, seed: u64) -> NodeView {
    let here = |it: &Endpoint| it.node == Some(NodeId(0)) && it.network() == NetworkId::DEFAULT;
    let local = model.endpoints.iter_ids().filter(|(_, it)| here(it) && !seed.is_multiple_of(4));
    let link = |it: &Endpoint| if seed % 4 == 1 { "veth-all".to_owned() } else { format!("veth-{}", it.name.name) };
    let links = local.map(|(id, it)| (id, link(it))).collect();
    let unknown = if seed.is_multiple_of(3) { Unknown::Open } else { Unknown::Closed(PodLinks::default()) };
    NodeView { node: NodeId(0), links, unknown }
}

/// Updates a ruleset and compares it with that of the whole model.
fn assert_follows(lowering: &mut Lowering, (old, model): (&Model, &Model), view: &NodeView, when: &str) -> (Arc<Ruleset>, Worked) {
    let (ruleset, worked) = lowering.update(model, &between(old, model), view);
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
    let mut pod = model.endpoints.iter().nth(random.below(model.endpoints.len()))?.clone();
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

/// Has an enforced policy leave a model, or come back, or get the rules of another policy.
fn change_policies(model: &mut Model, spare: &mut Vec<Arc<Policy>>, random: &mut Random) {
    let mut policies: Vec<Arc<Policy>> = model.policies.iter_shared().cloned().collect();
    let count = policies.len();
    match random.below(3) {
        0 if count > 0 => spare.push(policies.swap_remove(random.below(count))),
        1 if !spare.is_empty() => policies.push(spare.swap_remove(random.below(spare.len()))),
        _ => {
            let other = random.pick(&policies).map(|it| (it.rules.clone(), it.isolates));
            let one = policies.get_mut(random.below(count.max(1))).map(Arc::make_mut);
            if let (Some(one), Some((rules, isolates))) = (one, other) {
                *one = Policy { rules, isolates, ..one.clone() };
            }
        }
    }
    model.policies = policies.into_iter().collect();
    model.policies.sort_by(Policy::in_order);
}

/// Changes one pod, or two that have to do with each other, or a policy.
fn change(model: &mut Model, spare: &mut Vec<Arc<Policy>>, number: usize, random: &mut Random) {
    let count = model.endpoints.len();
    let nodes = model.nodes.len();
    let new = replica(model, number, random);
    let pods: Vec<EndpointId> = model.endpoints.ids().collect();
    let (Some(id), Some(other)) = (random.pick(&pods).copied(), random.pick(&pods).copied()) else { return };
    let Some(other) = model.endpoint(other).cloned() else { return };
    let what = random.below(24);
    if (8..12).contains(&what) && what != 9 {
        return change_policies(model, spare, random);
    }
    let Some(pod) = model.endpoints.get_mut(id) else { return };
    match what {
        0 | 1 if count > 3 => drop(model.endpoints.remove(id)),
        2 => pod.node = Some(NodeId(random.below(nodes.max(1)))),
        3 => pod.labels = other.labels,
        4 => pod.addresses.clear(),
        5 if number.is_multiple_of(4) => pod.addresses = other.addresses,
        6 => pod.readiness = if pod.readiness == Readiness::Ready { Readiness::NotReady } else { Readiness::Ready },
        7 => pod.running = if pod.running == Running::Yes { Running::NotSaid } else { Running::Yes },
        9 if number.is_multiple_of(4) => {
            let name = pod.name.namespace.clone();
            let namespace = model.namespaces.entry(name).or_default();
            namespace.labels.set("team", if number.is_multiple_of(2) { "a" } else { "b" });
        }
        _ => {
            // A new pod gets a slot that is free, or one behind all others.
            let free = (0..=model.endpoints.slot_count()).map(EndpointId).filter(|it| model.endpoint(*it).is_none());
            let free: Vec<EndpointId> = free.collect();
            random.pick(&free).into_iter().for_each(|it| drop(model.endpoints.set(*it, new.clone().map(Arc::new))));
        }
    }
}

#[test]
fn changes_come_to_what_is_lowered_at_once() {
    let mut ways = Ways::default();
    for seed in 0..CLUSTERS {
        let (mut random, mut spare) = (Random::new(seed), Vec::new());
        let (mut model, mut lowering) = (model(seed), Lowering::new(Layout::CURRENT));
        let (mut before, mut planned) = (Model::default(), Arc::new(Ruleset::default()));
        for number in 0..CHANGES {
            let view = view(&model, seed);
            let when = format!("seed {seed}, change {number}");
            let (ruleset, worked) = assert_follows(&mut lowering, (&before, &model), &view, &when);
            ways.count(Some(worked));
            assert_eq!(plan(&planned, &ruleset), plan_whole(&planned, &ruleset), "{when}, {worked:?}");
            planned = ruleset;
            before = model.clone();
            let steps = if random.below(4) == 0 { 3 } else { 1 };
            (0..steps).for_each(|step| change(&mut model, &mut spare, number * 3 + step, &mut random));
        }
    }
    let Ways { anew, by_elements, nothing_to_do } = ways;
    assert!(anew > 300 && by_elements > 300 && nothing_to_do > 100, "{ways:?}");
}

#[test]
fn audits_of_changes_are_what_is_audited_at_once() {
    let mut ways = Ways::default();
    for seed in 0..CLUSTERS {
        let (mut random, mut spare) = (Random::new(seed), Vec::new());
        let (objects, _) = put_into_audit(&generate(seed).objects, &mut random);
        let (mut model, mut auditing) = (snapshot_with_networks("cluster.json", &objects.to_json()).model, Auditing::default());
        let mut before = Model::default();
        for number in 0..CHANGES {
            let (updated, worked) = auditing.update(&model, &between(&before, &model), NodeId(0)).unzip();
            let fresh = audit(&model, NodeId(0), &mut Ids::default());
            let [left, right] = [updated.as_deref(), fresh.as_ref()].map(|it| it.map(|it| it.ruleset.clone()).unwrap_or_default());
            assert!(updated.as_deref() == fresh.as_ref(), "seed {seed}, change {number}, {worked:?}\n{}", differences(&left, &right));
            ways.count(worked);
            before = model.clone();
            change(&mut model, &mut spare, number, &mut random);
        }
    }
    let Ways { anew, by_elements, nothing_to_do } = ways;
    assert!(anew > 300 && by_elements > 100 && nothing_to_do > 100, "{ways:?}");
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
    let mut live = Incremental::of_model(without.clone(), 0);
    let mut before = live.model().clone();
    assert_follows(&mut lowering, (&Model::default(), &before), &view, "at first");
    for (model, when) in [(&with, "one more"), (&without, "one less")] {
        live.follow(model);
        let (_, worked) = assert_follows(&mut lowering, (&before, live.model()), &view, &format!("{when}: {more}"));
        before = live.model().clone();
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
    // Pods elsewhere whose cell has other addresses, whatever their labels are.
    check(&pods, &pod("w9", "web", "two", "10.0.2.2"), Worked::ByElements);
    check(&pods, &pod("w9", "web", "two", "10.0.2.10"), Worked::ByElements);
    check(&pods, &pod("n9", "new", "two", "10.0.2.2"), Worked::ByElements);
    check(&pods, &pod("d9", "db", "two", "10.0.2.3"), Worked::ByElements);
    // No other pod with these labels has an address in that block.
    check(&pods, &pod("n9", "new", "two", "10.0.2.10"), Worked::Anew);
    // A pod of the node has programs.
    check(&pods, &pod("a9", "db", "one", "10.0.1.3"), Worked::Anew);
    // Two claim one address.
    check(&pods, &pod("z9", "web", "two", "10.0.2.1"), Worked::NothingToDo);
    check(&pods, &pod("a9", "web", "two", "10.0.1.9"), Worked::Anew);
    check(&pods, &pod("w9", "web", "two", "192.168.0.2"), Worked::Anew);
}

/// A cluster in which node `one` has `shop/d1` and node `two` has `shop/w1` and `bank/t1`. Each edit replaces one text in it.
const EDITED: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bank, labels: {team: bank, floor: first}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: bank, name: t1, labels: {app: till}}, spec: {nodeName: two, containers: [{name: m, image: i}]},
 status: {podIP: 10.0.3.1}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: bank, name: till}, spec: {podSelector: {},
 ingress: [{from: [{namespaceSelector: {matchLabels: {floor: first}}}], ports: [{port: 443}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: web}, spec: {podSelector: {matchLabels: {app: web}},
 ingress: [{ports: [{port: 80}]}]}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 7,
 subject: {namespaces: {matchLabels: {team: shop}}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: thieves}}}]}]}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: others}, spec: {tier: Admin, priority: 8,
 subject: {namespaces: {matchLabels: {team: bank}}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: shop}}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: draft, annotations: {palisade.dev/mode: audit},
 labels: {networking.k8s.io/policy-controller-name: palisade}}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 22}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: bank, name: draft, annotations: {palisade.dev/mode: audit},
 labels: {networking.k8s.io/policy-controller-name: palisade}}, spec: {podSelector: {}, ingress: [{ports: [{port: 23}]}]}}
";

#[test]
fn a_node_works_only_for_policies_that_apply_to_its_pods() {
    use Worked::{Anew, NothingToDo};
    let pods = [pod("d1", "db", "one", "10.0.1.1"), pod("w1", "web", "two", "10.0.2.1")];
    let read = |edited: &str| snapshot("cluster.yaml", &[CLUSTER, edited, &pods.join("\n---\n")].join("\n---\n")).model;
    let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
    let edits = [
        ("a NetworkPolicy of another namespace", "port: 443", "port: 444", [NothingToDo, NothingToDo]),
        ("a NetworkPolicy for pods on another node", "port: 80", "port: 81", [NothingToDo, NothingToDo]),
        ("a NetworkPolicy that comes to select a pod of the node", "matchLabels: {app: web}}", "matchLabels: {app: db}}", [Anew, Anew]),
        ("a cluster policy for another namespace", "priority: 8", "priority: 9", [NothingToDo, NothingToDo]),
        ("a cluster policy that selects a pod of the node", "priority: 7", "priority: 6", [Anew, Anew]),
        ("an audited policy that selects a pod of the node", "port: 22", "port: 24", [NothingToDo, Anew]),
        ("an audited policy of another namespace", "port: 23", "port: 24", [NothingToDo, NothingToDo]),
        ("a label that only policies elsewhere select by", "floor: first", "floor: second", [NothingToDo, NothingToDo]),
        ("a label with another value that no selector asks for", "{team: bank, ", "{team: till, ", [NothingToDo, NothingToDo]),
        ("a label by which a policy selects peers of the node", "{team: bank, ", "{team: thieves, ", [Anew, Anew]),
    ];
    for (what, from, to, expected) in edits {
        assert!(EDITED.contains(from), "{what}");
        let (before, after) = (read(EDITED), read(&EDITED.replacen(from, to, 1)));
        assert!(before != after, "{what}");
        let (mut lowering, mut auditing) = (Lowering::default(), Auditing::default());
        assert_follows(&mut lowering, (&Model::default(), &before), &view, what);
        auditing.audit(&before, view.node);
        for (old, model) in [(&before, &after), (&after, &before)] {
            let (_, worked) = assert_follows(&mut lowering, (old, model), &view, what);
            let (followed, audited) = auditing.update(model, &between(old, model), view.node).unwrap();
            assert_eq!(Some(&*followed), audit(model, view.node, &mut Ids::default()).as_ref(), "{what}");
            assert_eq!([worked, audited], expected, "{what}");
        }
    }
}

/// Two questions that are asked one after the other have the same id inside.
#[test]
fn a_question_that_no_policy_asks_any_more_leaves_no_answer_behind() {
    let pods = [
        pod("d1", "db", "one", "10.0.1.1"),
        pod("w1", "web", "two", "10.0.2.1"),
        pod("w2", "web", "two", "10.0.2.9"),
        pod("c1", "cache", "two", "10.0.2.2"),
        pod("c2", "cache", "two", "10.0.2.10"),
    ];
    let peers = ["podSelector: {matchLabels: {app: web}}", "podSelector: {matchLabels: {app: cache}}", "ipBlock: {cidr: 10.0.2.2/32}"];
    let read = |from: &str, to: &str| snapshot("cluster.yaml", &[CLUSTER.replace(from, to), pods.join("\n---\n")].join("\n---\n")).model;
    let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
    let (mut lowering, mut before) = (Lowering::default(), Model::default());
    for peer in [peers[0], peers[1], peers[0], peers[2], peers[1], peers[2], peers[0]] {
        // The policy is without this rule in between, so that the id is free.
        for model in
            [read(peers[0], peer), read("from: [{podSelector: {matchLabels: {app: web}}}], ", "from: [{ipBlock: {cidr: 10.9.0.0/16}}], ")]
        {
            assert_follows(&mut lowering, (&before, &model), &view, peer);
            before = model;
        }
    }
}
