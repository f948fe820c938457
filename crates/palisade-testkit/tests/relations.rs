//! Relations to the subject, whatever API they were written in: peers of random clusters are made relative, and all who judge models are asked.

use palisade_engine::{compile, without_relations};
use palisade_model::{Model, NamespaceSet, Peer, PeerSet, RelativeNamespaces, RelativePods, RelativeSelector, Tier};
use palisade_testkit::changes::{Incremental, World};
use palisade_testkit::check::snapshot;
use palisade_testkit::compare::Judges;
use palisade_testkit::generate::generate;
use palisade_testkit::pairs::Times;
use palisade_testkit::random::Random;

const CLUSTERS: u64 = 40;

/// A random cluster in which some peers of cluster policies compare with the subject.
fn related(seed: u64) -> Model {
    let mut model = snapshot("cluster.json", &generate(seed).objects.to_json()).model;
    let mut random = Random::new(seed);
    let of_namespaces: Vec<Box<str>> = model.namespaces.values().flat_map(|it| it.labels.iter()).map(|it| it.0.into()).collect();
    let of_pods: Vec<Box<str>> = model.endpoints.iter().flat_map(|it| it.labels.iter()).map(|it| it.0.into()).collect();
    for policy in model.policies.iter_mut().filter(|it| it.tier != Tier::NetworkPolicy) {
        for rule in policy.rules.egress.iter_mut().chain(&mut policy.rules.ingress) {
            let PeerSet::Of(peers) = &mut rule.peers else { continue };
            for peer in peers {
                let Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } = peer else { continue };
                let namespaces = match random.below(6) {
                    0 => RelativeNamespaces::Own,
                    1 => RelativeNamespaces::Others,
                    2 => RelativeNamespaces::Labelled(RelativeSelector::Matching(namespaces.clone())),
                    _ => RelativeNamespaces::Labelled(compared(&of_namespaces, &mut random)),
                };
                let pods = if random.percent(30) { compared(&of_pods, &mut random) } else { RelativeSelector::Matching(pods.clone()) };
                *peer = Peer::Relative(RelativePods { namespaces, pods });
            }
        }
    }
    model
}

fn compared(keys: &[Box<str>], random: &mut Random) -> RelativeSelector {
    let count = random.of([0, 1, 1, 1, 2]);
    let keys = (0..count).filter_map(|_| random.pick(keys).cloned()).collect();
    match random.below(3) {
        0 => RelativeSelector::Same(keys),
        1 => RelativeSelector::NoneSame(keys),
        _ => RelativeSelector::SomeDiffer(keys),
    }
}

#[test]
fn relations_are_judged_alike_by_all() {
    let mut flows = 0;
    for seed in 0..CLUSTERS {
        let (before, model) = (World::of(&related(seed + 1_000)), related(seed));
        let mut world = before;
        let mut updated = Incremental::of(&world, seed);
        let target = World::of(&model);
        for object in world.objects(&target, &mut Random::new(seed)) {
            updated.step(&mut world, &object, &target);
        }
        let compiled = compile(&model);
        assert!(updated.compiled.canonical(updated.model()) == compiled.canonical(&model), "seed {seed}");
        let asked = Judges::of(&model, &compiled, None).and_updated(&updated).ask_pairs(&mut Random::new(seed), 8, &mut Times::default());
        flows += asked.unwrap_or_else(|found| panic!("seed {seed}: {found:?}"));
    }
    assert!(flows > 10_000, "{flows}");
}

#[test]
fn the_parts_of_a_policy_come_to_the_same() {
    for seed in 0..CLUSTERS {
        let model = related(seed);
        let plain = Model { policies: without_relations(&model), ..model.clone() };
        assert_eq!(compile(&plain).canonical(&plain), compile(&model).canonical(&model), "seed {seed}");
    }
}
