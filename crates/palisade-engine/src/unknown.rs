//! Rules and pods of which nothing is known but their address: such a pod fares like the worst that it could be.
//!
//! A rule that denies matches if it could, one that accepts if it must. A rule that passes and only could match leaves both ways open: see
//! `may_pass`.

use palisade_model::{Action, Direction, LabelSelector, NamespaceSet, Peer, PeerSet, PortMatch, PortSet, Protocol, Rule};

use crate::matching::{Question, in_blocks};
use crate::relative::{Viewpoint, seen_from};
use crate::trace::{Match, PeerMiss, PeerMisses, PortMiss};

/// Whether something speaks of an unknown pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Speaks {
    No,
    Perhaps,
    Yes,
}

impl Question<'_> {
    /// Whether the other end is such a pod.
    pub(crate) fn is_of_unknown_pod(&self) -> bool {
        self.model.is_unknown_pod(self.flow.network, self.peer())
    }

    /// Whether a rule may or may not take an unknown pod out of its tier.
    pub(crate) fn may_pass(&self, rule: &Rule) -> bool {
        rule.action == Action::Pass && self.is_of_unknown_pod() && self.speaks(rule).0 == Speaks::Perhaps
    }

    /// The same as `try_rule`, for an unknown pod.
    pub(crate) fn try_unknown(&self, rule: &Rule) -> Match {
        let (speaks, peer, port) = self.speaks(rule);
        let matches = match rule.action {
            Action::Accept | Action::Pass => speaks == Speaks::Yes,
            Action::Deny => speaks != Speaks::No,
        };
        if matches {
            return Match::Yes { peer, port };
        }
        let ports = match &rule.ports {
            PortSet::Any => None,
            PortSet::Of(entries) => entries.iter().map(|it| self.try_port(it).err()).collect::<Option<Vec<PortMiss>>>(),
        };
        let entries = match &rule.peers {
            PeerSet::Of(entries) => entries.len(),
            PeerSet::Any | PeerSet::AnyButOwnNode => 0,
        };
        let peers = (entries > 0 || ports.is_none()).then(|| PeerMisses::Entries(vec![PeerMiss::NotKnown; entries]));
        Match::No { peers, ports }
    }

    /// With the places of the entries that speak most surely; none for everybody and every port.
    fn speaks(&self, rule: &Rule) -> (Speaks, Option<usize>, Option<usize>) {
        let (peers, peer) = match &rule.peers {
            PeerSet::Any | PeerSet::AnyButOwnNode => (Speaks::Yes, None),
            PeerSet::Of(entries) => surest(entries.iter().map(|it| self.peer_speaks(rule.action, it))),
        };
        let (ports, port) = match &rule.ports {
            PortSet::Any => (Speaks::Yes, None),
            PortSet::Of(entries) => surest(entries.iter().map(|it| self.port_speaks(it))),
        };
        (peers.min(ports), peer, port)
    }

    fn peer_speaks(&self, action: Action, peer: &Peer) -> Speaks {
        match peer {
            Peer::Pods { namespaces, pods } => if_all(covers_all(namespaces, pods)),
            Peer::Relative(relative) => match seen_from(relative, Viewpoint::of(self.model, self.subject)) {
                Ok(meant) => if_all(meant.iter().any(|(namespaces, pods)| covers_all(namespaces, pods))),
                Err(_) => Speaks::No,
            },
            // By its address it would be accepted as what it is not: somebody of the outside.
            Peer::Networks(blocks) if action != Action::Accept && in_blocks(self.peer(), blocks).is_ok() => Speaks::Yes,
            Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => Speaks::No,
        }
    }

    fn port_speaks(&self, entry: &PortMatch) -> Speaks {
        let named = match entry {
            PortMatch::Named { protocol, .. } if self.direction == Direction::Egress => Some(*protocol),
            PortMatch::Named { .. } | PortMatch::Numbers { .. } | PortMatch::Unreadable => None,
        };
        match (named, self.flow.protocol) {
            // The name would be the unknown pod's.
            (Some(wanted), Protocol::Port(own)) if wanted.is_none_or(|it| it == own) => Speaks::Perhaps,
            (Some(_), _) => Speaks::No,
            (None, _) if self.try_port(entry).is_ok() => Speaks::Yes,
            (None, _) => Speaks::No,
        }
    }
}

/// The surest of some, and the place of the first that is as sure.
fn surest(each: impl Iterator<Item = Speaks>) -> (Speaks, Option<usize>) {
    let mut best = (Speaks::No, None);
    for (at, speaks) in each.enumerate() {
        if speaks > best.0 {
            best = (speaks, Some(at));
        }
    }
    best
}

fn if_all(all: bool) -> Speaks {
    if all { Speaks::Yes } else { Speaks::Perhaps }
}

/// Whether every pod there could be is among these.
pub(crate) fn covers_all(namespaces: &NamespaceSet, pods: &LabelSelector) -> bool {
    let everywhere = match namespaces {
        NamespaceSet::Matching(selector) => selector.requirements.is_empty(),
        NamespaceSet::Own(_) => false,
    };
    everywhere && pods.requirements.is_empty()
}
