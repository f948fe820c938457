//! Sets of traffic, each with a number: intervals over one line on which every port of every protocol has its place, and all that has no port one more.

use palisade_model::{PortProtocol, Protocol};
use rustc_hash::FxHashMap;

use crate::compile::intern::Lists;

/// A set of traffic. Only meaningful with the `PortSets` that gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortSetId(pub(crate) u32);

impl PortSetId {
    /// No traffic.
    pub const NONE: PortSetId = PortSetId(0);
    /// All traffic, every protocol.
    pub const ALL: PortSetId = PortSetId(1);
}

const PORTS: u32 = 65_536;
/// Where everything stands that has no port.
const REST: u32 = 3 * PORTS;
const END: u32 = REST + 1;

/// Sets of traffic and what was worked out about them.
#[derive(Clone, Debug)]
pub struct PortSets {
    // INVARIANT: each list is first, end, first, end, …: sorted, not empty, not touching.
    lists: Lists,
    known: FxHashMap<(Operation, u32, u32), u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    And,
    Or,
    Without,
}

/// A part of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// Ports of a protocol, both ends included.
    Ports {
        /// The protocol.
        protocol: PortProtocol,
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
    /// Every protocol that has no ports.
    Rest,
}

impl Default for PortSets {
    fn default() -> PortSets {
        let mut lists = Lists::default();
        lists.intern(&[]);
        lists.intern(&[0, END]);
        PortSets { lists, known: FxHashMap::default() }
    }
}

impl PortSets {
    /// A set from parts, in any order.
    pub(crate) fn of(&mut self, mut parts: Vec<(u32, u32)>) -> PortSetId {
        parts.sort_unstable();
        let mut list: Vec<u32> = Vec::with_capacity(parts.len() * 2);
        for (first, end) in parts {
            match list.last_mut() {
                Some(before) if *before >= first => *before = end.max(*before),
                Some(_) | None => list.extend([first, end]),
            }
        }
        PortSetId(self.lists.intern(&list))
    }

    /// One port of a protocol.
    pub fn port(&mut self, protocol: PortProtocol, port: u16) -> PortSetId {
        let at = base(protocol) + u32::from(port);
        self.of(vec![(at, at + 1)])
    }

    /// All traffic that can be: no connection is to port 0.
    pub fn possible(&mut self) -> PortSetId {
        let zero = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp].map(|it| (base(it), base(it) + 1));
        let zero = self.of(zero.to_vec());
        self.without(PortSetId::ALL, zero)
    }

    /// A set that others speak of, as one of these.
    pub fn adopt(&mut self, id: PortSetId, of: &PortSets) -> PortSetId {
        PortSetId(self.lists.intern(of.lists.get(id.0)))
    }

    /// Traffic of both.
    pub fn and(&mut self, a: PortSetId, b: PortSetId) -> PortSetId {
        match (a.min(b), a.max(b)) {
            (PortSetId::NONE, _) => PortSetId::NONE,
            (PortSetId::ALL, other) => other,
            (a, b) if a == b => a,
            (a, b) => self.work_out(Operation::And, a, b),
        }
    }

    /// Traffic of either.
    pub fn or(&mut self, a: PortSetId, b: PortSetId) -> PortSetId {
        match (a.min(b), a.max(b)) {
            (PortSetId::NONE, other) => other,
            (PortSetId::ALL, _) => PortSetId::ALL,
            (a, b) if a == b => a,
            (a, b) => self.work_out(Operation::Or, a, b),
        }
    }

    /// Traffic of the first that is not of the second.
    pub fn without(&mut self, a: PortSetId, b: PortSetId) -> PortSetId {
        if a == PortSetId::NONE || b == PortSetId::NONE {
            return a;
        }
        if b == PortSetId::ALL || a == b { PortSetId::NONE } else { self.work_out(Operation::Without, a, b) }
    }

    fn work_out(&mut self, operation: Operation, a: PortSetId, b: PortSetId) -> PortSetId {
        let key = (operation, a.0, b.0);
        if let Some(known) = self.known.get(&key) {
            return PortSetId(*known);
        }
        let list = sweep(self.lists.get(a.0), self.lists.get(b.0), |a, b| match operation {
            Operation::And => a && b,
            Operation::Or => a || b,
            Operation::Without => a && !b,
        });
        let id = self.lists.intern(&list);
        self.known.insert(key, id);
        PortSetId(id)
    }

    /// The parts of a set, in order.
    pub fn parts(&self, id: PortSetId) -> Vec<Traffic> {
        let mut parts = Vec::new();
        for pair in self.lists.get(id.0).chunks(2) {
            let [first, end] = pair else { continue };
            for protocol in [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp] {
                let base = base(protocol);
                let (from, to) = ((*first).max(base), (*end).min(base + PORTS));
                if let (Ok(first), Ok(last)) = (u16::try_from(from.saturating_sub(base)), u16::try_from(to.saturating_sub(base + 1)))
                    && from < to
                {
                    parts.push(Traffic::Ports { protocol, first, last });
                }
            }
            if *end == END {
                parts.push(Traffic::Rest);
            }
        }
        parts
    }

    /// Whether a set has some traffic.
    pub fn contains(&self, id: PortSetId, protocol: Protocol, port: Option<u16>) -> bool {
        let at = match protocol {
            Protocol::Port(protocol) => base(protocol) + u32::from(port.unwrap_or(0)),
            Protocol::Icmp | Protocol::Other(_) => REST,
        };
        // Ends stand at odd places, so what is past an odd number of them is inside.
        self.lists.get(id.0).partition_point(|it| *it <= at) % 2 == 1
    }
}

/// Where the ports of a protocol begin.
pub(crate) fn base(protocol: PortProtocol) -> u32 {
    match protocol {
        PortProtocol::Tcp => 0,
        PortProtocol::Udp => PORTS,
        PortProtocol::Sctp => 2 * PORTS,
    }
}

/// The places of all ports of a protocol.
pub(crate) fn range(protocol: PortProtocol) -> std::ops::Range<u32> {
    base(protocol)..base(protocol) + PORTS
}

/// Goes through two lists of boundaries at once.
fn sweep(a: &[u32], b: &[u32], holds: impl Fn(bool, bool) -> bool) -> Vec<u32> {
    let (mut at_a, mut at_b) = (0, 0);
    let mut list = Vec::with_capacity(a.len().max(b.len()));
    let mut inside = false;
    loop {
        let next = match (a.get(at_a), b.get(at_b)) {
            (Some(x), Some(y)) => *x.min(y),
            (Some(x), None) => *x,
            (None, Some(y)) => *y,
            (None, None) => return list,
        };
        at_a += usize::from(a.get(at_a) == Some(&next));
        at_b += usize::from(b.get(at_b) == Some(&next));
        let now = holds(at_a % 2 == 1, at_b % 2 == 1);
        if now != inside {
            list.push(next);
            inside = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_worked_out_by_their_parts() {
        let mut sets = PortSets::default();
        let web = sets.of(vec![(80, 81), (443, 444)]);
        let low = sets.of(vec![(0, 100), (90, 200)]);
        let both = sets.and(web, low);
        assert_eq!(sets.parts(both), [Traffic::Ports { protocol: PortProtocol::Tcp, first: 80, last: 80 }]);
        let either = sets.or(web, low);
        assert_eq!(sets.without(either, low), sets.of(vec![(443, 444)]));
        assert_eq!(sets.without(web, PortSetId::ALL), PortSetId::NONE);
        assert!(sets.contains(web, Protocol::TCP, Some(443)) && !sets.contains(web, Protocol::TCP, Some(442)));
        assert!(sets.contains(PortSetId::ALL, Protocol::Icmp, None) && !sets.contains(web, Protocol::Icmp, None));
    }

    #[test]
    fn all_traffic_has_four_parts() {
        let sets = PortSets::default();
        let whole = |protocol| Traffic::Ports { protocol, first: 0, last: u16::MAX };
        let expected = [whole(PortProtocol::Tcp), whole(PortProtocol::Udp), whole(PortProtocol::Sctp), Traffic::Rest];
        assert_eq!(sets.parts(PortSetId::ALL), expected);
    }
}
