//! What is updated object by object is what would be compiled at once.

use std::collections::BTreeSet;

use palisade_engine::{Change, compile};
use palisade_model::{Endpoint, Peer, PeerSet, Rule};
use palisade_testkit::changes::{Object, World};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 60;

fn world(seed: u64) -> World {
    World::of(&snapshot("cluster.json", &generate(seed).objects.to_json()).model)
}

#[test]
fn changes_in_any_order_come_to_what_is_compiled_at_once() {
    for seed in 0..CLUSTERS {
        let mut random = Random::new(seed);
        let (mut now, between, last) = (world(seed), world(seed + 1_000), world(seed + 2_000));
        let mut compiled = compile(&now.model());
        for target in [&between, &last] {
            for object in now.objects(target, &mut random) {
                now.step(&object, target, &mut compiled);
                assert_same(&compiled.canonical(), &compile(&now.model()).canonical(), &format!("seed {seed}, {object:?}"));
            }
        }
    }
}

/// Clusters in which some policy compares its peers with its subject.
fn related() -> impl Iterator<Item = (u64, World)> {
    let is_relative = |it: &Rule| matches!(&it.peers, PeerSet::Of(peers) if peers.iter().any(|it| matches!(it, Peer::Relative(_))));
    (0..).map(|seed| (seed, world(seed))).filter(move |(_, world)| {
        let policies = world.model().policies;
        policies.iter().any(|it| it.rules.egress.iter().chain(&it.rules.ingress).any(is_relative))
    })
}

#[test]
fn relations_follow_labels_and_rules_that_change() {
    let mut clusters = 0;
    for (seed, mut now) in related().take(20) {
        let mut random = Random::new(seed);
        let mut compiled = compile(&now.model());
        let before = compiled.canonical();
        let mut changed = false;
        for target in [now.relabelled(&mut random), now.rewritten(&mut random), now.clone()] {
            for object in now.objects(&target, &mut random) {
                now.step(&object, &target, &mut compiled);
                let fresh = compile(&now.model()).canonical();
                assert_same(&compiled.canonical(), &fresh, &format!("seed {seed}, {object:?}"));
                changed |= fresh != before;
            }
        }
        clusters += u32::from(changed);
        assert_same(&compiled.canonical(), &before, &format!("seed {seed}, as it was"));
    }
    assert!(clusters >= 15, "something came of the changes in {clusters} clusters only");
}

/// Only what differs is worth reading.
fn assert_same(updated: &str, fresh: &str, when: &str) {
    let lines = |of: &str, other: &str| -> Vec<String> {
        let known: BTreeSet<&str> = other.lines().collect();
        of.lines().filter(|it| !known.contains(it)).map(ToOwned::to_owned).collect()
    };
    assert!(updated == fresh, "{when}\nupdated: {:#?}\nfresh: {:#?}", lines(updated, fresh), lines(fresh, updated));
}

#[test]
fn what_changes_leave_behind_is_noticed() {
    let world = world(1);
    let model = world.model();
    let mut compiled = compile(&model);
    let pod = model.endpoints.first().unwrap();
    let mut turns = 0;
    // Every pod that comes has labels that nobody had before.
    while !compiled.is_worn() && turns < 200_000 {
        let labels = [("app", "a"), ("hash", &turns.to_string())].into_iter().collect();
        compiled.update(Change::Pod { pod: &Endpoint { labels, ..pod.clone() }, node: None });
        turns += 1;
    }
    assert!(compiled.is_worn());
    assert!(!compile(&model).is_worn());
}

#[test]
fn pods_that_a_change_does_not_touch_are_not_named() {
    let mut world = world(3);
    let model = world.model();
    let mut compiled = compile(&model);
    let before: Vec<String> = pod_lines(&compiled.canonical());
    for object in world.clone().objects(&World::default(), &mut Random::new(3)) {
        let named = world.step(&object, &World::of(&model), &mut compiled);
        assert!(matches!(object, Object::Pod(_)) || named.is_empty(), "{object:?} is as it was, and touched {named:?}");
    }
    assert_eq!(pod_lines(&compiled.canonical()), before);
}

fn pod_lines(canonical: &str) -> Vec<String> {
    canonical.lines().filter(|it| it.starts_with("pod ")).map(ToOwned::to_owned).collect()
}
