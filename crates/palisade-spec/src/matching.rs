//! What matches what: selectors, subjects, peers and port entries, each written out from its fields.

use std::net::IpAddr;

use palisade_model::{
    Action, ContainerPort, Direction, DomainPattern, Endpoint, Flow, IpBlock, LabelSelector, Labels, NamespaceSet, NodeAddresses, Operator,
    Peer, PeerSet, Place, PortMatch, PortSet, Protocol, RelativeNamespaces, RelativePods, RelativeSelector, Requirement, Rule, Subject,
};

use crate::unknown::{is_unknown_pod, rule_matches_unknown};
use crate::{Names, Side, pod_at};

/// Whether a policy with this subject speaks about the side's pod.
pub(crate) fn selects(side: Side<'_>, subject: &Subject) -> bool {
    match subject {
        Subject::Pods { namespaces, pods } => is_among(side, side.subject, namespaces, pods),
        // SPEC: semantics 2.4: a subject that could not be read selects nothing.
        Subject::Unknown => false,
    }
}

/// Whether any port entry and any peer match.
pub(crate) fn rule_matches(side: Side<'_>, rule: &Rule) -> bool {
    if is_unknown_pod(side) {
        return rule_matches_unknown(side, rule);
    }
    // SPEC: semantics 1.3 and 2.2: entries are ORed, the two lists are ANDed. An empty list of entries is nothing.
    let ports = match &rule.ports {
        // SPEC: semantics 1.11: without a restriction every IP protocol matches, with one only what it names.
        PortSet::Any => true,
        PortSet::Of(entries) => entries.iter().any(|entry| port_matches(side, entry)),
    };
    let peers = match &rule.peers {
        PeerSet::Any => true,
        // SPEC: semantics 2.4: a deny-all that stands for an unreadable rule must not stop probes.
        PeerSet::AnyButOwnNode => !is_own_node(side),
        PeerSet::Of(peers) => peers.iter().any(|peer| peer_matches(side, rule.action, peer)),
    };
    ports && peers
}

/// Whether this is ingress from the node the subject runs on.
pub(crate) fn is_own_node(side: Side<'_>) -> bool {
    // SPEC: semantics 1.8: only ingress is exempt, and only from the pod's own node.
    match (side.direction, side.peer.place) {
        (Direction::Ingress, Place::Node(node)) => side.subject.node == Some(node) && nodes_are_on_network(side),
        (Direction::Ingress, Place::Pod(_) | Place::Outside) | (Direction::Egress, _) => false,
    }
}

/// SPEC: multiple networks: rules about nodes have no meaning where nodes have no address.
fn nodes_are_on_network(side: Side<'_>) -> bool {
    side.model.network(side.flow.network).is_some_and(|it| it.nodes == NodeAddresses::Present)
}

/// SPEC: multiple networks: selectors find pods by their addresses on the network of the connection, and on no other.
fn peer_pod(side: Side<'_>) -> Option<&Endpoint> {
    pod_at(side.model, side.peer).filter(|pod| pod.network() == side.flow.network)
}

fn peer_matches(side: Side<'_>, action: Action, peer: &Peer) -> bool {
    match peer {
        // SPEC: semantics 1.7 and 2.1: selectors find pods of the pod network, never nodes or what runs on their network.
        Peer::Pods { namespaces, pods } => peer_pod(side).is_some_and(|pod| is_among(side, pod, namespaces, pods)),
        Peer::Relative(relative) => peer_pod(side).is_some_and(|pod| is_relative(side, pod, relative)),
        // SPEC: semantics 1.4: the address counts, whoever owns it. An unknown address is in no block.
        Peer::Networks(blocks) => side.peer.address.is_some_and(|address| blocks.iter().any(|it| block_holds(it, address))),
        Peer::Nodes(nodes) => match side.peer.place {
            Place::Node(id) => nodes_are_on_network(side) && side.model.node(id).is_some_and(|node| selector_matches(nodes, &node.labels)),
            Place::Pod(_) | Place::Outside => false,
        },
        // SPEC: semantics 2.1: domain names belong to Accept; what else carries them was turned into deny-all before.
        Peer::Domains(patterns) => {
            action == Action::Accept && side.names == Names::Hit && patterns.iter().any(|pattern| may_resolve_to_peer(side, pattern))
        }
        // SPEC: semantics 2.4: an entry that could not be read matches nobody.
        Peer::Unreadable => false,
    }
}

fn may_resolve_to_peer(side: Side<'_>, pattern: &DomainPattern) -> bool {
    match (side.direction, side.peer.place) {
        // The names of pods are the cluster's own; no other name leads to one.
        (Direction::Egress, Place::Pod(_)) => pattern.is_cluster_local(),
        (Direction::Egress, Place::Node(_) | Place::Outside) => true,
        // SPEC: semantics 2.1: a name speaks of a destination, so on ingress it says nothing.
        (Direction::Ingress, _) => false,
    }
}

fn is_among(side: Side<'_>, pod: &Endpoint, set: &NamespaceSet, pods: &LabelSelector) -> bool {
    let namespace = &pod.name.namespace;
    let labels = side.model.namespace_labels(namespace);
    let in_namespace = match set {
        NamespaceSet::Own(own) => own == namespace,
        NamespaceSet::Matching(selector) => selector_matches(selector, labels),
    };
    in_namespace && selector_matches(pods, &pod.labels)
}

/// SPEC: semantics 3.5: the set of namespaces and the set of pods are ANDed, each seen from the subject.
fn is_relative(side: Side<'_>, pod: &Endpoint, relative: &RelativePods) -> bool {
    let (own, other) = (&side.subject.name.namespace, &pod.name.namespace);
    let in_namespace = match &relative.namespaces {
        RelativeNamespaces::Own => own == other,
        RelativeNamespaces::Others => own != other,
        RelativeNamespaces::Labelled(selector) => {
            relative_matches(selector, side.model.namespace_labels(own), side.model.namespace_labels(other))
        }
    };
    in_namespace && relative_matches(&relative.pods, &side.subject.labels, &pod.labels)
}

fn relative_matches(selector: &RelativeSelector, own: &Labels, other: &Labels) -> bool {
    let value = |labels: &Labels, key: &str| labels.iter().find(|(it, _)| *it == key).map(|(_, value)| value.to_owned());
    let same = |key: &str| value(own, key).is_some() && value(own, key) == value(other, key);
    let usable = |keys: &[Box<str>]| is_usable(keys, own);
    match selector {
        RelativeSelector::Matching(selector) => selector_matches(selector, other),
        RelativeSelector::Same(keys) => usable(keys) && keys.iter().all(|key| same(key)),
        // SPEC: semantics 3.5: the seed to the letter: for every key the peer lacks it or differs.
        RelativeSelector::NoneSame(keys) => usable(keys) && !keys.iter().any(|key| same(key)),
        // SPEC: semantics 2.9: v0.1.x: the peer has all keys, and at least one differs.
        RelativeSelector::SomeDiffer(keys) => {
            usable(keys) && keys.iter().all(|key| value(other, key).is_some()) && !keys.iter().all(|key| same(key))
        }
    }
}

/// SPEC: semantics 3.5: an empty list selects nothing, and so does a key that the subject lacks.
pub(crate) fn is_usable(keys: &[Box<str>], own: &Labels) -> bool {
    !keys.is_empty() && keys.iter().all(|key| own.iter().any(|(it, _)| *it == **key))
}

/// SPEC: semantics 1.1: requirements are ANDed; none at all selects everything.
fn selector_matches(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.requirements.iter().all(|requirement| requirement_holds(requirement, labels))
}

fn requirement_holds(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.iter().find(|(key, _)| *key == &*requirement.key).map(|(_, value)| value);
    let is_in = |values: &[Box<str>]| value.is_some_and(|it| values.iter().any(|v| **v == *it));
    match &requirement.operator {
        // SPEC: semantics 1.1: an empty value still needs the key.
        Operator::Equals(wanted) => value == Some(wanted),
        Operator::In(values) => is_in(values),
        // SPEC: semantics 1.1: NotIn and DoesNotExist hold when the key is missing.
        Operator::NotIn(values) => !is_in(values),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

pub(crate) fn block_holds(block: &IpBlock, address: IpAddr) -> bool {
    let within = |net: IpAddr, length: u8| leading_bits_shared(net, address).is_some_and(|n| n >= length.into());
    // SPEC: semantics 1.4: an exception takes addresses out of this block only.
    within(block.cidr.addr(), block.cidr.prefix_len()) && !block.except.iter().any(|except| within(except.addr(), except.prefix_len()))
}

fn leading_bits_shared(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        // SPEC: semantics 1.13: a CIDR speaks of one family.
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

pub(crate) fn port_matches(side: Side<'_>, entry: &PortMatch) -> bool {
    // SPEC: semantics 1.11: what has no ports matches no entry.
    let Flow { protocol: Protocol::Port(protocol), port: Some(port), .. } = *side.flow else {
        return false;
    };
    match entry {
        // SPEC: semantics 1.5: the destination port, inclusive on both ends.
        PortMatch::Numbers { protocol: wanted, ports } => *wanted == protocol && ports.first() <= port && port <= ports.last(),
        // SPEC: semantics 1.5 and 2.1: a name is looked up on the destination pod, in either direction. The container port's
        // own protocol counts; an entry may ask for one besides. A name not found there matches nothing.
        PortMatch::Named { protocol: wanted, name } => {
            let is_meant = |it: &ContainerPort| it.name.as_ref() == Some(name) && it.protocol == protocol && it.port == port;
            wanted.is_none_or(|wanted| wanted == protocol)
                && pod_at(side.model, side.flow.to).is_some_and(|pod| pod.ports.iter().any(is_meant))
        }
        // SPEC: semantics 2.4: an entry that could not be read matches no traffic.
        PortMatch::Unreadable => false,
    }
}
