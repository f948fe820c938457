//! What is left of one NetworkPolicy.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_engine::{Compiled, compile, selects};
use palisade_model::{Action, Delta, Direction, Endpoint, EndpointId, Model, Policy, PolicyRef, RuleRef, Tier};

use super::stage::{self, acts, everybody_isolated, one_way, with_action};
use super::{Overrides, What};
use crate::diff::{Diff, Filter, Focus, Member, Version};
use crate::matrix::Selection;
use crate::matrix::units::workload;

/// A NetworkPolicy, as cluster policies leave it.
#[derive(Debug)]
pub struct OverriddenPolicy {
    /// Which.
    pub policy: PolicyRef,
    /// Its rules, egress first.
    pub rules: Vec<OverriddenRule>,
    /// Directions in which it isolates, and what is accepted nevertheless.
    pub isolation: Vec<OverriddenRule>,
}

/// A rule, or the isolation of one direction.
#[derive(Debug)]
pub struct OverriddenRule {
    pub direction: Direction,
    /// None for isolation.
    pub rule: Option<RuleRef>,
    pub effect: Effect,
    /// What overrides it, by cluster policy.
    pub by: Vec<Reversal>,
}

/// What is left of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Everything.
    Whole,
    /// Something is overridden, something is not.
    Part,
    /// Nothing: every connection of pods there are is overridden.
    Nothing,
}

/// Rules of one cluster policy that override, and the connections.
#[derive(Debug)]
pub struct Reversal {
    pub rules: Vec<RuleRef>,
    /// In which the rule has a part.
    pub connections: Diff,
}

/// What cluster policies make of these NetworkPolicies, in their order. Those that are not there are left out.
pub fn overridden(model: &Model, origins: &[PolicyRef]) -> Vec<OverriddenPolicy> {
    let find = |origin: &PolicyRef| model.policies.iter().find(|it| it.origin == *origin && it.tier == Tier::NetworkPolicy);
    let policies: Vec<&Policy> = origins.iter().filter_map(find).collect();
    let empty = |it: &&Policy| OverriddenPolicy { policy: it.origin.clone(), rules: Vec::new(), isolation: Vec::new() };
    let mut found: Vec<OverriddenPolicy> = policies.iter().map(empty).collect();
    for direction in Direction::BOTH {
        let isolating: Vec<&Policy> = policies.iter().copied().filter(|it| *it.isolates.of(direction)).collect();
        let denied = reversals(model, &isolating, direction, Action::Deny);
        let accepted = reversals(model, &isolating, direction, Action::Accept);
        let mut rest = None;
        for (policy, slot) in policies.iter().zip(&mut found).filter(|(it, _)| *it.isolates.of(direction)) {
            for rule in policy.rules.of(direction) {
                let reference = RuleRef { policy: policy.origin.clone(), direction, index: rule.index, name: rule.name.clone() };
                let by = of(model, &denied, policy, &What::Rule(reference.clone()));
                let effect = match by.is_empty() {
                    true => Effect::Whole,
                    false => rest.get_or_insert_with(|| Rest::of(model, direction)).effect(policy, rule.index),
                };
                slot.rules.push(OverriddenRule { direction, rule: Some(reference), effect, by });
            }
            let by = of(model, &accepted, policy, &What::Isolation(policy.origin.clone()));
            let effect = if by.is_empty() { Effect::Whole } else { Effect::Part };
            slot.isolation.push(OverriddenRule { direction, rule: None, effect, by });
        }
    }
    found
}

/// What all cluster policies override of the pods that these policies are about.
fn reversals(model: &Model, policies: &[&Policy], direction: Direction, action: Action) -> Vec<Overrides> {
    let acting: Vec<&Policy> = model.policies.iter().filter(|it| acts(it, direction, action)).collect();
    let is_subject = |pod: &Endpoint| policies.iter().any(|it| selects(model, it, pod));
    let pods: BTreeSet<EndpointId> = model.endpoints.iter_ids().filter(|(_, it)| is_subject(it)).map(|(id, _)| id).collect();
    if acting.is_empty() || pods.is_empty() {
        return Vec::new();
    }
    let filter = Filter { focus: Some(Focus::of(Selection::Pods(pods))), port: None };
    stage::overrides(model, direction, action, &acting, &filter)
}

/// What overrides something of a policy, with the connections of the pods that it is about.
fn of(model: &Model, all: &[Overrides], policy: &Policy, what: &What) -> Vec<Reversal> {
    let mut found = Vec::new();
    for it in all {
        let rules: BTreeSet<RuleRef> = it.overridden.iter().flatten().filter(|it| it.what == *what).map(|it| it.by.clone()).collect();
        if rules.is_empty() {
            continue;
        }
        let own: BTreeSet<String> = model.endpoints.iter().filter(|it| selects(model, policy, it)).map(workload).collect();
        let is_own = |member: &Member| it.connections.units.get(member.unit).is_some_and(|it| own.contains(&it.name));
        let mut changes = Vec::new();
        for (change, them) in it.connections.changes.iter().zip(&it.overridden) {
            if them.iter().any(|it| it.what == *what) {
                let mut change = change.clone();
                match it.direction {
                    Direction::Egress => change.from.units.retain(is_own),
                    Direction::Ingress => change.to.units.retain(is_own),
                }
                changes.push(change);
            }
        }
        let connections = Diff { units: it.connections.units.clone(), changes, sets: it.connections.sets.clone() };
        found.push(Reversal { rules: rules.into_iter().collect(), connections });
    }
    found
}

/// A cluster in which everybody is isolated and cluster policies only deny, to see what single rules still accept in it.
struct Rest {
    direction: Direction,
    without: Model,
    with: Model,
    before: Compiled,
    after: Compiled,
}

impl Rest {
    fn of(model: &Model, direction: Direction) -> Rest {
        let denying = model.policies.iter().filter(|it| it.tier == Tier::Admin).map(|it| with_action(it, direction, Action::Deny));
        let mut without = model.clone();
        without.policies = denying.chain([everybody_isolated(direction)]).collect();
        let before = compile(&without);
        Rest { direction, with: without.clone(), without, after: before.clone(), before }
    }

    /// What is left of a rule that is overridden somewhere.
    fn effect(&mut self, policy: &Policy, index: usize) -> Effect {
        let mut alone = one_way(policy, self.direction);
        alone.rules.of_mut(self.direction).retain(|it| it.index == index);
        let alone = Arc::new(alone);
        self.after.update(&Delta { id: policy.key(), old: None, new: Some(Arc::clone(&alone)) }.into());
        self.with.policies.push_shared(Arc::clone(&alone));
        let lines = {
            let (mut before, mut after) = (self.before.reach(), self.after.reach());
            let mut old = Version { model: &self.without, reach: &mut before };
            Version { model: &self.with, reach: &mut after }.compared_with(&mut old, &Filter::default()).lines
        };
        self.with.policies.pop();
        self.after.update(&Delta { id: policy.key(), old: Some(alone), new: None }.into());
        if lines.is_empty() { Effect::Nothing } else { Effect::Part }
    }
}
