//! While a ruleset is changed no packet meets what neither the old nor the new one would do.

use palisade_nft::{Ids, plan};
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

#[test]
fn changes_of_random_clusters_leak_nothing_and_lose_nothing() {
    let mut sum = Looked::default();
    let clusters: u64 = std::env::var("PALISADE_PLANS").ok().map_or(25, |it| it.parse().unwrap());
    for seed in 0..clusters {
        let mut random = Random::new(seed);
        let mut ids = Ids::default();
        let mut now = world(seed);
        let mut compiled = palisade_engine::compile(&now.model());
        let mut old = on_one_node(&now.model(), &mut ids, here);
        for target in [now.relabelled(&mut random), now.rewritten(&mut random), world(seed + 1_000)] {
            let mut at = 0;
            for object in now.objects(&target, &mut random) {
                now.step(&object, &target, &mut compiled);
                at += 1;
                // Some changes come together.
                if random.percent(30) {
                    continue;
                }
                let new = on_one_node(&now.model(), &mut ids, here);
                let steps = plan(&old, &new);
                let looked = check(&old, &new, &steps, &packets(&old, &new, &mut random, 60));
                let looked = looked.unwrap_or_else(|wrong| panic!("seed {seed}, change {at}, {object:?}: {wrong}"));
                sum.packets += looked.packets;
                sum.turned += looked.turned;
                sum.commits += looked.commits;
                sum.graces += looked.graces;
                sum.beside += usize::from(looked.beside > 0);
                old = new;
            }
        }
    }
    println!("{sum:?}");
    assert!(sum.turned > 100, "{sum:?}");
}
