//! Connections that a change denies, many at once.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_agent::{CutBy, Event, Swept};
use palisade_kernel::{Connection, Conntrack, Transport};
use palisade_model::NodeId;

use crate::ground::{DEADLINE, Ground, LINK, NODE, POD, apply, apply_nothing, links, model_with, say, wait_for};

/// How many connections there are; `PALISADE_CONNECTIONS` for figures of larger tables.
fn wanted() -> usize {
    std::env::var("PALISADE_CONNECTIONS").ok().and_then(|it| it.parse().ok()).unwrap_or(5_000)
}

/// Opens connections of the pod to its node, each to another port.
fn open(ground: &Ground, count: usize) {
    let ports: Vec<u16> = (1_024..=u16::MAX).collect();
    let mut left = count;
    while left > 0 {
        let sender = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
        for port in ports.iter().take(left) {
            // The node answers that nobody listens there, which the next call says.
            while sender.send_to(b"x", (NODE, *port)).is_err() {}
        }
        left = left.saturating_sub(ports.len());
    }
}

fn tracked(ground: &Ground) -> usize {
    connections(ground).len()
}

/// Those of the pod, in order.
fn connections(ground: &Ground) -> Vec<Connection> {
    let all = ground.node.run(|| Conntrack::open().unwrap().dump(None).unwrap()).unwrap();
    all.into_iter().filter(|it| it.original.source == POD.parse::<IpAddr>().unwrap()).collect()
}

/// CPU time of a thread of this process.
fn spent_by(thread: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().path());
    let named = threads.filter(|it| std::fs::read_to_string(it.join("comm")).is_ok_and(|it| it.trim() == thread));
    let spent = named.map(|it| std::fs::read_to_string(it.join("schedstat")).unwrap_or_default());
    Duration::from_nanos(spent.filter_map(|it| it.split(' ').next().and_then(|it| it.parse::<u64>().ok())).sum())
}

#[test]
fn every_connection_of_many_ends_and_is_counted() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply_nothing(&agent);
    open(&ground, wanted());
    let before = tracked(&ground);
    assert!(before >= wanted() * 9 / 10, "{before}");
    // What is not touched is read, and stays.
    apply_nothing(&agent);
    assert_eq!((agent.await_sweep(DEADLINE), tracked(&ground)), (Swept::All, before));
    let (start, spent) = (Instant::now(), spent_by("sweeper"));
    apply(&agent, &[80]);
    let applied = start.elapsed();
    assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
    let spent = spent_by("sweeper").saturating_sub(spent);
    say(&format!("{before} connections: applied after {applied:?}, swept after {:?}, {spent:?} of a CPU", start.elapsed()));
    assert_eq!(tracked(&ground), 0);
    let cuts = wait_for(&events, |it| if let Event::Cut(cuts) = it { Some(cuts.clone()) } else { None });
    assert_eq!((usize::try_from(cuts.connections).unwrap(), cuts.told.len()), (before, 100));
    assert_eq!(cuts.others(), cuts.connections - cuts.told.iter().map(|it| it.connections).sum::<u64>());
    assert!(cuts.told.iter().all(|it| matches!(it.by, CutBy::Denied(_)) && it.protocol == 17), "{cuts:#?}");
}

/// What the node sends meets no hook of the table, and a segment in the middle of a connection that nobody tracks opens one.
#[test]
fn a_connection_to_a_server_of_the_node_stays_cut_when_the_server_goes_on() {
    let Some(ground) = Ground::create() else { return };
    let (agent, _events) = ground.start().unwrap();
    apply_nothing(&agent);
    let listener = ground.node.run(|| TcpListener::bind((NODE, 9000)).unwrap()).unwrap();
    let mut client = ground.pod.run(|| TcpStream::connect((NODE, 9000)).unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let heard = |from: &mut TcpStream, to: &mut TcpStream| {
        to.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
        from.write_all(b"word").unwrap();
        to.read(&mut [0; 64]).is_ok()
    };
    assert!(heard(&mut client, &mut server) && heard(&mut server, &mut client));
    apply(&agent, &[80]);
    assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
    for _ in 0..2 {
        assert!(!heard(&mut server, &mut client) && !heard(&mut client, &mut server));
    }
    drop(agent);
    let (agent, _events) = ground.start().unwrap();
    apply(&agent, &[80]);
    assert!(!heard(&mut server, &mut client) && !heard(&mut client, &mut server));
    // Another change that denies it, and one that does not: only then is it forgotten that it was cut.
    apply(&agent, &[81]);
    assert!(!heard(&mut server, &mut client) && !heard(&mut client, &mut server));
    apply_nothing(&agent);
    assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
    let deadline = Instant::now() + DEADLINE;
    while !heard(&mut server, &mut client) {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn a_table_of_answers_that_is_not_ours_keeps_no_agent_from_starting() {
    let Some(ground) = Ground::create() else { return };
    let map = "add table inet palisade-answers\nadd map inet palisade-answers answers4 { type ipv4_addr : verdict; }";
    if ground.try_nft(&format!("{map}\nadd element inet palisade-answers answers4 {{ 10.0.0.1 : drop }}")).is_err() {
        say("skipped: nft is not installed");
        return;
    }
    let (agent, _events) = ground.start().unwrap();
    apply_nothing(&agent);
    assert!(ground.try_nft("list table inet palisade-answers").is_err());
}

/// The next who has the address may not go on with what this one has left, and nobody has been told of either yet.
#[test]
fn what_a_pod_has_left_ends_with_its_link() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply_nothing(&agent);
    open(&ground, 100);
    assert_eq!((agent.await_sweep(DEADLINE), connections(&ground).len()), (Swept::All, 100));
    ground.node.run(|| palisade_kernel::Links::open().unwrap().delete(LINK).unwrap()).unwrap();
    let cuts = wait_for(&events, |it| if let Event::Cut(cuts) = it { Some(cuts.clone()) } else { None });
    assert_eq!((cuts.connections, connections(&ground).len()), (100, 0));
    assert!(cuts.told.iter().all(|it| matches!(it.by, CutBy::Gone(_))), "{cuts:#?}");
}

/// Those that are denied are few, and all must be read and judged to find them.
#[test]
fn of_many_connections_those_that_are_denied_end_alone() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    apply_nothing(&agent);
    open(&ground, wanted());
    // So many ports from the lowest on are opened to each time.
    let denied_below = 1_024 + u16::try_from((wanted() / 100).min(50_000)).unwrap();
    let port = |it: &Connection| match it.original.transport {
        Transport::Ports { destination, .. } => destination,
        Transport::Icmp { .. } | Transport::Addresses => panic!("{it:?}"),
    };
    let before = connections(&ground);
    let (denied, lives): (Vec<_>, Vec<_>) = before.into_iter().partition(|it| port(it) < denied_below);
    assert!(!denied.is_empty() && lives.len() > denied.len() * 10, "{} {}", denied.len(), lives.len());
    let rules = format!("{{ports: [{{protocol: UDP, port: {denied_below}, endPort: 65535}}]}}");
    let (start, spent) = (Instant::now(), spent_by("sweeper"));
    agent.apply(&Arc::new(model_with(&rules)), NodeId(0), links()).unwrap();
    let applied = start.elapsed();
    assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
    let spent = spent_by("sweeper").saturating_sub(spent);
    let of = format!("{} of {} connections", denied.len(), denied.len() + lives.len());
    say(&format!("{of}: applied after {applied:?}, swept {:?} after that, {spent:?} of a CPU", start.elapsed().saturating_sub(applied)));
    assert!(connections(&ground) == lives);
    // A sweep that takes its time tells of them in more than one go.
    let mut cuts = 0;
    while cuts < denied.len() {
        let told = wait_for(&events, |it| if let Event::Cut(cuts) = it { Some(cuts.connections) } else { None });
        cuts += usize::try_from(told).unwrap();
    }
    assert_eq!(cuts, denied.len());
}

/// Up to the last moment at which it is allowed, and after it.
#[test]
fn what_is_opened_while_a_change_comes_into_force_ends_too() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    let mut opened = 0;
    for _ in 0..2 {
        apply_nothing(&agent);
        let stop = AtomicBool::new(false);
        opened += std::thread::scope(|scope| {
            let sender = scope.spawn(|| open_until(&ground, &stop));
            wait_until(|| !connections(&ground).is_empty());
            apply(&agent, &[80]);
            assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
            // They go on, and nothing of theirs is tracked any more.
            assert_eq!(connections(&ground), Vec::new());
            stop.store(true, Ordering::SeqCst);
            sender.join().unwrap()
        });
        assert_eq!(connections(&ground), Vec::new());
    }
    let cut: u64 = events.try_iter().map(|it| if let Event::Cut(cuts) = it { cuts.connections } else { 0 }).sum();
    assert!(0 < cut && cut < opened, "{cut} of {opened}");
}

/// Opens one connection after the other, each from another port, until it is told to stop. Gives how many.
fn open_until(ground: &Ground, stop: &AtomicBool) -> u64 {
    let work = || {
        let mut opened = 0;
        while !stop.load(Ordering::SeqCst) {
            let socket = UdpSocket::bind((POD, 0)).unwrap();
            drop(socket.send_to(b"x", (NODE, 5_000)));
            opened += 1;
            // A pace that leaves room for the agent.
            std::thread::sleep(Duration::from_micros(200));
        }
        opened
    };
    ground.pod.run(work).unwrap()
}

fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

/// A table that somebody else reads and changes all the time is swept all the same.
#[test]
fn what_comes_and_goes_meanwhile_does_not_stop_a_sweep() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    for _ in 0..3 {
        apply_nothing(&agent);
        open(&ground, 1_000);
        apply(&agent, &[80]);
        assert_eq!(agent.await_sweep(DEADLINE), Swept::All);
        assert_eq!(tracked(&ground), 0);
    }
    let cut: u64 = events.try_iter().map(|it| if let Event::Cut(cuts) = it { cuts.connections } else { 0 }).sum();
    assert_eq!(cut, 3_000);
}
