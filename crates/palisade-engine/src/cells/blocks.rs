//! The blocks that hold each address, as ranges of addresses that the same blocks hold.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use palisade_model::{Family, IpBlock};

use crate::cells::questions::Register;
use crate::compile::node::holding::exceptions;
use crate::compile::node::sets::{EMPTY, Sets};
use crate::compile::prefixes::{address, bits, top};

/// Sets of blocks by range of addresses. Equal sets have equal ids from one update to the next, until `renumber`.
///
/// A block of a whole family is in a set if it does not hold the addresses, so that most addresses have the empty set.
#[derive(Debug)]
pub(super) struct BlockMap {
    sets: Sets,
    /// Ids of blocks are below this.
    bound: usize,
    /// Where another set begins, by family.
    starts: [Vec<(u128, u32)>; 2],
}

/// The effect of an update of the blocks on sets that are known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Regrouped {
    /// Addresses in these ranges have other sets than before, and all others the same.
    Ranges(Vec<RangeInclusive<IpAddr>>),
    /// All sets have new ids.
    Renumbered,
}

/// Sets may take so many tree nodes for each node in use before they are renumbered.
const WASTE: usize = 8;

impl Default for BlockMap {
    fn default() -> BlockMap {
        BlockMap { sets: Sets::below(0), bound: 0, starts: [Vec::new(), Vec::new()] }
    }
}

impl BlockMap {
    /// The set of the blocks that hold an address.
    pub(super) fn of(&self, address: IpAddr) -> u32 {
        let starts = self.starts_of(Family::of(address));
        let at = starts.partition_point(|it| it.0 <= bits(address));
        at.checked_sub(1).and_then(|it| starts.get(it)).map_or(EMPTY, |it| it.1)
    }

    /// Takes the blocks that are asked for now.
    pub(super) fn update(&mut self, blocks: &Register<IpBlock>) -> Regrouped {
        let edges = edges(blocks);
        let in_use = edges.iter().map(Vec::len).sum::<usize>() * 32 + 1024;
        let renumber = blocks.bound() > self.bound || self.sets.node_count() > in_use * WASTE;
        if renumber {
            self.bound = blocks.bound().next_power_of_two().max(64);
            self.sets = Sets::below(self.bound);
        }
        let old = std::mem::take(&mut self.starts);
        self.starts = edges.map(|of_family| sweep(&of_family, &mut self.sets));
        if renumber && old.iter().any(|it| !it.is_empty()) {
            return Regrouped::Renumbered;
        }
        let families = [Family::V4, Family::V6].into_iter().zip(old.iter().zip(&self.starts));
        Regrouped::Ranges(families.flat_map(|(family, (old, new))| differing(family, old, new)).collect())
    }

    fn starts_of(&self, family: Family) -> &[(u128, u32)] {
        let [four, six] = &self.starts;
        match family {
            Family::V4 => four,
            Family::V6 => six,
        }
    }
}

/// The addresses at which a block begins or ceases to hold, with the id of the block, by family and in order.
fn edges(blocks: &Register<IpBlock>) -> [Vec<(u128, u32)>; 2] {
    let [mut four, mut six] = [Vec::new(), Vec::new()];
    for (block, id) in blocks.iter() {
        let Some(except) = exceptions(block) else { continue };
        let edges = match Family::of(block.cidr.network()) {
            Family::V4 => &mut four,
            Family::V6 => &mut six,
        };
        let own = Some(block.cidr).filter(|it| it.prefix_len() > 0);
        for net in own.iter().chain(&except).map(IpNet::trunc) {
            edges.push((bits(net.network()), id));
            edges.extend(end_of(net).map(|end| (end, id)));
        }
    }
    four.sort_unstable();
    six.sort_unstable();
    [four, six]
}

/// The first address after a prefix, if there is one.
fn end_of(net: IpNet) -> Option<u128> {
    let end = bits(net.broadcast()).checked_add(1)?;
    (end <= top(Family::of(net.network()))).then_some(end)
}

fn sweep(edges: &[(u128, u32)], sets: &mut Sets) -> Vec<(u128, u32)> {
    let mut starts: Vec<(u128, u32)> = Vec::new();
    let mut set = EMPTY;
    for at in edges.chunk_by(|one, other| one.0 == other.0) {
        set = at.iter().fold(set, |set, (_, block)| sets.flip(set, *block));
        let before = starts.last().map_or(EMPTY, |it| it.1);
        starts.extend(at.first().filter(|_| set != before).map(|(start, _)| (*start, set)));
    }
    starts
}

/// The ranges in which two divisions of the addresses of a family differ.
fn differing(family: Family, old: &[(u128, u32)], new: &[(u128, u32)]) -> Vec<RangeInclusive<IpAddr>> {
    let mut cuts: Vec<u128> = [0].into_iter().chain(old.iter().chain(new).map(|it| it.0)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let ends = cuts.iter().skip(1).map(|it| it - 1).chain([top(family)]);
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let (mut was, mut is) = (EMPTY, EMPTY);
    let mut found = Vec::new();
    for (start, end) in cuts.iter().zip(ends) {
        while let Some(next) = old.next_if(|it| it.0 <= *start) {
            was = next.1;
        }
        while let Some(next) = new.next_if(|it| it.0 <= *start) {
            is = next.1;
        }
        if was != is {
            found.push(address(family, *start)..=address(family, end));
        }
    }
    found
}
