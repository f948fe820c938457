//! Addresses of other nodes' pods that come, go or change class, where nothing else changes: one commit.
//!
//! No subject changes its program, so that a packet reads one lookup that differs, the class of its peer, and gets the old or the new verdict. The
//! planner for all changes comes to the same steps, but reads both rulesets whole for them.

use crate::naming::class_map;
use crate::plan::Step;
use crate::plan::tables::range_class;
use crate::ruleset::{Address, DataMap, Ruleset};
use crate::shared_map::SharedMap;

/// The steps, or None if more than classes of addresses changes.
///
/// INVARIANT: Some(steps) are the steps that `plan_whole` returns.
pub(super) fn plan(old: &Ruleset, new: &Ruleset) -> Option<Vec<Step>> {
    if !differ_in_classes_only(old, new) {
        return None;
    }
    let (mut before, mut after) = (Ruleset::default(), Ruleset::default());
    for family in Address::BOTH {
        let name = class_map(family);
        let (was, is) = (old.data.get(&name)?, new.data.get(&name)?);
        let (mut gone, mut come) = (SharedMap::new(), SharedMap::new());
        for (address, one, other) in was.elements.differing(&is.elements).filter(|(_, one, other)| one != other) {
            // An address without a class would meet the leaves of class 0.
            if one.is_none() || other.is_none() {
                range_class(old, *address)?;
            }
            gone.extend(one.map(|it| (*address, *it)));
            come.extend(other.map(|it| (*address, *it)));
        }
        before.data.insert(name.clone(), DataMap { family, elements: gone });
        after.data.insert(name, DataMap { family, elements: come });
    }
    let transaction = after.changes_since(&before);
    Some(if transaction.is_empty() { Vec::new() } else { vec![Step::Commit(transaction), Step::Grace] })
}

/// The largest parts are shared by rulesets that follow each other, and compared by address then.
fn differ_in_classes_only(old: &Ruleset, new: &Ruleset) -> bool {
    let Ruleset { layout, chains, data, intervals, verdicts, sets, pairs, addresses, tuples, origins } = old;
    let is_class_map = |name: &String| Address::BOTH.iter().any(|it| class_map(*it) == *name);
    *layout == new.layout
        && *chains == new.chains
        && *verdicts == new.verdicts
        && *origins == new.origins
        && (intervals, sets, pairs) == (&new.intervals, &new.sets, &new.pairs)
        && (addresses, tuples) == (&new.addresses, &new.tuples)
        && data.len() == new.data.len()
        && data.iter().all(|(name, map)| is_class_map(name) || new.data.get(name) == Some(map))
}
