//! What one program does with one class: port by port, with the origin of each verdict. Every verdict is the engine's.

use palisade_engine::{ByPort, Judge, Judged, Meeting};
use palisade_model::{Direction, End, Endpoint, Model, NetworkId, Place, PortMatch, PortProtocol, PortSet, Protocol, Verdict};

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

impl<F: Copy + PartialEq> Leaf<F> {
    /// What has to come before another leaf, so that both together are this one. None if they differ in what has no ports.
    pub(crate) fn before(&self, other: &Leaf<F>) -> Option<Vec<(PortProtocol, u16, u16, F)>> {
        if self.rest != other.rest {
            return None;
        }
        let edges = |leaf: &Leaf<F>| {
            let each =
                leaf.ranges.iter().map(|(protocol, first, last, _)| ((*protocol, u32::from(*first)), (*protocol, u32::from(*last) + 1)));
            each.flat_map(<[_; 2]>::from).collect::<Vec<(PortProtocol, u32)>>()
        };
        let mut starts = edges(self);
        starts.extend(edges(other));
        starts.sort_unstable();
        starts.dedup();
        let (mut own, mut others) = (Cursor::at_start(self), Cursor::at_start(other));
        let mut before: Vec<(PortProtocol, u16, u16, F)> = Vec::new();
        for (at, (protocol, start)) in starts.iter().enumerate() {
            // Ranges of one protocol go on to where the next one of both begins, and the last one ends there.
            let end = starts.get(at + 1).filter(|it| it.0 == *protocol).map_or(*start, |it| it.1);
            let (Ok(first), Ok(last)) = (u16::try_from(*start), u16::try_from(end.saturating_sub(1))) else { continue };
            let fate = own.fate(*protocol, first);
            if *start == end || fate == others.fate(*protocol, first) {
                continue;
            }
            match before.last_mut() {
                Some((of, _, end, known)) if of == protocol && *known == fate && end.checked_add(1) == Some(first) => *end = last,
                Some(_) | None => before.push((*protocol, first, last, fate)),
            }
        }
        Some(before)
    }
}

/// Reads a leaf port by port, in order.
struct Cursor<'a, F> {
    leaf: &'a Leaf<F>,
    next: usize,
}

impl<'a, F: Copy> Cursor<'a, F> {
    fn at_start(leaf: &'a Leaf<F>) -> Cursor<'a, F> {
        Cursor { leaf, next: 0 }
    }

    fn fate(&mut self, protocol: PortProtocol, port: u16) -> F {
        while self.leaf.ranges.get(self.next).is_some_and(|(of, _, last, _)| (*of, *last) < (protocol, port)) {
            self.next += 1;
        }
        let found = self.leaf.ranges.get(self.next).filter(|(of, first, ..)| *of == protocol && *first <= port);
        found.map_or(self.leaf.rest, |it| it.3)
    }
}

/// What becomes of a meeting. `place` gives each origin its own.
pub(crate) fn leaf<'m>(
    model: &Model,
    meeting: &Meeting<'m>,
    direction: Direction,
    mut place: impl FnMut(&Judge<'_, 'm>, Judged<'m>) -> usize,
) -> Leaf<Fate> {
    let judge = Judge::new(model, &meeting.among, &meeting.isolating, direction);
    let mut by_port = by_port(&judge, meeting, direction);
    leaf_of(model, meeting, direction, |protocol, port| {
        let judged = by_port.decide(protocol, port);
        Fate { accepted: is_open(judged), origin: place(&judge, judged) }
    })
}

/// What a judge says of a meeting, port by port.
pub(crate) fn by_port<'s, 'm>(judge: &'s Judge<'s, 'm>, meeting: &Meeting<'_>, direction: Direction) -> ByPort<'s, 'm> {
    let (from, to) = ends(meeting, direction);
    judge.between(from, to, meeting.path)
}

fn ends(meeting: &Meeting<'_>, direction: Direction) -> (End, End) {
    match direction {
        Direction::Egress => (meeting.subject, meeting.peer),
        Direction::Ingress => (meeting.peer, meeting.subject),
    }
}

/// Whether a packet passes. A name that nobody has resolved opens nothing.
pub(crate) fn is_open(judged: Judged<'_>) -> bool {
    judged.verdict == Verdict::Accept
}

/// What becomes of a meeting, port by port, whoever says it. It must say the same of ports that no rule of the meeting tells apart. Ports are asked for in
/// the order of `ByPort`.
pub(crate) fn leaf_of<F: Clone + PartialEq>(
    model: &Model,
    meeting: &Meeting<'_>,
    direction: Direction,
    mut fate: impl FnMut(Protocol, Option<u16>) -> F,
) -> Leaf<F> {
    // Only rules without ports match what has none, so all other protocols fare alike, and so does every port that no rule speaks of.
    let rest = fate(Protocol::Icmp, None);
    let cuts = cuts(model, meeting, ends(meeting, direction).1);
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

/// Ports at which something may change, in order. Below the first of a protocol only rules without ports match.
fn cuts(model: &Model, meeting: &Meeting<'_>, to: End) -> Vec<(PortProtocol, u16)> {
    let mut cuts: Vec<(PortProtocol, u16)> = Vec::new();
    let mut cut = |protocol, first: u16, last: u16| {
        cuts.push((protocol, first));
        cuts.extend(last.checked_add(1).map(|next| (protocol, next)));
    };
    for rule in meeting.among.iter().flat_map(|it| &it.rules) {
        let PortSet::Of(entries) = &rule.ports else { continue };
        for entry in entries {
            match entry {
                PortMatch::Numbers { protocol, ports } => cut(*protocol, ports.first(), ports.last()),
                // Whichever port the unknown pod calls so.
                PortMatch::Named { protocol, .. } if model.is_unknown_pod(NetworkId::DEFAULT, &to) => {
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
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn pod(model: &Model, end: End) -> Option<&Endpoint> {
    match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a list of rules before a leaf says of a port.
    fn says(before: &[(PortProtocol, u16, u16, u8)], leaf: &Leaf<u8>, protocol: PortProtocol, port: u16) -> u8 {
        let mut all = before.iter().chain(&leaf.ranges);
        all.find(|(of, first, last, _)| *of == protocol && (*first..=*last).contains(&port)).map_or(leaf.rest, |it| it.3)
    }

    #[test]
    fn what_comes_before_another_leaf_makes_it_this_one() {
        use PortProtocol::{Tcp, Udp};
        let leaf = |ranges: &[(PortProtocol, u16, u16, u8)]| Leaf { ranges: ranges.to_vec(), rest: 0 };
        let leaves = [
            leaf(&[]),
            leaf(&[(Tcp, 0, u16::MAX, 1)]),
            leaf(&[(Tcp, 0, 9, 1), (Tcp, 10, 19, 2), (Udp, 5, 5, 3)]),
            leaf(&[(Tcp, 5, 14, 2), (Tcp, 65_535, 65_535, 1), (Udp, 0, 5, 3)]),
            leaf(&[(Tcp, 10, 19, 2), (Udp, 4, u16::MAX, 3)]),
        ];
        let ports = [0, 4, 5, 6, 9, 10, 14, 15, 19, 20, 65_534, 65_535];
        for (one, other) in leaves.iter().flat_map(|one| leaves.iter().map(move |other| (one, other))) {
            let before = one.before(other).unwrap();
            assert_eq!(before.is_empty(), one == other, "{one:?} before {other:?}");
            for (protocol, port) in [Tcp, Udp, PortProtocol::Sctp].into_iter().flat_map(|it| ports.map(|port| (it, port))) {
                assert_eq!(says(&before, other, protocol, port), says(&[], one, protocol, port), "{one:?} before {other:?}: {port}");
            }
            assert_eq!(one.before(&Leaf { ranges: Vec::new(), rest: 1 }), None);
        }
    }
}
