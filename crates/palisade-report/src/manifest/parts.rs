//! What several shapes write alike.

use palisade_model::{Action, LabelSelector, NamespaceSet, Operator, Peer, PortProtocol, Requirement, Rule, Subject};

use super::tree::{Node, map, some};

/// Every namespace has its name as a label.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How a shape calls what it lets pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names {
    Accept,
    Allow,
}

pub(super) fn action(action: Action, names: Names) -> Node {
    Node::text(match (action, names) {
        (Action::Accept, Names::Accept) => "Accept",
        (Action::Accept, Names::Allow) => "Allow",
        (Action::Deny, _) => "Deny",
        (Action::Pass, _) => "Pass",
    })
}

pub(super) fn name(rule: &Rule) -> Option<Node> {
    rule.name.as_ref().map(Node::text)
}

pub(super) fn selector(selector: &LabelSelector) -> Node {
    let mut labels: Vec<(String, Node)> = Vec::new();
    let mut expressions = Vec::new();
    let several = |values: &[Box<str>]| Node::List(values.iter().map(Node::text).collect());
    let expression = |requirement: &Requirement, operator: &str, values: Option<Node>| {
        let key = Some(Node::text(&requirement.key));
        some([("key", key), ("operator", Some(Node::text(operator))), ("values", values)]).inline()
    };
    for requirement in &selector.requirements {
        match &requirement.operator {
            // A key is there once; what is asked of it a second time still has to be asked.
            Operator::Equals(value) if labels.iter().any(|it| *it.0 == *requirement.key) => {
                expressions.push(expression(requirement, "In", Some(several(std::slice::from_ref(value)))));
            }
            Operator::Equals(value) => labels.push((requirement.key.to_string(), Node::text(value))),
            Operator::In(values) => expressions.push(expression(requirement, "In", Some(several(values)))),
            Operator::NotIn(values) => expressions.push(expression(requirement, "NotIn", Some(several(values)))),
            Operator::Exists => expressions.push(expression(requirement, "Exists", None)),
            Operator::DoesNotExist => expressions.push(expression(requirement, "DoesNotExist", None)),
        }
    }
    let labels = (!labels.is_empty()).then(|| Node::Map(labels).inline());
    some([("matchLabels", labels), ("matchExpressions", (!expressions.is_empty()).then_some(Node::List(expressions)))])
}

/// Namespaces by labels; one namespace by its name, which is a label too.
pub(super) fn namespaces(namespaces: &NamespaceSet) -> Node {
    match namespaces {
        NamespaceSet::Matching(namespaces) => selector(namespaces),
        NamespaceSet::Own(own) => map([("matchLabels", map([(NAME_LABEL, Node::text(own))]).inline())]),
    }
}

/// `namespaces`, or `pods` where not all pods of them are meant.
pub(super) fn namespaces_or_pods(within: &NamespaceSet, pods: &LabelSelector) -> Node {
    match pods.selects_everything() {
        true => map([("namespaces", namespaces(within))]),
        false => map([("pods", map([("namespaceSelector", namespaces(within)), ("podSelector", selector(pods))]))]),
    }
}

/// Nothing can be written for a subject that could not be read.
pub(super) fn subject(subject: &Subject) -> Node {
    match subject {
        Subject::Pods { namespaces, pods } => namespaces_or_pods(namespaces, pods),
        Subject::Unknown => Node::Map(Vec::new()),
    }
}

/// A peer of the shapes that were shipped.
pub(super) fn peer(peer: &Peer) -> Option<Node> {
    match peer {
        Peer::Pods { namespaces, pods } => Some(namespaces_or_pods(namespaces, pods)),
        Peer::Networks(blocks) => Some(map([("networks", Node::List(blocks.iter().map(|block| Node::text(block.cidr)).collect()))])),
        Peer::Nodes(nodes) => Some(map([("nodes", selector(nodes))])),
        Peer::Domains(patterns) => Some(map([("domainNames", Node::List(patterns.iter().map(|it| Node::text(it.as_str())).collect()))])),
        Peer::Relative(_) | Peer::Unreadable => None,
    }
}

pub(super) fn upper(protocol: PortProtocol) -> Node {
    Node::text(match protocol {
        PortProtocol::Tcp => "TCP",
        PortProtocol::Udp => "UDP",
        PortProtocol::Sctp => "SCTP",
    })
}

pub(super) fn number(port: u16) -> Node {
    Node::Number(i64::from(port))
}
