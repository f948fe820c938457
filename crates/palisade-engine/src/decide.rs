//! The walk: tier by tier, rule by rule, to a verdict.

use std::cmp::Ordering;

use palisade_model::{
    Action, Direction, Endpoint, Flow, Labels, Model, NamespaceSet, Path, PerDirection, Place, Policy, PolicyRef, Reason, Rule, RuleRef,
    Subject, Tier, Verdict,
};

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
    is_subject(&policy.subject, endpoint, model.namespace_labels(&endpoint.name.namespace))
}

/// The same for who knows all labels.
pub(crate) fn is_about(subject: &Subject, namespace: &str, of_namespace: &Labels, labels: &Labels) -> bool {
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
    let Some(subject) = subject(model, flow, direction) else { return not_a_pod() };
    // SPEC: semantics 1.9: a pod and its own address are never parted.
    if flow.from.place == flow.to.place && flow.path == Path::Direct {
        return Walk { verdict: Verdict::Accept, reason: Reason::Itself, tiers: Vec::new() };
    }
    through_tiers(&Question { model, flow, direction, subject }, among)
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

fn through_tiers(question: &Question<'_>, among: &[Selecting<'_>]) -> Walk {
    let mut tiers = Vec::with_capacity(3);
    let mut perhaps = None;
    let mut decided = None;
    let mut unless_passed = None;
    for tier in [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline] {
        let (step, left) = match tier {
            Tier::Admin | Tier::Baseline => ordered_tier(question, among, tier, &mut perhaps),
            Tier::NetworkPolicy => (network_policy_tier(question, among), Left::Never),
        };
        decided = final_word(&step);
        // What an unknown pod may have passed by counts only if nothing below denies. Behind Baseline nothing does.
        if (tier, left) == (Tier::Admin, Left::Perhaps) && matches!(decided, Some((Verdict::Accept, _))) {
            unless_passed = decided.take();
        }
        tiers.push(step);
        if decided.is_some() {
            break;
        }
    }
    // SPEC: semantics 0, step 6: what nobody decides is accepted.
    let (verdict, reason) = match (decided, unless_passed) {
        (Some((Verdict::Accept, _)) | None, Some(accepted)) => accepted,
        (decided, _) => decided.unwrap_or((Verdict::Accept, Reason::Default)),
    };
    match (verdict, perhaps) {
        (Verdict::Deny, Some(rule)) => Walk { verdict: Verdict::DependsOnDns, reason: Reason::Rule(rule), tiers },
        (verdict, _) => Walk { verdict, reason, tiers },
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
fn final_word(step: &TierStep) -> Option<(Verdict, Reason)> {
    let matched = || step.rules.last().map(|it| Reason::Rule(it.rule.clone()));
    match step.outcome {
        Outcome::Matched(Action::Accept) => matched().map(|reason| (Verdict::Accept, reason)),
        Outcome::Matched(Action::Deny) => matched().map(|reason| (Verdict::Deny, reason)),
        // SPEC: semantics 2.3: Pass leaves the tier; in Baseline that leads to the default.
        Outcome::Matched(Action::Pass) | Outcome::NoMatch | Outcome::NotIsolated => None,
        Outcome::Isolated => Some((Verdict::Deny, Reason::Isolated(step.policies.clone()))),
        Outcome::OwnNode => Some((Verdict::Accept, Reason::OwnNode)),
        Outcome::Itself => Some((Verdict::Accept, Reason::Itself)),
    }
}

/// SPEC: semantics 2.2: by rank, then name; all rules of a policy before the next policy; the first match ends the tier.
fn ordered_tier(question: &Question<'_>, among: &[Selecting<'_>], tier: Tier, perhaps: &mut Option<RuleRef>) -> (TierStep, Left) {
    let mut policies: Vec<&Selecting<'_>> = among.iter().filter(|it| it.policy.tier == tier).collect();
    policies.sort_by(|a, b| by_rank(a.policy, b.policy));
    let mut step = TierStep { tier, policies: origins(&policies), rules: Vec::new(), outcome: Outcome::NoMatch };
    let mut left = Left::Never;
    for Selecting { policy, rules } in policies {
        for rule in rules {
            let result = question.try_rule(rule);
            let reference = rule_ref(policy, question.direction, rule.index, rule.name.clone());
            match &result {
                Match::Yes { .. } => step.outcome = Outcome::Matched(rule.action),
                // Conversion leaves domain names in Accept rules only, so this can only open.
                Match::DependsOnDns { .. } => *perhaps = perhaps.take().or(Some(reference.clone())),
                Match::No { .. } if question.may_pass(rule) => left = Left::Perhaps,
                Match::No { .. } => {}
            }
            step.rules.push(RuleStep { rule: reference, action: rule.action, result });
            if step.outcome != Outcome::NoMatch {
                return (step, left);
            }
        }
    }
    (step, left)
}

/// SPEC: semantics 0, step 4: additive, without order, and final for a pod that is isolated in this direction.
fn network_policy_tier(question: &Question<'_>, among: &[Selecting<'_>]) -> TierStep {
    let tier = Tier::NetworkPolicy;
    let isolates = |it: &&Selecting<'_>| it.policy.tier == tier && *it.policy.isolates.of(question.direction);
    let mut policies: Vec<&Selecting<'_>> = among.iter().filter(isolates).collect();
    policies.sort_by(|a, b| by_name(a.policy, b.policy));
    let mut step = TierStep { tier, policies: origins(&policies), rules: Vec::new(), outcome: Outcome::Isolated };
    if policies.is_empty() {
        step.outcome = Outcome::NotIsolated;
        return step;
    }
    if question.is_own_node_calling() {
        step.outcome = Outcome::OwnNode;
        return step;
    }
    // SPEC: semantics 1.9: here the other end can only be the same pod when a Service led back to it.
    if question.flow.from.place == question.flow.to.place {
        step.outcome = Outcome::Itself;
        return step;
    }
    for Selecting { policy, rules } in policies {
        for rule in rules {
            let result = question.try_rule(rule);
            let matched = matches!(result, Match::Yes { .. });
            let reference = rule_ref(policy, question.direction, rule.index, rule.name.clone());
            step.rules.push(RuleStep { rule: reference, action: rule.action, result });
            if matched {
                step.outcome = Outcome::Matched(Action::Accept);
                return step;
            }
        }
    }
    step
}

/// The order of the ordered tiers.
pub(crate) fn by_rank(a: &Policy, b: &Policy) -> Ordering {
    (a.rank, &a.origin.name, &a.origin).cmp(&(b.rank, &b.origin.name, &b.origin))
}

/// The order in which NetworkPolicies are named.
pub(crate) fn by_name(a: &Policy, b: &Policy) -> Ordering {
    (&a.origin.name, &a.origin).cmp(&(&b.origin.name, &b.origin))
}

fn origins(policies: &[&Selecting<'_>]) -> Vec<PolicyRef> {
    policies.iter().map(|it| it.policy.origin.clone()).collect()
}

fn rule_ref(policy: &Policy, direction: Direction, index: usize, name: Option<Box<str>>) -> RuleRef {
    RuleRef { policy: policy.origin.clone(), direction, index, name }
}
