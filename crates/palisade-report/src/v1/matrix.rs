//! Who reaches whom.

use schemars::JsonSchema;
use serde::Serialize;

use super::Diagnostic;

/// Who reaches whom, for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Matrix {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Matrix`.
    pub kind: String,
    /// What the rows are about: `workload`, `namespace` or `class`.
    pub by: String,
    /// `connections`, or `denied` for the pairs that cannot talk at all.
    pub shown: String,
    /// Where the rows are limited by what was read.
    pub qualifications: Vec<String>,
    /// Sorted by source, then destination; ranges of addresses come last.
    pub rows: Vec<MatrixRow>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// What one side may open towards another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatrixRow {
    /// The source.
    pub from: MatrixEnd,
    /// The destination.
    pub to: MatrixEnd,
    /// `IPv4` or `IPv6`, where the families differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// What some pod of the source may open towards some pod of the destination, in words: `TCP 80,443,UDP 53`.
    pub connections: String,
    /// The same in parts.
    pub allowed: Vec<MatrixTraffic>,
    /// What of it not every pod of the one may open towards every pod of the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_some_pods: Vec<MatrixTraffic>,
    /// What is not allowed and would be if a domain name in a policy resolved to the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on_dns: Vec<MatrixTraffic>,
}

/// One side of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatrixEnd {
    /// `shop/web[Deployment]`, `shop[Namespace]` or `10.0.0.0-10.255.255.255[External]`.
    pub name: String,
    /// Of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The first and the last address of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<[String; 2]>,
}

/// A part of what passes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatrixTraffic {
    /// `tcp`, `udp`, `sctp`, or `other` for every protocol without ports.
    pub protocol: String,
    /// The lowest port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u16>,
    /// The highest port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u16>,
}
