//! Policies in another shape.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diagnostic, DiffChange, Policy};

/// What came of bringing policies into another shape.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversion {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Conversion`.
    pub kind: String,
    /// The new objects, in the order in which they are asked.
    pub policies: Vec<serde_json::Value>,
    /// The old ones that they stand for.
    pub replaced: Vec<Policy>,
    /// Those that stay what they are.
    pub untouched: Vec<ConversionUntouched>,
    /// What is not carried over as it was written.
    pub losses: Vec<ConversionLoss>,
    /// Whether reach is the same before and after.
    pub reach: ConversionReach,
    /// The connections that are treated differently.
    pub changes: Vec<DiffChange>,
    /// What the comparison is without.
    pub qualifications: Vec<String>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// A policy that stays what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversionUntouched {
    /// Which one.
    pub policy: Policy,
    /// Why, in a sentence.
    pub why: String,
}

/// Something that is not carried over as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversionLoss {
    /// The old policy.
    pub policy: Policy,
    /// How references name it, as in `cnp/NAME`.
    pub reference: String,
    /// Its field, as a path.
    pub path: String,
    /// Why it cannot be carried over.
    pub why: String,
    /// What is written in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// What that can do.
    pub weight: ConversionWeight,
}

/// What a loss can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConversionWeight {
    /// Connections may be treated differently.
    Reach,
    /// What comes later may be treated differently.
    Later,
    /// It only looks different.
    Form,
}

/// What the comparison of before and after says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConversionReach {
    /// Every connection is treated as before.
    Same,
    /// Some are not.
    Changed,
    /// There was no pod to compare it with.
    NotCompared,
}
