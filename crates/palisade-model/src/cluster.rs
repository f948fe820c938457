//! The cluster as policy sees it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::flow::{End, Place};
use crate::labels::{LabelSelector, Labels};
use crate::network::IpBlock;
use crate::networks::{Attachment, Network, NetworkId, NodeAddresses};
use crate::origin::{PolicyRef, RuleRef};
use crate::policy::{Peer, PeerSet, Policy, PortProtocol};
use crate::shared_list::SharedList;
use crate::slots::{SlotId, Slots};

/// Everything a verdict can depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// By name. Every endpoint's namespace is here.
    pub namespaces: BTreeMap<Box<str>, Namespace>,
    /// Networks that pods are attached to besides the pod network, or that policies are about. In name order likewise.
    // INVARIANT: slot 0, that of the pod network, is free.
    pub networks: Slots<NetworkId, Network>,
    /// Pods that are or may be running, one endpoint for each network. In name order if the model was read at once, or is `canonical`.
    pub endpoints: Slots<EndpointId, Endpoint>,
    /// Nodes, in name order likewise.
    pub nodes: Slots<NodeId, Node>,
    /// Services, in name order.
    pub services: Vec<Service>,
    /// Policies, ordered by tier, rank and name.
    pub policies: SharedList<Policy>,
    /// Where pods have their addresses from. What is there and is nobody's is a pod that is not known yet. Only who enforces policy says so: empty, it is
    /// the outside.
    pub pod_ranges: Vec<IpBlock>,
    /// Where nodes say that their pods have addresses from, in order. They decide nothing before somebody takes them for `pod_ranges`.
    pub node_ranges: Vec<IpNet>,
    /// Pods that have run to their end, in name order. They match nothing; kept so that a question about one can be answered.
    pub completed: Vec<PodName>,
    /// Policies that were read and are for other controllers, in order. They decide nothing; kept so that nothing new is called like one.
    pub foreign: Vec<PolicyRef>,
    /// Rules whose policy wants to have logged what they accept. They decide nothing.
    pub logged: BTreeSet<RuleRef>,
    /// Policies that are watched and not enforced, by the name of their set, each in the order of `policies`. They decide nothing.
    // INVARIANT: none of them is in `policies`.
    pub audited: BTreeMap<Box<str>, Vec<Policy>>,
}

/// A slot in `Model::endpoints`. It names the same endpoint until that endpoint is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub usize);

/// A slot in `Model::nodes`. It names the same node until that node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

impl SlotId for EndpointId {
    fn at(slot: usize) -> EndpointId {
        EndpointId(slot)
    }

    fn slot(self) -> usize {
        self.0
    }
}

impl SlotId for NodeId {
    fn at(slot: usize) -> NodeId {
        NodeId(slot)
    }

    fn slot(self) -> usize {
        self.0
    }
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// Its labels, `kubernetes.io/metadata.name` included.
    pub labels: Labels,
    /// True when no Namespace object was read and it is only assumed to exist, because another object is in it.
    pub assumed: bool,
}

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodName {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod on one network, or what stands for the pods of a workload that were not read one by one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Namespace and name; a workload's endpoint has the workload's name.
    pub name: PodName,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses, the primary one first. Empty where none is known.
    pub addresses: Vec<IpAddr>,
    /// The node it runs on, if known.
    pub node: Option<NodeId>,
    /// The ports its containers and sidecars declare.
    pub ports: Vec<ContainerPort>,
    /// The workloads it belongs to, the outermost first.
    pub owners: Vec<Owner>,
    /// Whether a Service would send it traffic.
    pub readiness: Readiness,
    /// Who has an address that two pods claim.
    pub running: Running,
    /// None on the pod network.
    pub attachment: Option<Arc<Attachment>>,
}

/// Whether a pod says that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Running {
    /// Its phase is Running.
    Yes,
    /// It has another phase, or says nothing.
    NotSaid,
}

/// Whether a Service counts a pod among its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Readiness {
    /// It does, or nothing says otherwise.
    Ready,
    /// The pod says it is not ready.
    NotReady,
    /// The pod is being deleted and still ready: it serves where nobody else does, and is still enforced.
    Terminating,
}

/// A workload that a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind, as the API spells it.
    pub kind: Box<str>,
    /// Its name, in the pod's namespace.
    pub name: Box<str>,
}

/// A declared container port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerPort {
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// Its protocol.
    pub protocol: PortProtocol,
    /// Its number.
    pub port: u16,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: Labels,
    /// All its addresses.
    pub addresses: Vec<IpAddr>,
    /// The pods that use its network. They are neither subjects nor selector peers.
    pub host_pods: Vec<HostPod>,
    /// True when no Node object was read and it is only known because a pod runs there.
    pub assumed: bool,
}

/// A pod on its node's network. Policy sees the node; only a Service sees the pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPod {
    /// Namespace and name.
    pub name: PodName,
    /// Its labels.
    pub labels: Labels,
    /// The ports its containers declare.
    pub ports: Vec<ContainerPort>,
    /// Whether a Service would send it traffic.
    pub readiness: Readiness,
    /// The workloads it belongs to, the outermost first.
    pub owners: Vec<Owner>,
}

/// A Service, as kube-proxy reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// How its clients reach it.
    pub reached: Reached,
    /// How its endpoints are found.
    pub kind: ServiceKind,
    /// Its ports.
    pub ports: Vec<ServicePort>,
}

/// How the clients of a Service reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reached {
    /// At an address that kube-proxy rewrites: cluster IPs, external IPs, load balancer addresses. Empty where none is known yet.
    Virtual(Vec<IpAddr>),
    /// At the pods themselves, found by DNS: nothing is rewritten, the port is the pod's own.
    Headless,
}

/// How a Service finds its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// Pods of its namespace with these labels.
    Selector {
        /// The labels; `spec.selector` never is empty here.
        pods: LabelSelector,
        /// `publishNotReadyAddresses`.
        not_ready_too: bool,
    },
    /// Endpoints that somebody else writes.
    NoSelector,
    /// A DNS name.
    ExternalName(Box<str>),
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Its name, if it has one.
    pub name: Option<Box<str>>,
    /// Its protocol.
    pub protocol: PortProtocol,
    /// Its number.
    pub port: u16,
    /// Where it leads on the pod.
    pub target: TargetPort,
}

/// A port of a pod, as a Service names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetPort {
    /// By number.
    Number(u16),
    /// By the name of a container port.
    Name(Box<str>),
}

impl Endpoint {
    /// The workload that people know it by: the outermost one.
    pub fn workload(&self) -> Option<&Owner> {
        self.owners.first()
    }

    /// Orders endpoints that claim the same address; the first one owns it.
    // SPEC: semantics 1.12: the running one wins; the rest makes the choice total and independent of ids.
    pub fn claim_order(&self, other: &Endpoint) -> Ordering {
        let key = |it: &Endpoint| (it.running, it.readiness);
        key(self).cmp(&key(other)).then_with(|| self.name_order(other))
    }

    /// The order of a canonical model: by name, for a pod and workloads of the same name by owners, for one pod by network.
    pub fn name_order(&self, other: &Endpoint) -> Ordering {
        self.name.cmp(&other.name).then_with(|| self.owners.cmp(&other.owners)).then_with(|| self.network().cmp(&other.network()))
    }
}

impl Service {
    /// Where its clients call it; nowhere for a headless one.
    pub fn addresses(&self) -> &[IpAddr] {
        match &self.reached {
            Reached::Virtual(addresses) => addresses,
            Reached::Headless => &[],
        }
    }
}

impl Model {
    /// Has pods with the same labels, which replicas are, keep them once.
    pub fn share_labels(&mut self) {
        let mut known: HashSet<Labels> = HashSet::new();
        for endpoint in &mut self.endpoints {
            match known.get(&endpoint.labels) {
                Some(labels) => endpoint.labels = labels.clone(),
                None => drop(known.insert(endpoint.labels.clone())),
            }
        }
    }

    /// Every address that somebody of the cluster has: pods, nodes and Services.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let pods = self.endpoints.iter().flat_map(|it| &it.addresses);
        let nodes = self.nodes.iter().flat_map(|it| &it.addresses);
        pods.chain(nodes).chain(self.services.iter().flat_map(Service::addresses)).copied()
    }

    /// The endpoint behind an id that this model gave out.
    pub fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(id)
    }

    /// The node behind an id that this model gave out.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The labels of a namespace; empty if it does not exist.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
        self.namespaces.get(name).map_or(&NONE, |namespace| &namespace.labels)
    }

    /// The cluster in which the audited policies of one set are enforced too, and none is audited.
    #[must_use]
    pub fn with_audited(&self, set: &str) -> Model {
        self.with(self.audited.get(set).into_iter().flatten())
    }

    /// The cluster in which all audited policies are enforced too.
    #[must_use]
    pub fn with_all_audited(&self) -> Model {
        self.with(self.audited.values().flatten())
    }

    fn with<'p>(&self, policies: impl Iterator<Item = &'p Policy>) -> Model {
        let mut model = Model { audited: BTreeMap::new(), ..self.clone() };
        model.policies.extend(policies.cloned());
        model.policies.sort_by(Policy::in_order);
        model
    }

    /// Every block of addresses that some policy speaks of, with its exceptions.
    pub fn ip_blocks(&self) -> impl Iterator<Item = &IpBlock> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.egress.iter().chain(&policy.rules.ingress));
        let peers = rules.flat_map(|rule| match &rule.peers {
            PeerSet::Of(peers) => peers.as_slice(),
            PeerSet::Any | PeerSet::AnyButOwnNode => &[],
        });
        peers.flat_map(|peer| match peer {
            Peer::Networks(blocks) => blocks.as_slice(),
            Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => &[],
        })
    }

    /// Takes what nodes say and some more ranges for those of pods, but for addresses that no pod has: those that are exempt, and the first two of
    /// each range of a node, which are the node's own for a tunnel and for its pods' gateway.
    pub fn close_ranges(&mut self, more: &[IpNet], exempt: &BTreeSet<IpAddr>) {
        let large = self.node_ranges.iter().filter(|it| it.max_prefix_len() - it.prefix_len() > 1);
        let except: BTreeSet<IpAddr> = exempt.iter().copied().chain(large.flat_map(first_two)).collect();
        let ranges: Vec<IpNet> = self.node_ranges.iter().chain(more).map(IpNet::trunc).collect();
        let block = |cidr: IpNet| {
            let except = except.iter().filter(|it| cidr.contains(*it)).map(|it| IpNet::from(*it)).collect();
            IpBlock { cidr, except }
        };
        self.pod_ranges = IpNet::aggregate(&ranges).into_iter().map(block).collect();
    }

    /// Whether a pod stands at an end of which nothing is known but its address. Only the pod network has ranges of pod addresses.
    pub fn is_unknown_pod(&self, network: NetworkId, end: &End) -> bool {
        let held = |address: IpAddr| self.pod_ranges.iter().any(|it| it.contains(address));
        network == NetworkId::DEFAULT && end.place == Place::Outside && end.address.is_some_and(held)
    }

    /// Orders claims of the same address; the first one owns it.
    // SPEC: semantics 1.12: a pod before a node before the outside.
    pub fn claim_order(&self, one: Place, other: Place) -> Ordering {
        match (one, other) {
            (Place::Pod(one), Place::Pod(other)) => match (self.endpoint(one), self.endpoint(other)) {
                (Some(one), Some(other)) => one.claim_order(other),
                (one, other) => other.is_some().cmp(&one.is_some()),
            },
            (Place::Node(one), Place::Node(other)) => self.node(one).map(|it| &it.name).cmp(&self.node(other).map(|it| &it.name)),
            (one, other) => one.cmp(&other),
        }
    }

    /// The owner of `address` on a network: a pod before a node before the outside. Of two pods the running one, as `Endpoint::claim_order` says.
    pub fn place_of(&self, network: NetworkId, address: IpAddr) -> Place {
        let pods = self.endpoints.iter_ids().filter(|(_, it)| it.network() == network && it.addresses.contains(&address));
        let pod = pods.min_by(|(_, one), (_, other)| one.claim_order(other));
        let node = || self.nodes.iter_ids().filter(|(_, node)| node.addresses.contains(&address)).min_by_key(|(_, node)| &node.name);
        match pod {
            Some((id, _)) => Place::Pod(id),
            None if self.node_addresses(network) == NodeAddresses::Absent => Place::Outside,
            None => node().map_or(Place::Outside, |(id, _)| Place::Node(id)),
        }
    }
}

fn first_two(range: &IpNet) -> [IpAddr; 2] {
    let second = match range.network() {
        IpAddr::V4(it) => Ipv4Addr::from_bits(it.to_bits() | 1).into(),
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() | 1).into(),
    };
    [range.network(), second]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(node_ranges: &[&str], more: &[&str], exempt: &[&str], expected: &[&str]) {
        let nets = |it: &[&str]| it.iter().map(|it| it.parse().unwrap()).collect::<Vec<IpNet>>();
        let mut model = Model { node_ranges: nets(node_ranges), ..Model::default() };
        model.close_ranges(&nets(more), &exempt.iter().map(|it| it.parse().unwrap()).collect());
        assert_eq!(model.pod_ranges.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ranges_of_pods_are_those_of_nodes_and_those_that_were_named() {
        check(&[], &[], &["10.0.0.1"], &[]);
        check(&[], &["10.244.7.7/16"], &["10.244.0.9", "10.0.0.1"], &["10.244.0.0/16 except 10.244.0.9/32"]);
        check(&["10.244.1.0/24"], &["192.0.2.0/24"], &[], &["10.244.1.0/24 except 10.244.1.0/32, 10.244.1.1/32", "192.0.2.0/24"]);
        check(&["fd00:1::/64"], &[], &["fd00:1::7"], &["fd00:1::/64 except fd00:1::/128, fd00:1::1/128, fd00:1::7/128"]);
    }

    /// An exception only concerns its own block.
    #[test]
    fn what_is_exempt_in_one_range_is_exempt_in_those_around_it() {
        check(&["10.244.1.0/24"], &["10.244.0.0/16"], &[], &["10.244.0.0/16 except 10.244.1.0/32, 10.244.1.1/32"]);
    }

    #[test]
    fn a_range_too_small_for_a_gateway_is_all_pods() {
        check(&["10.244.1.0/31"], &[], &[], &["10.244.1.0/31"]);
    }
}
