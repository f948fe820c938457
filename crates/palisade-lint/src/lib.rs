//! What is probably wrong with policies that are valid.
//!
//! Each rule is one file in `rules`: what it is about, a check, and its tests. A check is a pure function of a `Context`. What depends on verdicts is asked
//! of the engine; what would hold for any pods is worked out from the policies alone (`within`). No check looks at pairs of pods.
#![warn(missing_docs, clippy::as_conversions)]

mod asking;
mod context;
mod finding;
mod fix;
mod paths;
mod reported;
mod rule;
mod rules;
#[cfg(test)]
mod testing;
mod within;

use palisade_k8s::Index;

pub use context::Context;
pub use finding::{Finding, Spot};
pub use fix::{Fixed, Unfixed, fix};
pub use reported::{described, reported};
pub use rule::{Choice, Needs, Rule, UnknownRule};
pub use rules::RULES;

/// What was found, and what could not be looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lints {
    /// Rule by rule.
    pub findings: Vec<Finding>,
    /// Rules that had nothing to work on: no pod was read.
    pub skipped: Vec<&'static str>,
}

/// Holds the chosen rules against objects.
pub fn lint(index: &Index, choice: &Choice) -> Lints {
    let (seen, blind) = (index.snapshot().model, index.label_blind().model);
    let compiled = palisade_engine::compile(&seen);
    let context = Context::new(index, &seen, &blind, &compiled, choice);
    let mut lints = Lints::default();
    for rule in choice.rules() {
        match rule.needs {
            Needs::Pods if seen.endpoints.is_empty() => lints.skipped.push(rule.name),
            Needs::Pods | Needs::Policies => lints.findings.extend((rule.check)(&context)),
        }
    }
    lints
}
