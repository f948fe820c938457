//! Objects by stable id.

use std::fmt;
use std::iter::{FilterMap, FlatMap};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::slice;
use std::sync::Arc;

/// An id that names a slot.
pub trait SlotId: Copy {
    /// The id of the slot at this position.
    fn at(slot: usize) -> Self;

    /// The position of the slot.
    fn slot(self) -> usize;
}

/// Objects in numbered slots. An object keeps its slot, and so its id, until it is removed; the slot is free afterwards and a later object may get it.
///
/// A clone shares all blocks of slots. Changing an object copies only its block, because consecutive versions of a large cluster differ in few objects.
pub struct Slots<I, T> {
    /// Blocks of `BLOCK` slots; only the last one may have fewer.
    // INVARIANT: no block is empty, and the last slot holds an object.
    blocks: Vec<Arc<Block<T>>>,
    /// Number of objects.
    len: usize,
    id: PhantomData<fn() -> I>,
}

type Block<T> = Vec<Option<Arc<T>>>;

/// Slots per block.
const BLOCK: usize = 64;

/// One slot in two versions of the same objects.
#[derive(Debug)]
pub struct SlotChange<'a, I, T> {
    /// The id of the slot.
    pub id: I,
    /// The object in the earlier version.
    pub old: Option<&'a Arc<T>>,
    /// The object in the later version.
    pub new: Option<&'a Arc<T>>,
}

/// Objects in the order of their ids.
pub type SlotIter<'a, T> = FlatMap<slice::Iter<'a, Arc<Block<T>>>, BlockIter<'a, T>, for<'b> fn(&'b Arc<Block<T>>) -> BlockIter<'b, T>>;

type BlockIter<'a, T> = FilterMap<slice::Iter<'a, Option<Arc<T>>>, for<'b> fn(&'b Option<Arc<T>>) -> Option<&'b T>>;

/// Objects in the order of their ids, for changes.
pub type SlotIterMut<'a, T> =
    FlatMap<slice::IterMut<'a, Arc<Block<T>>>, BlockIterMut<'a, T>, for<'b> fn(&'b mut Arc<Block<T>>) -> BlockIterMut<'b, T>>;

type BlockIterMut<'a, T> = FilterMap<slice::IterMut<'a, Option<Arc<T>>>, for<'b> fn(&'b mut Option<Arc<T>>) -> Option<&'b mut T>>;

fn block_iter<T>(block: &Arc<Block<T>>) -> BlockIter<'_, T> {
    block.iter().filter_map(Option::as_deref)
}

fn block_iter_mut<T: Clone>(block: &mut Arc<Block<T>>) -> BlockIterMut<'_, T> {
    Arc::make_mut(block).iter_mut().filter_map(|slot| slot.as_mut().map(Arc::make_mut))
}

impl<I: SlotId, T> Slots<I, T> {
    /// No objects.
    pub const fn new() -> Slots<I, T> {
        Slots { blocks: Vec::new(), len: 0, id: PhantomData }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of slots, free ones included: every id is below this.
    pub fn slot_count(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// The object with an id.
    pub fn get(&self, id: I) -> Option<&T> {
        self.shared(id).map(Arc::as_ref)
    }

    /// The object with an id, to be shared.
    pub fn shared(&self, id: I) -> Option<&Arc<T>> {
        self.blocks.get(id.slot() / BLOCK)?.get(id.slot() % BLOCK)?.as_ref()
    }

    /// The object with the lowest id.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// All objects in the order of their ids.
    pub fn iter(&self) -> SlotIter<'_, T> {
        self.blocks.iter().flat_map(block_iter)
    }

    /// All objects with their ids, in the order of the ids.
    pub fn iter_ids(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + Clone {
        self.iter_shared().map(|(id, object)| (id, object.as_ref()))
    }

    /// All objects with their ids, to be shared.
    pub fn iter_shared(&self) -> impl DoubleEndedIterator<Item = (I, &Arc<T>)> + Clone {
        let blocks = self.blocks.iter().enumerate();
        blocks.flat_map(|(at, block)| {
            let slots = block.iter().enumerate();
            slots.filter_map(move |(slot, object)| Some((I::at(at * BLOCK + slot), object.as_ref()?)))
        })
    }

    /// The ids of all objects.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + Clone {
        self.iter_ids().map(|(id, _)| id)
    }

    /// Puts an object into a slot, or frees the slot. Returns the object that was there.
    pub fn set(&mut self, id: I, object: Option<Arc<T>>) -> Option<Arc<T>> {
        if object.is_none() {
            self.shared(id)?;
        }
        while self.slot_count() <= id.slot() {
            self.add_slot(None);
        }
        self.len += usize::from(object.is_some());
        let slot = Arc::make_mut(self.blocks.get_mut(id.slot() / BLOCK)?).get_mut(id.slot() % BLOCK)?;
        let old = std::mem::replace(slot, object);
        self.len -= usize::from(old.is_some());
        self.trim();
        old
    }

    /// Adds an object behind the last slot.
    pub fn push(&mut self, object: T) -> I {
        self.push_shared(Arc::new(object))
    }

    /// Adds a shared object behind the last slot.
    pub fn push_shared(&mut self, object: Arc<T>) -> I {
        let id = I::at(self.slot_count());
        self.add_slot(Some(object));
        self.len += 1;
        id
    }

    /// Removes the object with an id and frees its slot.
    pub fn remove(&mut self, id: I) -> Option<Arc<T>> {
        self.set(id, None)
    }

    /// Removes the object in the last slot.
    pub fn pop(&mut self) -> Option<Arc<T>> {
        self.set(I::at(self.slot_count().checked_sub(1)?), None)
    }

    /// Removes the objects of all slots from this number on.
    pub fn truncate(&mut self, slots: usize) {
        while self.slot_count() > slots {
            self.pop();
        }
    }

    /// The slots in which this version differs from an earlier one. Blocks that both share are skipped.
    pub fn changes_since<'s>(&'s self, old: &'s Slots<I, T>) -> Vec<SlotChange<'s, I, T>>
    where
        T: PartialEq,
    {
        let mut changes = Vec::new();
        for at in 0..self.blocks.len().max(old.blocks.len()) {
            let (was, is) = (old.blocks.get(at), self.blocks.get(at));
            if was.zip(is).is_some_and(|(was, is)| Arc::ptr_eq(was, is)) {
                continue;
            }
            for slot in 0..BLOCK {
                let of = |block: Option<&'s Arc<Block<T>>>| block.and_then(|it| it.get(slot)).and_then(Option::as_ref);
                let (old, new) = (of(was), of(is));
                let same = match (old, new) {
                    (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                if !same {
                    changes.push(SlotChange { id: I::at(at * BLOCK + slot), old, new });
                }
            }
        }
        changes
    }

    fn add_slot(&mut self, object: Option<Arc<T>>) {
        match self.blocks.last_mut().filter(|it| it.len() < BLOCK) {
            Some(block) => Arc::make_mut(block).push(object),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(object);
                self.blocks.push(Arc::new(block));
            }
        }
    }

    /// Removes free slots at the end, so that equal contents have equal slots.
    fn trim(&mut self) {
        while let Some(block) = self.blocks.last_mut() {
            if block.last().is_some_and(Option::is_none) {
                let block = Arc::make_mut(block);
                while block.pop_if(|it| it.is_none()).is_some() {}
            }
            if self.blocks.pop_if(|it| it.is_empty()).is_none() {
                return;
            }
        }
    }
}

impl<I: SlotId, T: Clone> Slots<I, T> {
    /// The object with an id, for changes.
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        let block = Arc::make_mut(self.blocks.get_mut(id.slot() / BLOCK)?);
        block.get_mut(id.slot() % BLOCK)?.as_mut().map(Arc::make_mut)
    }

    /// All objects in the order of their ids, for changes.
    pub fn iter_mut(&mut self) -> SlotIterMut<'_, T> {
        self.blocks.iter_mut().flat_map(block_iter_mut)
    }

    /// Orders the objects and numbers them anew without free slots. Objects that compare equal keep their order.
    pub fn sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> std::cmp::Ordering) {
        let mut objects: Vec<Arc<T>> = self.iter_shared().map(|(_, object)| Arc::clone(object)).collect();
        objects.sort_by(|one, other| compare(one, other));
        *self = objects.into_iter().collect();
    }
}

impl<I, T> Clone for Slots<I, T> {
    fn clone(&self) -> Slots<I, T> {
        Slots { blocks: self.blocks.clone(), len: self.len, id: PhantomData }
    }
}

impl<I: SlotId, T> Default for Slots<I, T> {
    fn default() -> Slots<I, T> {
        Slots::new()
    }
}

impl<I: SlotId + fmt::Debug, T: fmt::Debug> fmt::Debug for Slots<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter_ids()).finish()
    }
}

impl<I: SlotId, T: PartialEq> PartialEq for Slots<I, T> {
    fn eq(&self, other: &Slots<I, T>) -> bool {
        self.len == other.len && self.slot_count() == other.slot_count() && self.changes_since(other).is_empty()
    }
}

impl<I: SlotId, T: Eq> Eq for Slots<I, T> {}

/// By position of the slot, for tests and for models without free slots.
impl<I: SlotId, T> Index<usize> for Slots<I, T> {
    type Output = T;

    #[expect(clippy::expect_used, reason = "an index claims that the object exists, as that of a vector")]
    fn index(&self, slot: usize) -> &T {
        self.get(I::at(slot)).expect("no object in this slot")
    }
}

impl<I: SlotId, T: Clone> IndexMut<usize> for Slots<I, T> {
    #[expect(clippy::expect_used, reason = "an index claims that the object exists, as that of a vector")]
    fn index_mut(&mut self, slot: usize) -> &mut T {
        self.get_mut(I::at(slot)).expect("no object in this slot")
    }
}

impl<I: SlotId, T> From<Vec<T>> for Slots<I, T> {
    fn from(objects: Vec<T>) -> Slots<I, T> {
        objects.into_iter().collect()
    }
}

impl<I: SlotId, T, const N: usize> From<[T; N]> for Slots<I, T> {
    fn from(objects: [T; N]) -> Slots<I, T> {
        objects.into_iter().collect()
    }
}

impl<I: SlotId, T> FromIterator<T> for Slots<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(objects: A) -> Slots<I, T> {
        objects.into_iter().map(Arc::new).collect()
    }
}

impl<I: SlotId, T> FromIterator<Arc<T>> for Slots<I, T> {
    fn from_iter<A: IntoIterator<Item = Arc<T>>>(objects: A) -> Slots<I, T> {
        let mut slots = Slots::new();
        for object in objects {
            slots.push_shared(object);
        }
        slots
    }
}

impl<I: SlotId, T> Extend<T> for Slots<I, T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, objects: A) {
        for object in objects {
            self.push(object);
        }
    }
}

impl<'a, I: SlotId, T> IntoIterator for &'a Slots<I, T> {
    type Item = &'a T;
    type IntoIter = SlotIter<'a, T>;

    fn into_iter(self) -> SlotIter<'a, T> {
        self.iter()
    }
}

impl<'a, I: SlotId, T: Clone> IntoIterator for &'a mut Slots<I, T> {
    type Item = &'a mut T;
    type IntoIter = SlotIterMut<'a, T>;

    fn into_iter(self) -> SlotIterMut<'a, T> {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Id(usize);

    impl SlotId for Id {
        fn at(slot: usize) -> Id {
            Id(slot)
        }

        fn slot(self) -> usize {
            self.0
        }
    }

    fn check(slots: &Slots<Id, usize>, expected: &BTreeMap<Id, usize>) {
        assert!(slots.iter_ids().eq(expected.iter().map(|(id, object)| (*id, object))));
        assert!(slots.iter_ids().rev().eq(expected.iter().rev().map(|(id, object)| (*id, object))));
        assert!(slots.iter().eq(expected.values()) && slots.ids().eq(expected.keys().copied()));
        assert_eq!((slots.len(), slots.is_empty(), slots.first()), (expected.len(), expected.is_empty(), expected.values().next()));
        assert_eq!(slots.slot_count(), expected.keys().next_back().map_or(0, |last| last.0 + 1));
        for slot in 0..=slots.slot_count() {
            assert_eq!(slots.get(Id(slot)), expected.get(&Id(slot)));
        }
        let mut rebuilt = Slots::new();
        expected.iter().rev().for_each(|(id, object)| drop(rebuilt.set(*id, Some(Arc::new(*object)))));
        assert_eq!(*slots, rebuilt);
    }

    /// A fixed sequence of numbers without a pattern.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state: u64 = 7;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        }
    }

    #[test]
    fn slots_behave_as_a_map_and_clones_stay_as_they_were() {
        let mut number = numbers();
        let (mut slots, mut expected) = (Slots::<Id, usize>::new(), BTreeMap::new());
        let mut clones: Vec<(Slots<Id, usize>, BTreeMap<Id, usize>)> = Vec::new();
        for turn in 0..4000 {
            let id = Id(number(400));
            match number(if turn < 2000 { 4 } else { 7 }) {
                0 | 1 => assert_eq!(slots.set(id, Some(Arc::new(turn))).as_deref(), expected.insert(id, turn).as_ref()),
                2 => {
                    let id = slots.push(turn);
                    assert_eq!(expected.insert(id, turn), None);
                }
                3 => {
                    slots.get_mut(id).into_iter().for_each(|it| *it = turn);
                    expected.get_mut(&id).into_iter().for_each(|it| *it = turn);
                }
                4 => {
                    let last = expected.pop_last().map(|(_, object)| object);
                    assert_eq!(slots.pop().as_deref(), last.as_ref());
                }
                _ => assert_eq!(slots.remove(id).as_deref(), expected.remove(&id).as_ref()),
            }
            if turn % 200 == 0 {
                check(&slots, &expected);
                clones.push((slots.clone(), expected.clone()));
            }
        }
        for (clone, earlier) in &clones {
            check(clone, earlier);
            let mut replayed = clone.clone();
            for SlotChange { id, old, new } in slots.changes_since(clone) {
                assert!(old != new && replayed.set(id, new.cloned()).as_ref() == old);
            }
            assert_eq!(replayed, slots);
        }
        slots.truncate(64);
        expected.retain(|id, _| id.0 < 64);
        check(&slots, &expected);
        slots.sort_by(|one, other| other.cmp(one));
        let mut sorted: Vec<usize> = expected.into_values().collect();
        sorted.sort_unstable_by(|one, other| other.cmp(one));
        check(&slots, &sorted.into_iter().enumerate().map(|(at, object)| (Id(at), object)).collect());
    }

    #[test]
    fn changing_one_object_copies_one_block() {
        let slots: Slots<Id, usize> = (0..BLOCK * 4).collect();
        let mut other = slots.clone();
        other.get_mut(Id(BLOCK * 2)).into_iter().for_each(|it| *it = 0);
        let copied = other.blocks.iter().zip(&slots.blocks).filter(|(one, other)| !Arc::ptr_eq(one, other)).count();
        assert_eq!((copied, other.changes_since(&slots).len()), (1, 1));
        other.get_mut(Id(BLOCK * 2)).into_iter().for_each(|it| *it = BLOCK * 2);
        assert_eq!(other, slots);
    }
}
