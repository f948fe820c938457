//! A node and pods without a lab around them, and nft.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use palisade_kernel::{KernelError, Links, Namespace, NextHop, Route, in_fresh_netns, set_sysctl};

use crate::ground::say;

/// How long a test waits for an event before it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// How long a test waits for one datagram, and how often it sends the datagram again.
pub(crate) const TURN: Duration = Duration::from_millis(500);
pub(crate) const TURNS: usize = 40;
/// The gateway of every pod, whatever its address.
const GATEWAYS: [&str; 2] = ["169.254.1.1", "fe80::1"];

/// A node and pods on interfaces of their own, each pod with one address of each family.
pub(crate) struct Cluster {
    pub(crate) node: Namespace,
    pub(crate) pods: Vec<Pod>,
}

pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) addresses: [IpAddr; 2],
}

impl Cluster {
    /// None without root; the test says so.
    pub(crate) fn create(pods: u16) -> Option<Cluster> {
        let node = privileged(Namespace::create())?;
        let mut links = open_links(&node);
        node.run(|| {
            set_sysctl("net/ipv4/ip_forward", "1").unwrap();
            set_sysctl("net/ipv6/conf/all/forwarding", "1").unwrap();
        })
        .unwrap();
        links.set_up("lo").unwrap();
        let pods = (1..=pods).map(|number| Pod::create(&mut links, number)).collect();
        Some(Cluster { node, pods })
    }
}

impl Pod {
    /// The pod at the other end of the interface `podNUMBER`.
    fn create(node: &mut Links, number: u16) -> Pod {
        let namespace = Namespace::create().unwrap();
        // Duplicate address detection would delay each address by a second.
        namespace.run(|| set_sysctl("net/ipv6/conf/default/accept_dad", "0").unwrap()).unwrap();
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

fn open_links(namespace: &Namespace) -> Links {
    namespace.run(|| Links::open().unwrap()).unwrap()
}

fn privileged<T>(result: Result<T, KernelError>) -> Option<T> {
    match result {
        Ok(it) => Some(it),
        Err(KernelError::NoPermission) => {
            say("skipped: needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn unspecified(like: IpAddr) -> SocketAddr {
    if like.is_ipv4() { "0.0.0.0:0".parse().unwrap() } else { "[::]:0".parse().unwrap() }
}

/// The output of nft. None, and a word about it, if nft is not installed.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new("nft").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        say("skipped: nft is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "nft {arguments:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Runs a function in a fresh network namespace. None without root; the test says so.
pub(crate) fn in_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    privileged(in_fresh_netns(work))
}
