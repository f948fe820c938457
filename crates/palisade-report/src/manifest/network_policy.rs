//! networking.k8s.io/v1 NetworkPolicy.

use palisade_k8s::Beside;
use palisade_model::{Direction, NamespaceSet, Peer, PeerSet, Policy, PortMatch, PortProtocol, PortSet, Ports, Rule, Subject};

use super::parts::{number, selector, upper};
use super::tree::{Node, map, some};
use super::{list_of, rules};

pub(super) fn spec(policy: &Policy, beside: &Beside) -> Node {
    let pods = match &policy.subject {
        Subject::Pods { pods, .. } => Some(selector(pods)),
        Subject::Unknown => None,
    };
    let types = [(policy.isolates.ingress, "Ingress"), (policy.isolates.egress, "Egress")];
    let types = types.into_iter().filter(|it| it.0).map(|it| Node::text(it.1)).collect();
    some([
        ("podSelector", pods),
        ("policyTypes", Some(Node::List(types).inline())),
        ("ingress", rules(policy, beside, Direction::Ingress, rule)),
        ("egress", rules(policy, beside, Direction::Egress, rule)),
    ])
}

fn rule(rule: &Rule, direction: Direction) -> Node {
    let peers = match &rule.peers {
        PeerSet::Of(entries) => Some(Node::List(entries.iter().flat_map(peer).collect())),
        PeerSet::Any | PeerSet::AnyButOwnNode => None,
    };
    let ports = match &rule.ports {
        PortSet::Of(entries) => Some(Node::List(entries.iter().filter_map(port).collect())),
        PortSet::Any => None,
    };
    some([(list_of(direction), peers), ("ports", ports)])
}

fn peer(peer: &Peer) -> Vec<Node> {
    match peer {
        Peer::Pods { namespaces: NamespaceSet::Own(_), pods } => vec![map([("podSelector", selector(pods))])],
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => {
            vec![map([("namespaceSelector", selector(namespaces)), ("podSelector", selector(pods))])]
        }
        Peer::Networks(blocks) => {
            let block = blocks.iter().map(|block| {
                let except = Node::List(block.except.iter().map(Node::text).collect()).inline();
                let except = (!block.except.is_empty()).then_some(except);
                map([("ipBlock", some([("cidr", Some(Node::text(block.cidr))), ("except", except)]))])
            });
            block.collect()
        }
        Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => Vec::new(),
    }
}

fn port(entry: &PortMatch) -> Option<Node> {
    match entry {
        PortMatch::Numbers { protocol, ports } => {
            let some_ports = *ports != Ports::ALL;
            Some(some([
                ("protocol", Some(upper(*protocol))),
                ("port", some_ports.then(|| number(ports.first().max(1)))),
                ("endPort", (some_ports && ports.first().max(1) != ports.last()).then(|| number(ports.last()))),
            ]))
        }
        PortMatch::Named { protocol, name } => {
            Some(map([("protocol", upper(protocol.unwrap_or(PortProtocol::Tcp))), ("port", Node::text(name))]))
        }
        PortMatch::Unreadable => None,
    }
}
