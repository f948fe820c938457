//! Ports of a sentence, and the ports that policy can tell apart.

use std::collections::BTreeSet;

use palisade_model::{ContainerPort, Policy, PortMatch, PortProtocol, PortSet, Protocol};

use super::sentence::Wrong;
use super::{PortSpec, Ports};
use crate::resolve::PortAsked;

const PROTOCOLS: [PortProtocol; 3] = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp];

/// Ports to speak of where any would do that no policy mentions.
const PLAIN: [u16; 3] = [80, 443, 8080];

/// Whether a word can begin the ports of a sentence.
pub(super) fn begins(word: &str) -> bool {
    let protocol = word.split(['/', ',']).next().unwrap_or_default();
    Protocol::parse(protocol).is_some()
}

/// `tcp/80,443`, `tcp/http udp/53`, `tcp`, `icmp`; no words at all are all ports.
pub(super) fn read(words: &[&str]) -> Result<Ports, Wrong> {
    if words.is_empty() {
        return Ok(Ports::NotSaid);
    }
    let mut specs = Vec::new();
    let mut protocol = None;
    let mut comma = false;
    for word in words {
        if !comma && !begins(word) {
            return Err(Wrong::new(word, format!("`{word}` is out of place; ports end the sentence, as in tcp/80,443")));
        }
        for piece in word.split(',').filter(|piece| !piece.is_empty()) {
            let port = match piece.split_once('/') {
                Some((name, port)) => {
                    protocol = Some(Protocol::parse(name).ok_or_else(|| unknown(name))?);
                    Some(port)
                }
                None if begins(piece) => {
                    protocol = Protocol::parse(piece);
                    None
                }
                None => Some(piece),
            };
            specs.push(spec(protocol.ok_or_else(|| unknown(piece))?, piece, port)?);
        }
        comma = word.ends_with(',');
    }
    Ok(Ports::Of(specs))
}

/// The port of `shop/db:5432`.
pub(super) fn of_tcp(port: &str) -> Result<PortSpec, Wrong> {
    spec(Protocol::TCP, port, Some(port))
}

fn unknown(protocol: &str) -> Wrong {
    Wrong::new(protocol, format!("`{protocol}` is not a protocol; write tcp, udp, sctp or icmp"))
}

fn spec(protocol: Protocol, word: &str, port: Option<&str>) -> Result<PortSpec, Wrong> {
    match (protocol, port) {
        (Protocol::Port(protocol), None) => Ok(PortSpec::Every(protocol)),
        (Protocol::Icmp | Protocol::Other(_), None) => Ok(PortSpec::One { protocol, port: PortAsked::None }),
        (Protocol::Icmp | Protocol::Other(_), Some(_)) => Err(Wrong::new(word, format!("`{word}`: {protocol} has no ports"))),
        (Protocol::Port(_), Some(text)) => {
            let port = read_port(text).ok_or_else(|| {
                Wrong::new(word, format!("`{text}` is not a port")).help("write a number from 1 to 65535, or the name of a container port")
            })?;
            Ok(PortSpec::One { protocol, port })
        }
    }
}

fn read_port(text: &str) -> Option<PortAsked> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|port| *port > 0).map(PortAsked::Number);
    }
    let name = text.to_ascii_lowercase();
    let shaped = name.len() <= 15 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (shaped && name.bytes().any(|byte| byte.is_ascii_lowercase())).then_some(PortAsked::Name(name))
}

/// One question about a port, with its name resolved.
pub(super) type Ask = (Protocol, Option<u16>);

/// What to ask of one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// Every port of the protocol that can be told apart.
    Every(PortProtocol),
    /// This one.
    One(Ask),
}

/// What a sentence without ports asks.
pub(super) fn everything() -> Vec<Wish> {
    PROTOCOLS.into_iter().map(Wish::Every).chain([Wish::One((Protocol::Icmp, None))]).collect()
}

/// For each protocol, one port of every interval that some of the policies tells apart, and one that none mentions.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart {
    tcp: Vec<u16>,
    udp: Vec<u16>,
    sctp: Vec<u16>,
}

impl Apart {
    /// `named` are the ports of the destinations: a name in a rule is the number it has there.
    pub(super) fn by<'p>(policies: impl Iterator<Item = &'p Policy> + Clone, named: &BTreeSet<&ContainerPort>) -> Apart {
        let of = |protocol| representatives(&ranges(policies.clone(), named, protocol));
        Apart { tcp: of(PortProtocol::Tcp), udp: of(PortProtocol::Udp), sctp: of(PortProtocol::Sctp) }
    }

    /// The questions that wishes stand for.
    pub(super) fn asks(&self, wishes: &[Wish]) -> Vec<Ask> {
        let mut asks = Vec::new();
        for wish in wishes {
            match wish {
                Wish::One(ask) => asks.push(*ask),
                Wish::Every(protocol) => asks.extend(self.of(*protocol).iter().map(|port| (Protocol::Port(*protocol), Some(*port)))),
            }
        }
        asks
    }

    fn of(&self, protocol: PortProtocol) -> &[u16] {
        match protocol {
            PortProtocol::Tcp => &self.tcp,
            PortProtocol::Udp => &self.udp,
            PortProtocol::Sctp => &self.sctp,
        }
    }
}

fn ranges<'p>(
    policies: impl Iterator<Item = &'p Policy>,
    named: &BTreeSet<&ContainerPort>,
    protocol: PortProtocol,
) -> BTreeSet<(u16, u16)> {
    let mut ranges = BTreeSet::new();
    let mut names = BTreeSet::new();
    for entry in policies.flat_map(port_entries) {
        match entry {
            PortMatch::Numbers { protocol: of, ports } if *of == protocol => {
                ranges.insert((ports.first(), ports.last()));
            }
            PortMatch::Named { name, .. } => {
                names.insert(name.as_ref());
            }
            PortMatch::Numbers { .. } | PortMatch::Unreadable => {}
        }
    }
    let meant = |port: &&&ContainerPort| port.protocol == protocol && port.name.as_deref().is_some_and(|name| names.contains(name));
    ranges.extend(named.iter().filter(meant).map(|port| (port.port, port.port)));
    ranges
}

/// What a policy says about ports, in all of its rules.
pub(super) fn port_entries(policy: &Policy) -> impl Iterator<Item = &PortMatch> {
    let rules = policy.rules.egress.iter().chain(&policy.rules.ingress);
    rules.flat_map(|rule| match &rule.ports {
        PortSet::Of(entries) => entries.as_slice(),
        PortSet::Any => &[],
    })
}

/// The first port of each interval between two bounds, and one port in no range at all, which comes last.
fn representatives(ranges: &BTreeSet<(u16, u16)>) -> Vec<u16> {
    let bounds = ranges.iter().flat_map(|(first, last)| [Some((*first).max(1)), last.checked_add(1)]).flatten();
    let starts: BTreeSet<u16> = bounds.chain([1]).collect();
    let mentioned = |port: u16| ranges.iter().any(|(first, last)| *first <= port && port <= *last);
    let mut chosen: Vec<u16> = starts.iter().copied().filter(|port| mentioned(*port)).collect();
    chosen.extend(PLAIN.into_iter().chain(starts).find(|port| !mentioned(*port)));
    chosen
}
