//! What cluster policies override in random clusters, held against `decide` on every pair of pods, tier by tier and rule by rule.
//!
//! `PALISADE_OVERRIDES_SECONDS` says how long, `PALISADE_OVERRIDES_SEED` where to start.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its clusters has failed")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use palisade_analysis::diff::{Between, Change, Group, Part};
use palisade_analysis::overrides::{Effect, Overridden, Overrides, TieKind, What, cluster_policies, overridden, overrides, ties};
use palisade_engine::{Outcome, Selecting, decide_direction, decide_direction_among, selects};
use palisade_model::{Action, Direction, Endpoint, Family, Flow, Model, NetworkId, Path, Policy, Protocol, RuleRef, Tier, Verdict};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::pods::{pairs, pod, workload};

type Traffic = (Protocol, Option<u16>);

const TRAFFIC: [Traffic; 9] = [
    (Protocol::TCP, Some(80)),
    (Protocol::TCP, Some(443)),
    (Protocol::TCP, Some(8080)),
    (Protocol::TCP, Some(9)),
    (Protocol::UDP, Some(53)),
    (Protocol::UDP, Some(80)),
    (Protocol::SCTP, Some(9003)),
    (Protocol::SCTP, Some(1)),
    (Protocol::Icmp, None),
];

/// The rule of the Admin tier that decides, if one does.
fn decided(model: &Model, flow: &Flow, direction: Direction) -> Option<(RuleRef, Action)> {
    let walk = decide_direction(model, flow, direction);
    let step = walk.tiers.first().filter(|it| it.tier == Tier::Admin)?;
    match step.outcome {
        Outcome::Matched(action @ (Action::Accept | Action::Deny)) => step.rules.last().map(|it| (it.rule.clone(), action)),
        Outcome::Matched(Action::Pass)
        | Outcome::NoMatch
        | Outcome::NotIsolated
        | Outcome::Isolated
        | Outcome::OwnNode
        | Outcome::Itself => None,
    }
}

/// What the NetworkPolicy tier would have said otherwise: each rule that accepts, or each policy that isolates.
fn otherwise(model: &Model, flow: &Flow, direction: Direction, action: Action) -> Vec<What> {
    let subject = pod(model, if direction == Direction::Egress { &flow.from } else { &flow.to }).unwrap();
    let isolating: Vec<&Policy> = model
        .policies
        .iter()
        .filter(|it| it.tier == Tier::NetworkPolicy && *it.isolates.of(direction) && selects(model, it, subject))
        .collect();
    let accepting =
        isolating.iter().flat_map(|policy| policy.rules.of(direction).iter().map(move |rule| (*policy, rule))).filter(|(policy, rule)| {
            let alone = [Selecting { policy, rules: vec![rule] }];
            decide_direction_among(model, &alone, flow, direction).verdict == Verdict::Accept
        });
    let rules: Vec<What> = accepting
        .map(|(policy, rule)| What::Rule(RuleRef { policy: policy.origin.clone(), direction, index: rule.index, name: rule.name.clone() }))
        .collect();
    match (action, rules.is_empty()) {
        (Action::Deny, _) => rules,
        (Action::Accept, true) => isolating.iter().map(|it| What::Isolation(it.origin.clone())).collect(),
        (Action::Accept, false) | (Action::Pass, _) => Vec::new(),
    }
}

struct Found<'f> {
    of: &'f Overrides,
    change: &'f Change,
    overridden: &'f [Overridden],
}

fn lines(all: &[Overrides]) -> impl Iterator<Item = Found<'_>> {
    all.iter()
        .flat_map(|of| of.connections.changes.iter().zip(&of.overridden).map(move |(change, overridden)| Found { of, change, overridden }))
}

impl Found<'_> {
    fn part(&self, group: &Group, endpoint: &Endpoint) -> Option<Part> {
        let name = workload(endpoint);
        group.units.iter().find(|it| self.of.connections.units.get(it.unit).is_some_and(|it| it.name == name)).map(|it| it.part)
    }

    /// Whether it is about a flow; of some pods only, it may be.
    fn says(&self, model: &Model, flow: &Flow, direction: Direction, action: Action) -> Option<Part> {
        let (from, to) = (pod(model, &flow.from).unwrap(), pod(model, &flow.to).unwrap());
        let near = from.name.namespace == to.name.namespace;
        let between = match self.change.between {
            Between::Any => true,
            Between::SameNamespace => near,
            Between::OtherNamespaces => !near,
        };
        let family = flow.to.address.or(flow.from.address).map(Family::of);
        let families = self.change.family.is_none() || family.is_none() || self.change.family == family;
        let sets = [self.change.opened, self.change.closed];
        let traffic = sets.into_iter().any(|it| self.of.connections.sets.contains(it, flow.protocol, flow.port));
        let parts = (self.part(&self.change.from, from)?, self.part(&self.change.to, to)?);
        let applies = self.of.direction == direction && self.of.action == action && between && families && traffic;
        applies.then_some(if parts == (Part::AllPods, Part::AllPods) { Part::AllPods } else { Part::SomePods })
    }
}

fn check(seed: u64, model: &Model, met: &mut BTreeMap<String, usize>) {
    let policies = cluster_policies(model);
    let all = overrides(model, &policies);
    // What each rule is met with, for the other way to ask.
    let mut reversed: BTreeMap<(What, RuleRef), usize> = BTreeMap::new();
    let mut upheld: BTreeMap<RuleRef, usize> = BTreeMap::new();
    for (from, to) in pairs(model) {
        for (protocol, port) in TRAFFIC {
            let flow = Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct };
            for direction in Direction::BOTH {
                let rule = decided(model, &flow, direction);
                for (policy, found) in policies.iter().zip(&all) {
                    let mine = rule.as_ref().filter(|it| it.0.policy == *policy);
                    for action in [Action::Accept, Action::Deny] {
                        let by = mine.filter(|it| it.1 == action).map(|it| &it.0);
                        let wanted = by.map_or_else(Vec::new, |_| otherwise(model, &flow, direction, action));
                        let told: Vec<(Found<'_>, Part)> =
                            lines(found).filter_map(|it| it.says(model, &flow, direction, action).map(|part| (it, part))).collect();
                        let said = || {
                            format!(
                                "seed {seed}: {policy} {action} {direction}: {} -> {} {protocol} {port:?}, {wanted:?}",
                                pod(model, &from).unwrap().name,
                                pod(model, &to).unwrap().name
                            )
                        };
                        if wanted.is_empty() {
                            assert!(!told.iter().any(|it| it.1 == Part::AllPods), "{}: told but not so", said());
                        } else {
                            assert!(!told.is_empty(), "{}: not told", said());
                        }
                        for (what, by) in wanted.iter().zip(std::iter::repeat(by)).filter_map(|(what, by)| by.map(|by| (what, by))) {
                            let named = told.iter().any(|it| it.0.overridden.iter().any(|it| it.what == *what && it.by == *by));
                            assert!(named, "{}: without {what:?} by {by:?}", said());
                            *reversed.entry((what.clone(), by.clone())).or_default() += 1;
                            *met.entry(format!("{action} {direction}")).or_default() += 1;
                        }
                    }
                }
                let denied = rule.as_ref().is_some_and(|it| it.1 == Action::Deny);
                if !denied {
                    for what in otherwise(model, &flow, direction, Action::Deny) {
                        if let What::Rule(rule) = what {
                            *upheld.entry(rule).or_default() += 1;
                        }
                    }
                }
            }
        }
    }
    check_policies(seed, model, &reversed, &upheld, met);
}

/// The same from the side of the NetworkPolicies.
fn check_policies(
    seed: u64,
    model: &Model,
    reversed: &BTreeMap<(What, RuleRef), usize>,
    upheld: &BTreeMap<RuleRef, usize>,
    met: &mut BTreeMap<String, usize>,
) {
    let policies: Vec<_> = model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.clone()).collect();
    for found in overridden(model, &policies) {
        for it in found.rules.iter().chain(&found.isolation) {
            let what = it.rule.clone().map_or_else(|| What::Isolation(found.policy.clone()), What::Rule);
            let in_direction = |by: &RuleRef| by.direction == it.direction;
            for ((_, by), _) in reversed.iter().filter(|((whose, by), _)| *whose == what && in_direction(by)) {
                assert!(
                    it.by.iter().any(|it| it.rules.contains(by)),
                    "seed {seed}: {what:?} is overridden by {by:?}, and that is not told"
                );
                assert_ne!(it.effect, Effect::Whole, "seed {seed}: {what:?}");
            }
            if let Some(rule) = &it.rule {
                let left = upheld.contains_key(rule);
                assert!(!(left && it.effect == Effect::Nothing), "seed {seed}: something is left of {rule:?}");
            }
            *met.entry(format!("{:?}", it.effect)).or_default() += 1;
        }
    }
}

/// In a tie that is a conflict the order counts, and in no other.
fn check_ties(seed: u64, model: &Model, met: &mut BTreeMap<String, usize>) {
    for origin in cluster_policies(model) {
        for tie in ties(model, &origin) {
            *met.entry(format!("{:?}", tie.kind)).or_default() += 1;
            let tied = |it: &Policy| it.origin == origin || it.origin == tie.with;
            let policy = model.policies.iter().find(|it| it.origin == origin).unwrap();
            let mut alone = model.clone();
            alone.policies.retain(|it| tied(it) || it.tier != policy.tier || it.rank != policy.rank);
            alone.policies.iter_mut().for_each(|it| it.rank *= 2);
            let first = |origin: &palisade_model::PolicyRef| {
                let mut model = alone.clone();
                model.policies.iter_mut().filter(|it| it.origin == *origin).for_each(|it| it.rank -= 1);
                model
            };
            let (mine, theirs) = (first(&origin), first(&tie.with));
            let differ = pairs(model).into_iter().any(|(from, to)| {
                TRAFFIC.into_iter().any(|(protocol, port)| {
                    let flow = Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct };
                    let verdict = |model: &Model| palisade_engine::decide(model, &flow).verdict;
                    verdict(&mine) != verdict(&theirs)
                })
            });
            assert!(!differ || tie.kind == TieKind::Conflict, "seed {seed}: {origin} and {} differ: {tie:?}", tie.with);
        }
    }
}

/// Policies of random clusters seldom have the same priority.
fn with_ties(model: &Model) -> Model {
    let mut model = model.clone();
    model.policies.iter_mut().filter(|it| it.tier != Tier::NetworkPolicy).for_each(|it| it.rank = 7);
    model.policies.sort_by(|a, b| (a.tier, a.rank, &a.origin.name, &a.origin).cmp(&(b.tier, b.rank, &b.origin.name, &b.origin)));
    model
}

#[test]
fn what_is_overridden_is_told_and_nothing_else() {
    let seconds = std::env::var("PALISADE_OVERRIDES_SECONDS").map_or(4, |it| it.parse().unwrap());
    let start = std::env::var("PALISADE_OVERRIDES_SEED").map_or(0, |it| it.parse().unwrap());
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for seed in start.. {
        if Instant::now() > deadline && seed > start + 40 {
            break;
        }
        let model = snapshot("cluster.yaml", &generate(seed).objects.to_json()).model;
        check(seed, &model, &mut met);
        check_ties(seed, &with_ties(&model), &mut met);
    }
    let wanted = [
        "Accept egress",
        "Accept ingress",
        "Deny egress",
        "Deny ingress",
        "Whole",
        "Part",
        "Nothing",
        "Conflict",
        "Possible",
        "Harmless",
        "Disjoint",
    ];
    let missing: Vec<&str> = wanted.into_iter().filter(|it| met.get(*it).copied().unwrap_or(0) == 0).collect();
    assert!(missing.is_empty(), "nothing of {missing:?} among {met:?}");
}
