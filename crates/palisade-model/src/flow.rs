//! What is judged: one connection, and the answer to it.

use std::fmt;
use std::net::IpAddr;

use crate::cluster::{EndpointId, NodeId};
use crate::network::Family;
use crate::networks::NetworkId;
use crate::origin::{PolicyRef, RuleRef};
use crate::policy::PortProtocol;

/// One connection, as the first packet of it looks at the enforcement point: after Service DNAT, before any SNAT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The network that both ends are on.
    pub network: NetworkId,
    /// Who opens it.
    pub from: End,
    /// Who is called.
    pub to: End,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The destination port, for protocols that have ports.
    pub port: Option<u16>,
    /// How the packet got here.
    pub path: Path,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// What stands there.
    pub place: Place,
    /// Its address, where one is known. Without an address no CIDR matches.
    pub address: Option<IpAddr>,
}

/// What stands at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A pod on the network of the connection.
    Pod(EndpointId),
    /// A node, or a host-network pod on it.
    Node(NodeId),
    /// Neither: an address the cluster does not know.
    Outside,
}

/// Whether the connection was made to the end itself or to a Service in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// To the address itself.
    Direct,
    /// Through a Service. Matters only when the Service leads back to the pod that called it (semantics 1.9).
    Service,
}

/// An IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// A protocol with ports.
    Port(PortProtocol),
    /// ICMP of the packet's family.
    Icmp,
    /// Any other, by number.
    Other(u8),
}

impl Protocol {
    /// TCP.
    pub const TCP: Protocol = Protocol::Port(PortProtocol::Tcp);
    /// UDP.
    pub const UDP: Protocol = Protocol::Port(PortProtocol::Udp);
    /// SCTP.
    pub const SCTP: Protocol = Protocol::Port(PortProtocol::Sctp);

    /// Its number in a packet of a family: ICMP has two.
    pub fn number(self, family: Family) -> u8 {
        match (self, family) {
            (Protocol::Port(protocol), _) => protocol.number(),
            (Protocol::Icmp, Family::V4) => 1,
            (Protocol::Icmp, Family::V6) => 58,
            (Protocol::Other(number), _) => number,
        }
    }

    /// Reads `tcp`, `udp`, `sctp` or `icmp`, in any case.
    pub fn parse(text: &str) -> Option<Protocol> {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Some(Protocol::TCP),
            "udp" => Some(Protocol::UDP),
            "sctp" => Some(Protocol::SCTP),
            "icmp" => Some(Protocol::Icmp),
            _ => None,
        }
    }
}

impl PortProtocol {
    /// Its number in a packet.
    pub fn number(self) -> u8 {
        match self {
            PortProtocol::Tcp => 6,
            PortProtocol::Udp => 17,
            PortProtocol::Sctp => 132,
        }
    }
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PortProtocol::Tcp => "tcp",
            PortProtocol::Udp => "udp",
            PortProtocol::Sctp => "sctp",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protocol::Port(protocol) => protocol.fmt(f),
            Protocol::Icmp => f.pad("icmp"),
            Protocol::Other(number) => write!(f, "protocol {number}"),
        }
    }
}

/// The answer for a connection, or for one direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It passes.
    Accept,
    /// It is dropped.
    Deny,
    /// It passes if a domain name in a policy resolves to the destination, and is dropped otherwise.
    DependsOnDns,
}

impl Verdict {
    /// A connection passes only if both directions accept.
    pub fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
            (Verdict::DependsOnDns, _) | (_, Verdict::DependsOnDns) => Verdict::DependsOnDns,
            (Verdict::Accept, Verdict::Accept) => Verdict::Accept,
        }
    }
}

/// What decided one direction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Nobody to protect: this end is not a pod of the pod network.
    NotAPod,
    /// A pod talking to itself.
    Itself,
    /// This rule.
    Rule(RuleRef),
    /// The pod is isolated, and the source is the node it runs on.
    OwnNode,
    /// The pod is isolated by these policies, and none of their rules matches.
    Isolated(Vec<PolicyRef>),
    /// No policy had an answer.
    Default,
}

/// The short form that `expect.txt` uses.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotAPod => f.write_str("not-a-pod"),
            Reason::Itself => f.write_str("itself"),
            Reason::Rule(rule) => write!(f, "{rule}"),
            Reason::OwnNode => f.write_str("own-node"),
            Reason::Isolated(_) => f.write_str("isolated"),
            Reason::Default => f.write_str("default"),
        }
    }
}
