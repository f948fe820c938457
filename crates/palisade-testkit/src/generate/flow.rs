//! Questions about a cluster.

use super::cluster::Cluster;
use super::vocabulary::{OUTSIDE, PORTS};
use crate::compare::Question;
use crate::random::Random;
use crate::scenario::{Party, RawProtocol};

/// None if there is nobody to ask about.
pub(super) fn question(random: &mut Random, cluster: &Cluster) -> Option<Question> {
    let from = party(random, cluster)?;
    let service = random.percent(8).then(|| random.pick(&cluster.services)).flatten();
    let to = match service {
        Some((namespace, name)) => Party::Service { namespace: (*namespace).to_owned(), name: name.clone() },
        None => party(random, cluster)?,
    };
    let protocol = match random.below(20) {
        0..9 => RawProtocol::Tcp,
        9..14 => RawProtocol::Udp,
        14..17 => RawProtocol::Sctp,
        17..19 => RawProtocol::Icmp,
        _ => RawProtocol::Other(random.of([0, 1, 2, 47, 50, 58, 89, 255])),
    };
    let port = match protocol {
        RawProtocol::Tcp | RawProtocol::Udp | RawProtocol::Sctp => Some(port(random)),
        RawProtocol::Icmp | RawProtocol::Other(_) => None,
    };
    let has_ports_if_service = port.is_some() || service.is_none();
    has_ports_if_service.then_some(Question { from, to, protocol, port })
}

/// A port of the vocabulary, or one next to it.
fn port(random: &mut Random) -> u16 {
    let port = random.of(PORTS);
    match random.below(6) {
        0 => port - 1,
        1 => port.saturating_add(1),
        _ => port,
    }
}

fn party(random: &mut Random, cluster: &Cluster) -> Option<Party> {
    let address = |text: &str| text.parse().ok().map(Party::Address);
    match random.below(20) {
        0..13 => random.pick(&cluster.pods).map(|(namespace, name)| Party::Pod { namespace: (*namespace).to_owned(), name: name.clone() }),
        13..15 => random.pick(&cluster.nodes).map(|name| Party::Node(name.clone())),
        15..18 => address(random.pick(&cluster.addresses)?),
        _ => address(random.of(OUTSIDE)),
    }
}
