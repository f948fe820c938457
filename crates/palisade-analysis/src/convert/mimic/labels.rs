//! Sets of labelled things that selectors can say, with their differences.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::{LabelSelector, Labels, Operator, Requirement};

/// Whoever meets all of these: what each key may be. No key at all: everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labelled(BTreeMap<Box<str>, Allowed>);

/// What one label may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Allowed {
    values: Values,
    /// Whether it may be missing.
    missing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Values {
    In(BTreeSet<Box<str>>),
    NotIn(BTreeSet<Box<str>>),
}

impl Values {
    fn and(&self, other: &Values) -> Values {
        match (self, other) {
            (Values::In(a), Values::In(b)) => Values::In(a & b),
            (Values::In(a), Values::NotIn(b)) | (Values::NotIn(b), Values::In(a)) => Values::In(a - b),
            (Values::NotIn(a), Values::NotIn(b)) => Values::NotIn(a | b),
        }
    }

    fn or(&self, other: &Values) -> Values {
        match (self, other) {
            (Values::In(a), Values::In(b)) => Values::In(a | b),
            (Values::In(a), Values::NotIn(b)) | (Values::NotIn(b), Values::In(a)) => Values::NotIn(b - a),
            (Values::NotIn(a), Values::NotIn(b)) => Values::NotIn(a & b),
        }
    }

    fn others(&self) -> Values {
        match self {
            Values::In(values) => Values::NotIn(values.clone()),
            Values::NotIn(values) => Values::In(values.clone()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Values::In(values) => values.is_empty(),
            Values::NotIn(_) => false,
        }
    }
}

impl Allowed {
    fn of(operator: &Operator) -> Allowed {
        let set = |values: &[Box<str>]| values.iter().cloned().collect::<BTreeSet<_>>();
        match operator {
            Operator::Equals(value) => Allowed { values: Values::In(set(std::slice::from_ref(value))), missing: false },
            Operator::In(values) => Allowed { values: Values::In(set(values)), missing: false },
            Operator::NotIn(values) => Allowed { values: Values::NotIn(set(values)), missing: true },
            Operator::Exists => Allowed { values: Values::NotIn(BTreeSet::new()), missing: false },
            Operator::DoesNotExist => Allowed { values: Values::In(BTreeSet::new()), missing: true },
        }
    }

    fn and(&self, other: &Allowed) -> Allowed {
        Allowed { values: self.values.and(&other.values), missing: self.missing && other.missing }
    }

    /// Everything else, in parts that a selector can say.
    fn others(&self) -> Vec<Allowed> {
        let values = self.values.others();
        let said = |values: Values, missing: bool| Allowed { values, missing };
        let parts = match (self.missing, &values) {
            (false, Values::NotIn(_)) => vec![said(values, true)],
            (false, Values::In(_)) => vec![said(values, false), said(Values::In(BTreeSet::new()), true)],
            (true, _) => vec![said(values, false)],
        };
        parts.into_iter().filter(|it| !it.is_empty()).collect()
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.missing
    }

    fn is_anything(&self) -> bool {
        self.missing && self.values == Values::NotIn(BTreeSet::new())
    }

    /// No operator says "one of these, or missing".
    fn can_be_said(&self) -> bool {
        match &self.values {
            Values::In(values) => values.is_empty() || !self.missing,
            Values::NotIn(_) => true,
        }
    }
}

impl Labelled {
    /// None if nobody can meet the selector.
    pub(super) fn of(selector: &LabelSelector) -> Option<Labelled> {
        let one = |it: &Requirement| Labelled(BTreeMap::from([(it.key.clone(), Allowed::of(&it.operator))]));
        selector.requirements.iter().try_fold(Labelled::default(), |all, it| all.and(&one(it)))
    }

    pub(super) fn is_everybody(&self) -> bool {
        self.0.is_empty()
    }

    /// None if that is nobody.
    pub(super) fn and(&self, other: &Labelled) -> Option<Labelled> {
        let mut both = self.0.clone();
        for (key, allowed) in &other.0 {
            let allowed = both.get(key).map_or_else(|| allowed.clone(), |it| it.and(allowed));
            both.insert(key.clone(), allowed);
        }
        both.retain(|_, allowed| !allowed.is_anything());
        both.values().all(|it| !it.is_empty()).then_some(Labelled(both))
    }

    /// Those that are not among the others, in parts that have nobody in common.
    pub(super) fn without(&self, other: &Labelled) -> Vec<Labelled> {
        let mut parts = Vec::new();
        let mut rest = Some(self.clone());
        for (key, allowed) in &other.0 {
            let Some(left) = rest else { break };
            let only = |allowed: &Allowed| Labelled(BTreeMap::from([(key.clone(), allowed.clone())]));
            parts.extend(allowed.others().iter().filter_map(|it| left.and(&only(it))));
            rest = left.and(&only(allowed));
        }
        parts
    }

    /// Both together, if they differ in one key and a selector can say that.
    pub(super) fn joined(&self, other: &Labelled) -> Option<Labelled> {
        let anything = Allowed { values: Values::NotIn(BTreeSet::new()), missing: true };
        let keys: BTreeSet<&Box<str>> = self.0.keys().chain(other.0.keys()).collect();
        let of = |it: &Labelled, key: &str| it.0.get(key).cloned().unwrap_or_else(|| anything.clone());
        let differing: Vec<&Box<str>> = keys.into_iter().filter(|key| of(self, key) != of(other, key)).collect();
        let [key] = differing.as_slice() else { return differing.is_empty().then(|| self.clone()) };
        let (one, two) = (of(self, key), of(other, key));
        let both = Allowed { values: one.values.or(&two.values), missing: one.missing || two.missing };
        let mut joined = self.clone();
        joined.0.remove(*key);
        if !both.is_anything() {
            joined.0.insert((*key).clone(), both.clone());
        }
        both.can_be_said().then_some(joined)
    }

    /// Whether a key has to have just this value.
    pub(super) fn pins(&self, key: &str, value: &str) -> bool {
        self.0.get(key).is_some_and(|it| !it.missing && it.values == Values::In(BTreeSet::from([value.into()])))
    }

    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.selector().matches(labels)
    }

    /// As a selector of an object.
    pub(super) fn selector(&self) -> LabelSelector {
        let (mut labels, mut rest) = (Vec::new(), Vec::new());
        for (key, allowed) in &self.0 {
            let mut asks = |operator: Operator| rest.push(Requirement { key: key.clone(), operator });
            match (&allowed.values, allowed.missing) {
                (Values::In(values), _) if values.is_empty() => asks(Operator::DoesNotExist),
                (Values::In(values), _) => match values.iter().next().filter(|_| values.len() == 1) {
                    Some(value) => labels.push(Requirement { key: key.clone(), operator: Operator::Equals(value.clone()) }),
                    None => asks(Operator::In(values.iter().cloned().collect())),
                },
                (Values::NotIn(values), missing) => {
                    if !missing {
                        asks(Operator::Exists);
                    }
                    if !values.is_empty() {
                        asks(Operator::NotIn(values.iter().cloned().collect()));
                    }
                }
            }
        }
        labels.append(&mut rest);
        LabelSelector { requirements: labels }
    }
}
