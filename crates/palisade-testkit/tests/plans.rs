//! While a ruleset is changed no packet meets what neither the old nor the new one would do.

use palisade_nft::{Ids, Ruleset, Step, plan, replace};
use palisade_testkit::changes::World;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::interleaved::{Looked, check, on_one_node, packets};
use palisade_testkit::random::Random;

fn world(seed: u64) -> World {
    World::of(&snapshot("cluster.json", &generate(seed).objects.to_json()).model)
}

/// About two of three pods run on the node.
fn here(name: &str) -> bool {
    name.bytes().map(u32::from).sum::<u32>() % 3 != 0
}

/// Gives each change of a random cluster to `look`, until it says that it is enough.
fn changes(seed: u64, mut look: impl FnMut(&Ruleset, &Ruleset, &mut Random, String) -> bool) {
    let mut random = Random::new(seed);
    let mut ids = Ids::default();
    let mut now = world(seed);
    let mut compiled = palisade_engine::compile(&now.model());
    let mut old = on_one_node(&now.model(), &mut ids, here);
    for target in [now.relabelled(&mut random), now.rewritten(&mut random), world(seed + 1_000)] {
        for object in now.objects(&target, &mut random) {
            now.step(&object, &target, &mut compiled);
            // Some changes come together.
            if random.percent(30) {
                continue;
            }
            let new = on_one_node(&now.model(), &mut ids, here);
            if !look(&old, &new, &mut random, format!("seed {seed}, {object:?}")) {
                return;
            }
            old = new;
        }
    }
}

#[test]
fn changes_of_random_clusters_leak_nothing_and_lose_nothing() {
    let mut sum = Looked::default();
    let mut changed = 0;
    let clusters: u64 = std::env::var("PALISADE_PLANS").ok().map_or(25, |it| it.parse().unwrap());
    for seed in 0..clusters {
        changes(seed, |old, new, random, when| {
            let looked = check(old, new, &plan(old, new), &packets(old, new, random, 60));
            let looked = looked.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
            sum.packets += looked.packets;
            sum.turned += looked.turned;
            sum.commits += looked.commits;
            sum.graces += looked.graces;
            sum.beside += usize::from(looked.beside > 0);
            changed += usize::from(looked.commits > 0);
            true
        });
    }
    assert!(sum.turned > 100 && sum.beside > 0 && sum.beside * 10 < changed, "{changed} changes: {sum:?}");
}

/// Where the whole table is replaced, too.
#[test]
fn replacing_all_leaks_nothing_and_loses_nothing() {
    for seed in 0..4 {
        changes(seed, |old, new, random, when| {
            check(old, new, &replace(new, &[]), &packets(old, new, random, 20)).unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
            true
        });
    }
}

/// The plain difference.
fn at_once(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    vec![Step::Commit(new.changes_since(old)), Step::Grace]
}

/// Nobody waits before the last.
fn without_grace(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let steps = plan(old, new).into_iter().filter(|it| *it != Step::Grace);
    steps.chain([Step::Grace]).collect()
}

/// Old objects go while packets may still be there.
fn swept_early(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let mut steps = plan(old, new);
    if let [.., Step::Grace, Step::Commit(_), Step::Grace] = steps.as_slice() {
        steps.remove(steps.len() - 3);
    }
    steps
}

/// New objects come together with what refers to them.
fn prepared_late(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let mut steps = plan(old, new);
    if let [Step::Commit(prepared), Step::Commit(narrowed), ..] = steps.as_slice() {
        let mut both = prepared.clone();
        both.changes.extend(narrowed.changes.iter().cloned());
        steps.splice(..2, [Step::Commit(both)]);
    }
    steps
}

/// The old table goes while packets are in it.
fn replaced_without_leaving(_: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let mut steps = replace(new, &[]);
    steps.drain(2..4);
    steps
}

/// The table beside goes while packets are in it.
fn left_beside_at_once(_: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let mut steps = replace(new, &[]);
    let end = steps.len();
    steps.drain(end - 4..end - 2);
    steps
}

/// Breaking one rule of the protocol makes some packet leak or get lost, and that is noticed.
#[test]
fn each_rule_of_the_protocol_is_needed() {
    type Broken = fn(&Ruleset, &Ruleset) -> Vec<Step>;
    let ways: [(&str, Broken); 6] = [
        ("at once", at_once),
        ("without grace", without_grace),
        ("swept early", swept_early),
        ("prepared late", prepared_late),
        ("replaced without leaving", replaced_without_leaving),
        ("left beside at once", left_beside_at_once),
    ];
    for (name, broken) in ways {
        let mut noticed = None;
        for seed in 0..40 {
            changes(seed, |old, new, random, when| {
                let steps = broken(old, new);
                noticed = check(old, new, &steps, &packets(old, new, random, 60)).err().map(|wrong| format!("{when}: {wrong}"));
                noticed.is_none()
            });
            if noticed.is_some() {
                break;
            }
        }
        let noticed = noticed.unwrap_or_else(|| panic!("`{name}` goes unnoticed"));
        assert!(["leaked", "lost"].iter().any(|it| noticed.contains(it)), "{name}: {noticed}");
    }
}
