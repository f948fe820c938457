//! Pods of which nothing is known but their address: what a rule has to say about one.
//!
//! SPEC: decision 0014: an unknown pod is judged as the worst of all pods that it could be.

use palisade_model::{
    Action, Direction, LabelSelector, NamespaceSet, NetworkId, Peer, PeerSet, Place, PortMatch, PortSet, Protocol, RelativeNamespaces,
    RelativePods, RelativeSelector, Rule,
};

use crate::matching::{block_holds, is_usable, port_matches};
use crate::{Passes, Side};

/// How sure it is that something speaks of an unknown pod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sure {
    No,
    Perhaps,
    Yes,
}

/// Whether the other end is a pod that is not known.
pub(crate) fn is_unknown_pod(side: Side<'_>) -> bool {
    let held = |address| side.model.pod_ranges.iter().any(|block| block_holds(block, address));
    // Only the pod network has ranges of pod addresses.
    side.flow.network == NetworkId::DEFAULT && side.peer.place == Place::Outside && side.peer.address.is_some_and(held)
}

/// Whether a rule is taken to match: one that denies if it could, one that accepts if it must.
pub(crate) fn rule_matches_unknown(side: Side<'_>, rule: &Rule) -> bool {
    let ports = match &rule.ports {
        PortSet::Any => Sure::Yes,
        PortSet::Of(entries) => entries.iter().map(|entry| port(side, entry)).max().unwrap_or(Sure::No),
    };
    let peers = match &rule.peers {
        PeerSet::Any | PeerSet::AnyButOwnNode => Sure::Yes,
        PeerSet::Of(peers) => peers.iter().map(|it| peer(side, rule.action, it)).max().unwrap_or(Sure::No),
    };
    let sure = ports.min(peers);
    match (rule.action, side.passes) {
        (Action::Accept, _) | (Action::Pass, Passes::Miss) => sure == Sure::Yes,
        (Action::Deny, _) | (Action::Pass, Passes::Hit) => sure >= Sure::Perhaps,
    }
}

fn peer(side: Side<'_>, action: Action, peer: &Peer) -> Sure {
    match peer {
        Peer::Pods { namespaces, pods } => {
            let everywhere = matches!(namespaces, NamespaceSet::Matching(selector) if is_empty(selector));
            if everywhere && is_empty(pods) { Sure::Yes } else { Sure::Perhaps }
        }
        Peer::Relative(it) => relative(side, it),
        // What is accepted by its address alone is accepted as no pod.
        Peer::Networks(_) if action == Action::Accept => Sure::No,
        Peer::Networks(blocks) => {
            let held = side.peer.address.is_some_and(|address| blocks.iter().any(|it| block_holds(it, address)));
            if held { Sure::Yes } else { Sure::No }
        }
        Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => Sure::No,
    }
}

fn relative(side: Side<'_>, relative: &RelativePods) -> Sure {
    let namespaces = match &relative.namespaces {
        RelativeNamespaces::Own | RelativeNamespaces::Others => Sure::Perhaps,
        RelativeNamespaces::Labelled(selector) => compared(selector, side.model.namespace_labels(&side.subject.name.namespace)),
    };
    namespaces.min(compared(&relative.pods, &side.subject.labels))
}

fn compared(selector: &RelativeSelector, own: &palisade_model::Labels) -> Sure {
    match selector {
        RelativeSelector::Matching(selector) if is_empty(selector) => Sure::Yes,
        RelativeSelector::Matching(_) => Sure::Perhaps,
        RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => {
            if is_usable(keys, own) {
                Sure::Perhaps
            } else {
                Sure::No
            }
        }
    }
}

fn port(side: Side<'_>, entry: &PortMatch) -> Sure {
    match (entry, side.direction, side.flow.protocol) {
        // It is the unknown pod that gives the name.
        (PortMatch::Named { protocol, .. }, Direction::Egress, Protocol::Port(own)) if protocol.is_none_or(|it| it == own) => Sure::Perhaps,
        (PortMatch::Named { .. }, Direction::Egress, _) => Sure::No,
        _ if port_matches(side, entry) => Sure::Yes,
        _ => Sure::No,
    }
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.requirements.is_empty()
}
