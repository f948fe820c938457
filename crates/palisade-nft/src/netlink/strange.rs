//! A rule that no ruleset has: what can be said of it, and what it does with a packet as far as that can be known.

use std::net::IpAddr;

use palisade_netlink::Attributes;

use crate::netlink::expression::{Compare, Expression, LINK_LAYER, NETWORK, TRANSPORT, read_each};
use crate::netlink::rule::state_bit;
use crate::netlink::uapi::meta;
use crate::ruleset::Verdict;
use crate::trace::{At, Packet};

/// Its expressions, as far as they can be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strange {
    expressions: Vec<Result<Expression, String>>,
}

/// What a rule does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does<'a> {
    /// Goes on with the next rule, with this number in the packet.
    GoesOn(u32),
    Goes(&'a Verdict),
    /// It asks something that nobody here can answer.
    Unknown,
}

/// Registers are sixteen times four bytes; the first four names stand for sixteen bytes each.
const REGISTERS: usize = 64;
/// `RTN_UNICAST` and `RTN_LOCAL`.
const UNICAST: u32 = 1;
const LOCAL: u32 = 2;
const LINK: usize = 16;
/// `ARPHRD_ETHER`.
const ETHERNET: u16 = 1;

impl Strange {
    pub(crate) fn read(list: Option<&Attributes<'_>>) -> Strange {
        Strange { expressions: list.map(read_each).unwrap_or_default() }
    }

    /// What it is made of.
    pub(crate) fn words(&self) -> String {
        let word = |it: &Result<Expression, String>| match it {
            Ok(expression) => described(expression),
            Err(name) => name.clone(),
        };
        let words: Vec<String> = self.expressions.iter().map(word).collect();
        format!("`{}`", words.join(" "))
    }

    /// Addresses that it speaks of; of a network, one that is in it.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let read = |it: &[u8]| match it {
            [a, b] => Some(IpAddr::from([*a, *b, 0, 1])),
            [a, b, c] => Some(IpAddr::from([*a, *b, *c, 1])),
            [a, b, c, d] => Some(IpAddr::from([*a, *b, *c, *d])),
            it => <[u8; 16]>::try_from(it).ok().map(IpAddr::from),
        };
        self.constants().filter_map(read).collect()
    }

    /// Ports that it may speak of.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.constants().filter_map(|it| it.try_into().ok().map(u16::from_be_bytes)).collect()
    }

    fn constants(&self) -> impl Iterator<Item = &[u8]> {
        self.expressions.iter().flatten().filter_map(|it| if let Expression::Compare(_, with) = it { Some(with.as_slice()) } else { None })
    }

    pub(crate) fn run(&self, packet: &Packet, mut number: u32) -> Does<'_> {
        let mut registers = [0_u8; REGISTERS];
        for expression in &self.expressions {
            let Ok(expression) = expression else { return Does::Unknown };
            match step(expression, packet, &mut number, &mut registers) {
                Step::Next => {}
                Step::Ends => return Does::GoesOn(number),
                Step::Goes(verdict) => return Does::Goes(verdict),
                Step::Unknown => return Does::Unknown,
            }
        }
        Does::GoesOn(number)
    }
}

enum Step<'a> {
    Next,
    /// The rule does not match.
    Ends,
    Goes(&'a Verdict),
    Unknown,
}

fn step<'a>(expression: &'a Expression, packet: &Packet, number: &mut u32, registers: &mut [u8; REGISTERS]) -> Step<'a> {
    match expression {
        Expression::Meta(key) => match meta_value(*key, packet, *number) {
            Some(value) => load(registers, 1, &value),
            None => Step::Unknown,
        },
        Expression::MetaTo { key, to } => match meta_value(*key, packet, *number) {
            Some(value) => load(registers, *to, &value),
            None => Step::Unknown,
        },
        Expression::SetPriority => match registers.first_chunk() {
            Some(value) => {
                *number = u32::from_ne_bytes(*value);
                Step::Next
            }
            None => Step::Unknown,
        },
        Expression::State => load(registers, 1, &state_bit(packet.state).to_ne_bytes()),
        Expression::SourceType => load(registers, 1, &if packet.source_is_local { LOCAL } else { UNICAST }.to_ne_bytes()),
        Expression::Payload { base, offset, length, to } => match payload(*base, *offset, *length, packet) {
            Payload::Bytes(bytes) => load(registers, *to, &bytes),
            Payload::Unknown => Step::Unknown,
        },
        Expression::Mask(mask) => {
            registers.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
            Step::Next
        }
        Expression::Compare(compare, with) => {
            let Some(held) = registers.get(..with.len()) else { return Step::Unknown };
            let holds = match compare {
                Compare::Equal => held == with.as_slice(),
                Compare::NotEqual => held != with.as_slice(),
                Compare::AtMost => held <= with.as_slice(),
                Compare::AtLeast => held >= with.as_slice(),
            };
            if holds { Step::Next } else { Step::Ends }
        }
        Expression::Value(value) => load(registers, 1, value),
        Expression::Verdict(verdict) => Step::Goes(verdict),
        Expression::Lookup(_) => Step::Unknown,
        Expression::Counter | Expression::Log { .. } => Step::Next,
    }
}

fn load<'a>(registers: &mut [u8; REGISTERS], to: u32, value: &[u8]) -> Step<'a> {
    let start = match to {
        1..=4 => (to - 1) * 16,
        8..=23 => (to - 8) * 4,
        _ => return Step::Unknown,
    };
    let start = usize::try_from(start).unwrap_or(REGISTERS);
    match registers.get_mut(start..start + value.len()) {
        Some(register) => {
            register.copy_from_slice(value);
            Step::Next
        }
        None => Step::Unknown,
    }
}

fn meta_value(key: u32, packet: &Packet, number: u32) -> Option<Vec<u8>> {
    match key {
        meta::PROTOCOL => Some(vec![packet.protocol]),
        meta::FAMILY => Some(vec![if packet.source.is_ipv4() { 2 } else { 10 }]),
        meta::PRIORITY => Some(number.to_ne_bytes().to_vec()),
        meta::LINK => match &packet.at {
            At::Frame { link, .. } | At::Ingress { link } => {
                let mut name = link.as_bytes().to_vec();
                name.resize(LINK, 0);
                Some(name)
            }
            At::Forward | At::Input | At::Output => None,
        },
        meta::LINK_TYPE => match &packet.at {
            At::Frame { .. } | At::Ingress { .. } => Some(ETHERNET.to_ne_bytes().to_vec()),
            At::Forward | At::Input | At::Output => None,
        },
        _ => None,
    }
}

enum Payload {
    Bytes(Vec<u8>),
    Unknown,
}

/// The part of a header that a connection's first packet is known to have.
fn payload(base: u32, offset: u32, length: u32, packet: &Packet) -> Payload {
    let (start, known) = match base {
        NETWORK => {
            let start = if packet.source.is_ipv4() { 12 } else { 8 };
            (start, [octets(packet.source), octets(packet.destination)].concat())
        }
        TRANSPORT => match (packet.source_port, packet.port) {
            (Some(source), Some(port)) => (0, [source.to_be_bytes(), port.to_be_bytes()].concat()),
            (None, Some(port)) => (2, port.to_be_bytes().to_vec()),
            (Some(_) | None, None) => (0, Vec::new()),
        },
        LINK_LAYER => (12, packet.frame_type().to_be_bytes().to_vec()),
        _ => (0, Vec::new()),
    };
    let within = || {
        let first = usize::try_from(offset.checked_sub(start)?).ok()?;
        known.get(first..first.checked_add(usize::try_from(length).ok()?)?)
    };
    within().map_or(Payload::Unknown, |it| Payload::Bytes(it.to_vec()))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn described(expression: &Expression) -> String {
    match expression {
        Expression::Meta(meta::PROTOCOL) => "meta l4proto".to_owned(),
        Expression::Meta(meta::FAMILY) => "meta nfproto".to_owned(),
        Expression::Meta(meta::PRIORITY) => "meta priority".to_owned(),
        Expression::Meta(meta::LINK) => "iifname".to_owned(),
        Expression::Meta(key) | Expression::MetaTo { key, .. } => format!("meta key {key}"),
        Expression::SetPriority => "meta priority set".to_owned(),
        Expression::State => "ct state".to_owned(),
        Expression::SourceType => "fib saddr type".to_owned(),
        Expression::Payload { base: NETWORK, offset: 12, length: 4, .. } => "ip saddr".to_owned(),
        Expression::Payload { base: NETWORK, offset: 16, length: 4, .. } => "ip daddr".to_owned(),
        Expression::Payload { base: NETWORK, offset: 8, length: 16, .. } => "ip6 saddr".to_owned(),
        Expression::Payload { base: NETWORK, offset: 24, length: 16, .. } => "ip6 daddr".to_owned(),
        Expression::Payload { base: TRANSPORT, offset: 2, length: 2, .. } => "th dport".to_owned(),
        Expression::Payload { base: LINK_LAYER, offset: 12, length: 2, .. } => "ether type".to_owned(),
        Expression::Payload { base, offset, length, .. } => format!("payload {base},{offset},{length}"),
        Expression::Mask(mask) => format!("& {}", hexadecimal(mask)),
        Expression::Compare(compare, with) => format!("{} {}", sign(*compare), value(with)),
        Expression::Value(held) => value(held),
        Expression::Verdict(Verdict::Accept) => "accept".to_owned(),
        Expression::Verdict(Verdict::Drop) => "drop".to_owned(),
        Expression::Verdict(Verdict::Return) => "return".to_owned(),
        Expression::Verdict(Verdict::Jump(chain)) => format!("jump {chain}"),
        Expression::Verdict(Verdict::Goto(chain)) => format!("goto {chain}"),
        Expression::Lookup(lookup) => format!("@{}", lookup.set),
        Expression::Counter => "counter".to_owned(),
        Expression::Log { prefix, group } => format!("log prefix {prefix:?} group {group}"),
    }
}

fn sign(compare: Compare) -> &'static str {
    match compare {
        Compare::Equal => "==",
        Compare::NotEqual => "!=",
        Compare::AtMost => "<=",
        Compare::AtLeast => ">=",
    }
}

fn value(bytes: &[u8]) -> String {
    match bytes {
        [only] => only.to_string(),
        [a, b] => u16::from_be_bytes([*a, *b]).to_string(),
        [a, b, c, d] => format!("{a}.{b}.{c}.{d}"),
        other => hexadecimal(other),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, it| format!("{text}{it:02x}"))
}
