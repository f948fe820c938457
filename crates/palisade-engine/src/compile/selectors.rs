//! Which selectors hold for which labels, without asking each.
//!
//! Labels are first reduced to what some selector asks about. A selector has a default, its answer on something without labels; only the selectors
//! whose answer deviates are listed. Those that want something are found under a label they want, those that only forbid under what they forbid.

use palisade_model::{LabelSelector, Labels, Operator};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compile::intern::{Interned, Lists, index, number};

/// A value that no selector asks about, of a key that some selector asks about.
const OTHER: u32 = u32::MAX;

/// Selectors in use, by number, and the label sets they were asked about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    names: Interned<Box<str>>,
    /// Requirements: key, what is asked, how many values, the values.
    written: Lists,
    defaults: Vec<bool>,
    /// Key and value pairs that some selector asks about.
    pairs: FxHashSet<(u32, u32)>,
    /// Keys whose mere presence some selector asks about.
    keys: FxHashSet<u32>,
    by_pair: FxHashMap<(u32, u32), Vec<u32>>,
    by_key: FxHashMap<u32, Vec<u32>>,
    /// Label sets after reduction: key, value, key, value, … by key.
    sets: Lists,
}

const IN: u32 = 0;
const NOT_IN: u32 = 1;
const EXISTS: u32 = 2;
const MISSING: u32 = 3;

impl Selectors {
    /// The number of a selector. All must be known before labels are reduced.
    pub(crate) fn add(&mut self, selector: &LabelSelector) -> u32 {
        let mut requirements: Vec<Vec<u32>> = selector.requirements.iter().map(|it| self.requirement(&it.key, &it.operator)).collect();
        requirements.sort_unstable();
        requirements.dedup();
        let id = self.written.intern(&requirements.concat());
        if index(id) == self.defaults.len() {
            self.file(id, &requirements);
        }
        id
    }

    fn requirement(&mut self, key: &str, operator: &Operator) -> Vec<u32> {
        let key = self.names.intern_by(key);
        let (kind, values): (u32, Vec<&str>) = match operator {
            Operator::Equals(value) => (IN, vec![value.as_ref()]),
            Operator::In(values) => (IN, values.iter().map(AsRef::as_ref).collect()),
            Operator::NotIn(values) => (NOT_IN, values.iter().map(AsRef::as_ref).collect()),
            Operator::Exists => (EXISTS, Vec::new()),
            Operator::DoesNotExist => (MISSING, Vec::new()),
        };
        let mut values: Vec<u32> = values.into_iter().map(|it| self.names.intern_by(it)).collect();
        values.sort_unstable();
        values.dedup();
        let mut written = vec![key, kind, number(values.len())];
        written.extend(values);
        written
    }

    /// Notes what a new selector asks about, and files it where it will be found.
    fn file(&mut self, id: u32, requirements: &[Vec<u32>]) {
        let wants = |it: &&Vec<u32>| matches!(it.get(1), Some(&IN | &EXISTS));
        self.defaults.push(!requirements.iter().any(|it| wants(&it)));
        for requirement in requirements {
            let [key, kind, _, values @ ..] = requirement.as_slice() else { continue };
            self.pairs.extend(values.iter().map(|value| (*key, *value)));
            if *kind == EXISTS || *kind == MISSING {
                self.keys.insert(*key);
            }
        }
        // One thing it wants finds it; what it forbids matters only if it wants nothing.
        let narrowest = requirements.iter().filter(wants).min_by_key(|it| if it.get(1) == Some(&EXISTS) { usize::MAX } else { it.len() });
        let filed: Vec<&Vec<u32>> = narrowest.map_or_else(|| requirements.iter().collect(), |it| vec![it]);
        for requirement in filed {
            let [key, kind, _, values @ ..] = requirement.as_slice() else { continue };
            if *kind == EXISTS || *kind == MISSING {
                self.by_key.entry(*key).or_default().push(id);
            }
            for value in values {
                self.by_pair.entry((*key, *value)).or_default().push(id);
            }
        }
    }

    pub(crate) fn count(&self) -> u32 {
        number(self.defaults.len())
    }

    pub(crate) fn default_of(&self, selector: u32) -> bool {
        self.defaults.get(index(selector)).copied().unwrap_or(false)
    }

    /// The number of a label set, reduced to what is asked about.
    pub(crate) fn reduce(&mut self, labels: &Labels) -> u32 {
        let mut reduced: Vec<(u32, u32)> = Vec::new();
        for (key, value) in labels.iter() {
            let Some(key) = self.names.id_of(key) else { continue };
            let value = self.names.id_of(value).filter(|value| self.pairs.contains(&(key, *value)));
            match value {
                Some(value) => reduced.push((key, value)),
                None if self.keys.contains(&key) => reduced.push((key, OTHER)),
                None => {}
            }
        }
        reduced.sort_unstable();
        let flat: Vec<u32> = reduced.into_iter().flat_map(|(key, value)| [key, value]).collect();
        self.sets.intern(&flat)
    }

    /// Whether a selector holds for a label set.
    pub(crate) fn holds(&self, selector: u32, set: u32) -> bool {
        let labels = self.sets.get(set);
        let value_of = |key: u32| labels.chunks(2).find(|it| it.first() == Some(&key)).and_then(|it| it.get(1)).copied();
        let mut rest = self.written.get(selector);
        while let [key, kind, count, after @ ..] = rest {
            let (values, next) = after.split_at_checked(index(*count)).unwrap_or((after, &[]));
            let value = value_of(*key);
            let holds = match *kind {
                IN => value.is_some_and(|it| values.contains(&it)),
                NOT_IN => value.is_none_or(|it| !values.contains(&it)),
                EXISTS => value.is_some(),
                _ => value.is_none(),
            };
            if !holds {
                return false;
            }
            rest = next;
        }
        true
    }

    /// The selectors whose answer on a label set is not their default, in order.
    pub(crate) fn deviating(&self, set: u32) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        for pair in self.sets.get(set).chunks(2) {
            let [key, value] = pair else { continue };
            let by_pair = self.by_pair.get(&(*key, *value)).into_iter().flatten();
            let by_key = self.by_key.get(key).into_iter().flatten();
            found.extend(by_pair.chain(by_key).filter(|it| self.holds(**it, set) != self.default_of(**it)));
        }
        found.sort_unstable();
        found.dedup();
        found
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
        let mut selectors = Selectors::default();
        let ids: Vec<u32> = all.iter().map(|it| selectors.add(it)).collect();
        for a in [None, Some("x"), Some("y"), Some("z")] {
            for b in [None, Some("x"), Some("z")] {
                let labels: Labels = [("a", a), ("b", b), ("c", Some("x"))].into_iter().filter_map(|(k, v)| v.map(|v| (k, v))).collect();
                let set = selectors.reduce(&labels);
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
                }
            }
        }
    }
}
