//! Whether the chains of a table nest no deeper than the kernel allows.

use std::collections::BTreeMap;

use crate::ruleset::Ruleset;
use crate::transaction::apply::{Cause, chains_of};
use crate::transaction::difference::maps_of;
use crate::transaction::elements;

/// Levels of chains, the base chain included; a goto is a level too.
const LEVELS: usize = 16;

/// Follows every way from a base chain.
pub(super) fn validate(ruleset: &Ruleset) -> Result<(), Cause> {
    let mut known = BTreeMap::new();
    for (name, chain) in &ruleset.chains {
        if chain.hook.is_some() {
            follow(ruleset, name, 0, &mut known)?;
        }
    }
    Ok(())
}

/// `known` has the deepest level that a chain was found good at.
fn follow<'a>(ruleset: &'a Ruleset, name: &'a str, level: usize, known: &mut BTreeMap<&'a str, usize>) -> Result<(), Cause> {
    if level == LEVELS {
        return Err(Cause::TooDeep);
    }
    if known.get(name).is_some_and(|it| *it >= level) {
        return Ok(());
    }
    let rules = ruleset.chains.get(name).map_or(&[][..], |it| &it.rules);
    for rule in rules {
        for chain in chains_of(rule) {
            follow(ruleset, chain, level + 1, known)?;
        }
        for map in maps_of(rule).filter_map(|it| ruleset.verdicts.get(it)) {
            for chain in elements::chains(map) {
                follow(ruleset, chain, level + 1, known)?;
            }
        }
    }
    known.insert(name, level);
    Ok(())
}
