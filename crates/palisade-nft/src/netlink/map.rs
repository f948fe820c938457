//! Maps: how the kernel and nft are told what they hold, and their elements, both ways.
//!
//! An interval map holds the start of each range with its number and, after the end, an element that says so. A range up to the last
//! address has none. That is nft's way, and nft reads no other. nft also ends what comes before the first range; that says nothing, is
//! not written and may be read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_netlink::{Attributes, Odd, Writer};

use crate::netlink::expression::{LookupResult, read_verdict, write_verdict};
use crate::netlink::tuple;
use crate::netlink::uapi::{data, element, kind, meta, set};
use crate::ruleset::{Address, AddressSet, DataMap, IntervalMap, PairSet, SourceSet, TupleKey, Verdict, VerdictMap};
use crate::transaction::map::{Map, MapKind};

/// What a map is from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Data(Address),
    Interval(Address),
    Numbers,
    /// A set of links with a source address each.
    Sources(Address),
    /// A set of pairs of addresses.
    Pairs(Address),
    /// A set of addresses.
    Addresses(Address),
    /// Packets to chains.
    Tuples(Address, TupleKey),
    /// The set of a rule that names several protocols.
    Protocols,
}

/// One element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Element {
    pub(crate) key: Vec<u8>,
    pub(crate) role: Role,
}

/// What an element says about its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Number(u32),
    /// The start of a range that has no end.
    OpenNumber(u32),
    /// The range before it is over.
    End,
    Goto(String),
    /// A member of a set.
    Member,
}

/// Key byte order, data byte order, what the key is made of and whether the data are intervals, in what nft keeps with a set.
const UDATA_KEY_ORDER: u8 = 0;
const UDATA_DATA_ORDER: u8 = 1;
const UDATA_KEY_EXPRESSION: u8 = 3;
const UDATA_DATA_INTERVAL: u8 = 6;
const NO_ORDER: u32 = 0;
const HOST_ORDER: u32 = 1;
const NETWORK_ORDER: u32 = 2;
/// nft's numbers for a concatenation and for `meta`.
const EXPRESSION_CONCAT: u32 = 13;
const EXPRESSION_META: u32 = 9;
/// Bytes of the name of a link, with at least one zero at the end.
pub(crate) const LINK: usize = 16;
/// Elements that any map has room for.
const ROOM: u32 = 256;
/// What nft keeps with the start of a range that has no end.
const OPEN: (u8, u32) = (1, 1);

impl Shape {
    const ALL: [Shape; 16] = [
        Shape::Data(Address::V4),
        Shape::Data(Address::V6),
        Shape::Interval(Address::V4),
        Shape::Interval(Address::V6),
        Shape::Numbers,
        Shape::Pairs(Address::V4),
        Shape::Pairs(Address::V6),
        Shape::Sources(Address::V4),
        Shape::Sources(Address::V6),
        Shape::Addresses(Address::V4),
        Shape::Addresses(Address::V6),
        Shape::Tuples(Address::V4, TupleKey::Ports),
        Shape::Tuples(Address::V6, TupleKey::Ports),
        Shape::Tuples(Address::V4, TupleKey::Protocol),
        Shape::Tuples(Address::V6, TupleKey::Protocol),
        Shape::Protocols,
    ];

    pub(crate) fn of(kind: MapKind) -> Shape {
        match kind {
            MapKind::Data(family) => Shape::Data(family),
            MapKind::Interval(family) => Shape::Interval(family),
            MapKind::Numbers => Shape::Numbers,
            MapKind::Pairs(family) => Shape::Pairs(family),
            MapKind::Sources(family) => Shape::Sources(family),
            MapKind::Addresses(family) => Shape::Addresses(family),
            MapKind::Tuples(family, key) => Shape::Tuples(family, key),
        }
    }

    /// What a lookup gives.
    pub(crate) fn result(self) -> LookupResult {
        match self {
            Shape::Data(_) | Shape::Interval(_) => LookupResult::Value,
            Shape::Numbers | Shape::Tuples(..) => LookupResult::Verdict,
            Shape::Sources(_) | Shape::Pairs(_) | Shape::Addresses(_) | Shape::Protocols => LookupResult::Found,
        }
    }

    fn flags(self) -> u32 {
        match self {
            Shape::Data(_) | Shape::Numbers | Shape::Tuples(..) => set::MAP,
            Shape::Interval(_) => set::MAP | set::INTERVAL,
            Shape::Sources(_) | Shape::Pairs(_) | Shape::Addresses(_) => 0,
            Shape::Protocols => set::ANONYMOUS | set::CONSTANT,
        }
    }

    /// Type and length.
    pub(crate) fn key(self) -> (u32, u32) {
        match self {
            Shape::Data(Address::V4) | Shape::Interval(Address::V4) | Shape::Addresses(Address::V4) => (kind::IPV4, 4),
            Shape::Data(Address::V6) | Shape::Interval(Address::V6) | Shape::Addresses(Address::V6) => (kind::IPV6, 16),
            Shape::Numbers => (kind::CLASS, 4),
            Shape::Pairs(Address::V4) => (kind::pair(kind::IPV4), 8),
            Shape::Pairs(Address::V6) => (kind::pair(kind::IPV6), 32),
            Shape::Sources(Address::V4) => (kind::with_link(kind::IPV4), 20),
            Shape::Sources(Address::V6) => (kind::with_link(kind::IPV6), 32),
            Shape::Tuples(Address::V4, TupleKey::Ports) => (kind::ports_of(kind::IPV4), 20),
            Shape::Tuples(Address::V6, TupleKey::Ports) => (kind::ports_of(kind::IPV6), 44),
            Shape::Tuples(Address::V4, TupleKey::Protocol) => (kind::protocol_of(kind::IPV4), 12),
            Shape::Tuples(Address::V6, TupleKey::Protocol) => (kind::protocol_of(kind::IPV6), 36),
            Shape::Protocols => (kind::PROTOCOL, 1),
        }
    }

    /// Type and length.
    fn data(self) -> Option<(u32, u32)> {
        match self {
            Shape::Data(_) | Shape::Interval(_) => Some((kind::CLASS, 4)),
            Shape::Numbers | Shape::Tuples(..) => Some((kind::VERDICT, 0)),
            Shape::Sources(_) | Shape::Pairs(_) | Shape::Addresses(_) | Shape::Protocols => None,
        }
    }

    fn userdata(self) -> Vec<u8> {
        let number = |kind: u8, it: u32| udata(kind, &it.to_ne_bytes());
        let map = |key, data| [number(UDATA_KEY_ORDER, key), number(UDATA_DATA_ORDER, data), number(UDATA_DATA_INTERVAL, 0)].concat();
        match self {
            Shape::Data(_) | Shape::Interval(_) => map(NETWORK_ORDER, HOST_ORDER),
            Shape::Numbers => map(HOST_ORDER, NO_ORDER),
            Shape::Sources(_) | Shape::Pairs(_) => {
                let key = [number(0, EXPRESSION_CONCAT), udata(1, &[])].concat();
                [number(UDATA_KEY_ORDER, NO_ORDER), udata(UDATA_KEY_EXPRESSION, &key)].concat()
            }
            Shape::Addresses(_) => number(UDATA_KEY_ORDER, NETWORK_ORDER),
            // nft prints such a map without any, and older agents have written none.
            Shape::Tuples(..) => Vec::new(),
            Shape::Protocols => {
                let key = [number(0, EXPRESSION_META), udata(1, &number(0, meta::PROTOCOL))].concat();
                [number(UDATA_KEY_ORDER, HOST_ORDER), udata(UDATA_KEY_EXPRESSION, &key)].concat()
            }
        }
    }

    /// Writes what comes after the name of a set.
    pub(crate) fn write(self, writer: &mut Writer, id: u32, size: Option<u32>) {
        writer.u32(set::FLAGS, self.flags());
        let (key, length) = self.key();
        writer.u32(set::KEY_TYPE, key);
        writer.u32(set::KEY_LENGTH, length);
        if let Some((data, length)) = self.data() {
            writer.u32(set::DATA_TYPE, data);
            writer.u32(set::DATA_LENGTH, length);
        }
        writer.u32(set::ID, id);
        if let Some(size) = size {
            writer.nest(set::DESCRIPTION, |writer| writer.u32(set::DESCRIPTION_SIZE, size));
        }
        let userdata = self.userdata();
        if !userdata.is_empty() {
            writer.bytes(set::USERDATA, &userdata);
        }
    }

    /// Which of ours a set is.
    pub(crate) fn read(from: &Attributes<'_>) -> Result<Shape, Odd> {
        // The kernel does not write a zero.
        let flags = if from.find(set::FLAGS).is_some() { from.u32(set::FLAGS)? } else { 0 };
        let key = (from.u32(set::KEY_TYPE)?, from.u32(set::KEY_LENGTH)?);
        let data = from.find(set::DATA_TYPE).is_some().then(|| from.u32(set::DATA_TYPE)).transpose()?;
        let ours = |it: &Shape| it.flags() == flags && it.key() == key && it.data().map(|(kind, _)| kind) == data;
        let shape = Shape::ALL.into_iter().find(ours).ok_or_else(|| Odd(format!("flags {flags:#x}, key {key:?}, data {data:?}")))?;
        match (shape, Shape::read_size(from)?) {
            (Shape::Interval(_) | Shape::Tuples(..), Some(size)) => Err(Odd(format!("room for {size} elements only"))),
            (Shape::Interval(_) | Shape::Tuples(..), None) | (Shape::Protocols, _) => Ok(shape),
            (_, Some(size)) if size >= ROOM && size.is_power_of_two() => Ok(shape),
            (_, Some(size)) => Err(Odd(format!("room for {size} elements"))),
            (_, None) => Err(Odd::new("room for any number of elements")),
        }
    }

    fn read_size(from: &Attributes<'_>) -> Result<Option<u32>, Odd> {
        if from.find(set::DESCRIPTION).is_none() {
            return Ok(None);
        }
        let description = from.nest(set::DESCRIPTION)?;
        description.find(set::DESCRIPTION_SIZE).is_some().then(|| description.u32(set::DESCRIPTION_SIZE)).transpose()
    }

    /// How many elements a map has room for that gets some at first: a quarter more at least. A map that says so loads in half the time, since the
    /// kernel makes its hash table once. It takes no more than that: who finds it full makes all of the table anew.
    pub(crate) fn room(self, elements: usize) -> Option<u32> {
        match self {
            // Trees.
            Shape::Interval(_) => None,
            // It gets its elements one by one.
            Shape::Tuples(..) => None,
            // Never gets another.
            Shape::Protocols => u32::try_from(elements).ok(),
            Shape::Data(_) | Shape::Numbers | Shape::Sources(_) | Shape::Pairs(_) | Shape::Addresses(_) => {
                u32::try_from(elements.saturating_add(elements / 4)).ok()?.max(ROOM).checked_next_power_of_two()
            }
        }
    }
}

/// A piece of what nft keeps with an object: kind, length, bytes.
fn udata(kind: u8, bytes: &[u8]) -> Vec<u8> {
    // What is written by this is never longer than a few words.
    let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    [&[kind, length], bytes].concat()
}

/// The elements of any map.
pub(crate) fn of_map(map: &Map) -> Result<Vec<Element>, Odd> {
    match map {
        Map::Data(map) => of_data(map),
        Map::Interval(map) => of_intervals(map),
        Map::Verdict(map) => Ok(of_verdicts(map)),
        Map::Sources(set) => of_sources(set),
        Map::Pairs(set) => of_pairs(set),
        Map::Addresses(set) => of_addresses(set),
        Map::Tuples(map) => tuple::of_tuples(map),
    }
}

/// An error if an address is not of the family of its map.
pub(crate) fn check_family(map: &DataMap) -> Result<(), Odd> {
    map.elements.keys().try_for_each(|it| if Address::of(*it) == map.family { Ok(()) } else { Err(of_other_family(*it)) })
}

/// The elements of a data map.
fn of_data(map: &DataMap) -> Result<Vec<Element>, Odd> {
    map.elements.iter().map(|(it, number)| Ok(Element { key: key(*it, map.family)?, role: Role::Number(*number) })).collect()
}

/// The elements of an interval map.
fn of_intervals(map: &IntervalMap) -> Result<Vec<Element>, Odd> {
    let mut elements = Vec::with_capacity(map.elements.len() * 2);
    for (first, (last, number)) in &map.elements {
        if last < first {
            return Err(Odd(format!("the range {first}-{last} ends before it starts")));
        }
        let start = key(*first, map.family)?;
        key(*last, map.family)?;
        match next(*last) {
            Some(after) => {
                elements.push(Element { key: start, role: Role::Number(*number) });
                elements.push(Element { key: key(after, map.family)?, role: Role::End });
            }
            None => elements.push(Element { key: start, role: Role::OpenNumber(*number) }),
        }
    }
    Ok(elements)
}

/// The elements of a verdict map.
fn of_verdicts(map: &VerdictMap) -> Vec<Element> {
    map.elements.iter().map(|(it, chain)| Element { key: it.to_ne_bytes().to_vec(), role: Role::Goto(chain.clone()) }).collect()
}

/// The elements of a set of links and sources.
fn of_sources(set: &SourceSet) -> Result<Vec<Element>, Odd> {
    let each = set.elements.iter().map(|(name, address)| {
        let key = [link(name)?.to_vec(), key(*address, set.family)?].concat();
        Ok(Element { key, role: Role::Member })
    });
    each.collect()
}

/// The elements of a set of pairs.
fn of_pairs(set: &PairSet) -> Result<Vec<Element>, Odd> {
    let each = set.elements.iter().map(|(source, destination)| {
        let key = [key(*source, set.family)?, key(*destination, set.family)?].concat();
        Ok(Element { key, role: Role::Member })
    });
    each.collect()
}

/// The elements of a set of addresses.
fn of_addresses(set: &AddressSet) -> Result<Vec<Element>, Odd> {
    set.elements.iter().map(|it| Ok(Element { key: key(*it, set.family)?, role: Role::Member })).collect()
}

/// The elements of a set of protocols, each once.
pub(crate) fn of_protocols(protocols: &[u8]) -> Vec<Element> {
    let each: BTreeSet<u8> = protocols.iter().copied().collect();
    each.into_iter().map(|it| Element { key: vec![it], role: Role::Member }).collect()
}

pub(crate) fn to_data(family: Address, elements: &[Element]) -> Result<DataMap, Odd> {
    let each = elements.iter().map(|it| match it.role {
        Role::Number(number) => Ok((address(&it.key, family)?, number)),
        Role::OpenNumber(_) | Role::End | Role::Goto(_) | Role::Member => Err(Odd::new("an element without a number")),
    });
    Ok(DataMap { family, elements: each.collect::<Result<_, Odd>>()? })
}

pub(crate) fn to_intervals(family: Address, elements: &[Element]) -> Result<IntervalMap, Odd> {
    let at = |it: &Element| address(&it.key, family);
    // Where one range ends and another starts, the end comes first.
    let mut sorted = elements.iter().map(|it| Ok((at(it)?, it.role != Role::End, it))).collect::<Result<Vec<_>, Odd>>()?;
    sorted.sort_by_key(|(address, starts, _)| (*address, *starts));
    let mut ranges = BTreeMap::new();
    let mut open: Option<(IpAddr, u32)> = None;
    for (address, _, it) in sorted {
        match (&it.role, open) {
            (Role::Number(number) | Role::OpenNumber(number), None) => open = Some((address, *number)),
            (Role::End, None) if address == first(family) => {}
            (Role::End, Some((start, number))) => {
                let last = previous(address).filter(|last| *last >= start).ok_or_else(|| Odd(format!("an empty range at {address}")))?;
                ranges.insert(start, (last, number));
                open = None;
            }
            (Role::Number(_) | Role::OpenNumber(_) | Role::End | Role::Goto(_) | Role::Member, _) => {
                return Err(Odd(format!("ranges that make no sense at {address}")));
            }
        }
    }
    ranges.extend(open.map(|(start, number)| (start, (last(family), number))));
    Ok(IntervalMap { family, elements: ranges })
}

pub(crate) fn to_numbers(elements: &[Element]) -> Result<VerdictMap, Odd> {
    let each = elements.iter().map(|it| {
        let number = it.key.as_slice().try_into().map_err(|_| Odd::new("a key that is no number"))?;
        Ok((u32::from_ne_bytes(number), goto(it)?))
    });
    Ok(VerdictMap { elements: each.collect::<Result<_, Odd>>()? })
}

pub(crate) fn to_sources(family: Address, elements: &[Element]) -> Result<SourceSet, Odd> {
    let each = elements.iter().map(|it| match (it.key.split_at_checked(LINK), &it.role) {
        (Some((link, source)), Role::Member) => {
            Ok((name(link).ok_or_else(|| Odd::new("a link whose name is no text"))?, address(source, family)?))
        }
        _ => Err(Odd::new("an element that is no link with an address")),
    });
    Ok(SourceSet { family, elements: each.collect::<Result<_, Odd>>()? })
}

pub(crate) fn to_pairs(family: Address, elements: &[Element]) -> Result<PairSet, Odd> {
    let each = elements.iter().map(|it| match (it.key.split_at_checked(it.key.len() / 2), &it.role) {
        (Some((source, destination)), Role::Member) => Ok((address(source, family)?, address(destination, family)?)),
        _ => Err(Odd::new("an element that is no pair of addresses")),
    });
    Ok(PairSet { family, elements: each.collect::<Result<_, Odd>>()? })
}

pub(crate) fn to_addresses(family: Address, elements: &[Element]) -> Result<AddressSet, Odd> {
    let each = elements.iter().map(|it| match it.role {
        Role::Member => address(&it.key, family),
        Role::Number(_) | Role::OpenNumber(_) | Role::End | Role::Goto(_) => Err(Odd::new("an element that is no address")),
    });
    Ok(AddressSet { family, elements: each.collect::<Result<_, Odd>>()? })
}

pub(crate) fn to_protocols(elements: &[Element]) -> Result<Vec<u8>, Odd> {
    let each = elements.iter().map(|it| match (it.key.as_slice(), &it.role) {
        ([only], Role::Member) => Ok(*only),
        _ => Err(Odd::new("a protocol that is no byte")),
    });
    Ok(each.collect::<Result<BTreeSet<u8>, Odd>>()?.into_iter().collect())
}

/// Writes one item of a list of elements.
pub(crate) fn write_element(writer: &mut Writer, it: &Element) {
    writer.nest(element::ITEM, |writer| {
        if it.role == Role::End {
            writer.u32(element::FLAGS, element::INTERVAL_END);
        }
        writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, &it.key));
        match &it.role {
            Role::Number(number) | Role::OpenNumber(number) => {
                writer.nest(element::DATA, |writer| writer.bytes(data::VALUE, &number.to_ne_bytes()));
            }
            Role::Goto(chain) => writer.nest(element::DATA, |writer| write_verdict(writer, &Verdict::Goto(chain.clone()))),
            Role::End | Role::Member => {}
        }
        if matches!(it.role, Role::OpenNumber(_)) {
            writer.bytes(element::USERDATA, &udata(OPEN.0, &OPEN.1.to_ne_bytes()));
        }
    });
}

/// Writes one item of a list of elements of a data map: what `write_element` writes, from where it stands.
pub(crate) fn write_number(writer: &mut Writer, (address, number): (&IpAddr, &u32)) {
    writer.nest(element::ITEM, |writer| {
        writer.nest(element::KEY, |writer| match address {
            IpAddr::V4(it) => writer.bytes(data::VALUE, &it.octets()),
            IpAddr::V6(it) => writer.bytes(data::VALUE, &it.octets()),
        });
        writer.nest(element::DATA, |writer| writer.bytes(data::VALUE, &number.to_ne_bytes()));
    });
}

/// Writes one item of a list of elements that are to be deleted.
pub(crate) fn write_key(writer: &mut Writer, it: &Element) {
    writer.nest(element::ITEM, |writer| {
        if it.role == Role::End {
            writer.u32(element::FLAGS, element::INTERVAL_END);
        }
        writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, &it.key));
    });
}

/// Reads one item of a list of elements.
pub(crate) fn read_element(item: &[u8]) -> Result<Element, Odd> {
    let from = Attributes::read(item)?;
    from.only(&[element::KEY, element::DATA, element::FLAGS, element::USERDATA])?;
    let key = from.nest(element::KEY)?.bytes(data::VALUE)?.to_vec();
    let flags = if from.find(element::FLAGS).is_some() { from.u32(element::FLAGS)? } else { 0 };
    let role = match (flags, from.find(element::DATA)) {
        (element::INTERVAL_END, None) => Role::End,
        (0, None) => Role::Member,
        (0, Some(bytes)) => held(&Attributes::read(bytes)?)?,
        _ => return Err(Odd(format!("an element with flags {flags:#x}"))),
    };
    Ok(Element { key, role })
}

fn held(from: &Attributes<'_>) -> Result<Role, Odd> {
    if from.find(data::VALUE).is_some() {
        let number = from.bytes(data::VALUE)?.try_into().map_err(|_| Odd::new("data that are no number"))?;
        return Ok(Role::Number(u32::from_ne_bytes(number)));
    }
    match read_verdict(from)? {
        Verdict::Goto(chain) => Ok(Role::Goto(chain)),
        other @ (Verdict::Accept | Verdict::Drop | Verdict::Return | Verdict::Jump(_)) => Err(Odd(format!("an element with {other:?}"))),
    }
}

pub(super) fn goto(it: &Element) -> Result<String, Odd> {
    match &it.role {
        Role::Goto(chain) => Ok(chain.clone()),
        Role::Number(_) | Role::OpenNumber(_) | Role::End | Role::Member => Err(Odd::new("an element without a chain")),
    }
}

pub(super) fn key(address: IpAddr, family: Address) -> Result<Vec<u8>, Odd> {
    match (address, family) {
        (IpAddr::V4(it), Address::V4) => Ok(it.octets().to_vec()),
        (IpAddr::V6(it), Address::V6) => Ok(it.octets().to_vec()),
        (IpAddr::V4(_) | IpAddr::V6(_), _) => Err(of_other_family(address)),
    }
}

fn of_other_family(address: IpAddr) -> Odd {
    Odd(format!("{address} is of the other family"))
}

pub(super) fn address(key: &[u8], family: Address) -> Result<IpAddr, Odd> {
    let odd = |_| Odd::new("a key that is no address");
    match family {
        Address::V4 => <[u8; 4]>::try_from(key).map(IpAddr::from).map_err(odd),
        Address::V6 => <[u8; 16]>::try_from(key).map(IpAddr::from).map_err(odd),
    }
}

/// The name of a link as a key has it.
pub(crate) fn link(name: &str) -> Result<[u8; LINK], Odd> {
    // nft takes a name that ends like this for all that begin so, and cannot print a quote.
    let unfit = name.is_empty() || name.ends_with('*') || name.contains(['\0', '"']);
    let mut field = [0; LINK];
    match field.get_mut(..name.len()) {
        Some(start) if name.len() < LINK && !unfit => start.copy_from_slice(name.as_bytes()),
        Some(_) | None => return Err(Odd(format!("no link can be named `{name}`"))),
    }
    Ok(field)
}

/// The name up to the zero byte after it.
pub(crate) fn name(field: &[u8]) -> Option<String> {
    let name = field.split(|it| *it == 0).next()?;
    std::str::from_utf8(name).ok().filter(|it| !it.is_empty()).map(str::to_owned)
}

fn first(family: Address) -> IpAddr {
    match family {
        Address::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Address::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn last(family: Address) -> IpAddr {
    match family {
        Address::V4 => Ipv4Addr::BROADCAST.into(),
        Address::V6 => Ipv6Addr::from_bits(u128::MAX).into(),
    }
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => it.to_bits().checked_add(1).map(|it| Ipv4Addr::from_bits(it).into()),
        IpAddr::V6(it) => it.to_bits().checked_add(1).map(|it| Ipv6Addr::from_bits(it).into()),
    }
}

fn previous(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(it) => it.to_bits().checked_sub(1).map(|it| Ipv4Addr::from_bits(it).into()),
        IpAddr::V6(it) => it.to_bits().checked_sub(1).map(|it| Ipv6Addr::from_bits(it).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_like_any_other_element() {
        for (family, address) in [(Address::V4, "10.0.0.1"), (Address::V6, "fd00::1")] {
            let map = DataMap { family, elements: [(address.parse().unwrap(), 0x0102_0304)].into() };
            let (mut one, mut other) = (Writer::default(), Writer::default());
            map.elements.iter().for_each(|it| write_number(&mut one, it));
            of_data(&map).unwrap().iter().for_each(|it| write_element(&mut other, it));
            assert_eq!(one.finish(), other.finish(), "{address}");
            assert_eq!(check_family(&map), Ok(()));
        }
    }

    #[test]
    fn an_address_of_the_other_family_is_refused() {
        let map = DataMap { family: Address::V6, elements: [("10.0.0.1".parse().unwrap(), 1)].into() };
        assert_eq!(check_family(&map), Err(Odd::new("10.0.0.1 is of the other family")));
        assert_eq!(of_data(&map).map(drop), check_family(&map));
    }

    #[test]
    fn links_and_sources_read_back() {
        for (family, address) in [(Address::V4, "10.0.0.1"), (Address::V6, "fd00::1")] {
            let links = ["a", "fifteen-letters", "eth0.100", "a*b"];
            let elements = links.map(|it| (it.to_owned(), address.parse().unwrap())).into();
            let set = SourceSet { family, elements };
            assert_eq!(to_sources(family, &of_sources(&set).unwrap()), Ok(set));
        }
    }

    #[test]
    fn what_is_no_link_with_an_address_is_refused() {
        for length in [0, 16, 19, 32] {
            let element = Element { key: vec![b'a'; length], role: Role::Member };
            assert!(to_sources(Address::V4, &[element]).is_err(), "{length}");
        }
        let nameless = Element { key: vec![0; 20], role: Role::Member };
        assert_eq!(to_sources(Address::V4, &[nameless]), Err(Odd::new("a link whose name is no text")));
    }
}
