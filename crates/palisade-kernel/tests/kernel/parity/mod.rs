//! The kernel in memory against the real one: whatever the real one does is right.

mod universe;

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use palisade_kernel::{Fake, Kernel, KernelError, Links, Nftables, Object, Refusal};
use palisade_nft::{Address, Change, Hook, IntervalMap, Layout, Map, Rule, Ruleset, Table, Transaction, Verdict};
use palisade_testkit::random::Random;

use crate::ground::{in_netns, say};
use universe::{LINKS, changes, full};

/// Sequences of random transactions, and transactions in each.
const SEQUENCES: u64 = 60;
const LENGTH: usize = 8;

/// Both, which ought to be the same.
struct Both {
    real: Nftables,
    fake: Fake,
    table: Table,
}

impl Both {
    fn new() -> Both {
        Both::of(Table::Own)
    }

    /// With one of our tables.
    fn of(table: Table) -> Both {
        let mut links = Links::open().unwrap();
        LINKS.iter().for_each(|it| links.add_bridge(it).unwrap());
        Both { real: Nftables::open().unwrap(), fake: Fake::new(), table }
    }

    /// Commits to both, and gives what they agree on.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), Vec<Refusal>> {
        let [real, fake] = self.answers(transaction);
        assert_eq!(fake, real, "the fake's and the kernel's answer to {transaction:#?}\nwith {:#?}", self.real.dump_of(self.table));
        real
    }

    /// The answers of the real one and of the fake.
    fn answers(&mut self, transaction: &Transaction) -> [Result<(), Vec<Refusal>>; 2] {
        [&mut self.real as &mut dyn Kernel, &mut self.fake].map(|it| it.commit(transaction).map_err(refusals))
    }

    fn compare(&mut self, transaction: &Transaction) {
        let (real, fake) = (self.real.dump_of(self.table), self.fake.dump_of(self.table));
        assert!(real.is_ok(), "{real:?} after {transaction:#?}");
        assert_eq!(fake, real, "the fake's and the kernel's table after {transaction:#?}");
    }
}

/// What was refused. Several messages speak of one object, and each of them may be refused.
fn refusals(error: KernelError) -> Vec<Refusal> {
    let KernelError::Refused(mut refusals) = error else { panic!("{error}") };
    refusals.dedup();
    refusals
}

#[test]
fn every_change_of_every_object_in_every_state_is_answered_alike() {
    check_each(Table::Own);
}

#[test]
fn every_change_of_blocked_replies_is_answered_alike() {
    check_each(Table::Replies);
}

#[test]
fn every_change_of_frames_is_answered_alike() {
    check_each(Table::Frames);
}

fn check_each(table: Table) {
    let (full, changes) = (full(table), changes(table));
    in_netns(|| {
        let mut both = Both::of(table);
        let mut met: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut differ = Vec::new();
        for state in [None, Some(Ruleset::default()), Some(full.clone())] {
            let prepare = state.as_ref().map_or_else(|| Transaction::unload_of(table), |it| Transaction::load_into(table, it));
            both.commit(&prepare).unwrap();
            both.compare(&prepare);
            let mut objects = BTreeSet::new();
            for change in &changes {
                let verb = verb(change);
                // Without chains and maps one change of each is enough.
                if state.as_ref() != Some(&full) && !objects.insert((verb, object(change).to_owned())) {
                    continue;
                }
                let transaction = Transaction { table, changes: vec![change.clone()] };
                let [real, fake] = both.answers(&transaction);
                if real != fake {
                    differ.push(format!("{transaction:?}: the kernel {real:?}, the fake {fake:?}"));
                }
                let answer = match &real {
                    Ok(()) => "done".to_owned(),
                    Err(refusals) => refusals.iter().map(|it| it.errno.to_string()).collect(),
                };
                *met.entry((verb, answer)).or_default() += 1;
                if real.is_ok() && fake.is_ok() {
                    both.compare(&transaction);
                }
                if real.is_ok() || fake.is_ok() {
                    both.commit(&prepare).unwrap();
                }
            }
            both.compare(&prepare);
        }
        for ((verb, answer), count) in &met {
            say(&format!("{verb}: {answer}: {count}"));
        }
        let offered: BTreeSet<&str> = changes.iter().map(verb).collect();
        for verb in offered {
            assert!(met.contains_key(&(verb, "done".to_owned())), "{verb} was never done");
            let refused = met.keys().any(|(it, answer)| *it == verb && answer != "done");
            assert_eq!(refused, !["delete table", "flush table"].contains(&verb), "{verb} and its refusals");
        }
        assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    });
}

fn verb(change: &Change) -> &'static str {
    match change {
        Change::AddTable(_) => "add table",
        Change::DeleteTable => "delete table",
        Change::FlushTable => "flush table",
        Change::AddChain { .. } => "add chain",
        Change::DeleteChain(_) => "delete chain",
        Change::AddDevices { .. } => "add devices",
        Change::DeleteDevices { .. } => "delete devices",
        Change::FlushChain(_) => "flush chain",
        Change::AppendRule { .. } => "append rule",
        Change::AddMap { .. } => "add map",
        Change::DeleteMap(_) => "delete map",
        Change::AddElements { .. } => "add elements",
        Change::DeleteElements { .. } => "delete elements",
    }
}

fn object(change: &Change) -> &str {
    match change {
        Change::AddTable(_) | Change::DeleteTable | Change::FlushTable => "",
        Change::AddChain { name, .. } | Change::DeleteChain(name) | Change::FlushChain(name) => name,
        Change::AppendRule { chain, .. } | Change::AddDevices { chain, .. } | Change::DeleteDevices { chain, .. } => chain,
        Change::AddMap { name, .. } | Change::DeleteMap(name) => name,
        Change::AddElements { map, .. } | Change::DeleteElements { map, .. } => map,
    }
}

#[test]
fn random_transactions_are_answered_alike() {
    for table in [Table::Own, Table::Replies, Table::Frames] {
        check_random(table, &changes(table), usize::MAX);
    }
}

#[test]
fn random_ranges_are_answered_alike() {
    let mut changes = changes(Table::Own);
    changes.retain(|it| matches!(it, Change::AddElements { .. } | Change::DeleteElements { .. }) && object(it) == "net4");
    // Of a range that is refused one half may be done, and what comes after it meets that.
    check_random(Table::Own, &changes, 1);
}

#[test]
fn random_devices_are_answered_alike() {
    for table in [Table::Own, Table::Frames] {
        let mut changes = changes(table);
        changes.retain(|it| ["at-links", "at-another"].contains(&object(it)) && !matches!(it, Change::AppendRule { .. }));
        check_random(table, &changes, usize::MAX);
    }
}

/// Compares so many refusals of each transaction.
fn check_random(table: Table, changes: &[Change], compared: usize) {
    in_netns(|| {
        let mut both = Both::of(table);
        let (mut done, mut refused) = (0, 0);
        for seed in 0..SEQUENCES {
            let mut random = Random::new(seed);
            let start = if random.percent(80) { Transaction::load_into(table, &full(table)) } else { Transaction::unload_of(table) };
            both.commit(&start).unwrap();
            for _ in 0..LENGTH {
                let transaction = pick(&mut random, table, changes, &both.fake);
                let [real, fake] = both.answers(&transaction).map(|it| {
                    it.map_err(|mut refusals| {
                        refusals.truncate(compared);
                        refusals
                    })
                });
                assert_eq!(fake, real, "the fake's and the kernel's answer to {transaction:#?}\nwith {:#?}", both.real.dump_of(table));
                match real {
                    Ok(()) => done += 1,
                    Err(_) => refused += 1,
                }
                both.compare(&transaction);
            }
        }
        say(&format!("{done} transactions done, {refused} refused"));
    });
}

/// Some changes. Of those at random most are refused, so often enough others are picked until they are not.
fn pick(random: &mut Random, table: Table, changes: &[Change], fake: &Fake) -> Transaction {
    let attempts = if random.percent(70) { 50 } else { 1 };
    let mut transaction = Transaction { table, changes: Vec::new() };
    for _ in 0..attempts {
        let count = random.between(1, 4);
        transaction.changes = (0..count).map(|_| random.pick(changes).unwrap().clone()).collect();
        // What is deleted after something was added is for a test of its own.
        transaction.changes.sort_by_key(|it| matches!(it, Change::AddElements { elements: Map::Interval(_), .. }));
        if fake.clone().commit(&transaction).is_ok() {
            break;
        }
    }
    transaction
}

fn range(first: &str, last: &str) -> Map {
    let elements = [(first.parse().unwrap(), (last.parse().unwrap(), 7))].into();
    Map::Interval(IntervalMap { family: Address::V4, elements })
}

/// Ranges that a transaction has deleted are still in the kernel's way until it is over, and hide those that were put over them.
#[test]
fn a_range_that_was_put_over_a_deleted_one_cannot_be_deleted_at_once() {
    let map = || "net4".to_owned();
    let add = |elements| Change::AddElements { map: map(), elements };
    let delete = |elements| Change::DeleteElements { map: map(), elements };
    let (old, new) = (range("10.0.0.0", "10.0.0.255"), range("10.0.0.128", "10.0.1.255"));
    in_netns(|| {
        let mut both = Both::new();
        both.commit(&Transaction::load(&full(Table::Own))).unwrap();
        let refusal = Refusal { object: Object::Elements(map()), errno: Errno::ENOENT };
        let at_once = Transaction { table: Table::Own, changes: vec![delete(old.clone()), add(new.clone()), delete(new.clone())] };
        let answers = both.answers(&at_once);
        assert_eq!(answers, [Err(vec![refusal]), Ok(())]);
        both.commit(&Transaction::load(&full(Table::Own))).unwrap();
        for changes in [vec![delete(old), add(new.clone())], vec![delete(new)]] {
            let transaction = Transaction { table: Table::Own, changes };
            both.commit(&transaction).unwrap();
            both.compare(&transaction);
        }
    });
}

/// A range that goes to the last address has a start and no end, so the kernel does not see all that overlaps with it.
#[test]
fn some_overlaps_with_a_range_to_the_last_address_are_refused_by_the_fake_alone() {
    let add = |first, last| Change::AddElements { map: "net4".to_owned(), elements: range(first, last) };
    let open = || add("192.0.2.0", "255.255.255.255");
    let cases = [(add("192.0.2.8", "192.0.2.9"), open(), "192.0.2.8"), (open(), add("192.0.0.0", "192.0.2.255"), "192.0.2.0")];
    in_netns(|| {
        let mut both = Both::new();
        for (first, second, at) in cases {
            both.commit(&Transaction::load(&full(Table::Own))).unwrap();
            both.commit(&Transaction { table: Table::Own, changes: vec![first] }).unwrap();
            let object = Object::Elements("net4".to_owned());
            let refusal = Refusal { object: object.clone(), errno: Errno::EEXIST };
            assert_eq!(both.answers(&Transaction { table: Table::Own, changes: vec![second] }), [Ok(()), Err(vec![refusal])]);
            let what = format!("ranges that make no sense at {at}");
            assert_eq!(both.real.dump(), Err(KernelError::Foreign { object, what }));
        }
        // The other way round it is seen.
        both.commit(&Transaction::load(&full(Table::Own))).unwrap();
        both.commit(&Transaction { table: Table::Own, changes: vec![open()] }).unwrap();
        both.commit(&Transaction { table: Table::Own, changes: vec![add("192.0.2.8", "192.0.2.9")] }).unwrap_err();
    });
}

#[test]
fn chains_nest_as_deep_as_the_kernel_lets_them() {
    in_netns(|| {
        let mut both = Both::new();
        for depth in [14, 15, 16, 20] {
            let name = |it: usize| format!("c{it:02}");
            let mut changes = vec![Change::DeleteTable, Change::AddTable(Layout::CURRENT)];
            changes.push(Change::AddChain { name: name(0), hook: Some(Hook::Forward) });
            changes.extend((1..=depth).map(|it| Change::AddChain { name: name(it), hook: None }));
            let jump = |it: usize| Change::AppendRule { chain: name(it), rule: Rule::to(Verdict::Jump(name(it + 1))) };
            changes.extend((0..depth).map(jump));
            let transaction = Transaction { table: Table::Own, changes };
            assert_eq!(both.commit(&transaction).is_ok(), depth < 16, "{depth}");
            both.compare(&transaction);
        }
    });
}
