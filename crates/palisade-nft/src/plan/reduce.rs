//! What two rulesets do not have in common: so much is looked at again and again, and the rest once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::ruleset::{AddressSet, Chain, DataMap, IntervalMap, PairSet, Ruleset, SourceSet, VerdictMap};
use crate::shared_map::SharedMap;
use crate::transaction::difference::same;

/// Both rulesets without what is the same in both. A map that both have stays in both, if need be without elements.
pub(super) fn reduce(old: &Ruleset, new: &Ruleset) -> (Ruleset, Ruleset) {
    let (mut before, mut after) = (Ruleset::default(), Ruleset::default());
    let (was, is) = chains(&old.chains, &new.chains);
    (before.chains, after.chains) = (was.into(), is.into());
    (before.data, after.data) = each(&old.data, &new.data, |one, other| {
        let (mut a, mut b) = (SharedMap::new(), SharedMap::new());
        for (key, one, other) in one.elements.differing(&other.elements).filter(|(_, one, other)| one != other) {
            a.extend(one.map(|it| (*key, *it)));
            b.extend(other.map(|it| (*key, *it)));
        }
        (DataMap { family: one.family, elements: a }, DataMap { family: other.family, elements: b })
    });
    (before.intervals, after.intervals) = each(&old.intervals, &new.intervals, |one, other| {
        let (a, b) = differing(&one.elements, &other.elements);
        (IntervalMap { family: one.family, elements: a }, IntervalMap { family: other.family, elements: b })
    });
    (*before.verdicts, *after.verdicts) = each(&old.verdicts, &new.verdicts, |one, other| {
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

/// The chains that the other has not, or has otherwise, of each of two.
fn chains(old: &BTreeMap<String, Chain>, new: &BTreeMap<String, Chain>) -> Both<String, Chain> {
    differing_by(old, new, |one, other| one.hook == other.hook && same(&one.rules, &other.rules))
}

type Both<K, V> = (BTreeMap<K, V>, BTreeMap<K, V>);

/// The entries that the other has not, or has otherwise, of each of two.
fn differing<K: Ord + Clone, V: PartialEq + Clone>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> Both<K, V> {
    differing_by(old, new, V::eq)
}

fn differing_by<K: Ord + Clone, V: Clone>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>, same: impl Fn(&V, &V) -> bool) -> Both<K, V> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    if std::ptr::eq(old, new) {
        return (before, after);
    }
    for (key, one, other) in joined(old, new) {
        if !one.zip(other).is_some_and(|(one, other)| same(one, other)) {
            before.extend(one.map(|it| (key.clone(), it.clone())));
            after.extend(other.map(|it| (key.clone(), it.clone())));
        }
    }
    (before, after)
}

/// Each key of two, with what each has for it.
fn joined<'a, K: Ord, V>(old: &'a BTreeMap<K, V>, new: &'a BTreeMap<K, V>) -> impl Iterator<Item = (&'a K, Option<&'a V>, Option<&'a V>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let one = if order.is_le() { old.next() } else { None };
        let other = if order.is_ge() { new.next() } else { None };
        one.or(other).map(|(key, _)| (key, one.map(|it| it.1), other.map(|it| it.1)))
    })
}

fn members<T: Ord + Clone>(old: &BTreeSet<T>, new: &BTreeSet<T>) -> (BTreeSet<T>, BTreeSet<T>) {
    (old - new, new - old)
}

fn each<V: Clone>(old: &BTreeMap<String, V>, new: &BTreeMap<String, V>, reduce: impl Fn(&V, &V) -> (V, V)) -> Both<String, V> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    for (name, one, other) in joined(old, new) {
        let (one, other) = match (one, other) {
            (Some(one), Some(other)) => {
                let (one, other) = reduce(one, other);
                (Some(one), Some(other))
            }
            (one, other) => (one.cloned(), other.cloned()),
        };
        before.extend(one.map(|it| (name.clone(), it)));
        after.extend(other.map(|it| (name.clone(), it)));
    }
    (before, after)
}
