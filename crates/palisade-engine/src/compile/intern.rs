//! Interning: equal things get one number. Everything is a list of `u32` in one arena, so that nothing is allocated item by item.

use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// Lists of numbers, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    data: Vec<u32>,
    /// Where each list ends; it starts where the one before ends.
    ends: Vec<u32>,
    table: HashTable<u32>,
}

impl Lists {
    /// The number of a list, a new one if it was not met before.
    pub(crate) fn intern(&mut self, list: &[u32]) -> u32 {
        let hash = FxBuildHasher.hash_one(list);
        let (data, ends) = (&self.data, &self.ends);
        if let Some(found) = self.table.find(hash, |id| slice(data, ends, *id) == list) {
            return *found;
        }
        let id = number(self.ends.len());
        self.data.extend_from_slice(list);
        self.ends.push(number(self.data.len()));
        let (data, ends) = (&self.data, &self.ends);
        self.table.insert_unique(hash, id, |id| FxBuildHasher.hash_one(slice(data, ends, *id)));
        id
    }

    pub(crate) fn get(&self, id: u32) -> &[u32] {
        slice(&self.data, &self.ends, id)
    }
}

fn slice<'a>(data: &'a [u32], ends: &[u32], id: u32) -> &'a [u32] {
    let at = index(id);
    let end = ends.get(at).copied().map_or(0, index);
    let start = at.checked_sub(1).and_then(|it| ends.get(it)).copied().map_or(0, index);
    data.get(start..end).unwrap_or(&[])
}

/// Values of any kind, each once.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    ids: FxHashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { ids: FxHashMap::default(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    pub(crate) fn intern(&mut self, value: T) -> u32 {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let id = number(self.values.len());
        self.values.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    /// The number of something that need not be owned to be found.
    pub(crate) fn intern_by<Q: Eq + Hash + ?Sized>(&mut self, value: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
        for<'q> &'q Q: Into<T>,
    {
        match self.ids.get(value) {
            Some(id) => *id,
            None => self.intern(value.into()),
        }
    }

    /// The number of something that was met before.
    pub(crate) fn id_of<Q: Eq + Hash + ?Sized>(&self, value: &Q) -> Option<u32>
    where
        T: std::borrow::Borrow<Q>,
    {
        self.ids.get(value).copied()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(index(id))
    }

    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

/// A place as a number. A cluster has far fewer things than numbers; the last one is shared if it had not.
pub(crate) fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// A number as a place.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one() {
        let mut lists = Lists::default();
        let ids: Vec<u32> = [&[][..], &[1], &[1, 2], &[], &[1], &[2]].into_iter().map(|it| lists.intern(it)).collect();
        assert_eq!(ids, [0, 1, 2, 0, 1, 3]);
        assert_eq!((lists.get(0), lists.get(2), lists.get(3)), (&[][..], &[1, 2][..], &[2][..]));
    }
}
