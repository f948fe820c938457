//! AdminNetworkPolicy as KEP-2091 proposed it, in the group under which a cluster can serve it.

use palisade_k8s::Beside;
use palisade_model::{
    Direction, NamespaceSet, Peer, PeerSet, Policy, PortMatch, PortProtocol, PortSet, RelativeNamespaces, RelativePods, RelativeSelector,
    Rule, Subject,
};

use super::parts::{action, name, namespaces, number, selector, upper};
use super::tree::{Node, map, some};
use super::{Names, cluster_spec, list_of};

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    cluster_spec(policy, beside, [("priority", Node::Number(1000 - policy.rank))], subject(&policy.subject), rule)
}

fn subject(subject: &Subject) -> Node {
    let Subject::Pods { namespaces: within, pods } = subject else { return Node::Map(Vec::new()) };
    match pods.selects_everything() {
        true => map([("namespaceSelector", namespaces(within))]),
        false => map([("namespaceAndPodSelector", map([("namespaceSelector", namespaces(within)), ("podSelector", selector(pods))]))]),
    }
}

pub(super) fn rule(rule: &Rule, direction: Direction) -> Node {
    let peers = match &rule.peers {
        PeerSet::Of(entries) => Some(Node::List(entries.iter().filter_map(peer).collect())),
        PeerSet::Any | PeerSet::AnyButOwnNode => None,
    };
    let layer4 = match &rule.ports {
        PortSet::Of(entries) => map([("ports", Node::List(entries.iter().filter_map(port).collect()))]),
        PortSet::Any => map([("allPorts", Node::True)]),
    };
    some([
        ("name", name(rule)),
        ("action", Some(action(rule.action, Names::Allow))),
        (list_of(direction), peers),
        ("l4Selector", Some(layer4)),
    ])
}

fn peer(peer: &Peer) -> Option<Node> {
    let pair = |namespaces: Node, pods: Node| map([("namespacedPods", map([("namespaces", namespaces), ("pods", pods)]))]);
    match peer {
        Peer::Pods { namespaces, pods } if pods.selects_everything() => Some(map([("namespaces", absolute(namespaces))])),
        Peer::Pods { namespaces, pods } => Some(pair(absolute(namespaces), map([("podSelector", selector(pods))]))),
        Peer::Relative(RelativePods { namespaces, pods: RelativeSelector::Matching(pods) }) if pods.selects_everything() => {
            Some(map([("namespaces", relative_namespaces(namespaces)?)]))
        }
        Peer::Relative(RelativePods { namespaces, pods }) => Some(pair(relative_namespaces(namespaces)?, relative("podSelector", pods)?)),
        Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    }
}

fn absolute(within: &NamespaceSet) -> Node {
    map([("namespaceSelector", namespaces(within))])
}

fn relative_namespaces(namespaces: &RelativeNamespaces) -> Option<Node> {
    match namespaces {
        RelativeNamespaces::Own => Some(map([("self", Node::True)])),
        RelativeNamespaces::Others => Some(map([("notSelf", Node::True)])),
        RelativeNamespaces::Labelled(selector) => relative("namespaceSelector", selector),
    }
}

/// None for what only the early AdminNetworkPolicy can say.
fn relative(plain: &str, it: &RelativeSelector) -> Option<Node> {
    let keys = |keys: &[Box<str>]| Node::List(keys.iter().map(Node::text).collect()).inline();
    match it {
        RelativeSelector::Matching(matching) => Some(map([(plain, selector(matching))])),
        RelativeSelector::Same(same) => Some(map([("sameLabels", keys(same))])),
        RelativeSelector::NoneSame(none) => Some(map([("notSameLabels", keys(none))])),
        RelativeSelector::SomeDiffer(_) => None,
    }
}

fn port(entry: &PortMatch) -> Option<Node> {
    match entry {
        PortMatch::Numbers { protocol, ports } => {
            let (first, last) = (ports.first().max(1), ports.last());
            let end = (first != last).then(|| number(last));
            Some(some([("protocol", Some(upper(*protocol))), ("port", Some(number(first))), ("endPort", end)]))
        }
        PortMatch::Named { protocol, name } => {
            Some(map([("protocol", upper(protocol.unwrap_or(PortProtocol::Tcp))), ("port", Node::text(name))]))
        }
        PortMatch::Unreadable => None,
    }
}
