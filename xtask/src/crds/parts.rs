//! What the kinds have in common.

#![expect(dead_code, reason = "only their schemas are of use")]

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// Selects objects by their labels. All requirements must hold, and none at all selects everything.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub(super) struct LabelSelector {
    /// Labels with the values that they must have.
    match_labels: Option<BTreeMap<String, String>>,
    /// Further requirements.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// A requirement on one label.
#[derive(JsonSchema)]
struct LabelSelectorRequirement {
    /// The label.
    key: String,
    /// In, NotIn, Exists or DoesNotExist.
    operator: String,
    /// The values of In and NotIn; none for the others.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    values: Option<Vec<String>>,
}

/// What has become of the policy.
#[derive(JsonSchema)]
pub(super) struct Status {
    /// Each type once.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Vec<Condition>,
}

/// One thing that is, is not, or is not known.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Condition {
    /// What it is about.
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    r#type: String,
    /// Whether it is so.
    status: ConditionStatus,
    /// The generation of the policy that it was seen at.
    #[schemars(range(min = 0))]
    observed_generation: Option<i64>,
    /// When the status changed last.
    #[schemars(extend("format" = "date-time"))]
    last_transition_time: String,
    /// Why, in one word.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    reason: String,
    /// Why, in a sentence.
    #[schemars(length(max = 32768))]
    message: String,
}

/// A condition's status.
#[derive(JsonSchema)]
enum ConditionStatus {
    True,
    False,
    Unknown,
}
