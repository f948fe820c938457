//! Whole packets, with a number to know them by: a datagram, or the SYN of a connection.

use std::net::{IpAddr, SocketAddr};

use palisade_model::PortProtocol;

use crate::packet::{after_ipv4_header, internet_checksum};

const HOPS: u8 = 64;
const SYN: u8 = 0x02;
/// The bytes of a TCP header without options.
const TCP_HEADER: usize = 20;
const TCP_FLAGS: usize = 13;

/// A packet from the IP header on. SCTP has none: there is nothing of it in a soak.
pub(crate) fn packet(protocol: PortProtocol, source: SocketAddr, destination: SocketAddr, number: u64) -> Vec<u8> {
    let (mut segment, checksum_at) = segment(protocol, source.port(), destination.port(), number);
    let sum = checksum(protocol, source.ip(), destination.ip(), &segment);
    if let Some(field) = segment.get_mut(checksum_at..checksum_at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    let mut whole = header(protocol, source.ip(), destination.ip(), segment.len());
    whole.extend_from_slice(&segment);
    whole
}

/// The number of a datagram.
pub(crate) fn number_of_datagram(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

/// The number of a SYN, as a raw socket of IPv4 gets it. None for any other packet.
pub(crate) fn number_of_syn(packet: &[u8]) -> Option<u64> {
    let segment = after_ipv4_header(packet)?;
    if segment.get(TCP_FLAGS) != Some(&SYN) {
        return None;
    }
    segment.get(TCP_HEADER..).and_then(number_of_datagram)
}

/// What follows the IP header, and where its checksum goes.
fn segment(protocol: PortProtocol, source: u16, destination: u16, number: u64) -> (Vec<u8>, usize) {
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let payload = number.to_be_bytes();
    match protocol {
        PortProtocol::Tcp => {
            let sequence = [0; 8];
            let rest = [5 << 4, SYN, 4, 0, 0, 0, 0, 0];
            ([&ports[..], &sequence, &rest, &payload].concat(), 16)
        }
        PortProtocol::Udp | PortProtocol::Sctp => ([&ports[..], &[0, 16, 0, 0], &payload].concat(), 6),
    }
}

fn checksum(protocol: PortProtocol, source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    let length = u16::try_from(segment.len()).unwrap_or(u16::MAX);
    let mut covered = [octets(source), octets(destination)].concat();
    covered.extend_from_slice(&[0, protocol.number()]);
    covered.extend_from_slice(&length.to_be_bytes());
    covered.extend_from_slice(segment);
    match internet_checksum(&covered) {
        // Zero is for datagrams without one.
        0 => u16::MAX,
        sum => sum,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

/// An IP header. The kernel fills in the checksum of IPv4.
fn header(protocol: PortProtocol, source: IpAddr, destination: IpAddr, length: usize) -> Vec<u8> {
    let addresses = [octets(source), octets(destination)].concat();
    let mut header = if source.is_ipv4() {
        let [high, low] = u16::try_from(length + 20).unwrap_or(u16::MAX).to_be_bytes();
        vec![0x45, 0, high, low, 0, 0, 0x40, 0, HOPS, protocol.number(), 0, 0]
    } else {
        let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, protocol.number(), HOPS]
    };
    header.extend_from_slice(&addresses);
    header
}
