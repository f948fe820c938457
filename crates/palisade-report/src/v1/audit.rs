//! What audited policies would do.

use schemars::JsonSchema;
use serde::Serialize;

use super::{DenialIcmp, DenialRule, DenialSide, Place, Policy};

/// What would become of a connection in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Becomes {
    /// It passes today.
    Denied,
    /// It is denied today. The other direction may still deny it.
    Allowed,
}

/// A connection attempt that a set of audited policies would treat otherwise, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Would {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Would`.
    pub kind: String,
    /// The set of audited policies.
    pub set: String,
    /// What it would become.
    pub becomes: Becomes,
    /// The source.
    pub from: DenialSide,
    /// The destination, after any Service.
    pub to: DenialSide,
    /// The IP protocol.
    pub protocol: String,
    /// The source's port; absent where the protocol has none or the packet was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The destination's port, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of ICMP and ICMPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<DenialIcmp>,
    /// `egress` for the source's side, `ingress` for the destination's.
    pub direction: String,
    /// What would decide, in a form for programs: `np/NAMESPACE/NAME#RULE`, `cnp/NAME#RULE`, `isolated`, `default`.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// What decides today, in a sentence.
    pub today: String,
    /// The rule that would decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<DenialRule>,
    /// The policies that would isolate the pod, when no rule accepts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub isolated_by: Vec<Policy>,
    /// How many packets of this connection have been seen so far.
    pub packets: u64,
}

/// What sets of audited policies would have done with the traffic that was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `AuditReport`.
    pub kind: String,
    /// Set by set.
    pub sets: Vec<AuditSet>,
}

/// One set of audited policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditSet {
    /// Its name.
    pub name: String,
    /// Since when it has been watched as it is now by all nodes, in seconds since 1970; absent if no node watches it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// How long that is.
    pub seconds: u64,
    /// Its policies.
    pub policies: Vec<AuditPolicy>,
    /// Connections that pass today and would not.
    pub breaks: Vec<AuditFlow>,
    /// Connections that are denied today and would pass.
    pub opens: Vec<AuditFlow>,
    /// Connections that are denied today and would still be, although one direction would change its mind.
    pub stays_denied: Vec<AuditFlow>,
    /// Pods that the set selects and that had connections in a direction it speaks of.
    pub seen: Vec<AuditSubject>,
    /// Those that had none: nothing is known about them.
    pub never_seen: Vec<AuditSubject>,
    /// Flows that were seen and would no longer fare otherwise, because other policies or pods have changed.
    pub outdated: usize,
    /// Connections that are in none of the lists, because there were too many of them.
    pub not_kept: u64,
    /// Packets that were logged and never read.
    pub lost: u64,
}

/// A policy that is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPolicy {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Where its mode is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What has it enforced in a live cluster, one command after the other.
    pub promote: Vec<String>,
}

/// Connections that fare alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditFlow {
    /// `NAMESPACE/POD`, `node NAME` or an address.
    pub from: String,
    /// Likewise.
    pub to: String,
    /// The IP protocol.
    pub protocol: String,
    /// The destination's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How many were seen.
    pub connections: u64,
    /// When the first was seen, in seconds since 1970.
    pub first: u64,
    /// When the last was seen.
    pub last: u64,
    /// The directions that would change their mind.
    pub turns: Vec<AuditTurn>,
    /// What denies it today and would go on to, in the other direction. Absent where both directions would change their mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_denied: Option<String>,
}

/// A direction that would change its mind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditTurn {
    /// `egress` or `ingress`.
    pub direction: String,
    /// What it would become.
    pub becomes: Becomes,
    /// What would decide, in a form for programs.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// What decides today, in a sentence.
    pub today: String,
    /// Where what would decide is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A pod that a set selects, in a direction that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditSubject {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// `egress` or `ingress`.
    pub direction: String,
    /// How many new connections it had, whatever became of them.
    pub connections: u64,
}
