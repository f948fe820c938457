//! Addresses that change their class, and when they may.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::Direction;

use crate::naming::{class_map, range_map};
use crate::plan::tables::{Program, Tables};
use crate::ruleset::{Address, IntervalMap, Ruleset};

/// All addresses that go from one class to another, by these.
pub(super) type Moves = BTreeMap<(u32, u32), Moving>;

/// Who goes the same way.
#[derive(Debug)]
pub(super) struct Moving {
    /// Known by themselves.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// All that a part of a range has, first and last.
    pub(super) spans: Vec<(IpAddr, IpAddr)>,
    pub(super) way: Way,
}

/// When a class changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// First: no old program tells the two apart.
    First,
    /// Between narrowing and widening: somebody tells them apart.
    Between,
    /// Last: no new program tells the two apart.
    Last,
    /// First to a number for those alone, last to the new one: old programs treat it as the old class, new ones as the new class.
    Through(u32),
}

impl Moving {
    pub(super) fn touches(&self, family: Address, but: IpAddr) -> bool {
        let spans = self.spans.iter().any(|(first, _)| Address::of(*first) == family);
        spans || self.addresses.iter().any(|it| Address::of(*it) == family && *it != but)
    }
}

impl Way {
    /// The class after narrowing, and from then until widening is over.
    pub(super) fn classes(self, (old, new): (u32, u32)) -> (u32, u32) {
        match self {
            Way::First => (new, new),
            Way::Between => (old, new),
            Way::Last => (old, old),
            Way::Through(number) => (number, number),
        }
    }
}

/// Who changes class; `before` and `after` are what the rulesets do not have in common. None if somebody has no class.
pub(super) fn moves(old: &Tables<'_>, new: &Tables<'_>, before: &Ruleset, after: &Ruleset) -> Option<Moves> {
    let mut moves = Moves::new();
    for family in Address::BOTH {
        let map = class_map(family);
        let known = [before, after].into_iter().filter_map(|it| it.data.get(&map)).flat_map(|it| it.elements.keys().copied());
        for address in known.collect::<BTreeSet<IpAddr>>() {
            entry(&mut moves, (old.class(address)?, new.class(address)?)).addresses.insert(address);
        }
        let ranges = |of: &Ruleset| of.intervals.get(&range_map(family)).map_or_else(Vec::new, spans);
        for (first, last, pair) in overlay(&ranges(before), &ranges(after))? {
            entry(&mut moves, pair).spans.push((first, last));
        }
    }
    Some(moves)
}

fn entry(moves: &mut Moves, pair: (u32, u32)) -> &mut Moving {
    moves.entry(pair).or_insert_with(|| Moving { addresses: BTreeSet::new(), spans: Vec::new(), way: Way::Between })
}

type Span = (IpAddr, IpAddr, u32);
/// With the number before and after.
type Part = (IpAddr, IpAddr, (u32, u32));

fn spans(map: &IntervalMap) -> Vec<Span> {
    map.elements.iter().map(|(first, (last, number))| (*first, *last, *number)).collect()
}

/// The parts in which both lists of ranges have one number each. None if one covers what the other does not.
fn overlay(old: &[Span], new: &[Span]) -> Option<Vec<Part>> {
    let (mut old, mut new) = (old.iter().copied(), new.iter().copied());
    let (mut one, mut other) = (old.next(), new.next());
    let mut parts = Vec::new();
    while let (Some((first, last, a)), Some((start, end, b))) = (one, other) {
        if first != start {
            return None;
        }
        let until = last.min(end);
        parts.push((first, until, (a, b)));
        one = if last > until { Some((next(until)?, last, a)) } else { old.next() };
        other = if end > until { Some((next(until)?, end, b)) } else { new.next() };
    }
    (one.is_none() && other.is_none()).then_some(parts)
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => it.to_bits().checked_add(1).map(|it| IpAddr::V4(Ipv4Addr::from_bits(it))),
        IpAddr::V6(it) => it.to_bits().checked_add(1).map(|it| IpAddr::V6(Ipv6Addr::from_bits(it))),
    }
}

/// Programs that subjects have: by whom they are known.
pub(super) struct InForce<'a> {
    /// Only before the change.
    pub(super) leaving: Vec<&'a Program<'a>>,
    /// Only after it.
    pub(super) coming: Vec<&'a Program<'a>>,
    /// Before and after it, with what either lists.
    pub(super) staying: Vec<Program<'a>>,
}

impl<'a> InForce<'a> {
    pub(super) fn of(old: &'a Tables<'a>, new: &'a Tables<'a>) -> InForce<'a> {
        let mut found = InForce { leaving: Vec::new(), coming: Vec::new(), staying: Vec::new() };
        for direction in Direction::BOTH {
            let (before, after) = (old.sides.of(direction), new.sides.of(direction));
            let used = |subjects: &mut dyn Iterator<Item = (IpAddr, u32)>| subjects.map(|it| it.1).collect::<BTreeSet<u32>>();
            let (was, is) = (used(&mut before.subjects()), used(&mut after.subjects()));
            for number in was.union(&is) {
                match (before.programs.get(number), after.programs.get(number)) {
                    (Some(old), Some(new)) => found.staying.push(old.with(new)),
                    (Some(old), None) => found.leaving.push(old),
                    (None, Some(new)) => found.coming.push(new),
                    (None, None) => {}
                }
            }
        }
        found
    }
}

/// Decides when each moves. `free` gives numbers that nobody has.
pub(super) fn time(moves: &mut Moves, old: &Tables<'_>, new: &Tables<'_>, programs: &InForce<'_>, mut free: impl FnMut() -> u32) {
    let ends = Ends::of(moves);
    for ((from, to), moving) in moves.iter_mut() {
        let both = BTreeSet::from([*from, *to]);
        // Programs can be told of a class that is new to them, or that they have not met; but not of two things under one number.
        let first = if old.classes.contains(to) { &both } else { ends.sources.get(to).unwrap_or(&both) };
        let last = if new.classes.contains(from) { &both } else { ends.targets.get(from).unwrap_or(&both) };
        moving.way = if !programs.staying.iter().all(|it| it.treats_alike(&both)) {
            Way::Between
        } else if programs.leaving.iter().all(|it| it.treats_alike(first)) {
            Way::First
        } else if programs.coming.iter().all(|it| it.treats_alike(last)) {
            Way::Last
        } else {
            Way::Through(free())
        };
    }
}

/// Where moves begin and end: for each class those that its addresses come from, and go to.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) sources: BTreeMap<u32, BTreeSet<u32>>,
    pub(super) targets: BTreeMap<u32, BTreeSet<u32>>,
}

impl Ends {
    pub(super) fn of(moves: &Moves) -> Ends {
        let mut ends = Ends::default();
        for (from, to) in moves.keys() {
            ends.sources.entry(*to).or_default().insert(*from);
            ends.targets.entry(*from).or_default().insert(*to);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: &str, last: &str, number: u32) -> Span {
        (first.parse().unwrap(), last.parse().unwrap(), number)
    }

    #[test]
    fn ranges_are_laid_over_each_other() {
        let old = [span("10.0.0.0", "10.0.0.9", 1), span("10.0.0.10", "10.0.0.19", 2), span("255.0.0.0", "255.255.255.255", 7)];
        let new = [span("10.0.0.0", "10.0.0.4", 3), span("10.0.0.5", "10.0.0.19", 4), span("255.0.0.0", "255.255.255.255", 8)];
        let parts: Vec<String> =
            overlay(&old, &new).unwrap().iter().map(|(first, last, pair)| format!("{first}-{last} {pair:?}")).collect();
        let expected =
            ["10.0.0.0-10.0.0.4 (1, 3)", "10.0.0.5-10.0.0.9 (1, 4)", "10.0.0.10-10.0.0.19 (2, 4)", "255.0.0.0-255.255.255.255 (7, 8)"];
        assert_eq!(parts, expected);
        assert!(overlay(&old, &new[..2]).is_none());
        assert!(overlay(&old[1..], &new).is_none());
    }
}
