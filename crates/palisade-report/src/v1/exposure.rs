//! To whom workloads are exposed.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diagnostic, MatrixTraffic};

/// To whom the workloads of a cluster are exposed, as far as their own side decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Exposure`.
    pub kind: String,
    /// Where the rows are limited by what was read, and what was taken for granted of pods that do not exist.
    pub qualifications: Vec<String>,
    /// One for each workload and direction, by workload, ingress first.
    pub rows: Vec<ExposureRow>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// A workload in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRow {
    /// `shop/web[Deployment]`.
    pub workload: String,
    /// Its namespace.
    pub namespace: String,
    /// How many pods were read.
    pub pods: usize,
    /// To whom it is exposed.
    #[serde(flatten)]
    pub exposed: Exposed,
}

/// To whom some workload is exposed in one direction. Where its pods fare differently, what some of them let pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exposed {
    /// `ingress`: who may reach it; `egress`: whom it may reach.
    pub direction: String,
    /// `nothing` if no policy of any tier speaks about it in this direction, `some pods` if some of its pods have none, else `policy`.
    pub protected_by: String,
    /// The tiers that speak about it: `Admin`, `NetworkPolicy`, `Baseline`.
    pub tiers: Vec<String>,
    /// With every pod of every other namespace. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_cluster: Option<ExposureTraffic>,
    /// With every pod of a namespace that does not exist yet, whatever their labels.
    pub any_new_namespace: ExposureTraffic,
    /// With a pod without labels of a new namespace that has none but its name.
    pub unlabelled_new_namespace: ExposureTraffic,
    /// With pods of a new namespace that are labelled so, beyond what one without labels may.
    pub labelled_new_namespaces: Vec<ExposureLabelled>,
    /// With addresses outside of the cluster, by address, IPv4 first.
    pub outside: Vec<ExposureRange>,
    /// What passes to the outside only if a domain name in a policy resolves to the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on_dns: Vec<MatrixTraffic>,
}

/// What passes, and who lets it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureTraffic {
    /// In words: `TCP 80,443,UDP 53`.
    pub connections: String,
    /// The same in parts.
    pub allowed: Vec<MatrixTraffic>,
    /// The tiers that accept it, or `default` for what nobody decides.
    pub let_by: Vec<String>,
}

/// Pods that do not exist, by their labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureLabelled {
    /// What the labels of the namespace must meet; absent if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What the labels of the pod must meet; absent if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Labels that do, as they were tried.
    pub example: ExposureExample,
    /// All that passes.
    #[serde(flatten)]
    pub traffic: ExposureTraffic,
}

/// Labels that were tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureExample {
    /// Of the namespace, its name among them.
    pub namespace: String,
    /// Of the pod.
    pub pod: String,
}

/// Addresses outside of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRange {
    /// The first and the last address.
    pub addresses: [String; 2],
    /// The same in words: `any IPv4 address`, `10.0.0.0-10.255.255.255`.
    pub range: String,
    /// What passes.
    #[serde(flatten)]
    pub traffic: ExposureTraffic,
}
