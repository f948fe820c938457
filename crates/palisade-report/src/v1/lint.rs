//! What is probably wrong with policies that are valid.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diagnostic, Mark};

/// What `palisade lint` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintReport {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `LintReport`.
    pub kind: String,
    /// Where the findings are limited by what was read.
    pub qualifications: Vec<String>,
    /// In the order of the input.
    pub findings: Vec<LintFinding>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// One thing that is probably wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// The rule that found it, as in `two-dashes`.
    pub rule: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// What is wrong.
    pub message: String,
    /// Where.
    #[serde(flatten)]
    pub at: LintPlace,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Other places that have to do with it.
    pub further: Vec<LintPlace>,
    /// Whether `--fix` takes care of it.
    pub fixable: bool,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintPlace {
    /// As in `NetworkPolicy shop/db`.
    pub object: String,
    /// The field, as a path from the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The line, where the object came from a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
}

/// What a rule of `palisade lint` is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintRule {
    /// Its name.
    pub name: String,
    /// `error`, `warning` or `note`; the worst that it finds.
    pub severity: String,
    /// What it finds, in a sentence.
    pub summary: String,
    /// Why that hurts.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// Whether `--fix` can do it.
    pub fixable: bool,
}
