//! What the tests stand on: namespaces, nft, and a word about what was not done.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;
use palisade_engine::compile;
use palisade_kernel::{KernelError, Links, Namespace, NextHop, Route, in_fresh_netns, set_sysctl};
use palisade_model::{EndpointId, Model, NodeId, Severity};
use palisade_nft::{Hook, Ids, NodeView, Ruleset, Unknown, lower};

/// How long anything may take that comes by itself.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// How long one datagram is waited for, and how often it is sent.
pub(crate) const TURN: Duration = Duration::from_millis(500);
pub(crate) const TURNS: usize = 40;

/// The gateway that every pod has, whatever its address.
pub(crate) const GATEWAYS: [&str; 2] = ["169.254.1.1", "fe80::1"];

/// A node and pods on links of their own, each with an address of both families and no network in common.
pub(crate) struct Cluster {
    pub(crate) node: Namespace,
    pub(crate) pods: Vec<Pod>,
}

pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) addresses: [IpAddr; 2],
}

/// Whether a pod finds out if somebody else has its link-local address before it uses it, which takes a second.
#[derive(Clone, Copy)]
pub(crate) enum Detection {
    On,
    Off,
}

impl Cluster {
    /// None, and a word about it, without permission.
    pub(crate) fn create(pods: u16) -> Option<Cluster> {
        let node = privileged(Namespace::create())?;
        let mut links = open_links(&node);
        node.run(|| {
            set_sysctl("net/ipv4/ip_forward", "1").unwrap();
            set_sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
        })
        .unwrap();
        links.set_up("lo").unwrap();
        let pods = (1..=pods).map(|number| Pod::create(&mut links, number, Detection::Off)).collect();
        Some(Cluster { node, pods })
    }
}

impl Pod {
    /// The pod at the other end of the link `podNUMBER`.
    pub(crate) fn create(node: &mut Links, number: u16, detection: Detection) -> Pod {
        let namespace = Namespace::create().unwrap();
        match detection {
            Detection::On => {}
            Detection::Off => namespace.run(|| set_sysctl("net/ipv6/conf/default/accept_dad", "0").unwrap()).unwrap(),
        }
        let name = format!("pod{number}");
        let [high, low] = number.to_be_bytes();
        let addresses = [IpAddr::from([10, 1, high, low]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, number])];
        node.add_veth(&name, "eth0", &namespace).unwrap();
        let mut inside = open_links(&namespace);
        inside.set_up("lo").unwrap();
        inside.set_up("eth0").unwrap();
        node.set_up(&name).unwrap();
        for (address, gateway) in addresses.into_iter().zip(GATEWAYS) {
            let gateway: IpAddr = gateway.parse().unwrap();
            inside.add_address("eth0", address.into()).unwrap();
            node.add_address(&name, gateway.into()).unwrap();
            node.add_route(&Route { to: address.into(), via: NextHop::Destination, link: name.clone(), source: None }).unwrap();
            let everywhere = if address.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let to = everywhere.parse().unwrap();
            inside.add_route(&Route { to, via: NextHop::OnLink(gateway), link: "eth0".to_owned(), source: Some(address) }).unwrap();
        }
        Pod { namespace, addresses }
    }
}

/// The manifest of a pod of the one node, labelled with its name.
pub(crate) fn pod(name: &str, addresses: &[&str]) -> String {
    let addresses: Vec<String> = addresses.iter().map(|it| format!("{{ip: \"{it}\"}}")).collect();
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: node-1
  containers: [{{name: main, image: registry.k8s.io/pause:3.10}}]
status: {{podIPs: [{}]}}
---
",
        addresses.join(", ")
    )
}

/// The model of manifests that nothing is wrong with.
pub(crate) fn model(manifests: &str) -> Model {
    let snapshot = palisade_testkit::check::snapshot("cluster.yaml", manifests);
    assert!(snapshot.diagnostics.iter().all(|it| it.severity == Severity::Note), "{:?}", snapshot.diagnostics);
    snapshot.model
}

/// The ruleset of the first node of a cluster.
pub(crate) fn lowered(model: &Model, links: BTreeMap<EndpointId, String>, ids: &mut Ids) -> Ruleset {
    lower(model, &compile(model), &NodeView { node: NodeId(0), links, unknown: Unknown::Open }, ids)
}

/// Makes the links that rulesets bind sources to, in the namespace of the caller: not every kernel takes names that are of no link.
pub(crate) fn add_links<'a>(rulesets: impl IntoIterator<Item = &'a Ruleset>) {
    let hooks = rulesets.into_iter().flat_map(|it| it.chains.values()).filter_map(|it| it.hook.as_ref());
    let devices: BTreeSet<&String> = hooks.filter_map(Hook::devices).flatten().collect();
    let mut links = Links::open().unwrap();
    devices.into_iter().for_each(|it| links.add_bridge(it).unwrap());
}

pub(crate) fn open_links(namespace: &Namespace) -> Links {
    namespace.run(|| Links::open().unwrap()).unwrap()
}

/// What needs permission. None, and a word about it, without.
pub(crate) fn privileged<T>(result: Result<T, KernelError>) -> Option<T> {
    match result {
        Ok(it) => Some(it),
        Err(KernelError::NoPermission) => {
            say("skipped: needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends a datagram from one namespace, again if it is lost, and an answer back. Gives the address that it came from.
pub(crate) fn exchange_datagram(from: &Namespace, to: &Namespace, address: IpAddr) -> IpAddr {
    let server = to.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
    let client = from.run(|| UdpSocket::bind(unspecified(address)).unwrap()).unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(TURN)).unwrap();
    server.set_read_timeout(Some(TURN)).unwrap();
    let mut buffer = [0; 16];
    for _ in 0..TURNS {
        // An earlier one may have been refused.
        if client.send(b"question").is_err() {
            continue;
        }
        let Ok((length, peer)) = server.recv_from(&mut buffer) else { continue };
        assert_eq!(buffer.get(..length), Some(b"question".as_slice()));
        server.send_to(b"answer", peer).unwrap();
        if let Ok(length) = client.recv(&mut buffer) {
            assert_eq!(buffer.get(..length), Some(b"answer".as_slice()));
            return peer.ip();
        }
    }
    panic!("no datagram reached {address}");
}

/// Connects from one namespace, and says something both ways. Gives the address that it came from.
pub(crate) fn exchange_stream(from: &Namespace, to: &Namespace, address: IpAddr) -> IpAddr {
    let server = to.run(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
    let target = server.local_addr().unwrap();
    let mut client = from.run(|| TcpStream::connect_timeout(&target, LIMIT).unwrap()).unwrap();
    let (mut accepted, peer) = server.accept().unwrap();
    for stream in [&client, &accepted] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    let mut buffer = [0; 8];
    client.write_all(b"question").unwrap();
    accepted.read_exact(&mut buffer).unwrap();
    accepted.write_all(&buffer).unwrap();
    client.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"question");
    peer.ip()
}

pub(crate) fn unspecified(like: IpAddr) -> SocketAddr {
    if like.is_ipv4() { "0.0.0.0:0".parse().unwrap() } else { "[::]:0".parse().unwrap() }
}

/// Waits until the links of a namespace are as they should be. The kernel tells of each change, so nothing sleeps.
pub(crate) fn await_links(namespace: &Namespace, done: impl Fn(&[palisade_kernel::Link]) -> bool + Sync) {
    let open = || {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).unwrap();
        // The first group is that of links.
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 1)).unwrap();
        (fd, Links::open().unwrap())
    };
    let (news, mut links) = namespace.run(open).unwrap();
    setsockopt(&news, sockopt::ReceiveTimeout, &TimeVal::new(1, 0)).unwrap();
    let deadline = Instant::now() + LIMIT;
    let mut buffer = [0; 65_536];
    loop {
        let links = links.list().unwrap();
        if done(&links) {
            return;
        }
        assert!(Instant::now() < deadline, "still {links:?}");
        // Whatever it says, even that some was lost, the answer is to look again.
        if let Err(errno) = recv(news.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            assert!([Errno::EAGAIN, Errno::EINTR, Errno::ENOBUFS].contains(&errno), "{errno}");
        }
    }
}

/// What nft prints. None, and a word about it, if there is no nft.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Option<String> {
    command("nft", arguments, input)
}

/// What a command prints. None, and a word about it, if it is not there.
pub(crate) fn command(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        say(&format!("skipped: {program} is not installed"));
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Runs something in a fresh network namespace. None, and a word about it, without permission.
pub(crate) fn in_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    privileged(in_fresh_netns(work))
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
