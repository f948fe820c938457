//! What cluster policies make of NetworkPolicies, as it leaves the house.

mod markdown;
mod text;

use palisade_analysis::diff::Diff;
use palisade_analysis::overrides::{Effect, OverriddenPolicy, OverriddenRule, Overrides, Tie, TieKind, What};
use palisade_k8s::{ObjectKey, Sources};
use palisade_model::{Action, Model, Policy, PolicyRef, RuleRef};

pub use self::markdown::overrides as overrides_markdown;
pub use self::text::overrides as overrides_text;
use crate::diff::differed;
use crate::locate::{mark, rule_path};
use crate::v1::{
    DiffChange, OverriddenBy, OverriddenExtent, OverriddenPart, Override, OverrideComparison, OverridePair, OverrideRule, OverrideTie,
    OverrideTieKind, OverridingPolicy, Place,
};
use crate::{standing, v1, words};

/// Whether cluster policies are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// They are.
    None,
    /// They are not, nor is anything that they say.
    ClusterPolicies,
}

/// Policies with the texts that they were read from.
#[derive(Clone, Copy, Debug)]
pub struct Read<'r> {
    /// What was read.
    pub model: &'r Model,
    /// From where.
    pub sources: &'r Sources,
}

/// All that is known about a cluster policy.
#[derive(Debug)]
pub struct Overriding<'o> {
    /// Which.
    pub policy: &'o Policy,
    /// What it overrides.
    pub overrides: &'o [Overrides],
    /// Its equals.
    pub ties: &'o [Tie],
    /// What is compared.
    pub compared: OverrideComparison,
    /// What opens and closes by that.
    pub changes: &'o Diff,
    /// Where policies stand that are there in the first of what is compared.
    pub before: &'o Sources,
    /// Likewise in the second.
    pub after: &'o Sources,
}

impl Read<'_> {
    /// Writes down what is known about a cluster policy.
    pub fn overriding(self, it: &Overriding<'_>) -> OverridingPolicy {
        OverridingPolicy {
            reference: it.policy.origin.to_string(),
            policy: self.policy(&it.policy.origin),
            tier: it.policy.tier.to_string(),
            overrides: it.overrides.iter().flat_map(|it| self.overrides(it)).collect(),
            ties: it.ties.iter().map(|it| self.tie(it)).collect(),
            compared: it.compared,
            changes: differed(it.changes, it.before, it.after, Vec::new(), Vec::new()).changes,
        }
    }

    /// Writes down what is left of a NetworkPolicy.
    pub fn overridden(self, it: &OverriddenPolicy, redaction: Redaction) -> v1::OverriddenPolicy {
        v1::OverriddenPolicy {
            reference: it.policy.to_string(),
            policy: self.policy(&it.policy),
            parts: it.rules.iter().chain(&it.isolation).map(|part| self.part(&it.policy, part, redaction)).collect(),
        }
    }

    fn overrides(self, it: &Overrides) -> Vec<Override> {
        let changes = self.changes(&it.connections);
        let of = |(connections, overridden): (DiffChange, &Vec<_>)| Override {
            direction: it.direction.to_string(),
            action: it.action.to_string(),
            connections,
            overridden: overridden.iter().map(|them| self.pair(it.action, them)).collect(),
        };
        changes.into_iter().zip(&it.overridden).map(of).collect()
    }

    fn pair(self, action: Action, it: &palisade_analysis::overrides::Overridden) -> OverridePair {
        let (rule, place, what) = match &it.what {
            What::Rule(rule) => {
                (Some(rule), self.rule_place(rule), format!("what {} of {} accepts", words::rule(rule), words::policy(&rule.policy)))
            }
            What::Isolation(policy) => (None, self.place(policy), format!("what {} isolates from", words::policy(policy))),
        };
        let verb = match action {
            Action::Accept => "accepts",
            Action::Deny => "denies",
            Action::Pass => "passes",
        };
        OverridePair {
            by: named(&it.by),
            network_policy: it.what.policy().to_string(),
            rule: rule.map(named),
            place,
            sentence: format!("{} {verb} {what}", words::rule(&it.by)),
        }
    }

    fn tie(self, it: &Tie) -> OverrideTie {
        let with = words::policy(&it.with);
        let sentence = match it.kind {
            TieKind::Conflict => {
                format!("{with} has the same priority, and connections depend on which of the two is asked first: now by name")
            }
            TieKind::Possible => format!("{with} has the same priority; with other pods it could matter which of the two is asked first"),
            TieKind::Harmless => format!("{with} has the same priority, and acts alike wherever both match"),
            TieKind::Disjoint => format!("{with} has the same priority, and no connection can be a matter of both"),
        };
        OverrideTie {
            with: it.with.to_string(),
            kind: match it.kind {
                TieKind::Conflict => OverrideTieKind::Conflict,
                TieKind::Possible => OverrideTieKind::Possible,
                TieKind::Harmless => OverrideTieKind::Harmless,
                TieKind::Disjoint => OverrideTieKind::Disjoint,
            },
            sentence,
            shared: it.shared.clone(),
            rules: it.rules.iter().map(|(mine, theirs)| [named(mine), named(theirs)]).collect(),
            changes: it.differs.as_ref().map(|it| self.changes(it)).unwrap_or_default(),
        }
    }

    fn part(self, origin: &PolicyRef, it: &OverriddenRule, redaction: Redaction) -> OverriddenPart {
        let what = it
            .rule
            .as_ref()
            .map_or_else(|| format!("isolation for {}", it.direction), |rule| format!("{} {}", it.direction, words::rule(rule)));
        let (overridden, said) = match (it.effect, it.rule.is_some()) {
            (Effect::Whole, true) => (OverriddenExtent::Nothing, "is not overridden"),
            (Effect::Whole, false) => (OverriddenExtent::Nothing, "holds"),
            (Effect::Part, true) => (OverriddenExtent::Partly, "is overridden: some of what it accepts is denied"),
            (Effect::Part, false) => (OverriddenExtent::Partly, "is overridden: something it does not accept is accepted"),
            (Effect::Nothing, _) => (OverriddenExtent::Wholly, "is overridden: all that it accepts is denied"),
        };
        let by = match redaction {
            Redaction::ClusterPolicies => Vec::new(),
            Redaction::None => it
                .by
                .iter()
                .filter_map(|it| {
                    let first = it.rules.first()?;
                    Some(OverriddenBy {
                        policy: self.policy(&first.policy),
                        rules: it.rules.iter().map(named).collect(),
                        place: self.rule_place(first),
                        connections: self.changes(&it.connections),
                    })
                })
                .collect(),
        };
        OverriddenPart {
            direction: it.direction.to_string(),
            rule: it.rule.as_ref().map(named),
            overridden,
            sentence: format!("{what} {said}"),
            place: it.rule.as_ref().map_or_else(|| self.place(origin), |rule| self.rule_place(rule)),
            by,
        }
    }

    fn changes(self, diff: &Diff) -> Vec<DiffChange> {
        differed(diff, self.sources, self.sources, Vec::new(), Vec::new()).changes
    }

    fn policy(self, it: &PolicyRef) -> v1::Policy {
        let policy = self.model.policies.iter().find(|policy| policy.origin == *it);
        v1::Policy {
            kind: it.kind.as_str().to_owned(),
            namespace: it.namespace.as_deref().map(str::to_owned),
            name: it.name.to_string(),
            shape: policy.and_then(standing::shape).map(str::to_owned),
            priority: policy.and_then(standing::priority),
            place: self.place(it),
        }
    }

    fn place(self, it: &PolicyRef) -> Option<Place> {
        self.sources.location(&ObjectKey::from(it)).as_ref().map(Place::from)
    }

    fn rule_place(self, it: &RuleRef) -> Option<Place> {
        mark(self.sources, it, &[rule_path(it)], String::new()).map(|it| it.place)
    }
}

fn named(it: &RuleRef) -> OverrideRule {
    OverrideRule { rule: it.to_string(), name: it.name.as_deref().map(str::to_owned), direction: it.direction.to_string() }
}
