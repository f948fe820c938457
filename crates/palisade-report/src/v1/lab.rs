//! What a lab says.

use schemars::JsonSchema;
use serde::Serialize;

use super::Verdict;

/// What became of connections that were tried with real packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `ProbeReport`.
    pub kind: String,
    /// One for each connection, in order.
    pub probes: Vec<Probe>,
    /// How many did what was decided.
    pub agree: usize,
    /// How many did not.
    pub differ: usize,
    /// How many could not be sent: they are in neither number.
    pub unsent: usize,
}

/// One connection that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The source.
    pub from: String,
    /// The destination, as it was called.
    pub to: String,
    /// The source's address.
    pub from_address: String,
    /// The address that was called.
    pub to_address: String,
    /// The IP protocol.
    pub protocol: String,
    /// The port that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What policy says.
    pub decided: Verdict,
    /// What became of the packets.
    pub found: Found,
    /// What decided, in a sentence.
    pub sentence: String,
    /// Whether the packets did what was decided, by the rule that decided it.
    pub agrees: bool,
}

/// What became of the packets of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Found {
    /// The destination answered.
    Answered,
    /// They arrived, and nothing listens there.
    Refused,
    /// A rule dropped them, and said so.
    Denied,
    /// A rule said that it dropped them, and they arrived all the same.
    Leaked,
    /// Neither an answer nor a denial came in time.
    Silent,
    /// They could not be sent, and why.
    Unsent(String),
}

/// A lab that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabStatus {
    /// `palisade.dev/v1`.
    pub api_version: String,
    /// `LabStatus`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The process that holds it.
    pub process: u32,
    /// For how long it is up.
    pub seconds: u64,
    /// What it was made from.
    pub from: Vec<String>,
    /// Whether changes of that are followed.
    pub watching: bool,
    /// `routed` or `bridged`.
    pub network: String,
    /// Its nodes with their pods.
    pub nodes: Vec<LabNode>,
    /// Its Services.
    pub services: Vec<LabService>,
    /// How many policies are in force.
    pub policies: usize,
    /// Connections that were denied so far.
    pub denied_connections: u64,
    /// Packets that were denied so far.
    pub denied_packets: u64,
    /// Denied packets that were logged and never read.
    pub lost_packets: u64,
    /// What happened to the lab itself, the latest last.
    pub notes: Vec<String>,
}

/// A node of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabNode {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its pods, those on its own network among them.
    pub pods: Vec<LabPod>,
}

/// A pod of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabPod {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Its addresses; the node's for a pod on the node's network.
    pub addresses: Vec<String>,
    /// What it listens on, as in `tcp/8080`.
    pub listens: Vec<String>,
    /// Whether it is on its node's network.
    pub host_network: bool,
}

/// A Service of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabService {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Where it is called; nothing for a headless one.
    pub addresses: Vec<String>,
    /// As in `tcp/80`.
    pub ports: Vec<String>,
}
