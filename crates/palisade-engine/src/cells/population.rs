//! The addresses that each cell holds.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{Family, Model, Place};

use crate::cells::marks::Mark;
use crate::cells::{CellId, CellsAre, Claimant, NodeCells, Owned};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CellKey {
    end: EndKind,
    family: Family,
    blocks: u32,
    pub(super) mark: Arc<Mark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EndKind {
    Pod,
    Node,
    OwnNode,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) key: CellKey,
    /// Addresses of ends that are not pods of the node.
    pub(super) others: usize,
    /// Pods of the node, once for each address.
    local: Vec<Claimant>,
    /// An address of an end that is not a pod of the node, if one is known.
    pub(super) sample: Option<IpAddr>,
}

/// The ends in a cell, as far as a ruleset depends on them: a pod never is the peer of a connection with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Population {
    Nobody,
    /// One pod of the node.
    One(Claimant),
    /// Every pod of the node has a peer here.
    Some,
}

impl Cell {
    fn population(&self) -> Population {
        match (self.others, self.local.first(), self.local.last()) {
            (0, Some(first), Some(last)) if first == last => Population::One(*first),
            (0, None, _) => Population::Nobody,
            _ => Population::Some,
        }
    }
}

impl NodeCells {
    pub(super) fn cell_for(&mut self, model: &Model, by: Claimant, address: IpAddr) -> Option<CellId> {
        let (end, mark) = match by.place() {
            Place::Pod(id) => (EndKind::Pod, self.pod_mark(model.endpoint(id)?)),
            Place::Node(id) if id == self.node => (EndKind::OwnNode, self.node_mark(model.node(id)?)),
            Place::Node(id) => (EndKind::Node, self.node_mark(model.node(id)?)),
            Place::Outside => return None,
        };
        let key = CellKey { end, family: Family::of(address), blocks: self.block_map.of(address), mark: Arc::new(mark) };
        if let Some(known) = self.by_key.get(&key) {
            return Some(*known);
        }
        let id = self.free.pop().unwrap_or_else(|| u32::try_from(self.cells.len()).unwrap_or(u32::MAX));
        let slot = usize::try_from(id).ok()?;
        if self.cells.len() <= slot {
            self.cells.resize_with(slot + 1, || None);
        }
        self.by_key.insert(key.clone(), id);
        *self.cells.get_mut(slot)? = Some(Cell { key, others: 0, local: Vec::new(), sample: None });
        Some(id)
    }

    fn cell(&mut self, id: CellId) -> Option<&mut Cell> {
        self.cells.get_mut(usize::try_from(id).ok()?)?.as_mut()
    }

    /// The cell, after its population before the update is on record.
    fn changing(&mut self, id: CellId) -> Option<&mut Cell> {
        let population = self.cell(id)?.population();
        self.pending.before.entry(id).or_insert(population);
        self.cell(id)
    }

    pub(super) fn join(&mut self, by: Claimant, cell: CellId, address: IpAddr) {
        let is_local = self.is_local(by);
        let Some(cell) = self.changing(cell) else { return };
        match is_local {
            true => cell.local.insert(cell.local.partition_point(|it| *it < by), by),
            false => {
                cell.others += 1;
                cell.sample.get_or_insert(address);
            }
        }
    }

    pub(super) fn is_local(&self, claimant: Claimant) -> bool {
        matches!(claimant.place(), Place::Pod(id) if self.local.contains(&id))
    }

    pub(super) fn leave(&mut self, owned: Owned, address: IpAddr) {
        let Some(cell) = self.changing(owned.cell) else { return };
        match cell.local.binary_search(&owned.by) {
            Ok(at) => drop(cell.local.remove(at)),
            Err(_) => cell.others = cell.others.saturating_sub(1),
        }
        if cell.sample == Some(address) {
            cell.sample = None;
        }
    }

    /// Removes cells without addresses.
    pub(super) fn compare_populations(&mut self) -> CellsAre {
        let mut cells = CellsAre::TheSame;
        for (id, before) in std::mem::take(&mut self.pending.before) {
            let Some(now) = self.cell(id).map(|it| it.population()) else { continue };
            if now != before {
                cells = CellsAre::Changed;
            }
            if now == Population::Nobody {
                let slot = usize::try_from(id).ok().and_then(|it| self.cells.get_mut(it));
                if let Some(cell) = slot.and_then(Option::take)
                    && self.by_key.get(&cell.key) == Some(&id)
                {
                    self.by_key.remove(&cell.key);
                }
                self.free.push(id);
            }
        }
        cells
    }
}
