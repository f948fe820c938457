//! Packets of a soak, each with a number that identifies it: a datagram, or the SYN of a connection.

use std::io;
use std::net::{IpAddr, SocketAddr};

use etherparse::{Ipv4HeaderSlice, PacketBuilder, TcpSlice};
use palisade_model::PortProtocol;

const HOPS: u8 = 64;
const WINDOW: u16 = 1024;

/// A packet from the IP header on, with its number as payload. A soak has no SCTP, and an error says so.
pub(crate) fn packet(protocol: PortProtocol, source: SocketAddr, destination: SocketAddr, number: u64) -> io::Result<Vec<u8>> {
    let ip = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOPS),
        (from, to) => return Err(io::Error::other(format!("no packet can go from {from} to {to}"))),
    };
    let (payload, mut packet) = (number.to_be_bytes(), Vec::new());
    let written = match protocol {
        PortProtocol::Tcp => ip.tcp(source.port(), destination.port(), 0, WINDOW).syn().write_to_vec(&mut packet, &payload),
        PortProtocol::Udp => ip.udp(source.port(), destination.port()).write_to_vec(&mut packet, &payload),
        PortProtocol::Sctp => return Err(io::Error::other("a soak sends no SCTP")),
    };
    written.map_err(io::Error::other)?;
    Ok(packet)
}

/// The number of a datagram.
pub(crate) fn number_of_datagram(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

/// The number of a SYN, as a raw socket of IPv4 receives the packet. None for any other packet.
pub(crate) fn number_of_syn(packet: &[u8]) -> Option<u64> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let segment = TcpSlice::from_slice(packet.get(header.slice().len()..)?).ok()?;
    if segment.syn() && !segment.ack() { number_of_datagram(segment.payload()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: PortProtocol, from: &str, to: &str) -> Vec<u8> {
        packet(protocol, from.parse().unwrap(), to.parse().unwrap(), 7).unwrap()
    }

    #[test]
    fn packets_are_what_the_kernel_would_send() {
        let datagram = [
            0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0x26, 0xc7, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
            0x0f, 0xa0, 0, 80, 0, 16, 0xdb, 0xd4, // UDP
            0, 0, 0, 0, 0, 0, 0, 7,
        ];
        assert_eq!(written(PortProtocol::Udp, "10.0.0.1:4000", "10.0.0.2:80"), datagram);
        let syn = written(PortProtocol::Tcp, "[fd00::1]:4000", "[fd00::2]:80");
        assert_eq!(
            (syn.len(), &syn[..8], &syn[40..60]),
            (68, &[0x60, 0, 0, 0, 0, 28, 6, 64][..], &[0x0f, 0xa0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 4, 0, 0xa1, 0xdf, 0, 0][..])
        );
    }

    #[test]
    fn only_a_syn_has_a_number() {
        let mut packet = written(PortProtocol::Tcp, "10.0.0.1:4000", "10.0.0.2:80");
        assert_eq!(number_of_syn(&packet), Some(7));
        // SYN and ACK: the answer of a server.
        packet[33] = 0x12;
        assert_eq!(number_of_syn(&packet), None);
        assert_eq!(number_of_syn(&packet[..39]), None);
    }

    #[test]
    fn what_no_soak_sends_is_refused() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(packet(PortProtocol::Udp, at("10.0.0.1:1"), at("[fd00::2]:2"), 7).is_err());
        assert!(packet(PortProtocol::Sctp, at("10.0.0.1:1"), at("10.0.0.2:2"), 7).is_err());
    }
}
