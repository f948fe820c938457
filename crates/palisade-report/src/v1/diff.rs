//! What changes between two versions of a cluster.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diagnostic, MatrixTraffic, Place, Policy, Verdict};

/// What changes between two versions of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Diff`.
    pub kind: String,
    /// Where the changes are limited by what was read.
    pub qualifications: Vec<String>,
    /// Workloads that only the new version has.
    pub new_workloads: Vec<String>,
    /// Workloads that only the old version has.
    pub removed_workloads: Vec<String>,
    /// What opened first, then what changed, closed, was added and removed; by destination, then source.
    pub changes: Vec<DiffChange>,
    /// What was noticed while reading.
    pub diagnostics: Vec<DiffDiagnostic>,
}

/// Connections that changed in the same way: of everybody on one side with everybody on the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffChange {
    /// What has become of them.
    pub change: DiffVerb,
    /// Who opens them.
    pub from: DiffEnds,
    /// Who is called.
    pub to: DiffEnds,
    /// Which of the pairs it is about.
    pub within: DiffWithin,
    /// `IPv4` or `IPv6`, where the families differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The traffic in words: `TCP 80,443,UDP 53`, after `opened` and `closed` where there is both.
    pub connections: String,
    /// Allowed now, and not before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<MatrixTraffic>,
    /// Denied before, and allowed now if a domain name in a policy resolves to the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened_depending_on_dns: Vec<MatrixTraffic>,
    /// Denied now, and not before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<MatrixTraffic>,
    /// Allowed before, and now only if a domain name in a policy resolves to the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed_depending_on_dns: Vec<MatrixTraffic>,
    /// What was and is responsible, the most frequent first. Every end was asked about with some end of the other side, at one port of each stretch.
    pub because: Vec<DiffBecause>,
}

/// What has become of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiffVerb {
    /// Allowed now, and not before.
    Opened,
    /// Some opened, others closed.
    Changed,
    /// Allowed before, and not now.
    Closed,
    /// Allowed, and one of the ends is new.
    Added,
    /// Allowed before, and one of the ends is gone.
    Removed,
}

/// Which pairs of ends a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiffWithin {
    /// All of them.
    Any,
    /// Those of one namespace.
    SameNamespace,
    /// Those of two namespaces.
    OtherNamespaces,
}

/// Everybody on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffEnds {
    /// In few words, cut where there are many: `shop/* (5)`, `*/db[StatefulSet] (20)`, `every namespace but shop (120)`, `any address`.
    pub name: String,
    /// The workloads, all of them.
    pub workloads: Vec<DiffWorkload>,
    /// Addresses outside of the cluster, the first and the last of each range.
    pub addresses: Vec<[String; 2]>,
}

/// A workload on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffWorkload {
    /// `shop/web[Deployment]`, or `shop/once[Pod]` for a pod that nothing owns.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// True where the change is about some of its pods only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_some_pods: bool,
}

/// What decided one direction in each version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffBecause {
    /// `egress` at the source, `ingress` at the destination.
    pub direction: String,
    /// In the old version; absent where an end is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<DiffCause>,
    /// In the new version; absent where an end is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<DiffCause>,
}

/// What decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffCause {
    /// Its answer.
    pub verdict: Verdict,
    /// In a form for programs: `np/NAMESPACE/NAME#RULE`, `cnp/NAME#RULE`, `isolated`, `default`, `not-a-pod`.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// The policies that it comes from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
    /// Where the rule stands, or the first policy that isolates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Something that was noticed while reading one of the versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffDiagnostic {
    /// Which one.
    pub version: DiffVersion,
    /// What was noticed.
    pub diagnostic: Diagnostic,
}

/// One of the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiffVersion {
    /// The first.
    Old,
    /// The second, or the first with objects put over it.
    New,
}
