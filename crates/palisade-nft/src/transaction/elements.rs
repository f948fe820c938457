//! Elements in and out of the maps of a ruleset.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::netlink::accept::goes;
use crate::ruleset::{Ruleset, VerdictMap};
use crate::transaction::apply::Cause;
use crate::transaction::map::Map;

/// The chains that a map goes to, one for each element.
pub(super) fn chains(map: &VerdictMap) -> impl Iterator<Item = &String> {
    let (numbers, pairs) = match map {
        VerdictMap::Numbers(elements) => (Some(elements.values()), None),
        VerdictMap::Pairs { elements, .. } => (None, Some(elements.values())),
    };
    numbers.into_iter().flatten().chain(pairs.into_iter().flatten())
}

/// Adds elements to a map of their kind, up to the first that is refused. `targets` gets the chains that they go to.
pub(super) fn add(ruleset: &mut Ruleset, name: &str, elements: &Map, targets: &mut Vec<String>) -> Result<(), Cause> {
    match elements {
        Map::Data(map) => {
            let to = &mut ruleset.data.get_mut(name).ok_or(Cause::Missing)?.elements;
            map.elements.iter().try_for_each(|(key, number)| insert(to, *key, *number))
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
        Map::Verdict(map) => match (ruleset.verdicts.get_mut(name).ok_or(Cause::Missing)?, map) {
            (VerdictMap::Numbers(from), VerdictMap::Numbers(elements)) => {
                elements.keys().try_for_each(|key| from.remove(key).map(|chain| targets.push(chain)).ok_or(Cause::Missing))
            }
            (VerdictMap::Pairs { elements: from, .. }, VerdictMap::Pairs { elements, .. }) => {
                elements.keys().try_for_each(|key| from.remove(key).map(|chain| targets.push(chain)).ok_or(Cause::Missing))
            }
            (VerdictMap::Numbers(_) | VerdictMap::Pairs { .. }, _) => Err(Cause::Invalid),
        },
        Map::Sources(set) => {
            let from = &mut ruleset.sets.get_mut(name).ok_or(Cause::Missing)?.elements;
            set.elements.iter().try_for_each(|it| from.remove(it).then_some(()).ok_or(Cause::Missing))
        }
    }
}

fn add_verdicts(ruleset: &mut Ruleset, name: &str, map: &VerdictMap, targets: &mut Vec<String>) -> Result<(), Cause> {
    // The chain is looked for before the key.
    let mut good = Ok(());
    let count = chains(map).take_while(|chain| {
        good = goes(ruleset, chain);
        good.is_ok()
    });
    let count = count.count();
    let done = match (ruleset.verdicts.get_mut(name).ok_or(Cause::Missing)?, map) {
        (VerdictMap::Numbers(to), VerdictMap::Numbers(elements)) => elements.iter().take(count).try_for_each(|(key, chain)| {
            insert(to, *key, chain.clone())?;
            targets.push(chain.clone());
            Ok(())
        }),
        (VerdictMap::Pairs { elements: to, .. }, VerdictMap::Pairs { elements, .. }) => {
            elements.iter().take(count).try_for_each(|(key, chain)| {
                insert(to, *key, chain.clone())?;
                targets.push(chain.clone());
                Ok(())
            })
        }
        (VerdictMap::Numbers(_) | VerdictMap::Pairs { .. }, _) => Err(Cause::Invalid),
    };
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
