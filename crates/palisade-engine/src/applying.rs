//! The policies that decide anything about the pods of one node.
//!
//! The ruleset of a node depends on no other policy. Most policies of a large cluster select no pod of a given node, so an agent that leaves them
//! out neither compiles them nor has anything to do when one of them changes.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::{Direction, Endpoint, Labels, Model, NamespaceSet, Policy, Subject, Tier};

use crate::decide::is_about;

/// Which policies that select a pod count as policies that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// Policies that can decide about a connection of the pod in some direction. A Baseline policy cannot where a NetworkPolicy isolates the pod.
    IfEnforced,
    /// All of them, because some of the policies may not be enforced.
    IfSelecting,
}

/// Positions of the policies that apply to some of these pods, in order.
pub fn applying<'m, 'p>(
    model: &Model,
    policies: impl Iterator<Item = &'p Policy>,
    pods: impl Iterator<Item = &'m Endpoint>,
    applies: Applies,
) -> Vec<usize> {
    let pods = label_sets(pods);
    let mut by_namespace: BTreeMap<&str, Vec<(usize, &Policy)>> = pods.keys().map(|it| (*it, Vec::new())).collect();
    let mut anywhere: Vec<(usize, &Policy)> = Vec::new();
    for (at, policy) in policies.enumerate() {
        match &policy.subject {
            Subject::Pods { namespaces: NamespaceSet::Own(own), .. } => {
                by_namespace.get_mut(own.as_ref()).into_iter().for_each(|it| it.push((at, policy)));
            }
            Subject::Pods { namespaces: NamespaceSet::Matching(_), .. } => anywhere.push((at, policy)),
            Subject::Unknown => {}
        }
    }
    let mut found: BTreeSet<usize> = BTreeSet::new();
    for (namespace, label_sets) in pods {
        let (of_namespace, own) = (model.namespace_labels(namespace), by_namespace.get(namespace).into_iter().flatten());
        for labels in label_sets {
            let candidates = own.clone().chain(&anywhere).copied();
            let selecting: Vec<(usize, &Policy)> =
                candidates.filter(|(_, it)| is_about(&it.subject, namespace, of_namespace, labels)).collect();
            found.extend(selecting.iter().filter(|(_, it)| applies == Applies::IfSelecting || can_decide(it, &selecting)).map(|it| it.0));
        }
    }
    found.into_iter().collect()
}

/// The label sets of pods, by namespace.
fn label_sets<'m>(pods: impl Iterator<Item = &'m Endpoint>) -> BTreeMap<&'m str, BTreeSet<&'m Labels>> {
    let mut sets: BTreeMap<&str, BTreeSet<&Labels>> = BTreeMap::new();
    for endpoint in pods {
        sets.entry(&endpoint.name.namespace).or_default().insert(&endpoint.labels);
    }
    sets
}

fn can_decide(policy: &Policy, selecting: &[(usize, &Policy)]) -> bool {
    Direction::BOTH.into_iter().any(|direction| {
        let isolated = || selecting.iter().any(|(_, it)| isolates(it, direction));
        has_a_say(policy, direction, isolated)
    })
}

/// Whether a policy isolates the pods that it selects.
pub(crate) fn isolates(policy: &Policy, direction: Direction) -> bool {
    policy.tier == Tier::NetworkPolicy && *policy.isolates.of(direction)
}

/// Whether a policy can decide about the pods that it selects. `isolated` says whether a NetworkPolicy isolates them.
///
/// SPEC: semantics 0, step 4: where a NetworkPolicy isolates, Baseline is not asked.
pub(crate) fn has_a_say(policy: &Policy, direction: Direction, isolated: impl FnOnce() -> bool) -> bool {
    match policy.tier {
        Tier::Admin => !policy.rules.of(direction).is_empty(),
        Tier::NetworkPolicy => isolates(policy, direction),
        Tier::Baseline => !policy.rules.of(direction).is_empty() && !isolated(),
    }
}
