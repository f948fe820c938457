//! Transactions: generations, counters, size, time.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Instant;

use nix::errno::Errno;
use palisade_kernel::{Counted, Fake, Fault, Kernel, KernelError, Links, Nftables, Object, Refusal};
use palisade_nft::{Address, Chain, Change, DataMap, Hook, Layout, Map, Match, Rule, Ruleset, Statement, Table, Transaction, Verdict};

use crate::ground::{add_links, in_netns, say};
use crate::rulesets::{assert_read_back, large, scenarios};

#[test]
fn the_difference_of_two_rulesets_turns_one_into_the_other() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut fake = Fake::new();
        let mut old = Ruleset::default();
        for kernel in [&mut nftables as &mut dyn Kernel, &mut fake] {
            kernel.commit(&Transaction::load(&old)).unwrap();
        }
        let mut changes = 0;
        let scenarios = scenarios();
        add_links(scenarios.iter().flat_map(|(_, nodes)| nodes.rulesets()));
        for (name, nodes) in &scenarios {
            for new in nodes.rulesets() {
                let transaction = new.changes_since(&old);
                changes += transaction.changes.len();
                nftables.commit(&transaction).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_read_back(name, &mut nftables, new);
                fake.commit(&transaction).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(fake.dump(), nftables.dump(), "{name}");
                old = new.clone();
            }
        }
        say(&format!("{changes} changes"));
    });
}

#[test]
fn a_transaction_for_another_generation_is_outdated() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        check_generations(&mut nftables, || Nftables::open().unwrap().load(&large(1)).unwrap());
    });
    let mut fake = Fake::new();
    let generation = fake.generation().unwrap();
    fake.disturb();
    assert_eq!(fake.commit_at(generation, &Transaction::load(&large(2))), Err(KernelError::Outdated { expected: generation }));
    check_generations(&mut fake, || {});
}

fn check_generations(kernel: &mut dyn Kernel, disturb: impl Fn()) {
    let first = kernel.generation().unwrap();
    kernel.commit_at(first, &Transaction::load(&large(2))).unwrap();
    let second = kernel.generation().unwrap();
    assert_eq!(second, first + 1);
    let outdated = Err(KernelError::Outdated { expected: first });
    assert_eq!(kernel.commit_at(first, &Transaction::unload()), outdated);
    assert_eq!(kernel.commit_at(first, &Transaction::default()), outdated);
    assert_eq!(kernel.commit_at(second, &Transaction::default()), Ok(()));
    // A refusal is no change, and neither is nothing.
    kernel.commit(&Transaction { table: Table::Own, changes: vec![Change::AddTable(Layout::CURRENT)] }).unwrap_err();
    kernel.commit(&Transaction::default()).unwrap();
    assert_eq!((kernel.generation(), kernel.dump()), (Ok(second), Ok(Some(large(2)))));
    disturb();
    let third = kernel.generation().unwrap();
    kernel.commit_at(third, &Transaction::unload()).unwrap();
    assert_eq!(kernel.dump(), Ok(None));
}

#[test]
fn rules_count_what_they_match() {
    in_netns(|| {
        Links::open().unwrap().set_up("lo").unwrap();
        let mut nftables = Nftables::open().unwrap();
        assert_eq!(nftables.counters(), Ok(vec![]));
        let ruleset = counting();
        nftables.load(&ruleset).unwrap();
        assert_eq!(nftables.counters().unwrap(), counted(0, 0));
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for _ in 0..3 {
            sender.send_to(b"0123456789", receiver.local_addr().unwrap()).unwrap();
        }
        // What has arrived is counted.
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        for _ in 0..3 {
            receiver.recv(&mut [0; 16]).unwrap();
        }
        assert_eq!(nftables.counters().unwrap(), counted(3, 3 * 38));
    });
    let mut fake = Fake::new();
    assert_eq!(fake.counters(), Ok(vec![]));
    fake.commit(&Transaction::load(&counting())).unwrap();
    fake.count("input", 1, 3, 114);
    assert_eq!(fake.counters().unwrap(), counted(3, 114));
    fake.commit(&Transaction::load(&counting())).unwrap();
    assert_eq!(fake.counters().unwrap(), counted(0, 0));
}

fn counting() -> Ruleset {
    let count = |comment: &str| Rule { statements: vec![Statement::Counter], comment: Some(comment.to_owned()), ..Rule::default() };
    let rules = vec![
        Rule::to(Verdict::Return).when(Match::Protocol(vec![6])),
        count("udp").when(Match::Protocol(vec![17])),
        count("sctp").when(Match::Protocol(vec![132])),
    ];
    let mut ruleset = Ruleset::default();
    ruleset.chains.insert("input".to_owned(), Chain { hook: Some(Hook::Input), rules });
    ruleset.chains.insert("aside".to_owned(), Chain { hook: None, rules: vec![count("nothing")] });
    ruleset
}

fn counted(packets: u64, bytes: u64) -> Vec<Counted> {
    let counted = |chain: &str, index, comment: &str, packets, bytes| {
        let (chain, comment) = (chain.to_owned(), Some(comment.to_owned()));
        Counted { chain, index, comment, packets, bytes }
    };
    vec![counted("aside", 0, "nothing", 0, 0), counted("input", 1, "udp", packets, bytes), counted("input", 2, "sctp", 0, 0)]
}

#[test]
fn what_is_refused_in_a_transaction_of_megabytes_is_named() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let ruleset = large(200_000);
        let start = Instant::now();
        nftables.load(&ruleset).unwrap();
        let loaded = start.elapsed();
        let mut transaction = Transaction::load(&ruleset);
        transaction.changes.push(Change::DeleteChain("nowhere".to_owned()));
        let bytes = palisade_nft::encode(&transaction, 1, palisade_nft::Expected::Anything).unwrap().bytes.len();
        assert!(bytes > 5_000_000, "{bytes} bytes");
        let refusal = Refusal { object: Object::Chain("nowhere".to_owned()), errno: Errno::ENOENT };
        assert_eq!(nftables.commit(&transaction), Err(KernelError::Refused(vec![refusal])));
        assert_eq!(nftables.dump().map(|it| it.map(|it| it.data["class4"].elements.len())), Ok(Some(200_000)));
        say(&format!("a transaction of {bytes} bytes: {loaded:?}"));
    });
}

#[test]
fn one_element_is_one_small_transaction() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        nftables.load(&large(20_000)).unwrap();
        let one = |it: u32| {
            let elements = [(IpAddr::from(Ipv4Addr::from_bits(0xc000_0000 + it)), 7)].into();
            Map::Data(DataMap { family: Address::V4, elements })
        };
        let map = || "class4".to_owned();
        let add = |it| Change::AddElements { map: map(), elements: one(it) };
        let delete = |it| Change::DeleteElements { map: map(), elements: one(it) };
        for (verb, change) in [("add", &add as &dyn Fn(u32) -> Change), ("delete", &delete)] {
            let transactions: Vec<Transaction> =
                (0..1_000).map(|it| Transaction { table: Table::Own, changes: vec![change(it)] }).collect();
            let start = Instant::now();
            for transaction in &transactions {
                nftables.commit(transaction).unwrap();
            }
            say(&format!("{verb} one element beside 20,000: {:?}", start.elapsed() / 1_000));
        }
        assert_read_back("as before", &mut nftables, &large(20_000));
    });
}

#[test]
fn a_fake_fails_as_it_is_told() {
    let mut fake = Fake::new();
    let full = || KernelError::Refused(vec![Refusal { object: Object::Batch, errno: Errno::ENOSPC }]);
    let load = Transaction::load(&large(1));
    fake.fail([Fault::Before(KernelError::Overrun), Fault::After(KernelError::Overrun), Fault::Before(full())]);
    assert_eq!(fake.commit(&load), Err(KernelError::Overrun));
    assert_eq!(fake.clone().faults(), 2);
    // This time only the answer is lost.
    assert_eq!(fake.commit(&load), Err(KernelError::Overrun));
    assert_eq!(fake.generation(), Err(full()));
    assert_eq!((fake.generation(), fake.dump(), fake.faults()), (Ok(2), Ok(Some(large(1))), 0));
}
