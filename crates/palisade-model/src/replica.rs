//! A consumer's own copy of the model, which follows the changes of the producer.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::change::{Changes, Delta, Revision, ServiceName, SetChange};
use crate::cluster::{Endpoint, Model, NodeId, Service};
use crate::network::IpBlock;
use crate::networks::{Network, NetworkId, renumber_endpoint, renumber_policy};
use crate::policy::{Policy, PolicyKey};
use crate::shared_list::SharedList;
use crate::slots::{SlotId, Slots};

/// A model and its revision. Objects are shared with the producer and with other replicas.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    model: Model,
    revision: Revision,
}

/// Changes that do not fit a replica: the consumer missed some before them, or the replica was damaged. `Replica::of` or `Changes::all` starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The changes start from another revision.
    OtherRevision,
    /// An object of the replica is not the one that the changes replace.
    OtherObject,
    /// The changes do not lead to the revision that they name.
    OtherResult,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gap::OtherRevision => "the changes start from another revision of the model",
            Gap::OtherObject => "the model has another object than the one that the changes replace",
            Gap::OtherResult => "the changes lead to another revision than they name",
        })
    }
}

impl std::error::Error for Gap {}

impl Replica {
    /// A replica of a whole model.
    pub fn of(model: Model) -> Replica {
        let revision = Changes::all(&model).to;
        Replica { model, revision }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Sets `Model::pod_ranges`, which follow from node ranges and settings of the consumer, and so are no part of changes.
    pub fn set_pod_ranges(&mut self, ranges: Vec<IpBlock>) {
        self.model.pod_ranges = ranges;
    }

    /// The revision of the model.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Applies changes. After an error the replica is of no more use.
    pub fn apply(&mut self, changes: &Changes) -> Result<(), Gap> {
        if self.revision != changes.from {
            return Err(Gap::OtherRevision);
        }
        if changes.revision_after(self.revision) != changes.to {
            return Err(Gap::OtherResult);
        }
        let model = &mut self.model;
        for delta in &changes.namespaces {
            let old = match &delta.new {
                Some(new) => model.namespaces.insert(delta.id.clone(), new.as_ref().clone()),
                None => model.namespaces.remove(&delta.id),
            };
            same(old.as_ref(), delta.old.as_deref())?;
        }
        set_slots(&mut model.networks, &changes.networks)?;
        set_slots(&mut model.nodes, &changes.nodes)?;
        set_slots(&mut model.endpoints, &changes.endpoints)?;
        set_services(&mut model.services, &changes.services)?;
        set_policies(&mut model.policies, &changes.policies)?;
        for delta in &changes.audited {
            let of_set = model.audited.entry(delta.id.set.clone()).or_default();
            let at = of_set.iter().position(|it| it.key() == delta.id.policy);
            same(at.and_then(|at| of_set.get(at)), delta.old.as_deref())?;
            at.into_iter().for_each(|at| drop(of_set.remove(at)));
            if let Some(new) = &delta.new {
                let at = of_set.partition_point(|it| it.in_order(new).is_lt());
                of_set.insert(at, new.as_ref().clone());
            }
            if of_set.is_empty() {
                model.audited.remove(&delta.id.set);
            }
        }
        set_members(&mut model.node_ranges, &changes.node_ranges)?;
        set_members(&mut model.completed, &changes.completed)?;
        set_members(&mut model.foreign, &changes.foreign)?;
        for gone in &changes.logged.removed {
            model.logged.remove(gone).then_some(()).ok_or(Gap::OtherObject)?;
        }
        for new in &changes.logged.added {
            model.logged.insert(new.clone()).then_some(()).ok_or(Gap::OtherObject)?;
        }
        self.revision = changes.to;
        Ok(())
    }
}

impl Model {
    /// The same cluster with ids in the order of names and no free slots, as if it had been read at once. Questions about the whole cluster are
    /// asked of such a model, so that their answers do not depend on its history.
    #[must_use]
    pub fn canonical(&self) -> Model {
        let mut nodes: Vec<(NodeId, &Arc<_>)> = self.nodes.iter_shared().collect();
        nodes.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        let ids: BTreeMap<NodeId, NodeId> = nodes.iter().zip(0..).map(|((old, _), new)| (*old, NodeId(new))).collect();
        let (networks, network_ids) = self.canonical_networks();
        let network = |it: NetworkId| network_ids.get(&it).copied().unwrap_or_default();
        let renumbered = |(_, it): (_, &Arc<Endpoint>)| {
            let node = it.node.and_then(|it| ids.get(&it)).copied();
            if node == it.node && network(it.network()) == it.network() {
                return Arc::clone(it);
            }
            let mut endpoint = Endpoint { node, ..it.as_ref().clone() };
            renumber_endpoint(&mut endpoint, network);
            Arc::new(endpoint)
        };
        let mut endpoints: Vec<Arc<Endpoint>> = self.endpoints.iter_shared().map(renumbered).collect();
        endpoints.sort_by(|one, other| one.name_order(other));
        let mut model = Model {
            networks,
            endpoints: endpoints.into_iter().collect(),
            nodes: nodes.into_iter().map(|(_, it)| Arc::clone(it)).collect(),
            ..self.clone()
        };
        if network_ids.iter().any(|(old, new)| old != new) {
            model.policies = self.policies.iter_shared().map(|it| renumber_policy(it, network)).collect();
            model.policies.sort_by(Policy::in_order);
            for set in model.audited.values_mut() {
                set.iter_mut().for_each(|it| it.network = network(it.network));
                set.sort_by(Policy::in_order);
            }
        }
        model
    }

    /// Networks in the order of names, and the new id of each.
    fn canonical_networks(&self) -> (Slots<NetworkId, Network>, BTreeMap<NetworkId, NetworkId>) {
        let mut networks: Vec<(NetworkId, &Arc<Network>)> = self.networks.iter_shared().collect();
        networks.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        let mut slots = Slots::new();
        let mut ids = BTreeMap::new();
        for ((old, network), new) in networks.into_iter().zip(NetworkId::DEFAULT.0 + 1..) {
            slots.set(NetworkId(new), Some(Arc::clone(network)));
            ids.insert(old, NetworkId(new));
        }
        (slots, ids)
    }
}

fn same<T: PartialEq>(held: Option<&T>, expected: Option<&T>) -> Result<(), Gap> {
    let is_same = match (held, expected) {
        (Some(held), Some(expected)) => std::ptr::eq(held, expected) || held == expected,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    is_same.then_some(()).ok_or(Gap::OtherObject)
}

fn set_slots<I: SlotId, T: PartialEq>(slots: &mut Slots<I, T>, deltas: &[Delta<I, T>]) -> Result<(), Gap> {
    deltas.iter().try_for_each(|delta| same(slots.set(delta.id, delta.new.clone()).as_deref(), delta.old.as_deref()))
}

fn set_services(services: &mut Vec<Service>, deltas: &[Delta<ServiceName, Service>]) -> Result<(), Gap> {
    let order = |it: &Service, id: &ServiceName| (&it.namespace, &it.name).cmp(&(&id.namespace, &id.name));
    for delta in deltas.iter().filter(|it| it.old.is_some()) {
        let at = services.binary_search_by(|it| order(it, &delta.id)).map_err(|_| Gap::OtherObject)?;
        same(services.get(at), delta.old.as_deref())?;
        services.remove(at);
    }
    let new = deltas.iter().filter_map(|it| it.new.as_deref().cloned());
    add_sorted(services, new.collect(), |one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)))
}

fn set_policies(policies: &mut SharedList<Policy>, deltas: &[Delta<PolicyKey, Policy>]) -> Result<(), Gap> {
    let new = deltas.iter().filter(|it| it.new.is_some()).count();
    for old in deltas.iter().filter_map(|it| it.old.as_ref()) {
        let at = policies.partition_point(|it| it.in_order(old).is_lt());
        same(policies.shared(at), Some(old))?;
        policies.remove(at);
    }
    if new <= FEW {
        for new in deltas.iter().filter_map(|it| it.new.as_ref()) {
            let at = policies.partition_point(|it| it.in_order(new).is_lt());
            let is_known = policies.get(at).is_some_and(|it| it.in_order(new).is_eq());
            (!is_known).then_some(()).ok_or(Gap::OtherObject)?;
            policies.insert_shared(at, Arc::clone(new));
        }
        return Ok(());
    }
    let mut items: Vec<Arc<Policy>> = policies.iter_shared().cloned().collect();
    add_sorted(&mut items, deltas.iter().filter_map(|it| it.new.clone()).collect(), |one, other| one.in_order(other))?;
    *policies = items.into_iter().collect();
    Ok(())
}

fn set_members<T: Clone + Ord>(members: &mut Vec<T>, change: &SetChange<T>) -> Result<(), Gap> {
    for gone in &change.removed {
        let at = members.binary_search(gone).map_err(|_| Gap::OtherObject)?;
        members.remove(at);
    }
    add_sorted(members, change.added.clone(), Ord::cmp)
}

/// With more new items than this, the whole list is sorted once instead of moving its end for each item.
const FEW: usize = 16;

/// Adds items to an ordered list. No two items may compare equal.
fn add_sorted<T>(items: &mut Vec<T>, new: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Result<(), Gap> {
    if new.len() <= FEW {
        for item in new {
            let at = items.binary_search_by(|it| order(it, &item)).err().ok_or(Gap::OtherObject)?;
            items.insert(at, item);
        }
        return Ok(());
    }
    items.extend(new);
    items.sort_by(&order);
    let distinct = items.windows(2).all(|it| matches!(it, [one, other] if order(one, other).is_lt()));
    distinct.then_some(()).ok_or(Gap::OtherObject)
}
