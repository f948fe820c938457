//! Whoever asks without a trace, about the rules of a meeting alone, hears what the whole walk says.

use palisade_engine::{ByPort, Judge, Judged, Meeting, OnNode, compile, decide_direction};
use palisade_model::{Direction, Flow, Model, NetworkId, NodeId, PortMatch, PortProtocol, PortSet, Protocol};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;

const CLUSTERS: u64 = 40;

#[test]
fn a_judge_of_a_meeting_says_what_the_whole_walk_says() {
    let mut flows = 0;
    for seed in 0..CLUSTERS {
        let model = snapshot("cluster.json", &generate(seed).objects.to_json()).model;
        let compiled = compile(&model);
        for node in (0..model.nodes.len()).map(NodeId) {
            // Where Baseline is kept it is not asked all the same.
            for on_node in [compiled.on_node(&model, node), compiled.on_node_for_any(&model, node)] {
                flows += check(&model, &on_node, seed);
            }
        }
    }
    assert!(flows > 10_000, "{flows}");
}

fn check(model: &Model, on_node: &OnNode<'_>, seed: u64) -> usize {
    let mut checked = 0;
    for direction in Direction::BOTH {
        for meeting in on_node.programs.of(direction).iter().flat_map(|it| it.meetings.iter().chain([&it.itself])) {
            let judge = Judge::new(model, &meeting.among, &meeting.isolating, direction);
            let (mut in_order, mut backwards) = (by_port(&judge, meeting, direction), by_port(&judge, meeting, direction));
            let flows = flows(meeting, direction);
            // Ports are quick to ask for in order, and may be asked for in any.
            for flow in flows.iter().rev() {
                let (judged, whole) = (backwards.decide(flow.protocol, flow.port), judge.decide(flow));
                let said = |it: Judged<'_>| (it.verdict, judge.reason(it.cause));
                assert_eq!(said(judged), said(whole), "seed {seed}: {direction} of {flow:?}");
            }
            for flow in flows {
                let walk = decide_direction(model, &flow, direction);
                for judged in [judge.decide(&flow), in_order.decide(flow.protocol, flow.port)] {
                    let said = (judged.verdict, judge.reason(judged.cause));
                    assert_eq!(said, (walk.verdict, walk.reason.clone()), "seed {seed}: {direction} of {flow:?}");
                }
                checked += 1;
            }
        }
    }
    checked
}

fn by_port<'s, 'm>(judge: &'s Judge<'s, 'm>, meeting: &Meeting<'_>, direction: Direction) -> ByPort<'s, 'm> {
    let (from, to) = match direction {
        Direction::Egress => (meeting.subject, meeting.peer),
        Direction::Ingress => (meeting.peer, meeting.subject),
    };
    judge.between(from, to, meeting.path)
}

/// What has no port, and the edges of what some rule of the meeting speaks of.
fn flows(meeting: &Meeting<'_>, direction: Direction) -> Vec<Flow> {
    let (from, to) = match direction {
        Direction::Egress => (meeting.subject, meeting.peer),
        Direction::Ingress => (meeting.peer, meeting.subject),
    };
    let flow = |protocol, port| Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: meeting.path };
    let entries = meeting.among.iter().flat_map(|it| &it.rules).flat_map(|it| match &it.ports {
        PortSet::Of(entries) => entries.as_slice(),
        PortSet::Any => &[],
    });
    let edges = entries.flat_map(|it| match it {
        PortMatch::Numbers { ports, .. } => vec![ports.first(), ports.first().wrapping_sub(1), ports.last(), ports.last().wrapping_add(1)],
        // As the generator numbers those that have names.
        PortMatch::Named { .. } | PortMatch::Unreadable => vec![80, 81, 8080, 5353],
    });
    let mut ports: Vec<u16> = edges.chain([0, 80]).collect();
    ports.sort_unstable();
    ports.dedup();
    let protocols = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp];
    let with_ports = protocols.into_iter().flat_map(|protocol| ports.iter().map(move |port| flow(Protocol::Port(protocol), Some(*port))));
    with_ports.chain([flow(Protocol::Icmp, None), flow(Protocol::Other(47), None)]).collect()
}
