//! Nodes: their objects, the pods that name them, and the addresses that those pods tell.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use palisade_model::{Changes, Delta, HostPod, Labels, Node, NodeId, SetChange};

use crate::joins::endpoints::FreeSlots;
use crate::sources::ObjectKey;

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// All nodes by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    by_name: BTreeMap<Box<str>, Entry>,
    stale: BTreeSet<Box<str>>,
    free: FreeSlots,
    /// The number of nodes that name each pod range.
    ranges: BTreeMap<IpNet, usize>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    id: Option<NodeId>,
    object: Option<NodeObject>,
    /// The number of pods that run here.
    pods: usize,
    /// The number of host-network pods and workloads without a Node or a name of one.
    hosts: usize,
    /// Addresses that pods tell, with the number of pods.
    told: BTreeMap<IpAddr, usize>,
    host_pods: BTreeMap<ObjectKey, HostPod>,
    /// What the pod that was added last says of the node. Nearly all pods of a node say the same and share it.
    used: Option<Arc<UsedNode>>,
    given: Option<Arc<Node>>,
}

/// A node that a pod uses, and the addresses that the pod tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsedNode {
    pub(crate) name: Box<str>,
    pub(crate) by: Use,
    pub(crate) told: Box<[IpAddr]>,
}

#[derive(Clone, Debug)]
struct NodeObject {
    labels: Labels,
    addresses: Vec<IpAddr>,
    ranges: Vec<IpNet>,
}

/// How a pod uses a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The pod says that it runs there.
    Named,
    /// The pod or workload uses the network of the node.
    Host,
}

impl Nodes {
    /// Sets or removes a Node object.
    pub(crate) fn set_object(&mut self, name: &str, object: Option<&palisade_api::Node>, ranges: &mut SetChange<IpNet>) {
        let entry = self.by_name.entry(name.into()).or_default();
        let new =
            object.map(|it| NodeObject { labels: it.meta.labels.clone(), addresses: it.addresses.clone(), ranges: it.pod_cidrs.clone() });
        let of = |object: Option<&NodeObject>| object.map_or_else(BTreeSet::new, |it| it.ranges.iter().copied().collect());
        let (was, is): (BTreeSet<IpNet>, BTreeSet<IpNet>) = (of(entry.object.as_ref()), of(new.as_ref()));
        entry.object = new;
        for range in is.difference(&was) {
            if retain(&mut self.ranges, range) {
                toggle(&mut ranges.removed, &mut ranges.added, *range);
            }
        }
        for range in was.difference(&is) {
            if release(&mut self.ranges, range) {
                toggle(&mut ranges.added, &mut ranges.removed, *range);
            }
        }
        self.stale.insert(name.into());
    }

    /// Counts a pod that uses a node. Returns what the pod says of the node, shared with other pods.
    pub(crate) fn add_used(&mut self, used: UsedNode) -> Arc<UsedNode> {
        self.add(&used.name, used.by, &used.told);
        let entry = self.by_name.entry(used.name.clone()).or_default();
        match &entry.used {
            Some(shared) if **shared == used => Arc::clone(shared),
            Some(_) | None => Arc::clone(entry.used.insert(Arc::new(used))),
        }
    }

    /// Counts a pod that uses a node, with the addresses that it tells of it.
    pub(crate) fn add(&mut self, name: &str, by: Use, told: &[IpAddr]) {
        let entry = self.by_name.entry(name.into()).or_default();
        match by {
            Use::Named => entry.pods += 1,
            Use::Host => entry.hosts += 1,
        }
        for address in told {
            *entry.told.entry(*address).or_default() += 1;
        }
        let first = match by {
            Use::Named => entry.pods == 1,
            Use::Host => entry.hosts == 1,
        };
        if first || entry.given.is_none() || told.iter().any(|it| entry.told.get(it) == Some(&1)) {
            self.stale.insert(name.into());
        }
    }

    /// Takes back what `add` counted.
    pub(crate) fn remove(&mut self, name: &str, by: Use, told: &[IpAddr]) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        match by {
            Use::Named => entry.pods -= 1,
            Use::Host => entry.hosts -= 1,
        }
        let mut changed = entry.pods == 0;
        for address in told {
            changed |= release(&mut entry.told, address);
        }
        if changed {
            self.stale.insert(name.into());
        }
    }

    /// Sets or removes a pod on the network of a node.
    pub(crate) fn set_host_pod(&mut self, name: &str, key: &ObjectKey, pod: Option<HostPod>) {
        let entry = self.by_name.entry(name.into()).or_default();
        match pod {
            Some(pod) => drop(entry.host_pods.insert(key.clone(), pod)),
            None => drop(entry.host_pods.remove(key)),
        }
        self.stale.insert(name.into());
    }

    pub(crate) fn host_pod(&self, name: &str, key: &ObjectKey) -> Option<&HostPod> {
        self.by_name.get(name)?.host_pods.get(key)
    }

    pub(crate) fn has_object(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|it| it.object.is_some())
    }

    /// Names of nodes that have a Node object.
    pub(crate) fn object_names(&self) -> impl Iterator<Item = &str> {
        self.by_name.iter().filter(|(_, it)| it.object.is_some()).map(|(name, _)| name.as_ref())
    }

    pub(crate) fn id(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name)?.id
    }

    /// Gives ids to new nodes, and the changes of all that may differ.
    pub(crate) fn give(&mut self, changes: &mut Changes) {
        let mut freed = Vec::new();
        for name in std::mem::take(&mut self.stale) {
            let Some(entry) = self.by_name.get_mut(&name) else { continue };
            let new = entry.node(&name).map(Arc::new);
            if entry.id.is_none() && new.is_some() {
                entry.id = Some(NodeId(self.free.take()));
            }
            let old = std::mem::replace(&mut entry.given, new.clone());
            let id = entry.id;
            if new.is_none() {
                freed.extend(id);
                self.by_name.remove(&name);
            }
            changes.nodes.extend(id.and_then(|id| Delta::between(id, old, new)));
        }
        freed.into_iter().for_each(|it| self.free.free(it.0));
        changes.nodes.sort_unstable_by_key(|it| it.id);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.stale.is_empty() && self.ranges.is_empty() && self.free.is_unused()
    }
}

impl Entry {
    /// The node as the model has it. None if neither an object nor a pod knows it.
    fn node(&self, name: &str) -> Option<Node> {
        if self.object.is_none() && self.pods == 0 && self.hosts == 0 {
            return None;
        }
        let (labels, mut addresses) = match &self.object {
            Some(object) => (object.labels.clone(), object.addresses.clone()),
            None if self.pods > 0 => ([(HOSTNAME_LABEL, name)].into_iter().collect(), Vec::new()),
            None => (Labels::default(), Vec::new()),
        };
        let told: Vec<IpAddr> = self.told.keys().copied().filter(|it| !addresses.contains(it)).collect();
        addresses.extend(told);
        let host_pods = self.host_pods.values().cloned().collect();
        Some(Node { name: name.into(), labels, addresses, host_pods, assumed: self.object.is_none() })
    }
}

/// Counts one use more. Returns true if it is the first one.
pub(crate) fn retain<K: Clone + Ord>(counts: &mut BTreeMap<K, usize>, key: &K) -> bool {
    let count = counts.entry(key.clone()).or_default();
    *count += 1;
    *count == 1
}

/// Counts one use less. Returns true if that was the last one.
pub(crate) fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    let last = *count == 0;
    if last {
        counts.remove(key);
    }
    last
}

/// Adds a member to one list, or takes it back from the opposite one.
pub(crate) fn toggle<T: PartialEq>(opposite: &mut Vec<T>, list: &mut Vec<T>, member: T) {
    match opposite.iter().position(|it| *it == member) {
        Some(at) => drop(opposite.swap_remove(at)),
        None => list.push(member),
    }
}
