//! Policies in another shape: what is written is read back as it was meant, and reach is the same unless something was lost.

use std::collections::BTreeMap;

use palisade_analysis::convert::{Converted, Objects, Target, Unsayable, Weight, convert, mimic};
use palisade_analysis::diff::{Filter, Version};
use palisade_engine::compile;
use palisade_k8s::Beside;
use palisade_model::{Model, Policy, Severity, SharedList};
use palisade_report::manifest::manifest;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;

const SEEDS: u64 = 120;
const TARGETS: [Target; 3] = [Target::ClusterNetworkPolicy, Target::AdminNetworkPolicy, Target::Kep2091];

#[test]
fn random_policies_keep_their_reach_in_another_shape() {
    let mut met: BTreeMap<(Target, bool), usize> = BTreeMap::new();
    for seed in 0..SEEDS {
        let model = snapshot("cluster", &generate(seed).objects.to_json()).model;
        for target in TARGETS {
            let whole = check(&model, target, seed);
            *met.entry((target, whole)).or_default() += 1;
        }
    }
    for target in [Target::AdminNetworkPolicy, Target::Kep2091] {
        assert!(met.contains_key(&(target, true)) && met.contains_key(&(target, false)), "{met:?}");
    }
}

/// And again into a third shape.
#[test]
fn policies_keep_their_reach_from_shape_to_shape() {
    for seed in 0..SEEDS / 3 {
        let model = snapshot("cluster", &generate(seed).objects.to_json()).model;
        for (first, second) in TARGETS.into_iter().flat_map(|first| TARGETS.map(|second| (first, second))) {
            let between = convert(&model, &Objects::default(), first, None, Unsayable::Kept).applied_to(&model);
            check(&between, second, seed);
        }
    }
}

#[test]
fn network_policies_do_what_cluster_policies_did() {
    let mut whole = 0;
    for seed in 0..SEEDS {
        let model = snapshot("cluster", &generate(seed).objects.to_json()).model;
        let converted = mimic(&model, &Objects::default(), &[]);
        read_back(&converted, seed);
        if converted.losses.iter().all(|it| it.weight != Weight::Reach) {
            same_reach(&model, &converted, "NetworkPolicy", seed);
            whole += usize::from(!converted.written.is_empty());
        }
    }
    assert!(whole > 10, "{whole} clusters could be said");
}

/// Whether all of it could be said.
fn check(model: &Model, target: Target, seed: u64) -> bool {
    let kept = convert(model, &Objects::default(), target, None, Unsayable::Kept);
    read_back(&kept, seed);
    same_reach(model, &kept, &format!("{target:?}"), seed);
    let dropped = convert(model, &Objects::default(), target, None, Unsayable::Dropped);
    read_back(&dropped, seed);
    let whole = dropped.losses.iter().all(|it| it.weight != Weight::Reach);
    if whole {
        same_reach(model, &dropped, &format!("{target:?}"), seed);
    }
    whole
}

fn read_back(converted: &Converted, seed: u64) {
    for written in &converted.written {
        let text = manifest(&written.policy, &Beside::default()).yaml();
        let read = snapshot("written", &text);
        let errors: Vec<_> = read.diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "seed {seed}: {text}\n{errors:#?}");
        assert_eq!(read.model.policies.iter().collect::<Vec<_>>(), [&written.policy], "seed {seed}: {text}");
    }
}

fn same_reach(model: &Model, converted: &Converted, target: &str, seed: u64) {
    let new = converted.applied_to(model);
    let (before, after) = (compile(model), compile(&new));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old = Version { model, reach: &mut before };
    let diff = Version { model: &new, reach: &mut after }.changes_since(&mut old, &Filter::default());
    let told =
        |policies: &SharedList<Policy>| policies.iter().map(|it| manifest(it, &Beside::default()).yaml()).collect::<Vec<_>>().join("---\n");
    assert!(
        diff.changes.is_empty(),
        "seed {seed} to {target}: {:#?}\n{:#?}\nbefore:\n{}\nafter:\n{}",
        diff.changes,
        converted.losses,
        told(&model.policies),
        told(&new.policies)
    );
}
