//! What cluster policies make of NetworkPolicies.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diagnostic, DiffChange, Place, Policy};

/// What cluster policies make of NetworkPolicies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideReport {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `OverrideReport`.
    pub kind: String,
    /// True if cluster policies are not to be named: only that something is overridden is said.
    pub redacted: bool,
    /// Where the answer is limited by what was read.
    pub qualifications: Vec<String>,
    /// The cluster policies that were asked about, in the order in which they are evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_policies: Vec<OverridingPolicy>,
    /// The NetworkPolicies that were asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_policies: Vec<OverriddenPolicy>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// A cluster policy, and what it does to NetworkPolicies and its equals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverridingPolicy {
    /// `cnp/NAME`, `anp/NAME`, `banp/NAME` or `kep2091/NAME`.
    pub reference: String,
    /// The policy.
    pub policy: Policy,
    /// `Admin` or `Baseline`. A policy of Baseline overrides nothing.
    pub tier: String,
    /// Connections that it decides otherwise than NetworkPolicies would.
    pub overrides: Vec<Override>,
    /// Other policies of its tier and priority.
    pub ties: Vec<OverrideTie>,
    /// What is compared.
    pub compared: OverrideComparison,
    /// What opens and closes by that.
    pub changes: Vec<DiffChange>,
}

/// What is compared to say what opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverrideComparison {
    /// The cluster as it is, and without the policy.
    Goes,
    /// The cluster without the policy, or with the one of its name, and with the proposed one.
    Comes,
}

/// Connections that a cluster policy decides otherwise than NetworkPolicies would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// `egress` at the source, `ingress` at the destination.
    pub direction: String,
    /// `Deny` of what NetworkPolicies accept, or `Accept` of what they do not.
    pub action: String,
    /// The connections: `closed` has what is denied, `opened` what is accepted.
    pub connections: DiffChange,
    /// Which rules override what.
    pub overridden: Vec<OverridePair>,
}

/// A rule of a cluster policy, and what it overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverridePair {
    /// The rule that overrides.
    pub by: OverrideRule,
    /// The NetworkPolicy: `np/NAMESPACE/NAME`.
    pub network_policy: String,
    /// Its rule, where the rule accepts what is denied; absent where the policy isolates from what is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<OverrideRule>,
    /// Where the rule or the policy stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The same in a sentence.
    pub sentence: String,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// `np/NAMESPACE/NAME#RULE` or `cnp/NAME#RULE`, counted within its direction.
    pub rule: String,
    /// The name the author gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `egress` or `ingress`.
    pub direction: String,
}

/// Another policy of the same tier and priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideTie {
    /// The other: `cnp/NAME`.
    pub with: String,
    /// How the two get on.
    pub kind: OverrideTieKind,
    /// The same in a sentence.
    pub sentence: String,
    /// Workloads that both are about now.
    pub shared: Vec<String>,
    /// Rules that can match one connection and act differently: of this policy, and of the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<[OverrideRule; 2]>,
    /// What would change if the other were asked first, or last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<DiffChange>,
}

/// How two policies of the same tier and priority get on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverrideTieKind {
    /// Connections there are now depend on which of them is asked first.
    Conflict,
    /// None does now, but with other pods some could.
    Possible,
    /// Wherever both match, they act alike.
    Harmless,
    /// No connection can be a matter of both.
    Disjoint,
}

/// A NetworkPolicy, as cluster policies leave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenPolicy {
    /// `np/NAMESPACE/NAME`.
    pub reference: String,
    /// The policy.
    pub policy: Policy,
    /// Its rules, and for each direction in which it isolates, that.
    pub parts: Vec<OverriddenPart>,
}

/// A rule of a NetworkPolicy, or its isolation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenPart {
    /// `egress` or `ingress`.
    pub direction: String,
    /// The rule; absent for the isolation of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<OverrideRule>,
    /// What of it is overridden.
    pub overridden: OverriddenExtent,
    /// The same in a sentence.
    pub sentence: String,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// By what; absent where cluster policies are not to be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<OverriddenBy>,
}

/// How much of a rule or of an isolation is overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverriddenExtent {
    /// Nothing.
    Nothing,
    /// Some connections of pods there are.
    Partly,
    /// All connections of pods there are.
    Wholly,
}

/// A cluster policy that overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenBy {
    /// The policy.
    pub policy: Policy,
    /// Its rules.
    pub rules: Vec<OverrideRule>,
    /// Where the first of them stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Connections in which this plays a part.
    pub connections: Vec<DiffChange>,
}
