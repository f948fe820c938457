//! NetworkPolicy.

use palisade_api::{NetworkPolicy, NpPeer, NpRule};
use palisade_model::{
    Action, Direction, NamespaceSet, NetworkId, Peer, PeerSet, PerDirection, Policy, PolicyKind, PolicyRef, PortSet, Rule, Shape, Subject,
    Tier,
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
        network: NetworkId::DEFAULT,
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
