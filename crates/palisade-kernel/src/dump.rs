//! The table as the kernel shows it, in one state of it.

use std::collections::BTreeMap;
use std::time::Duration;

use palisade_netlink::{Attributes, Odd};
use palisade_nft::uapi::{GENERATION_ID, INET, chain, element, flag, message, rule, set, table};
use palisade_nft::{Counted, Dump, Kept, Object, Ruleset, Table, decode, items, listed};

use crate::error::KernelError;
use crate::socket::Socket;

/// How often a table that changes meanwhile is read again.
const ATTEMPTS: usize = 10;

/// Reads the table in one state of it. None if there is no table.
pub(crate) fn dump(socket: &mut Socket, of: Table) -> Result<Option<Ruleset>, KernelError> {
    steady(socket, |socket| Ok(read(socket, of, Others::Refuse)?.map(|it| decode(&it)).transpose()?))
}

/// The same as the kernel tells it, whoever made what is in it.
pub(crate) fn raw(socket: &mut Socket, of: Table) -> Result<Option<Dump>, KernelError> {
    steady(socket, |socket| read(socket, of, Others::Read))
}

/// What is done with sets that are not of our making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Refuse,
    Read,
}

/// What the rules of the table have counted. Nothing if there is no table.
pub(crate) fn counters(socket: &mut Socket, of: Table) -> Result<Vec<Counted>, KernelError> {
    steady(socket, |socket| Ok(palisade_nft::counters(&list(socket, of, message::GET_RULE, rule::TABLE)?)?))
}

/// Reads something of which nothing changes meanwhile.
pub(crate) fn steady<T>(socket: &mut Socket, mut read: impl FnMut(&mut Socket) -> Result<T, KernelError>) -> Result<T, KernelError> {
    for _ in 0..ATTEMPTS {
        let before = generation(socket)?;
        let read = read(socket);
        // An error of a read that a change came between says nothing.
        if generation(socket)? == before && !matches!(read, Err(KernelError::Unsteady(_))) {
            return read;
        }
    }
    Err(KernelError::Unsteady(ATTEMPTS))
}

/// The number of the last transaction in this network namespace, by anyone.
pub(crate) fn generation(socket: &mut Socket) -> Result<u32, KernelError> {
    let payloads = socket.ask(INET, Object::Generation, message::GET_GENERATION, flag::ACK, |_| {})?;
    let number = |payload: &Vec<u8>| Attributes::of_payload(payload)?.u32(GENERATION_ID);
    let first = payloads.first().map(number).unwrap_or_else(|| Err(Odd::new("no generation")));
    first.map_err(|odd| KernelError::Truncated(odd.0))
}

/// What a table says about itself. None if there is no such table.
pub(crate) fn table(socket: &mut Socket, of: Table) -> Result<Option<Vec<u8>>, KernelError> {
    match socket.ask(of.family(), Object::Table, message::GET_TABLE, flag::ACK, |writer| writer.text(table::NAME, of.name())) {
        Ok(payloads) => Ok(payloads.into_iter().next()),
        Err(KernelError::Refused(refusals)) if refusals.iter().all(|it| it.errno == nix::errno::Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(socket: &mut Socket, of: Table, others: Others) -> Result<Option<Dump>, KernelError> {
    let Some(table) = self::table(socket, of)? else { return Ok(None) };
    let chains = list(socket, of, message::GET_CHAIN, chain::TABLE)?;
    let sets = list(socket, of, message::GET_SET, set::TABLE)?;
    let mut elements = BTreeMap::new();
    for set in &sets {
        let listed = match (listed(set), others) {
            (Ok(listed), _) => listed,
            // What makes it another's is not in its elements.
            (Err(_), Others::Read) => continue,
            (Err(foreign), Others::Refuse) => return Err(foreign.into()),
        };
        let payloads = match listed.kept {
            Kept::Tree => read_elements(socket, of, &listed.name)?,
            Kept::Hash => whole(listed.count, || read_elements(socket, of, &listed.name))?,
        };
        elements.insert(listed.name, payloads);
    }
    let rules = list(socket, of, message::GET_RULE, rule::TABLE)?;
    Ok(Some(Dump { table, chains, sets, elements, rules }))
}

/// Asks for everything of one kind in a table; `named` is the attribute that names the table.
fn list(socket: &mut Socket, of: Table, kind: u16, named: u16) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut payloads = socket.ask(of.family(), Object::Table, kind, flag::DUMP, |writer| writer.text(named, of.name()))?;
    // Some kinds are not filtered by the kernel, or not by every kernel.
    let mut odd = None;
    payloads.retain(|payload| match Attributes::of_payload(payload).and_then(|it| it.text(named).map(|it| it == of.name())) {
        Ok(ours) => ours,
        Err(error) => {
            odd = Some(error);
            false
        }
    });
    match odd {
        Some(odd) => Err(KernelError::Truncated(odd.0)),
        None => Ok(payloads),
    }
}

/// Reads a hash table until all of it was read.
///
/// After many elements were added the kernel goes on moving them to a larger table for a while, and a dump of that time may miss some or
/// give some twice without a word, whoever reads. Kernels that say how many elements there are (6.18 does)
/// are believed; with others, two readings must agree.
fn whole(count: Option<u32>, mut read: impl FnMut() -> Result<Vec<Vec<u8>>, KernelError>) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut before = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 1 {
            std::thread::sleep(Duration::from_millis(1 << attempt));
        }
        let payloads = read()?;
        let mut elements: Vec<Vec<u8>> = Vec::new();
        for payload in &payloads {
            elements.extend(items(payload).map_err(|odd| KernelError::Truncated(odd.0))?.into_iter().map(<[u8]>::to_vec));
        }
        elements.sort();
        elements.dedup();
        let complete = match count {
            Some(count) => usize::try_from(count) == Ok(elements.len()),
            None => before.as_ref() == Some(&elements),
        };
        if complete {
            return Ok(payloads);
        }
        before = Some(elements);
    }
    Err(KernelError::Unsteady(ATTEMPTS))
}

fn read_elements(socket: &mut Socket, of: Table, map: &str) -> Result<Vec<Vec<u8>>, KernelError> {
    socket.ask(of.family(), Object::Elements(map.to_owned()), message::GET_ELEMENTS, flag::DUMP, |writer| {
        writer.text(element::TABLE, of.name());
        writer.text(element::SET, map);
    })
}

#[cfg(test)]
mod tests {
    use palisade_netlink::Writer;

    use super::*;

    /// An answer with one element for each byte.
    fn answer(keys: &[u8]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.nest(element::LIST, |writer| keys.iter().for_each(|it| writer.bytes(element::ITEM, &[*it])));
        [vec![0; 4], writer.finish().unwrap()].concat()
    }

    /// Gives one reading after the other, each as keys.
    fn check(count: Option<u32>, readings: &[&[u8]]) -> Result<Vec<u8>, KernelError> {
        let mut readings = readings.iter();
        let read = || Ok(vec![answer(readings.next().expect("one reading more than expected"))]);
        let payloads = whole(count, read)?;
        Ok(items(&payloads[0]).unwrap().into_iter().map(|it| it[0]).collect())
    }

    #[test]
    fn a_reading_with_the_right_count_is_whole() {
        assert_eq!(check(Some(2), &[&[1, 2]]), Ok(vec![1, 2]));
        assert_eq!(check(Some(2), &[&[2, 2], &[2, 1, 2]]), Ok(vec![2, 1, 2]));
        assert_eq!(check(Some(0), &[&[]]), Ok(vec![]));
    }

    #[test]
    fn without_a_count_two_readings_agree() {
        assert_eq!(check(None, &[&[1], &[1, 2], &[2, 1]]), Ok(vec![2, 1]));
    }

    #[test]
    fn a_count_that_is_never_met_ends() {
        assert_eq!(check(Some(2), &[&[1][..]; ATTEMPTS]), Err(KernelError::Unsteady(ATTEMPTS)));
    }
}
