//! What `palisade verify` says.

use schemars::JsonSchema;
use serde::Serialize;

use super::DenialSide;

/// Whether the kernel of a node does what the policies say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `Verification`.
    pub kind: String,
    /// The node.
    pub node: String,
    /// Whether everything is as it should be: no finding but notes.
    pub holds: bool,
    /// What the table was held against.
    pub compared: VerifyCompared,
    /// What is not as it should be, worst first.
    pub findings: Vec<VerifyFinding>,
    /// What was put back, by `--repair`. The findings are those that were there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<VerifyRepair>,
}

/// How much the table should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyCompared {
    /// Chains.
    pub chains: usize,
    /// Rules.
    pub rules: usize,
    /// Maps and sets.
    pub maps: usize,
    /// Elements of these.
    pub elements: usize,
    /// Programs of the pods of the node, of both directions.
    pub programs: usize,
    /// Classes of peers that these tell apart.
    pub classes: usize,
    /// Pods of the node.
    pub pods: usize,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyFinding {
    /// Its stable name, such as `element-missing` or `xdp-program`.
    pub name: String,
    /// What it means for policy.
    pub weight: VerifyWeight,
    /// The object or link that it is about.
    pub object: String,
    /// What is there and what should be, in a sentence.
    pub sentence: String,
    /// What it does.
    pub effect: VerifyEffect,
    /// Why no packet shows what it does, when that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown: Option<String>,
    /// A packet that fares otherwise than it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_example: Option<VerifyPacket>,
    /// What to do.
    pub help: String,
}

/// What a finding means for policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum VerifyWeight {
    /// Packets can go where our hooks do not see them: policy cannot be enforced there.
    Unenforceable,
    /// The kernel does not hold what it should.
    Difference,
    /// Worth knowing, and no reason to doubt the rest.
    Note,
}

/// What a finding does to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum VerifyEffect {
    /// Something is let through that policy denies.
    Opens,
    /// Something is dropped that policy allows.
    Closes,
    /// No connection fares otherwise.
    NoVerdict,
    /// What it does is not known.
    Unknown,
}

/// A packet that fares otherwise than it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyPacket {
    /// The source.
    pub from: DenialSide,
    /// The destination, after any Service.
    pub to: DenialSide,
    /// The IP protocol.
    pub protocol: String,
    /// The destination's port, where the protocol has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where it is met: `forward`, `input` or `ingress`.
    pub hook: String,
    /// The link that it comes in by, at ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The state of its connection: `new`, `established`, `related` or `invalid`.
    pub state: String,
    /// What should become of it.
    pub wanted: VerifyFate,
    /// What does.
    pub found: VerifyFate,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyFate {
    /// Whether it passes.
    pub accepted: bool,
    /// What the rules that decide come from, in order.
    pub origins: Vec<String>,
}

/// What `--repair` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyRepair {
    /// What was done, in a sentence.
    pub sentence: String,
    /// Names of findings that are still there afterwards.
    pub left: Vec<String>,
}
