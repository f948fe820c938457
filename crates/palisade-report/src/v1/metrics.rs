//! What the agents of nodes count.

use schemars::JsonSchema;
use serde::Serialize;

/// Numbers of agents that only grow while an agent lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Metrics`.
    pub kind: String,
    /// Node by node.
    pub nodes: Vec<MetricsNode>,
}

/// The numbers of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsNode {
    /// The node.
    pub name: String,
    /// Its numbers.
    pub counters: Vec<MetricsCounter>,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsCounter {
    /// As Prometheus is told it.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// What is counted apart from others of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<MetricsLabel>,
    /// The number.
    pub value: u64,
}

/// What tells numbers of one name apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsLabel {
    /// For example `reason`.
    pub name: String,
    /// For example `ENOMEM`.
    pub value: String,
}
