//! Packets that no socket of the kernel makes: ICMP echo, and the first two chunks of SCTP.

use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type};

/// An echo request. The kernel fills in the checksum of ICMPv6 only.
pub(crate) fn echo_request(ipv4: bool, id: u16) -> Vec<u8> {
    let (echo, payload) = (IcmpEchoHeader { id, seq: 1 }, b"palisade");
    let header = match ipv4 {
        true => Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), payload).to_bytes().to_vec(),
        false => Icmpv6Header::new(Icmpv6Type::EchoRequest(echo)).to_bytes().to_vec(),
    };
    [&header[..], payload].concat()
}

/// Whether this is the answer to an echo request. IPv4 comes with its header.
pub(crate) fn is_echo_reply(ipv4: bool, bytes: &[u8], id: u16) -> bool {
    let bytes = if ipv4 { after_ipv4_header(bytes) } else { Some(bytes) };
    let wanted = if ipv4 { 0 } else { 129 };
    bytes.is_some_and(|it| it.first() == Some(&wanted) && it.get(4..6) == Some(&id.to_be_bytes()))
}

/// What follows the header of an IPv4 packet.
pub(crate) fn after_ipv4_header(bytes: &[u8]) -> Option<&[u8]> {
    let words = usize::from(bytes.first()? & 0x0f);
    bytes.get(words * 4..)
}

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;

/// What became of an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SctpAnswer {
    Accepted,
    Aborted,
}

/// What an SCTP packet with one INIT, INIT ACK or ABORT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sctp {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    chunk: u8,
    verification: u32,
    initiate: u32,
}

impl Sctp {
    /// The first packet of an association.
    pub(crate) fn init(source: u16, destination: u16) -> Sctp {
        Sctp { source, destination, chunk: INIT, verification: 0, initiate: 0x5041_4c49 }
    }

    pub(crate) fn is_init(&self) -> bool {
        self.chunk == INIT
    }

    /// What this says to an INIT of ours, if it is an answer to it.
    pub(crate) fn answer_to(&self, init: &Sctp) -> Option<SctpAnswer> {
        let ours = (self.source, self.destination) == (init.destination, init.source) && self.verification == init.initiate;
        match self.chunk {
            INIT_ACK if ours => Some(SctpAnswer::Accepted),
            ABORT if ours => Some(SctpAnswer::Aborted),
            _ => None,
        }
    }

    /// The end of an association that nobody wants.
    pub(crate) fn abort(&self) -> Sctp {
        Sctp { chunk: ABORT, ..self.ack() }
    }

    /// The second packet of the association.
    pub(crate) fn ack(&self) -> Sctp {
        Sctp {
            source: self.destination,
            destination: self.source,
            chunk: INIT_ACK,
            verification: self.initiate,
            initiate: self.initiate.rotate_left(8),
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut packet = Vec::with_capacity(32);
        packet.extend(self.source.to_be_bytes());
        packet.extend(self.destination.to_be_bytes());
        packet.extend(self.verification.to_be_bytes());
        packet.extend([0; 4]);
        // Chunk: kind, flags, length; tag, receiver window, streams out and in, first number.
        if self.chunk == ABORT {
            packet.extend([ABORT, 0, 0, 4]);
        } else {
            packet.extend([self.chunk, 0, 0, 20]);
            packet.extend(self.initiate.to_be_bytes());
            packet.extend(65_536_u32.to_be_bytes());
            packet.extend([0, 1, 0, 1]);
            packet.extend(self.initiate.to_be_bytes());
        }
        // Conntrack drops what has a wrong one.
        let sum = crc32c(&packet).to_le_bytes();
        if let Some(field) = packet.get_mut(8..12) {
            field.copy_from_slice(&sum);
        }
        packet
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Sctp> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let half = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
        let chunk = *bytes.get(12)?;
        let initiate = if chunk == ABORT { 0 } else { word(16)? };
        Some(Sctp { source: half(0)?, destination: half(2)?, verification: word(4)?, chunk, initiate })
    }
}

/// CRC-32C (Castagnoli), bit by bit: packets here have 32 bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn an_echo_request_has_its_checksum() {
        assert_eq!(echo_request(true, 77), *b"\x08\x00\x43\x20\x00\x4d\x00\x01palisade");
        assert_eq!(echo_request(false, 77), *b"\x80\x00\x00\x00\x00\x4d\x00\x01palisade");
    }

    #[test]
    fn an_init_is_answered_by_its_own_ack_only() {
        let init = Sctp::init(1000, 80);
        assert_eq!(Sctp::read(&init.write()), Some(init));
        let ack = Sctp::read(&init.ack().write()).unwrap();
        assert_eq!((ack.answer_to(&init), ack.is_init()), (Some(SctpAnswer::Accepted), false));
        assert_eq!(ack.answer_to(&Sctp::init(1001, 80)), None);
        assert_eq!(Sctp::read(&init.abort().write()).unwrap().answer_to(&init), Some(SctpAnswer::Aborted));
        assert_eq!(Sctp::read(&init.write()[..19]), None);
    }
}
