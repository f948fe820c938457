//! While a ruleset is changed no packet meets what neither the old nor the new one would do, and nothing is opened before all is closed.

mod cases;
mod cluster;
mod drawn;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_nft::{Ids, Ruleset, Statement, Step, Unknown, Verdict, plan, replace};
use palisade_testkit::changes::World;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::interleaved::{Looked, check, closed, on_one_node};
use palisade_testkit::journeys;
use palisade_testkit::random::Random;

use crate::cases::{CASES, Case, Numbers};
use crate::cluster::ruleset;
use crate::drawn::Drawn;

/// What turns one ruleset into another.
type Protocol = fn(&Ruleset, &Ruleset) -> Vec<Step>;

/// Both rulesets of a case.
fn rulesets(case: &Case, unknown: &Unknown) -> [Ruleset; 2] {
    let mut ids = Ids::default();
    let [old, mut new] = [case.old, case.new].map(|it| ruleset(&format!("{}\n{it}", case.both), &mut ids, unknown.clone()));
    match case.numbers {
        Numbers::Stay => {}
        Numbers::SwapClasses(one, other) => swap_classes(&mut new, one.parse().unwrap(), other.parse().unwrap()),
        Numbers::SwapLeaves => swap_leaves(&mut new),
    }
    [old, new]
}

fn swap_classes(ruleset: &mut Ruleset, one: IpAddr, other: IpAddr) {
    let [one, other] = [one, other].map(|it| ruleset.data["class4"].elements[&it]);
    assert_ne!(one, other);
    let swapped = |it: u32| {
        if it == one {
            other
        } else if it == other {
            one
        } else {
            it
        }
    };
    for map in ["class4", "class6"] {
        ruleset.data.get_mut(map).unwrap().elements.values_mut().for_each(|it| *it = swapped(*it));
    }
    ruleset.intervals.values_mut().flat_map(|it| it.elements.values_mut()).for_each(|(_, it)| *it = swapped(*it));
    for (_, map) in ruleset.verdicts.iter_mut().filter(|(name, _)| name.ends_with("-leaves")) {
        map.elements = map.elements.iter().map(|(class, leaf)| (swapped(*class), leaf.clone())).collect();
    }
}

/// Has the chains of leaves say each other's rules, the first one's the last one's and so on, and all that goes there go to where its rules are.
fn swap_leaves(ruleset: &mut Ruleset) {
    let leaves: Vec<String> = ruleset.chains.keys().filter(|it| it.starts_with("leaf-")).cloned().collect();
    assert!(leaves.len() > 1);
    let names: BTreeMap<&String, &String> = leaves.iter().zip(leaves.iter().rev()).collect();
    let swapped = |it: &String| names.get(it).map_or_else(|| it.clone(), |it| (*it).clone());
    ruleset.chains = ruleset.chains.iter().map(|(name, chain)| (swapped(name), chain.clone())).collect();
    for statement in ruleset.chains.values_mut().flat_map(|it| &mut it.rules).flat_map(|it| &mut it.statements) {
        if let Statement::Verdict(Verdict::Goto(to)) = statement {
            *to = swapped(to);
        }
    }
    ruleset.verdicts.values_mut().flat_map(|it| it.elements.values_mut()).for_each(|it| *it = swapped(it));
}

/// Holds all packets against a case, there and back.
fn check_case(case: &Case, unknown: &Unknown, protocol: Protocol) -> Result<Looked, String> {
    let [old, new] = rulesets(case, unknown);
    let all = journeys::all(&old, &new);
    let mut sum = Looked::default();
    for (way, from, to) in [("there", &old, &new), ("back", &new, &old)] {
        sum += check(from, to, &protocol(from, to), &all).map_err(|wrong| format!("{}, {way}: {wrong}", case.name))?;
    }
    Ok(sum)
}

/// Every packet, every lookup, every commit.
#[test]
fn small_changes_leak_nothing_lose_nothing_and_widen_last() {
    let (mut sum, mut wrong) = (Looked::default(), Vec::new());
    for case in CASES {
        for unknown in [closed(), Unknown::Open] {
            let start = std::time::Instant::now();
            match check_case(case, &unknown, plan) {
                Ok(looked) => {
                    println!("{}: {looked:?} {:?}", case.name, start.elapsed());
                    sum += looked;
                }
                Err(found) => wrong.push(format!("{unknown:?}, {found}\nbut {}", case.rule)),
            }
        }
    }
    println!("{} changes: {sum:?}", CASES.len() * 4);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// As above, but whatever changes.
#[test]
fn drawn_changes_of_small_clusters_leak_nothing_lose_nothing_and_widen_last() {
    let (mut sum, mut changed, mut beside) = (Looked::default(), 0, 0);
    let mut wrong = Vec::new();
    for seed in 0..scaled(400) {
        let mut random = Random::new(seed);
        let unknown = if random.percent(70) { closed() } else { Unknown::Open };
        let lines = random.between(1, 4);
        let old = Drawn::new(&mut random);
        let new = old.changed(&mut random, lines);
        let mut ids = Ids::default();
        let [before, after] = [&old, &new].map(|it| ruleset(&it.text(), &mut ids, unknown.clone()));
        match check(&before, &after, &plan(&before, &after), &journeys::all(&before, &after)) {
            Ok(looked) => {
                sum += looked;
                changed += usize::from(looked.commits > 0);
                beside += usize::from(looked.beside > 0);
            }
            Err(found) => wrong.push(format!("seed {seed}, {unknown:?}: {found}\n{}\n->\n{}", old.text(), new.text())),
        }
    }
    println!("{changed} changes, {beside} of them beside: {sum:?}");
    assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong.join("\n\n"));
}

/// How many are drawn.
fn scaled(count: u64) -> u64 {
    let clusters: u64 = std::env::var("PALISADE_PLANS").ok().map_or(25, |it| it.parse().unwrap());
    count * clusters / 25
}

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
    let mut old = on_one_node(&now.model(), &mut ids, closed(), here);
    for target in [now.relabelled(&mut random), now.rewritten(&mut random), world(seed + 1_000)] {
        for object in now.objects(&target, &mut random) {
            now.step(&object, &target, &mut compiled);
            // Some changes come together.
            if random.percent(30) {
                continue;
            }
            let new = on_one_node(&now.model(), &mut ids, closed(), here);
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
    for seed in 0..scaled(25) {
        changes(seed, |old, new, random, when| {
            let looked = check(old, new, &plan(old, new), &journeys::some(old, new, random, 60));
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
            check(old, new, &replace(new, &[]), &journeys::some(old, new, random, 20)).unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
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
                noticed = check(old, new, &steps, &journeys::some(old, new, random, 60)).err().map(|wrong| format!("{when}: {wrong}"));
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
