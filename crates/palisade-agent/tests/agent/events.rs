//! Denied packets when nobody can keep up with them.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use palisade_agent::{Event, Totals};
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
