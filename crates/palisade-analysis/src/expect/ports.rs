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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// What some policies say about ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Mentioned {
    ranges: BTreeSet<(PortProtocol, u16, u16)>,
    names: BTreeSet<Box<str>>,
}

impl Mentioned {
    pub(super) fn by<'p>(policies: impl Iterator<Item = &'p Policy>) -> Mentioned {
        let mut mentioned = Mentioned::default();
        let rules = policies.flat_map(|policy| policy.rules.egress.iter().chain(&policy.rules.ingress));
        let entries = rules.flat_map(|rule| match &rule.ports {
            PortSet::Of(entries) => entries.as_slice(),
            PortSet::Any => &[],
        });
        for entry in entries {
            match entry {
                PortMatch::Numbers { protocol, ports } => {
                    mentioned.ranges.insert((*protocol, ports.first(), ports.last()));
                }
                PortMatch::Named { name, .. } => {
                    mentioned.names.insert(name.clone());
                }
                PortMatch::Unreadable => {}
            }
        }
        mentioned
    }

    /// The ports of a pod that are mentioned by their names.
    pub(super) fn named(&self, ports: &[ContainerPort]) -> Vec<ContainerPort> {
        let meant = |port: &&ContainerPort| port.name.as_deref().is_some_and(|name| self.names.contains(name));
        let mut named: Vec<ContainerPort> = ports.iter().filter(meant).cloned().collect();
        named.sort();
        named
    }

    /// The ranges of one protocol; a name is the number that the destination gives it.
    fn ranges(&self, protocol: PortProtocol, ports: &[ContainerPort]) -> BTreeSet<(u16, u16)> {
        let numbers = self.ranges.iter().filter(|(of, _, _)| *of == protocol).map(|(_, first, last)| (*first, *last));
        let named = self.named(ports).into_iter().filter(|port| port.protocol == protocol).map(|port| (port.port, port.port));
        numbers.chain(named).collect()
    }
}

/// The questions that wishes stand for: `Every` is one port of every interval that some of the policies tells apart, and one that none
/// mentions. `ports` are those of the destination.
pub(super) fn asks(wishes: &[Wish], mentioned: &[&Mentioned], ports: &[ContainerPort]) -> Vec<Ask> {
    let mut asks = Vec::new();
    for wish in wishes {
        match wish {
            Wish::One(ask) => asks.push(*ask),
            Wish::Every(protocol) => {
                let ranges = mentioned.iter().flat_map(|it| it.ranges(*protocol, ports)).collect();
                asks.extend(representatives(&ranges).into_iter().map(|port| (Protocol::Port(*protocol), Some(port))));
            }
        }
    }
    asks
}

/// The first port of each interval between two bounds, and one port in no range at all, which comes last.
fn representatives(ranges: &BTreeSet<(u16, u16)>) -> Vec<u16> {
    let mentioned = |port: u16| ranges.range(..=(port, u16::MAX)).any(|(_, last)| port <= *last);
    let starts = starts(ranges);
    let mut chosen: Vec<u16> = starts.iter().copied().filter(|port| mentioned(*port)).collect();
    chosen.extend(PLAIN.into_iter().chain(starts).find(|port| !mentioned(*port)));
    chosen
}

/// Where a port may begin to differ from the one before it.
fn starts(ranges: &BTreeSet<(u16, u16)>) -> BTreeSet<u16> {
    let bounds = ranges.iter().flat_map(|(first, last)| [Some((*first).max(1)), last.checked_add(1)]).flatten();
    bounds.chain([1]).collect()
}

/// Which ports the policies of one question tell apart.
#[derive(Clone, Debug)]
pub(super) struct Intervals {
    tcp: BTreeSet<u16>,
    udp: BTreeSet<u16>,
    sctp: BTreeSet<u16>,
}

impl Intervals {
    /// `ports` are those of the destination.
    pub(super) fn of(mentioned: &Mentioned, ports: &[ContainerPort]) -> Intervals {
        let of = |protocol| starts(&mentioned.ranges(protocol, ports));
        Intervals { tcp: of(PortProtocol::Tcp), udp: of(PortProtocol::Udp), sctp: of(PortProtocol::Sctp) }
    }

    /// The first question that no policy can tell from this one.
    pub(super) fn first(&self, (protocol, port): Ask) -> Ask {
        let starts = match protocol {
            Protocol::Port(PortProtocol::Tcp) => &self.tcp,
            Protocol::Port(PortProtocol::Udp) => &self.udp,
            Protocol::Port(PortProtocol::Sctp) => &self.sctp,
            Protocol::Icmp | Protocol::Other(_) => return (protocol, port),
        };
        (protocol, port.map(|port| starts.range(..=port).next_back().copied().unwrap_or(port)))
    }
}
