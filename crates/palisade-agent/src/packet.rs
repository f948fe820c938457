//! The beginning of a packet, from its IP header on: who, to whom, and which connection.

use std::net::IpAddr;

use etherparse::err::ip::LaxHeaderSliceError;
use etherparse::{Ipv6ExtensionSlice, LaxIpSlice};

use crate::book::Unreadable;

/// What tells connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Source and destination.
    pub(crate) ports: Option<(u16, u16)>,
    /// Type and code.
    pub(crate) icmp: Option<(u8, u8)>,
}

/// Reads a packet that may be cut anywhere after its IP header.
pub(crate) fn read(packet: &[u8]) -> Result<Tuple, Unreadable> {
    let (ip, stopped) = LaxIpSlice::from_slice(packet).map_err(|error| match error {
        LaxHeaderSliceError::Len(_) => Unreadable::CutShort,
        LaxHeaderSliceError::Content(_) => Unreadable::NotIp,
    })?;
    let payload = ip.payload();
    let protocol = payload.ip_number.0;
    let mut tuple = Tuple { source: ip.source_addr(), destination: ip.destination_addr(), protocol, ports: None, icmp: None };
    // What follows is the transport's header only in the first fragment, and only if all before it could be read.
    if stopped.is_some() || is_later_fragment(&ip) {
        return Ok(tuple);
    }
    match (protocol, payload.payload) {
        (6 | 17 | 132, [a, b, c, d, ..]) => tuple.ports = Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))),
        (1 | 58, [kind, code, ..]) => tuple.icmp = Some((*kind, *code)),
        _ => {}
    }
    Ok(tuple)
}

fn is_later_fragment(ip: &LaxIpSlice<'_>) -> bool {
    match ip {
        LaxIpSlice::Ipv4(ip) => ip.header().fragments_offset().value() != 0,
        LaxIpSlice::Ipv6(ip) => ip.extensions().clone().into_iter().any(|it| match it {
            Ipv6ExtensionSlice::Fragment(it) => it.fragment_offset().value() != 0,
            Ipv6ExtensionSlice::HopByHop(_)
            | Ipv6ExtensionSlice::Routing(_)
            | Ipv6ExtensionSlice::DestinationOptions(_)
            | Ipv6ExtensionSlice::Authentication(_) => false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as hexadecimal digits, with blanks between them.
    fn bytes(text: &str) -> Vec<u8> {
        text.split_whitespace().map(|it| u8::from_str_radix(it, 16).unwrap()).collect()
    }

    /// From 10.1.0.4 to 10.1.0.7.
    fn ipv4(protocol: u8, fragment: u16, rest: &str) -> Vec<u8> {
        let [a, b] = fragment.to_be_bytes();
        let rest = bytes(rest);
        let length = u8::try_from(20 + rest.len()).unwrap();
        let mut packet = vec![0x45, 0, 0, length, 0, 1, a, b, 64, protocol, 0, 0, 10, 1, 0, 4, 10, 1, 0, 7];
        packet.extend(rest);
        packet
    }

    /// From fd00::4 to fd00::7.
    fn ipv6(next: u8, rest: &str) -> Vec<u8> {
        let rest = bytes(rest);
        let mut packet = vec![0x60, 0, 0, 0, 0, u8::try_from(rest.len()).unwrap(), next, 64];
        for last in [4, 7] {
            packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        packet.extend(rest);
        packet
    }

    const PORTS: &str = "9c 40 15 38 00 00 00 00";
    const READ_PORTS: Option<(u16, u16)> = Some((40_000, 5432));

    fn check(packet: &[u8], protocol: u8, ports: Option<(u16, u16)>, icmp: Option<(u8, u8)>) {
        let (source, destination) = if packet[0] >> 4 == 4 { ("10.1.0.4", "10.1.0.7") } else { ("fd00::4", "fd00::7") };
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        assert_eq!(read(packet), Ok(Tuple { source, destination, protocol, ports, icmp }), "{packet:02x?}");
    }

    #[test]
    fn protocols_with_ports_have_them() {
        for protocol in [6, 17, 132] {
            check(&ipv4(protocol, 0, PORTS), protocol, READ_PORTS, None);
            check(&ipv6(protocol, PORTS), protocol, READ_PORTS, None);
        }
    }

    #[test]
    fn icmp_has_type_and_code() {
        check(&ipv4(1, 0, "03 04 00 00"), 1, None, Some((3, 4)));
        check(&ipv6(58, "80 00 00 00"), 58, None, Some((128, 0)));
    }

    #[test]
    fn other_protocols_have_neither() {
        check(&ipv4(47, 0, PORTS), 47, None, None);
        check(&ipv6(59, ""), 59, None, None);
    }

    #[test]
    fn options_and_extension_headers_are_passed_over() {
        let mut packet = ipv4(6, 0, &format!("01 01 01 01 {PORTS}"));
        packet[0] = 0x46;
        check(&packet, 6, READ_PORTS, None);
        // Hop-by-hop options, routing, destination options, then UDP.
        let headers = "2b 00 01 04 00 00 00 00 3c 00 00 00 00 00 00 00 11 00 01 04 00 00 00 00";
        check(&ipv6(0, &format!("{headers} {PORTS}")), 17, READ_PORTS, None);
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        check(&ipv4(17, 0x2000, PORTS), 17, READ_PORTS, None);
        check(&ipv4(17, 0x0010, PORTS), 17, None, None);
        check(&ipv6(44, &format!("11 00 00 01 00 00 00 05 {PORTS}")), 17, READ_PORTS, None);
        check(&ipv6(44, &format!("11 00 00 10 00 00 00 05 {PORTS}")), 17, None, None);
    }

    #[test]
    fn a_packet_cut_at_any_length_has_what_is_left() {
        for packet in [ipv4(6, 0, PORTS), ipv6(6, PORTS), ipv6(0, &format!("06 00 01 04 00 00 00 00 {PORTS}"))] {
            let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
            let transport = packet.len() - 8;
            for length in 0..packet.len() {
                let read = read(&packet[..length]);
                match length {
                    _ if length < header => assert_eq!(read, Err(Unreadable::CutShort), "{length}"),
                    _ => {
                        let tuple = read.unwrap();
                        assert_eq!(tuple.ports, (length >= transport + 4).then_some((40_000, 5432)), "{length}");
                        assert_eq!(tuple.protocol, if length >= transport { 6 } else { packet[6] }, "{length}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_ip_packet_is_refused() {
        assert_eq!(read(&[]), Err(Unreadable::CutShort));
        assert_eq!(read(&[0x50; 60]), Err(Unreadable::NotIp));
        assert_eq!(read(&[0x41; 60]), Err(Unreadable::NotIp));
    }
}
