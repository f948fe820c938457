//! What vectors and maps in blocks have in common.

use std::slice;
use std::sync::Arc;

/// Items that are kept in blocks, in order.
#[derive(Debug)]
pub struct Items<'a, T> {
    /// What is left of a block that was begun from the front.
    front: slice::Iter<'a, T>,
    blocks: slice::Iter<'a, Arc<Vec<T>>>,
    /// What is left of a block that was begun from the back.
    back: slice::Iter<'a, T>,
    left: usize,
}

impl<T> Clone for Items<'_, T> {
    fn clone(&self) -> Self {
        Items { front: self.front.clone(), blocks: self.blocks.clone(), back: self.back.clone(), left: self.left }
    }
}

impl<'a, T> Items<'a, T> {
    /// Those of some blocks, of which there are so many in all.
    pub fn over(blocks: &'a [Arc<Vec<T>>], left: usize) -> Items<'a, T> {
        Items { front: [].iter(), blocks: blocks.iter(), back: [].iter(), left }
    }
}

impl<'a, T> Iterator for Items<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let mut item = self.front.next();
        if item.is_none() {
            self.front = self.blocks.next().map_or_else(|| std::mem::take(&mut self.back), |it| it.iter());
            item = self.front.next();
        }
        self.left -= usize::from(item.is_some());
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// Blocks in between are passed over.
    fn nth(&mut self, mut beyond: usize) -> Option<&'a T> {
        while self.front.len() <= beyond && self.left > self.front.len() {
            beyond -= self.front.len();
            self.left -= self.front.len();
            self.front = self.blocks.next().map_or_else(|| std::mem::take(&mut self.back), |it| it.iter());
        }
        let before = self.front.len();
        let item = self.front.nth(beyond);
        self.left -= before - self.front.len();
        item
    }

    fn fold<B, F: FnMut(B, &'a T) -> B>(self, first: B, mut with: F) -> B {
        let first = self.front.fold(first, &mut with);
        let then = self.blocks.fold(first, |so_far, it| it.iter().fold(so_far, &mut with));
        self.back.fold(then, with)
    }
}

impl<'a, T> DoubleEndedIterator for Items<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        let mut item = self.back.next_back();
        if item.is_none() {
            self.back = self.blocks.next_back().map_or_else(|| std::mem::take(&mut self.front), |it| it.iter());
            item = self.back.next_back();
        }
        self.left -= usize::from(item.is_some());
        item
    }
    /// The same from the other end.
    fn nth_back(&mut self, mut beyond: usize) -> Option<&'a T> {
        while self.back.len() <= beyond && self.left > self.back.len() {
            beyond -= self.back.len();
            self.left -= self.back.len();
            self.back = self.blocks.next_back().map_or_else(|| std::mem::take(&mut self.front), |it| it.iter());
        }
        let before = self.back.len();
        let item = self.back.nth_back(beyond);
        self.left -= before - self.back.len();
        item
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}
