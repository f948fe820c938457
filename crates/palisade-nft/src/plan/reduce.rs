//! What two rulesets do not have in common: so much is looked at again and again, and the rest once.

use std::collections::{BTreeMap, BTreeSet};

use crate::ruleset::{AddressSet, Chain, DataMap, IntervalMap, PairSet, Ruleset, SourceSet, VerdictMap};
use crate::transaction::difference::same;

/// Both rulesets without what is the same in both. A map that both have stays in both, if need be without elements.
pub(super) fn reduce(old: &Ruleset, new: &Ruleset) -> (Ruleset, Ruleset) {
    let (mut before, mut after) = (Ruleset::default(), Ruleset::default());
    before.chains = chains(old, new).into();
    after.chains = chains(new, old).into();
    (before.data, after.data) = each(&old.data, &new.data, |one, other| {
        let (a, b) = differing(&one.elements, &other.elements);
        (DataMap { family: one.family, elements: a }, DataMap { family: other.family, elements: b })
    });
    (before.intervals, after.intervals) = each(&old.intervals, &new.intervals, |one, other| {
        let (a, b) = differing(&one.elements, &other.elements);
        (IntervalMap { family: one.family, elements: a }, IntervalMap { family: other.family, elements: b })
    });
    (before.verdicts, after.verdicts) = each(&old.verdicts, &new.verdicts, |one, other| {
        let (a, b) = differing(&one.elements, &other.elements);
        (VerdictMap { elements: a }, VerdictMap { elements: b })
    });
    (before.sets, after.sets) = each(&old.sets, &new.sets, |one, other| {
        let (a, b) = members(&one.elements, &other.elements);
        (SourceSet { family: one.family, elements: a }, SourceSet { family: other.family, elements: b })
    });
    (before.addresses, after.addresses) = each(&old.addresses, &new.addresses, |one, other| {
        let (a, b) = members(&one.elements, &other.elements);
        (AddressSet { family: one.family, elements: a }, AddressSet { family: other.family, elements: b })
    });
    (before.pairs, after.pairs) = each(&old.pairs, &new.pairs, |one, other| {
        let (a, b) = members(&one.elements, &other.elements);
        (PairSet { family: one.family, elements: a }, PairSet { family: other.family, elements: b })
    });
    (before, after)
}

/// The chains that the other has not, or has otherwise.
fn chains(of: &Ruleset, other: &Ruleset) -> BTreeMap<String, Chain> {
    let same =
        |name: &String, chain: &Chain| other.chains.get(name).is_some_and(|it| it.hook == chain.hook && same(&it.rules, &chain.rules));
    of.chains.iter().filter(|(name, chain)| !same(name, chain)).map(|(name, chain)| (name.clone(), chain.clone())).collect()
}

type Both<K, V> = (BTreeMap<K, V>, BTreeMap<K, V>);

/// The entries that the other has not, or has otherwise, of each of two.
fn differing<K: Ord + Clone, V: PartialEq + Clone>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> Both<K, V> {
    let missing = |from: &BTreeMap<K, V>, of: &BTreeMap<K, V>| {
        let missing = from.iter().filter(|(key, value)| of.get(*key) != Some(*value));
        missing.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    (missing(old, new), missing(new, old))
}

fn members<T: Ord + Clone>(old: &BTreeSet<T>, new: &BTreeSet<T>) -> (BTreeSet<T>, BTreeSet<T>) {
    (old - new, new - old)
}

fn each<V: Clone>(old: &BTreeMap<String, V>, new: &BTreeMap<String, V>, reduce: impl Fn(&V, &V) -> (V, V)) -> Both<String, V> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (name, one) in old {
        let (one, other) = match new.get(name) {
            Some(other) => {
                let (one, other) = reduce(one, other);
                (one, Some(other))
            }
            None => (one.clone(), None),
        };
        before.insert(name.clone(), one);
        after.extend(other.map(|it| (name.clone(), it)));
    }
    after.extend(new.iter().filter(|(name, _)| !old.contains_key(*name)).map(|(name, it)| (name.clone(), it.clone())));
    (before, after)
}
