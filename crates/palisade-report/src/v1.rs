//! Version 1 of every answer. Fields are added, never renamed or removed; a change of meaning is a `v2`.

mod acceptance;
mod allow;
mod audit;
mod conversion;
mod diff;
mod exposure;
mod lab;
mod lint;
mod matrix;
mod metrics;
mod overrides;
mod status;
mod verify;

use schemars::JsonSchema;
use serde::Serialize;

pub use acceptance::Acceptance;
pub use allow::{AllowAction, AllowBlock, AllowChange, AllowOutcome, Allowance};
pub use audit::{AuditFlow, AuditPolicy, AuditReport, AuditSet, AuditSubject, AuditTurn, Becomes, Would};
pub use conversion::{Conversion, ConversionLoss, ConversionReach, ConversionUntouched, ConversionWeight};
pub use diff::{Diff, DiffBecause, DiffCause, DiffChange, DiffDiagnostic, DiffEnds, DiffVerb, DiffVersion, DiffWithin, DiffWorkload};
pub use exposure::{Exposed, Exposure, ExposureExample, ExposureLabelled, ExposureRange, ExposureRow, ExposureTraffic};
pub use lab::{Found, LabNode, LabPod, LabService, LabStatus, Probe, ProbeReport};
pub use lint::{LintFinding, LintPlace, LintReport, LintRule};
pub use matrix::{Matrix, MatrixEnd, MatrixRow, MatrixTraffic};
pub use metrics::{Metrics, MetricsCounter, MetricsLabel, MetricsNode};
pub use overrides::{
    OverriddenBy, OverriddenExtent, OverriddenPart, OverriddenPolicy, Override, OverrideComparison, OverridePair, OverrideReport,
    OverrideRule, OverrideTie, OverrideTieKind, OverridingPolicy,
};
pub use status::{Status, StatusAudited, StatusController, StatusEnds, StatusPolicies};
pub use verify::{Verification, VerifyCompared, VerifyEffect, VerifyFate, VerifyFinding, VerifyPacket, VerifyRepair, VerifyWeight};

/// The `apiVersion` of everything in here.
pub const API_VERSION: &str = "palisade.dev/v1";

/// Why a connection is allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Explanation`.
    pub kind: String,
    /// What was asked.
    pub question: Question,
    /// The answer over all cases; `unknown` when an object that may matter could not be read.
    pub verdict: Verdict,
    /// What the objects that could be read say, when the verdict is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_be: Option<Verdict>,
    /// False when the verdict is unknown.
    pub trusted: bool,
    /// Where the verdict is limited by what was read: policies that were refused, resources that are forbidden.
    pub qualifications: Vec<String>,
    /// One for each way the connection can go that policy tells apart.
    pub cases: Vec<Case>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The source, as written.
    pub from: String,
    /// The destination, as written.
    pub to: String,
    /// `tcp`, `udp`, `sctp`, `icmp`.
    pub protocol: String,
    /// The port, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It passes.
    Allowed,
    /// It is dropped.
    Denied,
    /// It depends on what a domain name in a policy resolves to.
    DependsOnDns,
    /// Some cases are allowed and some denied.
    Mixed,
    /// The Service has no endpoint, so no policy is asked.
    NoEndpoints,
    /// An object that may matter could not be read.
    Unknown,
}

/// One way the connection can go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// The source.
    pub from: Side,
    /// The destination, after any Service.
    pub to: Side,
    /// The IP protocol.
    pub protocol: String,
    /// The destination's port, after any Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether a Service led here.
    pub through_service: bool,
    /// `IPv4` or `IPv6`, where addresses are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// How many pairs of pods this case stands for.
    pub pairs: usize,
    /// The answer.
    pub verdict: Verdict,
    /// The source's side of it.
    pub egress: Walk,
    /// The destination's side of it.
    pub ingress: Walk,
    /// What to know about this answer.
    pub notes: Vec<String>,
    /// What would change it; each was tried out.
    pub flips: Vec<Flip>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// What to call it.
    pub name: String,
    /// What stands there.
    pub kind: SideKind,
    /// The address it uses, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its labels.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub labels: String,
    /// Others that this one stands for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
}

/// What stands at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SideKind {
    /// A pod of the pod network.
    Pod,
    /// A node, or a host-network pod on it.
    Node,
    /// An address that the cluster does not know.
    Outside,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Walk {
    /// Its answer.
    pub verdict: Verdict,
    /// What gave it, in a form for programs: `np/NAMESPACE/NAME#RULE`, `cnp/NAME#RULE`, `isolated`, `default`, `own-node`, `itself`, `not-a-pod`.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// The tiers that were asked, in order.
    pub tiers: Vec<Tier>,
}

/// One tier that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tier {
    /// `Admin`, `NetworkPolicy` or `Baseline`.
    pub tier: String,
    /// What it said.
    pub outcome: Outcome,
    /// The same in a sentence.
    pub sentence: String,
    /// The policies that select the subject, in the order they are asked.
    pub policies: Vec<Policy>,
    /// The rules that were tried, in order.
    pub rules: Vec<Rule>,
    /// The place in the manifests that decided, or came nearest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
}

/// What a tier said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// An Accept rule matched.
    Accept,
    /// A Deny rule matched.
    Deny,
    /// A Pass rule matched: on to the next tier.
    Pass,
    /// No rule matched: on to the next tier.
    NoMatch,
    /// No NetworkPolicy isolates the subject in this direction.
    NotIsolated,
    /// Isolated, and no rule accepts.
    Isolated,
    /// Isolated, but the source is the subject's own node.
    OwnNode,
    /// Isolated, but a Service led the pod back to itself.
    Itself,
}

/// A policy that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The shape that it was written in, where its kind has several: `kep2091`, `v0.1.0` or `v0.1.7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Its priority as it was written. In the shape `kep2091` a larger one wins, in all others a smaller one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// `np/NAMESPACE/NAME#RULE` or `cnp/NAME#RULE`.
    pub rule: String,
    /// The name the author gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `Accept`, `Deny` or `Pass`.
    pub action: String,
    /// Whether it matched.
    pub result: Tried,
    /// The entry of `from` or `to` that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<usize>,
    /// The entry of `ports` or `protocols` that matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<usize>,
    /// Why it did not match, one sentence for each part that missed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// True for the rule of an isolated pod that came nearest to accepting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nearest: bool,
}

/// What came of trying a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Tried {
    /// It matched.
    Matched,
    /// It did not.
    Missed,
    /// It matches if a domain name resolves to the destination.
    DependsOnDns,
}

/// A place in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The file as it was named, `-`, or the resource of a live cluster.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

/// A marked line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Where it begins.
    pub place: Place,
    /// The field, as a path from the object.
    pub path: String,
    /// The whole line.
    pub line: String,
    /// First byte of the mark in the line.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// What to say under it.
    pub label: String,
}

/// A way to change the verdict: all edits together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Flip {
    /// The edits.
    pub edits: Vec<Edit>,
}

/// One change to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// What to do.
    pub sentence: String,
    /// What to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yaml: Option<String>,
}

/// Something that was noticed while reading input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// A stable name for this sort of problem.
    pub code: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The object it concerns.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The field it concerns.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl From<&palisade_model::Diagnostic> for Diagnostic {
    fn from(it: &palisade_model::Diagnostic) -> Diagnostic {
        Diagnostic {
            severity: it.severity.to_string(),
            code: it.code.to_owned(),
            place: it.location.as_ref().map(Place::from),
            object: it.object.to_string(),
            path: it.path.to_string(),
            message: it.message.to_string(),
            help: it.help.as_deref().map(str::to_owned),
        }
    }
}

impl From<&palisade_model::Location> for Place {
    fn from(it: &palisade_model::Location) -> Place {
        Place { file: it.file.to_string(), line: it.line, column: it.column }
    }
}

/// Whether expectations about connections hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `TestReport`.
    pub kind: String,
    /// False when an object or an expectation could not be read: then nothing is proven.
    pub trusted: bool,
    /// Where the results are limited by what was read.
    pub qualifications: Vec<String>,
    /// How many hold.
    pub passed: usize,
    /// How many do not.
    pub failed: usize,
    /// How many cannot be told.
    pub unknown: usize,
    /// One for each expectation, in the order of the file.
    pub tests: Vec<Test>,
    /// What was noticed while reading.
    pub diagnostics: Vec<Diagnostic>,
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// The title of the entry it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sentence as written.
    pub text: String,
    /// Where it stands.
    pub place: Place,
    /// What became of it.
    pub result: TestResult,
    /// The same in a sentence.
    pub message: String,
    /// A few connections that are not as expected, each explained.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counterexamples: Vec<Counterexample>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TestResult {
    /// It holds.
    Passed,
    /// It does not.
    Failed,
    /// It cannot be told.
    Unknown,
}

/// A connection that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counterexample {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// `tcp/5432`.
    pub traffic: String,
    /// What it is.
    pub verdict: Verdict,
    /// What it should be.
    pub wanted: Verdict,
    /// Why.
    pub explanation: Explanation,
}

/// A connection attempt that was denied on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Denial`.
    pub kind: String,
    /// The source.
    pub from: DenialSide,
    /// The destination, after any Service.
    pub to: DenialSide,
    /// The IP protocol.
    pub protocol: String,
    /// The source's port; absent where the protocol has none or the packet was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The destination's port; absent where the protocol has none or the packet was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of ICMP and ICMPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<DenialIcmp>,
    /// `egress` when the source's side denied it, `ingress` when the destination's did; absent when no policy did, or when it is
    /// not known any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What denied it, in a form for programs: `np/NAMESPACE/NAME#RULE`, `cnp/NAME#RULE`, `isolated`; before any policy was asked,
    /// `forged-source`, `forged-node`, `invalid-state` or `not-a-beginning`; `unknown` when the rules have changed meanwhile.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// The rule that denied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DenialRule>,
    /// The policies that isolate the pod, when no rule accepts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_by: Vec<Policy>,
    /// How many packets of this connection have been denied by the same so far.
    pub packets: u64,
}

/// Live connections that a node has ended, alike in all but the port of who opened them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Cut`.
    pub kind: String,
    /// The node that has ended them.
    pub node: String,
    /// Who opened them.
    pub from: DenialSide,
    /// Who was called, after any Service.
    pub to: DenialSide,
    /// The IP protocol.
    pub protocol: String,
    /// The port that was called; absent where the protocol has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// `egress` when the policies of who opened them deny it now, `ingress` when those of who was called do; absent when a pod is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What denies them now, as in a `Denial`; `pod-gone` when the pod at one end is gone.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// The rule that denies them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DenialRule>,
    /// The policies that isolate the pod, when no rule accepts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_by: Vec<Policy>,
    /// How many connections these were.
    pub connections: u64,
}

/// One end of a denied connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DenialSide {
    /// `NAMESPACE/NAME` of the pod that has the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node that has the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The address in the packet.
    pub address: String,
}

/// Type and code of an ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DenialIcmp {
    /// The type.
    pub r#type: u8,
    /// The code.
    pub code: u8,
}

/// The rule that denied a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DenialRule {
    /// The kind of its policy.
    pub kind: String,
    /// The namespace of its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of its policy.
    pub name: String,
    /// Its place in the list of its direction, from 0.
    pub index: usize,
    /// The name the author gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
}
