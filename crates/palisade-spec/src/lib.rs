//! The semantics, naive and short: the judge of all others.
//!
//! [`judge`] answers for one connection by doing what semantics 0 says, step by step, and is meant to be read beside it. This
//! file walks the tiers; `matching` says what a selector, a peer and a port entry match.
//!
//! It is not fast and must not become so: nothing is indexed, cached or sorted in advance, and none of the model's own matching
//! is used, so that a slip there is found here and not shared.
//!
//! A [`Flow`] is the first packet of a connection, so step 1 of semantics 0 (established and related traffic) never comes up.
#![warn(missing_docs, clippy::as_conversions)]

mod matching;
#[cfg(test)]
mod tests;
mod unknown;

use palisade_model::{Action, Direction, End, Endpoint, Flow, Model, Path, PerDirection, Place, Policy, Reason, RuleRef, Tier, Verdict};

use matching::{is_own_node, rule_matches, selects};
use unknown::is_unknown_pod;

/// The answer for one connection: each direction with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the connection passes.
    pub verdict: Verdict,
    /// The answer of each direction, and what decided it.
    pub directions: PerDirection<(Verdict, Reason)>,
}

/// Judges one connection: at the source pod's egress and at the destination pod's ingress.
pub fn judge(model: &Model, flow: &Flow) -> Judgement {
    let egress = judge_direction(model, flow, Direction::Egress);
    let ingress = judge_direction(model, flow, Direction::Ingress);
    // SPEC: semantics 2.3: Accept on egress does not excuse the destination's ingress; both must accept.
    Judgement { verdict: egress.0.and(ingress.0), directions: PerDirection { egress, ingress } }
}

/// One direction of one connection, seen from the pod that the direction protects.
#[derive(Clone, Copy)]
struct Side<'a> {
    model: &'a Model,
    flow: &'a Flow,
    direction: Direction,
    /// The pod whose policies are asked.
    subject: &'a Endpoint,
    /// The other end.
    peer: End,
    /// What is assumed about domain names.
    names: Names,
    /// What is assumed about rules that may or may not speak of an unknown pod.
    passes: Passes,
}

/// What is assumed about the domain names that may resolve to the destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// None of them does.
    Miss,
    /// All of them do.
    Hit,
}

/// What is assumed about rules that pass, if they speak of the unknown pod at the other end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    /// None of them does.
    Miss,
    /// All of them do.
    Hit,
}

fn judge_direction(model: &Model, flow: &Flow, direction: Direction) -> (Verdict, Reason) {
    let (own, peer) = match direction {
        Direction::Egress => (flow.from, flow.to),
        Direction::Ingress => (flow.to, flow.from),
    };
    // SPEC: semantics 0: a direction without a pod-network pod is skipped.
    let Some(subject) = pod_at(model, own) else {
        return (Verdict::Accept, Reason::NotAPod);
    };
    // SPEC: semantics 1.9: by its own address a pod always reaches itself, whatever any tier says.
    if own.place == peer.place && flow.path == Path::Direct {
        return (Verdict::Accept, Reason::Itself);
    }
    // SPEC: semantics 2.1: domain names only accept. So what is accepted when none of them resolves to the destination is
    // accepted anyway, and the answer hangs on DNS only where they make an Accept of something else.
    let miss = Side { model, flow, direction, subject, peer, names: Names::Miss, passes: Passes::Miss };
    let hit = Side { names: Names::Hit, ..miss };
    let unaided = walk(miss);
    // SPEC: decision 0014: an unknown pod is judged as the worst that it could be. Which rules that pass speak of it is not known, so neither way may deny.
    if unaided.0 == Verdict::Accept
        && is_unknown_pod(miss)
        && let denied @ (Verdict::Deny, _) = walk(Side { passes: Passes::Hit, ..miss })
    {
        return denied;
    }
    if unaided.0 == Verdict::Deny
        && let (Verdict::Accept, reason) = walk(hit)
    {
        return (Verdict::DependsOnDns, reason);
    }
    unaided
}

/// Steps 3 to 6 of semantics 0: the first tier with an answer has the last word.
fn walk(side: Side<'_>) -> (Verdict, Reason) {
    // Behind Baseline everything is accepted, so the worst of a rule that passes there is that it does not speak of an unknown pod.
    let last = Side { passes: Passes::Miss, ..side };
    ordered_tier(side, Tier::Admin)
        .or_else(|| network_policy_tier(side))
        .or_else(|| ordered_tier(last, Tier::Baseline))
        .unwrap_or((Verdict::Accept, Reason::Default))
}

/// The answer of the Admin or the Baseline tier; none leaves the tier.
fn ordered_tier(side: Side<'_>, tier: Tier) -> Option<(Verdict, Reason)> {
    let (action, reason) = first_match(side, &policies_in_order(side, tier))?;
    match action {
        Action::Accept => Some((Verdict::Accept, reason)),
        Action::Deny => Some((Verdict::Deny, reason)),
        // SPEC: semantics 2.3: Pass skips the rest of this tier, in every policy of it, and nothing more.
        Action::Pass => None,
    }
}

/// The answer of the NetworkPolicy tier; none leaves the tier.
fn network_policy_tier(side: Side<'_>) -> Option<(Verdict, Reason)> {
    let mut isolating = policies_in_order(side, Tier::NetworkPolicy);
    // SPEC: semantics 0 and 1.2: isolation is per direction; a policy that does not list this one is not asked.
    isolating.retain(|policy| *policy.isolates.of(side.direction));
    if isolating.is_empty() {
        return None;
    }
    // SPEC: semantics 1.9: what a Service leads back to the calling pod is the pod itself to this tier, and only to this one.
    if side.flow.from.place == side.flow.to.place {
        return Some((Verdict::Accept, Reason::Itself));
    }
    // SPEC: semantics 1.8: ingress from the pod's own node passes, before any rule is asked.
    if is_own_node(side) {
        return Some((Verdict::Accept, Reason::OwnNode));
    }
    // SPEC: semantics 1.2: policies are additive and every rule accepts; the order only decides which one is quoted.
    if let Some((_, reason)) = first_match(side, &isolating) {
        return Some((Verdict::Accept, reason));
    }
    let origins = isolating.into_iter().map(|policy| policy.origin.clone()).collect();
    Some((Verdict::Deny, Reason::Isolated(origins)))
}

/// The policies of a tier that select the subject, in the order they are asked.
fn policies_in_order(side: Side<'_>, tier: Tier) -> Vec<&Policy> {
    // SPEC: multiple networks: isolation is per pod and network, so a policy of one network says nothing about the pod on another.
    let same_network = |policy: &Policy| policy.network == side.subject.network();
    let asked = |policy: &&Policy| policy.tier == tier && same_network(policy) && selects(side, &policy.subject);
    let mut policies: Vec<&Policy> = side.model.policies.iter().filter(asked).collect();
    // SPEC: semantics 2.2: smaller rank first, ties by name in byte order. The NetworkPolicy tier has no
    // rank. Kind and namespace only make the order total.
    policies.sort_by_key(|policy| {
        let rank = match tier {
            Tier::Admin | Tier::Baseline => policy.rank,
            Tier::NetworkPolicy => 0,
        };
        (rank, &policy.origin.name, policy.origin.kind, &policy.origin.namespace)
    });
    policies
}

/// The first rule that matches, whole policies one after the other: what it does, and its name.
fn first_match(side: Side<'_>, policies: &[&Policy]) -> Option<(Action, Reason)> {
    for policy in policies {
        let rules = policy.rules.of(side.direction);
        if let Some(rule) = rules.iter().find(|rule| rule_matches(side, rule)) {
            let (policy, name) = (policy.origin.clone(), rule.name.clone());
            let rule_ref = RuleRef { policy, direction: side.direction, index: rule.index, name };
            return Some((rule.action, Reason::Rule(rule_ref)));
        }
    }
    None
}

fn pod_at(model: &Model, end: End) -> Option<&Endpoint> {
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}
