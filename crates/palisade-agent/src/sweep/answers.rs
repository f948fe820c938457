//! Datagrams of conversations that were cut, and that both ends go on with.
//!
//! Where both ends are on different nodes, each may call out and neither may be called, each node takes what comes in for the answer to what
//! went out: what its own pod sends leaves, and only the other node denies it. So a node remembers such a conversation and drops what
//! comes in, as it would a first packet, until policy says otherwise or a pod is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use palisade_kernel::{Answer, Answers, Connection, KernelError, Restored, Transport};

use crate::sweep::judge::Judge;

/// Protocols that open no connection by what follows the first packet: of these nothing is needed.
const WITH_A_BEGINNING: [u8; 2] = [6, 132];
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
        Ok(Shut { answers: Answers::open()?, remembered: BTreeSet::new(), table: Table::Inherited })
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
        self.answers.check()?;
        self.answers.replace(&denied)?;
        self.table = Table::Own;
        if beyond > 0 { Err(ShutError::TooMany(beyond)) } else { Ok(()) }
    }
}

/// What a node would take for an answer of a connection that was cut, whichever end is its pod.
pub(crate) fn answers_of(connection: &Connection) -> impl Iterator<Item = Answer> {
    let Connection { original, reply, protocol, .. } = connection;
    let ports = match (original.transport, reply.transport) {
        (Transport::Ports { source, .. }, Transport::Ports { source: answering, .. }) if !WITH_A_BEGINNING.contains(protocol) => {
            Some((source, answering))
        }
        (Transport::Ports { .. } | Transport::Icmp { .. } | Transport::Addresses, _) => None,
    };
    let ends = ports.map(|(source, answering)| [SocketAddr::new(original.source, source), SocketAddr::new(reply.source, answering)]);
    let protocol = *protocol;
    ends.into_iter().flat_map(move |[opener, other]| [(other, opener), (opener, other)]).map(move |(from, to)| Answer {
        from,
        to,
        protocol,
    })
}
