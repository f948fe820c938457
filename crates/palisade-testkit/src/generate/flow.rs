//! Questions about a cluster.

use serde_json::Value;

use super::cluster::{Cluster, Service};
use super::vocabulary::{OUTSIDE, PORTS};
use crate::compare::Question;
use crate::paths;
use crate::random::Random;
use crate::scenario::{Party, RawProtocol};

/// None if there is nobody to ask about.
pub(super) fn question(random: &mut Random, cluster: &Cluster) -> Option<Question> {
    let service = random.percent(10).then(|| random.pick(&cluster.services)).flatten();
    let pod = |namespace: &str, name: &str| Party::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
    let (from, to) = match service {
        Some(Service { namespace, name, pod: behind }) => {
            // A Service may lead a pod back to itself.
            let from = if random.percent(40) { pod(namespace, behind) } else { party(random, cluster)? };
            (from, Party::Service { namespace: (*namespace).to_owned(), name: name.clone() })
        }
        None => (party(random, cluster)?, party(random, cluster)?),
    };
    let declared = random.pick(&declared(cluster, &to)).copied().filter(|_| random.percent(50));
    let protocol = match (declared, random.below(20)) {
        // Sometimes the right port with the wrong protocol.
        (Some((protocol, _)), 3..) => protocol,
        (Some(_), 0..3) | (None, 0..9) => RawProtocol::Tcp,
        (None, 9..14) => RawProtocol::Udp,
        (None, 14..17) => RawProtocol::Sctp,
        (None, 17..19) => RawProtocol::Icmp,
        (None, 19..) => RawProtocol::Other(random.of([0, 1, 2, 47, 50, 58, 89, 255])),
    };
    let port = match protocol {
        RawProtocol::Tcp | RawProtocol::Udp | RawProtocol::Sctp => Some(declared.map_or_else(|| port(random), |(_, port)| port)),
        RawProtocol::Icmp | RawProtocol::Other(_) => None,
    };
    let has_ports_if_service = port.is_some() || service.is_none();
    has_ports_if_service.then_some(Question { network: None, from, to, protocol, port })
}

/// The ports that a pod declares, in whatever container, or those of a Service.
fn declared(cluster: &Cluster, party: &Party) -> Vec<(RawProtocol, u16)> {
    let (Party::Pod { namespace, name } | Party::Service { namespace, name }) = party else { return Vec::new() };
    let text = |object: &Value, path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let is_meant = |it: &&Value| {
        let within = text(it, "/metadata/namespace").unwrap_or_else(|| "default".to_owned());
        text(it, "/metadata/name").as_ref() == Some(name) && within == *namespace
    };
    let spec = cluster.objects.iter().find(is_meant).and_then(|it| it.pointer("/spec"));
    let mut ports = Vec::new();
    for path in spec.map(paths::all).unwrap_or_default() {
        let entry = spec.and_then(|it| it.pointer(&path));
        let number = entry
            .and_then(|it| it.get("containerPort").or(it.get("targetPort").and(it.get("port")))?.as_u64())
            .and_then(|it| u16::try_from(it).ok());
        let protocol = match entry.and_then(|it| it.get("protocol")?.as_str()) {
            Some("UDP") => RawProtocol::Udp,
            Some("SCTP") => RawProtocol::Sctp,
            Some(_) | None => RawProtocol::Tcp,
        };
        ports.extend(number.map(|number| (protocol, number)));
    }
    ports
}

/// A port of the vocabulary, or one next to it.
fn port(random: &mut Random) -> u16 {
    let port = random.of(PORTS);
    match random.below(6) {
        // No connection is to port 0.
        0 => port.saturating_sub(1).max(1),
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
