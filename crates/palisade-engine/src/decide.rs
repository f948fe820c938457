//! The walk: tier by tier, rule by rule, to a verdict.

use std::cmp::Ordering;

use palisade_model::{
    Action, Direction, Endpoint, Flow, Labels, Model, NamespaceSet, Path, PerDirection, Place, Policy, Reason, Rule, RuleRef, Subject,
    Tier, Verdict,
};

use crate::judge::{Cause, Judged};
use crate::matching::Question;
use crate::trace::{Decision, Match, Outcome, RuleStep, TierStep, Walk};

/// Decides one flow.
pub fn decide(model: &Model, flow: &Flow) -> Decision {
    let walks = PerDirection {
        egress: decide_direction(model, flow, Direction::Egress),
        ingress: decide_direction(model, flow, Direction::Ingress),
    };
    Decision { verdict: walks.egress.verdict.and(walks.ingress.verdict), walks }
}

/// Whether `policy` speaks about `endpoint`.
pub fn selects(model: &Model, policy: &Policy, endpoint: &Endpoint) -> bool {
    // SPEC: multiple networks: a policy for one network leaves the pod's endpoints on all others alone.
    policy.network == endpoint.network() && is_subject(&policy.subject, endpoint, model.namespace_labels(&endpoint.name.namespace))
}

/// Whether a subject includes pods with these labels in a namespace with these labels.
pub fn is_about(subject: &Subject, namespace: &str, of_namespace: &Labels, labels: &Labels) -> bool {
    match subject {
        Subject::Pods { namespaces, pods } => is_among(namespaces, namespace, of_namespace) && pods.matches(labels),
        Subject::Unknown => false,
    }
}

/// The same for who knows the labels of the endpoint's namespace.
pub(crate) fn is_subject(subject: &Subject, endpoint: &Endpoint, of_namespace: &Labels) -> bool {
    is_about(subject, &endpoint.name.namespace, of_namespace, &endpoint.labels)
}

pub(crate) fn in_namespaces(model: &Model, namespaces: &NamespaceSet, endpoint: &Endpoint) -> bool {
    let namespace = &endpoint.name.namespace;
    is_among(namespaces, namespace, model.namespace_labels(namespace))
}

fn is_among(namespaces: &NamespaceSet, namespace: &str, of_namespace: &Labels) -> bool {
    match namespaces {
        NamespaceSet::Own(own) => **own == *namespace,
        NamespaceSet::Matching(selector) => selector.matches(of_namespace),
    }
}

/// A policy that selects a subject, with the rules of it that are to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selecting<'m> {
    /// The policy.
    pub policy: &'m Policy,
    /// Of the direction that is judged, in the order written. A rule may be left out if its peers do not match.
    pub rules: Vec<&'m Rule>,
}

/// Decides one direction of a flow: what a node does that only hosts one of its ends.
pub fn decide_direction(model: &Model, flow: &Flow, direction: Direction) -> Walk {
    let Some(subject) = subject(model, flow, direction) else { return not_a_pod() };
    let policies = model.policies.iter().filter(|policy| selects(model, policy, subject));
    let all: Vec<Selecting<'_>> = policies.map(|policy| Selecting { policy, rules: policy.rules.of(direction).iter().collect() }).collect();
    decide_direction_among(model, &all, flow, direction)
}

/// The same for who knows the policies that select the subject, in any order. Those may be left out that do not isolate and have no rule to try,
/// and those of Baseline where a NetworkPolicy isolates.
pub fn decide_direction_among(model: &Model, among: &[Selecting<'_>], flow: &Flow, direction: Direction) -> Walk {
    let tiers = Tiers::of(among, direction);
    let mut steps = Vec::with_capacity(3);
    let Judged { verdict, cause } = judge(model, &tiers, flow, direction, &mut Told::To(&mut steps));
    Walk { verdict, reason: cause.reason(direction, || tiers.network.iter().map(|it| it.policy).collect()), tiers: steps }
}

/// Decides one direction of a flow among policies that are in order.
pub(crate) fn judge<'m>(model: &Model, tiers: &impl Candidates<'m>, flow: &Flow, direction: Direction, told: &mut Told<'_>) -> Judged<'m> {
    let Some(subject) = subject(model, flow, direction) else { return Judged { verdict: Verdict::Accept, cause: Cause::NotAPod } };
    // SPEC: semantics 1.9: a pod and its own address are never parted.
    if flow.from.place == flow.to.place && flow.path == Path::Direct {
        return Judged { verdict: Verdict::Accept, cause: Cause::Itself };
    }
    through_tiers(&Question { model, flow, direction, subject }, tiers, told)
}

/// SPEC: semantics 0: a direction is judged only where its subject is a pod of the pod network.
fn subject<'m>(model: &'m Model, flow: &Flow, direction: Direction) -> Option<&'m Endpoint> {
    let end = match direction {
        Direction::Egress => &flow.from,
        Direction::Ingress => &flow.to,
    };
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}

fn not_a_pod() -> Walk {
    Walk { verdict: Verdict::Accept, reason: Reason::NotAPod, tiers: Vec::new() }
}

/// Policies that select a subject, tier by tier in the order in which they are asked.
#[derive(Debug)]
pub(crate) struct Tiers<'s, 'm> {
    admin: Vec<&'s Selecting<'m>>,
    /// Those that isolate. Where it is known that one does, those without a rule to try may be left out.
    network: Vec<&'s Selecting<'m>>,
    isolated: Isolated,
    baseline: Vec<&'s Selecting<'m>>,
}

/// Whether some NetworkPolicy isolates the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolated {
    Yes,
    No,
}

impl<'s, 'm> Tiers<'s, 'm> {
    pub(crate) fn of(among: &'s [Selecting<'m>], direction: Direction) -> Tiers<'s, 'm> {
        let of_tier = |tier: Tier| among.iter().filter(move |it| it.policy.tier == tier);
        let mut admin: Vec<&Selecting<'_>> = of_tier(Tier::Admin).collect();
        let mut network: Vec<&Selecting<'_>> = of_tier(Tier::NetworkPolicy).filter(|it| *it.policy.isolates.of(direction)).collect();
        let mut baseline: Vec<&Selecting<'_>> = of_tier(Tier::Baseline).collect();
        admin.sort_by(|a, b| by_rank(a.policy, b.policy));
        network.sort_by(|a, b| by_name(a.policy, b.policy));
        baseline.sort_by(|a, b| by_rank(a.policy, b.policy));
        let isolated = if network.is_empty() { Isolated::No } else { Isolated::Yes };
        Tiers { admin, network, isolated, baseline }
    }

    /// The same where one of these isolates besides.
    pub(crate) fn isolated_by(mut self, isolating: &[&Policy]) -> Tiers<'s, 'm> {
        if !isolating.is_empty() {
            self.isolated = Isolated::Yes;
        }
        self
    }
}

/// A rule to try, with its policy and its place among those that may be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'m> {
    pub(crate) policy: &'m Policy,
    pub(crate) rule: &'m Rule,
    pub(crate) at: u32,
}

/// The rules that are tried in each tier.
pub(crate) trait Candidates<'m> {
    /// The policies of a tier, in the order in which they are asked.
    fn policies(&self, tier: Tier) -> &[&Selecting<'m>];
    fn isolated(&self) -> Isolated;
    /// Rules of a tier in the order in which they are tried. Those that do not match may be missing.
    fn candidates(&self, tier: Tier) -> impl Iterator<Item = Candidate<'m>>;
    fn try_candidate(&self, question: &Question<'_>, candidate: &Candidate<'m>) -> Match;
}

impl<'m> Candidates<'m> for Tiers<'_, 'm> {
    fn policies(&self, tier: Tier) -> &[&Selecting<'m>] {
        match tier {
            Tier::Admin => &self.admin,
            Tier::NetworkPolicy => &self.network,
            Tier::Baseline => &self.baseline,
        }
    }

    fn isolated(&self) -> Isolated {
        self.isolated
    }

    fn candidates(&self, tier: Tier) -> impl Iterator<Item = Candidate<'m>> {
        let rules = self.policies(tier).iter().flat_map(|it| it.rules.iter().map(|rule| (it.policy, *rule)));
        rules.zip(0..).map(|((policy, rule), at)| Candidate { policy, rule, at })
    }

    fn try_candidate(&self, question: &Question<'_>, candidate: &Candidate<'m>) -> Match {
        question.try_rule(candidate.rule)
    }
}

/// Who is told of the way to a verdict.
#[derive(Debug)]
pub(crate) enum Told<'t> {
    To(&'t mut Vec<TierStep>),
    Nobody,
}

impl Told<'_> {
    fn tier(&mut self, tier: Tier, policies: &[&Selecting<'_>]) {
        if let Told::To(steps) = self {
            let policies = policies.iter().map(|it| it.policy.origin.clone()).collect();
            steps.push(TierStep { tier, policies, rules: Vec::new(), outcome: Outcome::NoMatch });
        }
    }

    fn tried(&mut self, (policy, rule): (&Policy, &Rule), direction: Direction, result: Match) {
        if let Told::To(steps) = self
            && let Some(step) = steps.last_mut()
        {
            step.rules.push(RuleStep { rule: rule_ref(policy, direction, rule), action: rule.action, result });
        }
    }

    fn said(&mut self, outcome: &Outcome) {
        if let Told::To(steps) = self
            && let Some(step) = steps.last_mut()
        {
            step.outcome = outcome.clone();
        }
    }
}

fn through_tiers<'m>(question: &Question<'_>, tiers: &impl Candidates<'m>, told: &mut Told<'_>) -> Judged<'m> {
    let mut perhaps = None;
    let mut decided = None;
    let mut unless_passed = None;
    for tier in [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline] {
        let said = match tier {
            Tier::Admin | Tier::Baseline => ordered_tier(question, (tier, tiers), &mut perhaps, told),
            Tier::NetworkPolicy => network_policy_tier(question, tiers, told),
        };
        told.said(&said.outcome);
        decided = final_word(&said);
        // What an unknown pod may have passed by counts only if nothing below denies. Behind Baseline nothing does.
        if (tier, said.left) == (Tier::Admin, Left::Perhaps) && matches!(decided, Some((Verdict::Accept, _))) {
            unless_passed = decided.take();
        }
        if decided.is_some() {
            break;
        }
    }
    // SPEC: semantics 0, step 6: what nobody decides is accepted.
    let (verdict, cause) = match (decided, unless_passed) {
        (Some((Verdict::Accept, _)) | None, Some(accepted)) => accepted,
        (decided, _) => decided.unwrap_or((Verdict::Accept, Cause::Default)),
    };
    match (verdict, perhaps) {
        (Verdict::Deny, Some((policy, rule))) => Judged { verdict: Verdict::DependsOnDns, cause: Cause::Rule { policy, rule } },
        (verdict, _) => Judged { verdict, cause },
    }
}

/// What a tier said.
struct Said<'m> {
    outcome: Outcome,
    /// The rule that matched.
    by: Option<(&'m Policy, &'m Rule)>,
    left: Left,
}

impl Said<'_> {
    fn without_rule(outcome: Outcome) -> Self {
        Said { outcome, by: None, left: Left::Never }
    }
}

/// Whether a tier may have been left by a rule that passes, before it came to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Never,
    /// If that rule speaks of the unknown pod at the other end.
    Perhaps,
}

/// The verdict of a tier, if it ends the walk.
fn final_word<'m>(said: &Said<'m>) -> Option<(Verdict, Cause<'m>)> {
    let matched = || said.by.map(|(policy, rule)| Cause::Rule { policy, rule });
    match said.outcome {
        Outcome::Matched(Action::Accept) => matched().map(|cause| (Verdict::Accept, cause)),
        Outcome::Matched(Action::Deny) => matched().map(|cause| (Verdict::Deny, cause)),
        // SPEC: semantics 2.3: Pass leaves the tier; in Baseline that leads to the default.
        Outcome::Matched(Action::Pass) | Outcome::NoMatch | Outcome::NotIsolated => None,
        Outcome::Isolated => Some((Verdict::Deny, Cause::Isolated)),
        Outcome::OwnNode => Some((Verdict::Accept, Cause::OwnNode)),
        Outcome::Itself => Some((Verdict::Accept, Cause::Itself)),
    }
}

/// SPEC: semantics 2.2: by rank, then name; all rules of a policy before the next policy; the first match ends the tier.
fn ordered_tier<'m>(
    question: &Question<'_>,
    (tier, tiers): (Tier, &impl Candidates<'m>),
    perhaps: &mut Option<(&'m Policy, &'m Rule)>,
    told: &mut Told<'_>,
) -> Said<'m> {
    told.tier(tier, tiers.policies(tier));
    let mut left = Left::Never;
    for candidate in tiers.candidates(tier) {
        let Candidate { policy, rule, .. } = candidate;
        let result = tiers.try_candidate(question, &candidate);
        let matched = matches!(result, Match::Yes { .. });
        match &result {
            Match::Yes { .. } => {}
            // Conversion leaves domain names in Accept rules only, so this can only open.
            Match::DependsOnDns { .. } => *perhaps = perhaps.or(Some((policy, rule))),
            Match::No { .. } if question.may_pass(rule) => left = Left::Perhaps,
            Match::No { .. } => {}
        }
        told.tried((policy, rule), question.direction, result);
        if matched {
            return Said { outcome: Outcome::Matched(rule.action), by: Some((policy, rule)), left };
        }
    }
    Said { outcome: Outcome::NoMatch, by: None, left }
}

/// SPEC: semantics 0, step 4: additive, without order, and final for a pod that is isolated in this direction.
fn network_policy_tier<'m>(question: &Question<'_>, tiers: &impl Candidates<'m>, told: &mut Told<'_>) -> Said<'m> {
    told.tier(Tier::NetworkPolicy, tiers.policies(Tier::NetworkPolicy));
    if tiers.isolated() == Isolated::No {
        return Said::without_rule(Outcome::NotIsolated);
    }
    if question.is_own_node_calling() {
        return Said::without_rule(Outcome::OwnNode);
    }
    // SPEC: semantics 1.9: here the other end can only be the same pod when a Service led back to it.
    if question.flow.from.place == question.flow.to.place {
        return Said::without_rule(Outcome::Itself);
    }
    for candidate in tiers.candidates(Tier::NetworkPolicy) {
        let Candidate { policy, rule, .. } = candidate;
        let result = tiers.try_candidate(question, &candidate);
        let matched = matches!(result, Match::Yes { .. });
        told.tried((policy, rule), question.direction, result);
        if matched {
            return Said { outcome: Outcome::Matched(Action::Accept), by: Some((policy, rule)), left: Left::Never };
        }
    }
    Said::without_rule(Outcome::Isolated)
}

/// The order of the ordered tiers.
pub(crate) fn by_rank(a: &Policy, b: &Policy) -> Ordering {
    (a.rank, &a.origin.name, &a.origin).cmp(&(b.rank, &b.origin.name, &b.origin))
}

/// The order in which NetworkPolicies are named.
pub(crate) fn by_name(a: &Policy, b: &Policy) -> Ordering {
    (&a.origin.name, &a.origin).cmp(&(&b.origin.name, &b.origin))
}

pub(crate) fn rule_ref(policy: &Policy, direction: Direction, rule: &Rule) -> RuleRef {
    RuleRef { policy: policy.origin.clone(), direction, index: rule.index, name: rule.name.clone() }
}
