//! The cluster as the agent of one node knows it: its copy of the model, the owner of every address, and the links of the node's pods.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{
    Changes, ContainerPort, Delta, Endpoint, EndpointId, Gap, IpBlock, Labels, Model, NetworkId, NodeId, Place, PodName, Replica, Revision,
};

use crate::sweep::{Judged, Touched, changed_nodes, pods_seen_differently, selected};

/// A cluster at one time, as one of its nodes sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    replica: Replica,
    owners: Owners,
    node: Option<NodeId>,
    /// The node's end of the link to each of its pods.
    links: BTreeMap<EndpointId, String>,
}

/// The node itself, and settings that no change of the model tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    pub node: NodeId,
    /// The node's end of the link to each of its pods.
    pub links: BTreeMap<EndpointId, String>,
    /// `Model::pod_ranges`.
    pub pod_ranges: Vec<IpBlock>,
}

/// The pod that has an address, by its name, and on this node by its link.
type Owner = (PodName, Option<String>);

/// The properties of a pod that a verdict can depend on, besides the owner of its addresses and the labels of its namespace.
type Known<'a> = (&'a PodName, &'a Labels, &'a [ContainerPort], &'a [IpAddr], Option<Box<str>>);

impl Cluster {
    pub(crate) fn of(model: Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Cluster {
        let owners = Owners::of(&model);
        Cluster { replica: Replica::of(model), owners, node: Some(node), links }
    }

    pub(crate) fn model(&self) -> &Model {
        self.replica.model()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.replica.revision()
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        self.node
    }

    pub(crate) fn links(&self) -> &BTreeMap<EndpointId, String> {
        &self.links
    }

    /// The owner of an address.
    pub(crate) fn place(&self, address: IpAddr) -> Place {
        self.owners.of_address(address, self.model())
    }

    /// Whether a pod has an address.
    pub(crate) fn is_pod(&self, address: IpAddr) -> bool {
        matches!(self.place(address), Place::Pod(_))
    }

    /// The name of the pod that has an address.
    pub(crate) fn pod(&self, address: IpAddr) -> Option<&PodName> {
        let Place::Pod(id) = self.place(address) else { return None };
        self.model().endpoint(id).map(|it| &it.name)
    }

    /// Whether a pod of this node has an address.
    pub(crate) fn is_own_pod(&self, address: IpAddr) -> bool {
        match self.place(address) {
            Place::Pod(id) => self.model().endpoint(id).is_some_and(|it| it.node.is_some() && it.node == self.node),
            Place::Node(_) | Place::Outside => false,
        }
    }

    /// Follows changes, and returns the connections that these may deny. Two ends may do what they could before unless one of them is in here: what
    /// they may do depends on the properties of each, and on the policies that select one of them.
    ///
    /// Changes that begin with an empty model replace the whole cluster.
    pub(crate) fn follow(&mut self, changes: &Changes, here: Here) -> Result<Touched, Gap> {
        if changes.from == Revision::default() && self.revision() != Revision::default() {
            return Ok(self.replace(changes.clone(), here));
        }
        let claimed: HashSet<IpAddr> = self.claimed(changes, &here).collect();
        let owned: HashMap<IpAddr, Owner> = claimed.iter().filter_map(|it| Some((*it, self.owner(*it)?))).collect();
        let node_of = |model: &Model, id: Option<NodeId>| id.and_then(|it| model.node(it)).map(|it| it.name.clone());
        let before: Vec<Option<Box<str>>> =
            changes.endpoints.iter().map(|it| node_of(self.model(), it.old.as_ref().and_then(|it| it.node))).collect();
        self.replica.apply(changes)?;
        let ranges_differ = self.model().pod_ranges != here.pod_ranges;
        let node_differs = self.node != Some(here.node);
        self.replica.set_pod_ranges(here.pod_ranges);
        self.owners.follow(changes);
        (self.node, self.links) = (Some(here.node), here.links);
        let left: BTreeMap<IpAddr, PodName> =
            owned.iter().filter(|(it, owner)| self.owner(**it).as_ref() != Some(owner)).map(|(it, (pod, _))| (*it, pod.clone())).collect();
        let model = self.model();
        let mut judged: HashSet<IpAddr> = changed_nodes(changes).collect();
        for (delta, node) in changes.endpoints.iter().zip(before) {
            let now = node_of(model, delta.new.as_ref().and_then(|it| it.node));
            let ends = [&delta.old, &delta.new].into_iter().flatten().flat_map(|it| it.addresses.iter().copied());
            if delta.old.as_deref().map(|it| known(it, node)) == delta.new.as_deref().map(|it| known(it, now)) {
                // The pod may have won or lost an address that another pod claims, too.
                judged.extend(ends.filter(|it| owned.get(it) != self.owner(*it).as_ref()));
            } else {
                judged.extend(ends);
            }
        }
        let seen = pods_seen_differently(model, changes);
        judged.extend(seen.into_iter().filter_map(|it| model.endpoint(it)).flat_map(|it| it.addresses.iter().copied()));
        let judged = match selected(model, &changes.policies) {
            // An unowned address may have become that of a pod that is not known, or ceased to be one.
            Some(more) if !ranges_differ && !node_differs => {
                judged.extend(more);
                Judged::Of(judged)
            }
            Some(_) | None => Judged::All,
        };
        Ok(Touched { judged, left })
    }

    fn replace(&mut self, changes: Changes, here: Here) -> Touched {
        let before = std::mem::replace(self, Cluster::of(changes.into_model(), here.node, here.links));
        self.replica.set_pod_ranges(here.pod_ranges);
        let owned = before.owners.addresses().filter_map(|it| Some((it, before.owner(it)?)));
        let left = owned.filter(|(it, owner)| self.owner(*it).as_ref() != Some(owner)).map(|(it, (pod, _))| (it, pod)).collect();
        Touched { judged: Judged::All, left }
    }

    /// The addresses whose owner may change.
    fn claimed<'a>(&'a self, changes: &'a Changes, here: &'a Here) -> impl Iterator<Item = IpAddr> {
        let pods = changes.endpoints.iter().flat_map(|it| [&it.old, &it.new]).flatten().flat_map(|it| &it.addresses);
        let nodes = changes.nodes.iter().flat_map(|it| [&it.old, &it.new]).flatten().flat_map(|it| &it.addresses);
        let known: BTreeSet<EndpointId> = self.links.keys().chain(here.links.keys()).copied().collect();
        let relinked = known.into_iter().filter(|it| self.links.get(it) != here.links.get(it));
        let relinked = relinked.filter_map(|it| self.model().endpoint(it)).flat_map(|it| &it.addresses);
        pods.chain(nodes).chain(relinked).copied()
    }

    fn owner(&self, address: IpAddr) -> Option<Owner> {
        let Place::Pod(id) = self.place(address) else { return None };
        Some((self.model().endpoint(id)?.name.clone(), self.links.get(&id).cloned()))
    }
}

fn known(pod: &Endpoint, node: Option<Box<str>>) -> Known<'_> {
    (&pod.name, &pod.labels, &pod.ports, &pod.addresses, node)
}

/// Whether the node's own tables are about an endpoint. The same address may belong to another endpoint on another network.
fn is_on_pod_network(endpoint: &Endpoint) -> bool {
    endpoint.network() == NetworkId::DEFAULT
}

/// The owner of each address of the pod network, as `Model::place_of` says, without a walk over all pods.
#[derive(Clone, Debug, Default)]
struct Owners(HashMap<IpAddr, Claims>);

/// The pods and nodes that claim an address.
#[derive(Clone, Debug)]
enum Claims {
    One(Place),
    Several(Vec<Place>),
}

impl Owners {
    fn of(model: &Model) -> Owners {
        let mut owners = Owners::default();
        for (id, pod) in model.endpoints.iter_ids().filter(|(_, it)| is_on_pod_network(it)) {
            pod.addresses.iter().for_each(|it| owners.claim(*it, Place::Pod(id)));
        }
        for (id, node) in model.nodes.iter_ids() {
            node.addresses.iter().for_each(|it| owners.claim(*it, Place::Node(id)));
        }
        owners
    }

    fn follow(&mut self, changes: &Changes) {
        for Delta { id, old, new } in &changes.endpoints {
            let own = |it: &Option<Arc<Endpoint>>| it.clone().filter(|it| is_on_pod_network(it));
            own(old).iter().flat_map(|it| &it.addresses).for_each(|it| self.release(*it, Place::Pod(*id)));
            own(new).iter().flat_map(|it| &it.addresses).for_each(|it| self.claim(*it, Place::Pod(*id)));
        }
        for Delta { id, old, new } in &changes.nodes {
            old.iter().flat_map(|it| &it.addresses).for_each(|it| self.release(*it, Place::Node(*id)));
            new.iter().flat_map(|it| &it.addresses).for_each(|it| self.claim(*it, Place::Node(*id)));
        }
    }

    fn claim(&mut self, address: IpAddr, place: Place) {
        match self.0.entry(address) {
            Entry::Vacant(entry) => drop(entry.insert(Claims::One(place))),
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Claims::One(other) => {
                    let both = vec![*other, place];
                    entry.insert(Claims::Several(both));
                }
                Claims::Several(places) => places.push(place),
            },
        }
    }

    fn release(&mut self, address: IpAddr, place: Place) {
        let Entry::Occupied(mut entry) = self.0.entry(address) else { return };
        match entry.get_mut() {
            Claims::One(owner) if *owner == place => drop(entry.remove()),
            Claims::One(_) => {}
            Claims::Several(places) => {
                if let Some(at) = places.iter().position(|it| *it == place) {
                    places.swap_remove(at);
                }
                if let [last] = places.as_slice() {
                    let last = *last;
                    entry.insert(Claims::One(last));
                }
            }
        }
    }

    fn of_address(&self, address: IpAddr, model: &Model) -> Place {
        match self.0.get(&address) {
            None => Place::Outside,
            Some(Claims::One(place)) => *place,
            Some(Claims::Several(places)) => {
                places.iter().copied().min_by(|one, other| model.claim_order(*one, *other)).unwrap_or(Place::Outside)
            }
        }
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied()
    }
}
