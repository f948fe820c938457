//! From a rule that decided, or missed, to the place in the user's YAML.

use palisade_analysis::Nearest;
use palisade_engine::{PeerMiss, PortMiss, Scope};
use palisade_k8s::{FieldPath, ObjectKey, Sources};
use palisade_model::{
    Direction, LabelSelector, Model, NamespaceSet, Operator, Peer, PeerSet, PolicyKind, RelativeNamespaces, RelativePods, RelativeSelector,
    Requirement, RuleRef,
};

use crate::v1::{Mark, Place};

/// The path of a rule.
pub fn rule_path(rule: &RuleRef) -> FieldPath {
    let list = match rule.direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    };
    FieldPath::default().field("spec").field(list).index(rule.index)
}

/// The path of an entry of `from` or `to`.
pub fn peer_path(rule: &RuleRef, at: usize) -> FieldPath {
    let list = match rule.direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    rule_path(rule).field(list).index(at)
}

/// The path of an entry of `ports` or `protocols`.
pub fn port_path(rule: &RuleRef, at: usize) -> FieldPath {
    let list = match rule.policy.kind {
        PolicyKind::NetworkPolicy => "ports",
        PolicyKind::ClusterNetworkPolicy => "protocols",
        PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy => "ports",
        PolicyKind::Kep2091 => return rule_path(rule).field("l4Selector").field("ports").index(at),
    };
    rule_path(rule).field(list).index(at)
}

/// Paths to what made a peer entry match, the best first: its first requirement, else the entry.
pub(crate) fn matched_paths(model: &Model, rule: &RuleRef, at: usize) -> Vec<FieldPath> {
    let entry = peer_path(rule, at);
    let mut paths = Vec::new();
    for scope in [Scope::Pod, Scope::Namespace, Scope::Node] {
        let first = selector_of(model, rule, at, scope).and_then(|it| it.requirements.first());
        if let Some(requirement) = first {
            paths.extend(requirement_paths(model, rule, at, scope, requirement));
        }
    }
    paths.extend([entry.clone().field("ipBlock").field("cidr"), entry.clone().field("networks"), entry.clone().field("domainNames")]);
    paths.push(entry);
    paths
}

/// Paths to what made the nearest rule miss, the best first.
pub(crate) fn nearest_paths(model: &Model, nearest: &Nearest) -> Vec<FieldPath> {
    let rule = &nearest.step.rule;
    let whole = rule_path(rule);
    if let (Some(at), Some(miss)) = (nearest.peer, nearest.peer_miss()) {
        let entry = peer_path(rule, at);
        let mut paths = match miss {
            PeerMiss::Labels(failed) => {
                failed.first().map_or_else(Vec::new, |it| requirement_paths(model, rule, at, it.scope, &it.requirement))
            }
            PeerMiss::NotInBlocks | PeerMiss::NoAddress => {
                vec![entry.clone().field("ipBlock").field("cidr"), entry.clone().field("networks")]
            }
            PeerMiss::Excepted(_) => vec![entry.clone().field("ipBlock").field("except")],
            PeerMiss::OtherNamespace { .. } => vec![entry.clone().field("podSelector")],
            PeerMiss::NothingToCompare { .. } | PeerMiss::NotAPod | PeerMiss::NotANode | PeerMiss::NoName => Vec::new(),
            PeerMiss::NotKnown | PeerMiss::Unreadable => Vec::new(),
        };
        paths.push(entry);
        return paths;
    }
    match nearest.port {
        Some(at) => {
            let field = match nearest.port_miss() {
                Some(PortMiss::Protocol(_)) => "protocol",
                Some(_) | None => "port",
            };
            vec![port_path(rule, at).field(field), port_path(rule, at)]
        }
        None => vec![whole],
    }
}

/// Where a requirement may stand: the API has several spellings for the same selector.
fn requirement_paths(model: &Model, rule: &RuleRef, at: usize, scope: Scope, requirement: &Requirement) -> Vec<FieldPath> {
    let entry = peer_path(rule, at);
    let holders: Vec<FieldPath> = match scope {
        Scope::Pod => vec![
            entry.clone().field("podSelector"),
            entry.clone().field("pods").field("podSelector"),
            entry.field("namespacedPods").field("pods").field("podSelector"),
        ],
        Scope::Namespace => vec![
            entry.clone().field("namespaceSelector"),
            entry.clone().field("namespaces").field("namespaceSelector"),
            entry.clone().field("namespaces"),
            entry.clone().field("pods").field("namespaceSelector"),
            entry.clone().field("pods").field("namespaces").field("namespaceSelector"),
            entry.field("namespacedPods").field("namespaces").field("namespaceSelector"),
        ],
        Scope::Node => vec![entry.field("nodes")],
    };
    let inside = |holder: FieldPath| match &requirement.operator {
        Operator::Equals(_) => holder.field("matchLabels").field(requirement.key.to_string()),
        Operator::In(_) | Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => {
            holder.field("matchExpressions").index(expression_index(model, rule, at, scope, requirement))
        }
    };
    holders.into_iter().map(inside).collect()
}

/// Expressions come after `matchLabels` in a selector, in the order written.
fn expression_index(model: &Model, rule: &RuleRef, at: usize, scope: Scope, requirement: &Requirement) -> usize {
    let selector = selector_of(model, rule, at, scope);
    let expressions = selector.into_iter().flat_map(|it| &it.requirements).filter(|it| !matches!(it.operator, Operator::Equals(_)));
    expressions.take_while(|it| *it != requirement).count()
}

fn selector_of<'m>(model: &'m Model, rule: &RuleRef, at: usize, scope: Scope) -> Option<&'m LabelSelector> {
    let policy = model.policies.iter().find(|it| it.origin == rule.policy)?;
    let rule = policy.rules.of(rule.direction).iter().find(|it| it.index == rule.index)?;
    let PeerSet::Of(peers) = &rule.peers else { return None };
    match (peers.get(at)?, scope) {
        (Peer::Pods { pods, .. }, Scope::Pod) => Some(pods),
        (Peer::Pods { namespaces: NamespaceSet::Matching(selector), .. }, Scope::Namespace) => Some(selector),
        (Peer::Nodes(selector), Scope::Node) => Some(selector),
        (Peer::Relative(RelativePods { pods: RelativeSelector::Matching(selector), .. }), Scope::Pod) => Some(selector),
        (
            Peer::Relative(RelativePods { namespaces: RelativeNamespaces::Labelled(RelativeSelector::Matching(selector)), .. }),
            Scope::Namespace,
        ) => Some(selector),
        (Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Networks(_) | Peer::Domains(_) | Peer::Unreadable, _) => None,
    }
}

/// The marked line at the first of `paths` that exists.
pub(crate) fn mark(sources: &Sources, rule: &RuleRef, paths: &[FieldPath], label: String) -> Option<Mark> {
    mark_of(sources, &ObjectKey::from(&rule.policy), paths, label)
}

/// The marked line of an object at the first of `paths` that exists.
pub fn mark_of(sources: &Sources, object: &ObjectKey, paths: &[FieldPath], label: String) -> Option<Mark> {
    let excerpt = sources.find(object, paths)?;
    let before = excerpt.content.get(..excerpt.start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let rest = excerpt.content.get(line_start..)?;
    let line = rest.lines().next().unwrap_or("");
    let start = excerpt.start - line_start;
    let end = (excerpt.end - line_start).clamp(start, line.len().max(start));
    let path = excerpt.path.to_string();
    Some(Mark { place: Place::from(&excerpt.location), path, line: line.to_owned(), start, end, label })
}
