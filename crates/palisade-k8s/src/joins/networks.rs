//! Networks besides the pod network, which exist while a pod is attached to them or a policy is about them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_api::Pod;
use palisade_api::networks::NetworkAnnotations;
use palisade_model::{Changes, Delta, Enforcement, Network, NetworkId, NodeAddresses};

use crate::joins::endpoints::FreeSlots;
use crate::sources::ObjectKey;

/// The source from which an `Index` learns the networks of pods and policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachmentSource {
    /// None: every pod and policy is on the pod network alone.
    #[default]
    Ignored,
    /// The annotations `k8s.v1.cni.cncf.io/network-status` of pods and `k8s.v1.cni.cncf.io/policy-for` of policies.
    Annotations,
}

/// All networks by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks {
    by_name: BTreeMap<Box<str>, Entry>,
    stale: BTreeSet<Box<str>>,
    free: FreeSlots,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    id: Option<NetworkId>,
    /// The number of attachments and policies.
    uses: usize,
    given: Option<Arc<Network>>,
}

/// One pod on one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) interfaces: Vec<Box<str>>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// The networks of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyNetworks {
    PodNetwork,
    /// These, in order.
    Named(BTreeSet<Box<str>>),
}

impl PolicyNetworks {
    /// The names of networks other than the pod network.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let named = match self {
            PolicyNetworks::PodNetwork => None,
            PolicyNetworks::Named(names) => Some(names),
        };
        named.into_iter().flatten().map(AsRef::as_ref)
    }
}

impl AttachmentSource {
    fn annotations(self, of: Option<&NetworkAnnotations>) -> Option<&NetworkAnnotations> {
        of.filter(|_| self == AttachmentSource::Annotations)
    }

    /// The attachments of a pod, by network. None are known of a pod whose annotation cannot be read: its interfaces stay closed.
    pub(crate) fn of_pod(self, key: &ObjectKey, pod: &Pod) -> BTreeMap<Box<str>, Attached> {
        let mut found: BTreeMap<Box<str>, Attached> = BTreeMap::new();
        let read = self.annotations(pod.meta.networks.as_deref()).and_then(|it| it.status.as_ref().ok());
        for status in read.into_iter().flatten() {
            let Some(name) = status.network.full_name(key.namespace.as_deref()) else { continue };
            // A pod that has two interfaces on one network is one endpoint.
            let attached = found.entry(name).or_default();
            attached.interfaces.extend(status.interface.clone());
            attached.addresses.extend(&status.addresses);
        }
        found
    }

    /// The networks of a policy. A reference that cannot be read is not among them, and has a problem.
    pub(crate) fn of_policy(self, key: &ObjectKey, networks: Option<&NetworkAnnotations>) -> PolicyNetworks {
        let references = self.annotations(networks).and_then(|it| it.policy_for.as_ref());
        let Some(references) = references else { return PolicyNetworks::PodNetwork };
        let named = references.iter().flatten().filter_map(|it| it.full_name(key.namespace.as_deref()));
        PolicyNetworks::Named(named.collect())
    }

    /// Reasons why annotations of an object say less than was written.
    pub(crate) fn problems(self, key: &ObjectKey, networks: Option<&NetworkAnnotations>) -> Vec<String> {
        let Some(networks) = self.annotations(networks) else { return Vec::new() };
        let status = networks
            .status
            .as_ref()
            .err()
            .map(|why| format!("the networks of the pod cannot be read, so its interfaces stay closed: {why}"));
        let references = networks.policy_for.iter().flatten().filter_map(|it| match it {
            Err(why) => Some(format!("the policy is not enforced on a network that cannot be read: {why}")),
            Ok(reference) if reference.full_name(key.namespace.as_deref()).is_none() => {
                Some(format!("the policy is not enforced on `{}`: a policy without a namespace names that of the network", reference.name))
            }
            Ok(_) => None,
        });
        status.into_iter().chain(references).collect()
    }
}

impl Networks {
    /// Counts one more attachment or policy of a network.
    pub(crate) fn add(&mut self, name: &str) {
        let entry = self.by_name.entry(name.into()).or_default();
        entry.uses += 1;
        if entry.uses == 1 {
            self.stale.insert(name.into());
        }
    }

    /// Takes back what `add` counted.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(entry) = self.by_name.get_mut(name) else { return };
        entry.uses -= 1;
        if entry.uses == 0 {
            self.stale.insert(name.into());
        }
    }

    /// The id of a network that `give` has given one.
    pub(crate) fn id(&self, name: &str) -> Option<NetworkId> {
        self.by_name.get(name)?.id
    }

    /// Gives ids to new networks in the order of their names, and the changes of all that differ.
    pub(crate) fn give(&mut self, changes: &mut Changes) {
        let mut freed = Vec::new();
        for name in std::mem::take(&mut self.stale) {
            let Some(entry) = self.by_name.get_mut(&name) else { continue };
            // SPEC: multiple networks: a CNI plugin may attach a pod past the node's stack, so only the pod's own namespace sees all packets.
            let network = || Network { name: name.clone(), enforcement: Enforcement::PodNamespace, nodes: NodeAddresses::Absent };
            let new = (entry.uses > 0).then(|| entry.given.clone().unwrap_or_else(|| Arc::new(network())));
            if entry.id.is_none() && new.is_some() {
                // The first slot is that of the pod network.
                entry.id = Some(NetworkId(NetworkId::DEFAULT.0 + 1 + self.free.take()));
            }
            let old = std::mem::replace(&mut entry.given, new.clone());
            let id = entry.id;
            if new.is_none() {
                freed.extend(id);
                self.by_name.remove(&name);
            }
            changes.networks.extend(id.and_then(|id| Delta::between(id, old, new)));
        }
        freed.into_iter().for_each(|it| self.free.free(it.0 - 1 - NetworkId::DEFAULT.0));
        changes.networks.sort_unstable_by_key(|it| it.id);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.stale.is_empty() && self.free.is_unused()
    }
}
