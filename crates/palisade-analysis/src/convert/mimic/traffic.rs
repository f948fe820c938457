//! Sets of traffic: ports of three protocols, and all that has no ports.

use palisade_model::{PortMatch, PortProtocol, PortSet, Ports};

const PROTOCOLS: [PortProtocol; 3] = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp];
const ALL_PORTS: (u16, u16) = (1, u16::MAX);

/// Two lists of ranges as one.
type Combine = fn(&[(u16, u16)], &[(u16, u16)]) -> Vec<(u16, u16)>;

/// Some traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Traffic {
    /// First and last port, by protocol; in order and apart.
    ports: [Vec<(u16, u16)>; 3],
    /// Whether protocols without ports are part of it.
    other: bool,
}

impl Traffic {
    pub(super) fn all() -> Traffic {
        Traffic { ports: [vec![ALL_PORTS], vec![ALL_PORTS], vec![ALL_PORTS]], other: true }
    }

    pub(super) fn none() -> Traffic {
        Traffic { ports: [Vec::new(), Vec::new(), Vec::new()], other: false }
    }

    /// What a rule speaks of; a named port is any of the numbers that it has.
    pub(super) fn of(ports: &PortSet, mut numbers: impl FnMut(usize, Option<PortProtocol>, &str) -> Vec<(PortProtocol, u16)>) -> Traffic {
        let PortSet::Of(entries) = ports else { return Traffic::all() };
        let mut traffic = Traffic::none();
        for (at, entry) in entries.iter().enumerate() {
            match entry {
                PortMatch::Numbers { protocol, ports } => traffic.add(*protocol, ports.first().max(1), ports.last()),
                PortMatch::Named { protocol, name } => {
                    for (protocol, port) in numbers(at, *protocol, name) {
                        traffic.add(protocol, port, port);
                    }
                }
                PortMatch::Unreadable => {}
            }
        }
        traffic
    }

    fn add(&mut self, protocol: PortProtocol, first: u16, last: u16) {
        for (of, ports) in PROTOCOLS.iter().zip(&mut self.ports) {
            if *of == protocol && first <= last {
                *ports = union(ports, &[(first, last)]);
            }
        }
    }

    pub(super) fn is_all(&self) -> bool {
        *self == Traffic::all()
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Traffic::none()
    }

    fn each(&self, other: &Traffic, ports: Combine, rest: bool) -> Traffic {
        let ([a, b, c], [d, e, f]) = (&self.ports, &other.ports);
        Traffic { ports: [ports(a, d), ports(b, e), ports(c, f)], other: rest }
    }

    pub(super) fn and(&self, other: &Traffic) -> Traffic {
        self.each(other, both, self.other && other.other)
    }

    pub(super) fn or(&self, other: &Traffic) -> Traffic {
        self.each(other, union, self.other || other.other)
    }

    pub(super) fn without(&self, other: &Traffic) -> Traffic {
        self.each(other, difference, self.other && !other.other)
    }

    /// As a rule says it, and whether protocols without ports had to be left out.
    pub(super) fn said(&self) -> (PortSet, bool) {
        if self.is_all() {
            return (PortSet::Any, false);
        }
        let mut entries = Vec::new();
        for (protocol, ports) in PROTOCOLS.into_iter().zip(&self.ports) {
            for range in ports {
                let ports = if *range == ALL_PORTS { Some(Ports::ALL) } else { Ports::range(range.0, range.1) };
                entries.extend(ports.map(|ports| PortMatch::Numbers { protocol, ports }));
            }
        }
        (PortSet::Of(entries), self.other)
    }
}

fn union(a: &[(u16, u16)], b: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let mut all: Vec<(u16, u16)> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    let mut joined: Vec<(u16, u16)> = Vec::new();
    for (first, last) in all {
        match joined.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => before.1 = before.1.max(last),
            Some(_) | None => joined.push((first, last)),
        }
    }
    joined
}

fn both(a: &[(u16, u16)], b: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    let met: Vec<(u16, u16)> = pairs.filter(|it| it.0 <= it.1).collect();
    union(&met, &[])
}

fn difference(a: &[(u16, u16)], b: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let mut left = a.to_vec();
    for cut in b {
        left = left.iter().flat_map(|range| outside(*range, *cut)).collect();
    }
    left
}

fn outside((first, last): (u16, u16), cut: (u16, u16)) -> Vec<(u16, u16)> {
    if cut.1 < first || last < cut.0 {
        return vec![(first, last)];
    }
    let below = cut.0.checked_sub(1).filter(|it| first <= *it).map(|it| (first, it));
    let above = cut.1.checked_add(1).filter(|it| *it <= last).map(|it| (it, last));
    below.into_iter().chain(above).collect()
}
