use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use palisade_engine::{compile, decide};
use palisade_kernel::{Connection, Status, Transport, Tuple};
use palisade_model::{End, Flow, NetworkId, NodeId, Path, PortProtocol, Protocol, Verdict};
use palisade_nft::{Ids, NodeView, Unknown, lower};

use super::{address, cluster_of, model};
use crate::denial::DeniedBy;
use crate::sweep::judge::{Fate, Judge, Opening};
use crate::sweep::replies::replies_of;

const CLUSTER: &str = "
    node n1 192.0.2.1
    node n2 192.0.2.2
    pod a n1 10.0.0.1 app=a
    pod b n2 10.0.0.2 app=b
    pod c n1 10.0.0.3 app=c
    pod d n2 10.0.0.4 app=d
    in to-a app=a app=b:80 198.51.100.0/24
    in to-b app=b app=c
    out from-c app=c app=a app=b app=d 192.0.2.0/24
    out from-d app=d app=a
";

const TCP: u8 = 6;

/// A tracked connection without any translation.
fn direct(source: &str, destination: &str, protocol: u8, ports: Option<(u16, u16)>) -> Connection {
    let transport = |ports: Option<(u16, u16)>, kind| match ports {
        Some((source, destination)) => Transport::Ports { source, destination },
        None => Transport::Icmp { kind, code: 0, id: 7 },
    };
    let tuple = |source, destination, transport| Tuple { source, destination, protocol, transport };
    let (source, destination) = (address(source), address(destination));
    Connection {
        original: tuple(source, destination, transport(ports, 8)),
        reply: tuple(destination, source, transport(ports.map(|(a, b)| (b, a)), 0)),
        zone: 0,
        reply_zone: 0,
        id: 1,
        status: Status(0),
        mark: 0,
        protocol,
    }
}

fn fate(cluster: &str, connection: &Connection) -> Fate {
    let model = model(cluster);
    let cluster = cluster_of(&model);
    let node = NodeView { node: NodeId(0), links: Default::default(), unknown: Unknown::Open };
    let ruleset = lower(&model, &compile(&model), &node, &mut Ids::default());
    let own = BTreeSet::from([address("192.0.2.1"), address("169.254.1.1")]);
    Judge::new(&ruleset, &cluster, &own).fate(&Opening::of(connection)).unwrap()
}

/// `lives`, `not ours`, or what denies it.
fn check(connection: &Connection, expected: &str) {
    let found = match fate(CLUSTER, connection) {
        Fate::NotOurs => "not ours".to_owned(),
        Fate::Lives => "lives".to_owned(),
        Fate::Denied(DeniedBy::Policy { direction, reason }) => format!("{direction} {reason}"),
        Fate::Denied(by) => format!("{by:?}"),
    };
    assert!(found == expected || (expected.ends_with('…') && found.starts_with(expected.trim_end_matches('…'))), "{found}: {connection:?}");
}

fn tcp(source: &str, destination: &str, port: u16) -> Connection {
    direct(source, destination, TCP, Some((4000, port)))
}

#[test]
fn a_connection_is_judged_by_both_ends_on_one_node() {
    check(&tcp("10.0.0.3", "10.0.0.1", 80), "ingress isolated…");
    check(&tcp("10.0.0.1", "10.0.0.3", 80), "lives");
}

#[test]
fn a_connection_from_another_node_is_judged_by_both_ends() {
    check(&tcp("10.0.0.2", "10.0.0.1", 80), "lives");
    check(&tcp("10.0.0.2", "10.0.0.1", 81), "ingress isolated…");
    check(&tcp("10.0.0.4", "10.0.0.3", 80), "egress isolated…");
}

#[test]
fn a_connection_to_another_node_is_judged_by_both_ends() {
    check(&tcp("10.0.0.3", "10.0.0.2", 80), "lives");
    check(&tcp("10.0.0.1", "10.0.0.2", 80), "ingress isolated…");
    check(&tcp("10.0.0.3", "10.0.0.4", 80), "lives");
}

#[test]
fn the_outside_is_judged_by_its_address() {
    check(&tcp("198.51.100.7", "10.0.0.1", 80), "lives");
    check(&tcp("203.0.113.7", "10.0.0.1", 80), "ingress isolated…");
    check(&tcp("10.0.0.3", "203.0.113.7", 80), "egress isolated…");
}

#[test]
fn a_node_reaches_its_own_pods_and_these_need_egress_only() {
    check(&tcp("192.0.2.1", "10.0.0.1", 80), "not ours");
    check(&tcp("169.254.1.1", "10.0.0.1", 80), "not ours");
    check(&tcp("192.0.2.2", "10.0.0.1", 80), "ingress isolated…");
    check(&tcp("10.0.0.3", "192.0.2.1", 80), "lives");
    check(&tcp("10.0.0.3", "169.254.1.1", 80), "egress isolated…");
}

#[test]
fn connections_of_others_are_not_ours() {
    check(&tcp("10.0.0.2", "10.0.0.4", 80), "not ours");
    check(&tcp("203.0.113.7", "192.0.2.1", 22), "not ours");
}

/// The Service is not what policy is about, and neither is the address of the node that a source was translated to.
#[test]
fn the_first_packet_is_after_the_service_and_before_any_other_translation() {
    for (backend, port, expected) in [("10.0.0.1", 80, "lives"), ("10.0.0.1", 81, "ingress isolated…"), ("10.0.0.3", 80, "lives")] {
        let mut connection = tcp("10.0.0.2", "10.96.0.1", 443);
        connection.reply.source = address(backend);
        connection.reply.transport = Transport::Ports { source: port, destination: 4000 };
        check(&connection, expected);
        connection.reply.destination = address("192.0.2.1");
        connection.reply.transport = Transport::Ports { source: port, destination: 61_000 };
        check(&connection, expected);
    }
}

#[test]
fn other_protocols_are_judged_without_ports() {
    check(&direct("10.0.0.2", "10.0.0.1", 1, None), "ingress isolated…");
    check(&direct("198.51.100.7", "10.0.0.1", 1, None), "lives");
    check(&direct("10.0.0.2", "10.0.0.1", 132, Some((9, 80))), "ingress isolated…");
    let mut gre = direct("198.51.100.7", "10.0.0.1", 47, None);
    for tuple in [&mut gre.original, &mut gre.reply] {
        tuple.transport = Transport::Addresses;
    }
    check(&gre, "lives");
}

/// What is judged is what is decided, for every pair of pods and some traffic, wherever the pods are.
#[test]
fn a_fate_is_the_decision_about_the_first_packet() {
    let model = model(CLUSTER);
    let pods: Vec<IpAddr> = model.endpoints.iter().flat_map(|it| it.addresses.iter().copied()).collect();
    let mut denied = 0;
    for (from, to) in pods.iter().flat_map(|from| pods.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to) {
        for (number, protocol, port) in [
            (TCP, Protocol::Port(PortProtocol::Tcp), Some(80)),
            (TCP, Protocol::Port(PortProtocol::Tcp), Some(81)),
            (17, Protocol::Port(PortProtocol::Udp), Some(80)),
            (1, Protocol::Icmp, None),
        ] {
            let end = |address| End { place: model.place_of(NetworkId::DEFAULT, address), address: Some(address) };
            let flow = Flow { network: NetworkId::DEFAULT, from: end(from), to: end(to), protocol, port, path: Path::Direct };
            let connection = direct(&from.to_string(), &to.to_string(), number, port.map(|it| (4000, it)));
            match (fate(CLUSTER, &connection), decide(&model, &flow).verdict) {
                (Fate::NotOurs, _) => assert!(!cluster_of(&model).is_own_pod(from) && !cluster_of(&model).is_own_pod(to)),
                (Fate::Lives, verdict) => assert_eq!(verdict, Verdict::Accept, "{flow:?}"),
                (Fate::Denied(_), verdict) => {
                    assert_eq!(verdict, Verdict::Deny, "{flow:?}");
                    denied += 1;
                }
            }
        }
    }
    assert!(denied > 10, "{denied}");
}

/// Whether datagrams from a pod elsewhere to one of this node are dropped though they may look like replies.
fn denies_reply(from: &str, to: &str) -> bool {
    let model = model(CLUSTER);
    let cluster = cluster_of(&model);
    let node = NodeView { node: NodeId(0), links: Default::default(), unknown: Unknown::Open };
    let ruleset = lower(&model, &compile(&model), &node, &mut Ids::default());
    let reply = palisade_nft::Tuple::new(SocketAddr::new(address(from), 5000), SocketAddr::new(address(to), 6000), 17);
    let origin = Judge::new(&ruleset, &cluster, &BTreeSet::new()).denies_reply(&reply).unwrap();
    origin.inspect(|it| assert!(ruleset.origins.contains_key(it), "{it}")).is_some()
}

#[test]
fn a_reply_is_denied_where_neither_end_may_call_the_other() {
    let [a, b, c, d] = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    assert!(denies_reply(b, a));
    // The call may be answered, or the other end may call.
    assert!(!denies_reply(b, c) && !denies_reply(d, a) && !denies_reply(d, c));
    // Both on this node, none on it, and somebody of the outside.
    assert!(!denies_reply(c, a) && !denies_reply(b, d) && !denies_reply("203.0.113.1", a));
}

#[test]
fn what_could_be_an_answer_goes_either_way_between_the_ports_that_the_node_sees() {
    let mut connection = direct("10.0.0.1", "10.0.0.2", 17, Some((4000, 53)));
    // By a Service.
    connection.original.destination = address("10.96.0.1");
    let node = BTreeSet::from([address("192.168.0.1")]);
    let told = |it: &Connection| replies_of(it, &node).iter().map(|it| format!("{} {}", it.from(), it.to())).collect::<Vec<_>>();
    assert_eq!(told(&connection), ["10.0.0.2:53 10.0.0.1:4000", "10.0.0.1:4000 10.0.0.2:53"]);
    // Both ends of an association send what keeps it alive, and conntrack begins another with it.
    assert_eq!(told(&Connection { protocol: 132, ..connection.clone() }).len(), 2);
    // What tracking calls ports of GRE is a key in it.
    assert_eq!(told(&Connection { protocol: 47, ..connection }), ["10.0.0.2:0 10.0.0.1:0", "10.0.0.1:0 10.0.0.2:0"]);
    assert_eq!(told(&tcp("10.0.0.1", "10.0.0.2", 80)), Vec::<String>::new());
    // What a server of the node sends meets no other hook.
    let to_node = Connection { protocol: 6, ..direct("10.0.0.1", "192.168.0.1", 17, Some((4000, 53))) };
    assert_eq!(told(&to_node), ["192.168.0.1:53 10.0.0.1:4000"]);
    assert_eq!(told(&direct("10.0.0.1", "10.0.0.2", 1, None)), Vec::<String>::new());
}
