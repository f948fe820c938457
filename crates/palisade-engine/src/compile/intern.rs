//! Interning: equal things get one number. Lists of `u32` and texts stand in one arena each, so that nothing is allocated item by item.
//!
//! What policies are made of is counted as well: what nobody uses any more goes, and its number is given to the next that comes.

use std::borrow::Borrow;
use std::hash::{BuildHasher as _, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

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
        let hash = hash_of(list);
        let (data, ends) = (&self.data, &self.ends);
        if let Some(found) = self.table.find(hash, |id| slice(data, ends, *id) == list) {
            return *found;
        }
        let id = number(self.ends.len());
        self.data.extend_from_slice(list);
        self.ends.push(number(self.data.len()));
        let (data, ends) = (&self.data, &self.ends);
        self.table.insert_unique(hash, id, |id| hash_of(slice(data, ends, *id)));
        id
    }

    pub(crate) fn get(&self, id: u32) -> &[u32] {
        slice(&self.data, &self.ends, id)
    }
}

fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    FxBuildHasher.hash_one(value)
}

fn slice<'a>(data: &'a [u32], ends: &[u32], id: u32) -> &'a [u32] {
    let at = index(id);
    let end = ends.get(at).copied().map_or(0, index);
    let start = at.checked_sub(1).and_then(|it| ends.get(it)).copied().map_or(0, index);
    data.get(start..end).unwrap_or(&[])
}

impl Lists {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Texts, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    text: String,
    /// Where each text ends; it starts where the one before ends.
    ends: Vec<u32>,
    table: HashTable<u32>,
}

impl Symbols {
    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, texts: usize) {
        self.ends.reserve(texts);
        let (all, ends) = (&self.text, &self.ends);
        self.table.reserve(texts, |id| hash_of(part(all, ends, *id)));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a text, a new one if it was not met before.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(found) = self.id_of(text) {
            return found;
        }
        let id = number(self.ends.len());
        self.text.push_str(text);
        self.ends.push(number(self.text.len()));
        let (all, ends) = (&self.text, &self.ends);
        self.table.insert_unique(hash_of(text), id, |id| hash_of(part(all, ends, *id)));
        id
    }

    /// The number of a text that was met before.
    pub(crate) fn id_of(&self, text: &str) -> Option<u32> {
        self.table.find(hash_of(text), |id| part(&self.text, &self.ends, *id) == text).copied()
    }

    pub(crate) fn get(&self, id: u32) -> &str {
        part(&self.text, &self.ends, id)
    }
}

fn part<'a>(text: &'a str, ends: &[u32], id: u32) -> &'a str {
    let at = index(id);
    let end = ends.get(at).copied().map_or(0, index);
    let start = at.checked_sub(1).and_then(|it| ends.get(it)).copied().map_or(0, index);
    text.get(start..end).unwrap_or("")
}

/// Whether a use of something is the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    /// It came with this use, or goes with it.
    Only,
    /// There are others.
    Others,
}

/// Values of any kind, each once, with a count of those who use it.
#[derive(Clone, Debug)]
pub(crate) struct Counted<T> {
    values: Vec<Option<T>>,
    uses: Vec<u32>,
    free: Vec<u32>,
    table: HashTable<u32>,
}

impl<T> Default for Counted<T> {
    fn default() -> Counted<T> {
        Counted { values: Vec::new(), uses: Vec::new(), free: Vec::new(), table: HashTable::default() }
    }
}

impl<T: Eq + Hash> Counted<T> {
    /// One more who uses a value.
    pub(crate) fn add<Q>(&mut self, value: &Q) -> (u32, Uses)
    where
        T: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = T> + ?Sized,
    {
        let hash = hash_of(value);
        match self.known(hash, value) {
            Some(known) => known,
            None => self.insert(hash, value.to_owned()),
        }
    }

    /// The same for one that is not needed any more by whoever has it.
    pub(crate) fn add_owned(&mut self, value: T) -> (u32, Uses) {
        let hash = hash_of(&value);
        match self.known(hash, &value) {
            Some(known) => known,
            None => self.insert(hash, value),
        }
    }

    fn known<Q: Eq + ?Sized>(&mut self, hash: u64, value: &Q) -> Option<(u32, Uses)>
    where
        T: Borrow<Q>,
    {
        let values = &self.values;
        let same = |id: &u32| values.get(index(*id)).and_then(Option::as_ref).is_some_and(|it| it.borrow() == value);
        let id = *self.table.find(hash, same)?;
        let uses = self.uses.get_mut(index(id))?;
        *uses = uses.saturating_add(1);
        Some((id, if *uses == 1 { Uses::Only } else { Uses::Others }))
    }

    fn insert(&mut self, hash: u64, value: T) -> (u32, Uses) {
        let id = self.free.pop().unwrap_or_else(|| number(self.values.len()));
        if index(id) == self.values.len() {
            self.values.push(None);
            self.uses.push(0);
        }
        if let (Some(place), Some(uses)) = (self.values.get_mut(index(id)), self.uses.get_mut(index(id))) {
            (*place, *uses) = (Some(value), 1);
        }
        let values = &self.values;
        self.table.insert_unique(hash, id, |id| values.get(index(*id)).and_then(Option::as_ref).map_or(0, hash_of));
        (id, Uses::Only)
    }

    /// One less. The number of what nobody uses any more is given out again only after `forget`.
    pub(crate) fn release(&mut self, id: u32) -> Uses {
        let Some(uses) = self.uses.get_mut(index(id)) else { return Uses::Others };
        *uses = uses.saturating_sub(1);
        if *uses == 0 { Uses::Only } else { Uses::Others }
    }

    /// Gives up the numbers of values that nobody uses.
    pub(crate) fn forget(&mut self, ids: &[u32]) {
        for id in self.unused(ids) {
            let Some(value) = self.values.get_mut(index(id)).and_then(Option::take) else { continue };
            if let Ok(entry) = self.table.find_entry(hash_of(&value), |it| *it == id) {
                entry.remove();
            }
            self.free.push(id);
        }
    }

    /// Those of some numbers whose values are still there although nobody uses them, each once.
    pub(crate) fn unused(&self, ids: &[u32]) -> Vec<u32> {
        let mut unused: Vec<u32> = ids.iter().copied().filter(|it| !self.is_used(*it) && self.get(*it).is_some()).collect();
        unused.sort_unstable();
        unused.dedup();
        unused
    }

    pub(crate) fn is_used(&self, id: u32) -> bool {
        self.uses.get(index(id)).is_some_and(|it| *it > 0)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.values.get(index(id))?.as_ref()
    }

    /// Those in use, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.values).filter_map(|(id, value)| Some((id, value.as_ref()?))).filter(|(id, _)| self.is_used(*id))
    }
}

/// Values of any kind, each once.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    values: Vec<T>,
    table: HashTable<u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { values: Vec::new(), table: HashTable::default() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    pub(crate) fn intern(&mut self, value: T) -> u32 {
        if let Some(id) = self.id_of(&value) {
            return id;
        }
        let (id, hash) = (number(self.values.len()), hash_of(&value));
        self.values.push(value);
        let values = &self.values;
        self.table.insert_unique(hash, id, |id| values.get(index(*id)).map_or(0, hash_of));
        id
    }

    /// The number of something that was met before.
    pub(crate) fn id_of(&self, value: &T) -> Option<u32> {
        self.table.find(hash_of(value), |id| self.values.get(index(*id)) == Some(value)).copied()
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

    #[test]
    fn a_number_is_given_out_again_when_nobody_uses_it() {
        let mut counted = Counted::default();
        assert_eq!(counted.add(&"a"), (0, Uses::Only));
        assert_eq!(counted.add(&"b"), (1, Uses::Only));
        assert_eq!(counted.add(&"a"), (0, Uses::Others));
        assert_eq!(counted.release(0), Uses::Others);
        assert_eq!(counted.release(0), Uses::Only);
        // Who comes back in between finds it as it was.
        assert_eq!(counted.add(&"a"), (0, Uses::Only));
        counted.forget(&[0]);
        assert_eq!(counted.get(0), Some(&"a"));
        counted.release(0);
        counted.forget(&[0]);
        assert_eq!(counted.get(0), None);
        assert_eq!(counted.add(&"c").0, 0);
    }
}
