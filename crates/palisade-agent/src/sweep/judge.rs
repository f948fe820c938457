//! What would become of a tracked connection if its first packet came now.
//!
//! The first packet is judged as the hooks see it: after a Service has chosen the destination, and before any source is translated. So its
//! source is that of the original direction, and its destination and port are the source of the answers.
//!
//! The node's own ruleset speaks for the pods of the node. A connection with a pod of another node is judged for that one, too: its own
//! node forgets a connection that it denies, but a datagram that the pod sends afterwards would be taken for an answer here.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use palisade_kernel::{Connection, Transport};
use palisade_model::Direction;
use palisade_nft::{At, CtState, Origin, Packet, Ruleset, Tuple, TupleKey, trace};

use crate::cluster::Cluster;
use crate::denial::DeniedBy;
use crate::names;
use crate::sweep::alike::{Alike, Ends};
use crate::sweep::elsewhere::Elsewhere;

pub(crate) const TCP: u8 = 6;

/// What becomes of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No policy of this node is asked about it: neither end is one of its pods, or the node itself has opened it.
    NotOurs,
    Lives,
    Denied(DeniedBy),
}

/// The first packet of a connection, as a hook sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Opening {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) port: Option<u16>,
}

impl Opening {
    pub(crate) fn of(connection: &Connection) -> Opening {
        let port = match connection.reply.transport {
            Transport::Ports { source, .. } => Some(source),
            Transport::Icmp { .. } | Transport::Addresses => None,
        };
        let Connection { original, reply, protocol, .. } = connection;
        Opening { source: original.source, destination: reply.source, protocol: *protocol, port }
    }

    pub(crate) fn ends(&self) -> [IpAddr; 2] {
        [self.source, self.destination]
    }
}

/// A first packet as the ruleset sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    hook: Hook,
    ends: Ends,
    protocol: u8,
    /// By its kind.
    port: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hook {
    Forward,
    Input,
}

/// What the ruleset says, and the number that it logs.
#[derive(Clone, Debug)]
struct Traced {
    fate: Fate,
    origin: u32,
}

/// Judges connections by what is in force. What was found out is kept: connections are many, and differ in little.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    ruleset: &'a Ruleset,
    cluster: &'a Cluster,
    /// Addresses of the node itself.
    node: &'a BTreeSet<IpAddr>,
    alike: Alike<'a>,
    traced: HashMap<Case, Traced>,
    elsewhere: Elsewhere<'a>,
}

impl<'a> Judge<'a> {
    /// `ruleset` is what the cluster was lowered to, `node` has all addresses of the node itself.
    pub(crate) fn new(ruleset: &'a Ruleset, cluster: &'a Cluster, node: &'a BTreeSet<IpAddr>) -> Judge<'a> {
        let (alike, elsewhere) = (Alike::in_ruleset(ruleset), Elsewhere::of(cluster));
        Judge { ruleset, cluster, node, alike, traced: HashMap::new(), elsewhere }
    }

    /// What becomes of a connection. An error names something that the ruleset refers to and does not have.
    pub(crate) fn fate(&mut self, opening: &Opening) -> Result<Fate, String> {
        let [from_here, to_here] = opening.ends().map(|it| self.cluster.is_own_pod(it));
        let [by_node, to_node] = opening.ends().map(|it| self.node.contains(&it) || it.is_loopback());
        let hook = match (from_here || to_here, by_node, to_node) {
            // What a node sends to its own pods meets no hook.
            (false, ..) | (_, true, _) => return Ok(Fate::NotOurs),
            (true, false, true) => Hook::Input,
            (true, false, false) => Hook::Forward,
        };
        let fate = self.traced(opening, hook)?.fate;
        let elsewhere = match (&fate, from_here, to_here) {
            (Fate::Lives, true, false) => self.elsewhere.denied(opening, Direction::Ingress),
            (Fate::Lives, false, true) => self.elsewhere.denied(opening, Direction::Egress),
            (Fate::Lives | Fate::NotOurs | Fate::Denied(_), ..) => None,
        };
        Ok(elsewhere.map_or(fate, Fate::Denied))
    }

    /// What denies packets from a pod of another node, or from a server of this one, to a pod of this node, though the kernel may take them for answers or for the
    /// beginning of another connection: the number that the ruleset logs for such a first packet. None where the ruleset lets that pass; and where what the own pod sends the other way does not leave
    /// the node, or is let in by the other: only that makes answers of them.
    pub(crate) fn denies_reply(&mut self, reply: &Tuple) -> Result<Option<u32>, String> {
        let (from, to, protocol) = (reply.from(), reply.to(), reply.protocol());
        let opening = |from: SocketAddr, to: SocketAddr| {
            let (source, destination) = (from.ip(), to.ip());
            Opening { source, destination, protocol, port: (reply.key() == TupleKey::Ports).then_some(to.port()) }
        };
        if !self.cluster.is_own_pod(to.ip()) || self.cluster.is_own_pod(from.ip()) {
            return Ok(None);
        }
        let call = opening(to, from);
        if !self.cluster.is_pod(from.ip()) {
            // Of others than pods only servers of this node are asked about, and only as long as nobody may call them.
            let Traced { fate, origin } = self.traced(&call, Hook::Input)?;
            return Ok(Some(origin).filter(|_| protocol == TCP && matches!(fate, Fate::Denied(_))));
        }
        if self.traced(&call, Hook::Forward)?.fate != Fate::Lives || self.elsewhere.denied(&call, Direction::Ingress).is_none() {
            return Ok(None);
        }
        let Traced { fate, origin } = self.traced(&opening(from, to), Hook::Forward)?;
        Ok(match fate {
            Fate::Denied(_) => Some(origin),
            Fate::Lives | Fate::NotOurs => None,
        })
    }

    /// What the node's own ruleset says.
    fn traced(&mut self, opening: &Opening, hook: Hook) -> Result<Traced, String> {
        let Opening { source, destination, protocol, port } = *opening;
        let case = Case { hook, ends: self.alike.ends(source, destination), protocol, port: port.map(|it| self.alike.port(it)) };
        if let Some(traced) = self.traced.get(&case) {
            return Ok(traced.clone());
        }
        let at = match hook {
            Hook::Forward => At::Forward,
            Hook::Input => At::Input,
        };
        let state = CtState::New;
        // By no link: whether a pod is known does not matter to what policy says of its connections.
        let (from_link, to_link) = (None, None);
        let (priority, source_is_local, source_port) = (0, false, None);
        let packet = Packet { at, source, destination, protocol, port, source_port, state, priority, source_is_local, from_link, to_link };
        let traced = trace(self.ruleset, &packet)?;
        let origin = traced.origins.last().copied().unwrap_or(0);
        let fate = match (traced.accepted, self.ruleset.origins.get(&origin)) {
            // A guard is about one packet, and not about the connection that it belongs to.
            (true, _) | (false, Some(Origin::Guard(_))) => Fate::Lives,
            (false, Some(Origin::Policy { direction, reason })) => {
                Fate::Denied(names::by(self.cluster.model(), *direction, reason.clone()))
            }
            (false, Some(Origin::Accepted { .. }) | None) => Fate::Denied(DeniedBy::Unknown(origin)),
        };
        let traced = Traced { fate, origin };
        self.traced.insert(case, traced.clone());
        Ok(traced)
    }
}
