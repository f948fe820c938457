//! Elements in and out of the maps of a ruleset.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::netlink::accept::goes;
use crate::ruleset::Ruleset;
use crate::transaction::apply::Cause;
use crate::transaction::map::Map;

/// Adds elements to a map of their kind, up to the first that is refused. `targets` gets the chains that they go to.
pub(super) fn add(ruleset: &mut Ruleset, name: &str, elements: &Map, targets: &mut Vec<String>) -> Result<(), Cause> {
    match elements {
        Map::Data(map) => {
            let to = &mut ruleset.data.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.iter().try_for_each(|(key, number)| {
                if to.contains_key(key) {
                    return Err(Cause::Exists);
                }
                to.insert(*key, *number);
                Ok(())
            })
        }
        Map::Interval(map) => {
            let to = &mut ruleset.intervals.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.iter().try_for_each(|(first, (last, number))| insert_range(to, *first, *last, *number))
        }
        Map::Verdict(map) => {
            let sound = sound(ruleset, map.elements.values());
            let to = &mut ruleset.verdicts.get_mut(name).ok_or(Cause::Missing)?.elements;
            add_chains(to, &map.elements, sound, targets)
        }
        Map::Sources(set) => {
            let to = &mut ruleset.sets.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| to.insert(it.clone()).then_some(()).ok_or(Cause::Exists))
        }
        Map::Pairs(set) => {
            let to = &mut ruleset.pairs.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| to.insert(*it).then_some(()).ok_or(Cause::Exists))
        }
        Map::Addresses(set) => {
            let to = &mut ruleset.addresses.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| to.insert(*it).then_some(()).ok_or(Cause::Exists))
        }
        Map::Tuples(map) => {
            let sound = sound(ruleset, map.elements.values());
            let to = &mut ruleset.tuples.get_mut(name).ok_or(Cause::Missing)?.elements;
            add_chains(to, &map.elements, sound, targets)
        }
    }
}

/// Deletes elements from a map of their kind, up to the first that is not there. `targets` gets the chains that they went to.
pub(super) fn delete(ruleset: &mut Ruleset, name: &str, elements: &Map, targets: &mut Vec<String>) -> Result<(), Cause> {
    match elements {
        Map::Data(map) => {
            let from = &mut ruleset.data.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.keys().try_for_each(|key| from.remove(key).map(drop).ok_or(Cause::Missing))
        }
        Map::Interval(map) => {
            let from = &mut ruleset.intervals.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.iter().try_for_each(|(first, (last, _))| match from.get(first) {
                Some((known, _)) if known == last => from.remove(first).map(drop).ok_or(Cause::Missing),
                Some(_) | None => Err(Cause::Missing),
            })
        }
        Map::Verdict(map) => {
            let from = &mut ruleset.verdicts.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.keys().try_for_each(|key| from.remove(key).map(|chain| targets.push(chain)).ok_or(Cause::Missing))
        }
        Map::Sources(set) => {
            let from = &mut ruleset.sets.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| from.remove(it).then_some(()).ok_or(Cause::Missing))
        }
        Map::Pairs(set) => {
            let from = &mut ruleset.pairs.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| from.remove(it).then_some(()).ok_or(Cause::Missing))
        }
        Map::Addresses(set) => {
            let from = &mut ruleset.addresses.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| from.remove(it).then_some(()).ok_or(Cause::Missing))
        }
        Map::Tuples(map) => {
            let from = &mut ruleset.tuples.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.keys().try_for_each(|key| from.remove(key).map(|chain| targets.push(chain)).ok_or(Cause::Missing))
        }
    }
}

/// How many elements in a row go to chains that they may go to, and why the next one may not.
fn sound<'a>(ruleset: &Ruleset, chains: impl Iterator<Item = &'a String>) -> (usize, Result<(), Cause>) {
    let mut good = Ok(());
    let count = chains.take_while(|chain| {
        good = goes(ruleset, chain);
        good.is_ok()
    });
    (count.count(), good)
}

/// Adds elements that go to chains. The kernel looks for the chain before the key.
fn add_chains<K: Ord + Clone>(
    to: &mut BTreeMap<K, String>,
    elements: &BTreeMap<K, String>,
    (count, good): (usize, Result<(), Cause>),
    targets: &mut Vec<String>,
) -> Result<(), Cause> {
    let done = elements.iter().take(count).try_for_each(|(key, chain)| {
        insert(to, key.clone(), chain.clone())?;
        targets.push(chain.clone());
        Ok(())
    });
    done.and(good)
}

fn insert<K: Ord, V>(to: &mut BTreeMap<K, V>, key: K, value: V) -> Result<(), Cause> {
    if to.contains_key(&key) {
        return Err(Cause::Exists);
    }
    to.insert(key, value);
    Ok(())
}

fn insert_range(to: &mut BTreeMap<IpAddr, (IpAddr, u32)>, first: IpAddr, last: IpAddr, number: u32) -> Result<(), Cause> {
    // Ranges do not overlap, so the last one that starts before the end of this is the only one that could reach into it.
    if to.range(..=last).next_back().is_some_and(|(_, (known, _))| *known >= first) {
        return Err(Cause::Exists);
    }
    to.insert(first, (last, number));
    Ok(())
}
