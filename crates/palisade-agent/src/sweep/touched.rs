//! Connections that a change of the cluster may deny, by their ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use palisade_engine::selects;
use palisade_model::{Changes, Delta, Endpoint, EndpointId, Model, Node, NodeId, PodName, Policy, PolicyKey};
use palisade_nft::Address;

/// With more comparisons than this between changed policies and pods, all connections are judged again.
const MOST_SELECTIONS: usize = 2_000_000;

/// The ends of connections that a change may have denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Whose connections are to be judged anew.
    pub judged: Judged,
    /// Addresses that a pod had and has no longer, with the pod: their connections end, or who gets the address next inherits them.
    pub left: BTreeMap<IpAddr, PodName>,
}

/// Whose connections are to be judged anew: those with one end at least among these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    Of(HashSet<IpAddr>),
    All,
}

/// How many addresses something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Nothing,
    Few(BTreeSet<IpAddr>),
    Many,
}

impl Default for Judged {
    fn default() -> Judged {
        Judged::Of(HashSet::new())
    }
}

impl Touched {
    /// Everything is to be judged anew.
    pub(crate) fn all() -> Touched {
        Touched { judged: Judged::All, left: BTreeMap::new() }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && matches!(&self.judged, Judged::Of(addresses) if addresses.is_empty())
    }

    /// Takes in what another change touched.
    pub(crate) fn absorb(&mut self, other: Touched) {
        self.left.extend(other.left);
        match (&mut self.judged, other.judged) {
            (Judged::All, _) => {}
            (judged, Judged::All) => *judged = Judged::All,
            (Judged::Of(addresses), Judged::Of(more)) => addresses.extend(more),
        }
    }

    /// The pod that had one of these addresses, and has it no longer.
    pub(crate) fn left_by(&self, ends: [IpAddr; 2]) -> Option<&PodName> {
        ends.iter().find_map(|it| self.left.get(it))
    }

    /// How many addresses of a family there are, where so many are few.
    pub(crate) fn of(&self, family: Address, few: usize) -> Amount {
        let Judged::Of(judged) = &self.judged else { return Amount::Many };
        let all = judged.iter().chain(self.left.keys()).copied().filter(|it| Address::of(*it) == family);
        let some: BTreeSet<IpAddr> = all.take(few * 2 + 1).collect();
        match some.len() {
            0 => Amount::Nothing,
            many if many > few => Amount::Many,
            _ => Amount::Few(some),
        }
    }

    /// Whether a connection between these ends is to be judged anew.
    pub(crate) fn judges(&self, ends: [IpAddr; 2]) -> bool {
        match &self.judged {
            Judged::All => true,
            Judged::Of(addresses) => ends.iter().any(|it| addresses.contains(it)),
        }
    }
}

/// The pods whose connections must be judged again although the pods themselves did not change: those whose namespace has other labels, and those whose
/// node has another name. A policy can tell the difference.
pub(crate) fn pods_seen_differently(model: &Model, changes: &Changes) -> Vec<EndpointId> {
    let relabelled = changes.namespaces.iter().filter(|it| it.old.as_ref().map(|it| &it.labels) != it.new.as_ref().map(|it| &it.labels));
    let namespaces: HashSet<&str> = relabelled.map(|it| &*it.id).collect();
    let renamed = |it: &&Delta<NodeId, Node>| it.old.as_ref().map(|it| &it.name) != it.new.as_ref().map(|it| &it.name);
    let nodes: HashSet<NodeId> = changes.nodes.iter().filter(renamed).map(|it| it.id).collect();
    if namespaces.is_empty() && nodes.is_empty() {
        return Vec::new();
    }
    let touched = |it: &Endpoint| namespaces.contains(&*it.name.namespace) || it.node.is_some_and(|it| nodes.contains(&it));
    model.endpoints.iter_ids().filter(|(_, it)| touched(it)).map(|(id, _)| id).collect()
}

/// Addresses of nodes whose labels or addresses differ.
pub(crate) fn changed_nodes(changes: &Changes) -> impl Iterator<Item = IpAddr> {
    let known = |it: &Node| (it.name.clone(), it.labels.clone(), it.addresses.clone());
    let differs = move |it: &&Delta<NodeId, Node>| it.old.as_deref().map(known) != it.new.as_deref().map(known);
    let ends = |it: &Delta<NodeId, Node>| [it.old.clone(), it.new.clone()];
    changes.nodes.iter().filter(differs).flat_map(ends).flatten().flat_map(|it| it.addresses.clone())
}

/// Addresses of pods that a changed policy selects, or selected before. None if that is too much to find out. A pod that itself changed, or whose namespace did,
/// is touched anyway, so the model after the changes is enough.
pub(crate) fn selected(model: &Model, policies: &[Delta<PolicyKey, Policy>]) -> Option<HashSet<IpAddr>> {
    let versions: Vec<&Policy> = policies.iter().flat_map(|it| [it.old.as_deref(), it.new.as_deref()]).flatten().collect();
    if versions.len().saturating_mul(model.endpoints.len()) > MOST_SELECTIONS {
        return None;
    }
    let pods = model.endpoints.iter().filter(|pod| versions.iter().any(|it| selects(model, it, pod)));
    Some(pods.flat_map(|it| it.addresses.iter().copied()).collect())
}
