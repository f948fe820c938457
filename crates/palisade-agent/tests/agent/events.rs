//! Denied packets when nobody can keep up with them.

use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use palisade_agent::{Attention, Did, Event, Running, Totals};
use palisade_kernel::LogOptions;

use crate::ground::{DEADLINE, Ground, NODE, POD, apply, say};

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
    assert_eq!(agent.totals(), Totals { packets: told, events: 1, repeated: told - 1, lost, ..Totals::default() });
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
    let socket = ground.pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
    let (length, rate) = (Duration::from_secs(setting("PALISADE_FLOOD_SECONDS").unwrap_or(1).into()), setting("PALISADE_FLOOD_RATE"));
    let start = Instant::now();
    let mut sent = 0_u32;
    while start.elapsed() < length {
        // A few at a time, each to another port; the rate is that of their beginnings.
        if rate.is_some_and(|rate| f64::from(sent) > f64::from(rate) * start.elapsed().as_secs_f64()) {
            std::thread::yield_now();
            continue;
        }
        for _ in 0..64 {
            let port = u16::try_from(1_000 + sent % 60_000).unwrap();
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
            Ok(Event::Suppressed(it)) => untold += it.connections,
            Ok(Event::Lost(packets)) => lost += packets,
            Ok(event) => panic!("{event:?}"),
            Err(_) if agent.totals().packets + agent.totals().lost < dropped() => drop(socket.send_to(b"hello there", (NODE, 9))),
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
