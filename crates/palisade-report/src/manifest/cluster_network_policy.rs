//! policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy.

use palisade_k8s::Beside;
use palisade_model::{Direction, PeerSet, Policy, PortMatch, PortSet, Rule};

use super::parts::{action, name, number, peer, subject};
use super::tree::{Node, map, some};
use super::{Names, cluster_spec, list_of};

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    let when = [("tier", Node::text(policy.tier)), ("priority", Node::Number(policy.rank))];
    cluster_spec(policy, beside, when, subject(&policy.subject), rule)
}

pub(super) fn rule(rule: &Rule, direction: Direction) -> Node {
    let peers = match &rule.peers {
        PeerSet::Of(entries) => Some(Node::List(entries.iter().filter_map(peer).collect())),
        PeerSet::Any | PeerSet::AnyButOwnNode => None,
    };
    let protocols = match &rule.ports {
        PortSet::Of(entries) => Some(Node::List(entries.iter().filter_map(protocol).collect())),
        PortSet::Any => None,
    };
    some([
        ("name", name(rule)),
        ("action", Some(action(rule.action, Names::Accept))),
        (list_of(direction), peers),
        ("protocols", protocols),
    ])
}

fn protocol(entry: &PortMatch) -> Option<Node> {
    match entry {
        PortMatch::Numbers { protocol, ports } => {
            let (first, last) = (ports.first().max(1), ports.last());
            let port = match first == last {
                true => map([("number", number(first))]),
                false => map([("range", map([("start", number(first)), ("end", number(last))]))]),
            };
            Some(map([(protocol.to_string().as_str(), map([("destinationPort", port)]).inline())]))
        }
        PortMatch::Named { name, .. } => Some(map([("destinationNamedPort", Node::text(name))])),
        PortMatch::Unreadable => None,
    }
}
