//! Sets of numbers that share what they have in common. Sets are equal exactly if their ids are, so that a set that differs from another by one
//! number costs a logarithm, however large both are.

use crate::compile::intern::{Interned, index};

/// The empty set.
pub(crate) const EMPTY: u32 = 0;

/// Sets of numbers below some bound, each once: a binary tree over the numbers, whose equal parts are one node.
#[derive(Debug)]
pub(crate) struct Sets {
    /// Both halves of a set, by its id without the first two: `EMPTY`, and the set of one number at the bottom.
    halves: Interned<(u32, u32)>,
    height: u32,
}

/// Ids before the first of `halves`.
const RESERVED: u32 = 2;

impl Sets {
    /// Sets of numbers below `bound`.
    pub(crate) fn below(bound: usize) -> Sets {
        Sets { halves: Interned::default(), height: usize::BITS - bound.saturating_sub(1).leading_zeros() }
    }

    /// The set with a number more, or without it if it is in there.
    pub(crate) fn flip(&mut self, set: u32, number: u32) -> u32 {
        self.flip_below(set, self.height, number)
    }

    fn flip_below(&mut self, set: u32, height: u32, number: u32) -> u32 {
        let Some(below) = height.checked_sub(1) else { return u32::from(set == EMPTY) };
        let (mut low, mut high) = self.halves(set);
        match number >> below & 1 {
            0 => low = self.flip_below(low, below, number),
            _ => high = self.flip_below(high, below, number),
        }
        if (low, high) == (EMPTY, EMPTY) { EMPTY } else { self.halves.intern((low, high)) + RESERVED }
    }

    /// How many tree nodes all sets take.
    pub(crate) fn node_count(&self) -> usize {
        self.halves.values().len()
    }

    pub(super) fn contains(&self, set: u32, number: u32) -> bool {
        let mut part = set;
        for below in (0..self.height).rev() {
            let (low, high) = self.halves(part);
            part = if number >> below & 1 == 0 { low } else { high };
        }
        part != EMPTY
    }

    /// The numbers that one of two sets has and the other has not, in order.
    pub(super) fn differing(&self, one: u32, other: u32) -> Vec<u32> {
        let mut found = Vec::new();
        self.differ(one, other, self.height, 0, &mut found);
        found
    }

    fn differ(&self, one: u32, other: u32, height: u32, first: u32, found: &mut Vec<u32>) {
        if one == other {
            return;
        }
        let Some(below) = height.checked_sub(1) else { return found.push(first) };
        let ((low, high), (other_low, other_high)) = (self.halves(one), self.halves(other));
        self.differ(low, other_low, below, first, found);
        self.differ(high, other_high, below, first | 1 << below, found);
    }

    fn halves(&self, set: u32) -> (u32, u32) {
        let known = set.checked_sub(RESERVED).and_then(|it| self.halves.values().get(index(it)));
        known.copied().unwrap_or((EMPTY, EMPTY))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Flips numbers at random, and compares with plain sets.
    #[test]
    fn equal_sets_have_one_id() {
        for bound in [1_usize, 2, 3, 8, 9, 100] {
            let mut sets = Sets::below(bound);
            let mut ids: BTreeMap<BTreeSet<u32>, u32> = BTreeMap::from([(BTreeSet::new(), EMPTY)]);
            let (mut plain, mut set) = (BTreeSet::new(), EMPTY);
            let mut state = 7_u64;
            for _ in 0..2_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = u32::try_from((state >> 33) % u64::try_from(bound).unwrap()).unwrap();
                let (before, old) = (plain.clone(), set);
                if !plain.remove(&number) {
                    plain.insert(number);
                }
                set = sets.flip(set, number);
                assert_eq!(*ids.entry(plain.clone()).or_insert(set), set, "{plain:?}");
                assert_eq!(sets.differing(old, set), [number]);
                assert_eq!(sets.differing(EMPTY, set), plain.iter().copied().collect::<Vec<u32>>());
                assert!((0..u32::try_from(bound).unwrap()).all(|it| sets.contains(set, it) == plain.contains(&it)));
                assert_eq!(sets.flip(set, number), old, "{before:?}");
            }
            assert_eq!(ids.values().collect::<BTreeSet<_>>().len(), ids.len());
        }
    }
}
