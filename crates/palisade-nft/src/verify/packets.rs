//! Packets that two tables may treat differently: one for each two ends that either tells apart, and for each port where a rule begins or ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::examine::{Examined, Force, Policy, StrangeRule};
use crate::ruleset::{Address, CtState, Hook, Match, Rule, Ruleset, Tuple, TupleKey};
use crate::trace::{At, Packet, Reads, Way, meets, walk_to_end};
use crate::verify::Fared;

/// How many addresses of a range are tried to find one that nobody has.
const TRIES: usize = 4_096;
/// Somebody outside, where no link has an address to be mistaken for.
const STRANGERS_OF_LINKS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
/// Addresses that are for examples, and stand for the outside.
const OUTSIDE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7))];
/// TCP, UDP, SCTP, and GRE for all that has no ports.
const PROTOCOLS: [u8; 4] = [6, 17, 132, 47];
/// The numbers that a sender's TOS can put into a packet.
const FROM_SENDER: u32 = 16;

/// A table that packets can be walked through.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    pub(super) ruleset: &'a Ruleset,
    pub(super) strange: &'a BTreeMap<String, Vec<StrangeRule>>,
    examined: Option<&'a Examined>,
}

static NOTHING_STRANGE: BTreeMap<String, Vec<StrangeRule>> = BTreeMap::new();

/// What became of a packet, and what it met.
#[derive(Clone, Debug, Default)]
pub(super) struct Faring {
    pub(super) accepted: bool,
    pub(super) comments: Vec<String>,
    pub(super) met: Met,
}

/// What a packet met on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Met {
    pub(super) chains: Vec<String>,
    /// What was looked up, where.
    pub(super) lookups: Vec<(String, Key)>,
}

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Address(IpAddr),
    Number(u32),
    /// The source of a packet, with its link or its destination.
    Source,
    Tuple(Tuple),
}

/// Reads a table and remembers what was read.
struct Reader<'a, 'm> {
    table: &'a Table<'a>,
    met: &'m mut Met,
}

impl<'a> Reads<'a> for Reader<'a, '_> {
    fn rules(&mut self, chain: &str) -> Result<&'a [Rule], String> {
        self.met.chains.push(chain.to_owned());
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.rules(chain)
    }

    fn is_source(&mut self, set: &str, link: &str, source: IpAddr) -> Result<bool, String> {
        self.met.lookups.push((set.to_owned(), Key::Source));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.is_source(set, link, source)
    }

    fn is_member(&mut self, set: &str, address: IpAddr) -> Result<bool, String> {
        self.met.lookups.push((set.to_owned(), Key::Address(address)));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.is_member(set, address)
    }

    fn is_pair(&mut self, set: &str, pair: (IpAddr, IpAddr)) -> Result<bool, String> {
        self.met.lookups.push((set.to_owned(), Key::Source));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.is_pair(set, pair)
    }

    fn number(&mut self, map: &str, address: IpAddr) -> Result<Option<u32>, String> {
        self.met.lookups.push((map.to_owned(), Key::Address(address)));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.number(map, address)
    }

    fn target(&mut self, map: &str, number: u32) -> Result<Option<&'a str>, String> {
        self.met.lookups.push((map.to_owned(), Key::Number(number)));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.target(map, number)
    }

    fn tuple_target(&mut self, map: &str, tuple: &Tuple) -> Result<Option<&'a str>, String> {
        self.met.lookups.push((map.to_owned(), Key::Tuple(*tuple)));
        let mut ruleset: &'a Ruleset = self.table.ruleset;
        ruleset.tuple_target(map, tuple)
    }

    fn strange(&mut self, chain: &str) -> &'a [StrangeRule] {
        self.table.strange.get(chain).map_or(&[], Vec::as_slice)
    }
}

impl Faring {
    pub(super) fn fared(self) -> Fared {
        Fared { accepted: self.accepted, comments: self.comments }
    }
}

impl<'a> Table<'a> {
    /// As it should be.
    pub(super) fn wanted(ruleset: &'a Ruleset) -> Table<'a> {
        Table { ruleset, strange: &NOTHING_STRANGE, examined: None }
    }

    /// As the kernel has it.
    pub(super) fn of(examined: &'a Examined) -> Table<'a> {
        Table { ruleset: &examined.ruleset, strange: &examined.strange, examined: Some(examined) }
    }

    /// Walks a packet through every base chain that it comes to: it must pass all of them. Where there is none, it passes.
    pub(super) fn fare(&self, packet: &Packet) -> Result<Faring, String> {
        let mut faring = Faring { accepted: true, ..Faring::default() };
        if self.examined.is_some_and(|it| it.force == Force::Dormant) {
            return Ok(faring);
        }
        let stance = |name: &str| self.examined.and_then(|it| it.stances.get(name));
        let mut bases: Vec<&str> =
            self.ruleset.chains.iter().filter(|(_, chain)| meets(chain, &packet.at)).map(|(name, _)| name.as_str()).collect();
        bases.sort_by_key(|it| stance(it).map_or(0, |it| it.priority));
        for base in bases {
            let (traced, way) = walk_to_end(Reader { table: self, met: &mut faring.met }, packet, base)?;
            faring.comments.extend(traced.comments);
            let policy = stance(base).map_or(Policy::Accept, |it| it.policy);
            if way == Way::Dropped || (way == Way::Back && policy == Policy::Drop) {
                faring.accepted = false;
                break;
            }
        }
        Ok(faring)
    }
}

/// The ends that two tables tell apart, and what else can matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Universe {
    /// Of local pods.
    pub(super) local: Vec<IpAddr>,
    /// Of anybody.
    pub(super) anybody: Vec<IpAddr>,
    /// Links, each with the sources to try.
    pub(super) links: Vec<(String, Vec<IpAddr>)>,
    pub(super) priorities: Vec<u32>,
    /// The link of each address that a table binds to one.
    pub(super) link_of: BTreeMap<IpAddr, String>,
    /// Every packet that a map of either table names.
    pub(super) tuples: Vec<Tuple>,
    /// Types of frames that rules name, and one that none does.
    pub(super) frame_types: Vec<u16>,
    /// Whether the tables see what the node itself sends.
    pub(super) sent_by_node: bool,
}

/// Frames with one VLAN tag and with two.
const TAGGED: [u16; 2] = [0x8100, 0x88a8];

impl Universe {
    /// Those of some tables. `besides` are addresses that count whether a table tells them apart or not.
    pub(super) fn of(tables: [&Table<'_>; 2], besides: &BTreeSet<IpAddr>) -> Universe {
        let constants = tables.iter().flat_map(|it| it.strange.values().flatten()).flat_map(|it| it.rule.addresses());
        let besides: BTreeSet<IpAddr> = besides.iter().copied().chain(constants).collect();
        let mut seen: BTreeMap<Vec<Option<u32>>, IpAddr> = BTreeMap::new();
        let mut anybody: BTreeSet<IpAddr> = besides.clone();
        let mut points: Vec<IpAddr> = points(tables).into_iter().collect();
        points.sort_by_key(|it| !OUTSIDE.contains(it));
        let sets = tables.map(|it| members(it.ruleset)).concat();
        for address in points {
            let mut said = told_apart(tables, address);
            said.extend(sets.iter().map(|it| Some(u32::from(it.contains(&address)))));
            seen.entry(said).or_insert(address);
        }
        anybody.extend(seen.into_values());
        let has_programs = tables.iter().any(|it| !it.ruleset.data.is_empty());
        if !has_programs {
            anybody.extend(OUTSIDE);
        }
        // Without programs no pod is the table's own, and any two ends may meet in it.
        let is_own = |it: &IpAddr| !has_programs || tables.iter().any(|table| is_local(table.ruleset, *it));
        let local = anybody.iter().copied().filter(is_own).collect();
        // Those that have a name make the better example.
        let mut anybody: Vec<IpAddr> = anybody.into_iter().collect();
        let is_known = |it: &IpAddr| tables.iter().any(|table| table.ruleset.data.values().any(|map| map.elements.contains_key(it)));
        anybody.sort_by_key(|it| (!is_known(it), !OUTSIDE.contains(it)));
        let bound = tables.iter().flat_map(|it| it.ruleset.sets.values()).flat_map(|it| &it.elements);
        let link_of = bound.map(|(link, address)| (*address, link.clone())).collect();
        let tuples = tables.iter().flat_map(|it| it.ruleset.tuples.values()).flat_map(|it| it.elements.keys().copied());
        let tuples = tuples.collect::<BTreeSet<Tuple>>().into_iter().collect();
        let (frame_types, sent_by_node) = (frame_types(tables), hooks(tables).any(|it| *it == Hook::Output));
        Universe {
            local,
            anybody,
            links: links(tables, &besides),
            priorities: priorities(tables),
            link_of,
            tuples,
            frame_types,
            sent_by_node,
        }
    }
}

fn hooks<'a>(tables: [&Table<'a>; 2]) -> impl Iterator<Item = &'a Hook> {
    tables.into_iter().flat_map(|it| it.ruleset.chains.values()).filter_map(|it| it.hook.as_ref())
}

/// None if no chain sees frames.
fn frame_types(tables: [&Table<'_>; 2]) -> Vec<u16> {
    if !hooks(tables).any(|it| matches!(it, Hook::Frames { .. })) {
        return Vec::new();
    }
    let matches = tables.into_iter().flat_map(|it| it.ruleset.chains.values()).flat_map(|it| &it.rules).flat_map(|it| &it.matches);
    let named = matches.filter_map(|it| if let Match::FrameTypeNotIn(kinds) = it { Some(kinds) } else { None }).flatten().copied();
    let strange = tables.into_iter().flat_map(|it| it.strange.values().flatten()).flat_map(|it| it.rule.ports());
    named.chain(strange).chain(TAGGED).collect::<BTreeSet<u16>>().into_iter().collect()
}

/// The addresses of each set.
fn members(ruleset: &Ruleset) -> Vec<BTreeSet<IpAddr>> {
    let bound = ruleset.sets.values().map(|it| it.elements.iter().map(|(_, address)| *address).collect());
    bound.chain(ruleset.addresses.values().map(|it| it.elements.clone())).collect()
}

/// Addresses at which something may change.
fn points(tables: [&Table<'_>; 2]) -> BTreeSet<IpAddr> {
    let mut points: BTreeSet<IpAddr> = BTreeSet::new();
    for table in tables {
        points.extend(table.ruleset.data.values().flat_map(|it| it.elements.keys()));
        points.extend(members(table.ruleset).into_iter().flatten());
        points.extend(table.ruleset.pairs.values().flat_map(|it| it.elements.iter().flat_map(|(one, other)| [*one, *other])));
    }
    let known = points.clone();
    for table in tables {
        for (first, (last, _)) in table.ruleset.intervals.values().flat_map(|it| &it.elements) {
            let free = std::iter::successors(Some(*first), |it| after(*it)).take(TRIES).take_while(|it| it <= last);
            let plain = OUTSIDE.into_iter().filter(|it| (*first..=*last).contains(it));
            points.extend(plain.chain(free).find(|it| !known.contains(it)));
            points.insert(*last);
        }
    }
    points
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => it.to_bits().checked_add(1).map(|it| Ipv4Addr::from_bits(it).into()),
        IpAddr::V6(it) => it.to_bits().checked_add(1).map(|it| Ipv6Addr::from_bits(it).into()),
    }
}

/// What every map of either table says of an address.
fn told_apart(tables: [&Table<'_>; 2], address: IpAddr) -> Vec<Option<u32>> {
    let mut said = vec![Some(u32::from(Address::of(address) == Address::V6))];
    for table in tables {
        said.extend(table.ruleset.data.values().map(|it| it.elements.get(&address).copied()));
        let ranges = table.ruleset.intervals.values();
        said.extend(ranges.map(|it| {
            let below = it.elements.range(..=address).next_back();
            below.filter(|(_, (last, _))| address <= *last).map(|(_, (_, number))| *number)
        }));
        let itself = table.ruleset.pairs.values().any(|it| it.elements.contains(&(address, address)));
        said.push(Some(u32::from(itself)));
    }
    said
}

/// Whether a table has a program for an address.
fn is_local(ruleset: &Ruleset, address: IpAddr) -> bool {
    ruleset.data.iter().any(|(name, map)| !name.starts_with("class") && map.elements.contains_key(&address))
}

fn links(tables: [&Table<'_>; 2], besides: &BTreeSet<IpAddr>) -> Vec<(String, Vec<IpAddr>)> {
    let mut links: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for table in tables {
        for (link, address) in table.ruleset.sets.values().flat_map(|it| &it.elements) {
            links.entry(link.clone()).or_default().insert(*address);
        }
        for chain in table.ruleset.chains.values() {
            for link in chain.hook.iter().filter_map(Hook::devices).flatten() {
                links.entry(link.clone()).or_default();
            }
        }
    }
    for sources in links.values_mut() {
        sources.extend(STRANGERS_OF_LINKS);
        sources.extend(besides);
    }
    links.into_iter().map(|(link, sources)| (link, sources.into_iter().collect())).collect()
}

fn priorities(tables: [&Table<'_>; 2]) -> Vec<u32> {
    let keys = tables.iter().flat_map(|it| it.ruleset.verdicts.values()).flat_map(|it| it.elements.keys().copied());
    let chosen: BTreeSet<u32> = keys.filter(|it| *it < FROM_SENDER).chain([0]).collect();
    chosen.into_iter().collect()
}

/// Protocols and ports at which a rule of these chains begins or ends, and one of each that no rule speaks of.
pub(super) fn traffic(tables: [&Table<'_>; 2], chains: &BTreeSet<&str>, ipv4: bool) -> Vec<(u8, Option<u16>)> {
    let (mut ports, mut protocols) = (BTreeSet::from([0_u16, u16::MAX]), BTreeSet::from(PROTOCOLS));
    for table in tables {
        for name in chains {
            let strange = table.strange.get(*name).into_iter().flatten();
            ports.extend(strange.flat_map(|it| it.rule.ports()).flat_map(|it| [Some(it), it.checked_add(1)]).flatten());
            for condition in table.ruleset.chains.get(*name).into_iter().flat_map(|it| &it.rules).flat_map(|it| &it.matches) {
                if let Match::Port { first, last } = condition {
                    ports.insert(*first);
                    ports.extend(last.checked_add(1));
                }
                if let Match::Protocol(of) = condition {
                    protocols.extend(of);
                }
            }
        }
    }
    let mut traffic = vec![(if ipv4 { 1 } else { 58 }, None)];
    for protocol in protocols {
        match protocol {
            6 | 17 | 132 => traffic.extend(ports.iter().map(|port| (protocol, Some(*port)))),
            _ => traffic.push((protocol, None)),
        }
    }
    traffic
}

/// The first packet of a connection that no protocol is known of yet.
pub(super) fn packet(at: At, source: IpAddr, destination: IpAddr) -> Packet {
    let protocol = if source.is_ipv4() { 1 } else { 58 };
    let (state, priority, source_is_local, from_link, to_link) = (CtState::New, 0, false, None, None);
    Packet { at, source, destination, protocol, port: None, source_port: None, state, priority, source_is_local, from_link, to_link }
}

/// The packet that a map of packets names.
pub(super) fn of_tuple(at: At, tuple: &Tuple) -> Packet {
    let port = |it: u16| (tuple.key() == TupleKey::Ports).then_some(it);
    let (from, to) = (tuple.from(), tuple.to());
    let (port, source_port) = (port(to.port()), port(from.port()));
    // It is part of a connection that the kernel knows.
    Packet { protocol: tuple.protocol(), port, source_port, state: CtState::Established, ..packet(at, from.ip(), to.ip()) }
}
