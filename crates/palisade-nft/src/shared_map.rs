//! Large maps that differ from the last one in little.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::iter::Map;
use std::ops::Index;
use std::sync::Arc;

use palisade_model::Items;

/// So many entries are copied when one of them changes.
const BLOCK: usize = 256;

/// A map in the order of its keys, whose copies share what none of them has changed, block by block. What two of them share is passed over when
/// they are compared. It knows which values it has, however many keys have one.
pub struct SharedMap<K, V> {
    // INVARIANT: keys ascend, within a block and from block to block; no block is empty, and none has twice as many entries as `BLOCK`.
    blocks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
    /// How many keys have each value.
    // INVARIANT: no value has none.
    tally: Arc<Tally<V>>,
}

type Tally<V> = HashMap<V, usize, BuildHasherDefault<AsItIs>>;

/// Numbers come from a hash, and need no other.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash << 8) ^ u64::from(*byte));
    }

    fn write_u32(&mut self, number: u32) {
        // Tables are filled by the lower bits, and tell entries apart by the upper ones.
        self.0 = u64::from(number) << 32 | u64::from(number);
    }
}

impl<K, V> SharedMap<K, V> {
    pub fn new() -> SharedMap<K, V> {
        SharedMap { blocks: Vec::new(), len: 0, tally: Arc::default() }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Items::over(&self.blocks, self.len).map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|it| it.0)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|it| it.1)
    }

    /// Takes all entries away.
    pub fn clear(&mut self) {
        *self = SharedMap::new();
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        let block = self.blocks.get(self.block_of(key))?;
        let at = block.binary_search_by(|it| it.0.cmp(key)).ok()?;
        block.get(at).map(|it| &it.1)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The block that has a key if one has it: the first that does not end before it.
    fn block_of(&self, key: &K) -> usize {
        // Many are made in the order of their keys.
        if self.blocks.last().and_then(|it| it.last()).is_some_and(|last| last.0 < *key) {
            return self.blocks.len();
        }
        self.blocks.partition_point(|it| it.last().is_some_and(|last| last.0 < *key))
    }

    /// Each key of this and of another, with what each has for it; but for some that both have of old, with one and the same value.
    pub fn differing<'a>(&'a self, other: &'a SharedMap<K, V>) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> {
        let (mut old, mut new) = (Cursor::at_first_of(&self.blocks), Cursor::at_first_of(&other.blocks));
        std::iter::from_fn(move || {
            while old.passes_with(&mut new) {}
            let order = match (old.entry(), new.entry()) {
                (Some(one), Some(other)) => one.0.cmp(&other.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            let one = if order.is_le() { old.next() } else { None };
            let other = if order.is_ge() { new.next() } else { None };
            one.or(other).map(|(key, _)| (key, one.map(|it| &it.1), other.map(|it| &it.1)))
        })
    }
}

/// All entries of a map, in the order of their keys.
type Iter<'a, K, V> = Map<Items<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

/// A place in a map.
struct Cursor<'a, K, V> {
    entries: std::slice::Iter<'a, (K, V)>,
    /// Blocks that come after those.
    rest: std::slice::Iter<'a, Arc<Vec<(K, V)>>>,
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn at_first_of(blocks: &'a [Arc<Vec<(K, V)>>]) -> Cursor<'a, K, V> {
        Cursor { entries: [].iter(), rest: blocks.iter() }
    }

    /// Goes to the next block in both if it is the same one, and both have come to its beginning.
    fn passes_with(&mut self, other: &mut Cursor<'a, K, V>) -> bool {
        let at_block = |it: &Cursor<'a, K, V>| if it.entries.as_slice().is_empty() { it.rest.as_slice().first() } else { None };
        let same = at_block(self).zip(at_block(other)).is_some_and(|(one, other)| Arc::ptr_eq(one, other));
        if same {
            self.rest.next();
            other.rest.next();
        }
        same
    }

    fn entry(&mut self) -> Option<&'a (K, V)> {
        if self.entries.as_slice().is_empty() {
            self.entries = self.rest.next().map_or_else(|| [].iter(), |it| it.iter());
        }
        self.entries.as_slice().first()
    }

    fn next(&mut self) -> Option<&'a (K, V)> {
        self.entry()?;
        self.entries.next()
    }
}

impl<K, V: Eq + Hash> SharedMap<K, V> {
    /// Whether some key has this value.
    pub fn has_value(&self, value: &V) -> bool {
        self.tally.contains_key(value)
    }
}

impl<K: Ord + Clone, V: Clone + Eq + Hash> SharedMap<K, V> {
    /// Puts a value there, and takes the one away that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let tally = Arc::make_mut(&mut self.tally);
        *tally.entry(value.clone()).or_default() += 1;
        let before = self.put(key, value);
        before.iter().for_each(|it| self.forget(it));
        before
    }

    /// One key less has this value.
    fn forget(&mut self, value: &V) {
        let tally = Arc::make_mut(&mut self.tally);
        if let Some(count) = tally.get_mut(value) {
            *count -= 1;
            if *count == 0 {
                tally.remove(value);
            }
        }
    }

    fn put(&mut self, key: K, value: V) -> Option<V> {
        let at = self.block_of(&key).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at).map(Arc::make_mut) else {
            self.blocks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        match block.binary_search_by(|it| it.0.cmp(&key)) {
            Ok(place) => block.get_mut(place).map(|it| std::mem::replace(&mut it.1, value)),
            Err(place) => {
                block.insert(place, (key, value));
                self.len += 1;
                if block.len() >= BLOCK * 2 {
                    let half = block.split_off(BLOCK);
                    block.shrink_to_fit();
                    self.blocks.insert(at + 1, Arc::new(half));
                }
                None
            }
        }
    }

    /// Takes a value away.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.block_of(key);
        let block = self.blocks.get_mut(at)?;
        let place = block.binary_search_by(|it| it.0.cmp(key)).ok()?;
        let block = Arc::make_mut(block);
        let (_, value) = block.remove(place);
        self.len -= 1;
        let left = block.len();
        if left == 0 {
            self.blocks.remove(at);
        } else if self.blocks.get(at + 1).is_some_and(|it| left + it.len() <= BLOCK) {
            let next = Arc::unwrap_or_clone(self.blocks.remove(at + 1));
            self.blocks.get_mut(at).into_iter().for_each(|it| Arc::make_mut(it).extend(next.iter().cloned()));
        }
        self.forget(&value);
        Some(value)
    }

    /// Changes each value.
    pub fn change_values(&mut self, change: impl Fn(&V) -> V) {
        let mut tally = Tally::default();
        for (_, value) in self.blocks.iter_mut().flat_map(|it| Arc::make_mut(it).iter_mut()) {
            *value = change(value);
            *tally.entry(value.clone()).or_default() += 1;
        }
        self.tally = Arc::new(tally);
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> SharedMap<K, V> {
        SharedMap { blocks: self.blocks.clone(), len: self.len, tally: Arc::clone(&self.tally) }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> SharedMap<K, V> {
        SharedMap::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V: Eq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &SharedMap<K, V>) -> bool {
        self.len == other.len && self.differing(other).all(|(_, one, other)| one == other)
    }
}

impl<K: Ord, V: Eq> Eq for SharedMap<K, V> {}

impl<K: Ord, V> Index<&K> for SharedMap<K, V> {
    type Output = V;

    #[expect(clippy::expect_used, reason = "an index is a claim that there is such a key, as that of any map")]
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("no entry of this key")
    }
}

impl<K: Ord + Clone, V: Clone + Eq + Hash> From<BTreeMap<K, V>> for SharedMap<K, V> {
    fn from(entries: BTreeMap<K, V>) -> SharedMap<K, V> {
        entries.into_iter().collect()
    }
}

impl<K: Ord + Clone, V: Clone + Eq + Hash, const N: usize> From<[(K, V); N]> for SharedMap<K, V> {
    fn from(entries: [(K, V); N]) -> SharedMap<K, V> {
        entries.into_iter().collect()
    }
}

impl<K: Ord + Clone, V: Clone + Eq + Hash> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> SharedMap<K, V> {
        let mut all = SharedMap::new();
        all.extend(entries);
        all
    }
}

impl<K: Ord + Clone, V: Clone + Eq + Hash> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds one against the map that it stands for.
    fn check(one: &SharedMap<usize, usize>, expected: &BTreeMap<usize, usize>) {
        assert!(one.iter().eq(expected) && one.iter().rev().eq(expected.iter().rev()));
        let (half, mut ends) = (expected.len() / 2, one.iter());
        assert!(ends.by_ref().rev().take(half).eq(expected.iter().rev().take(half)));
        assert!(ends.len() == expected.len() - half && ends.eq(expected.iter().take(expected.len() - half)));
        assert!(one.keys().eq(expected.keys()) && one.values().eq(expected.values()));
        assert_eq!((one.len(), one.is_empty()), (expected.len(), expected.is_empty()));
        for key in 0..3000 {
            assert_eq!(one.get(&key), expected.get(&key), "{key}");
        }
        assert!(one.blocks.iter().all(|it| (1..BLOCK * 2).contains(&it.len())));
        for value in 0..10 {
            assert_eq!(one.has_value(&value), expected.values().any(|it| *it == value), "{value}");
        }
        assert_eq!(*one, expected.clone().into());
    }

    /// What is not the same, found by looking at all.
    fn other(old: &BTreeMap<usize, usize>, new: &BTreeMap<usize, usize>) -> Vec<(usize, Option<usize>, Option<usize>)> {
        let keys: std::collections::BTreeSet<&usize> = old.keys().chain(new.keys()).collect();
        let each = keys.into_iter().map(|it| (*it, old.get(it).copied(), new.get(it).copied()));
        each.filter(|(_, one, other)| one != other).collect()
    }

    #[test]
    fn it_is_a_map_whose_copies_stay_as_they_are() {
        let mut state: u64 = 7;
        let mut number = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (mut one, mut expected) = (SharedMap::new(), BTreeMap::new());
        let mut copies = vec![(one.clone(), expected.clone())];
        for turn in 0..20_000 {
            // It grows first and shrinks then.
            let key = number(3000);
            if number(10) < if turn < 10_000 { 8 } else { 2 } {
                assert_eq!(one.insert(key, turn % 5), expected.insert(key, turn % 5));
            } else {
                assert_eq!(one.remove(&key), expected.remove(&key));
            }
            if turn % 400 == 0 {
                check(&one, &expected);
                copies.push((one.clone(), expected.clone()));
            }
        }
        one.change_values(|it| it + 1);
        expected.values_mut().for_each(|it| *it += 1);
        copies.push((one, expected));
        for (one, expected) in &copies {
            check(one, expected);
            for (next, then) in copies.iter().step_by(7) {
                let differing = one.differing(next).map(|(key, one, other)| (*key, one.copied(), other.copied()));
                assert_eq!(differing.filter(|(_, one, other)| one != other).collect::<Vec<_>>(), other(expected, then));
                assert_eq!(one == next, expected == then);
            }
        }
    }

    #[test]
    fn what_is_shared_is_passed_over() {
        let one: SharedMap<usize, usize> = (0..BLOCK * 8).map(|it| (it * 3, it)).collect();
        let looked_at = |other: &SharedMap<usize, usize>| one.differing(other).count();
        assert_eq!(looked_at(&one.clone()), 0);
        let mut more = one.clone();
        more.insert(BLOCK * 6 + 1, 0);
        assert_eq!(looked_at(&more), BLOCK + 1);
        let mut fewer = one.clone();
        fewer.remove(&(BLOCK * 6));
        assert_eq!(looked_at(&fewer), BLOCK);
        // A block that had no room is two.
        let mut split = one.clone();
        split.extend((1..BLOCK).map(|it| (it * 3 - 1, 0)).chain([(1, 0)]));
        assert_eq!((split.blocks.len(), looked_at(&split)), (9, BLOCK * 2));
        assert_eq!(more.insert(BLOCK * 6, 1), Some(BLOCK * 2));
    }
}
