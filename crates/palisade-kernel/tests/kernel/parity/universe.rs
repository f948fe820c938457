//! A few objects of every kind, and every change of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use palisade_nft::{
    Address, AddressSet, Chain, Change, CtState, DataMap, End, Hook, IntervalMap, Layout, LinkName, Map, MapKind, Match, PairSet, Rule,
    Ruleset, SourceSet, Statement, Table, Tuple, TupleKey, TupleMap, Value, Verdict, VerdictMap,
};

const KINDS: [MapKind; 15] = [
    MapKind::Data(Address::V4),
    MapKind::Data(Address::V6),
    MapKind::Interval(Address::V4),
    MapKind::Interval(Address::V6),
    MapKind::Numbers,
    MapKind::Pairs(Address::V4),
    MapKind::Pairs(Address::V6),
    MapKind::Sources(Address::V4),
    MapKind::Sources(Address::V6),
    MapKind::Addresses(Address::V4),
    MapKind::Addresses(Address::V6),
    MapKind::Tuples(Address::V4, TupleKey::Ports),
    MapKind::Tuples(Address::V6, TupleKey::Ports),
    MapKind::Tuples(Address::V4, TupleKey::Protocol),
    MapKind::Tuples(Address::V6, TupleKey::Protocol),
];

/// The kinds of maps that a table is tried with.
fn kinds(table: Table) -> Vec<MapKind> {
    let in_replies = |it: &MapKind| matches!(it, MapKind::Tuples(..) | MapKind::Numbers | MapKind::Sources(_));
    match table {
        Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods => KINDS.to_vec(),
        Table::Replies => KINDS.into_iter().filter(in_replies).collect(),
        Table::Frames => Vec::new(),
    }
}

/// The hooks that a table is tried with: one that sees packets of all links where it has such, and that at links where it has that.
fn hooks(table: Table) -> Vec<Hook> {
    let at = |count| match table {
        Table::Frames => Hook::Frames { devices: some_links(count, 0) },
        Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods | Table::Replies => {
            Hook::Ingress { devices: some_links(count, 0) }
        }
    };
    match table {
        Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods => {
            vec![Hook::Forward, Hook::Input, at(0), at(1), at(3)]
        }
        Table::Replies => vec![Hook::Forward, Hook::Output],
        Table::Frames => vec![at(0), at(1), at(3)],
    }
}

/// Of the chains of `full`, and one that is not there.
const CHAINS: [&str; 8] = ["base", "at-links", "at-another", "used", "target", "free", "filled", "absent"];

/// Links that are there, so many that chains have some, share one and lack one.
pub(super) const LINKS: [&str; 4] = ["one", "two", "three", "four"];

/// Addresses and ranges of one family. Some ranges touch, and others overlap in every way, but not with the one that goes to the last
/// address.
struct Addresses {
    some: [&'static str; 3],
    ranges: [(&'static str, &'static str); 10],
}

const FOUR: Addresses = Addresses {
    some: ["10.0.0.1", "10.0.0.2", "192.0.2.1"],
    ranges: [
        ("0.0.0.0", "9.255.255.255"),
        ("10.0.0.0", "10.0.0.255"),
        ("10.0.1.0", "10.0.1.0"),
        ("11.0.0.1", "255.255.255.255"),
        ("10.0.0.0", "10.0.0.15"),
        ("10.0.0.240", "10.0.0.255"),
        ("10.0.0.16", "10.0.0.31"),
        ("9.0.0.0", "10.0.0.7"),
        ("10.0.0.128", "10.0.1.7"),
        ("9.0.0.0", "11.0.0.0"),
    ],
};

const SIX: Addresses = Addresses {
    some: ["fd00::1", "fd00::2", "2001:db8::1"],
    ranges: [
        ("::", "fcff::"),
        ("fd00::", "fd00::ff"),
        ("fd00::100", "fd00::100"),
        ("fe00::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fd00::", "fd00::f"),
        ("fd00::f0", "fd00::ff"),
        ("fd00::10", "fd00::1f"),
        ("fc00::", "fd00::7"),
        ("fd00::80", "fd00::107"),
        ("fc00::", "fe00::"),
    ],
};

fn of(family: Address) -> &'static Addresses {
    match family {
        Address::V4 => &FOUR,
        Address::V6 => &SIX,
    }
}

fn address(it: &str) -> IpAddr {
    it.parse().unwrap()
}

/// One element of each key of a kind, each to the same.
fn elements(kind: MapKind, number: u32, chain: &str) -> Vec<Map> {
    match kind {
        MapKind::Data(family) => {
            of(family).some.iter().map(|it| Map::Data(DataMap { family, elements: [(address(it), number)].into() })).collect()
        }
        MapKind::Interval(family) => {
            let range = |(first, last): &(&str, &str)| {
                Map::Interval(IntervalMap { family, elements: [(address(first), (address(last), number))].into() })
            };
            of(family).ranges.iter().map(range).collect()
        }
        MapKind::Numbers => (1..=3).map(|it| Map::Verdict(VerdictMap { elements: [(it, chain.to_owned())].into() })).collect(),
        MapKind::Pairs(family) => {
            let pair = |it: &&str| Map::Pairs(PairSet { family, elements: [(address(it), address(of(family).some[0]))].into() });
            of(family).some.iter().map(pair).collect()
        }
        MapKind::Addresses(family) => {
            of(family).some.iter().map(|it| Map::Addresses(AddressSet { family, elements: [address(it)].into() })).collect()
        }
        MapKind::Sources(family) => {
            let source = |link: &str, it: &str| Map::Sources(SourceSet { family, elements: [(link.to_owned(), address(it))].into() });
            let [first, second, _] = of(family).some;
            vec![source("one", first), source("one", second), source("absent", first)]
        }
        MapKind::Tuples(family, key) => {
            let protocol = if key == TupleKey::Ports { 17 } else { 47 };
            let tuple = |it: &&str| {
                let (from, to) = (SocketAddr::new(address(it), 53), SocketAddr::new(address(of(family).some[0]), 4000));
                Map::Tuples(TupleMap { family, key, elements: [(Tuple::new(from, to, protocol), chain.to_owned())].into() })
            };
            of(family).some.iter().map(tuple).collect()
        }
    }
}

/// The name of a map of a kind.
fn name(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Data(Address::V4) => "data4",
        MapKind::Data(Address::V6) => "data6",
        MapKind::Interval(Address::V4) => "net4",
        MapKind::Interval(Address::V6) => "net6",
        MapKind::Numbers => "numbers",
        MapKind::Pairs(Address::V4) => "pairs4",
        MapKind::Pairs(Address::V6) => "pairs6",
        MapKind::Sources(Address::V4) => "sources4",
        MapKind::Sources(Address::V6) => "sources6",
        MapKind::Addresses(Address::V4) => "addresses4",
        MapKind::Addresses(Address::V6) => "addresses6",
        MapKind::Tuples(Address::V4, TupleKey::Ports) => "ports4",
        MapKind::Tuples(Address::V6, TupleKey::Ports) => "ports6",
        MapKind::Tuples(Address::V4, TupleKey::Protocol) => "protocols4",
        MapKind::Tuples(Address::V6, TupleKey::Protocol) => "protocols6",
    }
}

/// Rules that refer to nothing and to each chain.
fn rules(table: Table) -> Vec<Rule> {
    let frame = || Match::FrameTypeNotIn(vec![0x0800, 0x86dd, 0x0806]);
    let mut rules =
        vec![Rule::to(Verdict::Drop).when(frame()), Rule { statements: vec![Statement::Counter, Statement::Log(7)], ..Rule::default() }];
    let packets = vec![
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Established)),
        Rule { comment: Some("say \"no\"".to_owned()), ..Rule::to(Verdict::Drop).when(Match::Protocol(vec![58, 1])) },
        Rule::set(Value::Zero).when(Match::NeighbourDiscovery).when(Match::SourceIsLocal),
        Rule::to(Verdict::Drop).when(Match::Link { end: End::Source, name: LinkName::Whole("one".to_owned()) }),
        Rule::to(Verdict::Drop).when(Match::Link { end: End::Destination, name: LinkName::Beginning("on".to_owned()) }),
    ];
    let of_packets = table != Table::Frames;
    if of_packets {
        rules.extend(packets);
    }
    for chain in CHAINS {
        rules.push(Rule::to(Verdict::Goto(chain.to_owned())));
        let condition = if of_packets { Match::Protocol(vec![6, 17, 17]) } else { frame() };
        rules.push(Rule::to(Verdict::Jump(chain.to_owned())).when(condition));
    }
    rules
}

/// Rules that ask each map as each kind.
fn asking(table: Table) -> Vec<Rule> {
    if table == Table::Frames {
        return Vec::new();
    }
    let mut rules = Vec::new();
    for map in maps(table) {
        for family in Address::BOTH {
            rules.push(Rule::set(Value::From { end: End::Source, family, map: map.clone() }));
            rules.push(Rule::to(Verdict::Accept).when(Match::Pair { family, set: map.clone() }));
            rules.push(Rule::to(Verdict::Accept).when(Match::LinkAndSource { family, set: map.clone() }));
            rules.push(Rule::to(Verdict::Accept).when(Match::LinkAndDestination { family, set: map.clone() }));
            rules.push(Rule::to(Verdict::Accept).when(Match::In { end: End::Destination, family, set: map.clone() }));
            for key in [TupleKey::Ports, TupleKey::Protocol] {
                rules.push(look_tuple(family, key, &map));
            }
        }
        rules.push(look(&map));
    }
    rules
}

fn look(map: &str) -> Rule {
    Rule { statements: vec![Statement::Look(map.to_owned())], ..Rule::default() }
}

fn look_tuple(family: Address, key: TupleKey, map: &str) -> Rule {
    Rule { statements: vec![Statement::LookTuple { family, key, map: map.to_owned() }], ..Rule::default() }
}

/// Names of maps that rules ask, that none asks, and of none.
fn maps(table: Table) -> Vec<String> {
    if table == Table::Frames {
        return Vec::new();
    }
    kinds(table).iter().flat_map(|kind| [name(*kind).to_owned(), format!("idle-{}", name(*kind))]).chain(["absent".to_owned()]).collect()
}

/// Every change of every object of a table.
pub(super) fn changes(table: Table) -> Vec<Change> {
    let mut changes = vec![Change::AddTable(Layout::CURRENT), Change::AddTable(Layout::Unmarked), Change::DeleteTable, Change::FlushTable];
    for chain in CHAINS.map(str::to_owned) {
        for hook in hooks(table).into_iter().map(Some).chain([None]) {
            changes.push(Change::AddChain { name: chain.clone(), hook });
        }
        let devices = if table == Table::Replies { &[][..] } else { &[(0, 0), (1, 0), (1, 2), (1, 3), (2, 1), (2, 2)] };
        for (count, skipped) in devices.iter().copied() {
            let devices = || some_links(count, skipped);
            changes.push(Change::AddDevices { chain: chain.clone(), devices: devices() });
            changes.push(Change::DeleteDevices { chain: chain.clone(), devices: devices() });
        }
        changes.extend([Change::DeleteChain(chain.clone()), Change::FlushChain(chain.clone())]);
        let rules = if chain == "base" { [rules(table), asking(table)].concat() } else { rules(table) };
        changes.extend(rules.into_iter().map(|rule| Change::AppendRule { chain: chain.clone(), rule }));
    }
    for map in maps(table) {
        changes.push(Change::DeleteMap(map.clone()));
        for kind in kinds(table) {
            changes.push(Change::AddMap { name: map.clone(), kind, elements: 0 });
            let delete = |elements| Change::DeleteElements { map: map.clone(), elements };
            let add = |elements| Change::AddElements { map: map.clone(), elements };
            if map.ends_with(name(kind)) {
                changes.extend(elements(kind, 1, "target").into_iter().map(delete));
                changes.extend(values(kind).into_iter().map(add));
                changes.extend([together(kind, 3)].into_iter().flat_map(|it| [delete(it.clone()), add(it)]));
            } else if !confused(&map, kind) {
                changes.extend(elements(kind, 1, "target").into_iter().take(1).flat_map(|it| [delete(it.clone()), add(it)]));
            }
        }
    }
    changes
}

fn some_links(count: usize, skipped: usize) -> BTreeSet<String> {
    LINKS.into_iter().skip(skipped).take(count).map(str::to_owned).collect()
}

/// Each key of a kind with what it may be mapped to.
fn values(kind: MapKind) -> Vec<Map> {
    match kind {
        MapKind::Data(_) | MapKind::Interval(_) => (1..=2).flat_map(|it| elements(kind, it, "")).collect(),
        MapKind::Sources(_) | MapKind::Pairs(_) | MapKind::Addresses(_) => elements(kind, 0, ""),
        MapKind::Numbers | MapKind::Tuples(..) => CHAINS.iter().flat_map(|it| elements(kind, 0, it)).collect(),
    }
}

/// The first elements of a kind at once.
fn together(kind: MapKind, count: usize) -> Map {
    let mut ruleset = Ruleset::default();
    elements(kind, 3, "free").into_iter().take(count).for_each(|it| fill(&mut ruleset, "all", it));
    let data = ruleset.data.remove("all").map(Map::Data);
    let interval = ruleset.intervals.remove("all").map(Map::Interval);
    let verdicts = ruleset.verdicts.remove("all").map(Map::Verdict);
    let sources = ruleset.sets.remove("all").map(Map::Sources);
    let addresses = ruleset.addresses.remove("all").map(Map::Addresses);
    let tuples = ruleset.tuples.remove("all").map(Map::Tuples);
    data.or(interval).or(verdicts).or(sources).or(addresses).or(tuples).or(ruleset.pairs.remove("all").map(Map::Pairs)).unwrap()
}

/// An address and the start of a range look alike, and so do a pair of addresses and a link with an address of sixteen bytes: the kernel
/// takes one for the other without a word.
fn confused(map: &str, kind: MapKind) -> bool {
    let alike = |it: MapKind| match it {
        MapKind::Data(family) | MapKind::Interval(family) | MapKind::Addresses(family) => Some(MapKind::Data(family)),
        MapKind::Sources(Address::V6) | MapKind::Pairs(Address::V6) => Some(MapKind::Pairs(Address::V6)),
        MapKind::Numbers | MapKind::Pairs(Address::V4) | MapKind::Sources(Address::V4) | MapKind::Tuples(..) => None,
    };
    let other = KINDS.into_iter().find(|it| map.ends_with(name(*it)));
    other.is_some_and(|it| it != kind && alike(it).is_some() && alike(it) == alike(kind))
}

/// A table in which every kind of object is in use and out of use.
pub(super) fn full(table: Table) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut base = vec![Rule::to(Verdict::Goto("used".to_owned())), Rule::to(Verdict::Jump("filled".to_owned()))];
    for kind in kinds(table) {
        base.push(match kind {
            MapKind::Data(family) | MapKind::Interval(family) => {
                Rule::set(Value::From { end: End::Destination, family, map: name(kind).to_owned() })
            }
            MapKind::Numbers => look(name(kind)),
            MapKind::Sources(family) => {
                let condition = Match::LinkAndSource { family, set: name(kind).to_owned() };
                Rule::to(Verdict::Accept).when(condition)
            }
            MapKind::Pairs(family) => Rule::to(Verdict::Accept).when(Match::Pair { family, set: name(kind).to_owned() }),
            MapKind::Addresses(family) => {
                Rule::to(Verdict::Accept).when(Match::In { end: End::Source, family, set: name(kind).to_owned() })
            }
            MapKind::Tuples(family, key) => look_tuple(family, key, name(kind)),
        });
        for name in [name(kind).to_owned(), format!("idle-{}", name(kind))] {
            let elements = elements(kind, 1, "target").into_iter();
            match kind {
                MapKind::Data(_) => elements.take(2).for_each(|it| fill(&mut ruleset, &name, it)),
                MapKind::Interval(_) => elements.skip(1).take(1).for_each(|it| fill(&mut ruleset, &name, it)),
                MapKind::Numbers | MapKind::Pairs(_) | MapKind::Sources(_) | MapKind::Addresses(_) | MapKind::Tuples(..) => {
                    elements.take(2).for_each(|it| fill(&mut ruleset, &name, it))
                }
            }
        }
    }
    let drop = Rule::to(Verdict::Drop);
    let at = |count, skipped| match table {
        Table::Replies => Hook::Output,
        Table::Frames => Hook::Frames { devices: some_links(count, skipped) },
        Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods => {
            Hook::Ingress { devices: some_links(count, skipped) }
        }
    };
    let first = if table == Table::Frames { at(1, 2) } else { Hook::Forward };
    let chains = [
        ("base", Some(first), base),
        ("at-links", Some(at(2, 0)), vec![drop.clone()]),
        ("at-another", Some(at(1, 1)), vec![]),
        ("used", None, vec![]),
        ("target", None, vec![drop.clone()]),
        ("free", None, vec![]),
        ("filled", None, vec![drop.clone(), drop]),
    ];
    ruleset.chains = chains.into_iter().map(|(name, hook, rules)| (name.to_owned(), Chain { hook, rules })).collect();
    ruleset
}

/// Puts elements into a map that need not be there yet.
fn fill(ruleset: &mut Ruleset, name: &str, elements: Map) {
    let name = name.to_owned();
    match elements {
        Map::Data(map) => {
            let to = ruleset.data.entry(name).or_insert_with(|| DataMap { family: map.family, elements: [].into() });
            to.elements.extend(map.elements.iter().map(|(address, number)| (*address, *number)));
        }
        Map::Interval(map) => {
            let to = ruleset.intervals.entry(name).or_insert_with(|| IntervalMap { family: map.family, elements: [].into() });
            to.elements.extend(map.elements.iter().map(|(address, number)| (*address, *number)));
        }
        Map::Sources(set) => {
            let to = ruleset.sets.entry(name).or_insert_with(|| SourceSet { family: set.family, elements: [].into() });
            to.elements.extend(set.elements);
        }
        Map::Pairs(set) => {
            let to = ruleset.pairs.entry(name).or_insert_with(|| PairSet { family: set.family, elements: [].into() });
            to.elements.extend(set.elements);
        }
        Map::Addresses(set) => {
            let to = ruleset.addresses.entry(name).or_insert_with(|| AddressSet { family: set.family, elements: [].into() });
            to.elements.extend(set.elements);
        }
        Map::Tuples(map) => {
            let empty = || TupleMap { family: map.family, key: map.key, elements: [].into() };
            ruleset.tuples.entry(name).or_insert_with(empty).elements.extend(map.elements);
        }
        Map::Verdict(map) => ruleset.verdicts.entry(name).or_default().elements.extend(map.elements),
    }
}
