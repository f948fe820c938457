//! The clusters that are measured: NetworkPolicies of ordinary shape, all of which select pods of the measured node.
//!
//! Every policy gives one peer group one range of ports of one workload; one more policy for each direction opens [`OPEN`] to everyone in
//! the namespace. Traffic goes to `OPEN`, or to nothing that any policy names, so that no shorter way is taken than the longest.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::{
    Action, Endpoint, EndpointId, Family, LabelSelector, Model, Namespace, NamespaceSet, NetworkId, Node, NodeId, Operator, Peer, PeerSet,
    PerDirection, PodName, Policy, PolicyKind, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, Readiness, Requirement, Rule, Running,
    Shape, Slots, Subject, Tier,
};

/// Pods of the node, the first half of them behind the client's link, the others behind the server's.
pub(super) const LOCAL: usize = 110;
pub(super) const CALLERS: usize = LOCAL / 2;
/// Replicas share labels, and so all that policy sees.
pub(super) const WORKLOADS: usize = 22;
/// Open to every pod, by the policies that come last.
pub(super) const OPEN: (u16, u16) = (7000, 7999);
/// Local pods that call others: a /24 and a /112.
pub(super) const CALLER_NETS: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 3, 0, 0), Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 0));
/// Local pods that are called: the same.
pub(super) const SERVER_NETS: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 2, 0, 0), Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 0));
/// Pods of other nodes: a /9 and a /64.
pub(super) const REMOTE_NETS: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 128, 0, 0), Ipv6Addr::new(0xfd00, 128, 0, 0, 0, 0, 0, 0));
/// What no policy opens to a caller, UDP only. Egress is open to it, so that the called pod's program denies.
pub(super) const CLOSED: u16 = 9999;
const NAMESPACE: &str = "shop";
pub(super) const NODE: NodeId = NodeId(0);

/// What a cluster is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) policies: usize,
    /// Pods of other nodes.
    pub(super) remote: usize,
    /// Groups of them that policies tell apart.
    pub(super) groups: usize,
    pub(super) types: PolicyTypes,
    pub(super) stack: Stack,
}

/// The directions in which the policies isolate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyTypes {
    Ingress,
    IngressAndEgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    V4,
    Dual,
}

/// One policy in the words that other rulesets are written in: whoever is in the group may reach the workload at the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) workload: usize,
    pub(super) group: usize,
    pub(super) ports: (u16, u16),
}

impl Size {
    /// What the policies say, in their order.
    pub(super) fn grants(self) -> impl Iterator<Item = Grant> {
        (0..self.policies).map(move |number| {
            let (workload, turn) = (number % WORKLOADS, number / WORKLOADS);
            // A large prime, so that neighbours in the list are no neighbours in the network.
            let group = (turn * 7919 + workload) % self.groups;
            let ports = [(1000, 1099), (1100, 1199), (1200, 1299)];
            let ports = ports.get(turn / self.groups % ports.len()).copied().unwrap_or(OPEN);
            Grant { workload, group, ports }
        })
    }

    /// The cluster, with its pods' addresses at [`local`] and [`remote`].
    pub(super) fn model(self) -> Model {
        self.model_open_to(OPEN.1)
    }

    /// The same where the last policy does not open all of [`OPEN`], but up to this port.
    pub(super) fn model_open_to(self, last: u16) -> Model {
        let mut endpoints: Slots<EndpointId, Endpoint> = (0..LOCAL).map(|at| self.local_pod(at)).collect();
        endpoints.extend((0..self.remote).map(|at| self.remote_pod(at)));
        let mut policies: Vec<Policy> = self.grants().enumerate().map(|(at, grant)| self.policy(at, grant)).collect();
        policies.push(self.last_policy((OPEN.0, last)));
        let namespace = Namespace { labels: [("kubernetes.io/metadata.name", NAMESPACE)].into_iter().collect(), assumed: false };
        let node = |name: &str, last| Node {
            name: name.into(),
            labels: [("kubernetes.io/hostname", name)].into_iter().collect(),
            addresses: vec![Ipv4Addr::new(192, 168, 0, last).into()],
            host_pods: Vec::new(),
            assumed: false,
        };
        let mut model = Model {
            namespaces: BTreeMap::from([(NAMESPACE.into(), namespace)]),
            endpoints,
            nodes: [node("node-a", 1), node("node-b", 2)].into(),
            services: Vec::new(),
            policies: policies.into(),
            pod_ranges: Vec::new(),
            node_ranges: Vec::new(),
            completed: Vec::new(),
            ..Model::default()
        };
        // As whoever reads objects does.
        model.share_labels();
        model
    }

    /// The pod at a place of the node. One more than there are is one more replica.
    pub(super) fn local_pod(self, at: usize) -> Endpoint {
        let label = ("app", format!("w-{}", at % WORKLOADS));
        self.pod(format!("local-{at:06}"), label, NODE, |family| local(at, family))
    }

    pub(super) fn remote_pod(self, at: usize) -> Endpoint {
        let label = ("group", format!("g-{}", at % self.groups));
        self.pod(format!("remote-{at:06}"), label, NodeId(1), |family| remote(at, family))
    }

    fn pod(self, name: String, label: (&str, String), node: NodeId, address: impl Fn(Family) -> IpAddr) -> Endpoint {
        let addresses = match self.stack {
            Stack::V4 => vec![address(Family::V4)],
            Stack::Dual => vec![address(Family::V4), address(Family::V6)],
        };
        Endpoint {
            attachment: None,
            name: PodName { namespace: NAMESPACE.into(), name: name.into() },
            labels: [label].into_iter().collect(),
            addresses,
            node: Some(node),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running: Running::Yes,
        }
    }

    fn policy(self, at: usize, grant: Grant) -> Policy {
        let peers = PeerSet::Of(vec![pods(equals("group", format!("g-{}", grant.group)))]);
        let rule = accept(peers, numbers(PortProtocol::Tcp, grant.ports).collect());
        let subject = equals("app", format!("w-{}", grant.workload));
        self.network_policy(format!("p-{at:06}"), subject, PerDirection { egress: rule.clone(), ingress: rule })
    }

    fn last_policy(self, open: (u16, u16)) -> Policy {
        let peers = PeerSet::Of(vec![pods(LabelSelector::default())]);
        let ingress: Vec<PortMatch> = numbers(PortProtocol::Tcp, open).chain(numbers(PortProtocol::Udp, open)).collect();
        let egress = ingress.iter().cloned().chain(numbers(PortProtocol::Udp, (CLOSED, CLOSED))).collect();
        let rules = PerDirection { egress: accept(peers.clone(), egress), ingress: accept(peers, ingress) };
        self.network_policy("z-open".to_owned(), LabelSelector::default(), rules)
    }

    fn network_policy(self, name: String, subject: LabelSelector, rules: PerDirection<Rule>) -> Policy {
        let (isolates, egress) = match self.types {
            PolicyTypes::Ingress => (false, Vec::new()),
            PolicyTypes::IngressAndEgress => (true, vec![rules.egress]),
        };
        Policy {
            network: NetworkId::DEFAULT,
            origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(NAMESPACE.into()), name: name.into() },
            tier: Tier::NetworkPolicy,
            rank: 0,
            subject: Subject::Pods { namespaces: NamespaceSet::Own(NAMESPACE.into()), pods: subject },
            shape: Shape::Only,
            isolates: PerDirection { egress: isolates, ingress: true },
            rules: PerDirection { egress, ingress: vec![rules.ingress] },
        }
    }
}

fn numbers(protocol: PortProtocol, (first, last): (u16, u16)) -> impl Iterator<Item = PortMatch> {
    Ports::range(first, last).into_iter().map(move |ports| PortMatch::Numbers { protocol, ports })
}

/// The address of a pod of the node.
pub(super) fn local(at: usize, family: Family) -> IpAddr {
    nth(if at < CALLERS { CALLER_NETS } else { SERVER_NETS }, at, family)
}

/// Whether an address is one of the called pods'.
pub(super) fn is_called(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => it.to_bits() >> 8 == SERVER_NETS.0.to_bits() >> 8,
        IpAddr::V6(it) => it.to_bits() >> 16 == SERVER_NETS.1.to_bits() >> 16,
    }
}

/// The address of a pod elsewhere.
pub(super) fn remote(at: usize, family: Family) -> IpAddr {
    nth(REMOTE_NETS, at, family)
}

/// An address of a network, never its first one.
fn nth((four, six): (Ipv4Addr, Ipv6Addr), at: usize, family: Family) -> IpAddr {
    let at = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
    match family {
        Family::V4 => Ipv4Addr::from_bits(four.to_bits() | at).into(),
        Family::V6 => Ipv6Addr::from_bits(six.to_bits() | u128::from(at)).into(),
    }
}

fn accept(peers: PeerSet, ports: Vec<PortMatch>) -> Rule {
    Rule { index: 0, name: None, action: Action::Accept, peers, ports: PortSet::Of(ports), fail_closed: None }
}

fn pods(pods: LabelSelector) -> Peer {
    Peer::Pods { namespaces: NamespaceSet::Own(NAMESPACE.into()), pods }
}

fn equals(key: &str, value: String) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: key.into(), operator: Operator::Equals(value.into()) }] }
}
