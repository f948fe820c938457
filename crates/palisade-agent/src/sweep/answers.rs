//! Packets of conversations that were cut, and that both ends go on with.
//!
//! Where both ends are on different nodes, each may call out and neither may be called, each node takes what comes in for the answer to what
//! went out: what its own pod sends leaves, and only the other node denies it. So a node remembers such a conversation and drops what
//! comes in, as it would a first packet, until policy says otherwise or a pod is gone.
//!
//! And what this node sends meets no hook of `inet palisade`: the next segment of a server here would open the connection anew, from the node to the pod.
//! So a node remembers the connections of its pods to itself as well, and drops what its own server sends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use palisade_kernel::{Answer, Answers, Connection, KernelError, Restored, Transport};

use crate::sweep::judge::{Judge, TCP};

/// How many conversations are remembered.
const MOST: usize = 1 << 16;

/// The conversations that are remembered, and the table that drops them.
#[derive(Debug)]
pub(crate) struct Shut {
    answers: Answers,
    remembered: BTreeSet<Answer>,
    table: Table,
}

/// What the table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// What an agent before this one has left.
    Inherited,
    /// What is remembered.
    Own,
}

/// What can go wrong with them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShutError {
    #[error("datagrams that are denied may pass as answers: {0}")]
    Kernel(#[from] KernelError),
    #[error("datagrams that are denied may pass as answers: the ruleset cannot be followed: {0}")]
    Ruleset(String),
    #[error("datagrams of {0} conversations may pass as answers: they are more than the {MOST} that are remembered")]
    TooMany(usize),
}

impl Shut {
    pub(crate) fn open() -> Result<Shut, KernelError> {
        let mut answers = Answers::open()?;
        // Until all connections were looked at, only the table knows of them.
        let remembered = match answers.found() {
            // Nobody of ours has written it. It is made anew with what is remembered first.
            Err(KernelError::Truncated(_)) => BTreeSet::new(),
            found => found?,
        };
        Ok(Shut { answers, remembered, table: Table::Inherited })
    }

    /// What a `Monitor` calls the socket that the table is changed by.
    pub(crate) fn port(&self) -> u32 {
        self.answers.port()
    }

    /// Makes the table what it was left as.
    pub(crate) fn restore(&mut self) -> Result<Restored, KernelError> {
        self.answers.restore()
    }

    /// Whether nothing is remembered, and nothing dropped.
    pub(crate) fn is_settled(&self) -> bool {
        self.remembered.is_empty() && self.table == Table::Own
    }

    /// Remembers more conversations, and drops what is denied of all by what is in force now. Others are forgotten.
    pub(crate) fn settle(&mut self, more: &[Answer], judge: &mut Judge<'_>) -> Result<(), ShutError> {
        let mut denied = BTreeMap::new();
        for answer in self.remembered.iter().chain(more) {
            if let Some(origin) = judge.denies_answer(answer).map_err(ShutError::Ruleset)? {
                denied.insert(*answer, origin);
            }
        }
        let beyond = denied.len().saturating_sub(MOST);
        if let Some(last) = denied.keys().nth(MOST).copied() {
            denied.split_off(&last);
        }
        self.remembered = denied.keys().copied().collect();
        // Until it is written.
        self.table = Table::Inherited;
        self.answers.check()?;
        self.answers.replace(&denied)?;
        self.table = Table::Own;
        if beyond > 0 { Err(ShutError::TooMany(beyond)) } else { Ok(()) }
    }
}

/// What a node would take for an answer of a connection that was cut, whichever end is its pod; or for the beginning of another, where it has the server itself.
pub(crate) fn answers_of(connection: &Connection, node: &BTreeSet<IpAddr>) -> Vec<Answer> {
    let Connection { original, reply, protocol, .. } = connection;
    let (source, answering) = match (original.transport, reply.transport) {
        (Transport::Ports { source, .. }, Transport::Ports { source: answering, .. }) => (source, answering),
        (Transport::Addresses, Transport::Addresses) => (0, 0),
        // What is asked by ICMP is answered by another kind of message, which asks nothing.
        (Transport::Ports { .. } | Transport::Icmp { .. } | Transport::Addresses, _) => return Vec::new(),
    };
    let (opener, other) = (SocketAddr::new(original.source, source), SocketAddr::new(reply.source, answering));
    let answer = |from, to| Answer::new(from, to, *protocol);
    match (*protocol, node.contains(&reply.source)) {
        (TCP, true) => vec![answer(other, opener)],
        // What follows the first packet opens no connection in `forward`.
        (TCP, false) => Vec::new(),
        _ => vec![answer(other, opener), answer(opener, other)],
    }
}
