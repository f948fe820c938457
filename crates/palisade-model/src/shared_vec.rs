//! Many things in order, most of which copies have in common.

use std::fmt;
use std::iter::FlatMap;
use std::ops::{Index, IndexMut, Range};
use std::slice;
use std::sync::Arc;
use std::vec;

use crate::blocks::Items;

/// A vector in blocks. A copy shares them all, and who changes an item copies its block and no other: a large cluster differs from the last one in
/// a pod.
pub struct SharedVec<T> {
    /// None is empty.
    blocks: Vec<Arc<Vec<T>>>,
    /// The place of the first item of each block.
    starts: Vec<usize>,
    len: usize,
}

/// So many items make a block; up to twice as many where some were put between others.
const BLOCK: usize = 64;

/// Items, to change them.
type IterMut<'a, T> = FlatMap<slice::IterMut<'a, Arc<Vec<T>>>, slice::IterMut<'a, T>, fn(&'a mut Arc<Vec<T>>) -> slice::IterMut<'a, T>>;

/// The same, to keep them.
type IntoIter<T> = FlatMap<vec::IntoIter<Arc<Vec<T>>>, Vec<T>, fn(Arc<Vec<T>>) -> Vec<T>>;

impl<T> SharedVec<T> {
    /// One without items.
    pub const fn new() -> SharedVec<T> {
        SharedVec { blocks: Vec::new(), starts: Vec::new(), len: 0 }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item at a place.
    pub fn get(&self, at: usize) -> Option<&T> {
        let (block, within) = self.find(at)?;
        self.blocks.get(block)?.get(within)
    }

    /// The first item.
    pub fn first(&self) -> Option<&T> {
        self.blocks.first()?.first()
    }

    /// All items, in order.
    pub fn iter(&self) -> Items<'_, T> {
        Items::over(&self.blocks, self.len)
    }

    /// The items at some places, as far as there are so many.
    pub fn range(&self, places: Range<usize>) -> Items<'_, T> {
        let end = places.end.min(self.len);
        let mut items = self.iter();
        places.start.min(end).checked_sub(1).and_then(|it| items.nth(it));
        (self.len - end).checked_sub(1).and_then(|it| items.nth_back(it));
        items
    }

    /// Where an earlier one is not as this one, and where this one is not as that one: from the first item that is another to the last.
    pub fn changed_since<'v>(&'v self, old: &'v SharedVec<T>, same: impl Fn(&T, &T) -> bool) -> (Range<usize>, Range<usize>) {
        let same = |(old, new): &(&T, &T)| std::ptr::eq(*old, *new) || same(old, new);
        let shared = self.blocks.iter().zip(&old.blocks).take_while(|(new, old)| Arc::ptr_eq(new, old));
        let shared = shared.map(|(it, _)| it.len()).sum();
        let rest = |of: &'v SharedVec<T>, from| of.range(from..of.len);
        let before = shared + rest(old, shared).zip(rest(self, shared)).take_while(same).count();
        let after = rest(old, before).rev().zip(rest(self, before).rev()).take_while(same).count();
        (before..old.len - after, before..self.len - after)
    }

    /// Block and place within it.
    fn find(&self, at: usize) -> Option<(usize, usize)> {
        if at >= self.len {
            return None;
        }
        let is_in =
            |block: usize| self.starts.get(block).is_some_and(|it| *it <= at) && self.starts.get(block + 1).is_none_or(|it| *it > at);
        // Most blocks are full.
        let likely = at / BLOCK;
        let block = if is_in(likely) { likely } else { self.starts.partition_point(|it| *it <= at).checked_sub(1)? };
        Some((block, at - self.starts.get(block)?))
    }

    /// Sets the places of the blocks from one on.
    fn count_from(&mut self, block: usize) {
        let mut start = self.blocks.iter().take(block).map(|it| it.len()).sum();
        self.starts.truncate(block);
        for block in self.blocks.iter().skip(block) {
            self.starts.push(start);
            start += block.len();
        }
        self.len = start;
    }
}

impl<T: Clone> SharedVec<T> {
    /// The item at a place, to change it.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let (block, within) = self.find(at)?;
        Arc::make_mut(self.blocks.get_mut(block)?).get_mut(within)
    }

    /// All items, to change them. Blocks are copied as their items are met.
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.blocks.iter_mut().flat_map(|it| Arc::make_mut(it).iter_mut())
    }

    /// Adds an item after the last.
    pub fn push(&mut self, item: T) {
        match self.blocks.last_mut().filter(|it| it.len() < BLOCK) {
            Some(block) => Arc::make_mut(block).push(item),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(item);
                self.blocks.push(Arc::new(block));
                self.starts.push(self.len);
            }
        }
        self.len += 1;
    }

    /// Takes the last item away.
    pub fn pop(&mut self) -> Option<T> {
        let item = Arc::make_mut(self.blocks.last_mut()?).pop();
        if self.blocks.pop_if(|it| it.is_empty()).is_some() {
            self.starts.pop();
        }
        self.len -= usize::from(item.is_some());
        item
    }

    /// Puts an item before the one at a place, or after the last if there is none.
    pub fn insert(&mut self, at: usize, item: T) {
        let found = self.find(at).and_then(|(block, within)| Some((block, within, self.blocks.get_mut(block)?)));
        let Some((block, within, items)) = found else { return self.push(item) };
        let items = Arc::make_mut(items);
        items.insert(within, item);
        if items.len() >= BLOCK * 2 {
            let half = items.split_off(BLOCK);
            items.shrink_to_fit();
            self.blocks.insert(block + 1, Arc::new(half));
        }
        self.count_from(block);
    }

    /// Takes the item at a place away, if there is one.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let (block, within) = self.find(at)?;
        let items = Arc::make_mut(self.blocks.get_mut(block)?);
        let item = items.remove(within);
        let left = items.len();
        if left == 0 {
            self.blocks.remove(block);
        } else if self.blocks.get(block + 1).is_some_and(|it| left + it.len() <= BLOCK) {
            let next = Arc::unwrap_or_clone(self.blocks.remove(block + 1));
            self.blocks.get_mut(block).into_iter().for_each(|it| Arc::make_mut(it).extend(next.iter().cloned()));
        }
        self.count_from(block);
        Some(item)
    }

    /// Takes all items from a place on away.
    pub fn truncate(&mut self, len: usize) {
        let Some((block, within)) = self.find(len) else { return };
        if within > 0 {
            self.blocks.get_mut(block).into_iter().for_each(|it| Arc::make_mut(it).truncate(within));
        }
        self.blocks.truncate(block + usize::from(within > 0));
        self.count_from(block);
    }

    /// Brings the items into an order, those that are equal in the one that they had.
    pub fn sort_by(&mut self, compare: impl FnMut(&T, &T) -> std::cmp::Ordering) {
        let mut items: Vec<T> = std::mem::take(self).into_iter().collect();
        items.sort_by(compare);
        *self = items.into();
    }
}

impl<T> Clone for SharedVec<T> {
    fn clone(&self) -> SharedVec<T> {
        SharedVec { blocks: self.blocks.clone(), starts: self.starts.clone(), len: self.len }
    }
}

impl<T> Default for SharedVec<T> {
    fn default() -> SharedVec<T> {
        SharedVec::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: Eq> PartialEq for SharedVec<T> {
    fn eq(&self, other: &SharedVec<T>) -> bool {
        self.len == other.len && self.changed_since(other, T::eq).0.is_empty()
    }
}

impl<T: Eq> Eq for SharedVec<T> {}

impl<T> Index<usize> for SharedVec<T> {
    type Output = T;

    #[expect(clippy::expect_used, reason = "an index is a claim that there is such an item, as that of a vector")]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("no item at this place")
    }
}

impl<T: Clone> IndexMut<usize> for SharedVec<T> {
    #[expect(clippy::expect_used, reason = "an index is a claim that there is such an item, as that of a vector")]
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("no item at this place")
    }
}

impl<T> From<Vec<T>> for SharedVec<T> {
    fn from(items: Vec<T>) -> SharedVec<T> {
        items.into_iter().collect()
    }
}

impl<T> FromIterator<T> for SharedVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> SharedVec<T> {
        let (mut items, mut all) = (items.into_iter().peekable(), SharedVec::new());
        while items.peek().is_some() {
            let mut block = Vec::with_capacity(BLOCK);
            block.extend(items.by_ref().take(BLOCK));
            all.blocks.push(Arc::new(block));
        }
        all.count_from(0);
        all
    }
}

impl<T: Clone> Extend<T> for SharedVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|it| self.push(it));
    }
}

impl<'a, T> IntoIterator for &'a SharedVec<T> {
    type Item = &'a T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut SharedVec<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: Clone> IntoIterator for SharedVec<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        self.blocks.into_iter().flat_map(Arc::unwrap_or_clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds one against the vector that it stands for.
    fn check(one: &SharedVec<usize>, expected: &[usize]) {
        assert_eq!(one.iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!(one.iter().rev().copied().collect::<Vec<_>>(), expected.iter().rev().copied().collect::<Vec<_>>());
        assert_eq!((one.len(), one.is_empty(), one.iter().len()), (expected.len(), expected.is_empty(), expected.len()));
        assert_eq!(one.first(), expected.first());
        for at in 0..=expected.len() {
            assert_eq!(one.get(at), expected.get(at), "{at}");
            let (mut rest, mut same) = (one.iter(), expected.iter());
            assert_eq!((rest.nth(at), rest.len()), (same.nth(at), same.len()), "{at}");
            assert_eq!((rest.next_back(), rest.nth(at), rest.len()), (same.next_back(), same.nth(at), same.len()), "{at}");
        }
        for (start, end) in
            (0..=expected.len()).step_by(29).flat_map(|it| [(it, expected.len()), (it / 2, it), (it / 3, it / 2), (it, it + 200)])
        {
            let part = one.range(start..end);
            let expected = &expected[start..end.min(expected.len())];
            assert!(part.len() == expected.len() && part.clone().rev().eq(expected.iter().rev()) && part.eq(expected), "{start}..{end}");
        }
        assert!(one.blocks.iter().all(|it| (1..BLOCK * 2).contains(&it.len())));
        assert_eq!(*one, SharedVec::from(expected.to_vec()));
    }

    /// Numbers without a pattern, and the same each time.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state: u64 = 7;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        }
    }

    #[test]
    fn it_is_a_vector() {
        let mut number = numbers();
        let (mut one, mut expected) = (SharedVec::new(), Vec::new());
        let mut copies: Vec<(SharedVec<usize>, Vec<usize>)> = Vec::new();
        let mut met = [0; 8];
        for turn in 0..4000 {
            // It grows first and shrinks then.
            let at = number(expected.len() + 1);
            let what = if turn < 2000 { [0, 0, 1, 1, 1, 2, 3, 4][number(8)] } else { [1, 2, 3, 3, 3, 3, 5, 6][number(8)] };
            met[what] += 1;
            match what {
                0 => {
                    one.push(turn);
                    expected.push(turn);
                }
                1 => {
                    one.insert(at, turn);
                    expected.insert(at, turn);
                }
                2 => assert_eq!(one.pop(), expected.pop()),
                3 => assert_eq!(one.remove(at), (at < expected.len()).then(|| expected.remove(at))),
                4 => {
                    one.extend(turn..turn + 3);
                    expected.extend(turn..turn + 3);
                }
                5 => {
                    let few = expected.len().saturating_sub(number(5));
                    one.truncate(few);
                    expected.truncate(few);
                }
                _ => {
                    one.get_mut(at).into_iter().for_each(|it| *it = turn);
                    expected.get_mut(at).into_iter().for_each(|it| *it = turn);
                }
            }
            if turn % 200 == 0 {
                check(&one, &expected);
                copies.push((one.clone(), expected.clone()));
            }
        }
        assert!(met[..7].iter().all(|it| *it > 100), "{met:?}");
        one.iter_mut().for_each(|it| *it += 1);
        one.sort_by(|a, b| b.cmp(a));
        expected.iter_mut().for_each(|it| *it += 1);
        expected.sort_by(|a, b| b.cmp(a));
        copies.push((one, expected));
        for (one, expected) in copies {
            check(&one, &expected);
            assert_eq!(one.into_iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn copies_share_what_none_of_them_has_changed() {
        let one: SharedVec<usize> = (0..BLOCK * 4).collect();
        let check = |change: fn(&mut SharedVec<usize>), gone: Range<usize>, come: Range<usize>, others: usize| {
            let mut other = one.clone();
            change(&mut other);
            assert_eq!(other.changed_since(&one, usize::eq), (gone, come.clone()));
            assert_eq!(other == one, come.is_empty() && other.len() == one.len());
            let copied = other.blocks.iter().filter(|it| !one.blocks.iter().any(|block| Arc::ptr_eq(it, block))).count();
            assert_eq!(copied, others);
            assert!(one.iter().copied().eq(0..BLOCK * 4));
        };
        let (two, three, four) = (BLOCK * 2, BLOCK * 3, BLOCK * 4);
        check(|_| {}, four..four, four..four, 0);
        check(|it| it.push(0), four..four, four..four + 1, 1);
        check(|it| it.truncate(BLOCK * 3), three..four, three..three, 0);
        check(|it| it.insert(BLOCK * 2 + 1, 0), two + 1..two + 1, two + 1..two + 2, 1);
        check(|it| assert_eq!(it.remove(0), Some(0)), 0..1, 0..0, 1);
        check(|it| it[BLOCK * 2] = 0, two..two + 1, two..two + 1, 1);
        check(|it| it[BLOCK * 2] = BLOCK * 2, four..four, four..four, 1);
    }
}
