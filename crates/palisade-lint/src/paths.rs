//! Where things stand in an object. APIs have several spellings for the same thing, so there are several candidates, the best first.

use palisade_k8s::{FieldPath, ObjectKey};
use palisade_model::{Direction, LabelSelector, Operator, PolicyKind, PolicyRef, Requirement, RuleRef};
use palisade_report::locate::{peer_path, rule_path};

fn spec() -> FieldPath {
    FieldPath::default().field("spec")
}

/// A field of `spec`.
pub(crate) fn field(name: &'static str) -> FieldPath {
    spec().field(name)
}

/// The subject as a whole.
pub(crate) fn subject(policy: &PolicyRef) -> Vec<FieldPath> {
    match policy.kind {
        PolicyKind::NetworkPolicy => vec![spec().field("podSelector"), spec()],
        PolicyKind::ClusterNetworkPolicy
        | PolicyKind::AdminNetworkPolicy
        | PolicyKind::BaselineAdminNetworkPolicy
        | PolicyKind::Kep2091 => vec![spec().field("subject"), spec()],
    }
}

/// Whose labels a selector is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Pods,
    Namespaces,
}

/// Where the selector of a subject may stand.
pub(crate) fn subject_selector(policy: &PolicyRef, of: Of) -> Vec<FieldPath> {
    let subject = spec().field("subject");
    match (policy.kind, of) {
        (PolicyKind::NetworkPolicy, Of::Pods | Of::Namespaces) => vec![spec().field("podSelector")],
        (
            PolicyKind::ClusterNetworkPolicy
            | PolicyKind::AdminNetworkPolicy
            | PolicyKind::BaselineAdminNetworkPolicy
            | PolicyKind::Kep2091,
            of,
        ) => within_pods(&subject, of),
    }
}

/// Where the selector of a peer may stand.
pub(crate) fn peer_selector(rule: &RuleRef, at: usize, of: Of) -> Vec<FieldPath> {
    let entry = peer_path(rule, at);
    match (rule.policy.kind, of) {
        (PolicyKind::NetworkPolicy, Of::Pods) => vec![entry.field("podSelector")],
        (PolicyKind::NetworkPolicy, Of::Namespaces) => vec![entry.field("namespaceSelector")],
        (
            PolicyKind::ClusterNetworkPolicy
            | PolicyKind::AdminNetworkPolicy
            | PolicyKind::BaselineAdminNetworkPolicy
            | PolicyKind::Kep2091,
            of,
        ) => within_pods(&entry, of),
    }
}

/// By every spelling that some version of the APIs has.
fn within_pods(holder: &FieldPath, of: Of) -> Vec<FieldPath> {
    let spellings: &[&[&str]] = match of {
        Of::Pods => &[&["pods", "podSelector"], &["namespaceAndPodSelector", "podSelector"], &["namespacedPods", "pods", "podSelector"]],
        Of::Namespaces => &[
            &["pods", "namespaceSelector"],
            &["pods", "namespaces", "namespaceSelector"],
            &["namespaceAndPodSelector", "namespaceSelector"],
            &["namespacedPods", "namespaces", "namespaceSelector"],
            &["namespaces", "namespaceSelector"],
            &["namespaceSelector"],
            &["namespaces"],
        ],
    };
    spellings.iter().map(|it| it.iter().fold(holder.clone(), |path, field| path.field(*field))).collect()
}

/// Where a requirement of a selector stands, given where the selector may.
pub(crate) fn requirement(selector: &LabelSelector, holders: Vec<FieldPath>, wanted: &Requirement) -> Vec<FieldPath> {
    let expressions = selector.requirements.iter().filter(|it| !matches!(it.operator, Operator::Equals(_)));
    let at = expressions.take_while(|it| *it != wanted).count();
    let inside = |holder: &FieldPath| match &wanted.operator {
        Operator::Equals(_) => holder.clone().field("matchLabels").field(wanted.key.to_string()),
        Operator::In(_) | Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => {
            holder.clone().field("matchExpressions").index(at)
        }
    };
    let exact: Vec<FieldPath> = holders.iter().map(inside).collect();
    exact.into_iter().chain(holders).collect()
}

/// Where the `at`th block of a peer may stand.
pub(crate) fn block(rule: &RuleRef, peer: usize, at: usize) -> Vec<FieldPath> {
    let entry = peer_path(rule, peer);
    vec![entry.clone().field("ipBlock").field("cidr"), entry.clone().field("networks").index(at), entry]
}

/// The name that the author gave a rule, else the rule.
pub(crate) fn rule_name(rule: &RuleRef) -> Vec<FieldPath> {
    vec![rule_path(rule).field("name"), rule_path(rule)]
}

/// A rule of a NetworkPolicy, by its place.
pub(crate) fn np_rule(key: &ObjectKey, direction: Direction, index: usize) -> RuleRef {
    let policy = PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: key.namespace.clone(), name: key.name.clone() };
    RuleRef { policy, direction, index, name: None }
}
