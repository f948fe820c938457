//! Elements in and out of the maps of a ruleset.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::netlink::accept::goes;
use crate::ruleset::{Ruleset, VerdictMap};
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
        Map::Verdict(map) => add_verdicts(ruleset, name, map, targets),
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
    }
}

fn add_verdicts(ruleset: &mut Ruleset, name: &str, map: &VerdictMap, targets: &mut Vec<String>) -> Result<(), Cause> {
    // The chain is looked for before the key.
    let mut good = Ok(());
    let count = map.elements.values().take_while(|chain| {
        good = goes(ruleset, chain);
        good.is_ok()
    });
    let count = count.count();
    let to = &mut ruleset.verdicts.get_mut(name).ok_or(Cause::Missing)?.elements;
    let done = map.elements.iter().take(count).try_for_each(|(key, chain)| {
        insert(to, *key, chain.clone())?;
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
