//! policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy, as it was last shipped.

use palisade_k8s::Beside;
use palisade_model::{Direction, PeerSet, Policy, PortMatch, PortSet, Rule};

use super::parts::{action, name, number, peer, subject, upper};
use super::tree::{Node, map, some};
use super::{Names, cluster_spec, list_of};

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    cluster_spec(policy, beside, [("priority", Node::Number(policy.rank))], subject(&policy.subject), rule)
}

pub(super) fn rule(rule: &Rule, direction: Direction) -> Node {
    let peers = match &rule.peers {
        PeerSet::Of(entries) => Some(Node::List(entries.iter().filter_map(peer).collect())),
        PeerSet::Any | PeerSet::AnyButOwnNode => None,
    };
    let ports = match &rule.ports {
        PortSet::Of(entries) => Some(Node::List(entries.iter().filter_map(port).collect())),
        PortSet::Any => None,
    };
    some([("name", name(rule)), ("action", Some(action(rule.action, Names::Allow))), (list_of(direction), peers), ("ports", ports)])
}

fn port(entry: &PortMatch) -> Option<Node> {
    match entry {
        PortMatch::Numbers { protocol, ports } => {
            let (first, last) = (ports.first().max(1), ports.last());
            Some(match first == last {
                true => map([("portNumber", map([("protocol", upper(*protocol)), ("port", number(first))]).inline())]),
                false => {
                    let range = map([("protocol", upper(*protocol)), ("start", number(first)), ("end", number(last))]);
                    map([("portRange", range.inline())])
                }
            })
        }
        PortMatch::Named { name, .. } => Some(map([("namedPort", Node::text(name))])),
        PortMatch::Unreadable => None,
    }
}
