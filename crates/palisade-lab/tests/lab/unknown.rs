//! Pods that are there before anybody was told of them, with traffic from their first instant on.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use palisade_kernel::Namespace;
use palisade_lab::{ClosedFor, Families, Finding, Lab, Nodes, Options, PodNetwork, Question, Speaker, WhileUnknown, plan};
use palisade_model::{PodName, Protocol, Severity};
use palisade_testkit::check::snapshot;

use crate::ground::{is_root, say};

/// How many packets are sent before anybody is told.
const EARLY: u64 = 200;
const PACE: Duration = Duration::from_micros(200);
const LIMIT: Duration = Duration::from_secs(20);
/// The first of the ports that the policy of the new pod lets it send to and hear at, and of those that it does not.
const ALLOWED: u16 = 5000;
const DENIED: u16 = 6000;

/// A peer on the first node and one on the second.
const BEFORE: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: peer}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: far}, spec: {nodeName: n2}}
";

/// The new pod with its policy.
const NEW: &str = "
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: new, labels: {app: new}}, spec: {nodeName: n1}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: new}
spec:
  podSelector: {matchLabels: {app: new}}
  policyTypes: [Ingress, Egress]
  ingress: [{ports: [{protocol: UDP, port: 5000, endPort: 5999}]}]
  egress: [{ports: [{protocol: UDP, port: 5000, endPort: 5999}]}]
";

#[test]
fn a_new_pod_sends_and_hears_nothing_until_its_policy_is_in_force() {
    if !is_root() {
        return;
    }
    for network in [PodNetwork::Routed, PodNetwork::Bridged] {
        let trial = Trial::run(network, WhileUnknown::CLOSED);
        for (way, found) in trial.allowed() {
            assert_eq!(found.early, 0, "{network:?} {way}: of {} packets before the policy", found.told);
            let (first, told) = found.first.unwrap_or_else(|| panic!("{network:?} {way}: nothing came"));
            say(&format!("{network:?} {way}: let through {first:?} after its first packet, {told:?} after the agents were told"));
        }
        for (way, found) in trial.denied() {
            assert_eq!((found.early, found.late), (0, 0), "{network:?} {way}: denied packets of {}", found.sent);
        }
        let [closed] = trial.closed_for.as_slice() else { panic!("{:?}", trial.closed_for) };
        say(&format!("{network:?}: its link was up for {closed:?} when its policy was in force"));
    }
}

/// Told at once, as a node is that hears of a pod when its link is there.
#[test]
fn the_time_that_a_pod_waits_for_its_policy_is_measured() {
    if !is_root() {
        return;
    }
    for network in [PodNetwork::Routed, PodNetwork::Bridged] {
        let options = Options { network, ..Options::default() };
        let mut lab = up(&options);
        let old: Vec<PodName> = lab.closed_for().into_iter().map(|it| it.pod).collect();
        assert_eq!(old, [name("far"), name("peer")]);
        lab.apply(lab.plan().next(&model(&format!("{BEFORE}{NEW}")), &options).unwrap(), |_| {}).unwrap();
        let new: Vec<ClosedFor> = lab.closed_for().into_iter().filter(|it| !old.contains(&it.pod)).collect();
        let [ClosedFor { pod, time }] = new.as_slice() else { panic!("{new:?}") };
        say(&format!("{network:?}: {pod} was closed for {time:?}"));
    }
}

/// What the first test would find if nothing was closed.
#[test]
fn where_the_switch_opens_it_a_new_pod_is_a_stranger_without_policy() {
    if !is_root() {
        return;
    }
    for network in [PodNetwork::Routed, PodNetwork::Bridged] {
        let trial = Trial::run(network, WhileUnknown::Open);
        for (way, found) in trial.allowed().into_iter().chain(trial.denied()) {
            assert!(found.early > 0, "{network:?} {way}: none of {} packets before the policy", found.told);
        }
        for (way, found) in trial.denied() {
            assert_eq!(found.late, 0, "{network:?} {way}: denied packets after the policy");
        }
    }
}

/// Three pods of the second node: one that lets in every address, one that no pod of a kind may call, and one without policy.
const FAR: &str = "
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: by-address, labels: {app: by-address}}, spec: {nodeName: n2, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: by-label, labels: {app: by-label}}, spec: {nodeName: n2, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: free}, spec: {nodeName: n2, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: by-address}
spec: {podSelector: {matchLabels: {app: by-address}}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: by-label}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: by-label}}}}
  ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: bad}}}}]}]
";

/// A pod that is known to its own node and not yet to another.
const STRANGER: &str = "
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: stranger}, spec: {nodeName: n1}}
";

#[test]
fn a_pod_of_another_node_that_is_not_known_yet_is_nobody_of_the_outside() {
    for unknown in [WhileUnknown::CLOSED, WhileUnknown::Open] {
        check_stranger(BEFORE, STRANGER, unknown);
    }
}

/// None of the ranges that are named has the address of the pod, but that of its node.
#[test]
fn a_range_that_a_node_names_is_one_of_pods() {
    let before = BEFORE.replace("metadata: {name: n1}", "metadata: {name: n1}, spec: {podCIDR: 10.50.1.0/24, podCIDRs: [10.50.1.0/24]}");
    let stranger = STRANGER.replace("spec: {nodeName: n1}", "spec: {nodeName: n1}, status: {podIPs: [{ip: 10.50.1.9}]}");
    let ranges = vec!["198.51.100.0/24".parse().unwrap()];
    assert_eq!(model(&before).node_ranges, ["10.50.1.0/24".parse().unwrap()]);
    let closed =
        |exempt: &[&str]| WhileUnknown::Closed { ranges: ranges.clone(), exempt: exempt.iter().map(|it| it.parse().unwrap()).collect() };
    let options = Options { unknown: closed(&["10.50.1.7"]), ..Options::default() };
    let closed_ranges: Vec<String> = plan(&model(&before), &options).unwrap().model.pod_ranges.iter().map(ToString::to_string).collect();
    assert_eq!(closed_ranges, ["10.50.1.0/24 except 10.50.1.0/32, 10.50.1.1/32, 10.50.1.7/32", "198.51.100.0/24"]);
    check_stranger(&before, &stranger, closed(&[]));
    check_stranger(&before, &stranger, WhileUnknown::Open);
}

/// A pod calls three of another node, which has not heard of it.
fn check_stranger(before: &str, stranger: &str, unknown: WhileUnknown) {
    if is_root() {
        let options = Options { nodes: Nodes::AsRead, families: Families::AsRead, network: PodNetwork::Routed, unknown };
        let mut lab = up_with(&format!("{before}{FAR}"), &options);
        lab.build(lab.plan().next(&model(&format!("{before}{FAR}{stranger}")), &options).unwrap(), |_| {}).unwrap();
        lab.tell("n1").unwrap();
        let denied_by = |lab: &mut Lab| {
            let questions = ["by-address", "by-label", "free"].map(|to| Question {
                from: Speaker::Pod(name("stranger")),
                source: *addresses(lab, "stranger").first().unwrap(),
                to: *addresses(lab, to).first().unwrap(),
                protocol: Protocol::TCP,
                port: Some(80),
            });
            let said = lab.probe(&questions).unwrap().into_iter().map(|it| match it {
                Finding::Answered => "answered".to_owned(),
                Finding::Denied(denial) => denial.report().sentence,
                other @ (Finding::Refused | Finding::Leaked(_) | Finding::Silent | Finding::Unsent(_)) => panic!("{other:?}"),
            });
            said.collect::<Vec<String>>()
        };
        let before = denied_by(&mut lab);
        match &options.unknown {
            WhileUnknown::Closed { .. } => {
                let isolated = "isolated by NetworkPolicy x/by-address, no rule accepts";
                assert_eq!(before, [isolated, "ClusterNetworkPolicy by-label rule 0 denies", "answered"]);
            }
            WhileUnknown::Open => assert_eq!(before, ["answered"; 3]),
        }
        let start = Instant::now();
        lab.tell("n2").unwrap();
        say(&format!("{:?}: the other node knew it {:?} after it was told", options.unknown, start.elapsed()));
        assert_eq!(denied_by(&mut lab), ["answered"; 3]);
    }
}

/// What became of a new pod's traffic.
struct Trial {
    found: Vec<(&'static str, u16, Found)>,
    closed_for: Vec<Duration>,
}

/// What became of the packets from one end to another.
#[derive(Debug)]
struct Found {
    sent: u64,
    /// Sent before the agents were told.
    told: u64,
    /// Of these, arrived.
    early: usize,
    /// Arrived of those that were sent when the agents had done what they were told.
    late: usize,
    /// From the first packet, and from the telling, to the first that arrived.
    first: Option<(Duration, Duration)>,
}

impl Trial {
    fn run(network: PodNetwork, unknown: WhileUnknown) -> Trial {
        let options = Options { nodes: Nodes::AsRead, families: Families::Both, network, unknown };
        let mut lab = up(&options);
        let next = lab.plan().next(&model(&format!("{BEFORE}{NEW}")), &options).unwrap();
        lab.build(next, |_| {}).unwrap();
        let ends: Vec<(&'static str, &'static str, &'static str)> = vec![
            ("to its node's other pod", "new", "peer"),
            ("from its node's other pod", "peer", "new"),
            ("to another node", "new", "far"),
            ("from another node", "far", "new"),
        ];
        let mut streams = Vec::new();
        for port in [ALLOWED, DENIED] {
            for (at, (way, from, to)) in (port..).zip(&ends) {
                for (source, destination) in addresses(&lab, from).into_iter().zip(addresses(&lab, to)) {
                    let receiver = bind(namespace(&lab, to), SocketAddr::new(destination, at));
                    streams.push(Stream { way, port, from: (*from).to_owned(), source, receiver, sent: AtomicU64::new(0) });
                }
            }
        }
        let stop = AtomicBool::new(false);
        let (told, done, arrived) = std::thread::scope(|scope| {
            let senders: Vec<_> = streams
                .iter()
                .map(|it| {
                    let (namespace, stop) = (namespace(&lab, &it.from).run(|| Namespace::current().unwrap()).unwrap(), &stop);
                    scope.spawn(move || it.send(&namespace, stop))
                })
                .collect();
            let receivers: Vec<_> = streams.iter().map(|it| scope.spawn(|| it.receive(&stop))).collect();
            await_all(&streams, |it| it.sent.load(Ordering::SeqCst) >= EARLY);
            let told = (Instant::now(), counts(&streams));
            for node in ["n1", "n2"] {
                lab.tell(node).unwrap();
            }
            let done = counts(&streams);
            // As many afterwards, however long it took to tell.
            let most = done.iter().copied().max().unwrap_or(0);
            await_all(&streams, |it| it.sent.load(Ordering::SeqCst) >= most + EARLY);
            stop.store(true, Ordering::SeqCst);
            let started: Vec<Instant> = senders.into_iter().map(|it| it.join().unwrap()).collect();
            let arrived: Vec<Vec<(u64, Instant)>> = receivers.into_iter().map(|it| it.join().unwrap()).collect();
            (told, done, started.into_iter().zip(arrived).collect::<Vec<_>>())
        });
        let (at, told) = told;
        let each = streams.iter().zip(arrived).zip(told.into_iter().zip(done));
        let found = each.map(|((stream, (started, arrived)), (told, done))| {
            let first = arrived.iter().map(|(_, at)| *at).min();
            let found = Found {
                sent: stream.sent.load(Ordering::SeqCst),
                told,
                early: arrived.iter().filter(|(number, _)| *number < told).count(),
                late: arrived.iter().filter(|(number, _)| *number > done).count(),
                first: first.map(|it| (it - started, it.saturating_duration_since(at))),
            };
            (stream.way, stream.port, found)
        });
        let closed_for = lab.closed_for().into_iter().filter(|it| it.pod == name("new")).map(|it| it.time).collect();
        Trial { found: found.collect(), closed_for }
    }

    fn allowed(&self) -> Vec<(&'static str, &Found)> {
        self.found.iter().filter(|(_, port, _)| *port == ALLOWED).map(|(way, _, found)| (*way, found)).collect()
    }

    fn denied(&self) -> Vec<(&'static str, &Found)> {
        self.found.iter().filter(|(_, port, _)| *port == DENIED).map(|(way, _, found)| (*way, found)).collect()
    }
}

/// Datagrams with numbers from one end to another, each as a connection of its own.
struct Stream {
    way: &'static str,
    port: u16,
    from: String,
    source: IpAddr,
    receiver: UdpSocket,
    sent: AtomicU64,
}

impl Stream {
    /// Sends until it is told to stop. Gives the time of the first packet.
    fn send(&self, namespace: &Namespace, stop: &AtomicBool) -> Instant {
        let to = self.receiver.local_addr().unwrap();
        let send = || {
            let start = Instant::now();
            for number in 0_u64.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let socket = UdpSocket::bind((self.source, 0)).unwrap();
                // What is dropped on the way out of this namespace is an error, and counts as sent.
                drop(socket.send_to(&number.to_be_bytes(), to));
                self.sent.store(number + 1, Ordering::SeqCst);
                // A pace that leaves room for those who are told.
                std::thread::sleep(PACE);
            }
            start
        };
        namespace.run(send).unwrap()
    }

    fn receive(&self, stop: &AtomicBool) -> Vec<(u64, Instant)> {
        self.receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut arrived = Vec::new();
        let mut buffer = [0; 8];
        loop {
            match self.receiver.recv(&mut buffer) {
                Ok(8) => arrived.push((u64::from_be_bytes(buffer), Instant::now())),
                Ok(length) => panic!("{length} bytes"),
                Err(_) if stop.load(Ordering::SeqCst) => return arrived,
                Err(_) => {}
            }
        }
    }
}

fn counts(streams: &[Stream]) -> Vec<u64> {
    streams.iter().map(|it| it.sent.load(Ordering::SeqCst)).collect()
}

fn await_all(streams: &[Stream], done: impl Fn(&Stream) -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !streams.iter().all(&done) {
        assert!(Instant::now() < deadline, "{:?}", counts(streams));
        std::thread::yield_now();
    }
}

fn bind(namespace: &Namespace, address: SocketAddr) -> UdpSocket {
    namespace.run(|| UdpSocket::bind(address).unwrap()).unwrap()
}

fn up(options: &Options) -> Lab {
    up_with(BEFORE, options)
}

fn up_with(text: &str, options: &Options) -> Lab {
    let (events, _heard) = channel();
    let (lab, notes) = Lab::up(plan(&model(text), options).unwrap(), events, |_| {}).unwrap();
    assert_eq!(notes, Vec::<String>::new());
    lab
}

fn model(text: &str) -> palisade_model::Model {
    let snapshot = snapshot("cluster.yaml", text);
    let errors = snapshot.diagnostics.iter().filter(|it| it.severity == Severity::Error);
    assert_eq!(errors.map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    snapshot.model
}

fn name(pod: &str) -> PodName {
    PodName { namespace: "x".into(), name: pod.into() }
}

fn namespace<'a>(lab: &'a Lab, pod: &str) -> &'a Namespace {
    lab.namespace(&Speaker::Pod(name(pod))).unwrap()
}

fn addresses(lab: &Lab, pod: &str) -> Vec<IpAddr> {
    lab.plan().model.endpoints.iter().find(|it| it.name == name(pod)).unwrap().addresses.clone()
}
