//! Endpoints of pods, and of workloads whose pods were not read.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_api::{OwnerReference, Phase, Pod, Workload};
use palisade_model::{
    Attachment, Changes, Delta, Endpoint, EndpointId, HostPod, Labels, NetworkId, Owner, PodName, Readiness, Running, SetChange,
};

use crate::joins::networks::{Attached, Networks};
use crate::joins::nodes::{Nodes, Use, UsedNode, release, retain, toggle};
use crate::joins::owners::Changed;
use crate::joins::pod_name;
use crate::sources::ObjectKey;

/// All pods and workloads, with what each contributed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Endpoints {
    pods: BTreeMap<PodName, PodEntry>,
    workloads: BTreeMap<ObjectKey, Standing>,
    /// The number of pods that have not completed, of each workload, directly or through others.
    populated: BTreeMap<ObjectKey, usize>,
    /// Endpoints of pods on networks other than the pod network. None for one that gets its id at the end of the batch.
    attached: BTreeMap<(PodName, Box<str>), Given>,
    /// New values, by object and network.
    pending: BTreeMap<EndpointKey, Pending>,
    free: FreeSlots,
    labels: LabelPool,
}

#[derive(Clone, Debug)]
struct PodEntry {
    owner: Option<Box<OwnerReference>>,
    node: Option<Arc<UsedNode>>,
    standing: Standing,
}

/// How an object stands in the model.
#[derive(Clone, Debug)]
enum Standing {
    /// As an endpoint.
    Endpoint(EndpointId, Arc<Endpoint>),
    /// As an endpoint that gets its id at the end of the batch.
    New,
    /// As a pod on the network of its node.
    Host(Box<str>),
    /// As the name of a pod that has completed.
    Completed,
}

/// An endpoint that the model was given. None if it was given none.
type Given = Option<(EndpointId, Arc<Endpoint>)>;

/// The object that an endpoint is made from, and the name of its network. None for the pod network.
type EndpointKey = (ObjectKey, Option<Box<str>>);

/// A new value of an endpoint.
#[derive(Clone, Debug)]
struct Pending {
    old: Option<(EndpointId, Arc<Endpoint>)>,
    /// With the name of its node; None if there is no such endpoint any more.
    new: Option<(Endpoint, Option<Box<str>>)>,
}

/// Slots that were used before, and the first one that never was.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeSlots {
    free: BTreeSet<usize>,
    next: usize,
}

impl FreeSlots {
    pub(crate) fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(crate) fn free(&mut self, slot: usize) {
        self.free.insert(slot);
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.free.len() == self.next
    }
}

/// Label sets, each kept once: the replicas of a workload have the same labels.
#[derive(Clone, Debug, Default)]
struct LabelPool {
    known: HashSet<Labels>,
    /// The size at which label sets that no endpoint uses any more are removed.
    limit: usize,
}

impl LabelPool {
    fn share(&mut self, labels: &Labels) -> Labels {
        if let Some(known) = self.known.get(labels) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.known.retain(Labels::is_shared);
            self.limit = self.known.len() * 2 + 1024;
        }
        self.known.insert(labels.clone());
        labels.clone()
    }
}

impl Endpoints {
    /// Sets or removes a pod. Returns the workloads that have their first pod now, or have lost their last one.
    pub(crate) fn set_pod(
        &mut self,
        name: &PodName,
        pod: Option<&Pod>,
        owners: Vec<Owner>,
        nodes: &mut Nodes,
        completed: &mut SetChange<PodName>,
    ) -> Vec<ObjectKey> {
        let key = pod_key(name);
        let mut crossed = Vec::new();
        let old = self.pods.remove(name);
        let mut given = None;
        if let Some(old) = old {
            crossed.extend(self.count_owners(&key, &owners_of(&old.standing, &key, nodes), Counting::Down));
            if let Some(used) = &old.node {
                nodes.remove(&used.name, used.by, &used.told);
            }
            match old.standing {
                Standing::Endpoint(id, endpoint) => given = Some((id, endpoint)),
                Standing::Host(node) => nodes.set_host_pod(&node, &key, None),
                Standing::Completed => toggle(&mut completed.added, &mut completed.removed, name.clone()),
                Standing::New => {}
            }
        }
        let Some(pod) = pod else {
            self.put(key, given, None);
            return crossed;
        };
        let node = used_node(name, pod).map(|it| nodes.add_used(it));
        // SPEC: semantics 1.12: a completed pod matches nothing; its address may already belong to another.
        if pod.phase != Phase::Completed {
            crossed.extend(self.count_owners(&key, &owners, Counting::Up));
        }
        let readiness = readiness(pod);
        let (labels, ports) = (self.labels.share(&pod.meta.labels), pod.template.ports.clone());
        let standing = match (pod.phase, pod.template.host_network, &node) {
            (Phase::Completed, _, _) => {
                toggle(&mut completed.removed, &mut completed.added, name.clone());
                self.put(key, given, None);
                Standing::Completed
            }
            (Phase::Running | Phase::Live, true, Some(used)) => {
                // SPEC: semantics 1.7: its traffic is node traffic.
                nodes.set_host_pod(&used.name, &key, Some(HostPod { name: name.clone(), labels, ports, readiness, owners }));
                self.put(key, given, None);
                Standing::Host(used.name.clone())
            }
            (Phase::Running | Phase::Live, _, _) => {
                self.put(key, given, Some((endpoint_of(name, pod, labels, owners), node_name(pod))));
                Standing::New
            }
        };
        self.pods.insert(name.clone(), PodEntry { owner: pod.meta.owner.clone().map(Box::new), node, standing });
        crossed
    }

    /// Sets or removes the endpoints of a pod on networks other than the pod network.
    pub(crate) fn set_attached(
        &mut self,
        name: &PodName,
        pod: Option<&Pod>,
        owners: &[Owner],
        attached: BTreeMap<Box<str>, Attached>,
        networks: &mut Networks,
    ) {
        let key = |network: &str| (pod_key(name), Some(network.into()));
        for (network, given) in self.attached_of(name) {
            self.attached.remove(&(name.clone(), network.clone()));
            networks.remove(&network);
            self.put_on(key(&network), given, None);
        }
        // SPEC: semantics 1.7 and 1.12: a pod on its node's network has no network namespace of its own, a completed one no address.
        let Some(pod) = pod.filter(|it| it.phase != Phase::Completed && !it.template.host_network) else { return };
        for (network, Attached { interfaces, addresses }) in attached {
            networks.add(&network);
            let labels = self.labels.share(&pod.meta.labels);
            let attachment = Some(Arc::new(Attachment { network: NetworkId::DEFAULT, interfaces }));
            let endpoint = Endpoint { addresses, attachment, ..endpoint_of(name, pod, labels, owners.to_vec()) };
            self.put_on(key(&network), None, Some((endpoint, node_name(pod))));
            self.attached.insert((name.clone(), network), None);
        }
    }

    fn attached_of(&self, name: &PodName) -> Vec<(Box<str>, Given)> {
        let all = self.attached.range((name.clone(), Box::default())..).take_while(|((it, _), _)| it == name);
        all.map(|((_, network), given)| (network.clone(), given.clone())).collect()
    }

    /// Sets or removes the endpoint that stands for the pods of a workload.
    pub(crate) fn set_workload(&mut self, key: &ObjectKey, workload: Option<&Workload>, nodes: &mut Nodes) {
        let mut given = None;
        match self.workloads.remove(key) {
            Some(Standing::Endpoint(id, endpoint)) => given = Some((id, endpoint)),
            Some(Standing::Host(node)) => {
                nodes.set_host_pod(&node, key, None);
                nodes.remove(&node, Use::Host, &[]);
            }
            Some(Standing::New | Standing::Completed) | None => {}
        }
        let Some(workload) = workload else { return self.put(key.clone(), given, None) };
        let name = pod_name(key);
        let (labels, ports) = (self.labels.share(&workload.labels), workload.template.ports.clone());
        let owners = vec![Owner { kind: key.kind.clone(), name: key.name.clone() }];
        let readiness = Readiness::Ready;
        let standing = if workload.template.host_network {
            let node = workload.template.node_name.as_deref().map_or_else(|| unplaced(&name), Into::into);
            nodes.add(&node, Use::Host, &[]);
            nodes.set_host_pod(&node, key, Some(HostPod { name, labels, ports, readiness, owners }));
            self.put(key.clone(), given, None);
            Standing::Host(node)
        } else {
            let (addresses, running) = (Vec::new(), Running::NotSaid);
            let endpoint = Endpoint { attachment: None, name, labels, addresses, node: None, ports, owners, readiness, running };
            self.put(key.clone(), given, Some((endpoint, None)));
            Standing::New
        };
        self.workloads.insert(key.clone(), standing);
    }

    /// The controller and the labels of a pod that may have another chain of owners.
    pub(crate) fn owner_of(&self, name: &PodName, nodes: &Nodes) -> Option<(Option<OwnerReference>, Labels)> {
        let entry = self.pods.get(name)?;
        let labels = match &entry.standing {
            Standing::Endpoint(_, endpoint) => endpoint.labels.clone(),
            Standing::Host(node) => nodes.host_pod(node, &pod_key(name))?.labels.clone(),
            // New endpoints have the chain of now, and the others have none.
            Standing::New | Standing::Completed => return None,
        };
        Some((entry.owner.as_deref().cloned(), labels))
    }

    /// Gives a pod another chain of owners. Returns the workloads that have their first pod now, or have lost their last one.
    pub(crate) fn set_owners(&mut self, name: &PodName, owners: Vec<Owner>, nodes: &mut Nodes) -> Vec<ObjectKey> {
        let key = pod_key(name);
        let Some(entry) = self.pods.get_mut(name) else { return Vec::new() };
        let before = owners_of(&entry.standing, &key, nodes);
        if before == owners {
            return Vec::new();
        }
        match std::mem::replace(&mut entry.standing, Standing::New) {
            Standing::Endpoint(id, given) => {
                let node = entry.node.as_ref().map(|it| it.name.clone());
                let endpoint = Endpoint { owners: owners.clone(), ..given.as_ref().clone() };
                self.put(key.clone(), Some((id, given)), Some((endpoint, node)));
            }
            Standing::Host(node) => {
                let pod = nodes.host_pod(&node, &key).map(|it| HostPod { owners: owners.clone(), ..it.clone() });
                nodes.set_host_pod(&node, &key, pod);
                entry.standing = Standing::Host(node);
            }
            standing @ (Standing::New | Standing::Completed) => {
                entry.standing = standing;
                return Vec::new();
            }
        }
        for (network, given) in self.attached_of(name) {
            let Some((id, given)) = given else { continue };
            let node = self.pods.get(name).and_then(|it| it.node.as_ref()).map(|it| it.name.clone());
            let endpoint = Endpoint { owners: owners.clone(), ..given.as_ref().clone() };
            self.put_on((key.clone(), Some(network)), Some((id, given)), Some((endpoint, node)));
        }
        let mut crossed = self.count_owners(&key, &before, Counting::Down);
        crossed.extend(self.count_owners(&key, &owners, Counting::Up));
        crossed
    }

    /// Pods of a namespace with one of these workloads among their owners.
    pub(crate) fn pods_owned_by<'e>(&'e self, namespace: &'e str, owners: &'e Changed) -> impl Iterator<Item = PodName> + 'e {
        let first = PodName { namespace: namespace.into(), name: Box::default() };
        let own = self.pods.range(first..).take_while(move |(name, _)| *name.namespace == *namespace);
        own.filter(move |(_, entry)| match &entry.standing {
            Standing::Endpoint(_, endpoint) => endpoint.owners.iter().any(|it| owners.contains(&(it.kind.clone(), it.name.clone()))),
            // Few pods are on the network of their node: all are looked at.
            Standing::Host(_) => true,
            Standing::New | Standing::Completed => false,
        })
        .map(|(name, _)| name.clone())
    }

    pub(crate) fn has_pod(&self, name: &PodName) -> bool {
        self.pods.contains_key(name)
    }

    pub(crate) fn pod_names(&self) -> impl Iterator<Item = &PodName> {
        self.pods.keys()
    }

    pub(crate) fn has_pods(&self, workload: &ObjectKey) -> bool {
        self.populated.contains_key(workload)
    }

    /// Gives ids to new endpoints in the order of their names, and the changes of all that differ.
    pub(crate) fn give(&mut self, nodes: &Nodes, networks: &Networks, changes: &mut Changes) {
        let placed = |(endpoint, node): (Endpoint, Option<Box<str>>), network: Option<&str>| {
            let node = node.and_then(|it| nodes.id(&it));
            let on = |network, it: &Attachment| Arc::new(Attachment { network, interfaces: it.interfaces.clone() });
            let attachment = network.and_then(|it| networks.id(it)).zip(endpoint.attachment.as_deref()).map(|(id, it)| on(id, it));
            Arc::new(Endpoint { node, attachment, ..endpoint })
        };
        let mut new: Vec<(EndpointKey, Arc<Endpoint>)> = Vec::new();
        let mut freed = Vec::new();
        for (key, Pending { old, new: value }) in std::mem::take(&mut self.pending) {
            match (old, value) {
                (Some((id, old)), Some(value)) => {
                    let value = placed(value, key.1.as_deref());
                    let value = if *value == *old { Arc::clone(&old) } else { value };
                    self.stand(&key, id, Arc::clone(&value));
                    changes.endpoints.extend(Delta::between(id, Some(old), Some(value)));
                }
                (Some((id, old)), None) => {
                    freed.push(id);
                    changes.endpoints.push(Delta { id, old: Some(old), new: None });
                }
                (None, Some(value)) => {
                    let value = placed(value, key.1.as_deref());
                    new.push((key, value));
                }
                (None, None) => {}
            }
        }
        new.sort_by(|(_, one), (_, other)| one.name_order(other));
        for (key, value) in new {
            let id = EndpointId(self.free.take());
            self.stand(&key, id, Arc::clone(&value));
            changes.endpoints.push(Delta { id, old: None, new: Some(value) });
        }
        freed.into_iter().for_each(|it| self.free.free(it.0));
        changes.endpoints.sort_unstable_by_key(|it| it.id);
    }

    fn stand(&mut self, (key, network): &EndpointKey, id: EndpointId, endpoint: Arc<Endpoint>) {
        if let Some(network) = network {
            self.attached.insert((endpoint.name.clone(), network.clone()), Some((id, endpoint)));
            return;
        }
        let standing = match *key.kind == *"Pod" {
            true => self.pods.get_mut(&endpoint.name).map(|it| &mut it.standing),
            false => self.workloads.get_mut(key),
        };
        standing.into_iter().for_each(|it| *it = Standing::Endpoint(id, Arc::clone(&endpoint)));
    }

    /// Notes a new value on the pod network.
    fn put(&mut self, key: ObjectKey, given: Given, new: Option<(Endpoint, Option<Box<str>>)>) {
        self.put_on((key, None), given, new);
    }

    /// Notes a new value; the old one is that of before the batch.
    fn put_on(&mut self, key: EndpointKey, given: Given, new: Option<(Endpoint, Option<Box<str>>)>) {
        let old = self.pending.remove(&key).and_then(|it| it.old).or(given);
        if old.is_some() || new.is_some() {
            self.pending.insert(key, Pending { old, new });
        }
    }

    fn count_owners(&mut self, key: &ObjectKey, owners: &[Owner], counting: Counting) -> Vec<ObjectKey> {
        let mut crossed = Vec::new();
        for owner in owners {
            let workload = ObjectKey { kind: owner.kind.clone(), namespace: key.namespace.clone(), name: owner.name.clone() };
            let has_crossed = match counting {
                Counting::Up => retain(&mut self.populated, &workload),
                Counting::Down => release(&mut self.populated, &workload),
            };
            if has_crossed {
                crossed.push(workload);
            }
        }
        crossed
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Endpoints { pods, workloads, populated, attached, pending, free, labels: _ } = self;
        pods.is_empty() && attached.is_empty() && workloads.is_empty() && populated.is_empty() && pending.is_empty() && free.is_unused()
    }
}

#[derive(Clone, Copy)]
enum Counting {
    Up,
    Down,
}

/// The endpoint of a pod on the pod network.
fn endpoint_of(name: &PodName, pod: &Pod, labels: Labels, owners: Vec<Owner>) -> Endpoint {
    let running = if pod.phase == Phase::Running { Running::Yes } else { Running::NotSaid };
    let (addresses, ports, readiness) = (pod.addresses.clone(), pod.template.ports.clone(), readiness(pod));
    Endpoint { name: name.clone(), labels, addresses, node: None, ports, owners, readiness, running, attachment: None }
}

fn readiness(pod: &Pod) -> Readiness {
    match (pod.meta.terminating, pod.ready) {
        (true, true) => Readiness::Terminating,
        (false, true) => Readiness::Ready,
        (true | false, false) => Readiness::NotReady,
    }
}

fn node_name(pod: &Pod) -> Option<Box<str>> {
    pod.template.node_name.as_deref().map(Into::into)
}

fn pod_key(name: &PodName) -> ObjectKey {
    ObjectKey { kind: "Pod".into(), namespace: Some(name.namespace.clone()), name: name.name.clone() }
}

fn owners_of(standing: &Standing, key: &ObjectKey, nodes: &Nodes) -> Vec<Owner> {
    match standing {
        Standing::Endpoint(_, endpoint) => endpoint.owners.clone(),
        Standing::Host(node) => nodes.host_pod(node, key).map(|it| it.owners.clone()).unwrap_or_default(),
        Standing::New | Standing::Completed => Vec::new(),
    }
}

/// The node of a pod; one is assumed for a host-network pod that was not placed yet.
fn used_node(name: &PodName, pod: &Pod) -> Option<UsedNode> {
    let (named, is_host) = (pod.template.node_name.as_deref(), pod.template.host_network);
    let own = if is_host { pod.addresses.as_slice() } else { &[] };
    let told: BTreeSet<IpAddr> = pod.host_addresses.iter().chain(own).copied().collect();
    let completed = pod.phase == Phase::Completed;
    let told = if completed { Box::default() } else { told.into_iter().collect() };
    match named {
        Some(node) => Some(UsedNode { name: node.into(), by: Use::Named, told }),
        None if is_host && !completed => Some(UsedNode { name: unplaced(name), by: Use::Host, told }),
        None => None,
    }
}

fn unplaced(pod: &PodName) -> Box<str> {
    format!("(the node of {pod})").into()
}
