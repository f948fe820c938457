//! Services, with real connections to them.

mod ground;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{Links, Namespace, NextHop, Route};
use palisade_lab::{ServiceRule, Services};
use palisade_model::PortProtocol;

use crate::ground::say;
use ground::{Cluster, LIMIT, Pod, TURN, TURNS, in_netns, nft, unspecified};

const PORT: u16 = 80;
const TARGET: u16 = 8080;
/// Enough that of two backends each is met, but once in the age of the universe.
const ROUNDS: usize = 64;

/// The addresses of the Service, in the order of the addresses of a pod.
fn virtual_addresses() -> [IpAddr; 2] {
    ["10.96.0.1", "fd96::1"].map(|it| it.parse().unwrap())
}

/// A Service of both families and protocols with pods behind it.
fn rules(pods: &[&Pod]) -> Vec<ServiceRule> {
    let mut rules = Vec::new();
    for protocol in [PortProtocol::Tcp, PortProtocol::Udp] {
        for (family, address) in virtual_addresses().into_iter().enumerate() {
            let backends = pods.iter().map(|pod| (*pod.addresses.get(family).unwrap(), TARGET)).collect();
            rules.push(ServiceRule { address, protocol, port: PORT, backends });
        }
    }
    rules
}

fn hairpin(cluster: &Cluster) -> Vec<IpAddr> {
    cluster.pods.iter().flat_map(|pod| pod.addresses).collect()
}

fn open(cluster: &Cluster) -> Services {
    cluster.node.run(|| Services::open().unwrap()).unwrap()
}

/// What listens in each pod, by family.
fn listeners(pods: &[&Pod], family: usize) -> Vec<TcpListener> {
    let address = |pod: &Pod| SocketAddr::new(*pod.addresses.get(family).unwrap(), TARGET);
    pods.iter().map(|pod| pod.namespace.run(|| TcpListener::bind(address(pod)).unwrap()).unwrap()).collect()
}

fn sockets(pods: &[&Pod], family: usize) -> Vec<UdpSocket> {
    let address = |pod: &Pod| SocketAddr::new(*pod.addresses.get(family).unwrap(), TARGET);
    pods.iter().map(|pod| pod.namespace.run(|| UdpSocket::bind(address(pod)).unwrap()).unwrap()).collect()
}

/// The first that has something to read.
fn ready<T: AsFd>(all: &[T], milliseconds: u16) -> Option<usize> {
    let mut polled: Vec<PollFd<'_>> = all.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut polled, PollTimeout::from(milliseconds)).unwrap();
    polled.iter().position(|it| it.any() == Some(true))
}

/// Connects to the Service, and says who answered and whom it saw.
fn connect(from: &Namespace, servers: &[TcpListener], family: usize) -> (usize, TcpStream, TcpStream, SocketAddr) {
    let target = SocketAddr::new(*virtual_addresses().get(family).unwrap(), PORT);
    let mut client = from.run(|| TcpStream::connect_timeout(&target, LIMIT).unwrap()).unwrap();
    let index = ready(servers, 20_000).unwrap();
    let (mut accepted, peer) = servers.get(index).unwrap().accept().unwrap();
    talk(&mut client, &mut accepted);
    (index, client, accepted, peer)
}

fn talk(client: &mut TcpStream, server: &mut TcpStream) {
    let mut buffer = [0; 8];
    for stream in [&*client, &*server] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    client.write_all(b"question").unwrap();
    server.read_exact(&mut buffer).unwrap();
    server.write_all(&buffer).unwrap();
    client.read_exact(&mut buffer).unwrap();
}

/// Sends a datagram to the Service, and says who answered and whom it saw.
fn exchange(from: &Namespace, servers: &[UdpSocket], family: usize) -> (usize, SocketAddr) {
    let target = SocketAddr::new(*virtual_addresses().get(family).unwrap(), PORT);
    let client = from.run(|| UdpSocket::bind(unspecified(target.ip())).unwrap()).unwrap();
    client.connect(target).unwrap();
    client.set_read_timeout(Some(TURN)).unwrap();
    let mut buffer = [0; 8];
    for _ in 0..TURNS {
        client.send(b"question").unwrap();
        let Some(index) = ready(servers, 500) else { continue };
        let server = servers.get(index).unwrap();
        let (_, peer) = server.recv_from(&mut buffer).unwrap();
        server.send_to(b"answer", peer).unwrap();
        // It is connected, so only an answer from the Service's own address arrives.
        if client.recv(&mut buffer).is_ok() {
            return (index, peer);
        }
    }
    panic!("no datagram came back from {target}");
}

fn refusal(from: &Namespace, family: usize) -> [ErrorKind; 2] {
    let target = SocketAddr::new(*virtual_addresses().get(family).unwrap(), PORT);
    let stream = from.run(|| TcpStream::connect_timeout(&target, LIMIT).unwrap_err().kind()).unwrap();
    let client = from.run(|| UdpSocket::bind(unspecified(target.ip())).unwrap()).unwrap();
    client.connect(target).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    // Who sends from the refusing node itself may learn that at once.
    if let Err(error) = client.send(b"question") {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    [stream, client.recv(&mut [0; 8]).unwrap_err().kind()]
}

/// Ways from the node to the Service, without which its own processes do not even try.
fn add_ways(cluster: &Cluster) {
    let mut links = cluster.node.run(|| Links::open().unwrap()).unwrap();
    for to in virtual_addresses() {
        links.add_route(&Route { to: to.into(), via: NextHop::Destination, link: "pod1".to_owned(), source: None }).unwrap();
    }
}

#[test]
fn both_backends_of_a_service_get_traffic() {
    let Some(cluster) = Cluster::create(3) else { return };
    let [client, backends @ ..] = cluster.pods.as_slice() else { panic!("pods") };
    let backends: Vec<&Pod> = backends.iter().collect();
    open(&cluster).replace(&rules(&backends), &hairpin(&cluster)).unwrap();
    add_ways(&cluster);
    for family in 0..2 {
        let (listeners, sockets) = (listeners(&backends, family), sockets(&backends, family));
        for from in [&client.namespace, &cluster.node] {
            let (mut streams, mut datagrams) = ([0; 2], [0; 2]);
            for _ in 0..ROUNDS {
                let (index, _, _, peer) = connect(from, &listeners, family);
                *streams.get_mut(index).unwrap() += 1;
                let is_client = client.addresses.contains(&peer.ip());
                assert_eq!(is_client, std::ptr::eq(from, &client.namespace), "{peer}");
                *datagrams.get_mut(exchange(from, &sockets, family).0).unwrap() += 1;
            }
            assert!(streams.iter().chain(&datagrams).all(|it| *it > 0), "{streams:?} {datagrams:?}");
        }
    }
}

#[test]
fn a_pod_reaches_itself_through_a_service() {
    let Some(cluster) = Cluster::create(1) else { return };
    let pod = cluster.pods.first().unwrap();
    let mut services = open(&cluster);
    services.replace(&rules(&[pod]), &hairpin(&cluster)).unwrap();
    for family in 0..2 {
        let (_, _, _, peer) = connect(&pod.namespace, &listeners(&[pod], family), family);
        assert!(!pod.addresses.contains(&peer.ip()), "{peer}");
        let (_, peer) = exchange(&pod.namespace, &sockets(&[pod], family), family);
        assert!(!pod.addresses.contains(&peer.ip()), "{peer}");
    }
}

#[test]
fn a_service_without_backends_refuses() {
    let Some(cluster) = Cluster::create(1) else { return };
    let pod = cluster.pods.first().unwrap();
    open(&cluster).replace(&rules(&[]), &[]).unwrap();
    add_ways(&cluster);
    for family in 0..2 {
        assert_eq!(refusal(&pod.namespace, family), [ErrorKind::ConnectionRefused; 2]);
        assert_eq!(refusal(&cluster.node, family), [ErrorKind::ConnectionRefused; 2]);
    }
}

#[test]
fn changed_backends_are_those_of_new_connections() {
    let Some(cluster) = Cluster::create(3) else { return };
    let [client, one, other] = cluster.pods.as_slice() else { panic!("pods") };
    let mut services = open(&cluster);
    for family in 0..2 {
        let (listeners, sockets) = (listeners(&[one, other], family), sockets(&[one, other], family));
        services.replace(&rules(&[one]), &hairpin(&cluster)).unwrap();
        let (index, mut near, mut far, _) = connect(&client.namespace, &listeners, family);
        assert_eq!(index, 0);
        for (backends, index) in [(&[other], 1), (&[one], 0), (&[other], 1)] {
            services.replace(&rules(backends.as_slice()), &hairpin(&cluster)).unwrap();
            for _ in 0..8 {
                assert_eq!(connect(&client.namespace, &listeners, family).0, index);
                assert_eq!(exchange(&client.namespace, &sockets, family).0, index);
            }
            talk(&mut near, &mut far);
        }
        services.replace(&rules(&[]), &hairpin(&cluster)).unwrap();
        assert_eq!(refusal(&client.namespace, family), [ErrorKind::ConnectionRefused; 2]);
        talk(&mut near, &mut far);
    }
}

#[test]
fn no_connection_fails_while_backends_change() {
    let Some(cluster) = Cluster::create(3) else { return };
    let [client, one, other] = cluster.pods.as_slice() else { panic!("pods") };
    let mut services = open(&cluster);
    let sets = [rules(&[one]), rules(&[one, other]), rules(&[other])];
    services.replace(&sets[0], &hairpin(&cluster)).unwrap();
    let listeners = listeners(&[one, other], 0);
    let (done, mut connections) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (turn, rules) in sets.iter().cycle().take(5_000).enumerate() {
                // Pods come and go as well.
                services.replace(rules, if turn % 2 == 0 { &[] } else { &one.addresses }).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            connect(&client.namespace, &listeners, 0);
            connections += 1;
        }
    });
    say(&format!("{connections} connections during 5,000 changes"));
}

#[test]
fn nft_reads_the_table_and_takes_it_back() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let rule = |text: &str, protocol, port, backends: &[(&str, u16)]| {
        let backends = backends.iter().map(|(text, port)| (address(text), *port)).collect();
        ServiceRule { address: address(text), protocol, port, backends }
    };
    // One element a set: nft lists several in no order.
    let rules = [
        rule("10.96.0.1", PortProtocol::Tcp, 443, &[("10.1.0.1", 6443), ("10.1.0.2", 6443), ("10.1.0.3", 6443)]),
        rule("10.96.0.11", PortProtocol::Sctp, 7, &[]),
        rule("fd96::1", PortProtocol::Udp, 53, &[("fd00::1", 5353), ("fd00::2", 5353)]),
        rule("fd96::2", PortProtocol::Udp, 1, &[]),
    ];
    let list = || nft(&["list", "ruleset"], "");
    let ours = in_netns(|| {
        Services::open().unwrap().replace(&rules, &[address("10.1.0.1"), address("fd00::1")]).unwrap();
        list()
    });
    let Some(Some(ours)) = ours else { return };
    let theirs = in_netns(|| {
        nft(&["-f", "-"], &ours);
        list()
    });
    assert_eq!(Some(Some(ours.as_str())), theirs.as_ref().map(|it| it.as_deref()));
    assert_eq!(ours, include_str!("services.nft"));
}

#[test]
fn a_removed_table_leaves_nothing_and_others_stay() {
    in_netns(|| {
        let theirs = "table inet palisade {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n";
        if nft(&["-f", "-"], theirs).is_none() {
            return;
        }
        let mut services = Services::open().unwrap();
        let rule = ServiceRule { address: "10.96.0.1".parse().unwrap(), protocol: PortProtocol::Tcp, port: 80, backends: Vec::new() };
        services.replace(std::slice::from_ref(&rule), &[]).unwrap();
        assert!(nft(&["list", "tables"], "").unwrap().contains("table inet palisade-lab-services\n"));
        for _ in 0..2 {
            services.remove().unwrap();
            assert_eq!(nft(&["list", "ruleset"], "").unwrap(), theirs);
        }
        // Whatever somebody else did to it, the table is as it should be afterwards.
        services.replace(std::slice::from_ref(&rule), &[]).unwrap();
        let whole = nft(&["list", "ruleset"], "").unwrap();
        nft(&["delete", "table", "inet", "palisade-lab-services"], "").unwrap();
        services.replace(&[], &[]).unwrap();
        services.replace(&[rule], &[]).unwrap();
        assert_eq!(nft(&["list", "ruleset"], "").unwrap(), whole);
    });
}

#[test]
fn what_is_no_service_is_named() {
    in_netns(|| {
        let mut services = Services::open().unwrap();
        let rule = |backends: &[(&str, u16)]| {
            let backends = backends.iter().map(|(text, port)| (text.parse().unwrap(), *port)).collect();
            ServiceRule { address: "10.96.0.1".parse().unwrap(), protocol: PortProtocol::Tcp, port: 80, backends }
        };
        let cases = [
            (vec![rule(&[("fd00::1", 1)])], "service 10.96.0.1 tcp 80: backend fd00::1 is of the other family"),
            (vec![rule(&[("10.1.0.1", 0)])], "service 10.96.0.1 tcp 80: there is no port 0"),
            (vec![rule(&[]), rule(&[("10.1.0.1", 1)])], "service 10.96.0.1 tcp 80: it is there twice"),
        ];
        for (rules, expected) in cases {
            let error = services.replace(&rules, &[]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    });
}
