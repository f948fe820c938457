//! What a pod can send with sources that are not its own: nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use palisade_kernel::{Kernel as _, KernelError, Namespace, Nftables, Object};
use palisade_model::EndpointId;
use palisade_nft::{Chain, Change, Guard, Hook, Ids, LOG_PREFIX, Origin, Rule, Ruleset, Shared, Verdict};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ground::{Cluster, Detection, LIMIT, Pod, add_links, command, in_netns, lowered, model, open_links, pod, say};
use crate::packets::{Forged, ICMPV6, Prefixes, counted, exchange, is_silent, received, server};
use crate::rulesets::large;

#[test]
fn own_sources_pass_and_others_are_dropped_counted_and_logged() {
    let Some(cluster) = Cluster::create(3) else { return };
    let [first, second, third] = cluster.pods.as_slice() else { panic!("three pods") };
    let ruleset = ruleset(3, Bound::Yes);
    load(&cluster.node, &ruleset);
    let mut logged = Prefixes::open(&cluster.node);
    let prefix = format!("{LOG_PREFIX}{:08x} ", origin(&ruleset, Guard::ForgedSource));
    let mut sent = 0;
    for (at, stranger) in ["192.0.2.7", "fd00::77"].into_iter().enumerate() {
        let (own, destination) = (first.addresses[at], second.addresses[at]);
        let server = server(&second.namespace, SocketAddr::new(destination, 5000));
        let send = |source, text: &str| Forged::datagram(source, destination, 5000, text).send_from(&first.namespace);
        send(own, "own");
        assert_eq!(received(&server), "own");
        // Those of the node itself.
        let gateway = if own.is_ipv4() { "169.254.1.1" } else { "fe80::1" };
        for source in [stranger.parse().unwrap(), third.addresses[at], gateway.parse().unwrap()] {
            send(source, "forged");
            sent += 1;
            assert_eq!(logged.next(), prefix);
        }
        send(own, "own again");
        assert_eq!(received(&server), "own again");
        assert!(is_silent(&server));
    }
    if let Some(counted) = counted(&cluster.node, "palisade", "sources", "forged source") {
        assert_eq!(counted, sent);
    }
}

/// Without known links the same packets pass: what stops them is the chain.
#[test]
fn without_known_links_no_source_is_bound() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    load(&cluster.node, &ruleset(2, Bound::No));
    for (at, stranger) in ["192.0.2.7", "fd00::77"].into_iter().enumerate() {
        let server = server(&second.namespace, SocketAddr::new(second.addresses[at], 5000));
        Forged::datagram(stranger.parse().unwrap(), second.addresses[at], 5000, "forged").send_from(&first.namespace);
        assert_eq!(received(&server), "forged");
    }
}

#[test]
fn neighbours_find_each_other() {
    let Some(mut cluster) = Cluster::create(0) else { return };
    let ruleset = ruleset(2, Bound::Yes);
    // Before the links are there, so that everything a pod says first is heard; where that cannot be, right after.
    let early = cluster.node.run(|| Nftables::open().unwrap().load(&ruleset)).unwrap();
    let mut links = open_links(&cluster.node);
    cluster.pods.extend([1, 2].map(|number| Pod::create(&mut links, number, Detection::On)));
    if early.is_err() {
        load(&cluster.node, &ruleset);
    }
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    for (from, to) in [(first, second), (second, first)] {
        for (own, address) in from.addresses.into_iter().zip(to.addresses) {
            exchange((&from.namespace, own), (&to.namespace, address));
        }
    }
    // Duplicate address and multicast listener discovery are among what was sent.
    if let Some(counted) = counted(&cluster.node, "palisade", "sources", "forged source") {
        assert_eq!(counted, 0);
    }
}

#[test]
fn a_link_local_address_does_not_reach_the_node() {
    let Some(cluster) = Cluster::create(1) else { return };
    let [only] = cluster.pods.as_slice() else { panic!("one pod") };
    let gateway: Ipv6Addr = "fe80::1".parse().unwrap();
    let scope = |namespace: &Namespace, link: &str| namespace.run(|| nix::net::if_::if_nametoindex(link).unwrap()).unwrap();
    let at_node = SocketAddrV6::new(gateway, 5000, 0, scope(&cluster.node, "pod1"));
    let server = server(&cluster.node, at_node.into());
    let client = only.namespace.run(|| std::net::UdpSocket::bind("[::]:0").unwrap()).unwrap();
    client.connect(SocketAddrV6::new(gateway, 5000, 0, scope(&only.namespace, "eth0"))).unwrap();
    let IpAddr::V6(source) = client.local_addr().unwrap().ip() else { panic!("an IPv4 source") };
    assert!(source.is_unicast_link_local(), "{source}");
    client.send(b"before").unwrap();
    assert_eq!(received(&server), "before");
    let ruleset = ruleset(1, Bound::Yes);
    load(&cluster.node, &ruleset);
    let mut logged = Prefixes::open(&cluster.node);
    client.send(b"after").unwrap();
    assert_eq!(logged.next(), format!("{LOG_PREFIX}{:08x} ", origin(&ruleset, Guard::ForgedSource)));
    assert!(is_silent(&server));
}

/// Neighbour discovery may come in with sources that are not the pod's, but not with those that a node would forward.
#[test]
fn neighbour_discovery_carries_no_forged_source_across_the_node() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    let open = || Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).unwrap();
    let raw = std::net::UdpSocket::from(second.namespace.run(open).unwrap().as_fd().try_clone_to_owned().unwrap());
    raw.set_read_timeout(Some(LIMIT)).unwrap();
    let stranger: IpAddr = "fd00::77".parse().unwrap();
    let mut payload = vec![135, 0, 0, 0, 0, 0, 0, 0];
    payload.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
    let forged = Forged { source: stranger, destination: second.addresses[1], protocol: ICMPV6, hop_limit: 255, payload };
    // Others come by themselves.
    let await_forged = || std::iter::repeat_with(|| raw.recv_from(&mut [0; 256]).unwrap().1.ip()).take(100).any(|it| it == stranger);
    load(&cluster.node, &ruleset(2, Bound::No));
    forged.send_from(&first.namespace);
    assert!(await_forged());
    let bound = ruleset(2, Bound::Yes);
    load(&cluster.node, &bound);
    let mut logged = Prefixes::open(&cluster.node);
    forged.send_from(&first.namespace);
    assert_eq!(logged.next(), format!("{LOG_PREFIX}{:08x} ", origin(&bound, Guard::ForgedSource)));
}

/// Kernels before 6.16 refuse a link that is not there. Newer ones bind it when it comes, and again when it comes back.
#[test]
fn a_link_that_is_not_there_is_refused_or_bound_when_it_comes() {
    let Some(cluster) = Cluster::create(0) else { return };
    let ruleset = ruleset(2, Bound::Yes);
    match cluster.node.run(|| Nftables::open().unwrap().load(&ruleset)).unwrap() {
        Ok(()) => {}
        Err(KernelError::Refused(refusals)) => {
            say("this kernel refuses links that are not there");
            assert!(
                refusals.iter().all(|it| it.object == Object::Chain("sources".to_owned()) && it.errno == Errno::ENOENT),
                "{refusals:?}"
            );
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let expected = Ruleset { origins: Shared::default(), ..ruleset };
    let mut links = open_links(&cluster.node);
    let second = Pod::create(&mut links, 2, Detection::Off);
    let server = server(&second.namespace, SocketAddr::new(second.addresses[0], 5000));
    let mut logged = Prefixes::open(&cluster.node);
    for _ in 0..2 {
        let first = Pod::create(&mut links, 1, Detection::Off);
        let send = |source, text: &str| Forged::datagram(source, second.addresses[0], 5000, text).send_from(&first.namespace);
        send("192.0.2.7".parse().unwrap(), "forged");
        logged.next();
        send(first.addresses[0], "own");
        assert_eq!(received(&server), "own");
        links.delete("pod1").unwrap();
        let read = cluster.node.run(|| Nftables::open().unwrap().dump()).unwrap().unwrap();
        assert_eq!(read.as_ref(), Some(&expected));
    }
    // Under another name it is another link, which nothing is bound to.
    let first = Pod::create(&mut links, 1, Detection::Off);
    let rename = ["link", "set", "pod1", "name", "other"];
    if cluster.node.run(|| command("ip", &rename, "")).unwrap().is_none() {
        return;
    }
    Forged::datagram("192.0.2.7".parse().unwrap(), second.addresses[0], 5000, "renamed").send_from(&first.namespace);
    assert_eq!(received(&server), "renamed");
}

/// What only routers say does not come from a pod, whoever it says it is.
#[test]
fn a_pod_solicits_and_advertises_as_a_neighbour_only() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    load(&cluster.node, &ruleset(2, Bound::Yes));
    let server = server(&second.namespace, SocketAddr::new(second.addresses[1], 5000));
    let own = Forged::datagram(first.addresses[1], second.addresses[1], 5000, "own");
    let forged = || {
        // Whatever was sent before has been seen when this arrives.
        own.send_from(&first.namespace);
        assert_eq!(received(&server), "own");
        forged_packets(&cluster.node)
    };
    for source in ["fe80::77", "::"] {
        let passing: Vec<u8> = (128..=144)
            .filter(|kind| {
                let before = forged();
                let payload = [vec![*kind], vec![0; 39]].concat();
                let source = source.parse().unwrap();
                Forged { source, destination: second.addresses[1], protocol: ICMPV6, hop_limit: 255, payload }.send_from(&first.namespace);
                forged() == before
            })
            .collect();
        assert_eq!(passing, [133, 135, 136], "{source}");
    }
}

#[test]
fn a_node_with_more_links_than_a_chain_can_have_binds_all_and_none_moves() {
    in_netns(|| {
        let mut ids = Ids::default();
        let mut of = |present: &dyn Fn(&usize) -> bool| {
            let manifests: String = (0..301).map(|it| pod(&format!("p{it}"), &[&format!("10.1.{}.{}", it / 250, it % 250 + 1)])).collect();
            // The last comes first by its name.
            let name = |it: usize| if it == 300 { "a".to_owned() } else { format!("pod{it}") };
            let links = (0..301).filter(present).map(|it| (EndpointId(it), name(it))).collect();
            lowered(&model(&manifests), links, &mut ids)
        };
        let rulesets = [of(&|it| *it < 300), of(&|_| true), of(&|it| *it != 0)];
        add_links(&rulesets[1..2]);
        let mut nftables = Nftables::open().unwrap();
        nftables.load(&rulesets[0]).unwrap();
        let mut before = None;
        for (ruleset, expected) in rulesets.iter().zip([[255, 45], [255, 46], [254, 46]]) {
            let chains = ["sources", "sources-2"].map(|it| ruleset.chains[it].hook.clone().unwrap());
            let devices = chains.map(|it| it.devices().unwrap().len());
            assert_eq!(devices, expected);
            if let Some(before) = before.replace(ruleset) {
                let transaction = ruleset.changes_since(before);
                let changed: Vec<&Change> = transaction
                    .changes
                    .iter()
                    .filter(|it| !matches!(it, Change::AddElements { .. } | Change::DeleteElements { .. }))
                    .collect();
                let one = |it: &str| BTreeSet::from([it.to_owned()]);
                let (first, second) = ("sources".to_owned(), "sources-2".to_owned());
                let expected = match expected {
                    [255, _] => Change::AddDevices { chain: second, devices: one("a") },
                    _ => Change::DeleteDevices { chain: first, devices: one("pod0") },
                };
                assert_eq!(changed, [&expected]);
                nftables.commit(&transaction).unwrap();
            }
            let expected = Ruleset { origins: Shared::default(), ..ruleset.clone() };
            assert_eq!(nftables.dump().unwrap(), Some(expected));
        }
    });
}

/// A chain that is told of another link goes on where it stands: what it has counted stays, and nothing passes unseen.
#[test]
fn a_link_is_bound_in_passing_when_it_comes() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    let (one, both) = (ruleset(1, Bound::Yes), ruleset(2, Bound::Yes));
    load(&cluster.node, &one);
    let commit = |new: &Ruleset, old: &Ruleset| {
        let transaction = new.changes_since(old);
        assert!(
            !transaction.changes.iter().any(|it| matches!(it, Change::AddChain { .. } | Change::DeleteChain(_) | Change::FlushChain(_)))
        );
        cluster.node.run(|| Nftables::open().unwrap().commit(&transaction)).unwrap().unwrap();
    };
    let mut logged = Prefixes::open(&cluster.node);
    let forge = |from: &Pod, to: &Pod, text: &str| {
        Forged::datagram("192.0.2.7".parse().unwrap(), to.addresses[0], 5000, text).send_from(&from.namespace);
    };
    let server = server(&first.namespace, SocketAddr::new(first.addresses[0], 5000));
    forge(first, second, "forged");
    logged.next();
    forge(second, first, "not bound yet");
    assert_eq!(received(&server), "not bound yet");
    commit(&both, &one);
    forge(second, first, "bound");
    logged.next();
    assert!(is_silent(&server));
    assert_eq!(forged_packets(&cluster.node), 2);
    commit(&one, &both);
    forge(second, first, "not bound any more");
    assert_eq!(received(&server), "not bound any more");
}

#[test]
fn one_link_is_one_small_transaction() {
    in_netns(|| {
        let mut nftables = Nftables::open().unwrap();
        for links in [20, 110, 250] {
            let devices: BTreeSet<String> = (0..links).map(|it| format!("of{links}-{it}")).collect();
            let mut few = large(20_000);
            few.chains
                .insert("sources".to_owned(), Chain { hook: Some(Hook::Ingress { devices }), rules: vec![Rule::to(Verdict::Accept)] });
            let mut more = few.clone();
            if let Some(Hook::Ingress { devices }) = &mut more.chains.get_mut("sources").unwrap().hook {
                devices.insert("another".to_owned());
            }
            add_links([if links == 20 { &more } else { &few }]);
            nftables.load(&few).unwrap();
            let steps = [("add", more.changes_since(&few)), ("delete", few.changes_since(&more))];
            let mut spent = [Duration::ZERO; 2];
            for _ in 0..20 {
                for ((_, transaction), spent) in steps.iter().zip(&mut spent) {
                    let start = Instant::now();
                    nftables.commit(transaction).unwrap();
                    *spent += start.elapsed();
                }
            }
            for ((verb, transaction), spent) in steps.iter().zip(spent) {
                assert_eq!(transaction.changes.len(), 1);
                say(&format!("{verb} one link beside {links}: {:?}", spent / 20));
            }
            let start = Instant::now();
            nftables.load(&few).unwrap();
            say(&format!("the whole table: {:?}", start.elapsed()));
        }
    });
}

#[test]
fn a_name_that_no_link_can_have_is_not_sent() {
    in_netns(|| {
        for name in ["", "sixteen-letters-", "veth*", "a\"b"] {
            let model = model(&pods(1));
            let links = BTreeMap::from([(EndpointId(0), name.to_owned())]);
            let ruleset = lowered(&model, links, &mut Ids::default());
            let error = Nftables::open().unwrap().load(&ruleset).unwrap_err().to_string();
            assert_eq!(error, format!("chain `sources` cannot be written: no link can be named `{name}`"));
        }
    });
}

/// Whether the node knows the links of its pods, and binds their sources.
#[derive(Clone, Copy)]
enum Bound {
    Yes,
    No,
}

/// That of the node of so many pods, as `Cluster` makes them, with no policy.
fn ruleset(number: u16, bound: Bound) -> Ruleset {
    let links = match bound {
        Bound::Yes => (0..number).map(|at| (EndpointId(at.into()), format!("pod{}", at + 1))).collect(),
        Bound::No => BTreeMap::new(),
    };
    lowered(&model(&pods(number)), links, &mut Ids::default())
}

fn pods(number: u16) -> String {
    (1..=number).map(|it| pod(&format!("p{it}"), &[&format!("10.1.0.{it}"), &format!("fd00::{it}")])).collect()
}

fn load(node: &Namespace, ruleset: &Ruleset) {
    node.run(|| Nftables::open().unwrap().load(ruleset)).unwrap().unwrap();
}

/// What the rules against forged sources have counted.
fn forged_packets(node: &Namespace) -> u64 {
    let counters = node.run(|| Nftables::open().unwrap().counters()).unwrap().unwrap();
    let forged = Guard::ForgedSource.to_string();
    counters.iter().filter(|it| it.comment.as_ref() == Some(&forged)).map(|it| it.packets).sum()
}

fn origin(ruleset: &Ruleset, guard: Guard) -> u32 {
    let found = ruleset.origins.iter().find(|(_, it)| **it == Origin::Guard(guard));
    *found.unwrap_or_else(|| panic!("no origin for {guard}")).0
}
