//! What is left of one NetworkPolicy.

use std::collections::BTreeSet;

use palisade_engine::compile;
use palisade_model::{Action, Direction, Model, Policy, PolicyRef, RuleRef, Tier};

use super::stage::{Stages, acts, everybody_isolated, one_way, with_action};
use super::{Overridden, What};
use crate::diff::{Diff, Filter, Focus, Version};
use crate::matrix::Selection;

/// A NetworkPolicy, as cluster policies leave it.
#[derive(Debug)]
pub struct OverriddenPolicy {
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

/// What cluster policies make of a NetworkPolicy; none if there is no such policy.
pub fn overridden(model: &Model, origin: &PolicyRef) -> Option<OverriddenPolicy> {
    let policy = model.policies.iter().find(|it| it.origin == *origin && it.tier == Tier::NetworkPolicy)?;
    let mut found = OverriddenPolicy { rules: Vec::new(), isolation: Vec::new() };
    for direction in Direction::BOTH.into_iter().filter(|it| *policy.isolates.of(*it)) {
        let denied = reversals(model, policy, direction, Action::Deny);
        for rule in policy.rules.of(direction) {
            let reference = RuleRef { policy: origin.clone(), direction, index: rule.index, name: rule.name.clone() };
            let by = of(&denied, &What::Rule(reference.clone()));
            let effect = match by.is_empty() {
                true => Effect::Whole,
                false => left(model, policy, direction, rule.index),
            };
            found.rules.push(OverriddenRule { direction, rule: Some(reference), effect, by });
        }
        let accepted = reversals(model, policy, direction, Action::Accept);
        let by = of(&accepted, &What::Isolation(origin.clone()));
        let effect = if by.is_empty() { Effect::Whole } else { Effect::Part };
        found.isolation.push(OverriddenRule { direction, rule: None, effect, by });
    }
    Some(found)
}

/// What all cluster policies override in the namespace of a policy.
fn reversals(model: &Model, policy: &Policy, direction: Direction, action: Action) -> Vec<super::Overrides> {
    let acting: Vec<&Policy> = model.policies.iter().filter(|it| acts(it, direction, action)).collect();
    let Some(filter) = about(model, policy).filter(|_| !acting.is_empty()) else { return Vec::new() };
    let mut stages = Stages::of(model, direction, action);
    acting.into_iter().map(|it| stages.overrides(it, &filter)).collect()
}

/// Only pods that the policy is about; none if there are none.
fn about(model: &Model, policy: &Policy) -> Option<Filter> {
    let pods = model.endpoints.iter().enumerate().filter(|(_, it)| palisade_engine::selects(model, policy, it));
    let pods: BTreeSet<_> = pods.map(|(at, _)| palisade_model::EndpointId(at)).collect();
    let focus = (!pods.is_empty()).then(|| Focus::of(Selection::Pods(pods)))?;
    Some(Filter { focus: Some(focus), port: None })
}

fn of(all: &[super::Overrides], what: &What) -> Vec<Reversal> {
    let mut found = Vec::new();
    for it in all {
        let concerned = |them: &[Overridden]| them.iter().any(|it| it.what == *what);
        let changes: Vec<_> = it
            .connections
            .changes
            .iter()
            .zip(&it.overridden)
            .filter(|(_, them)| concerned(them))
            .map(|(change, _)| change.clone())
            .collect();
        let rules: BTreeSet<RuleRef> = it.overridden.iter().flatten().filter(|it| it.what == *what).map(|it| it.by.clone()).collect();
        if !rules.is_empty() {
            let connections = Diff { units: it.connections.units.clone(), changes, sets: it.connections.sets.clone() };
            found.push(Reversal { rules: rules.into_iter().collect(), connections });
        }
    }
    found
}

/// Whether a rule that is overridden somewhere still accepts something elsewhere.
fn left(model: &Model, policy: &Policy, direction: Direction, index: usize) -> Effect {
    let mut alone = one_way(policy, direction);
    alone.rules.of_mut(direction).retain(|it| it.index == index);
    let denying = model.policies.iter().filter(|it| it.tier == Tier::Admin).map(|it| with_action(it, direction, Action::Deny));
    let mut without = model.clone();
    without.policies = denying.chain([everybody_isolated(direction)]).collect();
    let mut with = without.clone();
    with.policies.push(alone);
    let (before, after) = (compile(&without), compile(&with));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old = Version { model: &without, reach: &mut before };
    let compared = Version { model: &with, reach: &mut after }.compared_with(&mut old, &Filter::default());
    if compared.lines.is_empty() { Effect::Nothing } else { Effect::Part }
}
