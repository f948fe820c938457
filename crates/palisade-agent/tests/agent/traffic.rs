//! Packets that never stop: some that policy accepts throughout, some that it denies.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use palisade_kernel::{Links, Namespace, NextHop, Route, set_sysctl};

use crate::ground::{Ground, NODE};

pub(crate) const OPEN: u16 = 80;
pub(crate) const SHUT: u16 = 81;
/// Longer than any packet takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Somebody whom the node forwards to.
pub(crate) const FAR: &str = "10.9.0.1";

/// What became of the packets of one who never stops.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) allowed: u64,
    pub(crate) lost: u64,
    pub(crate) denied: u64,
    pub(crate) delivered: u64,
}

/// Sockets at both ports of a place.
pub(crate) struct Place {
    address: &'static str,
    open: UdpSocket,
    shut: UdpSocket,
}

impl Place {
    /// What is allowed is taken for lost if it does not come in time.
    pub(crate) fn of(namespace: &Namespace, address: &'static str, time: Duration) -> Place {
        let bind = |port| {
            let socket = namespace.run(|| UdpSocket::bind((address, port)).unwrap()).unwrap();
            socket.set_read_timeout(Some(time)).unwrap();
            socket
        };
        let (open, shut) = (bind(OPEN), bind(SHUT));
        shut.set_nonblocking(true).unwrap();
        Place { address, open, shut }
    }
}

/// Sends to both ports of each place, turn by turn, and waits for what is allowed. Nobody answers, so that each packet is the first of its connection.
pub(crate) fn traffic(sender: &UdpSocket, places: &[Place], stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    let mut buffer = [0; 8];
    while !stop.load(Ordering::Relaxed) {
        for place in places {
            // Something that is denied goes before and after what is waited for.
            for port in [SHUT, OPEN, SHUT] {
                sender.send_to(&traffic.allowed.to_be_bytes(), (place.address, port)).unwrap();
            }
            traffic.denied += 2;
        }
        for place in places {
            // One that was taken for lost may come late.
            let come = loop {
                match place.open.recv(&mut buffer) {
                    Ok(_) if u64::from_be_bytes(buffer) < traffic.allowed => {}
                    come => break come,
                }
            };
            match come {
                Ok(_) => assert_eq!(u64::from_be_bytes(buffer), traffic.allowed, "one before the other"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => traffic.lost += 1,
                Err(error) => panic!("{error}"),
            }
            while place.shut.recv(&mut buffer).is_ok() {
                traffic.delivered += 1;
            }
        }
        traffic.allowed += 1;
    }
    // What is under way arrives before what is sent last.
    for place in places {
        let socket = place.shut.try_clone().unwrap();
        while socket.recv(&mut buffer).is_ok() {
            traffic.delivered += 1;
        }
    }
    traffic
}

/// Somebody whom the node forwards to.
pub(crate) fn far(ground: &Ground) -> Namespace {
    let far = Namespace::create().unwrap();
    let mut links = ground.node.run(|| Links::open().unwrap()).unwrap();
    let mut inside = far.run(|| Links::open().unwrap()).unwrap();
    links.add_veth("far0", "eth0", &far).unwrap();
    for (links, link, address) in [(&mut links, "far0", "10.9.0.254/24"), (&mut inside, "eth0", "10.9.0.1/24")] {
        links.add_address(link, address.parse().unwrap()).unwrap();
        links.set_up(link).unwrap();
    }
    ground.node.run(|| set_sysctl("net/ipv4/ip_forward", "1").unwrap()).unwrap();
    for (namespace, by) in [(&far, "10.9.0.254"), (&ground.pod, NODE)] {
        let mut links = namespace.run(|| Links::open().unwrap()).unwrap();
        let route =
            Route { to: "0.0.0.0/0".parse().unwrap(), via: NextHop::Gateway(by.parse().unwrap()), link: "eth0".to_owned(), source: None };
        links.add_route(&route).unwrap();
    }
    far
}
