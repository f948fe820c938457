//! Numbers for classes, programs, leaves and origins, and rooms for links, that stay the same from one lowering to the next.
//!
//! A number comes from the words that say what it stands for. So it is the same in every process, whatever else is in the cluster and
//! whatever was there before; only where two words want one number, the one that was there first keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Numbers given out so far. Zero is never given: it means "unknown".
#[derive(Clone, Debug)]
pub struct Ids {
    pub(crate) classes: Numbers,
    pub(crate) programs: Numbers,
    pub(crate) leaves: Numbers,
    pub(crate) origins: Numbers,
    /// Link → room, from 0.
    rooms: BTreeMap<String, usize>,
}

impl Default for Ids {
    fn default() -> Ids {
        let numbers = |space| Numbers { space, ..Numbers::default() };
        Ids {
            classes: numbers(Space::Classes),
            programs: numbers(Space::Programs),
            leaves: Numbers::default(),
            origins: Numbers::default(),
            rooms: BTreeMap::new(),
        }
    }
}

impl Ids {
    /// Starts a lowering. Who was not met in the last one is forgotten.
    pub(crate) fn begin(&mut self) {
        for numbers in [&mut self.classes, &mut self.programs, &mut self.leaves, &mut self.origins] {
            numbers.begin();
        }
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

/// Which numbers are given. No class has the number of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Space {
    /// The lower half.
    Classes,
    /// The upper half.
    Programs,
    #[default]
    Other,
}

/// Where the upper half begins.
const HALF: u32 = 1 << 31;

impl Space {
    pub(crate) const fn numbers(self) -> RangeInclusive<u32> {
        match self {
            Space::Classes => FIRST..=HALF - 1,
            Space::Programs => HALF..=LAST,
            Space::Other => FIRST..=LAST,
        }
    }

    fn of(self, number: u32) -> u32 {
        match self {
            Space::Classes => number & (HALF - 1),
            Space::Programs => number | HALF,
            Space::Other => number,
        }
    }
}

/// Numbers by words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    space: Space,
    known: BTreeMap<String, Given>,
    taken: BTreeSet<u32>,
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    number: u32,
    /// When it was last asked for.
    turn: u64,
}

/// A sender's TOS can put any number below this into its packets.
const FIRST: u32 = 16;

/// nft has a word for the one after it.
const LAST: u32 = u32::MAX - 1;

impl Numbers {
    /// The number of something. Where the order of asking is not that of the words, it may depend on that.
    pub(crate) fn of(&mut self, words: &str) -> u32 {
        match self.known.get_mut(words) {
            Some(given) => {
                given.turn = self.turn;
                given.number
            }
            None => self.give(words, hash(words)),
        }
    }

    fn give(&mut self, words: &str, hash: u64) -> u32 {
        let numbers = self.space.numbers();
        let mut number = self.space.of(fold(hash));
        // Ends: a table has far fewer elements than there are numbers.
        while !numbers.contains(&number) || !self.taken.insert(number) {
            number = if number < *numbers.end() && numbers.contains(&number) { number + 1 } else { *numbers.start() };
        }
        self.known.insert(words.to_owned(), Given { number, turn: self.turn });
        number
    }

    fn begin(&mut self) {
        let (turn, taken) = (self.turn, &mut self.taken);
        self.known.retain(|_, given| {
            let stays = given.turn == turn;
            if !stays {
                taken.remove(&given.number);
            }
            stays
        });
        self.turn += 1;
    }
}

/// FNV-1a with 64 bits. The hashers of the standard library may change with it; this one is fixed for good. It need not withstand those who look
/// for collisions: words that collide get different numbers.
fn hash(words: &str) -> u64 {
    words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Both halves of a hash in one number.
fn fold(hash: u64) -> u32 {
    let [a, b, c, d, e, f, g, h] = hash.to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes([e, f, g, h])
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

    #[test]
    fn a_number_is_what_it_was_in_every_version() {
        // The reference values of the hash.
        assert_eq!((hash(""), hash("a"), hash("foobar")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8));
        assert_eq!(Numbers::default().of("foobar"), 0x8594_4171 ^ 0xf739_67e8);
    }

    #[test]
    fn no_class_has_the_number_of_a_program() {
        let mut ids = Ids::default();
        let wanted = [0, 15, 1 << 31, (1 << 31) - 1, u64::from(u32::MAX), u64::from(u32::MAX - 1)];
        for (at, hash) in wanted.into_iter().enumerate() {
            assert!(ids.classes.give(&format!("class {at}"), hash) < HALF);
            assert!((HALF..=LAST).contains(&ids.programs.give(&format!("program {at}"), hash)));
        }
    }

    #[test]
    fn words_that_want_one_number_get_different_ones() {
        let mut numbers = Numbers::default();
        let wanted = [100, 100, 101, 100, 0, 15, u64::from(u32::MAX), u64::from(u32::MAX - 1), u64::from(u32::MAX - 1)];
        let given: Vec<u32> = wanted.iter().enumerate().map(|(at, hash)| numbers.give(&format!("word {at}"), *hash)).collect();
        assert_eq!(given, [100, 101, 102, 103, 16, 17, 18, u32::MAX - 1, 19]);
        let again: Vec<u32> = (0..wanted.len()).map(|at| numbers.of(&format!("word {at}"))).collect();
        assert_eq!(again, given);
    }

    #[test]
    fn who_is_gone_is_forgotten_and_comes_back_with_the_same_number() {
        let mut numbers = Numbers::default();
        let both = [numbers.of("a"), numbers.of("b")];
        numbers.begin();
        assert_eq!((numbers.of("a"), numbers.known.len()), (both[0], 2));
        numbers.begin();
        assert_eq!((numbers.known.len(), numbers.taken.len()), (1, 1));
        assert_eq!([numbers.of("a"), numbers.of("b")], both);
    }
}
