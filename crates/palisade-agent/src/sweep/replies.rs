//! Replies of connections that were cut, and that both ends go on with.
//!
//! Where both ends are on different nodes, each may call out and neither may be called, each node takes what comes in for the reply to what
//! went out: what its own pod sends leaves, and only the other node denies it. So a node remembers such a connection and drops what
//! comes in, as it would a first packet, until policy says otherwise or a pod is gone.
//!
//! And what this node sends meets no hook of `inet palisade`: the next segment of a server here would open the connection anew, from the node to the pod.
//! So a node remembers the connections of its pods to itself as well, and drops what its own server sends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use palisade_kernel::{Connection, KernelError, Transport};
use palisade_nft::{BlockedReplies, Ruleset, Tuple};

use crate::sweep::judge::{Judge, TCP};

/// At most this many replies are blocked. Beyond it, replies of other connections may pass, and that is reported.
const MOST: usize = 1 << 16;

/// The replies that are blocked.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    remembered: BTreeSet<Tuple>,
    content: Content,
}

/// The content of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Content {
    /// Nobody has read it yet.
    #[default]
    Unread,
    /// The replies of an agent before this one, or of a write that failed.
    Inherited,
    /// The remembered replies.
    Remembered,
}

/// Why replies that are denied may pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepliesError {
    #[error("datagrams that are denied may pass as replies: {0}")]
    Kernel(#[from] KernelError),
    #[error("datagrams that are denied may pass as replies: the ruleset cannot be followed: {0}")]
    Ruleset(String),
    #[error("datagrams of {0} conversations may pass as replies: they are more than the {MOST} that are remembered")]
    TooMany(usize),
}

impl Replies {
    /// Whether the table of an agent before this one must be read first.
    pub(crate) fn is_unread(&self) -> bool {
        self.content == Content::Unread
    }

    /// Remembers the replies that an agent before this one has blocked. Until all connections were read, only its table knows of them.
    pub(crate) fn inherit(&mut self, table: Option<&Ruleset>) {
        self.remembered.extend(table.map(|it| BlockedReplies::of(it).replies).unwrap_or_default().into_keys());
        self.content = Content::Inherited;
    }

    /// Whether nothing is remembered, and nothing blocked.
    pub(crate) fn is_settled(&self) -> bool {
        self.remembered.is_empty() && self.content == Content::Remembered
    }

    /// Remembers more replies. Returns the table that drops those of all that the judge's ruleset denies, and the number of replies beyond the limit. Replies that are
    /// allowed are forgotten.
    pub(crate) fn settle(&mut self, more: &[Tuple], judge: &mut Judge<'_>) -> Result<(Option<Ruleset>, usize), RepliesError> {
        let mut denied = denied(self.remembered.iter().chain(more), judge).map_err(RepliesError::Ruleset)?;
        let beyond = denied.len().saturating_sub(MOST);
        if let Some(last) = denied.keys().nth(MOST).copied() {
            denied.split_off(&last);
        }
        self.remembered = denied.keys().copied().collect();
        // Until it is written.
        self.content = Content::Inherited;
        Ok((BlockedReplies { replies: denied }.ruleset(), beyond))
    }

    /// Removes every reply, for an agent that keeps connections.
    pub(crate) fn forget(&mut self) {
        *self = Replies { remembered: BTreeSet::new(), content: Content::Inherited };
    }

    /// The table was written.
    pub(crate) fn written(&mut self) {
        self.content = Content::Remembered;
    }
}

/// Those of some replies that are denied, each with the origin that denies it. An error names something that the ruleset refers to and does not have.
pub(crate) fn denied<'a>(replies: impl Iterator<Item = &'a Tuple>, judge: &mut Judge<'_>) -> Result<BTreeMap<Tuple, u32>, String> {
    let mut denied = BTreeMap::new();
    for reply in replies {
        if let Some(origin) = judge.denies_reply(reply)? {
            denied.insert(*reply, origin);
        }
    }
    Ok(denied)
}

/// The packets that a node would take for a reply of a connection that was cut, whichever end is its pod; or for the beginning of another, where it has the server itself.
pub(crate) fn replies_of(connection: &Connection, node: &BTreeSet<IpAddr>) -> Vec<Tuple> {
    let Connection { original, reply, protocol, .. } = connection;
    let (source, answering) = match (original.transport, reply.transport) {
        (Transport::Ports { source, .. }, Transport::Ports { source: answering, .. }) => (source, answering),
        (Transport::Addresses, Transport::Addresses) => (0, 0),
        // What is asked by ICMP is answered by another kind of message, which asks nothing.
        (Transport::Ports { .. } | Transport::Icmp { .. } | Transport::Addresses, _) => return Vec::new(),
    };
    let (opener, other) = (SocketAddr::new(original.source, source), SocketAddr::new(reply.source, answering));
    let tuple = |from, to| Tuple::new(from, to, *protocol);
    match (*protocol, node.contains(&reply.source)) {
        (TCP, true) => vec![tuple(other, opener)],
        // What follows the first packet opens no connection in `forward`.
        (TCP, false) => Vec::new(),
        _ => vec![tuple(other, opener), tuple(opener, other)],
    }
}
