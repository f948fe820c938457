//! Whether there can be something that several selectors select, peers mean, or rules are about.

use std::collections::BTreeMap;

use palisade_model::{IpBlock, LabelSelector, NamespaceSet, Operator, Peer, PeerSet, PortMatch, PortSet, Rule, Subject};

/// The label that every namespace has.
const NAME: &str = "kubernetes.io/metadata.name";

/// What is wanted of one label.
#[derive(Default)]
struct Wanted<'s> {
    /// One of these; any if none is said.
    one_of: Option<Vec<&'s str>>,
    none_of: Vec<&'s str>,
    present: bool,
    absent: bool,
}

/// Whether some labels can meet all requirements.
pub(super) fn satisfiable<'s>(selectors: impl IntoIterator<Item = &'s LabelSelector>) -> bool {
    let mut keys: BTreeMap<&str, Wanted<'_>> = BTreeMap::new();
    for requirement in selectors.into_iter().flat_map(|it| &it.requirements) {
        let wanted = keys.entry(&requirement.key).or_default();
        match &requirement.operator {
            Operator::Equals(value) => wanted.among(vec![value]),
            Operator::In(values) => wanted.among(values.iter().map(AsRef::as_ref).collect()),
            Operator::NotIn(values) => wanted.none_of.extend(values.iter().map(AsRef::as_ref)),
            Operator::Exists => wanted.present = true,
            Operator::DoesNotExist => wanted.absent = true,
        }
    }
    keys.values().all(Wanted::is_possible)
}

impl<'s> Wanted<'s> {
    fn among(&mut self, values: Vec<&'s str>) {
        self.present = true;
        self.one_of = Some(match self.one_of.take() {
            Some(before) => before.into_iter().filter(|it| values.contains(it)).collect(),
            None => values,
        });
    }

    fn is_possible(&self) -> bool {
        let some = self.one_of.as_ref().is_none_or(|it| it.iter().any(|value| !self.none_of.contains(value)));
        some && !(self.present && self.absent)
    }
}

/// Whether some pod can be a subject of both.
pub(super) fn subjects_meet(a: &Subject, b: &Subject) -> bool {
    match (a, b) {
        (Subject::Pods { namespaces: in_a, pods: a }, Subject::Pods { namespaces: in_b, pods: b }) => pods_meet((in_a, a), (in_b, b)),
        (Subject::Unknown, _) | (_, Subject::Unknown) => false,
    }
}

fn pods_meet(a: (&NamespaceSet, &LabelSelector), b: (&NamespaceSet, &LabelSelector)) -> bool {
    let by_name = |it: &NamespaceSet| match it {
        NamespaceSet::Own(own) => {
            LabelSelector { requirements: vec![palisade_model::Requirement { key: NAME.into(), operator: Operator::Equals(own.clone()) }] }
        }
        NamespaceSet::Matching(selector) => selector.clone(),
    };
    let named = LabelSelector { requirements: vec![palisade_model::Requirement { key: NAME.into(), operator: Operator::Exists }] };
    satisfiable([&by_name(a.0), &by_name(b.0), &named]) && satisfiable([a.1, b.1])
}

/// Whether some connection can match both rules.
pub(super) fn rules_meet(a: &Rule, b: &Rule) -> bool {
    peers_meet(&a.peers, &b.peers) && ports_meet(&a.ports, &b.ports)
}

fn peers_meet(a: &PeerSet, b: &PeerSet) -> bool {
    match (a, b) {
        (PeerSet::Of(a), PeerSet::Of(b)) => a.iter().any(|a| b.iter().any(|b| entries_meet(a, b))),
        (PeerSet::Any | PeerSet::AnyButOwnNode, PeerSet::Of(of)) | (PeerSet::Of(of), PeerSet::Any | PeerSet::AnyButOwnNode) => {
            of.iter().any(|it| *it != Peer::Unreadable)
        }
        (PeerSet::Any | PeerSet::AnyButOwnNode, PeerSet::Any | PeerSet::AnyButOwnNode) => true,
    }
}

/// What an address or a name belongs to is not known beforehand, so it may be anybody's.
fn entries_meet(a: &Peer, b: &Peer) -> bool {
    match (a, b) {
        (Peer::Unreadable, _) | (_, Peer::Unreadable) => false,
        (Peer::Pods { namespaces: in_a, pods: a }, Peer::Pods { namespaces: in_b, pods: b }) => pods_meet((in_a, a), (in_b, b)),
        (Peer::Networks(a), Peer::Networks(b)) => a.iter().any(|a| b.iter().any(|b| blocks_meet(a, b))),
        (Peer::Nodes(a), Peer::Nodes(b)) => satisfiable([a, b]),
        (Peer::Nodes(_), Peer::Pods { .. } | Peer::Relative(_)) | (Peer::Pods { .. } | Peer::Relative(_), Peer::Nodes(_)) => false,
        (Peer::Domains(names), Peer::Pods { .. } | Peer::Relative(_)) | (Peer::Pods { .. } | Peer::Relative(_), Peer::Domains(names)) => {
            names.iter().any(|it| it.is_cluster_local())
        }
        (Peer::Relative(_) | Peer::Networks(_) | Peer::Domains(_), _) | (_, Peer::Relative(_) | Peer::Networks(_) | Peer::Domains(_)) => {
            true
        }
    }
}

fn blocks_meet(a: &IpBlock, b: &IpBlock) -> bool {
    let inner = if a.cidr.contains(&b.cidr) { b.cidr } else { a.cidr };
    let meet = a.cidr.contains(&b.cidr) || b.cidr.contains(&a.cidr);
    meet && !a.except.iter().chain(&b.except).any(|it| it.contains(&inner))
}

fn ports_meet(a: &PortSet, b: &PortSet) -> bool {
    match (a, b) {
        (PortSet::Of(a), PortSet::Of(b)) => a.iter().any(|a| b.iter().any(|b| ports_of_entries_meet(a, b))),
        (PortSet::Any, PortSet::Of(of)) | (PortSet::Of(of), PortSet::Any) => of.iter().any(|it| *it != PortMatch::Unreadable),
        (PortSet::Any, PortSet::Any) => true,
    }
}

fn ports_of_entries_meet(a: &PortMatch, b: &PortMatch) -> bool {
    match (a, b) {
        (PortMatch::Unreadable, _) | (_, PortMatch::Unreadable) => false,
        (PortMatch::Numbers { protocol: p, ports: a }, PortMatch::Numbers { protocol: q, ports: b }) => {
            p == q && a.first() <= b.last() && b.first() <= a.last()
        }
        (PortMatch::Named { protocol, .. }, PortMatch::Numbers { protocol: other, .. })
        | (PortMatch::Numbers { protocol: other, .. }, PortMatch::Named { protocol, .. }) => protocol.is_none_or(|it| it == *other),
        (PortMatch::Named { protocol: p, name: a }, PortMatch::Named { protocol: q, name: b }) => {
            a == b && (p.is_none() || q.is_none() || p == q)
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::Requirement;

    use super::*;

    fn selector(text: &str) -> LabelSelector {
        let requirement = |it: &str| {
            let values = |text: &str| text.split('|').map(Box::from).collect();
            let (key, operator) = match (it.split_once("!="), it.split_once('='), it.strip_prefix('!')) {
                (Some((key, value)), ..) => (key, Operator::NotIn(values(value))),
                (None, Some((key, value)), _) if value.contains('|') => (key, Operator::In(values(value))),
                (None, Some((key, value)), _) => (key, Operator::Equals(value.into())),
                (None, None, Some(key)) => (key, Operator::DoesNotExist),
                (None, None, None) => (it, Operator::Exists),
            };
            Requirement { key: key.into(), operator }
        };
        LabelSelector { requirements: text.split_whitespace().map(requirement).collect() }
    }

    fn check(a: &str, b: &str, expected: bool) {
        assert_eq!((satisfiable([&selector(a), &selector(b)]), a, b), (expected, a, b));
    }

    #[test]
    fn selectors_meet_where_some_labels_fit_both() {
        check("", "", true);
        check("a=1", "b=2", true);
        check("a=1", "a=2", false);
        check("a=1|2", "a=2|3", true);
        check("a=1|2", "a!=2", true);
        check("a=1|2", "a!=1|2", false);
        check("a", "!a", false);
        check("a=1", "!a", false);
        check("a!=1", "!a", true);
        check("a", "a!=1", true);
    }
}
