//! What would become of a tracked connection if its first packet came now.
//!
//! The first packet is judged as the hooks see it: after a Service has chosen the destination, and before any source is translated. So its
//! source is that of the original direction, and its destination and port are the source of the answers.
//!
//! The node's own ruleset speaks for the pods of the node. A connection with a pod of another node is judged for that one, too: its own
//! node forgets a connection that it denies, but a datagram that the pod sends afterwards would be taken for an answer here.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_engine::{Selecting, decide_direction_among, selects};
use palisade_kernel::{Connection, Transport};
use palisade_model::{Direction, End, EndpointId, Flow, Path, Place, Reason, Verdict};
use palisade_nft::{At, CtState, Origin, Packet, Ruleset, trace};

use crate::denial::{DeniedBy, protocol};
use crate::names;
use crate::sweep::view::View;

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

/// Judges connections by what is in force.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    ruleset: &'a Ruleset,
    view: &'a View,
    /// Addresses of the node itself.
    node: &'a BTreeSet<IpAddr>,
    fates: HashMap<Opening, Fate>,
    /// The policies that select pods of other nodes.
    selecting: HashMap<(EndpointId, Direction), Vec<Selecting<'a>>>,
}

impl<'a> Judge<'a> {
    /// `ruleset` is what the view was lowered to, `node` has all addresses of the node itself.
    pub(crate) fn new(ruleset: &'a Ruleset, view: &'a View, node: &'a BTreeSet<IpAddr>) -> Judge<'a> {
        Judge { ruleset, view, node, fates: HashMap::new(), selecting: HashMap::new() }
    }

    /// What becomes of a connection. An error names something that the ruleset refers to and does not have.
    pub(crate) fn fate(&mut self, opening: &Opening) -> Result<Fate, String> {
        if let Some(fate) = self.fates.get(opening) {
            return Ok(fate.clone());
        }
        let fate = self.judge(opening)?;
        self.fates.insert(*opening, fate.clone());
        Ok(fate)
    }

    fn judge(&mut self, opening: &Opening) -> Result<Fate, String> {
        let Opening { source, destination, protocol, port } = *opening;
        let [from_here, to_here] = opening.ends().map(|it| self.view.is_own_pod(it));
        let [by_node, to_node] = opening.ends().map(|it| self.node.contains(&it) || it.is_loopback());
        let at = match (from_here || to_here, by_node, to_node) {
            // What a node sends to its own pods meets no hook.
            (false, ..) | (_, true, _) => return Ok(Fate::NotOurs),
            (true, false, true) => At::Input,
            (true, false, false) => At::Forward,
        };
        let state = CtState::New;
        // By no link: whether a pod is known does not matter to what policy says of its connections.
        let (from_link, to_link) = (None, None);
        let packet = Packet { at, source, destination, protocol, port, state, priority: 0, source_is_local: false, from_link, to_link };
        let traced = trace(self.ruleset, &packet)?;
        if !traced.accepted {
            let number = traced.origins.last().copied().unwrap_or(0);
            return Ok(match self.ruleset.origins.get(&number) {
                Some(origin @ Origin::Policy { .. }) => Fate::Denied(names::by(&self.view.model, origin)),
                // A guard is about one packet, and not about the connection that it belongs to.
                Some(Origin::Guard(_)) => Fate::Lives,
                None => Fate::Denied(DeniedBy::Unknown(number)),
            });
        }
        let elsewhere = match (from_here, to_here) {
            (true, false) => Some((Direction::Ingress, destination)),
            (false, true) => Some((Direction::Egress, source)),
            (true, true) | (false, false) => None,
        };
        let denied = elsewhere.and_then(|(direction, address)| self.denied_elsewhere(opening, direction, address));
        Ok(denied.map_or(Fate::Lives, Fate::Denied))
    }

    /// What the policies of a pod of another node say, if they deny.
    fn denied_elsewhere(&mut self, opening: &Opening, direction: Direction, address: IpAddr) -> Option<DeniedBy> {
        let View { model, .. } = self.view;
        let Place::Pod(id) = self.view.place(address) else { return None };
        let pod = model.endpoint(id)?;
        let among = self.selecting.entry((id, direction)).or_insert_with(|| {
            let policies = model.policies.iter().filter(|it| selects(model, it, pod));
            policies.map(|policy| Selecting { policy, rules: policy.rules.of(direction).iter().collect() }).collect()
        });
        let [from, to] = opening.ends().map(|it| End { place: self.view.place(it), address: Some(it) });
        let flow = Flow { from, to, protocol: protocol(opening.protocol), port: opening.port, path: Path::Direct };
        let walk = decide_direction_among(model, among, &flow, direction);
        match (walk.verdict, walk.reason) {
            (Verdict::Accept, _) => None,
            (Verdict::DependsOnDns, Reason::Rule(rule)) => Some(DeniedBy::UnresolvedName { direction, rule }),
            (Verdict::Deny | Verdict::DependsOnDns, reason) => Some(DeniedBy::Policy { direction, reason }),
        }
    }
}
