//! Packets that a change of rulesets is held against: all of them where there are few, else those for whom most changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_nft::{At, CtState, Match, Packet, Ruleset};

use crate::random::Random;

/// One packet, once for each hook that it comes to.
pub type Journey = Vec<Packet>;

/// A port that no rule speaks of.
const OTHER: (u8, Option<u16>) = (6, Some(9));

/// What two rulesets tell apart.
struct Map {
    /// Every address that one of them knows, and the first of every range.
    addresses: BTreeSet<IpAddr>,
    /// Those whose class or program changes, of a range one for each of its parts.
    changed: BTreeSet<IpAddr>,
    /// The links of pods of the node. A pod's link is there before and after the node is told of it.
    links: BTreeMap<IpAddr, BTreeSet<String>>,
    /// Every port that some rule speaks of, the one after it, and what has none.
    ports: Vec<(u8, Option<u16>)>,
}

/// Every packet that one of two rulesets may treat unlike another: from each address to each, by each link that one of both is at, to each port.
/// Those of a connection that exists, and those that come by the link of another pod, to one port.
pub fn all(old: &Ruleset, new: &Ruleset) -> Vec<Journey> {
    let map = Map::of(old, new);
    let every: BTreeSet<&String> = map.links.values().flatten().collect();
    let mut journeys = Vec::new();
    for (source, destination) in pairs(&map.addresses, &map.addresses) {
        for way in map.ways(source, destination) {
            journeys.extend(map.ports.iter().map(|port| way.to_port(*port)));
            let of_connection = way.to_port(OTHER).into_iter().map(|it| Packet { state: CtState::Established, ..it });
            journeys.push(of_connection.collect());
        }
        for link in every.iter().filter(|it| !map.links.get(&source).is_some_and(|own| own.contains(**it))) {
            let way = Way { source, destination, from: Some((*link).clone()), to: map.link(destination), at: At::Forward };
            journeys.push(way.to_port(OTHER));
        }
    }
    journeys
}

/// So many packets at most between addresses for whom something changes, all pairs of these if they are fewer, and half as many between others.
pub fn some(old: &Ruleset, new: &Ruleset, random: &mut Random, count: usize) -> Vec<Journey> {
    let map = Map::of(old, new);
    let mut changed: Vec<(IpAddr, IpAddr)> = pairs(&map.changed, &map.changed).filter(|pair| map.is_filtered(*pair)).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count && !changed.is_empty() {
        chosen.push(changed.swap_remove(random.below(changed.len())));
    }
    let all: Vec<IpAddr> = map.addresses.iter().copied().collect();
    let local: Vec<IpAddr> = map.links.keys().copied().collect();
    let changed: Vec<IpAddr> = map.changed.iter().copied().collect();
    for _ in 0..count.div_ceil(2) {
        let pools = random.of([[&all, &local], [&local, &all], [&changed, &all], [&all, &changed], [&local, &changed], [&changed, &local]]);
        let [one, other] = pools.map(|it| random.pick(it).copied());
        chosen.extend(one.zip(other).filter(|(one, other)| one.is_ipv4() == other.is_ipv4()));
    }
    let ways = chosen.into_iter().filter_map(|(source, destination)| {
        let ways = map.ways(source, destination);
        Some(random.pick(&ways)?.to_port(*random.pick(&map.ports)?))
    });
    ways.collect()
}

fn pairs(one: &BTreeSet<IpAddr>, other: &BTreeSet<IpAddr>) -> impl Iterator<Item = (IpAddr, IpAddr)> {
    let pairs = one.iter().flat_map(|source| other.iter().map(|destination| (*source, *destination)));
    pairs.filter(|(source, destination)| source.is_ipv4() == destination.is_ipv4())
}

impl Map {
    fn of(old: &Ruleset, new: &Ruleset) -> Map {
        let both = [old, new];
        let known = both.iter().flat_map(|it| it.data.values()).flat_map(|it| it.elements.keys().copied());
        let ranges = both.iter().flat_map(|it| it.intervals.values()).flat_map(|it| &it.elements);
        let addresses: BTreeSet<IpAddr> = known.chain(ranges.map(|(first, _)| *first)).collect();
        let numbers = |of: &Ruleset, address: &IpAddr| -> Vec<Option<u32>> {
            let exact = of.data.values().map(|it| it.elements.get(address).copied());
            let below = of.intervals.values().map(|it| it.elements.range(..=*address).next_back().map(|(_, (_, number))| *number));
            exact.chain(below).collect()
        };
        let changed = addresses.iter().copied().filter(|it| numbers(old, it) != numbers(new, it)).collect();
        let mut links: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for (link, address) in both.iter().flat_map(|it| it.sets.values()).flat_map(|it| &it.elements) {
            links.entry(*address).or_default().insert(link.clone());
        }
        Map { addresses, changed, links, ports: ports(old, new) }
    }

    /// Whether some pod of the node is at one end.
    fn is_filtered(&self, (source, destination): (IpAddr, IpAddr)) -> bool {
        self.links.contains_key(&source) || self.links.contains_key(&destination)
    }

    fn link(&self, address: IpAddr) -> Option<String> {
        self.links.get(&address).and_then(|it| it.first()).cloned()
    }

    /// Through the node, and from its pods to itself.
    fn ways(&self, source: IpAddr, destination: IpAddr) -> Vec<Way> {
        let links = |address: IpAddr| match self.links.get(&address) {
            Some(links) => links.iter().map(|it| Some(it.clone())).collect(),
            None => vec![None],
        };
        let mut ways = Vec::new();
        for from in links(source) {
            if from.is_some() && !self.links.contains_key(&destination) {
                ways.push(Way { source, destination, from: from.clone(), to: None, at: At::Input });
            }
            let to = links(destination).into_iter();
            ways.extend(to.map(|to| Way { source, destination, from: from.clone(), to, at: At::Forward }));
        }
        ways
    }
}

/// From one address to another by links; those that lead elsewhere have no name.
struct Way {
    source: IpAddr,
    destination: IpAddr,
    from: Option<String>,
    to: Option<String>,
    at: At,
}

impl Way {
    fn to_port(&self, (protocol, port): (u8, Option<u16>)) -> Journey {
        let uplink = || "uplink".to_owned();
        let to_link = (self.at == At::Forward).then(|| self.to.clone().unwrap_or_else(uplink));
        let packet = Packet {
            at: self.at.clone(),
            source: self.source,
            destination: self.destination,
            protocol,
            port,
            source_port: None,
            state: CtState::New,
            priority: 3,
            source_is_local: false,
            from_link: Some(self.from.clone().unwrap_or_else(uplink)),
            to_link,
        };
        let first = self.from.clone().map(|link| Packet { at: At::Ingress { link }, from_link: None, to_link: None, ..packet.clone() });
        first.into_iter().chain([packet]).collect()
    }
}

fn ports(old: &Ruleset, new: &Ruleset) -> Vec<(u8, Option<u16>)> {
    let mut found = BTreeSet::from([OTHER, (1, None), (17, Some(9))]);
    for rule in [old, new].iter().flat_map(|it| it.chains.values()).flat_map(|it| &it.rules) {
        if let [Match::Protocol(protocols), Match::Port { first, last }] = rule.matches.as_slice() {
            found.extend(protocols.iter().flat_map(|it| [(*it, Some(*first)), (*it, Some(*last)), (*it, last.checked_add(1))]));
        }
    }
    found.retain(|(protocol, port)| (*protocol == 1) == port.is_none());
    found.into_iter().collect()
}
