//! While a ruleset is changed no packet meets what neither the old nor the new one would do, and nothing is opened before all is closed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "all of this is tests, and clippy knows them by their attribute only"
)]

mod cases;
mod cluster;
mod drawn;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_nft::{Ids, Origin, Ruleset, Shared, Standing, Statement, Step, Table, Unknown, Verdict, plan, replace, states};
use palisade_testkit::changes::World;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::interleaved::{Looked, as_kept, check, closed, on_one_node};
use palisade_testkit::journeys;
use palisade_testkit::random::Random;

use crate::cases::{CASES, Case, Edit};
use crate::cluster::ruleset;
use crate::drawn::Drawn;

/// What turns one ruleset into another.
type Protocol = fn(&Ruleset, &Ruleset) -> Vec<Step>;

/// What all changes of a test came to.
#[derive(Debug, Default)]
struct Sum {
    changes: usize,
    /// Those for which all of the table was replaced.
    beside: usize,
    looked: Looked,
}

impl Sum {
    fn add(&mut self, looked: Looked) {
        self.changes += usize::from(looked.commits > 0);
        self.beside += usize::from(looked.beside > 0);
        self.looked += looked;
    }

    #[expect(clippy::print_stdout, reason = "how much was looked at is part of what is proven")]
    fn say(&self) {
        println!("{self:?}");
    }
}

/// Both rulesets of a case.
fn rulesets(case: &Case, unknown: &Unknown) -> [Ruleset; 2] {
    let mut ids = Ids::default();
    let [old, mut new] = [case.old, case.new].map(|it| ruleset(&format!("{}\n{it}", case.both), &mut ids, unknown.clone()));
    match case.edit {
        Edit::Nothing => {}
        Edit::SwapClasses(one, other) => {
            swap_classes(&mut new, [one, other].map(|it| old.data["class4"].elements[&it.parse::<IpAddr>().unwrap()]))
        }
        Edit::TurnLeaves => turn_leaves(&mut new),
    }
    [old, new]
}

fn swap_classes(ruleset: &mut Ruleset, [one, other]: [u32; 2]) {
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
        ruleset.data.get_mut(map).unwrap().elements.change_values(|it| swapped(*it));
    }
    ruleset.intervals.values_mut().flat_map(|it| it.elements.values_mut()).for_each(|(_, it)| *it = swapped(*it));
    for (_, map) in ruleset.verdicts.iter_mut().filter(|(name, _)| name.ends_with("-leaves")) {
        map.elements = map.elements.iter().map(|(class, leaf)| (swapped(*class), leaf.clone())).collect();
    }
}

fn turn_leaves(ruleset: &mut Ruleset) {
    let origin = *ruleset.origins.keys().next().unwrap();
    let leaves = ruleset.chains.iter_mut().filter(|(name, _)| name.starts_with("leaf-"));
    for rule in leaves.flat_map(|(_, chain)| &mut chain.rules) {
        rule.statements = match rule.statements.last() {
            Some(Statement::Verdict(Verdict::Return)) => vec![Statement::Log(origin), Statement::Verdict(Verdict::Drop)],
            _ => vec![Statement::Verdict(Verdict::Return)],
        };
    }
}

/// Holds all packets against a case, there and back.
fn check_case(case: &Case, unknown: &Unknown, protocol: Protocol, sum: &mut Sum) -> Result<(), String> {
    let [old, new] = rulesets(case, unknown);
    let all = journeys::all(&old, &new);
    for (way, from, to) in [("there", &old, &new), ("back", &new, &old)] {
        let looked = check(from, to, &protocol(from, to), &all);
        sum.add(looked.map_err(|wrong| format!("{}, {way}: {wrong}\nbut {}", case.name, case.rule))?);
    }
    Ok(())
}

/// Every packet, every lookup, every commit.
#[test]
fn small_changes_leak_nothing_lose_nothing_and_widen_last() {
    let mut sum = Sum::default();
    for (case, unknown) in CASES.iter().flat_map(|case| [(case, closed()), (case, Unknown::Open)]) {
        check_case(case, &unknown, plan, &mut sum).unwrap_or_else(|wrong| panic!("{unknown:?}, {wrong}"));
    }
    sum.say();
}

/// Whoever dies on the way finds what he left: from there all goes on, or back, by the same rules.
#[test]
fn a_change_goes_on_from_every_state_of_another() {
    let mut sum = Sum::default();
    for (case, unknown) in CASES.iter().flat_map(|case| [(case, closed()), (case, Unknown::Open)]) {
        let [old, new] = rulesets(case, &unknown);
        let all = journeys::all(&old, &new);
        for (from, to) in [(&old, &new), (&new, &old)] {
            for found in left(from, to) {
                for wanted in [from, to] {
                    let looked = check(&found, wanted, &plan(&found, wanted), &all);
                    sum.add(looked.unwrap_or_else(|wrong| panic!("{unknown:?}, {}: {wrong}", case.name)));
                }
            }
        }
    }
    sum.say();
}

/// What programs were told for a change that ended early is not what they must say in the next one.
#[test]
fn a_change_forgets_what_another_told_programs() {
    let texts = [
        "pod p1 10.0.0.2 here app=x role=s
         pod p2 10.0.0.3 here app=y role=t
         pod p4 10.0.9.5 away role=t
         policy n5 role=t ingress 0.0.0.0/0-10.0.9.0/25@443 role=s
         policy n6 role=t egress 10.0.0.0/16@80
         deny n7 * egress app=y",
        "pod p0 10.0.0.1 here app=y
         pod p1 10.0.0.2 here app=x role=s
         pod p2 10.0.0.3 here role=t
         pod p4 10.0.9.5 away role=t
         deny n5 app=x ingress app=y
         policy n6 app=x ingress 0.0.0.0/0-10.0.9.0/25 app=y@80
         deny n7 * egress app=y",
        "pod p0 10.0.0.1 here app=y
         pod p1 10.0.0.2 here role=s
         pod p2 10.0.0.3 here role=t
         pod p4 10.0.9.6 away role=s
         policy n5 role=t ingress 10.0.0.0/16@443 0.0.0.0/0-10.0.9.0/25 192.0.2.0/24
         deny n7 * egress app=y",
    ];
    let mut ids = Ids::default();
    let [old, new, next] = texts.map(|it| ruleset(it, &mut ids, closed()));
    for found in left(&old, &new) {
        check(&found, &next, &plan(&found, &next), &journeys::all(&found, &next)).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// What a change leaves that ends early: each state between both in which no other table stands.
fn left(from: &Ruleset, to: &Ruleset) -> Vec<Ruleset> {
    let origins: Shared<BTreeMap<u32, Origin>> = from.origins.iter().chain(&to.origins).map(|(number, it)| (*number, it.clone())).collect();
    let segments = states(Standing::from([(Table::Own, as_kept(from))]), &plan(from, to)).unwrap();
    let mut states: Vec<Standing> = segments.into_iter().flatten().filter(|it| it.len() == 1).collect();
    states.dedup();
    let between = states.iter().skip(1).take(states.len().saturating_sub(2));
    between.filter_map(|it| it.get(&Table::Own)).map(|it| Ruleset { origins: origins.clone(), ..it.clone() }).collect()
}

/// As above, but whatever changes: from one cluster to another, and from somewhere between both to a third one.
#[test]
fn drawn_changes_of_small_clusters_leak_nothing_lose_nothing_and_widen_last() {
    let mut sum = Sum::default();
    for seed in 0..scaled(60) {
        let mut random = Random::new(seed);
        let unknown = if random.percent(70) { closed() } else { Unknown::Open };
        let one = Drawn::new(&mut random);
        let other = one.changed(&mut random);
        let third = other.changed(&mut random);
        let mut ids = Ids::default();
        let [old, new, next] = [&one, &other, &third].map(|it| ruleset(&it.text(), &mut ids, unknown.clone()));
        let left = left(&old, &new);
        let changes = [(Some(&old), &new), (random.pick(&left), &next)];
        for (from, to) in changes.into_iter().filter_map(|(from, to)| Some((from?, to))) {
            let looked = check(from, to, &plan(from, to), &journeys::all(from, to));
            let when = || [&one, &other, &third].map(Drawn::text).join("\nthen\n");
            sum.add(looked.unwrap_or_else(|wrong| panic!("seed {seed}, {unknown:?}: {wrong}\n{}", when())));
        }
    }
    sum.say();
    assert!(sum.beside > 0 && sum.beside * 4 < sum.changes, "{sum:?}");
}

/// So many times as many as are drawn by default.
fn scaled(count: u64) -> u64 {
    count * std::env::var("PALISADE_PLANS").map_or(1, |it| it.parse::<u64>().unwrap())
}

fn world(seed: u64) -> World {
    World::of(&snapshot("cluster.json", &generate(seed).objects.to_json()).model)
}

/// About two of three pods run on the node.
fn here(name: &str) -> bool {
    name.bytes().map(u32::from).sum::<u32>() % 3 != 0
}

/// Gives each change of a random cluster to `look`.
fn changes(seed: u64, mut look: impl FnMut(&Ruleset, &Ruleset, &mut Random, String)) {
    let mut random = Random::new(seed);
    let unknown = if seed.is_multiple_of(3) { Unknown::Open } else { closed() };
    let mut ids = Ids::default();
    let mut now = world(seed);
    let mut old = on_one_node(&now.model(), &mut ids, unknown.clone(), here);
    for target in [now.relabelled(&mut random), now.rewritten(&mut random), world(seed + 1_000)] {
        for object in now.objects(&target, &mut random) {
            now.step(&object, &target);
            // Some changes come together.
            if random.percent(30) {
                continue;
            }
            let new = on_one_node(&now.model(), &mut ids, unknown.clone(), here);
            look(&old, &new, &mut random, format!("seed {seed}, {object:?}"));
            old = new;
        }
    }
}

#[test]
fn changes_of_random_clusters_leak_nothing_lose_nothing_and_widen_last() {
    let mut sum = Sum::default();
    for seed in 0..scaled(25) {
        changes(seed, |old, new, random, when| {
            let looked = check(old, new, &plan(old, new), &journeys::some(old, new, random, 200));
            sum.add(looked.unwrap_or_else(|wrong| panic!("{when}: {wrong}")));
        });
    }
    sum.say();
    assert!(sum.looked.turned > 100 && sum.beside * 10 < sum.changes, "{sum:?}");
}

/// Where the whole table is replaced, too.
#[test]
fn replacing_all_leaks_nothing_loses_nothing_and_widens_last() {
    for case in CASES {
        check_case(case, &closed(), replaced, &mut Sum::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for seed in 0..scaled(1) {
        changes(seed, |old, new, random, when| {
            check(old, new, &replaced(old, new), &journeys::some(old, new, random, 20)).unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
        });
    }
}

fn replaced(_: &Ruleset, new: &Ruleset) -> Vec<Step> {
    replace(new, &[])
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

/// Breaking one rule of the protocol makes some packet leak or get lost, and that is noticed. Rules within the steps are broken by the mutants
/// of `plan`.
#[test]
fn each_rule_of_the_protocol_is_needed() {
    let ways: [(&str, Protocol); 6] = [
        ("at once", at_once),
        ("without grace", without_grace),
        ("swept early", swept_early),
        ("prepared late", prepared_late),
        ("replaced without leaving", replaced_without_leaving),
        ("left beside at once", left_beside_at_once),
    ];
    for (name, broken) in ways {
        let noticed = CASES.iter().find_map(|case| check_case(case, &closed(), broken, &mut Sum::default()).err());
        let noticed = noticed.unwrap_or_else(|| panic!("`{name}` goes unnoticed"));
        assert!(["leaked", "lost", "widened early"].iter().any(|it| noticed.contains(it)), "{name}: {noticed}");
    }
}
