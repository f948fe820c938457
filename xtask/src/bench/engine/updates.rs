//! One object changes in a cluster that is compiled: what that costs, by kind of change.

use palisade_engine::{Change, Compiled};
use palisade_model::{
    Endpoint, IpBlock, LabelSelector, Labels, Model, NamespaceSet, Operator, Peer, PeerSet, PodName, Policy, PortMatch, PortProtocol,
    PortSet, Ports, Requirement, Rule, Subject,
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
    let mut kind = |name, changes: Vec<[Change<'_>; 2]>| {
        let mut measured = Kind { name, took: Vec::new(), most_pods: 0 };
        for both in changes {
            for change in both {
                let (took, pods) = clock(&mut || compiled.update(change).len());
                measured.took.push(took);
                measured.most_pods = measured.most_pods.max(pods);
            }
        }
        kinds.push(measured);
    };
    let pods: Vec<Endpoint> = (0..times * 10).filter_map(|at| new_pod(model, at, &mut random)).collect();
    kind("a pod comes, goes", pods.iter().map(|pod| [Change::Pod { pod, node: None }, Change::PodGone(&pod.name)]).collect());
    let old: Vec<&Policy> = (0..times).filter_map(|_| network_policy(model, &mut random)).collect();
    for (name, edit) in EDITS {
        let new: Vec<Policy> = old.iter().enumerate().map(|(at, it)| edited(it, edit(at))).collect();
        kind(name, new.iter().zip(&old).map(|(new, old)| [Change::Policy(new), Change::Policy(old)]).collect());
    }
    kind("a NetworkPolicy goes, comes", old.iter().map(|it| [Change::PolicyGone(&it.origin), Change::Policy(it)]).collect());
    let names: Vec<&str> = model.namespaces.keys().map(AsRef::as_ref).collect();
    let picked: Vec<&str> = (0..times).filter_map(|_| random.pick(&names).copied()).collect();
    let relabelled: Vec<Labels> = picked
        .iter()
        .map(|name| [("kubernetes.io/metadata.name", *name), ("team", "team-7"), ("env", "prod")].into_iter().collect())
        .collect();
    let changes = picked.iter().zip(&relabelled);
    kind(
        "a namespace gets other labels",
        changes.map(|(name, labels)| [Change::Namespace(name, labels), Change::Namespace(name, model.namespace_labels(name))]).collect(),
    );
    let cluster: Vec<&Policy> = model.policies.iter().filter(|it| it.origin.namespace.is_none()).take(times).collect();
    let new: Vec<Policy> = cluster.iter().map(|it| edited(it, Edit::Ports(9000))).collect();
    kind("a cluster policy: another port", new.iter().zip(&cluster).map(|(new, old)| [Change::Policy(new), Change::Policy(old)]).collect());
    let new: Vec<Policy> = cluster.iter().map(|it| edited(it, Edit::Subject)).collect();
    kind(
        "a cluster policy: another subject",
        new.iter().zip(&cluster).map(|(new, old)| [Change::Policy(new), Change::Policy(old)]).collect(),
    );
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

/// A pod like one that is there.
fn new_pod(model: &Model, at: usize, random: &mut Random) -> Option<Endpoint> {
    let like = model.endpoints.get(random.below(model.endpoints.len()))?;
    let name = PodName { namespace: like.name.namespace.clone(), name: format!("new-{at}").into() };
    let address = std::net::Ipv4Addr::from(0x0ac8_0000 + u32::try_from(at).ok()?);
    let mut labels: Vec<(String, String)> = like.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    labels.retain(|(key, _)| key != "pod-template-hash");
    labels.push(("pod-template-hash".to_owned(), format!("new{at}")));
    let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Some(Endpoint { name, labels, addresses: vec![address.into()], ..like.clone() })
}

fn network_policy<'a>(model: &'a Model, random: &mut Random) -> Option<&'a Policy> {
    let policies: &[Policy] = &model.policies;
    (0..100).filter_map(|_| random.pick(policies)).find(|it| it.origin.namespace.is_some())
}
