//! The cluster that a soak changes: a value, and the same for the same seed.
//!
//! Two nodes, on each the pods `a`, `b`, `c` and a guest `g` that comes and goes. Policies speak of the labels `app` and `tier`; of `part` only the
//! policy that splits a class. A few policies are fixed in form and change in one point: those of swaps, moves, splits and networks.

use std::collections::BTreeMap;

use palisade_model::{
    Action, Endpoint, LabelSelector, Labels, Model, Namespace, NamespaceSet, NetworkId, Node, NodeId, Operator, Peer, PeerSet,
    PerDirection, PodName, Policy, PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Readiness, Requirement, Rule, Running,
    Shape, Subject, Tier,
};

pub(crate) const NAMESPACE: &str = "soak";
pub(crate) const NODES: [&str; 2] = ["soak-1", "soak-2"];
pub(crate) const APPS: [&str; 4] = ["a", "b", "c", "g"];
/// The app of the pods that come and go.
pub(crate) const GUEST: &str = "g";
pub(crate) const TIERS: [&str; 2] = ["x", "y"];

/// Ports that random policies speak of.
pub(crate) const COMMON: [u16; 2] = [7_000, 7_001];
/// From `a` to `b`: denied to the pods of one tier.
pub(crate) const MOVED: u16 = 7_002;
/// From `a` to `b`: denied by egress or by ingress, in the Admin tier.
pub(crate) const SWAPPED: u16 = 7_003;
/// The same with NetworkPolicies.
pub(crate) const SWAPPED_ISOLATION: u16 = 7_004;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) pods: Vec<Pod>,
    /// By name.
    pub(crate) policies: BTreeMap<Box<str>, Policy>,
    pub(crate) swap: Held,
    pub(crate) isolation: Held,
    /// The tier that is denied.
    pub(crate) denied: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: PodName,
    pub(crate) node: NodeId,
    pub(crate) app: &'static str,
    pub(crate) labels: Labels,
    pub(crate) presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    Gone,
}

/// Which direction holds back what the other lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    ByEgress,
    ByIngress,
}

impl Held {
    pub(crate) fn other(self) -> Held {
        match self {
            Held::ByEgress => Held::ByIngress,
            Held::ByIngress => Held::ByEgress,
        }
    }
}

impl World {
    /// Everybody is here, and nothing random is in force.
    pub(crate) fn first() -> World {
        let mut world =
            World { pods: Vec::new(), policies: BTreeMap::new(), swap: Held::ByEgress, isolation: Held::ByIngress, denied: "x" };
        for (at, number) in [1, 2].into_iter().enumerate() {
            for app in APPS {
                let part = if at == 0 { "one" } else { "two" };
                let tier = if at == 0 { "x" } else { "y" };
                world.pods.push(Pod {
                    name: PodName { namespace: NAMESPACE.into(), name: format!("{app}{number}").into() },
                    node: NodeId(at),
                    app,
                    labels: Labels::from_iter([("app", app), ("tier", tier), ("part", part)]),
                    presence: Presence::Here,
                });
            }
        }
        world.settle();
        world
    }

    /// Writes the policies of swaps and moves as the fields say.
    pub(crate) fn settle(&mut self) {
        let [out, inside] = match self.swap {
            Held::ByEgress => [Action::Deny, Action::Accept],
            Held::ByIngress => [Action::Accept, Action::Deny],
        };
        let udp = |port| only(PortProtocol::Udp, Ports::one(port));
        self.set(cluster("swap-egress", Tier::Admin, 0, app("a"), [vec![rule(0, out, pods(app("b")), udp(SWAPPED))], vec![]]));
        self.set(cluster("swap-ingress", Tier::Admin, 0, app("b"), [vec![], vec![rule(0, inside, pods(app("a")), udp(SWAPPED))]]));
        let denied = rule(0, Action::Deny, pods(is("tier", self.denied)), udp(MOVED));
        let accepted = rule(1, Action::Accept, pods(is("tier", other_tier(self.denied))), udp(MOVED));
        self.set(cluster("move", Tier::Admin, 1, app("b"), [vec![], vec![denied, accepted]]));
        let [out, inside] = match self.isolation {
            Held::ByEgress => [SWAPPED_ISOLATION, u16::MAX],
            Held::ByIngress => [u16::MAX, SWAPPED_ISOLATION],
        };
        let open = |but: u16| rule(0, Action::Accept, PeerSet::Any, all_but(but));
        self.set(network("swap-egress", app("a"), [Some(vec![open(out)]), None]));
        self.set(network("swap-ingress", app("b"), [None, Some(vec![open(inside)])]));
    }

    pub(crate) fn set(&mut self, policy: Policy) {
        self.policies.insert(policy.origin.to_string().into(), policy);
    }

    /// As policy sees it. Nobody has an address yet.
    pub(crate) fn model(&self) -> Model {
        let namespace = Namespace { labels: Labels::from_iter([("name", NAMESPACE)]), assumed: false };
        let endpoint = |pod: &Pod| Endpoint {
            attachment: None,
            name: pod.name.clone(),
            labels: pod.labels.clone(),
            addresses: Vec::new(),
            node: Some(pod.node),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running: Running::Yes,
        };
        let node = |name: &str| Node {
            name: name.into(),
            labels: Labels::default(),
            addresses: Vec::new(),
            host_pods: Vec::new(),
            assumed: false,
        };
        Model {
            namespaces: BTreeMap::from([(NAMESPACE.into(), namespace)]),
            endpoints: self.pods.iter().filter(|it| it.presence == Presence::Here).map(endpoint).collect(),
            nodes: NODES.into_iter().map(node).collect(),
            policies: self.policies.values().cloned().collect(),
            ..Model::default()
        }
    }
}

pub(crate) fn other_tier(tier: &str) -> &'static str {
    if tier == "x" { "y" } else { "x" }
}

pub(crate) fn is(key: &str, value: &str) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: key.into(), operator: Operator::Equals(value.into()) }] }
}

pub(crate) fn app(name: &str) -> LabelSelector {
    is("app", name)
}

pub(crate) fn pods(selector: LabelSelector) -> PeerSet {
    PeerSet::Of(vec![Peer::Pods { namespaces: NamespaceSet::Own(NAMESPACE.into()), pods: selector }])
}

pub(crate) fn only(protocol: PortProtocol, ports: Ports) -> PortSet {
    PortSet::Of(vec![PortMatch::Numbers { protocol, ports }])
}

/// All of TCP, and all of UDP but one port.
fn all_but(port: u16) -> PortSet {
    let below = Ports::range(0, port.saturating_sub(1));
    let above = port.checked_add(1).and_then(|it| Ports::range(it, u16::MAX));
    let udp = below.into_iter().chain(above).map(|ports| PortMatch::Numbers { protocol: PortProtocol::Udp, ports });
    PortSet::Of(udp.chain([PortMatch::Numbers { protocol: PortProtocol::Tcp, ports: Ports::ALL }]).collect())
}

pub(crate) fn rule(index: usize, action: Action, peers: PeerSet, ports: PortSet) -> Rule {
    Rule { index, name: None, action, peers, ports, fail_closed: None }
}

/// A cluster policy about pods of the namespace, with its rules for egress and ingress.
pub(crate) fn cluster(name: &str, tier: Tier, rank: i64, subject: LabelSelector, [egress, ingress]: [Vec<Rule>; 2]) -> Policy {
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: name.into() },
        shape: Shape::Only,
        tier,
        rank,
        subject: Subject::Pods { namespaces: NamespaceSet::Own(NAMESPACE.into()), pods: subject },
        isolates: PerDirection::default(),
        rules: PerDirection { egress, ingress },
    }
}

/// A NetworkPolicy, with its rules for egress and ingress where it isolates.
pub(crate) fn network(name: &str, subject: LabelSelector, [egress, ingress]: [Option<Vec<Rule>>; 2]) -> Policy {
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(NAMESPACE.into()), name: name.into() },
        shape: Shape::Only,
        tier: Tier::NetworkPolicy,
        rank: 0,
        subject: Subject::Pods { namespaces: NamespaceSet::Own(NAMESPACE.into()), pods: subject },
        isolates: PerDirection { egress: egress.is_some(), ingress: ingress.is_some() },
        rules: PerDirection { egress: egress.unwrap_or_default(), ingress: ingress.unwrap_or_default() },
    }
}
