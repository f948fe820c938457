//! Labels and the selectors over them. The matching rules are Kubernetes' own (semantics 1.1).

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The labels of one object, sorted by key, each key once. Clones share them: a cluster has many, and they hardly ever change.
///
/// All keys and values are one text, each behind its length, because a cluster has more labels than anything else: apart they would take four times
/// the memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Arc<str>);

/// Bits of a length in one ASCII character. The next bit says that more characters follow.
const LENGTH_BITS: u32 = 6;
const MORE: u8 = 1 << LENGTH_BITS;

impl Labels {
    /// The value of `key`, if the object carries it. An empty value is a value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(it, _)| *it == key).map(|(_, value)| value)
    }

    /// Sets one label, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: &str) {
        *self = self.iter().chain([(key, value)]).collect();
    }

    /// Removes one label, if it is there.
    pub fn remove(&mut self, key: &str) {
        *self = self.iter().filter(|(it, _)| *it != key).collect();
    }

    /// Key and value of each label, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.0.as_ref();
        std::iter::from_fn(move || {
            let (key, after) = first_part(rest)?;
            let (value, after) = first_part(after)?;
            rest = after;
            Some((key, value))
        })
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

/// A later pair replaces an earlier one with the same key.
impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut labels: Vec<(K, V)> = Vec::new();
        for (key, value) in pairs {
            match labels.binary_search_by(|(it, _)| it.as_ref().cmp(key.as_ref())) {
                Ok(at) => {
                    if let Some(it) = labels.get_mut(at) {
                        it.1 = value;
                    }
                }
                Err(at) => labels.insert(at, (key, value)),
            }
        }
        let mut text = String::with_capacity(labels.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len() + 2).sum());
        for (key, value) in &labels {
            push_part(&mut text, key.as_ref());
            push_part(&mut text, value.as_ref());
        }
        Labels(text.into())
    }
}

/// Appends a part behind its length.
fn push_part(text: &mut String, part: &str) {
    let mut length = part.len();
    loop {
        let digit = u8::try_from(length % usize::from(MORE)).unwrap_or_default();
        length >>= LENGTH_BITS;
        text.push(char::from(if length > 0 { digit | MORE } else { digit }));
        if length == 0 {
            break;
        }
    }
    text.push_str(part);
}

/// The first part, and the text after it. None at the end.
fn first_part(text: &str) -> Option<(&str, &str)> {
    let (mut length, mut shift) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        length |= usize::from(byte & (MORE - 1)) << shift;
        if byte & MORE == 0 {
            return text.get(at + 1..)?.split_at_checked(length);
        }
        shift += LENGTH_BITS;
    }
    None
}

impl Ord for Labels {
    fn cmp(&self, other: &Labels) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Labels) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_any_length_and_content_are_read_back_in_key_order() {
        let long = "v".repeat(5000);
        let pairs = [("tier", "front"), ("app", ""), ("", "empty key"), ("odd\0key", "ünï\0"), ("k", long.as_str()), ("app", "db")];
        let mut labels: Labels = pairs.into_iter().collect();
        let sorted = [("", "empty key"), ("app", "db"), ("k", long.as_str()), ("odd\0key", "ünï\0"), ("tier", "front")];
        assert_eq!(labels.iter().collect::<Vec<_>>(), sorted);
        assert_eq!((labels.get("k"), labels.get("tie"), labels.get("tier")), (Some(long.as_str()), None, Some("front")));
        labels.set("k", "");
        labels.remove("odd\0key");
        assert_eq!(labels.to_string(), "=empty key,app=db,k=,tier=front");
        assert!(!labels.is_empty() && Labels::default().is_empty());
    }

    #[test]
    fn labels_are_ordered_by_their_pairs() {
        let of = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
        let sorted = [of(&[]), of(&[("a", "z")]), of(&[("a", "z"), ("b", "")]), of(&[("aa", "")]), of(&[("b", "a")])];
        assert!(sorted.is_sorted() && sorted.iter().zip(&sorted[1..]).all(|(one, other)| one != other));
    }
}
