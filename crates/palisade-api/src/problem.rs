//! What is wrong with an object, and what follows from it.

use palisade_model::Severity;

use crate::tree::{FieldPath, Span};

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub consequence: Consequence,
    /// A stable name for this sort of problem.
    pub code: &'static str,
    /// The field it concerns.
    pub path: FieldPath,
    pub span: Span,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// What follows from a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consequence {
    /// The object is left out: an API server would refuse it, or prune it to something wider than what was meant.
    Refused,
    /// The object counts in its closed form, but an API server of today would not have stored it: the verdict cannot be trusted.
    Untrusted,
    /// The object counts, narrower than written.
    Narrowed,
    /// The object counts as written, with something assumed.
    Noted,
}

impl Consequence {
    /// How loudly to say it.
    pub fn severity(self) -> Severity {
        match self {
            Consequence::Refused | Consequence::Untrusted => Severity::Error,
            Consequence::Narrowed => Severity::Warning,
            Consequence::Noted => Severity::Note,
        }
    }
}
