//! Denied packets when nobody can keep up with them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use palisade_agent::{Attention, Did, Event, Running, Totals};
use palisade_kernel::LogOptions;
use palisade_model::{Direction, EndpointId, NodeId, RuleRef};

use crate::ground::{DEADLINE, Ground, NODE, POD, apply, model, say, wait_for};

#[test]
fn what_was_lost_is_told_to_the_packet() {
    let Some(ground) = Ground::create() else { return };
    let options = LogOptions { receive_buffer: 4096, queue_threshold: 8, kernel_buffer: 4096, ..LogOptions::default() };
    let (agent, events) = ground.start_with(options).unwrap();
    apply(&agent, &[80]);
    let sender = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
    let (mut sent, mut told, mut lost) = (0_u64, 0_u64, 0_u64);
    let mut send = |count: usize| {
        for _ in 0..count {
            sent += u64::from(sender.send_to(b"hello there", (NODE, 9)).is_ok());
        }
        sent
    };
    send(20_000);
    let deadline = Instant::now() + DEADLINE;
    loop {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(Event::Denied(_) | Event::DeniedAgain(_)) => told += 1,
            Ok(Event::Lost(packets)) => lost += packets,
            Ok(event) => panic!("{event:?}"),
            // Packets that find room show what was lost before them.
            Err(_) if lost == 0 => drop(send(20_000)),
            Err(_) if told + lost < send(0) => drop(send(1)),
            Err(_) => break,
        }
        assert!(Instant::now() < deadline, "{told} told and {lost} lost of {}", send(0));
    }
    let sent = send(0);
    assert_eq!(told + lost, sent);
    await_totals(&agent, Totals { packets: told, events: 1, repeated: told - 1, lost, ..Totals::default() });
    say(&format!("{sent} sent: {told} told, {lost} lost"));
}

/// How long and how fast packets are sent: `PALISADE_FLOOD_SECONDS` (1) and `PALISADE_FLOOD_RATE` (as fast as they go), in packets a second.
fn setting(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_flood_of_connections_is_told_or_counted_to_the_packet() {
    let Some(ground) = Ground::create() else { return };
    let (sender, events) = channel();
    let report = move |event| drop(sender.send(event));
    let agent = Running::start(&ground.node, Attention::Connections, report).unwrap();
    apply(&agent, &[80]);
    let sockets = [(); 16].map(|()| ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap());
    let (length, rate) = (Duration::from_secs(setting("PALISADE_FLOOD_SECONDS").unwrap_or(1).into()), setting("PALISADE_FLOOD_RATE"));
    let start = Instant::now();
    let mut sent = 0_u32;
    while start.elapsed() < length {
        // A few at a time, each to another port; the rate is that of their beginnings.
        if rate.is_some_and(|rate| f64::from(sent) > f64::from(rate) * start.elapsed().as_secs_f64()) {
            std::thread::yield_now();
            continue;
        }
        for socket in &sockets {
            let port = u16::try_from(1_000 + sent / 16 % 60_000).unwrap();
            socket.send_to(b"hello there", (NODE, port)).unwrap();
            sent += 1;
        }
    }
    let took = start.elapsed();
    // What was lost is known with the next packet that finds room.
    let deadline = Instant::now() + DEADLINE;
    let dropped = || agent.counted().unwrap().iter().filter(|it| it.did == Did::Drop).map(|it| it.packets).sum::<u64>();
    let (mut told, mut untold, mut lost) = (0, 0, 0);
    loop {
        match events.recv_timeout(Duration::from_millis(200)) {
            Ok(Event::Denied(_)) => told += 1,
            Ok(Event::Suppressed { connections, .. }) => untold += connections,
            Ok(Event::Lost(packets)) => lost += packets,
            Ok(event) => panic!("{event:?}"),
            Err(_) if agent.totals().packets + agent.totals().lost < dropped() => drop(sockets[0].send_to(b"hello there", (NODE, 9))),
            // The last second is over as well.
            Err(_) if told + untold == agent.totals().events + agent.totals().suppressed => break,
            Err(_) => {}
        }
        assert!(Instant::now() < deadline, "{told} told, {untold} counted and {lost} lost of {}", dropped());
    }
    let (totals, dropped) = (agent.totals(), dropped());
    assert_eq!(totals.packets + totals.lost, dropped);
    assert_eq!((told, untold, lost), (totals.events, totals.suppressed, totals.lost));
    assert_eq!(totals.events + totals.suppressed + totals.repeated, totals.packets);
    assert!(u64::from(sent) <= dropped && untold > 0, "{sent} sent, {totals:?}");
    let rate = f64::from(sent) / took.as_secs_f64();
    say(&format!(
        "{sent} sent in {took:.1?}, {rate:.0} a second: {dropped} dropped, {} read, {lost} lost; {told} told, {untold} counted",
        totals.packets
    ));
}

/// Sums come a moment after the last event that they count.
fn await_totals(agent: &Running, expected: Totals) {
    let deadline = Instant::now() + DEADLINE;
    while agent.totals() != expected {
        assert!(Instant::now() < deadline, "{:?} and not {expected:?}", agent.totals());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_policy_wants_logged_is_told_once_and_passes_all_the_same() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    let mut logging = model(&[80, 81]);
    let rule = RuleRef { policy: logging.policies[0].origin.clone(), direction: Direction::Egress, index: 0, name: None };
    logging.logged.insert(rule.clone());
    agent.apply(&Arc::new(logging), NodeId(0), BTreeMap::from([(EndpointId(0), "pod1".to_owned())])).unwrap();
    let listener = ground.node.run(|| TcpListener::bind((NODE, 80)).unwrap()).unwrap();
    let connect = |port: u16| ground.pod.run(|| TcpStream::connect((NODE, port))).unwrap();
    let deny = || ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap().send_to(b"hello there", (NODE, 9)).unwrap()).unwrap();
    let mut stream = connect(80).unwrap();
    let mut accepted = listener.accept().unwrap().0;
    let mut bytes = [0; 5];
    for _ in 0..2 {
        stream.write_all(b"hello").unwrap();
        accepted.read_exact(&mut bytes).unwrap();
    }
    deny();
    // It passes, and nobody is there.
    assert_eq!(connect(81).map(drop).map_err(|it| it.kind()), Err(ErrorKind::ConnectionRefused));
    let mut told = Vec::new();
    while told.len() < 3 {
        told.push(wait_for(&events, |event| match event {
            Event::Accepted(it) => Some(("accepted", it.port, Some(it.by.rule.clone()))),
            Event::Denied(it) => Some(("denied", it.port, None)),
            Event::DeniedAgain(_) | Event::Suppressed { .. } | Event::AcceptedMore { .. } | Event::Cut(_) | Event::Bypassed(_) => None,
            Event::Would(_) | Event::WouldMore { .. } | Event::Lost(_) => None,
            Event::Restored { .. } | Event::Noticed(_) | Event::Failed(_) => None,
        }));
    }
    assert_eq!(told, [("accepted", Some(80), Some(rule.clone())), ("denied", Some(9), None), ("accepted", Some(81), Some(rule))]);
    await_totals(&agent, Totals { packets: 1, events: 1, ..Totals::default() });
    // Nobody asks any more.
    apply(&agent, &[80, 81]);
    drop(connect(80).unwrap());
    deny();
    let next = wait_for(&events, |event| matches!(event, Event::Accepted(_) | Event::Denied(_)).then(|| event.clone()));
    assert!(matches!(&next, Event::Denied(it) if it.port == Some(9)), "{next:?}");
}
