//! What one program does with one class: port by port, with the origin of each verdict. Every verdict is the engine's.

use std::collections::BTreeSet;

use palisade_engine::{decide_direction, selects};
use palisade_model::{Direction, End, Endpoint, Flow, Model, Path, Place, PortMatch, PortProtocol, PortSet, Protocol, Verdict};

use crate::ruleset::Origin;

/// The ports of each protocol that fare unlike the rest, and the rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaf {
    pub(crate) ranges: Vec<(PortProtocol, u16, u16, Fate)>,
    /// Every other port and protocol.
    pub(crate) rest: Fate,
}

/// A verdict and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fate {
    pub(crate) accepted: bool,
    pub(crate) origin: Origin,
}

/// What happens between a subject and a peer in one direction.
pub(crate) fn leaf(model: &Model, subject: End, peer: End, direction: Direction, path: Path) -> Leaf {
    let (from, to) = match direction {
        Direction::Egress => (subject, peer),
        Direction::Ingress => (peer, subject),
    };
    let fate = |protocol: Protocol, port: Option<u16>| {
        let walk = decide_direction(model, &Flow { from, to, protocol, port, path }, direction);
        // A name that nobody has resolved opens nothing.
        Fate { accepted: walk.verdict == Verdict::Accept, origin: Origin::Policy { direction, reason: walk.reason } }
    };
    // Only rules without ports match what has none, so all other protocols fare alike.
    let rest = fate(Protocol::Icmp, None);
    let cuts = cuts(model, subject, to, direction);
    let mut ranges: Vec<(PortProtocol, u16, u16, Fate)> = Vec::new();
    for protocol in [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp] {
        let starts: Vec<u16> = cuts.iter().filter(|(of, _)| *of == protocol).map(|(_, port)| *port).collect();
        let ends = starts.iter().skip(1).map(|next| next - 1).chain([u16::MAX]);
        for (first, last) in starts.iter().copied().zip(ends) {
            let fate = fate(Protocol::Port(protocol), Some(first));
            match ranges.last_mut() {
                Some((of, _, before, known)) if *of == protocol && *known == fate && before.checked_add(1) == Some(first) => *before = last,
                Some(_) | None => ranges.push((protocol, first, last, fate)),
            }
        }
    }
    ranges.retain(|(.., fate)| *fate != rest);
    Leaf { ranges, rest }
}

/// Ports at which something may change, 0 included, for each protocol.
fn cuts(model: &Model, subject: End, to: End, direction: Direction) -> BTreeSet<(PortProtocol, u16)> {
    let all = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp];
    let mut cuts: BTreeSet<(PortProtocol, u16)> = all.into_iter().map(|protocol| (protocol, 0)).collect();
    let Some(pod) = pod(model, subject) else { return cuts };
    let mut cut = |protocol, first: u16, last: u16| {
        cuts.insert((protocol, first));
        cuts.extend(last.checked_add(1).map(|next| (protocol, next)));
    };
    let rules = model.policies.iter().filter(|policy| selects(model, policy, pod)).flat_map(|policy| policy.rules.of(direction));
    for rule in rules {
        let PortSet::Of(entries) = &rule.ports else { continue };
        for entry in entries {
            match entry {
                PortMatch::Numbers { protocol, ports } => cut(*protocol, ports.first(), ports.last()),
                PortMatch::Named { name, .. } => {
                    let ports = self::pod(model, to).map_or(&[][..], |it| it.ports.as_slice());
                    for port in ports.iter().filter(|it| it.name.as_ref() == Some(name)) {
                        cut(port.protocol, port.port, port.port);
                    }
                }
                PortMatch::Unreadable => {}
            }
        }
    }
    cuts
}

fn pod(model: &Model, end: End) -> Option<&Endpoint> {
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}
