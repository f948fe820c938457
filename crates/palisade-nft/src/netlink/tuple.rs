//! Elements of maps from packets to chains, both ways.

use std::net::SocketAddr;

use palisade_netlink::{Odd, field};

use crate::netlink::map::{Element, Role, address, goto, key};
use crate::ruleset::{Address, Tuple, TupleKey, TupleMap};

/// The elements of a map of packets.
pub(super) fn of_tuples(map: &TupleMap) -> Result<Vec<Element>, Odd> {
    let each =
        map.elements.iter().map(|(it, chain)| Ok(Element { key: tuple_key(it, map.family, map.key)?, role: Role::Goto(chain.clone()) }));
    each.collect()
}

/// Addresses, protocol and ports, each filled up to whole words of four bytes.
fn tuple_key(tuple: &Tuple, family: Address, of: TupleKey) -> Result<Vec<u8>, Odd> {
    if tuple.key() != of {
        return Err(Odd(format!("{tuple} does not belong into this map")));
    }
    let (from, to) = (tuple.from(), tuple.to());
    let mut bytes = [key(from.ip(), family)?, key(to.ip(), family)?, vec![tuple.protocol(), 0, 0, 0]].concat();
    if of == TupleKey::Ports {
        for port in [from.port(), to.port()] {
            bytes.extend(port.to_be_bytes());
            bytes.extend([0, 0]);
        }
    }
    Ok(bytes)
}

pub(crate) fn to_tuples(family: Address, of: TupleKey, elements: &[Element]) -> Result<TupleMap, Odd> {
    let each = elements.iter().map(|it| Ok((read_tuple(&it.key, family, of)?, goto(it)?)));
    Ok(TupleMap { family, key: of, elements: each.collect::<Result<_, Odd>>()? })
}

/// What `tuple_key` was made of.
fn read_tuple(bytes: &[u8], family: Address, of: TupleKey) -> Result<Tuple, Odd> {
    let odd = || Odd::new("a key that names no packet");
    let length = match family {
        Address::V4 => 4,
        Address::V6 => 16,
    };
    let end = |at: usize| address(bytes.get(at..at + length).ok_or_else(odd)?, family);
    let port = |at: usize| match of {
        TupleKey::Ports => field::<2>(bytes, at).map(u16::from_be_bytes).ok_or_else(odd),
        TupleKey::Protocol => Ok(0),
    };
    let after = 2 * length;
    let (from, to) = (SocketAddr::new(end(0)?, port(after + 4)?), SocketAddr::new(end(length)?, port(after + 8)?));
    let tuple = Tuple::new(from, to, bytes.get(after).copied().ok_or_else(odd)?);
    // Anything else in the bytes that fill up a word would never be met by a packet.
    if tuple_key(&tuple, family, of)? == bytes { Ok(tuple) } else { Err(odd()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_read_back() {
        let ends = [("10.0.0.1:53", "10.0.0.2:4000"), ("[fd00::1]:53", "[fd00::2]:4000")];
        for (family, (from, to)) in Address::BOTH.into_iter().zip(ends) {
            for (key, protocol) in [(TupleKey::Ports, 17), (TupleKey::Protocol, 47)] {
                let tuple = Tuple::new(from.parse().unwrap(), to.parse().unwrap(), protocol);
                let map = TupleMap { family, key, elements: [(tuple, "c".to_owned())].into() };
                let elements = of_tuples(&map).unwrap();
                assert_eq!(to_tuples(family, key, &elements), Ok(map.clone()));
                // Bytes that fill up a word and are not zero, and a key of another length.
                for at in 0..elements[0].key.len() {
                    let mut other = elements.clone();
                    other[0].key[at] ^= 0x80;
                    let read = to_tuples(family, key, &other);
                    assert!(read.as_ref().is_err() || read.as_ref().is_ok_and(|it| it.elements != map.elements), "{at}: {read:?}");
                    other[0].key.truncate(at);
                    assert_eq!(to_tuples(family, key, &other), Err(Odd::new("a key that names no packet")), "{at}");
                }
                let wrong = if key == TupleKey::Ports { TupleKey::Protocol } else { TupleKey::Ports };
                assert!(of_tuples(&TupleMap { key: wrong, ..map.clone() }).is_err());
                let other = if family == Address::V4 { Address::V6 } else { Address::V4 };
                assert!(of_tuples(&TupleMap { family: other, ..map }).is_err());
            }
        }
    }
}
