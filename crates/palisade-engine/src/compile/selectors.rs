//! Which selectors hold for which labels, without asking each.
//!
//! Labels are first reduced to what some selector asks about. A selector has a default, its answer on something without labels; only the selectors
//! whose answer deviates are listed. Those that want something are found under a label they want, those that only forbid under what they forbid.
//!
//! Selectors come and go. When one begins or ceases to ask about a label, the label sets that have it are reduced anew.

use palisade_model::{LabelSelector, Labels, Operator};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compile::intern::{Counted, Lists, Symbols, Uses, index, number};

/// A value that no selector asks about, of a key that some selector asks about.
const OTHER: u32 = u32::MAX;
/// A label set that was not reduced yet.
const NOT_YET: u32 = u32::MAX;

/// Selectors in use, by number, and the label sets they were asked about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    /// Requirements: key, what is asked, how many values, the values.
    written: Counted<Vec<u32>>,
    defaults: Vec<bool>,
    /// Under which of its requirements a selector that wants something is filed.
    filed: Vec<Option<usize>>,
    /// Key and value pairs that selectors ask about, and how many do.
    pairs: FxHashMap<(u32, u32), u32>,
    /// Keys whose mere presence selectors ask about, and how many do.
    keys: FxHashMap<u32, u32>,
    by_pair: FxHashMap<(u32, u32), Vec<u32>>,
    by_key: FxHashMap<u32, Vec<u32>>,
    /// Label sets as they were read: key, value, key, value, … by key.
    read: Lists,
    /// What each comes to.
    reduced: Vec<u32>,
    /// Label sets after reduction, alike.
    sets: Lists,
    /// Sets with a label.
    with: FxHashMap<(u32, u32), Vec<u32>>,
    /// The selectors that deviate for each set, where they were asked for.
    deviations: Vec<Option<Box<[u32]>>>,
}

/// What selectors began or ceased to ask about.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pairs: FxHashSet<(u32, u32)>,
    keys: FxHashSet<u32>,
}

impl Asked {
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.keys.is_empty()
    }
}

const IN: u32 = 0;
const NOT_IN: u32 = 1;
const EXISTS: u32 = 2;
const MISSING: u32 = 3;

/// One requirement as it is written: key, what is asked, the values.
type Written<'a> = (u32, u32, &'a [u32]);

fn requirements(mut rest: &[u32]) -> impl Iterator<Item = Written<'_>> {
    std::iter::from_fn(move || {
        let [key, kind, count, after @ ..] = rest else { return None };
        let (values, next) = after.split_at_checked(index(*count)).unwrap_or((after, &[]));
        rest = next;
        Some((*key, *kind, values))
    })
}

fn wants(kind: u32) -> bool {
    matches!(kind, IN | EXISTS)
}

impl Selectors {
    /// One more who uses a selector: its number.
    pub(crate) fn add(&mut self, selector: &LabelSelector, symbols: &mut Symbols, asked: &mut Asked) -> u32 {
        let (id, uses) = match selector.requirements.as_slice() {
            [] => self.written.add(&[][..]),
            [only] => self.written.add(requirement(&only.key, &only.operator, symbols).as_slice()),
            several => {
                let mut written: Vec<Vec<u32>> = several.iter().map(|it| requirement(&it.key, &it.operator, symbols)).collect();
                written.sort_unstable();
                written.dedup();
                self.written.add(written.concat().as_slice())
            }
        };
        if uses == Uses::Only {
            self.file(id, asked);
        }
        id
    }

    /// One less.
    pub(crate) fn release(&mut self, id: u32) -> Uses {
        self.written.release(id)
    }

    /// Takes selectors that nobody uses out.
    pub(crate) fn bury(&mut self, ids: &[u32], asked: &mut Asked) {
        for id in self.written.unused(ids) {
            self.unfile(id, asked);
        }
        self.written.forget(ids);
    }

    /// Notes what a new selector asks about, and files it where it will be found.
    fn file(&mut self, id: u32, asked: &mut Asked) {
        let Some(written) = self.written.get(id).cloned() else { return };
        let all: Vec<Written<'_>> = requirements(&written).collect();
        for (key, kind, values) in &all {
            for value in *values {
                count(&mut self.pairs, (*key, *value), &mut asked.pairs);
            }
            if matches!(*kind, EXISTS | MISSING) {
                count(&mut self.keys, *key, &mut asked.keys);
            }
        }
        // One thing it wants finds it, best that which finds the fewest others; what it forbids matters only if it wants nothing.
        let crowd = |(key, kind, values): &Written<'_>| match *kind {
            EXISTS => usize::MAX,
            _ => values.iter().map(|it| self.by_pair.get(&(*key, *it)).map_or(0, Vec::len)).sum::<usize>(),
        };
        let wanted = all.iter().enumerate().filter(|(_, it)| wants(it.1));
        let filed = wanted.min_by_key(|(_, it)| (crowd(it), it.2.len())).map(|(at, _)| at);
        if self.defaults.len() <= index(id) {
            self.defaults.resize(index(id) + 1, false);
            self.filed.resize(index(id) + 1, None);
        }
        if let (Some(default), Some(place)) = (self.defaults.get_mut(index(id)), self.filed.get_mut(index(id))) {
            *default = filed.is_none();
            *place = filed;
        }
        self.each_file(&all, filed, |list| list.push(id));
        self.forget_deviations(id);
    }

    fn unfile(&mut self, id: u32, asked: &mut Asked) {
        let Some(written) = self.written.get(id).cloned() else { return };
        self.forget_deviations(id);
        let all: Vec<Written<'_>> = requirements(&written).collect();
        let filed = self.filed.get(index(id)).copied().flatten();
        self.each_file(&all, filed, |list| list.retain(|it| *it != id));
        for (key, kind, values) in &all {
            for value in *values {
                discount(&mut self.pairs, (*key, *value), &mut asked.pairs);
            }
            if matches!(*kind, EXISTS | MISSING) {
                discount(&mut self.keys, *key, &mut asked.keys);
            }
        }
    }

    /// Every list that a selector is found in.
    fn each_file(&mut self, all: &[Written<'_>], filed: Option<usize>, mut each: impl FnMut(&mut Vec<u32>)) {
        for (at, (key, kind, values)) in all.iter().enumerate() {
            if filed.is_some_and(|it| it != at) {
                continue;
            }
            if matches!(*kind, EXISTS | MISSING) {
                each(self.by_key.entry(*key).or_default());
            }
            for value in *values {
                each(self.by_pair.entry((*key, *value)).or_default());
            }
        }
    }

    fn forget_deviations(&mut self, id: u32) {
        for set in self.sets_for(id) {
            if let Some(known) = self.deviations.get_mut(index(set)) {
                *known = None;
            }
        }
    }

    /// How many label sets are kept, as they were read and reduced.
    pub(crate) fn set_count(&self) -> usize {
        self.read.len() + self.sets.len()
    }

    /// Numbers of selectors in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        self.written.iter().map(|(id, _)| id)
    }

    pub(crate) fn default_of(&self, selector: u32) -> bool {
        self.defaults.get(index(selector)).copied().unwrap_or(false)
    }

    /// The number of a label set as it was read.
    pub(crate) fn read(&mut self, labels: &Labels, symbols: &mut Symbols) -> u32 {
        let mut pairs: Vec<[u32; 2]> = labels.iter().map(|(key, value)| [symbols.intern(key), symbols.intern(value)]).collect();
        pairs.sort_unstable();
        let id = self.read.intern(pairs.as_flattened());
        if self.reduced.len() <= index(id) {
            self.reduced.resize(index(id) + 1, NOT_YET);
        }
        id
    }

    /// Labels as they were read.
    pub(crate) fn labels(&self, read: u32, symbols: &Symbols) -> Labels {
        let pairs = self.read.get(read).chunks(2);
        pairs.filter_map(|it| if let [key, value] = it { Some((symbols.get(*key), symbols.get(*value))) } else { None }).collect()
    }

    /// The label set that one comes to when only what is asked about is left of it.
    pub(crate) fn reduce(&mut self, read: u32) -> u32 {
        if let Some(known) = self.reduced.get(index(read)).copied().filter(|it| *it != NOT_YET) {
            return known;
        }
        let mut flat: Vec<u32> = Vec::new();
        for pair in self.read.get(read).chunks(2) {
            let [key, value] = pair else { continue };
            if self.pairs.contains_key(&(*key, *value)) {
                flat.extend([*key, *value]);
            } else if self.keys.contains_key(key) {
                flat.extend([*key, OTHER]);
            }
        }
        let set = self.sets.intern(&flat);
        if index(set) == self.deviations.len() {
            self.deviations.push(None);
            for pair in flat.chunks(2) {
                let [key, value] = pair else { continue };
                self.with.entry((*key, *value)).or_default().push(set);
            }
        }
        if let Some(place) = self.reduced.get_mut(index(read)) {
            *place = set;
        }
        set
    }

    /// Label sets as they were read that may come to something else now. They are reduced again when they are next asked for.
    pub(crate) fn stirred(&mut self, asked: &Asked) -> FxHashSet<u32> {
        let mut found = FxHashSet::default();
        if asked.is_empty() {
            return found;
        }
        for (place, read) in self.reduced.iter_mut().zip(0..) {
            let mut pairs = self.read.get(read).chunks(2);
            let touched = pairs.any(|it| matches!(it, [key, value] if asked.keys.contains(key) || asked.pairs.contains(&(*key, *value))));
            if touched && *place != NOT_YET {
                *place = NOT_YET;
                found.insert(read);
            }
        }
        found
    }

    /// Whether a selector holds for a label set.
    pub(crate) fn holds(&self, selector: u32, set: u32) -> bool {
        let labels = self.sets.get(set);
        let value_of = |key: u32| labels.chunks(2).find(|it| it.first() == Some(&key)).and_then(|it| it.get(1)).copied();
        let written = self.written.get(selector).map_or(&[][..], |it| it);
        requirements(written).all(|(key, kind, values)| {
            let value = value_of(key);
            match kind {
                IN => value.is_some_and(|it| values.contains(&it)),
                NOT_IN => value.is_none_or(|it| !values.contains(&it)),
                EXISTS => value.is_some(),
                _ => value.is_none(),
            }
        })
    }

    /// Works out which selectors deviate for a set, if that is not known.
    pub(crate) fn prepare(&mut self, set: u32) {
        if !matches!(self.deviations.get(index(set)), Some(None)) {
            return;
        }
        let mut found: Vec<u32> = Vec::new();
        for pair in self.sets.get(set).chunks(2) {
            let [key, value] = pair else { continue };
            let by_pair = self.by_pair.get(&(*key, *value)).into_iter().flatten();
            let by_key = self.by_key.get(key).into_iter().flatten();
            found.extend(by_pair.chain(by_key).filter(|it| self.holds(**it, set) != self.default_of(**it)));
        }
        found.sort_unstable();
        found.dedup();
        if let Some(place) = self.deviations.get_mut(index(set)) {
            *place = Some(found.into());
        }
    }

    /// The selectors whose answer on a label set is not their default, in order. `prepare` comes first.
    pub(crate) fn deviating(&self, set: u32) -> &[u32] {
        self.deviations.get(index(set)).and_then(Option::as_deref).unwrap_or(&[])
    }

    /// The same for labels that may never have been read before.
    pub(crate) fn deviating_for(&mut self, labels: &Labels, symbols: &mut Symbols) -> &[u32] {
        let read = self.read(labels, symbols);
        let set = self.reduce(read);
        self.prepare(set);
        self.deviating(set)
    }

    /// The sets on which a selector's answer is not its default.
    pub(crate) fn deviants(&self, selector: u32) -> Vec<u32> {
        let default = self.default_of(selector);
        self.sets_for(selector).into_iter().filter(|it| self.holds(selector, *it) != default).collect()
    }

    /// Sets that a selector may deviate on.
    fn sets_for(&self, selector: u32) -> Vec<u32> {
        let written = self.written.get(selector).map_or(&[][..], |it| it);
        let filed = self.filed.get(index(selector)).copied().flatten();
        let mut found: Vec<u32> = Vec::new();
        for (at, (key, kind, values)) in requirements(written).enumerate() {
            if filed.is_some_and(|it| it != at) {
                continue;
            }
            if matches!(kind, EXISTS | MISSING) {
                return (0..number(self.sets.len())).collect();
            }
            found.extend(values.iter().filter_map(|it| self.with.get(&(key, *it))).flatten());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A selector in words that do not depend on numbers.
    pub(crate) fn in_words(&self, selector: u32, symbols: &Symbols) -> String {
        let written = self.written.get(selector).map_or(&[][..], |it| it);
        let words = requirements(written).map(|(key, kind, values)| {
            let mut values: Vec<&str> = values.iter().map(|it| symbols.get(*it)).collect();
            values.sort_unstable();
            let kind = match kind {
                IN => "in",
                NOT_IN => "not in",
                EXISTS => "exists",
                _ => "is missing",
            };
            format!("{} {kind} {values:?}", symbols.get(key))
        });
        let mut words: Vec<String> = words.collect();
        words.sort_unstable();
        words.join(" and ")
    }

    /// A reduced set of labels in words, likewise.
    pub(crate) fn set_in_words(&self, set: u32, symbols: &Symbols) -> String {
        let labels = self.sets.get(set).chunks(2).filter_map(|it| match it {
            [key, value] => Some((symbols.get(*key), if *value == OTHER { "*" } else { symbols.get(*value) })),
            _ => None,
        });
        let mut labels: Vec<(&str, &str)> = labels.collect();
        labels.sort_unstable();
        format!("{labels:?}")
    }
}

fn requirement(key: &str, operator: &Operator, symbols: &mut Symbols) -> Vec<u32> {
    let key = symbols.intern(key);
    let (kind, values): (u32, &[Box<str>]) = match operator {
        Operator::Equals(value) => (IN, std::slice::from_ref(value)),
        Operator::In(values) => (IN, values),
        Operator::NotIn(values) => (NOT_IN, values),
        Operator::Exists => (EXISTS, &[]),
        Operator::DoesNotExist => (MISSING, &[]),
    };
    let mut written = Vec::with_capacity(3 + values.len());
    written.extend([key, kind, number(values.len())]);
    written.extend(values.iter().map(|it| symbols.intern(it)));
    if let [_, _, count, values @ ..] = written.as_mut_slice() {
        values.sort_unstable();
        let twice = values.windows(2).any(|it| it.first() == it.get(1));
        if twice {
            let mut values = values.to_vec();
            values.dedup();
            *count = number(values.len());
            written.truncate(3);
            written.extend(values);
        }
    }
    written
}

fn count<K: std::hash::Hash + Eq + Copy>(counts: &mut FxHashMap<K, u32>, key: K, began: &mut FxHashSet<K>) {
    let count = counts.entry(key).or_insert(0);
    *count += 1;
    if *count == 1 {
        began.insert(key);
    }
}

fn discount<K: std::hash::Hash + Eq + Copy>(counts: &mut FxHashMap<K, u32>, key: K, ceased: &mut FxHashSet<K>) {
    let Some(count) = counts.get_mut(&key) else { return };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(&key);
        ceased.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::Requirement;

    use super::*;

    fn selector(requirements: &[(&str, Operator)]) -> LabelSelector {
        let requirements = requirements.iter().map(|(key, operator)| Requirement { key: (*key).into(), operator: operator.clone() });
        LabelSelector { requirements: requirements.collect() }
    }

    #[test]
    fn what_deviates_is_what_asking_each_would_find() {
        let values = |all: &[&str]| all.iter().map(|it| Box::from(*it)).collect::<Vec<Box<str>>>();
        let operators = [
            Operator::Equals("x".into()),
            Operator::In(values(&["x", "y"])),
            Operator::NotIn(values(&["x"])),
            Operator::Exists,
            Operator::DoesNotExist,
        ];
        let mut all = vec![LabelSelector::default()];
        for one in &operators {
            all.push(selector(&[("a", one.clone())]));
            all.extend(operators.iter().map(|two| selector(&[("a", one.clone()), ("b", two.clone())])));
        }
        let (mut selectors, mut symbols, mut asked) = (Selectors::default(), Symbols::default(), Asked::default());
        // Half of them come after labels were read.
        let (early, late) = all.split_at(all.len() / 2);
        let mut ids: Vec<u32> = early.iter().map(|it| selectors.add(it, &mut symbols, &mut asked)).collect();
        for value in ["x", "y", "z"] {
            let read = selectors.read(&[("a", value), ("b", value)].into_iter().collect(), &mut symbols);
            let set = selectors.reduce(read);
            selectors.prepare(set);
        }
        let mut asked = Asked::default();
        ids.extend(late.iter().map(|it| selectors.add(it, &mut symbols, &mut asked)));
        selectors.stirred(&asked);
        for a in [None, Some("x"), Some("y"), Some("z")] {
            for b in [None, Some("x"), Some("z")] {
                let labels: Labels = [("a", a), ("b", b), ("c", Some("x"))].into_iter().filter_map(|(k, v)| v.map(|v| (k, v))).collect();
                let read = selectors.read(&labels, &mut symbols);
                let set = selectors.reduce(read);
                selectors.prepare(set);
                let expected: Vec<u32> = {
                    let deviate = all.iter().zip(&ids).filter(|(it, id)| it.matches(&labels) != selectors.default_of(**id));
                    let mut ids: Vec<u32> = deviate.map(|(_, id)| *id).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    ids
                };
                assert_eq!(selectors.deviating(set), expected, "{labels}");
                for (selector, id) in all.iter().zip(&ids) {
                    assert_eq!(selectors.holds(*id, set), selector.matches(&labels), "{selector} on {labels}");
                    let deviates = selector.matches(&labels) != selectors.default_of(*id);
                    assert_eq!(selectors.deviants(*id).contains(&set), deviates, "{selector} on {labels}");
                }
            }
        }
        for id in &ids {
            selectors.release(*id);
        }
        let mut asked = Asked::default();
        selectors.bury(&ids, &mut asked);
        selectors.stirred(&asked);
        let read = selectors.read(&[("a", "x"), ("b", "x")].into_iter().collect(), &mut symbols);
        let set = selectors.reduce(read);
        assert_eq!(selectors.set_in_words(set, &symbols), "[]", "nobody asks about anything any more");
    }
}
