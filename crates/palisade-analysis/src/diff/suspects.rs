//! Which pairs can differ at all: a pair of ends fares as before unless one of them looks different, or a policy that has changed speaks about
//! one of them and, in what has changed, about the other.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::selects;
use palisade_model::{Direction, End, Endpoint, Model, NamespaceSet, Peer, PeerSet, Policy, PolicyRef, Rule};

use super::Version;
use super::members::{Both, Id, Kind, Members, id};

/// What a policy that has changed can make differ, in one direction.
#[derive(Debug)]
pub(crate) struct Affected {
    pub(crate) direction: Direction,
    /// Kinds that it speaks about, in either version.
    pub(crate) subjects: Vec<Id>,
    pub(crate) peers: Peers,
}

/// Whom it can make a difference with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Peers {
    All,
    Some { kinds: Vec<Id>, ranges: Vec<Id> },
}

/// What has become of a policy for a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It came, went, or moved.
    Whole,
    /// Some of its rules differ.
    Rules,
}

/// What has changed, policy by policy.
pub(crate) fn affected(old: &Version<'_, '_>, new: &Version<'_, '_>, members: &Members, ranges: &[End]) -> Vec<Affected> {
    let mut policies: BTreeMap<&PolicyRef, Both<Option<&Policy>>> = BTreeMap::new();
    for policy in &old.model.policies {
        policies.entry(&policy.origin).or_default().old = Some(policy);
    }
    for policy in &new.model.policies {
        policies.entry(&policy.origin).or_default().new = Some(policy);
    }
    let mut all = Vec::new();
    for policy in policies.into_values().filter(|it| it.old != it.new) {
        for direction in Direction::BOTH {
            all.extend(by_policy(old.model, new.model, members, ranges, policy, direction));
        }
    }
    all
}

fn by_policy(
    old: &Model,
    new: &Model,
    members: &Members,
    ranges: &[End],
    policy: Both<Option<&Policy>>,
    direction: Direction,
) -> Vec<Affected> {
    let (before, after) = (rules(policy.old, direction), rules(policy.new, direction));
    let differing = differing(&before, &after);
    let standing = |it: &Policy| (it.tier, it.rank, *it.isolates.of(direction));
    let stands = policy.old.map(standing) == policy.new.map(standing);
    let isolates = [policy.old, policy.new].into_iter().flatten().any(|it| *it.isolates.of(direction));
    let mut subjects: BTreeMap<bool, Vec<Id>> = BTreeMap::new();
    for (at, kind) in members.kinds.iter().enumerate().filter(|(_, kind)| !kind.touched) {
        let change = change(old, new, kind, policy, stands);
        let wanted = match change {
            Some(Change::Whole) => isolates || !before.is_empty() || !after.is_empty(),
            Some(Change::Rules) => !differing.is_empty(),
            None => false,
        };
        if wanted {
            subjects.entry(change == Some(Change::Whole)).or_default().push(id(at));
        }
    }
    let all: Vec<&Rule> = before.into_iter().chain(after).collect();
    let of = |(whole, subjects): (bool, Vec<Id>)| {
        let peers = match (whole, isolates) {
            (true, true) => Peers::All,
            (true, false) => peers(new, members, ranges, &all),
            (false, _) => peers(new, members, ranges, &differing),
        };
        Affected { direction, subjects, peers }
    };
    subjects.into_iter().map(of).collect()
}

fn rules(policy: Option<&Policy>, direction: Direction) -> Vec<&Rule> {
    policy.into_iter().flat_map(|it| it.rules.of(direction)).collect()
}

/// What has become of a policy for a kind; None if neither version speaks about it.
fn change(old: &Model, new: &Model, kind: &Kind, policy: Both<Option<&Policy>>, stands: bool) -> Option<Change> {
    let selected = |model: &Model, policy: Option<&Policy>, pod: Option<_>| {
        policy.zip(pod.and_then(|it| model.endpoint(it))).is_some_and(|(policy, endpoint)| selects(model, policy, endpoint))
    };
    match (selected(old, policy.old, kind.pods.old), selected(new, policy.new, kind.pods.new)) {
        (false, false) => None,
        (true, true) if stands => Some(Change::Rules),
        (true | false, true | false) => Some(Change::Whole),
    }
}

/// Rules of either list between what both begin with and what both end with.
fn differing<'p>(before: &[&'p Rule], after: &[&'p Rule]) -> Vec<&'p Rule> {
    let same = |(a, b): &(&&Rule, &&Rule)| a.action == b.action && a.peers == b.peers && a.ports == b.ports;
    let first = before.iter().zip(after).take_while(same).count();
    let (before, after) = (before.get(first..).unwrap_or_default(), after.get(first..).unwrap_or_default());
    let last = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
    let middle = |rules: &[&'p Rule]| rules.iter().take(rules.len() - last).copied().collect::<Vec<_>>();
    [middle(before), middle(after)].concat()
}

/// Everybody whom one of the rules speaks of. What a name resolves to is not known, so it may be anybody.
fn peers(model: &Model, members: &Members, ranges: &[End], rules: &[&Rule]) -> Peers {
    let mut entries: Vec<&Peer> = Vec::new();
    for rule in rules {
        match &rule.peers {
            PeerSet::Any | PeerSet::AnyButOwnNode => return Peers::All,
            PeerSet::Of(of_rule) => entries.extend(of_rule),
        }
    }
    if entries.iter().any(|it| matches!(it, Peer::Domains(_))) {
        return Peers::All;
    }
    let seen = |kind: &Kind| {
        let endpoint = kind.pods.new.and_then(|it| model.endpoint(it));
        endpoint.is_some_and(|endpoint| entries.iter().any(|it| speaks_of(model, it, endpoint)))
    };
    let kinds: BTreeSet<Id> = members.kinds.iter().enumerate().filter(|(_, kind)| seen(kind)).map(|(at, _)| id(at)).collect();
    let holds = |end: &End| {
        entries.iter().any(
            |it| matches!(it, Peer::Networks(blocks) if blocks.iter().any(|it| end.address.is_some_and(|address| it.contains(address)))),
        )
    };
    let ranges = ranges.iter().enumerate().filter(|(_, end)| holds(end)).map(|(at, _)| id(at)).collect();
    Peers::Some { kinds: kinds.into_iter().collect(), ranges }
}

pub(crate) fn speaks_of(model: &Model, peer: &Peer, endpoint: &Endpoint) -> bool {
    match peer {
        Peer::Pods { namespaces, pods } => {
            let namespace = match namespaces {
                NamespaceSet::Own(own) => *own == endpoint.name.namespace,
                NamespaceSet::Matching(selector) => selector.matches(model.namespace_labels(&endpoint.name.namespace)),
            };
            namespace && pods.matches(&endpoint.labels)
        }
        Peer::Networks(blocks) => endpoint.addresses.iter().any(|address| blocks.iter().any(|it| it.contains(*address))),
        // Whom it means depends on the subject.
        Peer::Relative(_) | Peer::Domains(_) => true,
        Peer::Nodes(_) | Peer::Unreadable => false,
    }
}
