//! The kernel in memory against the real one: whatever the real one does is right.

mod universe;

use std::collections::{BTreeMap, BTreeSet};

use palisade_kernel::{Fake, Kernel, KernelError, Nftables, Refusal};
use palisade_nft::{Change, Hook, Rule, Ruleset, Transaction, Verdict};
use palisade_testkit::random::Random;

use crate::ground::{in_netns, say};
use universe::{changes, full};

/// Sequences of random transactions, and transactions in each.
const SEQUENCES: u64 = 120;
const LENGTH: usize = 8;

/// Both, which ought to be the same.
struct Both {
    real: Nftables,
    fake: Fake,
}

impl Both {
    fn new() -> Both {
        Both { real: Nftables::open().unwrap(), fake: Fake::new() }
    }

    /// Commits to both, and gives what they agree on.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), Vec<Refusal>> {
        let [real, fake] = self.answers(transaction);
        assert_eq!(fake, real, "the fake's and the kernel's answer to {transaction:#?}\nwith {:#?}", self.real.dump());
        real
    }

    /// The answers of the real one and of the fake.
    fn answers(&mut self, transaction: &Transaction) -> [Result<(), Vec<Refusal>>; 2] {
        [&mut self.real as &mut dyn Kernel, &mut self.fake].map(|it| it.commit(transaction).map_err(refusals))
    }

    fn compare(&mut self, transaction: &Transaction) {
        let (real, fake) = (self.real.dump(), self.fake.dump());
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
    in_netns(|| {
        let mut both = Both::new();
        let mut met: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut differ = Vec::new();
        for state in [None, Some(Ruleset::default()), Some(full())] {
            let prepare = state.as_ref().map_or_else(Transaction::unload, Transaction::load);
            both.commit(&prepare).unwrap();
            both.compare(&prepare);
            let mut objects = BTreeSet::new();
            for change in changes() {
                let verb = verb(&change);
                // Without chains and maps one change of each is enough.
                if state != Some(full()) && !objects.insert((verb, object(&change).to_owned())) {
                    continue;
                }
                let transaction = Transaction { changes: vec![change] };
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
        for ((verb, answer), count) in met {
            say(&format!("{verb}: {answer}: {count}"));
        }
        assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    });
}

fn verb(change: &Change) -> &'static str {
    match change {
        Change::AddTable => "add table",
        Change::DeleteTable => "delete table",
        Change::AddChain { .. } => "add chain",
        Change::DeleteChain(_) => "delete chain",
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
        Change::AddTable | Change::DeleteTable => "",
        Change::AddChain { name, .. } | Change::DeleteChain(name) | Change::FlushChain(name) => name,
        Change::AppendRule { chain, .. } => chain,
        Change::AddMap { name, .. } | Change::DeleteMap(name) => name,
        Change::AddElements { map, .. } | Change::DeleteElements { map, .. } => map,
    }
}

#[test]
fn random_transactions_are_answered_alike() {
    in_netns(|| {
        let mut both = Both::new();
        let changes = changes();
        let (mut done, mut refused) = (0, 0);
        for seed in 0..SEQUENCES {
            let mut random = Random::new(seed);
            let start = if random.percent(80) { Transaction::load(&full()) } else { Transaction::unload() };
            both.commit(&start).unwrap();
            for _ in 0..LENGTH {
                let transaction = pick(&mut random, &changes, &both.fake);
                match both.commit(&transaction) {
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
fn pick(random: &mut Random, changes: &[Change], fake: &Fake) -> Transaction {
    let attempts = if random.percent(70) { 50 } else { 1 };
    let mut transaction = Transaction::default();
    for _ in 0..attempts {
        let count = random.between(1, 4);
        transaction.changes = (0..count).map(|_| random.pick(changes).unwrap().clone()).collect();
        if fake.clone().commit(&transaction).is_ok() {
            break;
        }
    }
    transaction
}

#[test]
fn chains_nest_as_deep_as_the_kernel_lets_them() {
    in_netns(|| {
        let mut both = Both::new();
        for depth in [14, 15, 16, 20] {
            let name = |it: usize| format!("c{it:02}");
            let mut changes = vec![Change::DeleteTable, Change::AddTable];
            changes.push(Change::AddChain { name: name(0), hook: Some(Hook::Forward) });
            changes.extend((1..=depth).map(|it| Change::AddChain { name: name(it), hook: None }));
            let jump = |it: usize| Change::AppendRule { chain: name(it), rule: Rule::to(Verdict::Jump(name(it + 1))) };
            changes.extend((0..depth).map(jump));
            let transaction = Transaction { changes };
            assert_eq!(both.commit(&transaction).is_ok(), depth < 16, "{depth}");
            both.compare(&transaction);
        }
    });
}
