//! Cluster policies of the same tier and priority: upstream says that any of them may win.

use palisade_model::{Direction, Model, Policy, PolicyRef, RuleRef};

use super::between;
use super::selectors::{rules_meet, subjects_meet};
use crate::diff::Diff;
use crate::matrix::units::workload;

/// Another policy that is asked at the same time.
#[derive(Debug)]
pub struct Tie {
    pub with: PolicyRef,
    pub kind: TieKind,
    /// Workloads that both are about now.
    pub shared: Vec<String>,
    /// What would open and close if the order of the two were the other way round, and no third one of that priority were there.
    pub differs: Option<Diff>,
    /// Rules that can match one connection and do not act alike: of this policy, and of the other.
    pub rules: Vec<(RuleRef, RuleRef)>,
}

/// How two policies of one priority get on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TieKind {
    /// Connections there are now depend on which of them is asked first.
    Conflict,
    /// None does now, but with other pods some could.
    Possible,
    /// Wherever both match, they act alike.
    Harmless,
    /// No pod and no connection can be a matter of both.
    Disjoint,
}

/// All others of the tier and priority of a policy, in the order in which they are asked.
pub fn ties(model: &Model, origin: &PolicyRef) -> Vec<Tie> {
    let Some(policy) = model.policies.iter().find(|it| it.origin == *origin && it.origin.namespace.is_none()) else { return Vec::new() };
    let equal = |it: &&Policy| it.tier == policy.tier && it.rank == policy.rank && it.origin != *origin;
    let mut others: Vec<&Policy> = model.policies.iter().filter(equal).collect();
    others.sort_by_key(|it| (&it.origin.name, &it.origin));
    others.into_iter().map(|other| tie(model, policy, other)).collect()
}

fn tie(model: &Model, policy: &Policy, other: &Policy) -> Tie {
    let with = other.origin.clone();
    if !subjects_meet(&policy.subject, &other.subject) {
        return Tie { with, kind: TieKind::Disjoint, shared: Vec::new(), differs: None, rules: Vec::new() };
    }
    let (mut rules, mut meet) = (Vec::new(), false);
    for direction in Direction::BOTH {
        for mine in policy.rules.of(direction) {
            for theirs in other.rules.of(direction).iter().filter(|it| rules_meet(mine, it)) {
                meet = true;
                if mine.action != theirs.action {
                    let reference = |policy: &Policy, rule: &palisade_model::Rule| RuleRef {
                        policy: policy.origin.clone(),
                        direction,
                        index: rule.index,
                        name: rule.name.clone(),
                    };
                    rules.push((reference(policy, mine), reference(other, theirs)));
                }
            }
        }
    }
    let shared = shared(model, policy, other);
    let differs = (!rules.is_empty() && !shared.is_empty()).then(|| turned_round(model, policy, other));
    let differs = differs.filter(|it| !it.changes.is_empty());
    let kind = match (meet, rules.is_empty(), differs.is_some()) {
        (_, _, true) => TieKind::Conflict,
        (_, false, false) => TieKind::Possible,
        (true, true, false) => TieKind::Harmless,
        (false, true, false) => TieKind::Disjoint,
    };
    Tie { with, kind, shared, differs, rules }
}

fn shared(model: &Model, policy: &Policy, other: &Policy) -> Vec<String> {
    let both = |it: &&palisade_model::Endpoint| palisade_engine::selects(model, policy, it) && palisade_engine::selects(model, other, it);
    let mut names: Vec<String> = model.endpoints.iter().filter(both).map(workload).collect();
    names.sort();
    names.dedup();
    names
}

/// What changes when one of two goes before the other instead of after it.
fn turned_round(model: &Model, policy: &Policy, other: &Policy) -> Diff {
    let mut old = model.clone();
    let third = |it: &Policy| it.tier == policy.tier && it.rank == policy.rank && it.origin != policy.origin && it.origin != other.origin;
    old.policies.retain(|it| !third(it));
    // Room for a place between any two ranks.
    for it in old.policies.iter_mut().filter(|it| it.tier == policy.tier) {
        it.rank = it.rank.saturating_mul(2);
    }
    let mut new = old.clone();
    let last = (&policy.origin.name, &policy.origin).max((&other.origin.name, &other.origin)).1;
    for it in new.policies.iter_mut().filter(|it| it.origin == *last) {
        it.rank = it.rank.saturating_sub(1);
    }
    between(&old, &new)
}
