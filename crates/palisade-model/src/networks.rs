//! Networks that pods have interfaces on: the pod network, and others that a pod is attached to besides.
//!
//! Two networks may use the same addresses. So an endpoint is a pod on one network, a policy is about the endpoints of one network, and an address has an
//! owner only together with its network.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::change::{Changes, Delta};
use crate::cluster::{Endpoint, EndpointId, Model, Node, NodeId};
use crate::flow::{End, Place};
use crate::policy::Policy;
use crate::slots::SlotId;

/// A slot in `Model::networks`. It names the same network until that network is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkId(pub usize);

impl NetworkId {
    /// The pod network, on which every pod has its primary interface. `Model::networks` has the others only.
    pub const DEFAULT: NetworkId = NetworkId(0);
}

impl SlotId for NetworkId {
    fn at(slot: usize) -> NetworkId {
        NetworkId(slot)
    }

    fn slot(self) -> usize {
        self.0
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// `NAMESPACE/NAME` of the object that describes it; `default` for the pod network.
    pub name: Box<str>,
    /// The place where policies of the network are enforced.
    pub enforcement: Enforcement,
    /// Whether nodes are on the network.
    pub nodes: NodeAddresses,
}

/// The place where policies of a network are enforced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// Netfilter hooks in the network namespace of the node, which forwards the packets of the network.
    HostHooks,
    /// Netfilter hooks in the network namespace of each pod, because the node does not see the packets of the network.
    PodNamespace,
    /// Nowhere, for this reason: no hook of the kernel sees the packets.
    None(Box<str>),
}

/// Whether nodes have addresses on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAddresses {
    /// They have those of their Node objects.
    Present,
    /// They have none. An address of a Node object is an address like any other on such a network.
    Absent,
}

/// An endpoint's share in a network other than the pod network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attachment {
    /// The network.
    // INVARIANT: not `NetworkId::DEFAULT`.
    pub network: NetworkId,
    /// Names of the pod's interfaces on that network, in its own network namespace. Empty if the source of the attachment does not say.
    pub interfaces: Vec<Box<str>>,
}

static POD_NETWORK: LazyLock<Network> =
    LazyLock::new(|| Network { name: "default".into(), enforcement: Enforcement::HostHooks, nodes: NodeAddresses::Present });

/// The name of an endpoint: `NAMESPACE/POD`, and `@NETWORK` behind it off the pod network.
#[derive(Clone, Copy, Debug)]
pub struct EndpointName<'m> {
    endpoint: &'m Endpoint,
    /// None on the pod network.
    network: Option<&'m str>,
}

impl fmt::Display for EndpointName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.endpoint.name;
        let Some(network) = self.network else { return name.fmt(f) };
        // The pod's own namespace need not be repeated.
        let own = network.strip_prefix(&*name.namespace).and_then(|it| it.strip_prefix('/'));
        write!(f, "{name}@{}", own.unwrap_or(network))
    }
}

impl Endpoint {
    /// The network that it is on.
    pub fn network(&self) -> NetworkId {
        self.attachment.as_ref().map_or(NetworkId::DEFAULT, |it| it.network)
    }

    /// Names of its interfaces. Empty on the pod network, where links of the node are known instead.
    pub fn interfaces(&self) -> &[Box<str>] {
        self.attachment.as_ref().map_or(&[], |it| &it.interfaces)
    }
}

impl Model {
    /// The network behind an id that this model gave out.
    pub fn network(&self, id: NetworkId) -> Option<&Network> {
        if id == NetworkId::DEFAULT { Some(&POD_NETWORK) } else { self.networks.get(id) }
    }

    /// All networks, the pod network first.
    pub fn network_ids(&self) -> impl Iterator<Item = NetworkId> + use<'_> {
        std::iter::once(NetworkId::DEFAULT).chain(self.networks.ids())
    }

    /// The network with a name.
    pub fn network_named(&self, name: &str) -> Option<NetworkId> {
        self.network_ids().find(|it| self.network(*it).is_some_and(|it| *it.name == *name))
    }

    /// Whether nodes have addresses on a network. They have none on one that is not known.
    pub fn node_addresses(&self, network: NetworkId) -> NodeAddresses {
        self.network(network).map_or(NodeAddresses::Absent, |it| it.nodes)
    }

    /// The network of a connection, by the pods at its ends. Nodes and the outside meet on the pod network.
    pub fn network_between(&self, from: &End, to: &End) -> NetworkId {
        let of = |end: &End| match end.place {
            Place::Pod(id) => self.endpoint(id).map(Endpoint::network),
            Place::Node(_) | Place::Outside => None,
        };
        of(from).or_else(|| of(to)).unwrap_or_default()
    }

    /// The name of an endpoint in output.
    pub fn endpoint_name<'m>(&'m self, endpoint: &'m Endpoint) -> EndpointName<'m> {
        let network = self.network(endpoint.network()).filter(|_| endpoint.network() != NetworkId::DEFAULT);
        EndpointName { endpoint, network: network.map(|it| it.name.as_ref()) }
    }

    /// One network alone: its endpoints and policies, with the same ids. A compiled or lowered model has no other network, so that equal addresses
    /// of two networks never meet. Services and ranges of pod addresses are on the pod network only.
    pub fn on_network(&self, network: NetworkId) -> Cow<'_, Model> {
        if network == NetworkId::DEFAULT && self.networks.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut model = self.clone();
        let others: Vec<EndpointId> = self.endpoints.iter_ids().filter(|(_, it)| it.network() != network).map(|(id, _)| id).collect();
        others.into_iter().for_each(|id| drop(model.endpoints.remove(id)));
        model.policies = self.policies.iter_shared().filter(|it| it.network == network).cloned().collect();
        model.audited.values_mut().for_each(|set| set.retain(|it| it.network == network));
        model.audited.retain(|_, set| !set.is_empty());
        if network != NetworkId::DEFAULT {
            model.services.clear();
            model.pod_ranges.clear();
            model.node_ranges.clear();
        }
        if self.node_addresses(network) == NodeAddresses::Absent {
            let bare = |(id, it): (NodeId, &Arc<Node>)| (id, without_addresses(it));
            let nodes: Vec<(NodeId, Arc<Node>)> = self.nodes.iter_shared().map(bare).collect();
            nodes.into_iter().for_each(|(id, node)| drop(model.nodes.set(id, Some(node))));
        }
        Cow::Owned(model)
    }
}

impl Changes {
    /// The changes of one network alone, for a consumer of `Model::on_network`. `nodes` says whether nodes have addresses there. The revisions are
    /// those of the whole model.
    pub fn on_network(&self, network: NetworkId, nodes: NodeAddresses) -> Cow<'_, Changes> {
        let is_default = network == NetworkId::DEFAULT;
        let foreign_endpoint = |it: &Option<Arc<Endpoint>>| it.as_ref().is_some_and(|it| it.network() != network);
        let only_own = self.endpoints.iter().all(|it| !foreign_endpoint(&it.old) && !foreign_endpoint(&it.new))
            && self.policies.iter().all(|it| it.id.network == network)
            && self.audited.iter().all(|it| it.id.policy.network == network);
        if is_default && only_own {
            return Cow::Borrowed(self);
        }
        let mut changes = Changes { from: self.from, to: self.to, ..Changes::default() };
        changes.networks.clone_from(&self.networks);
        changes.namespaces.clone_from(&self.namespaces);
        let own = |it: &Option<Arc<Endpoint>>| it.clone().filter(|it| it.network() == network);
        changes.endpoints.extend(self.endpoints.iter().filter_map(|it| Delta::between(it.id, own(&it.old), own(&it.new))));
        changes.policies.extend(self.policies.iter().filter(|it| it.id.network == network).cloned());
        changes.audited.extend(self.audited.iter().filter(|it| it.id.policy.network == network).cloned());
        changes.completed.clone_from(&self.completed);
        changes.foreign.clone_from(&self.foreign);
        changes.logged.clone_from(&self.logged);
        if is_default {
            changes.services.clone_from(&self.services);
            changes.node_ranges.clone_from(&self.node_ranges);
        }
        let seen = |it: &Option<Arc<Node>>| match nodes {
            NodeAddresses::Present => it.clone(),
            NodeAddresses::Absent => it.as_ref().map(without_addresses),
        };
        changes.nodes.extend(self.nodes.iter().filter_map(|it| Delta::between(it.id, seen(&it.old), seen(&it.new))));
        Cow::Owned(changes)
    }
}

fn without_addresses(node: &Arc<Node>) -> Arc<Node> {
    if node.addresses.is_empty() && node.host_pods.is_empty() {
        return Arc::clone(node);
    }
    let Node { name, labels, assumed, addresses: _, host_pods: _ } = node.as_ref();
    Arc::new(Node { name: name.clone(), labels: labels.clone(), assumed: *assumed, addresses: Vec::new(), host_pods: Vec::new() })
}

/// Gives endpoints and policies other ids of the same networks.
pub(crate) fn renumber_endpoint(endpoint: &mut Endpoint, ids: impl Fn(NetworkId) -> NetworkId) {
    if let Some(attachment) = &mut endpoint.attachment {
        let network = ids(attachment.network);
        if network != attachment.network {
            *attachment = Arc::new(Attachment { network, interfaces: attachment.interfaces.clone() });
        }
    }
}

pub(crate) fn renumber_policy(policy: &Arc<Policy>, ids: impl Fn(NetworkId) -> NetworkId) -> Arc<Policy> {
    let network = ids(policy.network);
    if network == policy.network { Arc::clone(policy) } else { Arc::new(Policy { network, ..policy.as_ref().clone() }) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::cluster::{PodName, Readiness, Running};
    use crate::labels::{LabelSelector, Labels};
    use crate::origin::{PerDirection, PolicyKind, PolicyRef, Tier};
    use crate::policy::{NamespaceSet, PolicyKey, Shape, Subject};
    use crate::replica::Replica;

    const ADDRESS: &str = "10.0.0.1";

    fn endpoint(name: &str, network: usize) -> Endpoint {
        let attached = Arc::new(Attachment { network: NetworkId(network), interfaces: vec!["net1".into()] });
        Endpoint {
            name: PodName { namespace: "shop".into(), name: name.into() },
            labels: Labels::default(),
            addresses: vec![ADDRESS.parse().unwrap()],
            node: Some(NodeId(0)),
            ports: Vec::new(),
            owners: Vec::new(),
            readiness: Readiness::Ready,
            running: Running::Yes,
            attachment: (network > 0).then_some(attached),
        }
    }

    fn policy(network: usize) -> Policy {
        Policy {
            origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some("shop".into()), name: "p".into() },
            network: NetworkId(network),
            shape: Shape::Only,
            tier: Tier::NetworkPolicy,
            rank: 0,
            subject: Subject::Pods { namespaces: NamespaceSet::Own("shop".into()), pods: LabelSelector::default() },
            isolates: PerDirection { egress: false, ingress: true },
            rules: PerDirection::default(),
        }
    }

    /// A pod on the pod network and on two others, everywhere with the address of the node. The slots are not in the order of names.
    fn model() -> Model {
        let mut model = Model::default();
        for (slot, name) in [(2, "shop/blue"), (1, "infra/red")] {
            let network = Network { name: name.into(), enforcement: Enforcement::PodNamespace, nodes: NodeAddresses::Absent };
            model.networks.set(NetworkId(slot), Some(Arc::new(network)));
        }
        model.nodes.push(Node {
            name: "n1".into(),
            labels: Labels::default(),
            addresses: vec![ADDRESS.parse().unwrap()],
            host_pods: Vec::new(),
            assumed: false,
        });
        for network in [2, 0, 1] {
            model.endpoints.push(endpoint("web", network));
        }
        model.policies = [0, 1, 2].map(policy).into_iter().collect();
        model
    }

    #[test]
    fn a_name_has_its_network_off_the_pod_network() {
        let model = model();
        let names: Vec<String> = model.endpoints.iter().map(|it| model.endpoint_name(it).to_string()).collect();
        assert_eq!(names, ["shop/web@blue", "shop/web", "shop/web@infra/red"]);
        assert_eq!(model.network_named("default"), Some(NetworkId::DEFAULT));
        assert_eq!(model.network_named("shop/blue"), Some(NetworkId(2)));
    }

    #[test]
    fn an_address_has_an_owner_on_each_network() {
        let mut model = model();
        let address: IpAddr = ADDRESS.parse().unwrap();
        let places = |model: &Model| [0, 1, 2, 3].map(|it| model.place_of(NetworkId(it), address));
        let pod = |at| Place::Pod(EndpointId(at));
        assert_eq!(places(&model), [pod(1), pod(2), pod(0), Place::Outside]);
        model.endpoints.truncate(0);
        assert_eq!(places(&model), [Place::Node(NodeId(0)), Place::Outside, Place::Outside, Place::Outside]);
    }

    #[test]
    fn a_network_alone_keeps_ids_and_leaves_the_rest_out() {
        let model = model();
        let ids = |network| model.on_network(NetworkId(network)).endpoints.ids().collect::<Vec<_>>();
        assert_eq!([ids(0), ids(1), ids(2)], [[EndpointId(1)], [EndpointId(2)], [EndpointId(0)]]);
        for network in [0, 1, 2] {
            let alone = model.on_network(NetworkId(network));
            let about: Vec<NetworkId> = alone.policies.iter().map(|it| it.network).collect();
            let addresses = alone.node(NodeId(0)).map(|it| it.addresses.len());
            assert_eq!((about, addresses), (vec![NetworkId(network)], Some(usize::from(network == 0))));
        }
        assert!(matches!(Model::default().on_network(NetworkId::DEFAULT), Cow::Borrowed(_)));
    }

    #[test]
    fn an_id_that_goes_to_another_network_leaves_one_and_enters_the_other() {
        let delta =
            |old, new| Delta { id: EndpointId(7), old: Some(Arc::new(endpoint("a", old))), new: Some(Arc::new(endpoint("b", new))) };
        let changes = Changes { endpoints: vec![delta(1, 2)], ..Changes::default() };
        let seen = |network| {
            let own = changes.on_network(NetworkId(network), NodeAddresses::Absent);
            own.endpoints.iter().map(|it| (it.old.is_some(), it.new.is_some())).collect::<Vec<_>>()
        };
        assert_eq!([seen(0), seen(1), seen(2)], [vec![], vec![(true, false)], vec![(false, true)]]);
        let plain = Changes { endpoints: vec![delta(0, 0)], ..Changes::default() };
        assert!(matches!(plain.on_network(NetworkId::DEFAULT, NodeAddresses::Present), Cow::Borrowed(_)));
    }

    #[test]
    fn a_canonical_model_numbers_networks_by_name() {
        let model = model();
        let canonical = model.canonical();
        let names: Vec<(NetworkId, &str)> = canonical.networks.iter_ids().map(|(id, it)| (id, it.name.as_ref())).collect();
        assert_eq!(names, [(NetworkId(1), "infra/red"), (NetworkId(2), "shop/blue")]);
        let endpoints: Vec<String> = canonical.endpoints.iter().map(|it| canonical.endpoint_name(it).to_string()).collect();
        assert_eq!(endpoints, ["shop/web", "shop/web@infra/red", "shop/web@blue"]);
        let renumbered = Model { networks: swapped(&model), ..model.clone() };
        let endpoint = |it: &Endpoint| {
            let mut it = it.clone();
            renumber_endpoint(&mut it, swap);
            it
        };
        let endpoints = renumbered.endpoints.iter().map(endpoint).collect();
        let policies = renumbered.policies.iter_shared().map(|it| renumber_policy(it, swap)).collect();
        assert_eq!(Model { endpoints, policies, ..renumbered }.canonical(), canonical);
    }

    fn swap(id: NetworkId) -> NetworkId {
        NetworkId([0, 2, 1][id.0])
    }

    fn swapped(model: &Model) -> crate::slots::Slots<NetworkId, Network> {
        let mut networks = crate::slots::Slots::new();
        model.networks.iter_shared().for_each(|(id, it)| drop(networks.set(swap(id), Some(Arc::clone(it)))));
        networks
    }

    #[test]
    fn a_replica_follows_policies_of_one_object_on_several_networks() {
        let model = model();
        let mut replica = Replica::default();
        replica.apply(&Changes::all(&model)).unwrap();
        assert_eq!(replica.model(), &model);
        let key = PolicyKey { origin: policy(1).origin, network: NetworkId(1) };
        let mut changes = Changes::from(Delta { id: key, old: Some(Arc::new(policy(1))), new: None });
        changes.from = replica.revision();
        changes.to = changes.revision_after(changes.from);
        replica.apply(&changes).unwrap();
        let left: Vec<NetworkId> = replica.model().policies.iter().map(|it| it.network).collect();
        assert_eq!(left, [NetworkId(0), NetworkId(2)]);
    }
}
