//! What one program does with one class: port by port, with the origin of each verdict. Every verdict is the engine's.

use std::collections::BTreeSet;

use palisade_engine::{Judge, Judged, Meeting};
use palisade_model::{Direction, End, Endpoint, Flow, Model, Place, PortMatch, PortProtocol, PortSet, Protocol, Verdict};

/// The ports of each protocol that fare unlike the rest, and the rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leaf<F> {
    pub(crate) ranges: Vec<(PortProtocol, u16, u16, F)>,
    /// Every other port and protocol.
    pub(crate) rest: F,
}

/// A verdict and the place of where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fate {
    pub(crate) accepted: bool,
    pub(crate) origin: usize,
}

/// What becomes of a meeting. `place` gives each origin its own.
pub(crate) fn leaf<'m>(
    model: &Model,
    meeting: &Meeting<'m>,
    direction: Direction,
    mut place: impl FnMut(&Judge<'_, 'm>, Judged<'m>) -> usize,
) -> Leaf<Fate> {
    let judge = Judge::new(model, &meeting.among, &meeting.isolating, direction);
    leaf_of(model, meeting, direction, |flow| {
        let judged = judge.decide(flow);
        Fate { accepted: is_open(judged), origin: place(&judge, judged) }
    })
}

/// Whether a packet passes. A name that nobody has resolved opens nothing.
pub(crate) fn is_open(judged: Judged<'_>) -> bool {
    judged.verdict == Verdict::Accept
}

/// What becomes of a meeting, flow by flow, whoever says it. It must say the same of flows that no rule of the meeting tells apart.
pub(crate) fn leaf_of<F: Clone + PartialEq>(
    model: &Model,
    meeting: &Meeting<'_>,
    direction: Direction,
    mut fate_of: impl FnMut(&Flow) -> F,
) -> Leaf<F> {
    let (from, to) = match direction {
        Direction::Egress => (meeting.subject, meeting.peer),
        Direction::Ingress => (meeting.peer, meeting.subject),
    };
    let mut fate = |protocol: Protocol, port: Option<u16>| fate_of(&Flow { from, to, protocol, port, path: meeting.path });
    // Only rules without ports match what has none, so all other protocols fare alike, and so does every port that no rule speaks of.
    let rest = fate(Protocol::Icmp, None);
    let cuts = cuts(model, meeting, to);
    let mut ranges: Vec<(PortProtocol, u16, u16, F)> = Vec::new();
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

/// Ports at which something may change. Below the first of a protocol only rules without ports match.
fn cuts(model: &Model, meeting: &Meeting<'_>, to: End) -> BTreeSet<(PortProtocol, u16)> {
    let mut cuts: BTreeSet<(PortProtocol, u16)> = BTreeSet::new();
    let mut cut = |protocol, first: u16, last: u16| {
        cuts.insert((protocol, first));
        cuts.extend(last.checked_add(1).map(|next| (protocol, next)));
    };
    for rule in meeting.among.iter().flat_map(|it| &it.rules) {
        let PortSet::Of(entries) = &rule.ports else { continue };
        for entry in entries {
            match entry {
                PortMatch::Numbers { protocol, ports } => cut(*protocol, ports.first(), ports.last()),
                // Whichever port the unknown pod calls so.
                PortMatch::Named { protocol, .. } if model.is_unknown_pod(&to) => {
                    let all = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp];
                    all.into_iter().filter(|it| protocol.is_none_or(|own| own == *it)).for_each(|it| cut(it, 0, u16::MAX));
                }
                PortMatch::Named { name, .. } => {
                    let ports = pod(model, to).map_or(&[][..], |it| it.ports.as_slice());
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
