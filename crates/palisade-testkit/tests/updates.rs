//! What is updated object by object is what would be compiled at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_engine::compile;
use palisade_model::{Changes, Delta, Endpoint, Gap, Model, Peer, PeerSet, Replica, Revision, Rule};
use palisade_testkit::changes::{Incremental, World, compiled_at_once};
use palisade_testkit::check::snapshot_with_networks;
use palisade_testkit::generate::generate;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 60;

fn world(seed: u64) -> World {
    World::of(&snapshot_with_networks("cluster.json", &generate(seed).objects.to_json()).model)
}

#[test]
fn changes_in_any_order_come_to_what_is_compiled_at_once() {
    for seed in 0..CLUSTERS {
        let mut random = Random::new(seed);
        let (mut now, between, last) = (world(seed), world(seed + 1_000), world(seed + 2_000));
        let mut updated = Incremental::of(&now, seed);
        for target in [&between, &last, &World::default()] {
            for object in now.objects(target, &mut random) {
                updated.step(&mut now, &object, target);
                assert_same(&canonical(&updated), &fresh(&now), &format!("seed {seed}, {object:?}"));
            }
        }
        assert_eq!((updated.model(), updated.replica.revision()), (&Model::default(), Revision::default()), "seed {seed}");
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
        let mut updated = Incremental::of(&now, seed);
        let before = canonical(&updated);
        let mut changed = false;
        for target in [now.relabelled(&mut random), now.rewritten(&mut random), now.clone()] {
            for object in now.objects(&target, &mut random) {
                updated.step(&mut now, &object, &target);
                let fresh = fresh(&now);
                assert_same(&canonical(&updated), &fresh, &format!("seed {seed}, {object:?}"));
                changed |= fresh != before;
            }
        }
        clusters += u32::from(changed);
        assert_same(&canonical(&updated), &before, &format!("seed {seed}, as it was"));
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
    let (id, pod) = model.endpoints.iter_shared().next().unwrap();
    let mut old = Arc::clone(pod);
    let mut turns = 0;
    // Every pod that comes has labels that no pod had before.
    while !compiled.is_worn() && turns < 200_000 {
        let labels = [("app", "a"), ("hash", &turns.to_string())].into_iter().collect();
        let new = Arc::new(Endpoint { labels, ..pod.as_ref().clone() });
        compiled.update(&Delta { id, old: Some(old), new: Some(Arc::clone(&new)) }.into());
        old = new;
        turns += 1;
    }
    assert!(compiled.is_worn());
    assert!(!compile(&model).is_worn());
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let (now, other) = (world(3), world(4));
    let mut updated = Incremental::of(&now, 3);
    let changes = Changes::all(&other.model());
    assert_eq!(updated.replica.apply(&changes), Err(Gap::OtherRevision));
    let changes = Changes { from: updated.replica.revision(), ..changes };
    assert_eq!(updated.replica.apply(&changes), Err(Gap::OtherResult));
    let to = changes.revision_after(changes.from);
    assert_eq!(updated.replica.apply(&Changes { to, ..changes }), Err(Gap::OtherObject));
    let mut replica = Replica::default();
    replica.apply(&Changes::all(&now.model())).unwrap();
    assert_eq!((replica.model(), replica.revision()), (&now.model(), Replica::of(now.model()).revision()));
}

#[test]
fn pods_that_a_change_does_not_touch_are_not_named() {
    let model = world(3).model();
    let mut compiled = compile(&model);
    let before = pod_lines(&compiled.canonical(&model));
    for policy in model.policies.iter_shared() {
        let again = Delta { id: policy.key(), old: Some(Arc::clone(policy)), new: Some(Arc::clone(policy)) };
        assert_eq!(compiled.update(&again.into()), [], "{}", policy.origin);
    }
    for (name, namespace) in &model.namespaces {
        let namespace = Arc::new(namespace.clone());
        let again = Delta { id: name.clone(), old: Some(Arc::clone(&namespace)), new: Some(namespace) };
        assert_eq!(compiled.update(&again.into()), [], "{name}");
    }
    for (id, pod) in model.endpoints.iter_shared() {
        let again = Delta { id, old: Some(Arc::clone(pod)), new: Some(Arc::clone(pod)) };
        let named = compiled.update(&again.into());
        assert!(named.iter().all(|it| *it == id), "{}: {named:?}", pod.name);
    }
    assert_eq!(pod_lines(&compiled.canonical(&model)), before);
}

fn canonical(updated: &Incremental) -> String {
    updated.canonical()
}

fn fresh(world: &World) -> String {
    compiled_at_once(&world.model())
}

fn pod_lines(canonical: &str) -> Vec<String> {
    canonical.lines().filter(|it| it.starts_with("pod ")).map(ToOwned::to_owned).collect()
}
