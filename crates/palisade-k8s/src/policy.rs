//! Policy objects into policies. What cannot be read fails closed here and nowhere else.

use palisade_api::{ClusterNetworkPolicy, CnpPeer, CnpPods, CnpRule, CnpTier, Entry, NetworkPolicy, NpPeer, NpRule};
use palisade_model::{
    Action, Direction, FailClosed, LabelSelector, NamespaceSet, Peer, PeerSet, PerDirection, Policy, PolicyKind, PolicyRef, PortMatch,
    PortSet, Rule, Shape, Subject, Tier,
};

use crate::sources::ObjectKey;

pub(crate) fn from_network_policy(key: &ObjectKey, policy: &NetworkPolicy) -> Policy {
    let namespace: Box<str> = key.namespace.clone().unwrap_or_default();
    let rules = |direction: Direction| match *policy.types.of(direction) {
        true => np_rules(&namespace, policy.rules.of(direction)),
        // SPEC: semantics 1.1: rules of a direction that is not listed are ignored.
        false => Vec::new(),
    };
    Policy {
        origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: Some(namespace.clone()), name: key.name.clone() },
        tier: Tier::NetworkPolicy,
        rank: 0,
        rules: PerDirection { egress: rules(Direction::Egress), ingress: rules(Direction::Ingress) },
        subject: Subject::Pods { namespaces: NamespaceSet::Own(namespace), pods: policy.pod_selector.clone() },
        shape: Shape::Only,
        isolates: policy.types,
    }
}

fn np_rules(namespace: &str, rules: &[NpRule]) -> Vec<Rule> {
    let rule = |(index, rule): (usize, &NpRule)| Rule {
        index,
        name: None,
        action: Action::Accept,
        peers: match rule.peers.is_empty() {
            true => PeerSet::Any,
            false => PeerSet::Of(rule.peers.iter().map(|peer| np_peer(namespace, peer)).collect()),
        },
        ports: match rule.ports.is_empty() {
            true => PortSet::Any,
            false => PortSet::Of(rule.ports.clone()),
        },
        fail_closed: None,
    };
    rules.iter().enumerate().map(rule).collect()
}

fn np_peer(namespace: &str, peer: &NpPeer) -> Peer {
    match peer {
        NpPeer::Pods { namespaces, pods } => Peer::Pods {
            namespaces: match namespaces {
                Some(selector) => NamespaceSet::Matching(selector.clone()),
                None => NamespaceSet::Own(namespace.into()),
            },
            pods: pods.clone().unwrap_or_default(),
        },
        NpPeer::IpBlock(block) => Peer::Networks(vec![block.clone()]),
        NpPeer::Empty => Peer::Unreadable,
    }
}

pub(crate) fn from_cluster_network_policy(key: &ObjectKey, policy: &ClusterNetworkPolicy) -> Policy {
    let rules = |direction| policy.rules.of(direction).iter().enumerate().map(|(index, rule)| cnp_rule(index, rule)).collect();
    Policy {
        origin: PolicyRef { kind: PolicyKind::ClusterNetworkPolicy, namespace: None, name: key.name.clone() },
        tier: match policy.tier {
            CnpTier::Admin => Tier::Admin,
            CnpTier::Baseline => Tier::Baseline,
        },
        rank: policy.priority,
        subject: match &policy.subject {
            Entry::Known(CnpPods { namespaces, pods }) => {
                Subject::Pods { namespaces: NamespaceSet::Matching(namespaces.clone()), pods: pods.clone() }
            }
            Entry::Unknown(_) => Subject::Unknown,
        },
        shape: Shape::Only,
        isolates: PerDirection::default(),
        rules: PerDirection { egress: rules(Direction::Egress), ingress: rules(Direction::Ingress) },
    }
}

fn cnp_rule(index: usize, rule: &CnpRule) -> Rule {
    let name = rule.name.as_deref().map(Box::from);
    let unread = first_unread(rule);
    match (&rule.action, unread) {
        (Entry::Known(action), None) => {
            Rule { index, name, action: *action, peers: PeerSet::Of(peers(rule)), ports: ports(rule), fail_closed: None }
        }
        (Entry::Known(Action::Accept), Some(reason)) => {
            // SPEC: semantics 2.4: Accept matches nothing by what cannot be read; known peers beside it still match. A field of the
            // rule itself could narrow every peer, so then nothing is left.
            let peers = if rule.unknown.is_some() { Vec::new() } else { peers(rule) };
            Rule { index, name, action: Action::Accept, peers: PeerSet::Of(peers), ports: ports(rule), fail_closed: Some(reason.clone()) }
        }
        (Entry::Known(Action::Deny | Action::Pass), Some(reason)) | (Entry::Unknown(_), Some(reason)) => deny_all(index, name, reason),
        (Entry::Unknown(reason), None) => deny_all(index, name, reason),
    }
}

/// SPEC: semantics 2.4: Deny and Pass become deny-all for direction and subject, own-node ingress exempt.
fn deny_all(index: usize, name: Option<Box<str>>, reason: &FailClosed) -> Rule {
    Rule { index, name, action: Action::Deny, peers: PeerSet::AnyButOwnNode, ports: PortSet::Any, fail_closed: Some(reason.clone()) }
}

fn first_unread(rule: &CnpRule) -> Option<&FailClosed> {
    let action = unread(&rule.action);
    let peer = || rule.peers.iter().find_map(unread);
    let protocol = || rule.protocols.iter().flatten().find_map(unread);
    rule.unknown.as_ref().or(action).or_else(peer).or_else(protocol)
}

fn unread<T>(entry: &Entry<T>) -> Option<&FailClosed> {
    match entry {
        Entry::Known(_) => None,
        Entry::Unknown(reason) => Some(reason),
    }
}

fn peers(rule: &CnpRule) -> Vec<Peer> {
    let peer = |entry: &Entry<CnpPeer>| match entry {
        Entry::Known(CnpPeer::Pods(CnpPods { namespaces, pods })) => {
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces.clone()), pods: pods.clone() }
        }
        Entry::Known(CnpPeer::Networks(blocks)) => Peer::Networks(blocks.clone()),
        Entry::Known(CnpPeer::Nodes(selector)) => Peer::Nodes(LabelSelector::clone(selector)),
        Entry::Known(CnpPeer::Domains(patterns)) => Peer::Domains(patterns.clone()),
        Entry::Unknown(_) => Peer::Unreadable,
    };
    rule.peers.iter().map(peer).collect()
}

fn ports(rule: &CnpRule) -> PortSet {
    let port = |entry: &Entry<PortMatch>| match entry {
        Entry::Known(port) => port.clone(),
        Entry::Unknown(_) => PortMatch::Unreadable,
    };
    match &rule.protocols {
        None => PortSet::Any,
        Some(entries) => PortSet::Of(entries.iter().map(port).collect()),
    }
}
