//! A connection that a rule accepted, as its policy asked to have it logged.

use schemars::JsonSchema;
use serde::Serialize;

use super::{DenialIcmp, DenialRule, DenialSide};

/// A connection that a rule let pass on a node, at one of its ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acceptance {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Acceptance`.
    pub kind: String,
    /// The source.
    pub from: DenialSide,
    /// The destination, after any Service.
    pub to: DenialSide,
    /// The IP protocol.
    pub protocol: String,
    /// The source's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The destination's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Of ICMP and ICMPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<DenialIcmp>,
    /// `egress` when the source's side let it pass, `ingress` when the destination's did.
    pub direction: String,
    /// What let it pass, in a form for programs: `np/NAMESPACE/NAME#RULE`, `cnp/NAME#RULE`.
    pub reason: String,
    /// The same in a sentence.
    pub sentence: String,
    /// The rule that let it pass.
    pub rule: DenialRule,
}
