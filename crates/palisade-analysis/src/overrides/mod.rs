//! What cluster policies make of NetworkPolicies.
//!
//! A rule of the Admin tier *overrides* where it decides a connection and NetworkPolicies, had they been asked, would have said the opposite: it denies what
//! a rule of a NetworkPolicy accepts, or accepts what pods are isolated from. Where no NetworkPolicy isolates a pod there is nothing to override, and Baseline
//! never overrides. All pairs are compared at once, as by `diff`, between clusters in which everything but the rules in question is left out.

mod attribute;
mod network_policy;
mod selectors;
mod stage;
mod ties;

use palisade_engine::compile;
use palisade_model::{Action, Direction, Model, Policy, PolicyRef, RuleRef, Tier};

pub use self::network_policy::{Effect, OverriddenPolicy, OverriddenRule, Reversal, overridden};
pub use self::ties::{Tie, TieKind, ties};
use crate::diff::{Diff, Filter, Version};

/// What a cluster policy overrides, in one direction and by one action.
#[derive(Debug)]
pub struct Overrides {
    pub direction: Direction,
    /// Accept or Deny.
    pub action: Action,
    /// The connections: what is closed by Deny, what is opened by Accept. Without reasons.
    pub connections: Diff,
    /// For each of the changes: which rules override what.
    pub overridden: Vec<Vec<Overridden>>,
}

/// A rule that overrides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overridden {
    /// Of the cluster policy.
    pub by: RuleRef,
    pub what: What,
}

/// What is overridden.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A rule of a NetworkPolicy, which accepts what is denied.
    Rule(RuleRef),
    /// A NetworkPolicy that isolates, and does not accept what is accepted.
    Isolation(PolicyRef),
}

impl What {
    /// The NetworkPolicy.
    pub fn policy(&self) -> &PolicyRef {
        match self {
            What::Rule(rule) => &rule.policy,
            What::Isolation(policy) => policy,
        }
    }
}

/// What each of these cluster policies overrides, in their order.
pub fn overrides(model: &Model, policies: &[PolicyRef]) -> Vec<Vec<Overrides>> {
    let mut found: Vec<Vec<Overrides>> = policies.iter().map(|_| Vec::new()).collect();
    for direction in Direction::BOTH {
        for action in [Action::Deny, Action::Accept] {
            let acts = |it: &&Policy| stage::acts(it, direction, action);
            let policy = |origin: &PolicyRef| model.policies.iter().find(|it| it.origin == *origin).filter(acts);
            let acting = policies.iter().enumerate().filter_map(|(at, origin)| policy(origin).map(|it| (at, it)));
            let (places, acting): (Vec<usize>, Vec<&Policy>) = acting.unzip();
            if acting.is_empty() {
                continue;
            }
            let of_policies = stage::overrides(model, direction, action, &acting, &Filter::default());
            for (at, of_policy) in places.into_iter().zip(of_policies) {
                if let Some(slot) = found.get_mut(at).filter(|_| !of_policy.overridden.is_empty()) {
                    slot.push(of_policy);
                }
            }
        }
    }
    found
}

/// Every cluster policy, in the order in which they are asked.
pub fn cluster_policies(model: &Model) -> Vec<PolicyRef> {
    let mut all: Vec<&Policy> = model.policies.iter().filter(|it| it.tier != Tier::NetworkPolicy).collect();
    all.sort_by_key(|it| (it.tier, it.rank, &it.origin.name, &it.origin));
    all.into_iter().map(|it| it.origin.clone()).collect()
}

/// What opens and closes between two models that have the same pods.
pub fn between(old: &Model, new: &Model) -> Diff {
    let (before, after) = (compile(old), compile(new));
    let (mut before, mut after) = (before.reach(), after.reach());
    Version { model: new, reach: &mut after }.changes_since(&mut Version { model: old, reach: &mut before }, &Filter::default())
}
