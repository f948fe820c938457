//! What a probe asks, and what it can find.

use std::net::IpAddr;

use palisade_agent::Denial;
use palisade_model::{PodName, Protocol};

/// One connection to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub from: Speaker,
    /// An address of the speaker; any at all for the outside.
    pub source: IpAddr,
    /// An address of a pod, a node, a Service or the outside.
    pub to: IpAddr,
    pub protocol: Protocol,
    /// For protocols that have ports.
    pub port: Option<u16>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    Pod(PodName),
    /// A node, or a pod on its network.
    Node(Box<str>),
    /// Whoever is not in the cluster.
    Outside,
}

/// What became of a probe. There is proof for each but `Silent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The destination answered: SYN ACK, a datagram, INIT ACK, an echo.
    Answered,
    /// It arrived, and nothing listens there: RST, port or protocol unreachable.
    Refused,
    /// A rule dropped it.
    Denied(Box<Denial>),
    /// A rule dropped it, and it arrived all the same.
    Leaked(Box<Denial>),
    /// Neither an answer nor a denial in time.
    Silent,
    /// It was not sent, and why.
    Unsent(String),
}

impl Finding {
    /// Whether the packet arrived; None where that is not known.
    pub fn arrived(&self) -> Option<bool> {
        match self {
            Finding::Answered | Finding::Refused | Finding::Leaked(_) => Some(true),
            Finding::Denied(_) => Some(false),
            Finding::Silent | Finding::Unsent(_) => None,
        }
    }
}
