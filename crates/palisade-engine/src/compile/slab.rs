//! Things that come and go, each known by its place for as long as it is there.

use crate::compile::intern::{index, number};

/// Things by number. The number of one that is gone is given to the next that comes.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
    }

    pub(crate) fn insert(&mut self, item: T) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| number(self.items.len()));
        match self.items.get_mut(index(id)) {
            Some(place) => *place = Some(item),
            None => self.items.push(Some(item)),
        }
        id
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let item = self.items.get_mut(index(id))?.take()?;
        self.free.push(id);
        Some(item)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.items.get(index(id))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.items.get_mut(index(id))?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(id, item)| Some((id, item.as_ref()?)))
    }
}

/// Adds a member to a group: its seat.
pub(crate) fn join(group: &mut Vec<u32>, member: u32) -> u32 {
    group.push(member);
    number(group.len() - 1)
}

/// Takes the member of a seat out: who sits there now, if somebody does.
pub(crate) fn leave(group: &mut Vec<u32>, seat: u32) -> Option<u32> {
    if index(seat) < group.len() {
        group.swap_remove(index(seat));
    }
    group.get(index(seat)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_makes_room() {
        let mut slab = Slab::default();
        assert_eq!(["a", "b"].map(|it| slab.insert(it)), [0, 1]);
        assert_eq!((slab.remove(0), slab.remove(0)), (Some("a"), None));
        assert_eq!((slab.insert("c"), slab.insert("d")), (0, 2));
        let mut group = Vec::new();
        assert_eq!([7, 8, 9].map(|it| join(&mut group, it)), [0, 1, 2]);
        assert_eq!(leave(&mut group, 0), Some(9));
        assert_eq!((leave(&mut group, 1), group), (None, vec![9]));
    }
}
