//! What a rule found.

use palisade_k8s::{FieldPath, ObjectKey};
use palisade_model::{PolicyRef, Severity};

use crate::rule::Rule;

/// One thing that is probably wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the rule.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub at: Spot,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Other places that have to do with it.
    pub further: Vec<Spot>,
    /// An item of a list that can go without changing a verdict.
    pub superfluous: Option<FieldPath>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The object.
    pub object: ObjectKey,
    /// Where the field may stand, the best first: APIs have several spellings for the same thing.
    pub paths: Vec<FieldPath>,
    /// What to say under it.
    pub label: String,
}

impl Spot {
    /// A field of an object.
    pub(crate) fn new(object: ObjectKey, paths: Vec<FieldPath>, label: impl Into<String>) -> Spot {
        Spot { object, paths, label: label.into() }
    }

    /// A field of a policy.
    pub(crate) fn of(policy: &PolicyRef, paths: Vec<FieldPath>, label: impl Into<String>) -> Spot {
        Spot::new(ObjectKey::from(policy), paths, label)
    }
}

impl Finding {
    /// As bad as its rule.
    pub(crate) fn new(rule: &Rule, at: Spot, message: impl Into<String>) -> Finding {
        Finding {
            rule: rule.name,
            severity: rule.severity,
            at,
            message: message.into(),
            help: None,
            further: Vec::new(),
            superfluous: None,
        }
    }

    #[must_use]
    pub(crate) fn severity(self, severity: Severity) -> Finding {
        Finding { severity, ..self }
    }

    #[must_use]
    pub(crate) fn help(self, help: impl Into<String>) -> Finding {
        Finding { help: Some(help.into()), ..self }
    }

    #[must_use]
    pub(crate) fn further(mut self, spot: Spot) -> Finding {
        self.further.push(spot);
        self
    }

    #[must_use]
    pub(crate) fn superfluous(self, path: FieldPath) -> Finding {
        Finding { superfluous: Some(path), ..self }
    }
}
