//! What holds whatever pods there are: whether one description is part of another, and whether two can hold at once.
//!
//! `…_within` errs to no: what it calls part of another always is. `…_meet` errs to yes.

use std::collections::BTreeSet;

use palisade_model::{
    IpBlock, LabelSelector, NamespaceSet, Operator, Peer, PeerSet, PortMatch, PortProtocol, PortSet, RelativeNamespaces, RelativeSelector,
    Requirement, Rule, Subject,
};

/// The label by which a namespace has its name.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Whether every label set of `part` is one of `whole`.
pub(crate) fn selector_within(part: &LabelSelector, whole: &LabelSelector) -> bool {
    whole.requirements.iter().all(|wanted| part.requirements.iter().any(|it| implies(it, wanted)))
}

fn implies(known: &Requirement, wanted: &Requirement) -> bool {
    if known.key != wanted.key {
        return false;
    }
    let values = |it: &Operator| -> Option<BTreeSet<Box<str>>> {
        match it {
            Operator::Equals(value) => Some(BTreeSet::from([value.clone()])),
            Operator::In(values) => Some(values.iter().cloned().collect()),
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
        }
    };
    match (&known.operator, &wanted.operator) {
        (Operator::Exists, Operator::Exists) | (Operator::DoesNotExist, Operator::DoesNotExist | Operator::NotIn(_)) => true,
        (Operator::NotIn(known), Operator::NotIn(wanted)) => wanted.iter().all(|it| known.contains(it)),
        (known, Operator::Equals(_) | Operator::In(_)) => {
            values(known).zip(values(&wanted.operator)).is_some_and(|(known, wanted)| known.is_subset(&wanted))
        }
        (known, Operator::NotIn(wanted)) => values(known).is_some_and(|known| wanted.iter().all(|it| !known.contains(it))),
        (known, Operator::Exists) => values(known).is_some(),
        (Operator::Equals(_) | Operator::In(_) | Operator::NotIn(_) | Operator::Exists, Operator::DoesNotExist) => false,
    }
}

/// Whether some label set could be one of both.
pub(crate) fn selectors_meet(a: &LabelSelector, b: &LabelSelector) -> bool {
    let all: Vec<&Requirement> = a.requirements.iter().chain(&b.requirements).collect();
    let keys: BTreeSet<&str> = all.iter().map(|it| it.key.as_ref()).collect();
    keys.into_iter().all(|key| {
        let asked: Vec<&Operator> = all.iter().filter(|it| *it.key == *key).map(|it| &it.operator).collect();
        is_possible(&asked)
    })
}

/// Whether a label can be there, or be missing, so that all of it holds.
fn is_possible(asked: &[&Operator]) -> bool {
    let missing = asked.iter().all(|it| matches!(it, Operator::DoesNotExist | Operator::NotIn(_)));
    let mut candidates: Option<BTreeSet<&str>> = None;
    let mut excluded: BTreeSet<&str> = BTreeSet::new();
    for operator in asked {
        let values: BTreeSet<&str> = match operator {
            Operator::Equals(value) => BTreeSet::from([value.as_ref()]),
            Operator::In(values) => values.iter().map(AsRef::as_ref).collect(),
            Operator::NotIn(values) => {
                excluded.extend(values.iter().map(AsRef::as_ref));
                continue;
            }
            Operator::Exists => continue,
            Operator::DoesNotExist => return missing,
        };
        candidates = Some(candidates.map_or(values.clone(), |known| known.intersection(&values).copied().collect()));
    }
    missing || candidates.is_none_or(|it| it.iter().any(|value| !excluded.contains(value)))
}

/// Whether every namespace of `part` is one of `whole`, whatever labels namespaces get.
pub(crate) fn namespaces_within(part: &NamespaceSet, whole: &NamespaceSet) -> bool {
    match (part, whole) {
        (NamespaceSet::Own(part), NamespaceSet::Own(whole)) => part == whole,
        (NamespaceSet::Matching(part), NamespaceSet::Matching(whole)) => selector_within(part, whole),
        (NamespaceSet::Own(name), NamespaceSet::Matching(whole)) => selector_within(&by_name(name), whole),
        (NamespaceSet::Matching(part), NamespaceSet::Own(name)) => selector_within(part, &by_name(name)),
    }
}

/// A namespace has its name as a label, which nobody can take from it.
fn by_name(name: &str) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: NAME_LABEL.into(), operator: Operator::Equals(name.into()) }] }
}

/// Whether a namespace could be in both, whatever labels namespaces get.
pub(crate) fn namespaces_meet(a: &NamespaceSet, b: &NamespaceSet) -> bool {
    let selector = |it: &NamespaceSet| match it {
        NamespaceSet::Own(name) => by_name(name),
        NamespaceSet::Matching(selector) => selector.clone(),
    };
    selectors_meet(&selector(a), &selector(b))
}

/// Whether every subject of one policy is one of the other.
pub(crate) fn subject_within(part: &Subject, whole: &Subject) -> bool {
    match (part, whole) {
        (Subject::Pods { namespaces: a, pods: b }, Subject::Pods { namespaces, pods }) => {
            namespaces_within(a, namespaces) && selector_within(b, pods)
        }
        (Subject::Unknown, _) | (_, Subject::Unknown) => false,
    }
}

/// Whether a pod could be a subject of both.
pub(crate) fn subjects_meet(a: &Subject, b: &Subject) -> bool {
    match (a, b) {
        (Subject::Pods { namespaces: a, pods: b }, Subject::Pods { namespaces, pods }) => {
            namespaces_meet(a, namespaces) && selectors_meet(b, pods)
        }
        (Subject::Unknown, _) | (_, Subject::Unknown) => false,
    }
}

/// Whether an entry means nobody, whatever pods there are: it compares no key.
pub(crate) fn is_nobody(peer: &Peer) -> bool {
    let compares_nothing = |it: &RelativeSelector| match it {
        RelativeSelector::Matching(_) => false,
        RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => keys.is_empty(),
    };
    match peer {
        Peer::Relative(it) => {
            matches!(&it.namespaces, RelativeNamespaces::Labelled(namespaces) if compares_nothing(namespaces)) || compares_nothing(&it.pods)
        }
        Peer::Unreadable => true,
        Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) => false,
    }
}

/// Whether a rule has peers and all of them are nobody, or has none.
pub(crate) fn has_no_peer(rule: &Rule) -> bool {
    matches!(&rule.peers, PeerSet::Of(peers) if peers.iter().all(is_nobody))
}

/// Whether no traffic is that of a rule.
pub(crate) fn has_no_traffic(rule: &Rule) -> bool {
    matches!(&rule.ports, PortSet::Of(ports) if ports.iter().all(|it| matches!(it, PortMatch::Unreadable)))
}

/// Whether whatever matches `part` matches `whole`, for the same subject. What matches nothing is part of nothing.
pub(crate) fn rule_within(part: &Rule, whole: &Rule) -> bool {
    let matches_nothing = |it: &Rule| has_no_peer(it) || has_no_traffic(it);
    !matches_nothing(part) && peers_within(&part.peers, &whole.peers) && ports_within(&part.ports, &whole.ports)
}

fn peers_within(part: &PeerSet, whole: &PeerSet) -> bool {
    match (part, whole) {
        (_, PeerSet::Any) => true,
        (PeerSet::Any, PeerSet::AnyButOwnNode | PeerSet::Of(_)) => false,
        (PeerSet::AnyButOwnNode, PeerSet::AnyButOwnNode) => true,
        (PeerSet::AnyButOwnNode, PeerSet::Of(_)) => false,
        // A pod is never the own node; a block or a node may be.
        (PeerSet::Of(peers), PeerSet::AnyButOwnNode) => peers.iter().all(are_pods),
        (PeerSet::Of(part), PeerSet::Of(whole)) => {
            let all_pods = are_all_pods(whole);
            part.iter().all(|it| (all_pods && are_pods(it)) || whole.iter().any(|other| peer_within(it, other)))
        }
    }
}

/// Whether whoever one entry means is meant by the other.
pub(crate) fn peer_within(part: &Peer, whole: &Peer) -> bool {
    match (part, whole) {
        (Peer::Unreadable, _) => false,
        (Peer::Pods { namespaces: a, pods: b }, Peer::Pods { namespaces, pods }) => {
            namespaces_within(a, namespaces) && selector_within(b, pods)
        }
        (Peer::Networks(part), Peer::Networks(whole)) => part.iter().all(|it| whole.iter().any(|other| block_within(it, other))),
        (Peer::Nodes(part), Peer::Nodes(whole)) => selector_within(part, whole),
        (Peer::Domains(part), Peer::Domains(whole)) => part.iter().all(|it| whole.contains(it)),
        (Peer::Relative(_), Peer::Pods { .. }) => are_all_pods(std::slice::from_ref(whole)),
        (Peer::Relative(a), Peer::Relative(b)) => a.namespaces == b.namespaces && relative_within(&a.pods, &b.pods) && !is_nobody(part),
        (Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Relative(_), _) => false,
    }
}

fn are_pods(peer: &Peer) -> bool {
    matches!(peer, Peer::Pods { .. } | Peer::Relative(_))
}

/// Whether every pod of `part` is one of `whole`, for the same subject.
fn relative_within(part: &RelativeSelector, whole: &RelativeSelector) -> bool {
    match (part, whole) {
        (RelativeSelector::Matching(part), RelativeSelector::Matching(whole)) => selector_within(part, whole),
        (_, RelativeSelector::Matching(whole)) => whole.selects_everything(),
        (part, RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_)) => part == whole,
    }
}

/// Whether all pods of the cluster are among those that entries mean together.
pub(crate) fn are_all_pods(peers: &[Peer]) -> bool {
    let all_of = |wanted: RelativeNamespaces| {
        let every = |it: &RelativeSelector| matches!(it, RelativeSelector::Matching(selector) if selector.selects_everything());
        peers.iter().any(|it| matches!(it, Peer::Relative(it) if it.namespaces == wanted && every(&it.pods)))
    };
    let all = |peer: &Peer| match peer {
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => namespaces.selects_everything() && pods.selects_everything(),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => false,
    };
    peers.iter().any(all) || (all_of(RelativeNamespaces::Own) && all_of(RelativeNamespaces::Others))
}

/// Whether every address of one block is in the other.
pub(crate) fn block_within(part: &IpBlock, whole: &IpBlock) -> bool {
    let taken = |hole: &ipnet::IpNet| {
        let apart = !hole.contains(&part.cidr) && !part.cidr.contains(hole);
        apart || part.except.iter().any(|it| it.contains(hole))
    };
    whole.cidr.contains(&part.cidr) && whole.except.iter().all(taken)
}

/// Whether all traffic of one is traffic of the other.
pub(crate) fn ports_within(part: &PortSet, whole: &PortSet) -> bool {
    match (part, whole) {
        (_, PortSet::Any) => true,
        (PortSet::Any, PortSet::Of(_)) => false,
        (PortSet::Of(part), PortSet::Of(whole)) => part.iter().all(|it| whole.iter().any(|other| port_within(it, other))),
    }
}

/// Whether all traffic of one entry is traffic of the other.
pub(crate) fn port_within(part: &PortMatch, whole: &PortMatch) -> bool {
    match (part, whole) {
        (PortMatch::Numbers { protocol: a, ports: b }, PortMatch::Numbers { protocol, ports }) => {
            a == protocol && ports.first() <= b.first() && b.last() <= ports.last()
        }
        (PortMatch::Named { protocol: a, name: b }, PortMatch::Named { protocol, name }) => {
            b == name && (protocol.is_none() || a == protocol)
        }
        (PortMatch::Named { protocol: Some(a), .. }, PortMatch::Numbers { protocol, ports }) => {
            a == protocol && ports.first() <= 1 && ports.last() == u16::MAX
        }
        (PortMatch::Named { .. } | PortMatch::Numbers { .. } | PortMatch::Unreadable, _) => false,
    }
}

/// The port of HTTP.
const USUAL: u16 = 80;

/// Some traffic that matches both by number: a protocol and a port, or none where both match everything.
pub(crate) fn common_traffic(a: &PortSet, b: &PortSet) -> Option<(PortProtocol, u16)> {
    let entries = |it: &PortSet| -> Vec<(PortProtocol, u16, u16)> {
        let all = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp].map(|it| (it, 1, u16::MAX));
        match it {
            PortSet::Any => all.to_vec(),
            PortSet::Of(ports) => ports.iter().filter_map(numbers).collect(),
        }
    };
    let (a, b) = (entries(a), entries(b));
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let mut common = pairs.filter(|(a, b)| a.0 == b.0).map(|(a, b)| (a.0, a.1.max(b.1), a.2.min(b.2))).filter(|it| it.1 <= it.2);
    // Where any would do, one that people know.
    common.next().map(|(protocol, first, last)| (protocol, if (first..=last).contains(&USUAL) { USUAL } else { first }))
}

fn numbers(port: &PortMatch) -> Option<(PortProtocol, u16, u16)> {
    match port {
        PortMatch::Numbers { protocol, ports } => Some((*protocol, ports.first().max(1), ports.last())),
        PortMatch::Named { .. } | PortMatch::Unreadable => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> LabelSelector {
        let requirement = |part: &str| -> Requirement {
            let words: Vec<&str> = part.split(' ').collect();
            let values = || words[2].split('|').map(Into::into).collect();
            let operator = match words[1] {
                "=" => Operator::Equals(words[2].into()),
                "in" => Operator::In(values()),
                "notin" => Operator::NotIn(values()),
                "exists" => Operator::Exists,
                _ => Operator::DoesNotExist,
            };
            Requirement { key: words[0].into(), operator }
        };
        LabelSelector { requirements: text.split(", ").filter(|it| !it.is_empty()).map(requirement).collect() }
    }

    #[test]
    fn a_narrower_selector_is_within_a_wider_one() {
        let within = |part: &str, whole: &str| selector_within(&selector(part), &selector(whole));
        for (part, whole) in [
            ("a = 1", ""),
            ("a = 1, b = 2", "b = 2"),
            ("a = 1", "a in 1|2"),
            ("a in 1|2", "a in 2|1|3"),
            ("a = 1", "a exists"),
            ("a = 1", "a notin 2"),
            ("a absent", "a notin 2"),
            ("a notin 1|2", "a notin 2"),
        ] {
            assert!(within(part, whole), "{part} within {whole}");
            assert!(selectors_meet(&selector(part), &selector(whole)), "{part} meets {whole}");
        }
        for (part, whole) in
            [("", "a = 1"), ("a in 1|2", "a = 1"), ("a exists", "a notin 2"), ("a notin 2", "a exists"), ("b = 1", "a = 1")]
        {
            assert!(!within(part, whole), "{part} not within {whole}");
        }
    }

    #[test]
    fn selectors_meet_unless_a_key_forbids_it() {
        let meet = |a: &str, b: &str| selectors_meet(&selector(a), &selector(b));
        assert!(meet("a = 1", "b = 2") && meet("a notin 1", "a notin 2") && meet("a exists", "a notin 1") && meet("a absent", "a notin 1"));
        assert!(!meet("a = 1", "a = 2") && !meet("a in 1|2", "a notin 1|2") && !meet("a exists", "a absent") && !meet("a = 1", "a absent"));
    }

    #[test]
    fn a_namespace_is_known_by_its_name() {
        let own = NamespaceSet::Own("x".into());
        let named = |text: &str| NamespaceSet::Matching(selector(text));
        assert!(namespaces_within(&own, &named("kubernetes.io/metadata.name = x")));
        assert!(namespaces_within(&named("kubernetes.io/metadata.name = x, a = 1"), &own));
        assert!(!namespaces_within(&own, &named("a = 1")) && !namespaces_within(&named("a = 1"), &own));
        assert!(namespaces_meet(&own, &named("a = 1")) && !namespaces_meet(&own, &named("kubernetes.io/metadata.name = y")));
    }

    #[test]
    fn a_block_with_holes_is_within_one_with_the_same_or_fewer() {
        let block = |cidr: &str, except: &[&str]| IpBlock {
            cidr: cidr.parse().unwrap(),
            except: except.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let whole = block("10.0.0.0/8", &["10.1.0.0/16"]);
        assert!(
            block_within(&block("10.2.0.0/16", &[]), &whole) && block_within(&block("10.0.0.0/8", &["10.1.0.0/16", "10.2.0.0/16"]), &whole)
        );
        assert!(!block_within(&block("10.0.0.0/8", &[]), &whole) && !block_within(&block("10.1.2.0/24", &[]), &whole));
        assert!(!block_within(&block("10.0.0.0/8", &["10.1.2.0/24"]), &whole));
    }
}
