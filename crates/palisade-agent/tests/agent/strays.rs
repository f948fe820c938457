//! A pod that nobody has told of, behind a link whose name is no pod's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use palisade_agent::{Checked, DeniedBy, Event, Running};
use palisade_kernel::{Links, Namespace, NextHop, Route, set_sysctl};
use palisade_model::{EndpointId, NodeId};
use palisade_nft::Guard;
use palisade_testkit::check::snapshot;

use crate::ground::{DEADLINE, Ground, NODE, POD, say, wait_for};

const STRANGER: &str = "10.9.0.5";
const LINK: &str = "tap7";
const PORT: u16 = 5000;

/// The node knows its pod, and the stranger as soon as that has a name.
fn apply(agent: &Running, pods: &[(&str, &str, &str)]) {
    let manifest = |(name, address, _): &(&str, &str, &str)| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{namespace: x, name: {name}}}, spec: {{nodeName: node-1}}, status: {{podIPs: [{{ip: {address}}}]}}}}\n---\n"
        )
    };
    let mut model = snapshot("cluster.yaml", &pods.iter().map(manifest).collect::<String>()).model;
    model.close_ranges(&["10.9.0.0/16".parse().unwrap()], &BTreeSet::new());
    let links: BTreeMap<EndpointId, String> = pods.iter().enumerate().map(|(at, it)| (EndpointId(at), it.2.to_owned())).collect();
    agent.apply(&Arc::new(model), NodeId(0), links).unwrap();
}

fn route(namespace: &Namespace, to: &str, via: NextHop, link: &str) {
    let route = Route { to: to.parse().unwrap(), via, link: link.to_owned(), source: None };
    namespace.run(|| Links::open().unwrap().add_route(&route)).unwrap().unwrap();
}

/// A stranger on a link of its own. The node has no route to it yet.
fn stranger(ground: &Ground) -> Namespace {
    let stranger = Namespace::create().unwrap();
    for (name, value) in [("net/ipv4/ip_forward", "1"), ("net/ipv4/conf/all/rp_filter", "0")] {
        ground.node.run(|| set_sysctl(name, value)).unwrap().unwrap();
    }
    let mut links = ground.node.run(|| Links::open().unwrap()).unwrap();
    let mut inside = stranger.run(|| Links::open().unwrap()).unwrap();
    links.add_veth(LINK, "eth0", &stranger).unwrap();
    links.set_up(LINK).unwrap();
    inside.add_address("eth0", format!("{STRANGER}/32").parse().unwrap()).unwrap();
    inside.set_up("eth0").unwrap();
    for namespace in [&stranger, &ground.pod] {
        route(namespace, "0.0.0.0/0", NextHop::OnLink(NODE.parse().unwrap()), "eth0");
    }
    stranger
}

fn socket(namespace: &Namespace, address: &str) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind((address, PORT)).unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// What has come so far.
fn heard(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count()
}

fn await_word(socket: &UdpSocket, send: impl Fn()) {
    let deadline = Instant::now() + DEADLINE;
    while heard(socket) == 0 {
        assert!(Instant::now() < deadline, "nothing comes");
        send();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whatever somebody does to the table.
fn put_back(ground: &Ground, events: &Receiver<Event>) {
    let before = ground.nft("list table inet palisade-strays");
    for edit in [
        "flush set inet palisade-strays strays4",
        "flush chain inet palisade-strays forward",
        "insert rule inet palisade-strays denied accept",
        "add table inet palisade-strays { flags dormant; }",
        "delete table inet palisade-strays",
    ] {
        ground.nft(edit);
        wait_for(events, |it| {
            matches!(it, Event::Restored { checked: Checked::WasChanged | Checked::WasRemoved, by } if by.starts_with("nft ")).then_some(())
        });
        assert_eq!(ground.nft("list table inet palisade-strays"), before, "{edit}");
    }
}

#[test]
fn a_pod_behind_a_link_of_any_name_is_closed_by_its_route_until_it_is_known() {
    let Some(ground) = Ground::create() else { return };
    let (agent, events) = ground.start().unwrap();
    let known = ("a", POD, "pod1");
    apply(&agent, &[known]);
    let stranger = stranger(&ground);
    let [at_pod, at_stranger] = [(&ground.pod, POD), (&stranger, STRANGER)].map(|(it, address)| socket(it, address));
    let node = ground.node.run(|| UdpSocket::bind((NODE, 0)).unwrap()).unwrap();
    node.set_nonblocking(true).unwrap();
    let stop = AtomicBool::new(false);
    let (pod, far) = (SocketAddr::new(POD.parse().unwrap(), PORT), SocketAddr::new(STRANGER.parse().unwrap(), PORT));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                drop(at_stranger.send_to(b"early", pod));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let checks = || {
            // Nobody is told of the stranger, so it speaks.
            await_word(&at_pod, || {});
            route(&ground.node, &format!("{STRANGER}/32"), NextHop::Destination, LINK);
            let start = Instant::now();
            let unknown = |it: &Event| {
                matches!(it, Event::Denied(denial) | Event::DeniedAgain(denial) if denial.by == DeniedBy::Guard(Guard::UnknownPod))
                    .then_some(())
            };
            wait_for(&events, unknown);
            say(&format!("closed no later than {:?} after its route was there, {} packets before", start.elapsed(), heard(&at_pod)));
            let passed = (0..100).map(|_| {
                drop(at_pod.send_to(b"early", far));
                std::thread::sleep(Duration::from_millis(2));
                heard(&at_pod) + heard(&at_stranger)
            });
            assert_eq!(passed.sum::<usize>(), 0);
            put_back(&ground, &events);
            // What its own node asks of it is answered.
            await_word(&at_stranger, || drop(node.send_to(b"question", far)));
            at_stranger.send_to(b"answer", node.local_addr().unwrap()).unwrap();
            await_word(&node, || {});
            apply(&agent, &[known, ("b", STRANGER, LINK)]);
            await_word(&at_pod, || {});
            await_word(&at_stranger, || drop(at_pod.send_to(b"word", far)));
            assert!(!ground.nft("list tables").contains("palisade-strays"));
            // Its name is gone, and its link is not.
            apply(&agent, &[known]);
            // Nothing that was told before that counts; it goes on sending.
            events.try_iter().for_each(drop);
            wait_for(&events, unknown);
        };
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(checks));
        stop.store(true, Ordering::SeqCst);
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
