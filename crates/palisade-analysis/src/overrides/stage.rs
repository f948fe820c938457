//! Clusters in which everything but what is asked about is left out, so that what differs between them is the answer.
//!
//! Policies of the Admin tier stay where they are, with all their actions turned into Pass: what another policy decides before is then no difference. In the
//! second cluster one of them has one of its actions back. NetworkPolicies stay as they are for Accept, so that what it opens is what they isolate from; for
//! Deny everybody is isolated besides, so that what it closes is what some rule of theirs accepts. One direction is judged alone.

use std::sync::Arc;

use palisade_engine::{Compiled, compile};
use palisade_model::{
    Action, Delta, Direction, LabelSelector, Model, NamespaceSet, NetworkId, PerDirection, Policy, PolicyKind, PolicyRef, Rule, Shape,
    Subject, Tier,
};

use super::Overrides;
use super::attribute::Attributing;
use crate::diff::{Diff, Filter, Version};

/// Whether a policy can override by an action.
pub(super) fn acts(policy: &Policy, direction: Direction, action: Action) -> bool {
    policy.tier == Tier::Admin && policy.rules.of(direction).iter().any(|it| it.action == action)
}

/// What each of these policies overrides in one direction and by one action.
pub(super) fn overrides(read: &Model, direction: Direction, action: Action, policies: &[&Policy], filter: &Filter) -> Vec<Overrides> {
    let mut silent = read.clone();
    silent.policies = read.policies.iter().filter_map(|it| muted(it, direction)).collect();
    if action == Action::Deny {
        silent.policies.push(everybody_isolated(direction));
    }
    let compiled = compile(&silent);
    let mut stage = Stage { spoken: silent.clone(), compiled: compiled.clone() };
    let mut before = compiled.reach();
    let mut all = Vec::with_capacity(policies.len());
    for policy in policies {
        let heard = with_action(policy, direction, action);
        let quiet = with_action(policy, direction, Action::Pass);
        stage.put(&heard);
        let mut after = stage.compiled.reach();
        let mut old = Version { model: &silent, reach: &mut before };
        let compared = Version { model: &stage.spoken, reach: &mut after }.compared_with(&mut old, filter);
        let told = match compared.lines.is_empty() {
            true => Vec::new(),
            false => {
                let attributing = Attributing::new(read, &compared, &heard, direction, action, &stage.spoken);
                compared.told(|line| attributing.of(line))
            }
        };
        let (changes, overridden) = told.into_iter().unzip();
        let connections = Diff { units: compared.members.units, changes, sets: compared.sets };
        all.push(Overrides { direction, action, connections, overridden });
        stage.put(&quiet);
    }
    all
}

/// The second cluster.
#[derive(Debug)]
struct Stage {
    spoken: Model,
    compiled: Compiled,
}

impl Stage {
    /// Puts a policy in the place of the one of its name.
    fn put(&mut self, policy: &Policy) {
        let new = Arc::new(policy.clone());
        let old = self.spoken.policies.replace(|it| it.origin == policy.origin, &new);
        self.compiled.update(&Delta { id: policy.key(), old, new: Some(new) }.into());
    }
}

/// A policy as it is in the first cluster, if it is there.
fn muted(policy: &Policy, direction: Direction) -> Option<Policy> {
    match policy.tier {
        Tier::Admin => Some(with_action(policy, direction, Action::Pass)),
        Tier::NetworkPolicy => Some(one_way(policy, direction)),
        Tier::Baseline => None,
    }
}

/// A policy with one direction only.
pub(super) fn one_way(policy: &Policy, direction: Direction) -> Policy {
    let mut alone = Policy { isolates: PerDirection::default(), rules: PerDirection::default(), ..policy.clone() };
    *alone.isolates.of_mut(direction) = *policy.isolates.of(direction);
    *alone.rules.of_mut(direction) = policy.rules.of(direction).clone();
    alone
}

/// A policy that acts in one way only and passes otherwise.
pub(super) fn with_action(policy: &Policy, direction: Direction, action: Action) -> Policy {
    let mut acting = one_way(policy, direction);
    for rule in acting.rules.of_mut(direction) {
        *rule = passing_unless(rule, action);
    }
    acting
}

fn passing_unless(rule: &Rule, action: Action) -> Rule {
    let action = if rule.action == action { action } else { Action::Pass };
    Rule { action, ..rule.clone() }
}

/// A NetworkPolicy as nobody can write it: it isolates all pods of all namespaces.
pub(super) fn everybody_isolated(direction: Direction) -> Policy {
    let mut isolates = PerDirection::default();
    *isolates.of_mut(direction) = true;
    Policy {
        network: NetworkId::DEFAULT,
        origin: PolicyRef { kind: PolicyKind::NetworkPolicy, namespace: None, name: Box::default() },
        shape: Shape::Only,
        tier: Tier::NetworkPolicy,
        rank: 0,
        subject: Subject::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() },
        isolates,
        rules: PerDirection::default(),
    }
}
