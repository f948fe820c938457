//! A list whose copies share the list, and whose items are shared by all versions of it.

use std::fmt;
use std::sync::Arc;

use crate::shared::Shared;

/// Items in order. A clone costs nothing until one of the copies changes, and then only pointers are copied.
pub struct SharedList<T>(Shared<Vec<Arc<T>>>);

/// Items in order.
pub type ListIter<'a, T> = std::iter::Map<std::slice::Iter<'a, Arc<T>>, fn(&'a Arc<T>) -> &'a T>;

impl<T> SharedList<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The item at a position.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at).map(Arc::as_ref)
    }

    /// The item at a position, to be shared.
    pub fn shared(&self, at: usize) -> Option<&Arc<T>> {
        self.0.get(at)
    }

    /// The first item.
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.0.last().map(Arc::as_ref)
    }

    /// All items in order.
    pub fn iter(&self) -> ListIter<'_, T> {
        self.0.iter().map(Arc::as_ref)
    }

    /// All items in order, to be shared.
    pub fn iter_shared(&self) -> std::slice::Iter<'_, Arc<T>> {
        self.0.iter()
    }

    /// The position of the first item for which this does not hold, in a list that is ordered so.
    pub fn partition_point(&self, mut holds: impl FnMut(&T) -> bool) -> usize {
        self.0.partition_point(|it| holds(it))
    }

    /// Adds an item behind the last.
    pub fn push(&mut self, item: T) {
        self.0.push(Arc::new(item));
    }

    /// Adds a shared item behind the last.
    pub fn push_shared(&mut self, item: Arc<T>) {
        self.0.push(item);
    }

    /// Replaces the first item for which this holds. Returns the item that was there.
    pub fn replace(&mut self, holds: impl FnMut(&T) -> bool, item: &Arc<T>) -> Option<Arc<T>> {
        let at = self.iter().position(holds)?;
        self.0.get_mut(at).map(|place| std::mem::replace(place, Arc::clone(item)))
    }

    /// Keeps the first items, as many as this.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<Arc<T>> {
        self.0.pop()
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Inserts a shared item before the one at a position.
    pub fn insert_shared(&mut self, at: usize, item: Arc<T>) {
        self.0.insert(at, item);
    }

    /// Removes the item at a position.
    pub fn remove(&mut self, at: usize) -> Arc<T> {
        self.0.remove(at)
    }

    /// Keeps the items for which this holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|it| keep(it));
    }

    /// Orders the items. Items that compare equal keep their order.
    pub fn sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> std::cmp::Ordering) {
        self.0.sort_by(|one, other| compare(one, other));
    }

    /// Reverses the order of the items.
    pub fn reverse(&mut self) {
        self.0.reverse();
    }
}

impl<T: Clone> SharedList<T> {
    /// All items in order, for changes.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut().map(Arc::make_mut)
    }

    /// The item at a position, for changes.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.0.get_mut(at).map(Arc::make_mut)
    }
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> SharedList<T> {
        SharedList(self.0.clone())
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList(Shared::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: Eq> PartialEq for SharedList<T> {
    fn eq(&self, other: &SharedList<T>) -> bool {
        let same = |(one, other): (&Arc<T>, &Arc<T>)| Arc::ptr_eq(one, other) || one == other;
        self.len() == other.len() && self.0.iter().zip(other.0.iter()).all(same)
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T> std::ops::Index<usize> for SharedList<T> {
    type Output = T;

    #[expect(clippy::expect_used, reason = "an index claims that the item exists, as that of a vector")]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("no item at this position")
    }
}

impl<T: Clone> std::ops::IndexMut<usize> for SharedList<T> {
    #[expect(clippy::expect_used, reason = "an index claims that the item exists, as that of a vector")]
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("no item at this position")
    }
}

impl<T> From<Vec<T>> for SharedList<T> {
    fn from(items: Vec<T>) -> SharedList<T> {
        items.into_iter().collect()
    }
}

impl<T> FromIterator<T> for SharedList<T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> SharedList<T> {
        items.into_iter().map(Arc::new).collect()
    }
}

impl<T> FromIterator<Arc<T>> for SharedList<T> {
    fn from_iter<A: IntoIterator<Item = Arc<T>>>(items: A) -> SharedList<T> {
        SharedList(items.into_iter().collect())
    }
}

impl<T> Extend<T> for SharedList<T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, items: A) {
        self.0.extend(items.into_iter().map(Arc::new));
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}
