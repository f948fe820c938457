//! Addresses and ports that a ruleset does not tell apart.
//!
//! A walk through a ruleset reads an address by its maps and sets alone, so what all of them say alike makes no difference to any verdict. A
//! node has tens of thousands of connections and few kinds of ends: each is traced once.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_model::Family;
use palisade_nft::{Address, Match, Ruleset};

/// Addresses of one number are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind(usize);

/// Both ends of a packet, as a ruleset sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    source: Kind,
    destination: Kind,
    /// Which sets of pairs have the two, by their place.
    pairs: Vec<usize>,
}

/// The kinds of addresses that were asked for.
#[derive(Debug)]
pub(crate) struct Alike<'a> {
    ruleset: &'a Ruleset,
    /// Where something about ports begins or ends.
    ports: Vec<u16>,
    of: HashMap<IpAddr, Kind>,
    /// By the family, and by what each map and set says.
    kinds: HashMap<(Family, Vec<Option<u32>>), Kind>,
}

impl<'a> Alike<'a> {
    pub(crate) fn in_ruleset(ruleset: &'a Ruleset) -> Alike<'a> {
        let matches = ruleset.chains.values().flat_map(|it| &it.rules).flat_map(|it| &it.matches);
        let ranges =
            matches.filter_map(|it| if let Match::Port { first, last } = it { Some([*first, last.saturating_add(1)]) } else { None });
        let ports: BTreeSet<u16> = ranges.flatten().collect();
        Alike { ruleset, ports: ports.into_iter().collect(), of: HashMap::new(), kinds: HashMap::new() }
    }

    /// Ports of one number are alike.
    pub(crate) fn port(&self, port: u16) -> usize {
        self.ports.partition_point(|it| *it <= port)
    }

    pub(crate) fn ends(&mut self, source: IpAddr, destination: IpAddr) -> Ends {
        let family = Address::of(source);
        let sets = self.ruleset.pairs.values().enumerate().filter(|(_, it)| it.family == family);
        let pairs = sets.filter(|(_, it)| it.elements.contains(&(source, destination))).map(|(at, _)| at).collect();
        Ends { source: self.kind(source), destination: self.kind(destination), pairs }
    }

    fn kind(&mut self, address: IpAddr) -> Kind {
        if let Some(kind) = self.of.get(&address) {
            return *kind;
        }
        let next = Kind(self.kinds.len());
        let kind = *self.kinds.entry((Family::of(address), said(self.ruleset, address))).or_insert(next);
        self.of.insert(address, kind);
        kind
    }
}

/// What each map and set of a ruleset says of an address. Sets of links are left out: connections are traced without any.
fn said(ruleset: &Ruleset, address: IpAddr) -> Vec<Option<u32>> {
    let Ruleset { layout: _, data, intervals, addresses, chains: _, verdicts: _, sets: _, pairs: _, tuples: _, origins: _ } = ruleset;
    let data = data.values().map(|it| it.elements.get(&address).copied());
    let intervals = intervals.values().map(|it| {
        let below = it.elements.range(..=address).next_back();
        below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number)
    });
    let addresses = addresses.values().map(|it| it.elements.contains(&address).then_some(0));
    data.chain(intervals).chain(addresses).collect()
}

#[cfg(test)]
mod tests {
    use palisade_nft::{AddressSet, Chain, DataMap, IntervalMap, PairSet, Rule};

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn whatever_a_map_or_set_tells_apart_is_of_another_kind() {
        let family = Address::V4;
        let ruleset = Ruleset {
            data: [("d".to_owned(), DataMap { family, elements: [(address(2), 7), (address(3), 8)].into() })].into(),
            intervals: [("i".to_owned(), IntervalMap { family, elements: [(address(0), (address(9), 1))].into() })].into(),
            addresses: [("a".to_owned(), AddressSet { family, elements: [address(4)].into() })].into(),
            pairs: [("p".to_owned(), PairSet { family, elements: [(address(0), address(1))].into() })].into(),
            ..Ruleset::default()
        };
        let mut alike = Alike::in_ruleset(&ruleset);
        let mut is_alike = |one: u8, other: u8| alike.ends(address(one), address(200)) == alike.ends(address(other), address(200));
        assert!(is_alike(0, 1) && is_alike(10, 11));
        for other in [2, 3, 4, 10] {
            assert!(!is_alike(0, other), "{other}");
        }
        assert!(!is_alike(2, 3));
        assert_ne!(alike.ends(address(0), address(1)), alike.ends(address(1), address(0)));
        let rules = [(80, 90), (85, 85), (65_535, 65_535)].map(|(first, last)| Rule::default().when(Match::Port { first, last }));
        let ports = Ruleset { chains: [("c".to_owned(), Chain { hook: None, rules: rules.into() })].into(), ..Ruleset::default() };
        let ports = Alike::in_ruleset(&ports);
        let kinds = [0, 79, 80, 84, 85, 86, 90, 91, 65_534, 65_535].map(|it| ports.port(it));
        assert_eq!(kinds, [0, 0, 1, 1, 2, 3, 3, 4, 4, 5]);
        let six: IpAddr = "fd00::1".parse().unwrap();
        assert_ne!(alike.ends(address(10), six), alike.ends(address(10), address(11)));
    }
}
