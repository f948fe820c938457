//! Verdicts without the trace of how they came about, for who asks about many flows between the same ends.

use palisade_model::{Direction, End, Flow, Model, Path, Policy, Reason, Rule, Verdict};

use crate::by_port::ByPort;
use crate::decide::{Selecting, Tiers, Told, by_name, judge, rule_ref};

/// The answer of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'m> {
    /// What becomes of the flow.
    pub verdict: Verdict,
    /// What decided that.
    pub cause: Cause<'m>,
}

/// A reason by what it points at.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'m> {
    /// The end that is judged is no pod of the pod network.
    NotAPod,
    /// Both ends are one pod.
    Itself,
    /// This rule.
    Rule {
        /// Its policy.
        policy: &'m Policy,
        /// The rule.
        rule: &'m Rule,
    },
    /// The subject's own node calls.
    OwnNode,
    /// NetworkPolicies isolate the subject, and none of them accepts.
    Isolated,
    /// Nobody decided.
    Default,
}

impl Cause<'_> {
    /// The reason. `isolating` are the NetworkPolicies that isolate the subject.
    pub(crate) fn reason<'p>(self, direction: Direction, isolating: impl FnOnce() -> Vec<&'p Policy>) -> Reason {
        match self {
            Cause::NotAPod => Reason::NotAPod,
            Cause::Itself => Reason::Itself,
            Cause::Rule { policy, rule } => Reason::Rule(rule_ref(policy, direction, rule)),
            Cause::OwnNode => Reason::OwnNode,
            Cause::Isolated => Reason::Isolated(isolating().into_iter().map(|it| it.origin.clone()).collect()),
            Cause::Default => Reason::Default,
        }
    }
}

/// Decides flows of one direction that have the same policies.
#[derive(Debug)]
pub struct Judge<'s, 'm> {
    pub(crate) model: &'s Model,
    pub(crate) direction: Direction,
    pub(crate) tiers: Tiers<'s, 'm>,
    isolating: &'s [&'m Policy],
}

impl<'s, 'm> Judge<'s, 'm> {
    /// Says of every flow what `decide_direction_among` says. `isolating` are the NetworkPolicies that isolate the subject in this direction; those
    /// without a rule to try need not be in `among`.
    pub fn new(model: &'s Model, among: &'s [Selecting<'m>], isolating: &'s [&'m Policy], direction: Direction) -> Judge<'s, 'm> {
        Judge { model, direction, tiers: Tiers::of(among, direction).isolated_by(isolating), isolating }
    }

    /// Decides one flow.
    pub fn decide(&self, flow: &Flow) -> Judged<'m> {
        judge(self.model, &self.tiers, flow, self.direction, &mut Told::Nobody)
    }

    /// Decides flows between two ends, port by port.
    pub fn between(&'s self, from: End, to: End, path: Path) -> ByPort<'s, 'm> {
        ByPort::between(self, from, to, path)
    }

    /// What a cause is called.
    pub fn reason(&self, cause: Cause<'_>) -> Reason {
        cause.reason(self.direction, || {
            let mut isolating = self.isolating.to_vec();
            isolating.sort_by(|a, b| by_name(a, b));
            isolating
        })
    }
}
