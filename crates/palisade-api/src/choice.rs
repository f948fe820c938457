//! Unions that may grow: one of several known keys, or something that a newer API holds.
//!
//! A key that nothing here resembles is kept as `Entry::Unknown`, so that the conversion can fail closed. What resembles a known key is a slip and
//! refuses the object.

use palisade_model::FailClosed;

use crate::problem::Consequence;
use crate::read::{Fields, Reader, Unknown, classify};
use crate::tree::{Node, Value};

/// Something the API may hold more kinds of than we know.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<T> {
    Known(T),
    Unknown(FailClosed),
}

impl<T> Entry<Entry<T>> {
    /// Unknown if either is.
    pub(crate) fn flatten(self) -> Entry<T> {
        match self {
            Entry::Known(inner) => inner,
            Entry::Unknown(reason) => Entry::Unknown(reason),
        }
    }
}

impl<T> Entry<T> {
    /// What is known, turned into something else.
    pub(crate) fn map<U>(self, turn: impl FnOnce(T) -> U) -> Entry<U> {
        match self {
            Entry::Known(inner) => Entry::Known(turn(inner)),
            Entry::Unknown(reason) => Entry::Unknown(reason),
        }
    }
}

/// How an API of cluster policies says what it does with what is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `Accept`; Deny and Pass close everything.
    #[default]
    Accept,
    /// `Allow`; Deny and Pass close everything.
    Allow,
    /// `Allow`; Deny and Pass close all pods, since the API speaks of nothing else.
    AllowPods,
}

impl Dialect {
    /// The word for the action that accepts.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            Dialect::Accept => "Accept",
            Dialect::Allow | Dialect::AllowPods => "Allow",
        }
    }

    /// What a rule denies that fails closed.
    pub(crate) fn everything(self) -> &'static str {
        match self {
            Dialect::Accept | Dialect::Allow => "everything",
            Dialect::AllowPods => "all pods",
        }
    }
}

impl Reader {
    /// A union: exactly one of `known`. No known key at all is something newer, and fails closed; a slip refuses the object.
    pub(crate) fn one_of<'n, T>(
        &mut self,
        node: &'n Node<'n>,
        known: &'static [&'static str],
        read: impl FnOnce(&mut Reader, &'n str, &'n Node<'n>) -> Option<T>,
    ) -> Option<Entry<T>> {
        let fields = self.fields(node)?;
        let before = self.problems.len();
        let newer = self.newer_fields(&fields, known);
        let slipped = self.problems.len() > before && newer.is_none();
        let set: Vec<_> = fields.entries().iter().filter(|it| known.contains(&it.key.as_ref()) && it.value.value != Value::Null).collect();
        match (set.as_slice(), newer) {
            (_, Some(reason)) => Some(Entry::Unknown(reason)),
            // The slip says it all, and refuses the object.
            ([], None) if slipped => None,
            ([], None) => {
                let message = format!("none of {} is set; taken as something newer, so the rule fails closed", known.join(", "));
                self.problem(Consequence::Untrusted, "empty-choice", node.span, message, Some("an API server refuses this".to_owned()));
                Some(Entry::Unknown(self.fail_closed("an empty object".to_owned())))
            }
            ([only], None) => {
                let key: &'n str = only.key.as_ref();
                self.within(key.to_owned(), |r| read(r, key, &only.value)).map(Entry::Known)
            }
            ([first, second, ..], None) => {
                self.invalid(second.key_span, format!("`{}` and `{}` exclude each other", first.key, second.key));
                None
            }
        }
    }

    /// Notes the fields we do not know. Slips refuse the object; the first that looks newer is returned, so that the rule fails closed.
    pub(crate) fn newer_fields(&mut self, fields: &Fields<'_>, known: &'static [&'static str]) -> Option<FailClosed> {
        let mut newer = None;
        for entry in fields.unknown(known) {
            match classify(&entry.key, known) {
                Unknown::Slip(_) => self.refuse_field(entry, known),
                Unknown::Newer => {
                    let key = entry.key.to_string();
                    let help = Some(format!("known here: {}", known.join(", ")));
                    let reason = self.within(key.clone(), |r| {
                        let (accept, everything) = (r.dialect.accept(), r.dialect.everything());
                        let message = format!(
                            "not known to this version; the rule fails closed: {accept} matches nothing by it, Deny and Pass deny {everything}"
                        );
                        r.problem(Consequence::Narrowed, "unknown-kind", entry.key_span, message, help);
                        r.fail_closed(format!("`{key}`"))
                    });
                    newer = newer.or(Some(reason));
                }
            }
        }
        newer
    }

    pub(crate) fn fail_closed(&self, found: String) -> FailClosed {
        FailClosed { path: self.path().to_string().into(), found: found.into() }
    }
}
