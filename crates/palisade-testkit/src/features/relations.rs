//! Peers that are related to the subject, and policies of many kinds in one order.

use palisade_engine::selects;
use palisade_model::{
    Action, Direction, Endpoint, Labels, Model, Peer, PeerSet, Policy, PolicyKind, RelativeNamespaces, RelativePods, RelativeSelector,
    Shape, Tier,
};

use super::{Features, all_rules, note, peers};

pub(super) fn relations(model: &Model, features: &mut Features) {
    let relative = || {
        peers(model).filter_map(|(policy, direction, peer)| match peer {
            Peer::Relative(relative) => Some((policy, direction, relative)),
            Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
        })
    };
    for relation in RELATIONS {
        let pairs = relative().filter_map(|(policy, _, relative)| Some((policy, part(relative, relation)?)));
        let mut met: Vec<Met> = pairs.flat_map(|(policy, part)| meetings(model, policy, part)).collect();
        met.dedup();
        for wanted in [Met::Related, Met::Unrelated] {
            note(features, format!("{relation}: {wanted:?}"), met.contains(&wanted));
        }
        if !matches!(relation, "own namespace" | "other namespaces") {
            for wanted in [Met::NoKey, Met::SubjectLacksKey, Met::PeerLacksKey] {
                note(features, format!("{relation}: {wanted:?}"), met.contains(&wanted));
            }
            let two =
                relative().any(|(_, _, it)| matches!(part(it, relation), Some(Part::Labels(_, selector)) if keys(selector).len() > 1));
            note(features, format!("{relation}: more than one key"), two);
        }
    }
    for tier in [Tier::Admin, Tier::Baseline] {
        for direction in Direction::BOTH {
            for action in [Action::Accept, Action::Deny, Action::Pass] {
                let is = |peers: &PeerSet| matches!(peers, PeerSet::Of(peers) if peers.iter().any(|it| matches!(it, Peer::Relative(_))));
                let has = all_rules(model)
                    .any(|(policy, of, rule)| policy.tier == tier && of == direction && rule.action == action && is(&rule.peers));
                note(features, format!("{action} of related pods on {direction} in {tier}"), has);
            }
        }
    }
    let both = relative().any(|(_, _, it)| {
        !matches!(it.namespaces, RelativeNamespaces::Labelled(RelativeSelector::Matching(_)))
            && !matches!(it.pods, RelativeSelector::Matching(_))
    });
    note(features, "a relation of namespaces and pods at once", both);
}

const RELATIONS: [&str; 7] = [
    "own namespace",
    "other namespaces",
    "namespaces of the same labels",
    "namespaces of no same label",
    "namespaces of other labels",
    "pods of the same labels",
    "pods of no same label",
];

/// The part of a relative peer that a relation is about.
enum Part<'a> {
    Own,
    Others,
    Labels(Of, &'a RelativeSelector),
}

#[derive(Clone, Copy)]
enum Of {
    Namespace,
    Pod,
}

fn part<'a>(relative: &'a RelativePods, relation: &str) -> Option<Part<'a>> {
    use RelativeSelector::{NoneSame, Same, SomeDiffer};
    let namespaces = |it| Part::Labels(Of::Namespace, it);
    let pods = Part::Labels(Of::Pod, &relative.pods);
    match (relation, &relative.namespaces, &relative.pods) {
        ("own namespace", RelativeNamespaces::Own, _) => Some(Part::Own),
        ("other namespaces", RelativeNamespaces::Others, _) => Some(Part::Others),
        ("namespaces of the same labels", RelativeNamespaces::Labelled(it @ Same(_)), _)
        | ("namespaces of no same label", RelativeNamespaces::Labelled(it @ NoneSame(_)), _)
        | ("namespaces of other labels", RelativeNamespaces::Labelled(it @ SomeDiffer(_)), _) => Some(namespaces(it)),
        ("pods of the same labels", _, Same(_)) | ("pods of no same label", _, NoneSame(_)) => Some(pods),
        _ => None,
    }
}

/// What becomes of one subject and one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Related,
    Unrelated,
    NoKey,
    SubjectLacksKey,
    PeerLacksKey,
}

fn meetings(model: &Model, policy: &Policy, part: Part<'_>) -> Vec<Met> {
    let mut met = Vec::new();
    for subject in model.endpoints.iter().filter(|it| selects(model, policy, it)) {
        for pod in model.endpoints.iter().filter(|it| it.name != subject.name) {
            met.extend(meeting(model, &part, subject, pod));
        }
    }
    met
}

fn meeting(model: &Model, part: &Part<'_>, subject: &Endpoint, pod: &Endpoint) -> Vec<Met> {
    let in_one = subject.name.namespace == pod.name.namespace;
    let (of, selector) = match part {
        Part::Own => return vec![if in_one { Met::Related } else { Met::Unrelated }],
        Part::Others => return vec![if in_one { Met::Unrelated } else { Met::Related }],
        Part::Labels(of, selector) => (*of, *selector),
    };
    let labels = |it: &Endpoint| -> Labels {
        match of {
            Of::Namespace => model.namespace_labels(&it.name.namespace).clone(),
            Of::Pod => it.labels.clone(),
        }
    };
    let (own, other) = (labels(subject), labels(pod));
    let keys = keys(selector);
    if keys.is_empty() {
        return vec![Met::NoKey];
    }
    if keys.iter().any(|key| own.get(key).is_none()) {
        return vec![Met::SubjectLacksKey];
    }
    let same = keys.iter().filter(|key| own.get(key) == other.get(key)).count();
    let lacks = keys.iter().any(|key| other.get(key).is_none());
    let related = match selector {
        RelativeSelector::Same(_) => same == keys.len(),
        RelativeSelector::NoneSame(_) => same == 0,
        RelativeSelector::SomeDiffer(_) => same < keys.len() && !lacks,
        RelativeSelector::Matching(selector) => selector.matches(&other),
    };
    let mut met = vec![if related { Met::Related } else { Met::Unrelated }];
    met.extend(lacks.then_some(Met::PeerLacksKey));
    met
}

fn keys(selector: &RelativeSelector) -> &[Box<str>] {
    match selector {
        RelativeSelector::Matching(_) => &[],
        RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => keys,
    }
}

/// Kinds and shapes, and where they meet.
pub(super) fn kinds(model: &Model, features: &mut Features) {
    for (kind, shape) in [
        (PolicyKind::NetworkPolicy, Shape::Only),
        (PolicyKind::ClusterNetworkPolicy, Shape::Only),
        (PolicyKind::AdminNetworkPolicy, Shape::Early),
        (PolicyKind::AdminNetworkPolicy, Shape::Late),
        (PolicyKind::BaselineAdminNetworkPolicy, Shape::Early),
        (PolicyKind::BaselineAdminNetworkPolicy, Shape::Late),
        (PolicyKind::Kep2091, Shape::Kep2091),
    ] {
        let of = || model.policies.iter().filter(move |it| it.origin.kind == kind && it.shape == shape);
        note(features, format!("{kind:?}, {shape:?}"), of().count() > 0);
        let closed = of().flat_map(|it| it.rules.egress.iter().chain(&it.rules.ingress)).any(|it| it.fail_closed.is_some());
        if kind != PolicyKind::NetworkPolicy {
            note(features, format!("{kind:?}, {shape:?}, with a rule that cannot be read"), closed);
        }
    }
    let proposed = || model.policies.iter().filter(|it| it.origin.kind == PolicyKind::Kep2091);
    note(features, "KEP-2091 with priority 0", proposed().any(|it| it.tier == Tier::Baseline));
    note(features, "KEP-2091 above priority 1000", proposed().any(|it| it.rank < 0));
    let nobody = |it: &Policy| it.rules.egress.iter().chain(&it.rules.ingress).any(|rule| rule.peers == PeerSet::Of(Vec::new()));
    note(features, "KEP-2091 with a rule for nobody", proposed().any(nobody));
    for tier in [Tier::Admin, Tier::Baseline] {
        let of_tier = || model.policies.iter().filter(move |it| it.tier == tier);
        let both = |a: &Policy, b: &Policy| model.endpoints.iter().any(|it| selects(model, a, it) && selects(model, b, it));
        let tied = |a: &Policy, b: &Policy| a.origin.kind < b.origin.kind && a.rank == b.rank && both(a, b);
        let any = |wanted: &dyn Fn(&Policy, &Policy) -> bool| of_tier().any(|a| of_tier().any(|b| tied(a, b) && wanted(a, b)));
        note(features, format!("policies of two kinds and one rank on one pod in {tier}"), any(&|_, _| true));
        note(features, format!("the later kind has the earlier name in {tier}"), any(&|a, b| a.origin.name > b.origin.name));
        note(
            features,
            format!("policies of two kinds, one rank and one name on one pod in {tier}"),
            any(&|a, b| a.origin.name == b.origin.name),
        );
    }
    let three = |it: &Endpoint| {
        let has = |kind| model.policies.iter().any(|policy| policy.origin.kind == kind && selects(model, policy, it));
        has(PolicyKind::NetworkPolicy) && has(PolicyKind::ClusterNetworkPolicy) && has(PolicyKind::Kep2091)
    };
    note(features, "a pod under policies of three kinds", model.endpoints.iter().any(three));
}
