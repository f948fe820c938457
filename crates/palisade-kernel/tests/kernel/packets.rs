//! Packets made by hand, and what is logged of those that are dropped.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use palisade_kernel::{Log, LogOptions, Namespace};
use palisade_nft::LOG_GROUP;
use socket2::{Domain, Protocol, Socket, Type};

use crate::ground::{LIMIT, TURN, TURNS, nft};

pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

/// A packet with any source at all.
pub(crate) struct Forged {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
    /// With zeros where the checksum goes.
    pub(crate) payload: Vec<u8>,
}

impl Forged {
    /// A datagram to a port.
    pub(crate) fn datagram(source: IpAddr, destination: IpAddr, port: u16, text: &str) -> Forged {
        let length = u16::try_from(8 + text.len()).unwrap();
        let mut payload = [4000_u16, port, length, 0].map(u16::to_be_bytes).concat();
        payload.extend(text.as_bytes());
        Forged { source, destination, protocol: UDP, hop_limit: 64, payload }
    }

    pub(crate) fn send_from(&self, namespace: &Namespace) {
        let domain = Domain::for_address(SocketAddr::new(self.destination, 0));
        // Of this protocol the sender writes the whole header.
        let raw = namespace.run(|| Socket::new(domain, Type::RAW, Some(Protocol::from(255))).unwrap()).unwrap();
        let bytes = self.bytes();
        assert_eq!(raw.send_to(&bytes, &SocketAddr::new(self.destination, 0).into()).unwrap(), bytes.len());
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u16::try_from(self.payload.len()).unwrap();
        let (mut bytes, ends) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ends = [source.octets(), destination.octets()].concat();
                ([&[0x45, 0], (length + 20).to_be_bytes().as_slice(), &[0, 0, 0, 0, self.hop_limit, self.protocol, 0, 0]].concat(), ends)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ends = [source.octets(), destination.octets()].concat();
                ([&[0x60, 0, 0, 0], length.to_be_bytes().as_slice(), &[self.protocol, self.hop_limit]].concat(), ends)
            }
            (IpAddr::V4(_) | IpAddr::V6(_), _) => panic!("two families"),
        };
        bytes.extend(&ends);
        let covered = [ends, [u16::from(self.protocol), length].map(u16::to_be_bytes).concat(), self.payload.clone()].concat();
        let mut payload = self.payload.clone();
        let at = if self.protocol == UDP { 6 } else { 2 };
        payload.get_mut(at..at + 2).unwrap().copy_from_slice(&checksum(&covered).to_be_bytes());
        bytes.extend(payload);
        bytes
    }
}

/// The checksum of the Internet.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| match pair {
        [first, second] => u64::from(u16::from_be_bytes([*first, *second])),
        rest => rest.iter().map(|it| u64::from(*it) << 8).sum(),
    };
    let sum: u64 = bytes.chunks(2).map(word).sum();
    // A sum that is a multiple of it but not zero stays it, and the complement is zero as it should be.
    let folded = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
    !u16::try_from(folded).unwrap()
}

/// A socket that datagrams are waited for at.
pub(crate) fn server(namespace: &Namespace, address: SocketAddr) -> UdpSocket {
    let server = namespace.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    server
}

/// The next datagram.
pub(crate) fn received(server: &UdpSocket) -> String {
    let mut buffer = [0; 64];
    let length = server.recv(&mut buffer).unwrap_or_else(|error| panic!("nothing came: {error}"));
    String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned()
}

/// Whether nothing has come.
pub(crate) fn is_silent(server: &UdpSocket) -> bool {
    server.set_nonblocking(true).unwrap();
    let silent = server.recv(&mut [0; 64]).is_err_and(|it| it.kind() == std::io::ErrorKind::WouldBlock);
    server.set_nonblocking(false).unwrap();
    silent
}

/// Sends a question from one address to another, again if it is lost, and an answer back.
pub(crate) fn exchange((from, own): (&Namespace, IpAddr), (to, address): (&Namespace, IpAddr)) {
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let server = server(to, SocketAddr::new(any, 5000));
    server.set_read_timeout(Some(TURN)).unwrap();
    let mut buffer = [0; 16];
    let mut bound = None;
    for _ in 0..TURNS {
        // An address cannot be used before it is known that nobody else has it.
        bound = bound.or_else(|| from.run(|| UdpSocket::bind((own, 0))).unwrap().ok());
        if let Some(client) = &bound {
            client.set_read_timeout(Some(TURN)).unwrap();
            client.send_to(b"question", (address, 5000)).unwrap();
        }
        let (Ok((_, peer)), Some(client)) = (server.recv_from(&mut buffer), &bound) else { continue };
        server.send_to(b"answer", peer).unwrap();
        if client.recv(&mut buffer).is_ok_and(|length| buffer.get(..length) == Some(b"answer".as_slice())) {
            return;
        }
    }
    panic!("no answer from {address} to {own}");
}

/// What the rules with a comment have counted in a chain. None if nobody can say.
pub(crate) fn counted(node: &Namespace, table: &str, chain: &str, comment: &str) -> Option<u64> {
    let listed = node.run(|| nft(&["list", "chain", "inet", table, chain], "")).unwrap()?;
    let of = |line: &str| line.split_once("counter packets ")?.1.split_once(' ')?.0.parse::<u64>().ok();
    let rules = listed.lines().filter(|it| it.ends_with(&format!("comment \"{comment}\"")));
    Some(rules.map(|it| of(it).unwrap_or_else(|| panic!("no counter in {it}"))).sum())
}

/// Reads the prefixes of packets that are logged.
pub(crate) struct Prefixes {
    log: Log,
    read: VecDeque<String>,
}

impl Prefixes {
    pub(crate) fn open(node: &Namespace) -> Prefixes {
        let log = node.run(|| Log::open(LOG_GROUP, LogOptions::default()).unwrap()).unwrap();
        Prefixes { log, read: VecDeque::new() }
    }

    /// The prefix of the next one.
    pub(crate) fn next(&mut self) -> String {
        if self.read.is_empty() {
            let read = self.log.read(LIMIT, |it| self.read.push_back(it.prefix.to_owned())).unwrap();
            assert_eq!((read.lost, read.overruns), (0, 0));
        }
        self.read.pop_front().unwrap_or_else(|| panic!("nothing is logged"))
    }
}
