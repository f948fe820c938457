//! Labels and the selectors over them. The matching rules are Kubernetes' own (semantics 1.1).

use std::fmt;
use std::sync::Arc;

/// The labels of one object, sorted by key, each key once. Clones share them: a cluster has many, and they hardly ever change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[Label]>);

/// Key and value.
type Label = (Box<str>, Box<str>);

impl Labels {
    /// The value of `key`, if the object carries it. An empty value is a value.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value.as_ref())
    }

    /// Sets one label, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: &str) {
        let mut labels = self.0.to_vec();
        put(&mut labels, key, value);
        self.0 = labels.into();
    }

    /// Removes one label, if it is there.
    pub fn remove(&mut self, key: &str) {
        self.0 = self.0.iter().filter(|(it, _)| it.as_ref() != key).cloned().collect();
    }

    /// Key and value of each label, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// Whether the object carries no label at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether another copy shares these labels.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut labels = Vec::new();
        for (key, value) in pairs {
            put(&mut labels, key.as_ref(), value.as_ref());
        }
        Labels(labels.into())
    }
}

fn put(labels: &mut Vec<Label>, key: &str, value: &str) {
    match labels.binary_search_by(|(it, _)| it.as_ref().cmp(key)) {
        Ok(at) => labels.get_mut(at).into_iter().for_each(|it| it.1 = value.into()),
        Err(at) => labels.insert(at, (key.into(), value.into())),
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

/// A selector: all requirements must hold. No requirement at all selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSelector {
    /// `matchLabels` first, in key order, then `matchExpressions` in the order written.
    pub requirements: Vec<Requirement>,
}

/// One requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The label key it asks about.
    pub key: Box<str>,
    /// What it asks.
    pub operator: Operator,
}

/// What a requirement asks of its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The key has exactly this value (`matchLabels`).
    Equals(Box<str>),
    /// The key has one of these values.
    In(Vec<Box<str>>),
    /// The key is missing, or has none of these values.
    NotIn(Vec<Box<str>>),
    /// The key is there, with any value.
    Exists,
    /// The key is not there.
    DoesNotExist,
}

impl Requirement {
    /// Whether `labels` meet this requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::Equals(wanted) => value == Some(wanted.as_ref()),
            Operator::In(values) => value.is_some_and(|value| values.iter().any(|it| it.as_ref() == value)),
            // SPEC: semantics 1.1: NotIn and DoesNotExist also match when the key is absent.
            Operator::NotIn(values) => value.is_none_or(|value| values.iter().all(|it| it.as_ref() != value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl LabelSelector {
    /// Whether `labels` meet every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether this is the empty selector, which selects everything.
    pub fn selects_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", values.join(", ")),
            Operator::NotIn(values) => write!(f, "{key} not in ({})", values.join(", ")),
            Operator::Exists => write!(f, "{key} exists"),
            Operator::DoesNotExist => write!(f, "{key} does not exist"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.selects_everything() {
            return f.write_str("everything");
        }
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}
