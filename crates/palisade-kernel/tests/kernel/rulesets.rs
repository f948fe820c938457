//! Rulesets, loaded and read back.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use palisade_kernel::{Kernel as _, KernelError, Links, Namespace, Nftables, Object, Refusal};
use palisade_nft::{
    Address, BlockedReplies, Chain, DataMap, Frames, Hook, IntervalMap, Rule, Ruleset, Shared, Statement, Step, Table, Transaction, Tuple,
    UnknownPods, Verdict, VerdictMap, decode, render, render_table,
};
use palisade_testkit::audits::put_into_audit;
use palisade_testkit::check::{snapshot, snapshot_with_networks};
use palisade_testkit::generate::generate;
use palisade_testkit::nodes::Nodes;
use palisade_testkit::random::Random;
use palisade_testkit::scenario;

use crate::ground::{add_links, in_netns, nft, say};

#[test]
fn every_scenario_reads_back_as_it_was_loaded() {
    let scenarios = scenarios();
    in_netns(|| {
        add_links(scenarios.iter().flat_map(|(_, nodes)| nodes.rulesets()));
        let mut nftables = Nftables::open().unwrap();
        let mut rulesets = 0;
        for (name, ruleset) in scenarios.iter().flat_map(|(name, nodes)| nodes.rulesets().iter().map(move |it| (name, it))) {
            nftables.load(ruleset).unwrap_or_else(|error| panic!("{name}: {error}\n{}", render(ruleset)));
            assert_read_back(name, &mut nftables, ruleset);
            rulesets += 1;
        }
        say(&format!("{rulesets} rulesets"));
    });
}

/// Leaves that go on to others, as deep as ranges of addresses can be nested.
#[test]
fn leaves_of_nested_ranges_read_back_as_they_were_loaded() {
    let rule = |at: usize| {
        let (length, port) = (1 + at % 124, 1 + at * 7);
        format!("  - {{from: [{{ipBlock: {{cidr: \"8000::/{length}\"}}}}], ports: [{{port: {port}, endPort: {}}}]}}\n", port + 3)
    };
    let rules: String = (0..124 * 4).map(rule).collect();
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{namespace: x, name: a}}, status: {{podIPs: [{{ip: 10.0.0.1}}, {{ip: \"fd00::1\"}}]}}}}\n---\n\
         apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: nested}}\nspec:\n  podSelector: {{}}\n  ingress:\n{rules}"
    );
    let nodes = Nodes::of(&snapshot("nested.yaml", &text).model);
    let goes_on = |rule: &Rule| matches!(rule.statements.as_slice(), [Statement::Verdict(Verdict::Goto(to))] if to.starts_with("leaf-"));
    let leaves =
        |it: &Ruleset| it.chains.iter().filter(|(name, it)| name.starts_with("leaf-") && it.rules.last().is_some_and(goes_on)).count();
    assert!(nodes.rulesets().iter().any(|it| leaves(it) > 100));
    in_netns(|| {
        add_links(nodes.rulesets().iter());
        let mut nftables = Nftables::open().unwrap();
        for ruleset in nodes.rulesets() {
            nftables.load(ruleset).unwrap();
            assert_read_back("nested ranges", &mut nftables, ruleset);
        }
    });
}

#[test]
fn nft_lists_what_was_loaded_as_if_it_had_loaded_it_itself() {
    let scenarios = scenarios();
    let every = scenarios.len().div_ceil(24);
    in_netns(|| {
        add_links(scenarios.iter().flat_map(|(_, nodes)| nodes.rulesets()));
        for (name, nodes) in scenarios.iter().step_by(every) {
            for ruleset in nodes.rulesets() {
                compare_with_nft(name, ruleset);
            }
        }
        compare_with_nft("ranges with gaps", &with_gaps());
    });
}

#[test]
fn tables_of_pods_read_back_as_they_were_loaded() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut tables = 0;
        for seed in 0..12 {
            let model = snapshot_with_networks("cluster.json", &generate(seed).objects.to_json()).model;
            for network in model.networks.ids() {
                let nodes = Nodes::of_network(&model, network);
                for ruleset in nodes.pods().values() {
                    nftables.load(ruleset).unwrap();
                    assert_read_back(&format!("seed {seed}"), &mut nftables, ruleset);
                    tables += 1;
                }
                nodes.pods().values().take(1).for_each(|it| compare_with_nft(&format!("seed {seed}"), it));
            }
        }
        assert!(tables > 20, "{tables}");
    });
}

#[test]
fn audits_read_back_as_they_were_loaded_and_stand_before_the_own_table() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut audits = 0;
        for seed in 0..20 {
            let (objects, _) = put_into_audit(&generate(seed).objects, &mut Random::new(seed));
            let nodes = Nodes::of(&snapshot("cluster.json", &objects.to_json()).model);
            for audit in nodes.audits().iter().flatten() {
                let text = render_table(Table::Audit, &audit.ruleset);
                nftables.commit(&Transaction::load_into(Table::Audit, &audit.ruleset)).unwrap_or_else(|error| panic!("{error}\n{text}"));
                let found = nftables.dump_of(Table::Audit).unwrap().unwrap();
                let expected = Ruleset { origins: Shared::default(), ..audit.ruleset.clone() };
                assert_eq!(found, expected, "seed {seed}\n{text}");
                let listed = nft(&["list", "table", "inet", "palisade-audit"], "").unwrap_or_default();
                assert!(listed.is_empty() || listed.contains("type filter hook forward priority filter - 1; policy accept;"), "{listed}");
                audits += 1;
            }
        }
        assert!(audits > 20, "{audits}");
        assert_eq!((nftables.dump(), nftables.standing()), (Ok(None), Ok(Vec::new())));
        nftables.commit(&Transaction::unload_of(Table::Audit)).unwrap();
        assert_eq!(nftables.dump_of(Table::Audit), Ok(None));
    });
}

/// Something of each table of a node.
fn sample(table: Table) -> Ruleset {
    let links = ["one".to_owned(), "two".to_owned()];
    match table {
        Table::Own | Table::Next | Table::Again => with_gaps(),
        Table::Audit => {
            let rules = vec![Rule { statements: vec![Statement::Counter, Statement::Would(7)], ..Rule::default() }];
            Ruleset { chains: Shared::from([("forward".to_owned(), Chain { hook: Some(Hook::Forward), rules })]), ..Ruleset::default() }
        }
        Table::UnknownPods => {
            let pods = links.into_iter().zip(["10.0.0.1", "fd00::2"]).map(|(link, it)| (link, it.parse().unwrap())).collect();
            UnknownPods { origin: 7, pods }.ruleset().unwrap()
        }
        Table::Replies => {
            let tuple = |from: &str, to: &str, protocol| Tuple::new(from.parse().unwrap(), to.parse().unwrap(), protocol);
            let ends = [("10.0.0.1:53", "10.0.0.2:4000"), ("[fd00::1]:53", "[fd00::2]:4000")];
            let all =
                ends.into_iter().flat_map(|(from, to)| [(17, 7), (47, 8)].map(|(protocol, origin)| (tuple(from, to, protocol), origin)));
            BlockedReplies { replies: all.collect() }.ruleset().unwrap()
        }
        Table::Frames => Frames { links: links.into() }.ruleset(None).unwrap(),
    }
}

#[test]
fn every_table_reads_back_as_loaded_and_nft_takes_its_text_for_the_same() {
    for table in Table::EVERY {
        let wanted = sample(table);
        let of = table.to_string();
        // As people see it, and the expressions that the kernel has.
        let list = || {
            let words: Vec<&str> = of.split(' ').collect();
            let listed = nft(&[&["-s", "list", "table"], words.as_slice()].concat(), "")?;
            let code = nft(&[&["--debug=netlink", "list", "table"], words.as_slice()].concat(), "")?;
            let lines = listed.lines().filter(|it| !it.starts_with("\tcomment ")).map(str::to_owned);
            Some((lines.collect::<Vec<_>>(), code.lines().filter(|it| it.starts_with("  ")).map(str::to_owned).collect::<Vec<_>>()))
        };
        let ours = in_netns(|| {
            add_links([&wanted]);
            let mut nftables = Nftables::open().unwrap();
            nftables.commit(&Transaction::load_into(table, &wanted)).unwrap();
            assert_eq!(nftables.dump_of(table), Ok(Some(wanted.clone())), "{table}");
            assert!(nftables.raw(table).unwrap().is_some_and(|it| decode(&it) == Ok(wanted.clone())), "{table}");
            let others = Table::EVERY.into_iter().filter(|it| *it != table);
            others.for_each(|it| assert_eq!(nftables.dump_of(it), Ok(None), "{it} beside {table}"));
            list()
        });
        let theirs = in_netns(|| {
            add_links([&wanted]);
            nft(&["-f", "-"], &render_table(table, &wanted));
            list()
        });
        assert_eq!(ours, theirs, "{table}");
    }
}

#[test]
fn fifty_thousand_elements_load_at_once_and_in_parts() {
    in_netns(|| {
        let ruleset = large(50_000);
        let mut nftables = Nftables::open().unwrap();
        let start = Instant::now();
        nftables.load(&ruleset).unwrap();
        let loaded = start.elapsed();
        assert_read_back("large", &mut nftables, &ruleset);
        say(&format!("50,000 elements: loaded in {loaded:?}, read in {:?}", start.elapsed() - loaded));
        nftables.unload().unwrap();
        for step in palisade_nft::load(&ruleset) {
            match step {
                Step::Commit(transaction) => nftables.commit(&transaction).unwrap(),
                Step::Grace => nftables.grace().unwrap(),
            }
        }
        assert_read_back("large, in parts", &mut nftables, &ruleset);
    });
}

#[test]
fn a_second_load_replaces_the_first() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        for ruleset in [large(3), large(2), Ruleset::default(), with_gaps()] {
            nftables.load(&ruleset).unwrap();
            assert_read_back("replaced", &mut nftables, &ruleset);
        }
    });
}

#[test]
fn what_the_kernel_refuses_is_named_and_nothing_changes() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let good = large(3);
        nftables.load(&good).unwrap();
        let mut bad = good.clone();
        let rules = vec![Rule::to(Verdict::Return), Rule::to(Verdict::Goto("nowhere".to_owned()))];
        bad.chains.insert("leaf-1".to_owned(), Chain { hook: None, rules });
        let error = nftables.load(&bad).unwrap_err();
        let object = Object::Rule { chain: "leaf-1".to_owned(), index: 1 };
        assert_eq!(error, KernelError::Refused(vec![Refusal { object, errno: nix::errno::Errno::ENOENT }]));
        assert_eq!(error.to_string(), "the kernel refused rule 1 of chain `leaf-1`: No such file or directory");
        assert_read_back("after the refusal", &mut nftables, &good);
    });
}

#[test]
fn each_of_many_refusals_is_named() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut ruleset = large(3);
        let pairs = (0..3_000).map(|it| (it, "nowhere".to_owned())).collect();
        ruleset.verdicts.insert("leaves".to_owned(), VerdictMap { elements: pairs });
        let rules = vec![Rule::to(Verdict::Goto("nowhere".to_owned())); 3_000];
        ruleset.chains.insert("leaf-2".to_owned(), Chain { hook: None, rules });
        let KernelError::Refused(refusals) = nftables.load(&ruleset).unwrap_err() else { panic!("not refused") };
        let (elements, rules): (Vec<&Refusal>, Vec<&Refusal>) = refusals.iter().partition(|it| matches!(it.object, Object::Elements(_)));
        assert!(elements.iter().all(|it| it.object == Object::Elements("leaves".to_owned())) && elements.len() > 1);
        let expected = (0..3_000).map(|index| Object::Rule { chain: "leaf-2".to_owned(), index });
        assert!(rules.iter().map(|it| it.object.clone()).eq(expected), "{} refusals", rules.len());
    });
}

#[test]
fn what_is_read_during_changes_is_of_one_state() {
    in_netns(|| {
        let rulesets = [large(2_000), with_gaps()];
        let mut nftables = Nftables::open().unwrap();
        nftables.load(&rulesets[0]).unwrap();
        // A thread starts in the namespace of the one that starts it.
        let (done, mut steady) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = Nftables::open().unwrap();
                for ruleset in rulesets.iter().cycle().take(300) {
                    other.load(ruleset).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                match nftables.dump() {
                    Ok(read) => {
                        assert!(rulesets.iter().any(|it| Some(it) == read.as_ref()), "{read:#?}");
                        steady += 1;
                    }
                    Err(error) => assert!(matches!(error, KernelError::Unsteady(_)), "{error}"),
                }
            }
        });
        say(&format!("{steady} steady readings"));
    });
}

#[test]
fn chains_that_call_each_other_are_refused() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let chain = |to: &str| Chain { hook: None, rules: vec![Rule::to(Verdict::Jump(to.to_owned()))] };
        let base = Chain { hook: Some(Hook::Forward), ..chain("a") };
        let chains = [("a", chain("b")), ("b", chain("a")), ("forward", base)].map(|(name, chain)| (name.to_owned(), chain));
        let ruleset = Ruleset { chains: Shared::from(chains), ..Ruleset::default() };
        let error = nftables.load(&ruleset).unwrap_err();
        assert!(matches!(error, KernelError::Refused(_)), "{error}");
        assert_eq!(nftables.exists(Table::Own), Ok(false));
        // The rest of that answer must not be taken for the next one.
        nftables.load(&large(1)).unwrap();
        assert_read_back("afterwards", &mut nftables, &large(1));
    });
}

#[test]
fn what_nft_could_not_print_is_not_sent() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut ruleset = Ruleset::default();
        let rule = Rule { comment: Some("x".repeat(129)), ..Rule::to(Verdict::Drop) };
        ruleset.chains.insert("c".to_owned(), Chain { hook: None, rules: vec![rule] });
        let error = nftables.load(&ruleset).unwrap_err().to_string();
        assert_eq!(error, "rule 0 of chain `c` cannot be written: its comment has 129 bytes, and nft prints 128");
        let mut ruleset = Ruleset::default();
        let elements = BTreeMap::from([(IpAddr::from(Ipv6Addr::LOCALHOST), 1)]);
        ruleset.data.insert("m".to_owned(), DataMap { family: Address::V4, elements: elements.into() });
        let error = nftables.load(&ruleset).unwrap_err().to_string();
        assert_eq!(error, "elements of map `m` cannot be written: ::1 is of the other family");
        let name = "x".repeat(70_000);
        let chains = BTreeMap::from([("a".to_owned(), Chain::default()), (name.clone(), Chain::default())]);
        let error = nftables.load(&Ruleset { chains: chains.into(), ..Ruleset::default() }).unwrap_err();
        assert!(matches!(&error, KernelError::Unwritable { object, .. } if *object == Object::Chain(name)), "{error}");
        assert_eq!(nftables.exists(Table::Own), Ok(false));
    });
}

#[test]
fn unloading_leaves_nothing_and_may_be_repeated() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        assert_eq!((nftables.exists(Table::Own), nftables.dump()), (Ok(false), Ok(None)));
        nftables.load(&large(10)).unwrap();
        assert_eq!(nftables.exists(Table::Own), Ok(true));
        for _ in 0..2 {
            nftables.unload().unwrap();
            assert_eq!((nftables.exists(Table::Own), nftables.dump()), (Ok(false), Ok(None)));
        }
        if let Some(listed) = nft(&["list", "ruleset"], "") {
            assert_eq!(listed, "");
        }
    });
}

#[test]
fn the_table_of_somebody_else_is_not_touched() {
    in_netns(|| {
        let theirs = "table inet other {\n\tmap class4 {\n\t\ttype ipv4_addr : classid\n\t\telements = { 192.0.2.1 : 0:7 }\n\t}\n\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t\tip saddr 192.0.2.1 accept\n\t}\n}\n";
        if nft(&["-f", "-"], theirs).is_none() {
            return;
        }
        let mut nftables = Nftables::open().unwrap();
        for step in [Nftables::load as fn(&mut Nftables, &Ruleset) -> _, |it, _| it.unload()] {
            step(&mut nftables, &large(3)).unwrap();
            assert_eq!(nft(&["list", "table", "inet", "other"], "").unwrap(), theirs);
        }
    });
}

#[test]
fn what_somebody_else_did_to_the_table_is_named() {
    let cases = [
        ("add rule inet palisade leaf-1 meta mark 7 accept", "rule 0 of chain `leaf-1`"),
        ("add chain inet palisade own { type filter hook prerouting priority 0; }", "chain `own`"),
        // A table in the namespace of a pod has a chain at `output`, at another priority.
        ("add chain inet palisade own { type filter hook output priority 5; }", "chain `own`"),
        ("add chain inet palisade own { type filter hook ingress device lo priority 0; }", "chain `own`"),
        ("add set inet palisade marks { type mark; }", "map `marks`"),
        ("add table inet palisade { flags dormant; }", "table `inet palisade`"),
    ];
    for (command, named) in cases {
        in_netns(|| {
            let mut nftables = Nftables::open().unwrap();
            nftables.load(&large(3)).unwrap();
            if nft(&["-f", "-"], command).is_none() {
                return;
            }
            match nftables.dump() {
                Err(KernelError::Foreign { object, .. }) => assert_eq!(object.to_string(), named),
                other => panic!("{command}: {other:?}"),
            }
        });
    }
}

/// A chain at `output` is one that a table in the namespace of a pod could have, so it is read. It differs from the loaded ruleset all the same.
#[test]
fn a_chain_added_at_a_hook_of_ours_is_read_and_differs() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        let loaded = large(3);
        nftables.load(&loaded).unwrap();
        if nft(&["-f", "-"], "add chain inet palisade own { type filter hook output priority 0; }").is_none() {
            return;
        }
        let mut expected = nftables.dump().unwrap().expect("the table is loaded");
        assert_eq!(expected.chains.get("own").map(|it| &it.hook), Some(&Some(Hook::Output)));
        expected.chains.remove("own");
        assert_eq!(expected, loaded);
    });
}

/// A new process without rights, since a thread cannot give them up alone.
#[test]
fn without_permission_the_error_says_what_is_missing() {
    use std::os::unix::process::CommandExt as _;
    if std::env::var_os("PALISADE_KERNEL_UNPRIVILEGED").is_some() {
        assert_eq!(Nftables::open().map(|_| ()), Err(KernelError::NoPermission));
        assert_eq!(Namespace::create().map(|_| ()), Err(KernelError::NoPermission));
        assert_eq!(Links::open().unwrap().add_bridge("br0"), Err(KernelError::NoPermission));
        return;
    }
    if in_netns(|| ()).is_none() {
        return;
    }
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "rulesets::without_permission_the_error_says_what_is_missing"])
        .env("PALISADE_KERNEL_UNPRIVILEGED", "1")
        .current_dir("/");
    match test.uid(65534).gid(65534).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
        Err(error) => say(&format!("skipped: no process without rights: {error}")),
    }
}

/// Rulesets of all scenarios, by name.
pub(crate) fn scenarios() -> Vec<(String, Nodes)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let read = |it: scenario::Scenario| {
        let text = std::fs::read_to_string(it.cluster()).unwrap();
        (it.name, Nodes::of(&snapshot("cluster.yaml", &text).model))
    };
    scenario::all(&root).unwrap().into_iter().map(read).collect()
}

/// One map with so many addresses, and a little more.
pub(crate) fn large(elements: u32) -> Ruleset {
    let address = |it: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + it));
    let mut ruleset = Ruleset::default();
    let elements = (0..elements).map(|it| (address(it), it % 1_000 + 1)).collect();
    ruleset.data.insert("class4".to_owned(), DataMap { family: Address::V4, elements });
    ruleset.chains.insert("leaf-1".to_owned(), Chain::default());
    ruleset
}

/// Ranges that do not touch, touch, and end at the last address, and a number that nft prints with its upper half.
fn with_gaps() -> Ruleset {
    let range = |first: &str, last: &str, number| (first.parse().unwrap(), (last.parse().unwrap(), number));
    let four = [range("1.0.0.0", "9.255.255.255", 3), range("10.0.0.0", "10.0.0.0", 0x1_0002), range("192.0.2.0", "255.255.255.255", 4)];
    let six = [range("::", "::ffff", 1), range("fd00::", "fd00::1", 2)];
    let mut ruleset = Ruleset::default();
    ruleset.intervals.insert("net4".to_owned(), IntervalMap { family: Address::V4, elements: BTreeMap::from(four) });
    ruleset.intervals.insert("net6".to_owned(), IntervalMap { family: Address::V6, elements: BTreeMap::from(six) });
    let log = vec![Statement::Counter, Statement::Log(0xfedc), Statement::Verdict(Verdict::Drop)];
    let rule = Rule { matches: Vec::new(), statements: log, comment: Some("x".repeat(128)) };
    ruleset.chains.insert("leaf-1".to_owned(), Chain { hook: None, rules: vec![rule] });
    ruleset
}

pub(crate) fn assert_read_back(name: &str, nftables: &mut Nftables, ruleset: &Ruleset) {
    let read = nftables.dump().unwrap_or_else(|error| panic!("{name}: {error}")).unwrap();
    let expected = Ruleset { origins: Shared::default(), ..ruleset.clone() };
    if read != expected {
        let (read, expected) = (format!("{read:#?}"), format!("{expected:#?}"));
        let differ = read.lines().zip(expected.lines()).filter(|(read, expected)| read != expected).take(20);
        panic!("{name}: read and loaded differ in {:#?}", differ.collect::<Vec<_>>());
    }
}

pub(crate) fn compare_with_nft(name: &str, ruleset: &Ruleset) {
    // As people see it, and the expressions that the kernel has.
    let list =
        || Some((nft(&["list", "table", "inet", "palisade"], "")?, nft(&["--debug=netlink", "list", "table", "inet", "palisade"], "")?));
    let mut nftables = Nftables::open().unwrap();
    nftables.load(ruleset).unwrap();
    let ours = list();
    nftables.unload().unwrap();
    let theirs = nft(&["-f", "-"], &render(ruleset)).and_then(|_| list());
    nftables.unload().unwrap();
    let (Some((ours, our_code)), Some((theirs, their_code))) = (ours, theirs) else { return };
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().filter(|it| !it.starts_with("\tcomment ")).map(str::to_owned).collect();
        lines.sort();
        lines.join("\n")
    };
    assert!(ours.contains("\tcomment \"Kubernetes network policy, written by palisade (layout 1)\"\n"), "{ours}");
    assert!(lines(&ours) == lines(&theirs), "{name}: ours\n{ours}\nnft's\n{theirs}");
    let code = |text: &str| text.lines().filter(|it| it.starts_with("  ")).map(str::to_owned).collect::<Vec<String>>();
    assert!(!code(&our_code).is_empty());
    assert_eq!(code(&our_code), code(&their_code), "{name}");
}
