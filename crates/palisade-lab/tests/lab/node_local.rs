//! A resolver on the node, as NodeLocal DNSCache has it: at a link-local address on a link of its own, and not tracked.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use palisade_agent::{Event, Name};
use palisade_kernel::{Links, Namespace};
use palisade_lab::{Lab, NodeEvent, Options, Speaker, WhileUnknown, plan};
use palisade_model::PodName;
use palisade_testkit::check::snapshot;

use crate::ground::{is_root, say};

const RESOLVER: &str = "169.254.20.10";
const LIMIT: Duration = Duration::from_secs(10);

/// Who may call whom: all, the resolver by its address, and the pods that are meant by it.
const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: dns, labels: {app: dns}}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: free, labels: {app: free}}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: by-address, labels: {app: by-address}}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: x, name: by-label, labels: {app: by-label}}, spec: {nodeName: n1}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: by-address}
spec:
  podSelector: {matchLabels: {app: by-address}}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: 169.254.20.10/32}}], ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: x, name: by-label}
spec: {podSelector: {matchLabels: {app: by-label}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: dns}}}]}]}
";

const NOT_TRACKED: &str = "table ip node-local {
    chain prerouting { type filter hook prerouting priority raw; ip daddr 169.254.20.10 notrack
    }
    chain output { type filter hook output priority raw; ip saddr 169.254.20.10 notrack
    }
}
";

fn name(pod: &str) -> PodName {
    PodName { namespace: "x".into(), name: pod.into() }
}

struct Ground {
    lab: Lab,
    events: Receiver<NodeEvent>,
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Ground {
    /// None without root or nft.
    fn create(exempt: BTreeSet<IpAddr>) -> Option<Ground> {
        if !is_root() {
            return None;
        }
        let (sender, events) = channel();
        let options = Options { unknown: WhileUnknown::Closed { ranges: Vec::new(), exempt }, ..Options::default() };
        let (lab, _) = Lab::up(plan(&snapshot("cluster.yaml", CLUSTER).model, &options).unwrap(), sender, |_| {}).unwrap();
        let node = lab.namespace(&Speaker::Node("n1".into()))?;
        let (udp, tcp) = node.run(|| listen(node)).unwrap()?;
        Some(Ground { lab, events, udp, tcp })
    }

    fn pod(&self, pod: &str) -> &Namespace {
        self.lab.namespace(&Speaker::Pod(name(pod))).unwrap()
    }

    /// A question and its answer by UDP, and a connection by TCP with a word each way.
    fn resolves(&self, pod: &str) {
        let at = SocketAddr::new(RESOLVER.parse().unwrap(), 53);
        let client = self.pod(pod).run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        client.send_to(b"question", at).unwrap();
        let (_, from) = self.udp.recv_from(&mut [0; 64]).unwrap_or_else(|error| panic!("{pod}: {error}"));
        self.udp.send_to(b"answer", from).unwrap();
        assert_eq!(client.recv_from(&mut [0; 64]).unwrap_or_else(|error| panic!("{pod}: {error}")).1, at);
        let mut stream =
            self.pod(pod).run(|| TcpStream::connect_timeout(&at, LIMIT)).unwrap().unwrap_or_else(|error| panic!("{pod}: {error}"));
        let (mut served, _) = self.tcp.accept().unwrap();
        exchange(&mut stream, &mut served);
        exchange(&mut served, &mut stream);
    }

    /// The policy that denies the question of a pod.
    fn denied_by(&self, pod: &str) -> String {
        let client = self.pod(pod).run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        client.send_to(b"question", (RESOLVER, 53)).unwrap();
        let deadline = Instant::now() + LIMIT;
        while let Ok(NodeEvent { event, .. }) = self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Event::Denied(denial) = event
                && denial.source.name == Name::Pod(name(pod))
                && denial.destination.address == RESOLVER.parse::<IpAddr>().unwrap()
            {
                return denial.report().sentence;
            }
        }
        panic!("{pod}: nothing is denied");
    }
}

fn exchange(from: &mut TcpStream, to: &mut TcpStream) {
    use std::io::{Read as _, Write as _};
    to.set_read_timeout(Some(LIMIT)).unwrap();
    from.write_all(b"word").unwrap();
    to.read_exact(&mut [0; 4]).unwrap();
}

/// The resolver's sockets, at an address of a link that leads nowhere.
fn listen(node: &Namespace) -> Option<(UdpSocket, TcpListener)> {
    let mut links = Links::open().unwrap();
    links.add_veth("nodelocaldns", "nowhere", node).unwrap();
    links.add_address("nodelocaldns", format!("{RESOLVER}/32").parse().unwrap()).unwrap();
    links.set_up("nodelocaldns").unwrap();
    let child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        say("skipped: nft is not installed");
        return None;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), NOT_TRACKED.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let udp = UdpSocket::bind((RESOLVER, 53)).unwrap();
    udp.set_read_timeout(Some(LIMIT)).unwrap();
    Some((udp, TcpListener::bind((RESOLVER, 53)).unwrap()))
}

#[test]
fn a_resolver_of_the_node_that_is_not_tracked_answers_whom_policy_lets_call_it() {
    for exempt in [BTreeSet::new(), BTreeSet::from([RESOLVER.parse().unwrap()])] {
        let Some(ground) = Ground::create(exempt) else { return };
        ground.resolves("free");
        ground.resolves("by-address");
        // The pods behind the resolver are not the resolver, and whoever is exempt is no pod: policy says what it says.
        assert_eq!(ground.denied_by("by-label"), "isolated by NetworkPolicy x/by-label, no rule accepts");
    }
}
