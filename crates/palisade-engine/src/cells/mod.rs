//! The addresses of pods and nodes in cells: all addresses of a cell have the same answers to everything that the policies of one node ask.
//!
//! A node's kernel tells classes of addresses apart, and a class is one cell or several. So a ruleset follows from the pods of the node and one
//! address of each cell, whatever the size of the cluster (`NodeCells::reduced`). A pod that comes or goes, a label that changes and a policy that
//! asks something new move addresses between cells; only a cell that comes or goes can change more than elements of maps.

mod blocks;
mod ends;
mod marks;
mod population;
mod questions;
mod reduced;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{Changes, ContainerPort, Delta, Endpoint, EndpointId, Model, Namespace, NodeId, Place, Policy, SlotId as _};
use rustc_hash::FxHashMap;

use crate::cells::blocks::{BlockMap, Regrouped};
use crate::cells::marks::Space;
use crate::cells::population::{Cell, CellKey, Population};
use crate::cells::questions::Questions;
use crate::decide::selects;
use crate::relative::{Compared, Values, Viewpoint};

pub use crate::cells::reduced::Reduced;

/// The cells of one node.
#[derive(Debug)]
pub struct NodeCells {
    node: NodeId,
    questions: Questions,
    block_map: BlockMap,
    /// Namespaces with pods that have addresses.
    spaces: BTreeMap<Box<str>, Space>,
    /// Ids of conditions on nodes.
    node_conditions: Vec<u32>,
    /// Every address that a pod or node has.
    owned: BTreeMap<IpAddr, Owned>,
    /// All claims of addresses with several.
    contested: BTreeMap<IpAddr, Vec<Claimant>>,
    /// The pods of the node that have addresses.
    local: BTreeSet<EndpointId>,
    cells: Vec<Option<Cell>>,
    free: Vec<CellId>,
    by_key: FxHashMap<CellKey, CellId>,
    pending: Pending,
}

/// The number of a cell. A cell without addresses is gone, and its number may be given to a later cell.
pub type CellId = u32;

/// The result of an update.
#[derive(Debug, PartialEq, Eq)]
pub struct CellChanges {
    /// Addresses that are in another cell than before, and those that nobody has any more.
    pub moved: Vec<(IpAddr, Option<CellId>)>,
    /// Whether cells came, went, or now hold one pod of the node alone, or no longer do.
    pub cells: CellsAre,
}

/// Whether the cells themselves are as before an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellsAre {
    /// Addresses may have moved between them.
    TheSame,
    /// A ruleset may need other classes or programs.
    Changed,
}

/// A pod or node, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Claimant(u32);

impl Claimant {
    fn pod(id: EndpointId) -> Claimant {
        Claimant(u32::try_from(id.slot()).unwrap_or(u32::MAX >> 1) << 1)
    }

    fn node(id: NodeId) -> Claimant {
        Claimant(u32::try_from(id.slot()).unwrap_or(u32::MAX >> 1) << 1 | 1)
    }

    fn place(self) -> Place {
        let slot = usize::try_from(self.0 >> 1).unwrap_or(usize::MAX);
        if self.0 & 1 == 0 { Place::Pod(EndpointId(slot)) } else { Place::Node(NodeId(slot)) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Owned {
    by: Claimant,
    cell: CellId,
}

/// An update that has begun.
#[derive(Debug, Default)]
struct Pending {
    /// Addresses to look at again.
    addresses: BTreeSet<IpAddr>,
    /// Claims of the addresses whose claims changed.
    claims: BTreeMap<IpAddr, Vec<Claimant>>,
    /// The populations that cells had.
    before: BTreeMap<CellId, Population>,
}

/// Whether the pods of the node, or what selectors of policies see of them, are as before an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalPods {
    /// The policies that apply to them are the same unless policies changed.
    TheSame,
    /// Another pod, label or address.
    Changed,
}

/// Three steps make an update: `take_ends`, `ask`, `settle`.
impl NodeCells {
    /// No cells yet.
    pub fn new(node: NodeId) -> NodeCells {
        NodeCells {
            node,
            questions: Questions::default(),
            block_map: BlockMap::default(),
            spaces: BTreeMap::new(),
            node_conditions: Vec::new(),
            owned: BTreeMap::new(),
            contested: BTreeMap::new(),
            local: BTreeSet::new(),
            cells: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            pending: Pending::default(),
        }
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Takes all pods and nodes of a model, instead of changes.
    pub fn take_all(&mut self, model: &Model) {
        for (id, endpoint) in model.endpoints.iter_ids() {
            self.take_pod(model, id, None, Some(endpoint));
        }
        for (id, node) in model.nodes.iter_ids() {
            self.take_node(id, None, Some(node));
        }
    }

    /// Takes changes of pods, nodes and namespaces. `model` is the model after these changes.
    pub fn take_ends(&mut self, model: &Model, changes: &Changes) -> LocalPods {
        let mut local = LocalPods::TheSame;
        for Delta { id, old, new } in &changes.endpoints {
            if self.take_pod(model, *id, old.as_deref(), new.as_deref()) == LocalPods::Changed {
                local = LocalPods::Changed;
            }
        }
        changes.nodes.iter().for_each(|it| self.take_node(it.id, it.old.as_deref(), it.new.as_deref()));
        for Delta { id, old, new } in &changes.namespaces {
            let labels = |it: &Option<Arc<Namespace>>| it.as_ref().map(|it| it.labels.clone()).unwrap_or_default();
            if labels(old) != labels(new) && self.relabel_space(model, id) == LocalPods::Changed {
                local = LocalPods::Changed;
            }
        }
        local
    }

    /// Takes the policies that apply to the pods of the node.
    pub fn ask(&mut self, model: &Model, policies: impl Iterator<Item = Arc<Policy>>) {
        let new = self.questions.set_policies(self.parts(model, policies));
        self.turn_conditions(model, &new.conditions);
        let names = new.port_names.added.iter().chain(&new.port_names.removed).filter_map(|it| self.questions.port_names.get(*it));
        let names: BTreeSet<Box<str>> = names.cloned().collect();
        self.questions.forget(&new);
        if !names.is_empty() {
            let asks = |it: &ContainerPort| it.name.as_ref().is_some_and(|it| names.contains(it));
            let pods = model.endpoints.iter().filter(|it| it.ports.iter().any(asks));
            self.pending.addresses.extend(pods.flat_map(|it| &it.addresses));
        }
        if !new.blocks.is_empty() {
            match self.block_map.update(&self.questions.blocks) {
                Regrouped::Ranges(ranges) => {
                    let within = ranges.into_iter().flat_map(|it| self.owned.range(it)).map(|it| *it.0);
                    self.pending.addresses.extend(within);
                }
                Regrouped::Renumbered => {
                    self.by_key.clear();
                    self.pending.addresses.extend(self.owned.keys());
                }
            }
        }
    }

    /// Policies, and in the place of a policy with relative peers its parts for the pods of the node.
    fn parts(&self, model: &Model, policies: impl Iterator<Item = Arc<Policy>>) -> Vec<Arc<Policy>> {
        let mut parts = Vec::new();
        for policy in policies {
            let Some(compared) = Compared::by(&policy) else {
                parts.push(policy);
                continue;
            };
            let subjects = self.local_pods(model).filter(|it| selects(model, &policy, it));
            let values: BTreeSet<Values> = subjects.map(|it| compared.values(Viewpoint::of(model, it))).collect();
            parts.extend(values.iter().map(|it| Arc::new(compared.part(&policy, it))));
        }
        parts
    }

    /// Puts each address that the update is about into its cell.
    pub fn settle(&mut self, model: &Model) -> CellChanges {
        let Pending { mut addresses, mut claims, .. } = std::mem::take(&mut self.pending);
        addresses.extend(claims.keys());
        let (mut moved, mut owners) = (Vec::new(), CellsAre::TheSame);
        for address in addresses {
            let old = self.owned.get(&address).copied();
            let by = match claims.remove(&address) {
                Some(claims) => self.decide(model, address, claims),
                None => old.map(|it| it.by),
            };
            let cell = by.and_then(|it| Some((it, self.cell_for(model, it, address)?)));
            // A pod that loses an address to a pod of the node need not be one of the node itself.
            if by != old.map(|it| it.by) && [by, old.map(|it| it.by)].into_iter().flatten().any(|it| self.is_local(it)) {
                owners = CellsAre::Changed;
            }
            old.into_iter().for_each(|it| self.leave(it, address));
            match cell {
                Some((by, cell)) => {
                    self.owned.insert(address, Owned { by, cell });
                    self.join(by, cell, address);
                }
                None => drop(self.owned.remove(&address)),
            }
            let cell = cell.map(|it| it.1);
            if old.map(|it| it.cell) != cell {
                moved.push((address, cell));
            }
        }
        let populations = self.compare_populations();
        CellChanges { moved, cells: if owners == CellsAre::Changed { owners } else { populations } }
    }

    /// The pods of the node that have addresses.
    pub fn local_pods<'m>(&self, model: &'m Model) -> impl Iterator<Item = &'m Endpoint> + Clone + use<'_, 'm> {
        self.local.iter().filter_map(|it| model.endpoint(*it))
    }

    /// Every address that a pod or node has, with its cell, in order.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, CellId)> {
        self.owned.iter().map(|(address, it)| (*address, it.cell))
    }
}
