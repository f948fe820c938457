//! Labels and selectors as strict as API servers are about those of their own kinds. What others ship is not.
//!
//! No bound is put on how many there are, and no rule: the cost of a rule would need such bounds.

#![expect(dead_code, reason = "only their schemas are of use")]

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// Selects objects by their labels. All requirements must hold, and none at all selects everything.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub(super) struct LabelSelector {
    /// Labels with the values that they must have.
    match_labels: Option<BTreeMap<String, LabelValue>>,
    /// Further requirements.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    match_expressions: Option<Vec<Requirement>>,
}

/// A requirement on one label.
#[derive(JsonSchema)]
#[schemars(extend("anyOf" = [
    { "properties": { "operator": { "enum": ["In", "NotIn"] }, "values": { "minItems": 1 } }, "required": ["values"] },
    { "properties": { "operator": { "enum": ["Exists", "DoesNotExist"] }, "values": { "maxItems": 0 } } },
]))]
struct Requirement {
    /// The label.
    key: LabelKey,
    /// In, NotIn, Exists or DoesNotExist.
    operator: Operator,
    /// The values of In and NotIn; none for the others.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    values: Option<Vec<LabelValue>>,
}

#[derive(JsonSchema)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(JsonSchema)]
pub(super) struct LabelKey(
    #[schemars(
        length(max = 317),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
        )
    )]
    String,
);

#[derive(JsonSchema)]
struct LabelValue(#[schemars(length(max = 63), regex(pattern = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"))] String);
