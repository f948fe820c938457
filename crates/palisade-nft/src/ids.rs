//! Numbers for classes, programs, leaves and origins that stay the same from one lowering to the next.

use std::collections::BTreeMap;

use palisade_engine::Signature;

use crate::leaf::Leaf;
use crate::ruleset::Origin;

/// Numbers given out so far. Zero is never given: it means "unknown".
#[derive(Clone, Debug, Default)]
pub struct Ids {
    classes: Numbers<Signature>,
    programs: Numbers<Program>,
    leaves: Numbers<Leaf>,
    origins: Numbers<Origin>,
}

/// What makes a program: the leaf of each class, and of everything else.
pub(crate) type Program = (BTreeMap<u32, u32>, u32);

impl Ids {
    pub(crate) fn class(&mut self, signature: Signature) -> u32 {
        self.classes.of(signature)
    }

    pub(crate) fn program(&mut self, program: Program) -> u32 {
        self.programs.of(program)
    }

    pub(crate) fn leaf(&mut self, leaf: Leaf) -> u32 {
        self.leaves.of(leaf)
    }

    pub(crate) fn origin(&mut self, origin: Origin) -> u32 {
        self.origins.of(origin)
    }
}

#[derive(Clone, Debug)]
struct Numbers<K> {
    known: BTreeMap<K, u32>,
    last: u32,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers { known: BTreeMap::new(), last: 0 }
    }
}

impl<K: Ord> Numbers<K> {
    fn of(&mut self, key: K) -> u32 {
        let last = &mut self.last;
        *self.known.entry(key).or_insert_with(|| {
            *last += 1;
            *last
        })
    }
}
