//! The small model that a node's ruleset follows from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{EndpointId, Model, NodeId, Place};

use crate::cells::population::Cell;
use crate::cells::{CellId, Claimant, NodeCells};

/// A small model with the same classes and programs for the node.
#[derive(Debug)]
pub struct Reduced {
    /// The pods of the node, and one pod or node of each cell that has others. Without policies.
    pub model: Model,
    /// The ids that endpoints have in it.
    pub pods: BTreeMap<EndpointId, EndpointId>,
    /// An address of each cell.
    pub samples: Vec<(CellId, IpAddr)>,
}

impl NodeCells {
    /// A model that leads to the same classes and programs of the node as the whole model does. `more` are pods to keep besides.
    pub fn reduced(&mut self, model: &Model, more: impl Iterator<Item = EndpointId>) -> Reduced {
        self.find_samples();
        let samples = self.samples(model);
        let mut pods: BTreeSet<EndpointId> = self.local.iter().copied().chain(more).collect();
        let mut nodes: BTreeSet<NodeId> = [self.node].into();
        for owned in samples.iter().filter_map(|(_, address)| self.owned.get(address)) {
            match owned.by.place() {
                Place::Pod(id) => drop(pods.insert(id)),
                Place::Node(id) => drop(nodes.insert(id)),
                Place::Outside => {}
            }
        }
        let mut reduced = Model { pod_ranges: model.pod_ranges.clone(), ..Model::default() };
        let mut ids = BTreeMap::new();
        for id in pods {
            let Some(endpoint) = model.endpoints.shared(id) else { continue };
            let endpoint = self.with_owned(Claimant::pod(id), endpoint, &endpoint.addresses, |it, addresses| it.addresses = addresses);
            let namespace = &endpoint.name.namespace;
            if let (false, Some(of)) = (reduced.namespaces.contains_key(namespace), model.namespaces.get(namespace)) {
                reduced.namespaces.insert(namespace.clone(), of.clone());
            }
            ids.insert(id, reduced.endpoints.push_shared(endpoint));
        }
        for id in nodes {
            let Some(node) = model.nodes.shared(id) else { continue };
            let node = self.with_owned(Claimant::node(id), node, &node.addresses, |it, addresses| it.addresses = addresses);
            reduced.nodes.set(id, Some(node));
        }
        Reduced { model: reduced, pods: ids, samples }
    }

    /// An object with only those of its addresses that are its own.
    fn with_owned<T: Clone>(&self, of: Claimant, object: &Arc<T>, addresses: &[IpAddr], set: impl FnOnce(&mut T, Vec<IpAddr>)) -> Arc<T> {
        let is_own = |it: &&IpAddr| self.owned.get(it).is_some_and(|it| it.by == of);
        if addresses.iter().all(|it| is_own(&it)) {
            return Arc::clone(object);
        }
        let mut object = T::clone(object);
        set(&mut object, addresses.iter().filter(is_own).copied().collect());
        Arc::new(object)
    }

    /// Looks for an address of each cell that lost the one it had.
    fn find_samples(&mut self) {
        let lacks = |it: &Cell| it.sample.is_none() && it.others > 0;
        let lacking = self.cells.iter().zip(0..).filter(|(it, _)| it.as_ref().is_some_and(lacks)).map(|it| it.1);
        let mut lacking: BTreeSet<CellId> = lacking.collect();
        if lacking.is_empty() {
            return;
        }
        for (address, owned) in &self.owned {
            let is_local = || matches!(owned.by.place(), Place::Pod(id) if self.local.contains(&id));
            if lacking.contains(&owned.cell) && !is_local() {
                lacking.remove(&owned.cell);
                let cell = usize::try_from(owned.cell).ok().and_then(|it| self.cells.get_mut(it)).and_then(Option::as_mut);
                cell.into_iter().for_each(|it| it.sample = Some(*address));
                if lacking.is_empty() {
                    return;
                }
            }
        }
    }

    /// An address of each cell; several of a cell that holds pods of the node.
    fn samples(&self, model: &Model) -> Vec<(CellId, IpAddr)> {
        let others = self.cells.iter().zip(0..).filter_map(|(it, id)| Some((id, it.as_ref()?.sample?)));
        let local = self.local.iter().filter_map(|id| Some((Claimant::pod(*id), model.endpoint(*id)?)));
        let local = local.flat_map(|(by, it)| it.addresses.iter().map(move |address| (by, *address)));
        let local = local.filter_map(|(by, address)| Some((self.owned.get(&address).filter(|it| it.by == by)?.cell, address)));
        others.chain(local).collect()
    }
}
