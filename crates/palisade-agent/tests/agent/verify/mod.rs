//! Whatever somebody changes by hand on a node is noticed and named, with a packet that shows it; and what is put back is as it was.

mod edits;
mod ground;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_agent::{Event, Held, links_of, verification};
use palisade_nft::{At, CtState, Effect, Packet, Table, decode, fare, trace, verify};
use palisade_report::{v1, verify_text};
use palisade_testkit::random::Random;

use crate::ground::{say, wait_for};
use edits::{Edit, KINDS};
use ground::Node;

/// How often an edit is tried that nft refuses.
const TRIES: usize = 20;

#[test]
fn no_edit_by_hand_goes_unnoticed() {
    let Some(node) = Node::create() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let edits = usize::try_from(number("PALISADE_VERIFY_EDITS").unwrap_or(60)).unwrap();
    let seed = number("PALISADE_VERIFY_SEED").unwrap_or(1);
    say(&format!("PALISADE_VERIFY_SEED={seed} PALISADE_VERIFY_EDITS={edits}"));
    let mut random = Random::new(seed);
    assert_holds(&node, "before anything was edited");
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..edits.max(KINDS.len()) {
        // Each kind once, then any.
        let (kind, make) = KINDS.get(round).unwrap_or_else(|| random.pick(KINDS).unwrap());
        let edit = applied(&node, kind, |random| make(random, &node), &mut random);
        let what = format!("seed {seed}, edit {round}, {kind}: {}", edit.does);
        let held = node.held();
        let told = node.verification(&held);
        let text = verify_text(&told);
        let names: BTreeSet<&str> =
            told.findings.iter().filter(|it| it.weight != v1::VerifyWeight::Note).map(|it| it.name.as_str()).collect();
        assert!(edit.expected.iter().any(|it| names.contains(it)), "{what}: expected one of {:?}\n{text}", edit.expected);
        assert!(!told.holds, "{what}\n{text}");
        *tally.entry(check_packets(&node, &held, &what)).or_default() += 1;
        if round % 10 == 0 {
            let (read, name) = Held::parse(&held.to_text("node-1").unwrap()).unwrap();
            assert_eq!((name.as_str(), node.verification(&read)), ("node-1", told), "{what}");
        }
        edit.undo(&node);
        node.repair();
        assert_holds(&node, &what);
    }
    say(&format!("{} edits, all noticed: {tally:?}", edits.max(KINDS.len())));
}

/// Makes an edit that nft takes.
fn applied(node: &Node, kind: &str, make: impl Fn(&mut Random) -> Option<Edit>, random: &mut Random) -> Edit {
    let mut refused = Vec::new();
    for _ in 0..TRIES {
        let Some(edit) = make(random) else { continue };
        match edit.apply(node) {
            Ok(()) => return edit,
            Err(error) => refused.push(format!("{}: {error}", edit.does)),
        }
    }
    panic!("{kind}: no such edit could be made: {refused:#?}");
}

fn assert_holds(node: &Node, what: &str) {
    let told = node.verification(&node.held());
    assert!(told.holds && told.findings.is_empty(), "{what}\n{}", verify_text(&told));
}

/// Every packet that is said to fare otherwise does, and where one does, one is said to. Returns what an edit does, in words.
fn check_packets(node: &Node, held: &Held, what: &str) -> &'static str {
    let examined = held.examined(Table::Own);
    let verified = verify(Table::Own, examined.as_ref(), Some(&node.wanted));
    let found = examined.unwrap_or_default();
    let mut shown = 0_usize;
    for difference in &verified.differences {
        let Effect::Shown(example) = &difference.effect else { continue };
        shown += 1;
        let said = format!("{what}: {}: {example:?}", difference.sentence());
        assert_ne!(example.wanted.accepted, example.found.accepted, "{said}");
        assert_eq!(fare(&found, &example.packet).as_ref(), Ok(&example.found), "{said}");
        assert_eq!(trace(&node.wanted, &example.packet).map(|it| it.accepted), Ok(example.wanted.accepted), "{said}");
        // Where all of the table could be read, so does the walk that knows nothing of what others write.
        let bases = found.stances.values().filter(|it| [1, 2].contains(&it.hook)).count();
        if let (Some(Ok(ruleset)), 2) = (held.tables.get(&Table::Own).map(decode), bases) {
            assert_eq!(trace(&ruleset, &example.packet).map(|it| it.accepted), Ok(example.found.accepted), "{said}");
        }
    }
    let fares = |packet: &Packet| fare(&found, packet).ok().map(|it| it.accepted);
    let other =
        packets(node).into_iter().find(|it| fares(it).is_some_and(|found| Ok(found) != trace(&node.wanted, it).map(|it| it.accepted)));
    assert!(other.is_none() || shown > 0, "{what}: nobody tells of {other:?}");
    let hidden = verified.differences.iter().any(|it| matches!(it.effect, Effect::NotShown(_)));
    match (shown, hidden, verified.differences.is_empty()) {
        (1.., ..) => "a packet shows it",
        (0, true, _) => "no packet of a connection shows it",
        (0, false, false) => "it changes no verdict",
        (0, false, true) => "it is not in the table of policy",
    }
}

/// A sample: everybody to everybody at some ports.
fn packets(node: &Node) -> Vec<Packet> {
    let mut packets = Vec::new();
    let addresses: Vec<IpAddr> =
        node.model.addresses().chain(["203.0.113.9", "10.9.1.1", "2001:db8::9"].map(|it| it.parse().unwrap())).collect();
    for source in &addresses {
        for destination in addresses.iter().filter(|it| it.is_ipv4() == source.is_ipv4()) {
            for (protocol, port) in [(6, Some(80)), (6, Some(443)), (17, Some(53)), (6, Some(5432)), (6, Some(9050)), (1, None)] {
                for at in [At::Forward, At::Input, At::Ingress { link: "pod2".to_owned() }] {
                    let (source, destination, state) = (*source, *destination, CtState::New);
                    let (from_link, to_link) = (None, None);
                    packets.push(Packet {
                        at,
                        source,
                        destination,
                        protocol,
                        port,
                        source_port: None,
                        state,
                        priority: 0,
                        source_is_local: false,
                        from_link,
                        to_link,
                    });
                }
            }
        }
    }
    packets
}

#[test]
fn links_of_pods_are_found_by_routes_and_neighbours() {
    let Some(node) = Node::create() else { return };
    let ways = links_of(&node.model, node.id, &node.held());
    assert_eq!((ways.links, ways.believed), (node.links.clone(), Vec::new()));
    // One that the kernel does not take tells nothing.
    node.shell("ip link add other type veth peer end && ip link set other up && ip route add 10.0.0.1/32 dev other metric 50").unwrap();
    assert_eq!(links_of(&node.model, node.id, &node.held()).links, node.links.clone());
    node.shell("ip link del other").unwrap();
    // Without a route only the table tells.
    node.shell("ip route del 10.0.0.1/32 dev pod1 && ip -6 route del fd00::1/128 dev pod1").unwrap();
    let ways = links_of(&node.model, node.id, &node.held());
    assert_eq!((ways.links, ways.believed.len()), (node.links.clone(), 1));
    assert!(verification(&node.model, &node.view(), &node.held()).unwrap().holds);
}

/// Of links, filters and tables the kernel tells; a setting is found by looking now and then.
#[test]
fn what_leads_past_the_hooks_is_told_by_an_agent_at_work() {
    let Some(node) = Node::create() else { return };
    let (agent, events) = node.ground.start().unwrap();
    agent.treat_unknown(ground::unknown());
    agent.apply(&Arc::new(node.model.clone()), node.id, node.links.clone()).unwrap();
    let edits = [
        ("tc-filter", "tc qdisc add dev pod1 clsact; tc filter add dev pod1 ingress bpf da bytecode '1,6 0 0 0'"),
        ("xdp-program", &format!("ip link set dev pod2 xdp obj {} sec xdp", node.program.path().join("pass.o").display())),
        (
            "notrack",
            "nft 'add table ip raw; add chain ip raw pre { type filter hook prerouting priority -300; }; add rule ip raw pre notrack'",
        ),
        ("bridge-not-filtered", "sysctl -qw net.bridge.bridge-nf-call-iptables=0"),
        ("ipvs", "ip link add kube-ipvs0 type bridge"),
    ];
    for (name, line) in edits {
        let start = std::time::Instant::now();
        node.shell(line).unwrap();
        let sentence = wait_for(&events, |it| {
            if let Event::Bypassed(finding) = it { Some((finding.name.clone(), finding.sentence.clone())) } else { None }
        });
        assert_eq!(sentence.0, name, "{}", sentence.1);
        say(&format!("{name} told {:?} after it began", start.elapsed()));
    }
}
