//! Values by the slot of an object in the model.

use crate::compile::intern::index;

/// At most one value per slot.
#[derive(Clone, Debug)]
pub(crate) struct BySlot<T> {
    items: Vec<Option<T>>,
    len: usize,
}

impl<T> Default for BySlot<T> {
    fn default() -> BySlot<T> {
        BySlot { items: Vec::new(), len: 0 }
    }
}

impl<T> BySlot<T> {
    /// Reserves memory for this many more slots.
    pub(crate) fn reserve(&mut self, slots: usize) {
        self.items.reserve(slots);
    }

    /// Puts a value into a slot, in place of the one that is there.
    pub(crate) fn set(&mut self, slot: u32, item: T) {
        let at = index(slot);
        if self.items.len() <= at {
            self.items.resize_with(at + 1, || None);
        }
        let Some(place) = self.items.get_mut(at) else { return };
        self.len += usize::from(place.replace(item).is_none());
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let item = self.items.get_mut(index(slot))?.take()?;
        self.len -= 1;
        Some(item)
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.items.get(index(slot))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.items.get_mut(index(slot))?.as_mut()
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(slot, item)| Some((slot, item.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.items).filter_map(|(slot, item)| Some((slot, item.as_mut()?)))
    }
}
