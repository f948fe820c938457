//! The table as a ruleset again. Whatever is not of our making is an error that names it.

use std::collections::BTreeMap;
use std::time::Duration;

use palisade_nft::{Chain, Hook, Ruleset};

use crate::error::{KernelError, Object};
use crate::expression;
use crate::load::{TABLE, hook_number, read_comment};
use crate::map::{self, Element, Shape};
use crate::rule;
use crate::socket::Socket;
use crate::uapi::{GENERATION_ID, chain, element, flag, message, rule as rule_attribute, set, table};
use palisade_netlink::{Attributes, Odd};

/// How often a table that changes meanwhile is read again.
const ATTEMPTS: usize = 10;

/// Reads the table in one state of it. None if there is no table.
pub(crate) fn dump(socket: &mut Socket) -> Result<Option<Ruleset>, KernelError> {
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
    let payloads = socket.ask(Object::Generation, message::GET_GENERATION, flag::ACK, |_| {})?;
    let number = |payload: &Vec<u8>| Attributes::of_payload(payload)?.u32(GENERATION_ID);
    let first = payloads.first().map(number).unwrap_or_else(|| Err(Odd::new("no generation")));
    first.map_err(|odd| KernelError::Truncated(odd.0))
}

/// What the table says about itself. None if there is no table.
pub(crate) fn table(socket: &mut Socket) -> Result<Option<Vec<u8>>, KernelError> {
    match socket.ask(Object::Table, message::GET_TABLE, flag::ACK, |writer| writer.text(table::NAME, TABLE)) {
        Ok(payloads) => Ok(payloads.into_iter().next()),
        Err(KernelError::Refused(refusals)) if refusals.iter().all(|it| it.errno == nix::errno::Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(socket: &mut Socket) -> Result<Option<Ruleset>, KernelError> {
    let Some(payload) = table(socket)? else { return Ok(None) };
    let flags = Attributes::of_payload(&payload).and_then(|it| it.u32(table::FLAGS)).map_err(foreign(&Object::Table))?;
    if flags != 0 {
        // A dormant table enforces nothing.
        return Err(foreign(&Object::Table)(Odd(format!("flags {flags:#x}"))));
    }
    let mut ruleset = Ruleset { chains: read_chains(socket)?, ..Ruleset::default() };
    let protocols = read_maps(socket, &mut ruleset)?;
    read_rules(socket, &protocols, &mut ruleset)?;
    Ok(Some(ruleset))
}

fn foreign(object: &Object) -> impl Fn(Odd) -> KernelError + '_ {
    |odd| KernelError::Foreign { object: object.clone(), what: odd.0 }
}

/// Asks for everything of one kind in the table; `of` is the attribute that names the table.
fn list(socket: &mut Socket, kind: u16, of: u16) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut payloads = socket.ask(Object::Table, kind, flag::DUMP, |writer| writer.text(of, TABLE))?;
    // Some kinds are not filtered by the kernel, or not by every kernel.
    let mut odd = None;
    payloads.retain(|payload| match Attributes::of_payload(payload).and_then(|it| it.text(of).map(|it| it == TABLE)) {
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

fn read_chains(socket: &mut Socket) -> Result<BTreeMap<String, Chain>, KernelError> {
    let mut chains = BTreeMap::new();
    for payload in list(socket, message::GET_CHAIN, chain::TABLE)? {
        let from = Attributes::of_payload(&payload).map_err(foreign(&Object::Table))?;
        let name = from.text(chain::NAME).map_err(foreign(&Object::Table))?.to_owned();
        let hook = read_hook(&from).map_err(foreign(&Object::Chain(name.clone())))?;
        chains.insert(name, Chain { hook, rules: Vec::new() });
    }
    Ok(chains)
}

fn read_hook(from: &Attributes<'_>) -> Result<Option<Hook>, Odd> {
    if from.find(chain::HOOK).is_none() {
        return Ok(None);
    }
    let hook = from.nest(chain::HOOK)?;
    let (number, priority) = (hook.u32(chain::HOOK_NUMBER)?, hook.u32(chain::HOOK_PRIORITY)?);
    let (kind, policy) = (from.text(chain::TYPE)?, from.u32(chain::POLICY)?);
    let ours = [Hook::Forward, Hook::Input].into_iter().find(|it| hook_number(*it) == number);
    match ours {
        Some(hook) if priority == 0 && kind == "filter" && policy == chain::ACCEPT => Ok(Some(hook)),
        Some(_) | None => Err(Odd(format!("type {kind}, hook {number}, priority {priority}, policy {policy}"))),
    }
}

/// Fills in the maps, and gives the sets of protocols by name.
fn read_maps(socket: &mut Socket, ruleset: &mut Ruleset) -> Result<BTreeMap<String, Vec<u8>>, KernelError> {
    let mut protocols = BTreeMap::new();
    for payload in list(socket, message::GET_SET, set::TABLE)? {
        let from = Attributes::of_payload(&payload).map_err(foreign(&Object::Table))?;
        let name = from.text(set::NAME).map_err(foreign(&Object::Table))?.to_owned();
        let object = Object::Map(name.clone());
        let shape = Shape::read(&from).map_err(foreign(&object))?;
        let count = from.find(set::COUNT).is_some().then(|| from.u32(set::COUNT)).transpose().map_err(foreign(&object))?;
        let elements = match shape {
            // A tree is walked in order.
            Shape::Interval(_) => read_elements(socket, &name)?,
            Shape::Data(_) | Shape::Numbers | Shape::Pairs(_) | Shape::Protocols => whole(count, || read_elements(socket, &name))?,
        };
        let object = Object::Elements(name.clone());
        let odd = foreign(&object);
        match shape {
            Shape::Data(family) => {
                ruleset.data.insert(name, map::to_data(family, &elements).map_err(odd)?);
            }
            Shape::Interval(family) => {
                ruleset.intervals.insert(name, map::to_intervals(family, &elements).map_err(odd)?);
            }
            Shape::Numbers => {
                ruleset.verdicts.insert(name, map::to_numbers(&elements).map_err(odd)?);
            }
            Shape::Pairs(family) => {
                ruleset.verdicts.insert(name, map::to_pairs(family, &elements).map_err(odd)?);
            }
            Shape::Protocols => {
                protocols.insert(name, map::to_protocols(&elements).map_err(odd)?);
            }
        }
    }
    Ok(protocols)
}

/// Reads a hash table until all of it was read.
///
/// After many elements were added the kernel goes on moving them to a larger table for a while, and a dump of that time may miss some or
/// give some twice without a word, whoever reads. Kernels that say how many elements there are (6.18 does)
/// are believed; with others, two readings must agree.
fn whole(count: Option<u32>, mut read: impl FnMut() -> Result<Vec<Element>, KernelError>) -> Result<Vec<Element>, KernelError> {
    let mut before = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 1 {
            std::thread::sleep(Duration::from_millis(1 << attempt));
        }
        let mut elements = read()?;
        elements.sort();
        elements.dedup();
        let complete = match count {
            Some(count) => usize::try_from(count) == Ok(elements.len()),
            None => before.as_ref() == Some(&elements),
        };
        if complete {
            return Ok(elements);
        }
        before = Some(elements);
    }
    Err(KernelError::Unsteady(ATTEMPTS))
}

fn read_elements(socket: &mut Socket, map: &str) -> Result<Vec<Element>, KernelError> {
    let object = Object::Elements(map.to_owned());
    let payloads = socket.ask(object.clone(), message::GET_ELEMENTS, flag::DUMP, |writer| {
        writer.text(element::TABLE, TABLE);
        writer.text(element::SET, map);
    })?;
    let mut elements = Vec::new();
    for payload in payloads {
        let from = Attributes::of_payload(&payload).map_err(foreign(&object))?;
        if from.find(element::LIST).is_none() {
            continue;
        }
        let list = from.nest(element::LIST).map_err(foreign(&object))?;
        for (_, item) in list.iter() {
            elements.push(map::read_element(item).map_err(foreign(&object))?);
        }
    }
    Ok(elements)
}

/// Appends the rules to their chains, in order.
fn read_rules(socket: &mut Socket, protocols: &BTreeMap<String, Vec<u8>>, ruleset: &mut Ruleset) -> Result<(), KernelError> {
    for payload in list(socket, message::GET_RULE, rule_attribute::TABLE)? {
        let from = Attributes::of_payload(&payload).map_err(foreign(&Object::Table))?;
        let name = from.text(rule_attribute::CHAIN).map_err(foreign(&Object::Table))?;
        let chain = ruleset.chains.get_mut(name).ok_or_else(|| foreign(&Object::Table)(Odd(format!("a rule of no chain `{name}`"))))?;
        let object = Object::Rule { chain: name.to_owned(), index: chain.rules.len() };
        let odd = foreign(&object);
        let expressions = from.nest(rule_attribute::EXPRESSIONS).and_then(|it| expression::read(&it)).map_err(&odd)?;
        let mut rule = rule::raise(&expressions, |set| protocols.get(set).cloned()).map_err(&odd)?;
        rule.comment = from.find(rule_attribute::USERDATA).map(read_comment).transpose().map_err(&odd)?;
        chain.rules.push(rule);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Role;

    /// Gives one reading after the other, each as keys.
    fn check(count: Option<u32>, readings: &[&[u8]]) -> Result<Vec<u8>, KernelError> {
        let mut readings = readings.iter();
        let read = || {
            let keys = readings.next().expect("one reading more than expected");
            Ok(keys.iter().map(|it| Element { key: vec![*it], role: Role::Member }).collect())
        };
        Ok(whole(count, read)?.into_iter().map(|it| it.key[0]).collect())
    }

    #[test]
    fn a_reading_with_the_right_count_is_whole() {
        assert_eq!(check(Some(2), &[&[1, 2]]), Ok(vec![1, 2]));
        assert_eq!(check(Some(2), &[&[2, 2], &[2, 1, 2]]), Ok(vec![1, 2]));
        assert_eq!(check(Some(0), &[&[]]), Ok(vec![]));
    }

    #[test]
    fn without_a_count_two_readings_agree() {
        assert_eq!(check(None, &[&[1], &[1, 2], &[2, 1]]), Ok(vec![1, 2]));
    }

    #[test]
    fn a_count_that_is_never_met_ends() {
        assert_eq!(check(Some(2), &[&[1][..]; ATTEMPTS]), Err(KernelError::Unsteady(ATTEMPTS)));
    }
}
