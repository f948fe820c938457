//! What can go wrong between Palisade and the kernel, and with which object.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use nix::errno::Errno;
use palisade_nft::{Foreign, Object, Unwritable};

use crate::links::Route;

/// One object that the kernel refused, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub object: Object,
    pub errno: Errno,
}

/// Something of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkObject {
    /// A namespace by its path or number.
    Namespace(String),
    Sysctl(String),
    Link(String),
    /// Two links at once.
    Veth {
        name: String,
        peer: String,
    },
    /// A link as a part of a bridge.
    Port {
        name: String,
        bridge: String,
    },
    Address {
        link: String,
        address: IpNet,
    },
    Route(Route),
    Neighbour {
        link: String,
        address: IpAddr,
    },
    /// All links, addresses or routes of a namespace.
    All(&'static str),
}

/// What was to happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Add,
    Change,
    Delete,
    Enter,
    Find,
    Read,
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    #[error("no permission: this needs the capability CAP_NET_ADMIN in the network namespace, and CAP_SYS_ADMIN to make or enter another")]
    NoPermission,
    #[error("the kernel has no nf_tables ({0})")]
    NoSupport(Errno),
    #[error("the kernel has no {part} ({errno})")]
    NoPart { part: &'static str, errno: Errno },
    #[error("NFLOG group {0} of this network namespace has another reader")]
    LogTaken(u16),
    #[error("NFLOG group {group} cannot be read so: {what}")]
    LogOptions { group: u16, what: String },
    /// Of a question about tracked connections.
    #[error("{doing}: the kernel refused: {errno}")]
    Connections { doing: String, errno: Errno },
    /// Nothing of the transaction is in force.
    #[error("the kernel refused {}", listed(.0))]
    Refused(Vec<Refusal>),
    /// Nothing of the transaction is in force.
    #[error("somebody else changed the tables after generation {expected}")]
    Outdated { expected: u32 },
    /// Whether the transaction is in force is not known.
    #[error("the kernel dropped replies that nobody read in time (ENOBUFS)")]
    Overrun,
    #[error("a reply of the kernel cannot be read: {0}")]
    Truncated(String),
    /// Whether a transaction is in force is not known.
    #[error("the kernel has not answered in full within {0} seconds")]
    Timeout(u64),
    #[error("no way to wait for packets on their way: {0}")]
    Grace(Errno),
    #[error("the table changed during each of {0} attempts to read it")]
    Unsteady(usize),
    /// The ruleset itself cannot be written.
    #[error("{object} cannot be written: {what}")]
    Unwritable { object: Object, what: String },
    /// The table holds something that Palisade never writes.
    #[error("{object} is not of Palisade's making: {what}")]
    Foreign { object: Object, what: String },
    #[error("{doing}: {errno}")]
    Socket { doing: &'static str, errno: Errno },
    #[error("the {what} changed during each of {attempts} attempts to read them")]
    UnsteadyNetwork { what: &'static str, attempts: usize },
    /// Something of the network was refused. It is as it was before.
    #[error("cannot {attempt} {object}: {}", .errno.desc())]
    Network { attempt: Attempt, object: NetworkObject, errno: Errno },
}

impl KernelError {
    /// The number or the kind of what went wrong, for whoever counts such things.
    pub fn reason(&self) -> String {
        let errno = |errno: &Errno| format!("{errno:?}");
        match self {
            KernelError::NoPermission => "EPERM".to_owned(),
            KernelError::NoSupport(it) | KernelError::NoPart { errno: it, .. } | KernelError::Connections { errno: it, .. } => errno(it),
            KernelError::Grace(it) | KernelError::Socket { errno: it, .. } | KernelError::Network { errno: it, .. } => errno(it),
            // The first is what the others come from.
            KernelError::Refused(refusals) => refusals.first().map_or_else(|| "refused".to_owned(), |it| errno(&it.errno)),
            KernelError::Overrun => "ENOBUFS".to_owned(),
            KernelError::Timeout(_) => "timeout".to_owned(),
            KernelError::Truncated(_) => "unreadable".to_owned(),
            KernelError::Outdated { .. } | KernelError::Unsteady(_) | KernelError::UnsteadyNetwork { .. } => "changed-meanwhile".to_owned(),
            KernelError::Unwritable { .. } => "unwritable".to_owned(),
            KernelError::LogTaken(_) | KernelError::LogOptions { .. } => "log".to_owned(),
            KernelError::Foreign { .. } => "foreign".to_owned(),
        }
    }

    /// What the kernel refused, unless it is for want of permission.
    pub(crate) fn refused(attempt: Attempt, object: NetworkObject, errno: Errno) -> KernelError {
        if errno == Errno::EPERM { KernelError::NoPermission } else { KernelError::Network { attempt, object, errno } }
    }
}

impl From<Unwritable> for KernelError {
    fn from(Unwritable { object, what }: Unwritable) -> KernelError {
        KernelError::Unwritable { object, what }
    }
}

impl From<Foreign> for KernelError {
    fn from(Foreign { object, what }: Foreign) -> KernelError {
        KernelError::Foreign { object, what }
    }
}

impl fmt::Display for NetworkObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkObject::Namespace(name) => write!(f, "network namespace `{name}`"),
            NetworkObject::Sysctl(name) => write!(f, "sysctl `{name}`"),
            NetworkObject::Link(name) => write!(f, "link `{name}`"),
            NetworkObject::Veth { name, peer } => write!(f, "link `{name}` with peer `{peer}`"),
            NetworkObject::Port { name, bridge } => write!(f, "link `{name}` as port of bridge `{bridge}`"),
            NetworkObject::Address { link, address } => write!(f, "address {address} on `{link}`"),
            NetworkObject::Route(route) => write!(f, "route {route}"),
            NetworkObject::Neighbour { link, address } => write!(f, "neighbour {address} on `{link}`"),
            NetworkObject::All(what) => write!(f, "the {what}"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attempt::Add => "add",
            Attempt::Change => "change",
            Attempt::Delete => "delete",
            Attempt::Enter => "enter",
            Attempt::Find => "find",
            Attempt::Read => "read",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.errno.desc())
    }
}

/// How many refusals a message spells out: one mistake often brings others with it.
const SPELT: usize = 3;

fn listed(refusals: &[Refusal]) -> String {
    let mut text = refusals.iter().take(SPELT).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if let Some(more) = refusals.len().checked_sub(SPELT).filter(|it| *it > 0) {
        text.push_str(&format!("; and {more} more"));
    }
    text
}
