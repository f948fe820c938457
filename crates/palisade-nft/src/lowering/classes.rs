//! The class of each address, and the small model that the rest of a ruleset is made from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::{CellChanges, CellId, CellsAre, LocalPods, NodeCells, Reduced};
use palisade_model::{Changes, EndpointId, IpBlock, Model, NodeId};

use crate::lowering::applying::{Applying, Sort};
use crate::naming::class_map;
use crate::ruleset::{Address, DataMap, Ruleset};

/// The addresses of a cluster in the classes of a ruleset, from one model to the next.
#[derive(Debug)]
pub(super) struct Classes {
    sort: Sort,
    pub(super) applying: Applying,
    cells: NodeCells,
    /// The class of each cell, by number.
    numbers: BTreeMap<CellId, u32>,
    pod_ranges: Vec<IpBlock>,
    /// Addresses that moved since the last ruleset.
    moved: Vec<(IpAddr, Option<CellId>)>,
}

/// The work that the next ruleset needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Other classes of some addresses at most.
    Elements,
    /// Classes, programs and leaves from the small model.
    All,
}

impl Classes {
    /// All addresses of a model, none of which is in a ruleset yet.
    pub(super) fn of(model: &Model, node: NodeId, sort: Sort) -> Classes {
        let mut cells = NodeCells::new(node);
        cells.take_all(model);
        let applying = Applying::of(model, cells.local_pods(model), sort);
        cells.ask(model, applying.policies().cloned());
        let CellChanges { moved, .. } = cells.settle(model);
        Classes { sort, applying, cells, numbers: BTreeMap::new(), pod_ranges: model.pod_ranges.clone(), moved }
    }

    pub(super) fn node(&self) -> NodeId {
        self.cells.node()
    }

    /// Takes changes. `model` is the model after these changes.
    pub(super) fn update(&mut self, model: &Model, changes: &Changes) -> Needs {
        let local = self.cells.take_ends(model, changes);
        let mut needs = if local == LocalPods::Changed { Needs::All } else { Needs::Elements };
        if local == LocalPods::Changed || !self.applying.is_untouched(model, changes, self.cells.local_pods(model)) {
            let pods = self.cells.local_pods(model);
            let applying = match local {
                LocalPods::Changed => Applying::of(model, pods, self.sort),
                LocalPods::TheSame => self.applying.updated(model, changes, pods, self.sort),
            };
            if self.applying != applying {
                needs = Needs::All;
            }
            self.cells.ask(model, applying.policies().cloned());
            self.applying = applying;
        }
        let CellChanges { moved, cells } = self.cells.settle(model);
        self.moved.extend(moved);
        if self.pod_ranges != model.pod_ranges {
            self.pod_ranges.clone_from(&model.pod_ranges);
            needs = Needs::All;
        }
        if cells == CellsAre::Changed { Needs::All } else { needs }
    }

    /// The small model, with the policies that apply. `links` are pods that it must have.
    pub(super) fn reduced(&mut self, model: &Model, links: impl Iterator<Item = EndpointId>) -> Reduced {
        let mut reduced = self.cells.reduced(model, links);
        self.applying.put(&mut reduced.model);
        reduced
    }

    /// Changes the classes of addresses that moved.
    pub(super) fn move_elements(&mut self, ruleset: &mut Ruleset) {
        for (address, cell) in std::mem::take(&mut self.moved) {
            let Some(map) = ruleset.data.get_mut(&class_map(Address::of(address))) else { continue };
            match cell.and_then(|it| self.numbers.get(&it)) {
                Some(number) => map.elements.insert(address, *number),
                None => map.elements.remove(&address),
            };
        }
    }

    pub(super) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// Without a last ruleset the next one is made from all addresses.
    pub(super) fn forget_moves(&mut self) {
        self.moved.clear();
    }

    /// Gives the ruleset that was made from the small model the addresses of the whole one. `last` is the ruleset before it, if there is one.
    pub(super) fn complete(&mut self, ruleset: &mut Ruleset, samples: &[(CellId, IpAddr)], last: Option<&Ruleset>) {
        let numbers = samples.iter().filter_map(|(cell, address)| {
            let class = ruleset.data.get(&class_map(Address::of(*address)))?.elements.get(address)?;
            Some((*cell, *class))
        });
        let numbers: BTreeMap<CellId, u32> = numbers.collect();
        let old = std::mem::replace(&mut self.numbers, numbers);
        let Some(last) = last else {
            self.forget_moves();
            for family in Address::BOTH {
                let addresses = self.cells.addresses().filter(|it| Address::of(it.0) == family);
                let elements = addresses.filter_map(|(address, cell)| Some((address, *self.numbers.get(&cell)?))).collect();
                ruleset.data.insert(class_map(family), DataMap { family, elements });
            }
            return;
        };
        for family in Address::BOTH {
            let map = last.data.get(&class_map(family)).cloned();
            map.into_iter().for_each(|it| drop(ruleset.data.insert(class_map(family), it)));
        }
        let renumbered = |cell: &CellId| old.get(cell).is_some_and(|it| self.numbers.get(cell) != Some(it));
        if old.keys().any(renumbered) {
            let moved: Vec<_> =
                self.cells.addresses().filter(|it| renumbered(&it.1)).map(|(address, cell)| (address, Some(cell))).collect();
            self.moved.extend(moved);
        }
        self.move_elements(ruleset);
    }
}
