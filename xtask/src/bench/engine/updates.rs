//! One object changes in a cluster that is compiled: what that costs, by kind of change.

use std::sync::Arc;

use palisade_engine::Compiled;
use palisade_model::{
    Changes, Delta, Endpoint, EndpointId, IpBlock, LabelSelector, Model, Namespace, NamespaceSet, Operator, Peer, PeerSet, PodName, Policy,
    PortMatch, PortProtocol, PortSet, Ports, Requirement, Rule, Subject,
};
use palisade_testkit::random::Random;

/// What was measured of one kind of change: how long each took, and how many pods the largest moved.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) took: Vec<f64>,
    pub(super) most_pods: usize,
}

/// Seconds that something took, and what it came to.
type Clock<'a> = &'a dyn Fn(&mut dyn FnMut() -> usize) -> (f64, usize);

/// Changes of every kind, each undone after it was measured.
pub(super) fn measure(model: &Model, compiled: &mut Compiled, times: usize, clock: Clock<'_>) -> Vec<Kind> {
    let mut random = Random::new(7);
    let mut kinds = Vec::new();
    let mut kind = |name, changes: Vec<[Changes; 2]>| {
        let mut measured = Kind { name, took: Vec::new(), most_pods: 0 };
        for both in changes {
            for change in both {
                let (took, pods) = clock(&mut || compiled.update(&change).len());
                measured.took.push(took);
                measured.most_pods = measured.most_pods.max(pods);
            }
        }
        kinds.push(measured);
    };
    let free = EndpointId(model.endpoints.slot_count());
    let pods: Vec<Arc<Endpoint>> = (0..times * 10).filter_map(|at| new_pod(model, at, &mut random)).map(Arc::new).collect();
    kind("a pod comes, goes", pods.iter().map(|pod| there_and_back(free, None, Some(pod))).collect());
    let old: Vec<Arc<Policy>> = (0..times).filter_map(|_| network_policy(model, &mut random)).cloned().map(Arc::new).collect();
    let replaced = |old: &Arc<Policy>, new: Policy| there_and_back(old.key(), Some(old), Some(&Arc::new(new)));
    for (name, edit) in EDITS {
        kind(name, old.iter().enumerate().map(|(at, it)| replaced(it, edited(it, edit(at)))).collect());
    }
    kind("a NetworkPolicy goes, comes", old.iter().map(|it| there_and_back(it.key(), Some(it), None)).collect());
    let names: Vec<&str> = model.namespaces.keys().map(AsRef::as_ref).collect();
    let picked: Vec<&str> = (0..times).filter_map(|_| random.pick(&names).copied()).collect();
    let relabelled = |name: &str| {
        let labels = [("kubernetes.io/metadata.name", name), ("team", "team-7"), ("env", "prod")].into_iter().collect();
        let old = model.namespaces.get(name).cloned().map(Arc::new);
        there_and_back(name.into(), old.as_ref(), Some(&Arc::new(Namespace { labels, assumed: false })))
    };
    kind("a namespace gets other labels", picked.iter().map(|it| relabelled(it)).collect::<Vec<[Changes; 2]>>());
    let cluster = model.policies.iter_shared().filter(|it| it.origin.namespace.is_none()).take(times);
    let cluster: Vec<&Arc<Policy>> = cluster.collect();
    kind("a cluster policy: another port", cluster.iter().map(|it| replaced(it, edited(it, Edit::Ports(9000)))).collect());
    kind("a cluster policy: another subject", cluster.iter().map(|it| replaced(it, edited(it, Edit::Subject))).collect());
    kinds
}

/// What is done to a policy.
enum Edit {
    /// Its first rule is about this port.
    Ports(u16),
    /// Its first rule lets somebody else in, besides.
    Peer(Peer),
    Subject,
}

/// An edit by its name, made for the change of a number.
type Named = (&'static str, fn(usize) -> Edit);

const EDITS: [Named; 6] = [
    ("a NetworkPolicy: another port", |at| Edit::Ports(u16::try_from(9000 + at).unwrap_or(9000))),
    ("a NetworkPolicy: a peer with a label nobody asked for", |at| {
        let value = format!("{:x}", u32::try_from(at).unwrap_or(0).wrapping_mul(0x9e37_79b9));
        Edit::Peer(pods(LabelSelector::default(), selector("pod-template-hash", Operator::Equals(value.into()))))
    }),
    ("a NetworkPolicy: a peer by what it is not", |at| {
        Edit::Peer(pods(
            selector("team", Operator::NotIn(vec![format!("team-{}", at % 50).into()])),
            selector("app", Operator::Equals("app-1".into())),
        ))
    }),
    ("a NetworkPolicy: a new block of 256 pods", |at| {
        let cidr = format!("10.{}.{}.0/24", 128 + at % 2, at % 97).parse();
        Edit::Peer(Peer::Networks(cidr.into_iter().map(IpBlock::whole).collect()))
    }),
    ("a NetworkPolicy: a peer that two in three pods of a team are", |at| {
        let team = selector("team", Operator::Equals(format!("team-{}", at % 50).into()));
        Edit::Peer(pods(team, selector("tier", Operator::NotIn(vec!["front".into(), format!("nobody-{at}").into()]))))
    }),
    ("a NetworkPolicy: a peer that half of all pods are", |at| {
        let not = Operator::NotIn(vec![format!("nobody-{at}").into()]);
        let front = Requirement { key: "tier".into(), operator: Operator::Equals("front".into()) };
        let besides = Requirement { key: "app".into(), operator: not };
        Edit::Peer(pods(LabelSelector::default(), LabelSelector { requirements: vec![front, besides] }))
    }),
];

fn selector(key: &str, operator: Operator) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: key.into(), operator }] }
}

fn pods(namespaces: LabelSelector, pods: LabelSelector) -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods }
}

fn edited(policy: &Policy, edit: Edit) -> Policy {
    let mut policy = policy.clone();
    let rules = if policy.rules.ingress.is_empty() { &mut policy.rules.egress } else { &mut policy.rules.ingress };
    match (edit, rules.first_mut()) {
        (Edit::Ports(port), Some(rule)) => {
            rule.ports = PortSet::Of(vec![PortMatch::Numbers { protocol: PortProtocol::Tcp, ports: Ports::one(port) }]);
        }
        (Edit::Peer(peer), Some(Rule { peers: PeerSet::Of(peers), .. })) => peers.push(peer),
        (Edit::Subject, _) => {
            let namespaces = NamespaceSet::Matching(selector("env", Operator::Equals("stage".into())));
            policy.subject = Subject::Pods { namespaces, pods: selector("tier", Operator::Equals("front".into())) };
        }
        (Edit::Ports(_) | Edit::Peer(_), _) => {}
    }
    policy
}

/// A change of one object, and the change that undoes it.
fn there_and_back<I: Clone, T>(id: I, old: Option<&Arc<T>>, new: Option<&Arc<T>>) -> [Changes; 2]
where
    Changes: From<Delta<I, T>>,
{
    let delta = |old: Option<&Arc<T>>, new: Option<&Arc<T>>| Delta { id: id.clone(), old: old.cloned(), new: new.cloned() }.into();
    [delta(old, new), delta(new, old)]
}

/// A pod like one that is there.
fn new_pod(model: &Model, at: usize, random: &mut Random) -> Option<Endpoint> {
    let like = model.endpoints.iter().nth(random.below(model.endpoints.len()))?;
    let name = PodName { namespace: like.name.namespace.clone(), name: format!("new-{at}").into() };
    let address = std::net::Ipv4Addr::from(0x0ac8_0000 + u32::try_from(at).ok()?);
    let mut labels: Vec<(String, String)> = like.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.retain(|(key, _)| key != "pod-template-hash");
    labels.push(("pod-template-hash".to_owned(), format!("new{at}")));
    let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Some(Endpoint { name, labels, addresses: vec![address.into()], ..like.clone() })
}

fn network_policy<'a>(model: &'a Model, random: &mut Random) -> Option<&'a Policy> {
    let policies: Vec<&Policy> = model.policies.iter().collect();
    (0..100).filter_map(|_| random.pick(&policies).copied()).find(|it| it.origin.namespace.is_some())
}
