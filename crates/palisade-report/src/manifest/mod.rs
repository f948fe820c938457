//! Policies as manifests that apply cleanly: no status, no nulls, nothing that a server fills in.
//!
//! One file for each shape. What a shape cannot say is not written; whoever brings a policy into another shape says what that loses
//! (`palisade_analysis::convert`).

mod admin_network_policy;
mod baseline;
mod cluster_network_policy;
mod kep2091;
mod network_policy;
mod parts;
pub(crate) mod tree;

use palisade_k8s::Beside;
use palisade_model::{Direction, Policy, PolicyKind, Rule};

use self::parts::Names;
use self::tree::{Node, map, some};

/// An object that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    remarks: Vec<String>,
    object: Node,
}

/// The object that a policy is, in the shape of its kind; an AdminNetworkPolicy and its Baseline as they were last shipped.
pub fn manifest(policy: &Policy, beside: &Beside) -> Manifest {
    let (version, spec) = match policy.origin.kind {
        PolicyKind::NetworkPolicy => ("networking.k8s.io/v1", network_policy::spec(policy, beside)),
        PolicyKind::ClusterNetworkPolicy => ("policy.networking.k8s.io/v1alpha2", cluster_network_policy::spec(policy, beside)),
        PolicyKind::AdminNetworkPolicy => ("policy.networking.k8s.io/v1alpha1", admin_network_policy::spec(policy, beside)),
        PolicyKind::BaselineAdminNetworkPolicy => ("policy.networking.k8s.io/v1alpha1", baseline::spec(policy, beside)),
        PolicyKind::Kep2091 => ("kep2091.palisade.dev/v1alpha1", kep2091::spec(policy, beside)),
    };
    let pairs = |pairs: &[(String, String)]| match pairs.is_empty() {
        true => None,
        false => Some(Node::Map(pairs.iter().map(|(key, value)| (key.clone(), Node::text(value))).collect())),
    };
    let metadata = some([
        ("name", Some(Node::text(&policy.origin.name))),
        ("namespace", policy.origin.namespace.as_ref().map(Node::text)),
        ("labels", pairs(&beside.labels)),
        ("annotations", pairs(&beside.annotations)),
    ]);
    let kind = Node::text(policy.origin.kind.as_str());
    let object = map([("apiVersion", Node::text(version)), ("kind", kind), ("metadata", metadata), ("spec", spec)]);
    Manifest { remarks: beside.remarks.clone(), object }
}

impl Manifest {
    /// As YAML, with its remarks.
    pub fn yaml(&self) -> String {
        let remarks: String = self.remarks.iter().map(|it| format!("{it}\n")).collect();
        remarks + &self.object.yaml()
    }

    /// As JSON, which has no place for remarks.
    pub fn json(&self) -> serde_json::Value {
        self.object.json()
    }
}

/// A NetworkPolicy as YAML. Only what a NetworkPolicy can say is written.
pub fn network_policy(policy: &Policy) -> String {
    manifest(policy, &Beside::default()).yaml()
}

/// One rule of a cluster policy, as an item of its list, in the shape that its kind was last shipped in.
pub fn cluster_rule(rule: &Rule, direction: Direction, kind: PolicyKind) -> String {
    let rule = match kind {
        PolicyKind::NetworkPolicy | PolicyKind::ClusterNetworkPolicy => cluster_network_policy::rule(rule, direction),
        PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => admin_network_policy::rule(rule, direction),
        PolicyKind::Kep2091 => kep2091::rule(rule, direction),
    };
    Node::List(vec![rule]).yaml()
}

/// The spec of a cluster policy: when it is asked, whom it is about, and its rules.
fn cluster_spec<const N: usize>(
    policy: &Policy,
    beside: &Beside,
    when: [(&str, Node); N],
    subject: Node,
    rule: fn(&Rule, Direction) -> Node,
) -> Node {
    let when = when.map(|(key, value)| (key, Some(value)));
    let directions = [("ingress", Direction::Ingress), ("egress", Direction::Egress)];
    let lists = directions.map(|(key, direction)| (key, rules(policy, beside, direction, rule)));
    some(when.into_iter().chain([("subject", Some(subject))]).chain(lists))
}

/// The rules of one direction, with the remarks above them; none if there is no rule.
fn rules(policy: &Policy, beside: &Beside, direction: Direction, write: impl Fn(&Rule, Direction) -> Node) -> Option<Node> {
    let written = policy.rules.of(direction).iter().enumerate().map(|(at, rule)| {
        let node = write(rule, direction);
        match beside.rule_remarks.iter().find(|it| it.0 == direction && it.1 == at) {
            Some((_, _, lines)) => Node::Remarked(lines.clone(), Box::new(node)),
            None => node,
        }
    });
    let written: Vec<Node> = written.collect();
    (!written.is_empty()).then_some(Node::List(written))
}

/// `from` or `to`.
fn list_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}
