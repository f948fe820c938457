//! Maps of any kind: what they are from and to, and their elements.

use std::collections::BTreeMap;

use crate::ruleset::{Address, DataMap, IntervalMap, Ruleset, VerdictMap};

/// What a map is from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKind {
    /// Address → number.
    Data(Address),
    /// Range of addresses → number.
    Interval(Address),
    /// Number → chain.
    Numbers,
    /// Pair of addresses → chain.
    Pairs(Address),
}

/// Elements, with the kind of their map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Map {
    Data(DataMap),
    Interval(IntervalMap),
    Verdict(VerdictMap),
}

/// A map where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapRef<'a> {
    Data(&'a DataMap),
    Interval(&'a IntervalMap),
    Verdict(&'a VerdictMap),
}

impl Map {
    pub fn kind(&self) -> MapKind {
        self.as_ref().kind()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Map::Data(map) => map.elements.len(),
            Map::Interval(map) => map.elements.len(),
            Map::Verdict(VerdictMap::Numbers(elements)) => elements.len(),
            Map::Verdict(VerdictMap::Pairs { elements, .. }) => elements.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_ref(&self) -> MapRef<'_> {
        match self {
            Map::Data(map) => MapRef::Data(map),
            Map::Interval(map) => MapRef::Interval(map),
            Map::Verdict(map) => MapRef::Verdict(map),
        }
    }
}

impl MapRef<'_> {
    pub(crate) fn kind(self) -> MapKind {
        match self {
            MapRef::Data(map) => MapKind::Data(map.family),
            MapRef::Interval(map) => MapKind::Interval(map.family),
            MapRef::Verdict(VerdictMap::Numbers(_)) => MapKind::Numbers,
            MapRef::Verdict(VerdictMap::Pairs { family, .. }) => MapKind::Pairs(*family),
        }
    }

    /// The elements that the other has not, or maps to something else. Both are of one kind.
    pub(crate) fn without(self, other: Option<MapRef<'_>>) -> Map {
        match (self, other) {
            (MapRef::Data(map), Some(MapRef::Data(other))) => {
                Map::Data(DataMap { family: map.family, elements: without(&map.elements, &other.elements) })
            }
            (MapRef::Interval(map), Some(MapRef::Interval(other))) => {
                Map::Interval(IntervalMap { family: map.family, elements: without(&map.elements, &other.elements) })
            }
            (MapRef::Verdict(VerdictMap::Numbers(elements)), Some(MapRef::Verdict(VerdictMap::Numbers(others)))) => {
                Map::Verdict(VerdictMap::Numbers(without(elements, others)))
            }
            (
                MapRef::Verdict(VerdictMap::Pairs { family, elements }),
                Some(MapRef::Verdict(VerdictMap::Pairs { elements: others, .. })),
            ) => Map::Verdict(VerdictMap::Pairs { family: *family, elements: without(elements, others) }),
            (MapRef::Data(map), _) => Map::Data(map.clone()),
            (MapRef::Interval(map), _) => Map::Interval(map.clone()),
            (MapRef::Verdict(map), _) => Map::Verdict(map.clone()),
        }
    }
}

fn without<K: Ord + Clone, V: PartialEq + Clone>(elements: &BTreeMap<K, V>, others: &BTreeMap<K, V>) -> BTreeMap<K, V> {
    let missing = elements.iter().filter(|(key, value)| others.get(*key) != Some(*value));
    missing.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Ruleset {
    /// All maps: those of data, then those of ranges, then those of verdicts.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (&String, MapRef<'_>)> {
        let data = self.data.iter().map(|(name, map)| (name, MapRef::Data(map)));
        let intervals = self.intervals.iter().map(|(name, map)| (name, MapRef::Interval(map)));
        let verdicts = self.verdicts.iter().map(|(name, map)| (name, MapRef::Verdict(map)));
        data.chain(intervals).chain(verdicts)
    }

    pub(crate) fn map(&self, name: &str) -> Option<MapRef<'_>> {
        let data = self.data.get(name).map(MapRef::Data);
        let interval = || self.intervals.get(name).map(MapRef::Interval);
        let verdict = || self.verdicts.get(name).map(MapRef::Verdict);
        data.or_else(interval).or_else(verdict)
    }

    /// Puts an empty map there.
    pub(crate) fn add_map(&mut self, name: String, kind: MapKind) {
        match kind {
            MapKind::Data(family) => {
                self.data.insert(name, DataMap { family, elements: BTreeMap::new() });
            }
            MapKind::Interval(family) => {
                self.intervals.insert(name, IntervalMap { family, elements: BTreeMap::new() });
            }
            MapKind::Numbers => {
                self.verdicts.insert(name, VerdictMap::Numbers(BTreeMap::new()));
            }
            MapKind::Pairs(family) => {
                self.verdicts.insert(name, VerdictMap::Pairs { family, elements: BTreeMap::new() });
            }
        }
    }

    /// Takes a map away, with its elements.
    pub(crate) fn remove_map(&mut self, name: &str) -> Option<Map> {
        let data = self.data.remove(name).map(Map::Data);
        data.or_else(|| self.intervals.remove(name).map(Map::Interval)).or_else(|| self.verdicts.remove(name).map(Map::Verdict))
    }
}
