//! What to write so that a connection is allowed.

use schemars::JsonSchema;
use serde::Serialize;

use super::{DiffChange, Edit, Explanation, Mark, Policy};

/// What to write so that a connection is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allowance {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Allowance`.
    pub kind: String,
    /// What came out.
    pub outcome: AllowOutcome,
    /// The connection before any change, and what was noticed while reading.
    pub explanation: Explanation,
    /// What no NetworkPolicy can change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<AllowBlock>,
    /// What to write: all of it. Where the outcome is `useless`, this is needed besides what stands in the way.
    pub changes: Vec<AllowChange>,
    /// What the changes open and close beside the connection, between workloads that were read. Nodes are left out.
    pub others: Vec<DiffChange>,
    /// What the changes open that cannot be counted: a node's address is that of everything on its network.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AllowOutcome {
    /// Nothing has to be written.
    AllowedAlready,
    /// With the changes it is allowed; they were tried out together.
    Proposed,
    /// Whatever NetworkPolicy is written, it is not.
    Useless,
}

/// Something that stands in the way of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowBlock {
    /// `egress` at the source, `ingress` at the destination; absent where neither side is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// The pod whose side it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// What stands in the way, in a sentence.
    pub sentence: String,
    /// The rule: `cnp/NAME#RULE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The cluster policy that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// Whom to ask, or what to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// What the owners of the policy could write; it was tried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// One policy to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowChange {
    /// What to do.
    pub action: AllowAction,
    /// The policy.
    pub policy: Policy,
    /// The same in a sentence.
    pub sentence: String,
    /// The whole policy afterwards.
    pub yaml: String,
    /// The edit of the text that the policy was read from, as a unified diff; those of one file are to be applied in order. Absent for a new policy, and
    /// where the text cannot be edited without writing the policy anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Directions in which pods are isolated that were not: everything that is not accepted is then denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub newly_isolates: Vec<String>,
}

/// What to do with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AllowAction {
    /// It is new.
    Create,
    /// It is there, and gets more.
    Extend,
}
