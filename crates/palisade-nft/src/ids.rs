//! Numbers for classes, programs, leaves and origins, and rooms for links, that stay the same from one lowering to the next.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Link → room, from 0.
    rooms: BTreeMap<String, usize>,
}

/// What makes a program, by the numbers of leaves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    /// Where the subject is its own peer.
    pub(crate) itself: u32,
    /// Classes that have another leaf than the rest.
    pub(crate) leaves: BTreeMap<u32, u32>,
    pub(crate) rest: u32,
}

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

    /// The links in rooms of so many at most, none of them empty but those between others. Who was in a room stays there, who is new
    /// gets the first free place, and who is gone is forgotten.
    pub(crate) fn rooms(&mut self, links: &BTreeSet<&String>, size: usize) -> Vec<BTreeSet<String>> {
        self.rooms.retain(|link, _| links.contains(link));
        let mut rooms: Vec<BTreeSet<String>> = Vec::new();
        for (link, room) in &self.rooms {
            place(&mut rooms, *room, link);
        }
        for link in links {
            if !self.rooms.contains_key(*link) {
                let room = rooms.iter().position(|it| it.len() < size).unwrap_or(rooms.len());
                place(&mut rooms, room, link);
                self.rooms.insert((*link).clone(), room);
            }
        }
        rooms
    }
}

fn place(rooms: &mut Vec<BTreeSet<String>>, room: usize, link: &str) {
    if rooms.len() <= room {
        rooms.resize_with(room + 1, BTreeSet::new);
    }
    if let Some(room) = rooms.get_mut(room) {
        room.insert(link.to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &mut Ids, links: &[&str], expected: &[&[&str]]) {
        let links: Vec<String> = links.iter().map(|it| (*it).to_owned()).collect();
        let rooms = ids.rooms(&links.iter().collect(), 2);
        let expected: Vec<BTreeSet<String>> = expected.iter().map(|it| it.iter().map(|it| (*it).to_owned()).collect()).collect();
        assert_eq!(rooms, expected);
    }

    #[test]
    fn a_link_stays_in_its_room_whoever_comes_and_goes() {
        let mut ids = Ids::default();
        check(&mut ids, &[], &[]);
        check(&mut ids, &["c", "d", "e"], &[&["c", "d"], &["e"]]);
        check(&mut ids, &["a", "b", "c", "d", "e"], &[&["c", "d"], &["a", "e"], &["b"]]);
        check(&mut ids, &["b", "c", "d"], &[&["c", "d"], &[], &["b"]]);
        check(&mut ids, &["b", "c", "f", "g"], &[&["c", "f"], &["g"], &["b"]]);
        check(&mut ids, &["c"], &[&["c"]]);
        // Who comes back is new.
        check(&mut ids, &["b", "c"], &[&["b", "c"]]);
    }
}
