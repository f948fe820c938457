//! Whether the chains of a table nest no deeper than the kernel allows, and whether all that they ask can be answered where they stand.

use std::collections::BTreeMap;

use crate::ruleset::{Hook, Match, Ruleset};
use crate::transaction::apply::{Cause, chains_of};
use crate::transaction::difference::maps_of;

/// Levels of chains, the base chain included; a goto is a level too.
const LEVELS: usize = 16;

/// Follows every way from a base chain.
pub(super) fn validate(ruleset: &Ruleset) -> Result<(), Cause> {
    let (mut at_ingress, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (name, chain) in &ruleset.chains {
        match chain.hook {
            Some(Hook::Frames { .. } | Hook::Ingress { .. }) => {
                follow(ruleset, name, Way { level: 0, routed: Routed::NotYet }, &mut at_ingress)?
            }
            Some(Hook::Forward | Hook::Input | Hook::Output) => follow(ruleset, name, Way { level: 0, routed: Routed::Yes }, &mut after)?,
            None => {}
        }
    }
    Ok(())
}

/// How a chain was come to.
#[derive(Clone, Copy)]
struct Way {
    level: usize,
    routed: Routed,
}

/// Whether it is known where packets go, and what their addresses are to the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routed {
    NotYet,
    Yes,
}

/// `known` has the deepest level that a chain was found good at.
fn follow<'a>(ruleset: &'a Ruleset, name: &'a str, way: Way, known: &mut BTreeMap<&'a str, usize>) -> Result<(), Cause> {
    if way.level == LEVELS {
        return Err(Cause::TooDeep);
    }
    if known.get(name).is_some_and(|it| *it >= way.level) {
        return Ok(());
    }
    let further = Way { level: way.level + 1, ..way };
    let rules = ruleset.chains.get(name).map_or(&[][..], |it| &it.rules);
    for rule in rules {
        if way.routed == Routed::NotYet && rule.matches.contains(&Match::SourceIsLocal) {
            return Err(Cause::WrongHook);
        }
        for chain in chains_of(rule) {
            follow(ruleset, chain, further, known)?;
        }
        for map in maps_of(rule) {
            let numbers = ruleset.verdicts.get(map).into_iter().flat_map(|it| it.elements.values());
            let tuples = ruleset.tuples.get(map).into_iter().flat_map(|it| it.elements.values());
            for chain in numbers.chain(tuples) {
                follow(ruleset, chain, further, known)?;
            }
        }
    }
    known.insert(name, way.level);
    Ok(())
}
