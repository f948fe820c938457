//! Maps of any kind, and sets, which are maps to nothing: what they are from and to, and their elements.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruleset::{Address, AddressSet, DataMap, IntervalMap, PairSet, Ruleset, SourceSet, TupleKey, TupleMap, VerdictMap};
use crate::shared_map::SharedMap;

/// What a map is from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKind {
    /// Address → number.
    Data(Address),
    /// Range of addresses → number.
    Interval(Address),
    /// Number → chain.
    Numbers,
    /// Link and address.
    Sources(Address),
    /// Pair of addresses.
    Pairs(Address),
    /// Address.
    Addresses(Address),
    /// Packets → chain.
    Tuples(Address, TupleKey),
}

/// In the words of nft.
impl std::fmt::Display for MapKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses = |family: &Address| match family {
            Address::V4 => "IPv4 addresses",
            Address::V6 => "IPv6 addresses",
        };
        match self {
            MapKind::Data(family) => write!(f, "a map of {} to numbers", addresses(family)),
            MapKind::Interval(family) => write!(f, "a map of ranges of {} to numbers", addresses(family)),
            MapKind::Numbers => write!(f, "a map of numbers to chains"),
            MapKind::Sources(family) => write!(f, "a set of links and {}", addresses(family)),
            MapKind::Pairs(family) => write!(f, "a set of pairs of {}", addresses(family)),
            MapKind::Addresses(family) => write!(f, "a set of {}", addresses(family)),
            MapKind::Tuples(family, TupleKey::Ports) => write!(f, "a map of pairs of {} with ports to chains", addresses(family)),
            MapKind::Tuples(family, TupleKey::Protocol) => write!(f, "a map of pairs of {} with protocols to chains", addresses(family)),
        }
    }
}

/// Elements, with the kind of their map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Map {
    Data(DataMap),
    Interval(IntervalMap),
    Verdict(VerdictMap),
    Sources(SourceSet),
    Pairs(PairSet),
    Addresses(AddressSet),
    Tuples(TupleMap),
}

/// A map where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapRef<'a> {
    Data(&'a DataMap),
    Interval(&'a IntervalMap),
    Verdict(&'a VerdictMap),
    Sources(&'a SourceSet),
    Pairs(&'a PairSet),
    Addresses(&'a AddressSet),
    Tuples(&'a TupleMap),
}

impl Map {
    pub fn kind(&self) -> MapKind {
        self.as_ref().kind()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_ref(&self) -> MapRef<'_> {
        match self {
            Map::Data(map) => MapRef::Data(map),
            Map::Interval(map) => MapRef::Interval(map),
            Map::Verdict(map) => MapRef::Verdict(map),
            Map::Sources(set) => MapRef::Sources(set),
            Map::Pairs(set) => MapRef::Pairs(set),
            Map::Addresses(set) => MapRef::Addresses(set),
            Map::Tuples(map) => MapRef::Tuples(map),
        }
    }
}

impl MapRef<'_> {
    pub(crate) fn kind(self) -> MapKind {
        match self {
            MapRef::Data(map) => MapKind::Data(map.family),
            MapRef::Interval(map) => MapKind::Interval(map.family),
            MapRef::Verdict(_) => MapKind::Numbers,
            MapRef::Sources(set) => MapKind::Sources(set.family),
            MapRef::Pairs(set) => MapKind::Pairs(set.family),
            MapRef::Addresses(set) => MapKind::Addresses(set.family),
            MapRef::Tuples(map) => MapKind::Tuples(map.family, map.key),
        }
    }

    /// The number of elements.
    pub(crate) fn len(self) -> usize {
        match self {
            MapRef::Data(map) => map.elements.len(),
            MapRef::Interval(map) => map.elements.len(),
            MapRef::Verdict(map) => map.elements.len(),
            MapRef::Sources(set) => set.elements.len(),
            MapRef::Pairs(set) => set.elements.len(),
            MapRef::Addresses(set) => set.elements.len(),
            MapRef::Tuples(map) => map.elements.len(),
        }
    }

    /// The elements that the other has not, or maps to something else. Both are of one kind.
    pub(crate) fn without(self, other: Option<MapRef<'_>>) -> Map {
        match (self, other) {
            (MapRef::Data(map), Some(MapRef::Data(other))) => {
                let missing = map.elements.differing(&other.elements).filter(|(_, one, other)| one != other);
                let elements = missing.filter_map(|(key, one, _)| Some((*key, *one?))).collect();
                Map::Data(DataMap { family: map.family, elements })
            }
            (MapRef::Interval(map), Some(MapRef::Interval(other))) => {
                Map::Interval(IntervalMap { family: map.family, elements: without(&map.elements, &other.elements) })
            }
            (MapRef::Verdict(map), Some(MapRef::Verdict(other))) => {
                Map::Verdict(VerdictMap { elements: without(&map.elements, &other.elements) })
            }
            (MapRef::Sources(set), Some(MapRef::Sources(other))) => {
                let elements = set.elements.difference(&other.elements).cloned().collect();
                Map::Sources(SourceSet { family: set.family, elements })
            }
            (MapRef::Pairs(set), Some(MapRef::Pairs(other))) => {
                Map::Pairs(PairSet { family: set.family, elements: &set.elements - &other.elements })
            }
            (MapRef::Addresses(set), Some(MapRef::Addresses(other))) => {
                Map::Addresses(AddressSet { family: set.family, elements: &set.elements - &other.elements })
            }
            (MapRef::Tuples(map), Some(MapRef::Tuples(other))) => {
                Map::Tuples(TupleMap { family: map.family, key: map.key, elements: without(&map.elements, &other.elements) })
            }
            (MapRef::Data(map), _) => Map::Data(map.clone()),
            (MapRef::Interval(map), _) => Map::Interval(map.clone()),
            (MapRef::Verdict(map), _) => Map::Verdict(map.clone()),
            (MapRef::Sources(set), _) => Map::Sources(set.clone()),
            (MapRef::Pairs(set), _) => Map::Pairs(set.clone()),
            (MapRef::Addresses(set), _) => Map::Addresses(set.clone()),
            (MapRef::Tuples(map), _) => Map::Tuples(map.clone()),
        }
    }
}

fn without<K: Ord + Clone, V: PartialEq + Clone>(elements: &BTreeMap<K, V>, others: &BTreeMap<K, V>) -> BTreeMap<K, V> {
    let missing = elements.iter().filter(|(key, value)| others.get(*key) != Some(*value));
    missing.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Ruleset {
    /// All maps: those of data, then those of ranges, then those of verdicts, then sets.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (&String, MapRef<'_>)> {
        let data = self.data.iter().map(|(name, map)| (name, MapRef::Data(map)));
        let intervals = self.intervals.iter().map(|(name, map)| (name, MapRef::Interval(map)));
        let verdicts = self.verdicts.iter().map(|(name, map)| (name, MapRef::Verdict(map)));
        let sets = self.sets.iter().map(|(name, set)| (name, MapRef::Sources(set)));
        let pairs = self.pairs.iter().map(|(name, set)| (name, MapRef::Pairs(set)));
        let addresses = self.addresses.iter().map(|(name, set)| (name, MapRef::Addresses(set)));
        let tuples = self.tuples.iter().map(|(name, map)| (name, MapRef::Tuples(map)));
        data.chain(intervals).chain(verdicts).chain(sets).chain(pairs).chain(addresses).chain(tuples)
    }

    pub(crate) fn map(&self, name: &str) -> Option<MapRef<'_>> {
        let data = self.data.get(name).map(MapRef::Data);
        let interval = || self.intervals.get(name).map(MapRef::Interval);
        let verdict = || self.verdicts.get(name).map(MapRef::Verdict);
        let sources = || self.sets.get(name).map(MapRef::Sources);
        let pairs = || self.pairs.get(name).map(MapRef::Pairs);
        let addresses = || self.addresses.get(name).map(MapRef::Addresses);
        let tuples = || self.tuples.get(name).map(MapRef::Tuples);
        data.or_else(interval).or_else(verdict).or_else(sources).or_else(pairs).or_else(addresses).or_else(tuples)
    }

    /// Puts an empty map there.
    pub(crate) fn add_map(&mut self, name: String, kind: MapKind) {
        match kind {
            MapKind::Data(family) => {
                self.data.insert(name, DataMap { family, elements: SharedMap::new() });
            }
            MapKind::Interval(family) => {
                self.intervals.insert(name, IntervalMap { family, elements: BTreeMap::new() });
            }
            MapKind::Numbers => {
                self.verdicts.insert(name, VerdictMap::default());
            }
            MapKind::Sources(family) => {
                self.sets.insert(name, SourceSet { family, elements: BTreeSet::new() });
            }
            MapKind::Pairs(family) => {
                self.pairs.insert(name, PairSet { family, elements: BTreeSet::new() });
            }
            MapKind::Addresses(family) => {
                self.addresses.insert(name, AddressSet { family, elements: BTreeSet::new() });
            }
            MapKind::Tuples(family, key) => {
                self.tuples.insert(name, TupleMap { family, key, elements: BTreeMap::new() });
            }
        }
    }

    /// Takes a map away, with its elements.
    pub(crate) fn remove_map(&mut self, name: &str) -> Option<Map> {
        let data = self.data.remove(name).map(Map::Data);
        let interval = || self.intervals.remove(name).map(Map::Interval);
        let found = data.or_else(interval).or_else(|| self.verdicts.remove(name).map(Map::Verdict));
        let found = found.or_else(|| self.sets.remove(name).map(Map::Sources));
        let found = found.or_else(|| self.pairs.remove(name).map(Map::Pairs));
        let found = found.or_else(|| self.addresses.remove(name).map(Map::Addresses));
        found.or_else(|| self.tuples.remove(name).map(Map::Tuples))
    }
}
