//! What was read.

use schemars::JsonSchema;
use serde::Serialize;

use super::Diagnostic;

/// What a cluster has, as far as policy depends on it, and which controllers its policies are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Status`.
    pub kind: String,
    /// The controller as which this is answered, by all its names.
    pub controller: Vec<String>,
    /// Where the counts are limited by what was read.
    pub qualifications: Vec<String>,
    /// Ends of connections.
    pub ends: StatusEnds,
    /// Policies that count here, in the order in which tiers are asked.
    pub policies: Vec<StatusPolicies>,
    /// Policies by what their label `networking.k8s.io/policy-controller-name` says, those without it first.
    pub controllers: Vec<StatusController>,
    /// Policies that are watched and not enforced, by set. They are in none of the other lists.
    pub audited: Vec<StatusAudited>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// Policies that are watched together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusAudited {
    /// The name of the set.
    pub set: String,
    /// Its policies, as answers name them.
    pub policies: Vec<String>,
}

/// Ends of connections, by how many there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusEnds {
    /// Namespaces, also those that are only assumed.
    pub namespaces: usize,
    /// Pods of the pod network.
    pub pods: usize,
    /// Pods on the network of their node, which no policy selects.
    pub host_network_pods: usize,
    /// Nodes.
    pub nodes: usize,
    /// Services.
    pub services: usize,
}

/// Policies of one tier and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusPolicies {
    /// The tier.
    pub tier: String,
    /// The kind.
    pub policy_kind: String,
    /// The shape that they were written in, where the kind has several: `kep2091`, `v0.1.0` or `v0.1.7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// How many.
    pub count: usize,
}

/// Policies with one value of the label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusController {
    /// The value; absent for policies without the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `everybody`: no label; `ours`; `foreign`: another controller; `nobody`: an empty value; `off`: switched off.
    pub whose: String,
    /// Whether they count here.
    pub counts: bool,
    /// How many of each kind.
    pub kinds: std::collections::BTreeMap<String, usize>,
    /// How many in all.
    pub total: usize,
}
