//! The table when others change it, and others' tables.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use palisade_agent::{Agent, AgentError, Applied, Checked, Event, Notice};
use palisade_kernel::{Changed, Kernel as _, Monitor, Nftables};
use palisade_model::NodeId;
use palisade_nft::{Layout, Table, Transaction};

use crate::ground::{DEADLINE, Ground, POD, apply, model, say, wait_for};

/// What a host may have of its own.
const HOST: &str = "table inet filter {
    set friends { type ipv4_addr; flags interval; elements = { 192.0.2.0/24, 198.51.100.7 } }
    chain input { type filter hook input priority 0; policy accept; ip saddr @friends counter accept comment \"ours\"; tcp dport 22 accept; }
    chain forward { type filter hook forward priority 0; policy drop; }
}
table ip nat {
    chain postrouting { type nat hook postrouting priority 100; oifname \"eth9\" masquerade; }
}
table ip6 palisade { chain forward { type filter hook forward priority 0; counter accept; } }
table bridge other { chain c { meta mark 7 drop; } }
";

#[test]
fn what_others_do_to_the_table_is_undone() {
    let commands = [
        ("delete table inet palisade", Checked::WasRemoved),
        ("flush ruleset", Checked::WasRemoved),
        ("flush table inet palisade", Checked::WasChanged),
        ("flush chain inet palisade forward", Checked::WasChanged),
        ("insert rule inet palisade forward accept", Checked::WasChanged),
        ("add rule inet palisade input accept", Checked::WasChanged),
        ("insert rule inet palisade forward meta mark 7 counter accept", Checked::WasChanged),
        ("add chain inet palisade forward { policy drop; }", Checked::WasChanged),
        ("add chain inet palisade own { type filter hook output priority 0; }", Checked::WasChanged),
        ("add chain inet palisade own", Checked::WasChanged),
        ("rename chain inet palisade egress sserge", Checked::WasChanged),
        ("add set inet palisade marks { type mark; }", Checked::WasChanged),
        ("add table inet palisade { flags dormant; }", Checked::WasChanged),
        ("delete table inet palisade; add table inet palisade", Checked::WasChanged),
        ("delete table inet palisade; table inet palisade { chain forward { type filter hook forward priority 0; } }", Checked::WasChanged),
    ];
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    assert_eq!(apply(&agent, &[80]), Applied::Loaded);
    let before = ground.table();
    for (command, expected) in commands.into_iter().chain(elements(&before).iter().map(|it| (it.as_str(), Checked::WasChanged))) {
        ground.nft(command);
        let (checked, by) = wait_for(&events, |it| match it {
            Event::Restored { checked, by } => Some((*checked, by.clone())),
            Event::Denied(_)
            | Event::DeniedAgain(_)
            | Event::Suppressed { .. }
            | Event::Accepted(_)
            | Event::AcceptedMore { .. }
            | Event::Would(_)
            | Event::WouldMore { .. }
            | Event::Lost(_)
            | Event::Cut(_)
            | Event::Bypassed(_)
            | Event::Noticed(_)
            | Event::Failed(_) => None,
        });
        assert_eq!(checked, expected, "{command}");
        assert!(by.starts_with("nft (process "), "{command}: {by}");
        assert_eq!(ground.table(), before, "{command}");
    }
    // What was told is all there was to tell, and the next change builds on it.
    assert!(matches!(apply(&agent, &[80, 81]), Applied::Changed(_)));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), []);
}

/// Commands that take one element away, and that make it mean something else, for the map that has the pod's address.
fn elements(table: &str) -> Vec<String> {
    let map = table.lines().filter_map(|it| it.trim().strip_prefix("map ")?.strip_suffix(" {")).find(|it| {
        let at = table.find(&format!("map {it} {{")).unwrap();
        table[at..].split("\n\t}").next().unwrap().contains(&format!("{POD} :"))
    });
    let map = map.unwrap_or_else(|| panic!("no map with {POD}: {table}"));
    let at = table.find(&format!("{POD} :")).unwrap();
    let value = table[at..].split([',', '}', '\n']).next().unwrap().trim();
    let remove = format!("delete element inet palisade {map} {{ {POD} }}");
    assert_ne!(value, format!("{POD} : 0:77"));
    vec![remove.clone(), format!("{remove}\nadd element inet palisade {map} {{ {POD} : 0:77 }}")]
}

#[test]
fn a_table_that_is_removed_is_gone_for_a_moment_only() {
    const ROUNDS: usize = 20;
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply(&agent, &[80]);
    let mut nftables = ground.node.run(|| Nftables::open().unwrap()).unwrap();
    let mut gone: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let start = Instant::now();
                let mut until = |exists| {
                    while nftables.exists(Table::Own).unwrap() != exists && !is_over(start) {}
                    Instant::now()
                };
                let (from, to) = (until(false), until(true));
                (!is_over(start)).then(|| to - from)
            });
            ground.nft("delete table inet palisade");
            gone.extend(looking.join().unwrap());
        });
        wait_for(&events, |it| matches!(it, Event::Restored { checked: Checked::WasRemoved, .. }).then_some(()));
    }
    gone.sort();
    say(&format!("gone in {} of {ROUNDS} looks, for {:?} to {:?}", gone.len(), gone.first(), gone.last()));
}

/// What counts is the socket, not the process: of which a container cannot even tell the number.
#[test]
fn what_comes_by_a_socket_of_another_is_put_back_also_in_this_process() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply(&agent, &[80]);
    let before = ground.table();
    let mut other = ground.node.run(|| Nftables::open().unwrap()).unwrap();
    other.unload().unwrap();
    wait_for(&events, |it| matches!(it, Event::Restored { checked: Checked::WasRemoved, .. }).then_some(()));
    assert_eq!(ground.table(), before);
}

/// A look may be too slow to see that a table was gone at all.
fn is_over(start: Instant) -> bool {
    start.elapsed() > Duration::from_secs(1)
}

#[test]
fn a_flush_of_all_tables_brings_back_ours_and_nobody_elses() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply(&agent, &[80]);
    let before = ground.table();
    ground.nft(HOST);
    ground.nft("flush ruleset");
    wait_for(&events, |it| matches!(it, Event::Restored { checked: Checked::WasRemoved, .. }).then_some(()));
    assert_eq!((others(&ground), ground.table()), (String::new(), before.clone()));
    // The frames are a table of their own and come back on their own.
    let start = Instant::now();
    while !ground.nft("list ruleset").contains("table netdev palisade {") {
        assert!(start.elapsed() < DEADLINE, "{:?}", events.try_iter().collect::<Vec<_>>());
    }
    // What the admin writes next stays as well.
    ground.nft(&format!("flush ruleset\n{HOST}"));
    let theirs = others(&ground);
    wait_for(&events, |it| matches!(it, Event::Restored { .. }).then_some(()));
    assert_eq!((others(&ground), ground.table()), (theirs, before));
}

#[test]
fn tables_of_others_stay_as_they_are_byte_for_byte() {
    let Some(ground) = Ground::create() else { return };
    ground.nft(HOST);
    let theirs = others(&ground);
    assert!(theirs.contains("masquerade") && theirs.contains("198.51.100.7"), "{theirs}");
    let (agent, events) = ground.start().unwrap();
    let check = |what: &str| assert_eq!(others(&ground), theirs, "{what}");
    assert_eq!(apply(&agent, &[80]), Applied::Loaded);
    check("load");
    assert!(matches!(apply(&agent, &[81, 82]), Applied::Changed(_)));
    check("change");
    for command in ["delete table inet palisade", "flush chain inet palisade forward", "delete table netdev palisade"] {
        ground.nft(command);
        wait_for(&events, |it| matches!(it, Event::Restored { .. }).then_some(()));
        check(command);
    }
    // What others do in tables of their own is none of an agent's business.
    ground.nft("add chain inet filter more; add table inet palisade2");
    let changed = others(&ground);
    drop(agent);
    assert_eq!(others(&ground), changed);
    for table in [Table::Own, Table::Frames] {
        ground.node.run(|| Nftables::open().unwrap().commit(&Transaction::unload_of(table)).unwrap()).unwrap();
    }
    assert_eq!((others(&ground), ground.nft("list ruleset")), (changed.clone(), changed));
    assert_eq!(events.try_iter().collect::<Vec<_>>(), []);
}

/// All tables but ours.
fn others(ground: &Ground) -> String {
    let all = ground.nft("list ruleset");
    let tables = all.split_inclusive("\n}\n");
    let ours = ["table inet palisade {", "table netdev palisade {"];
    tables.filter(|it| !ours.iter().any(|ours| it.starts_with(ours))).collect()
}

#[test]
fn a_table_that_a_crash_left_is_taken_over() {
    let lefts = [
        "",
        "table inet palisade { }",
        "table inet palisade { chain forward { type filter hook forward priority 0; policy drop; } }",
        "table inet palisade { chain forward { }\nchain input { jump forward\n} }",
        "table inet palisade { flags dormant; map class4 { type mark : verdict; }\ncounter c { }\nset s { type inet_service; flags timeout; } }",
        "table inet palisade { chain own { type nat hook prerouting priority -100; tcp dport 80 redirect to 81\n} }",
    ];
    for left in lefts {
        let Some(ground) = Ground::create() else { return };
        ground.nft(left);
        let (agent, events) = ground.start().unwrap();
        // None of them says what it is.
        let expected = if left.is_empty() { Applied::Loaded } else { Applied::TakenOver(Layout::Unmarked) };
        assert_eq!(apply(&agent, &[80]), expected, "{left}");
        let first = ground.table();
        // The same agent's own table of an earlier run, too.
        drop(agent);
        let (agent, _) = ground.start().unwrap();
        assert_eq!(ground.table(), first);
        assert_eq!(apply(&agent, &[80]), Applied::Unchanged, "{left}");
        assert_eq!(ground.table(), first, "{left}");
        let told = if left.is_empty() { vec![] } else { vec![Event::Noticed(Notice::TookOver(Layout::Unmarked))] };
        assert_eq!(events.try_iter().collect::<Vec<_>>(), told, "{left}");
        let Some(fresh) = Ground::create() else { return };
        let (agent, _) = fresh.start().unwrap();
        apply(&agent, &[80]);
        assert_eq!(fresh.table(), first, "{left}");
    }
}

/// Dumps and commits meet the changes of another process all the time.
#[test]
fn tables_of_others_that_change_all_the_time_are_no_hindrance() {
    let Some(ground) = Ground::create() else { return };
    let (mut intact, mut unsteady) = (0, 0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            for _ in 0..150 {
                ground.nft("add table ip busy\nadd chain ip busy c\ndelete table ip busy");
            }
        });
        let mut agent = Agent::new(ground.node.run(|| Nftables::open().unwrap()).unwrap());
        let start = Instant::now();
        for round in 0u16.. {
            let done = other.is_finished();
            assert!(start.elapsed() < DEADLINE, "{round} rounds");
            let applied = agent.apply(&model(&[80 + round % 7]), NodeId(0), BTreeMap::new());
            assert!(applied.is_ok(), "{applied:?}");
            match agent.check() {
                Ok(Checked::Intact) => intact += 1,
                Err(AgentError::NotKnown(palisade_kernel::KernelError::Unsteady(_))) => unsteady += 1,
                other => panic!("{other:?}"),
            }
            if done {
                break;
            }
        }
        other.join().unwrap();
    });
    assert!(intact > 0);
    say(&format!("{intact} checks found the table intact, {unsteady} could not tell"));
}

/// Whatever is done between, the last word is the agent's.
#[test]
fn a_table_that_is_changed_all_the_time_is_right_in_the_end() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply(&agent, &[80]);
    // In which order things are listed depends on the way there.
    let lines = |table: &str| {
        let mut lines: Vec<String> = table.lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    let before = lines(&ground.table());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..100 {
                let command = ["delete table inet palisade", "flush chain inet palisade forward", "add chain inet palisade own"][at % 3];
                // It may be gone at this moment.
                drop(ground.try_nft(command));
            }
        });
        scope.spawn(|| {
            for round in 0..50 {
                apply(&agent, &[81 + round % 3]);
            }
        });
    });
    apply(&agent, &[80]);
    ground.nft("add chain inet palisade last");
    let mut restored = 0;
    wait_for(&events, |it| {
        restored += usize::from(matches!(it, Event::Restored { .. }));
        ground.try_nft("list table inet palisade").is_ok_and(|it| lines(&it) == before).then_some(())
    });
    restored += events.try_iter().filter(|it| matches!(it, Event::Restored { .. })).count();
    say(&format!("put back {restored} times"));
}

/// From the moment that the kernel tells of somebody else's change to the first commit of ours. Nothing is asserted of time.
#[test]
fn repair_starts_soon_after_a_change_by_somebody_else() {
    const ROUNDS: usize = 30;
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply(&agent, &[80]);
    let mut monitor = ground.node.run(|| Monitor::open().unwrap()).unwrap();
    let mut delays: Vec<Duration> = Vec::new();
    for round in 0..ROUNDS {
        let command = ["flush chain inet palisade forward", "delete table inet palisade", "add chain inet palisade own"][round % 3];
        ground.nft(command);
        let (start, mut theirs) = (Instant::now(), None);
        while !is_over(start) {
            let ours = |it: &Changed| matches!(it, Changed::Transaction { process, .. } if process != "nft");
            let heard = monitor.wait(Duration::from_millis(1)).unwrap();
            match (&theirs, heard.iter().any(ours)) {
                (Some(_), true) => break,
                (None, _) if heard.iter().any(|it| !ours(it)) => theirs = Some(Instant::now()),
                (Some(_) | None, _) => {}
            }
            if heard.iter().any(ours) {
                break;
            }
        }
        delays.extend(theirs.map(|it| it.elapsed()));
        wait_for(&events, |it| matches!(it, Event::Restored { .. }).then_some(()));
        while !monitor.wait(Duration::from_millis(20)).unwrap().is_empty() {}
    }
    delays.sort();
    let median = delays.get(delays.len() / 2);
    say(&format!(
        "{} of {ROUNDS} seen; from their change to our first commit: median {median:?}, longest {:?}",
        delays.len(),
        delays.last()
    ));
}
