//! Pods that nobody has told of: nothing is from or for them, from the first packet on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use palisade_engine::compile;
use palisade_kernel::{Conntrack, Deleted, Kernel as _, Namespace, Nftables};
use palisade_model::{EndpointId, NodeId};
use palisade_nft::{Change, Guard, Ids, LOG_PREFIX, LinkName, MapKind, NodeView, Origin, PodLinks, Ruleset, Unknown, lower};

use crate::ground::{Cluster, Detection, GATEWAYS, Pod, command, exchange_datagram, in_netns, model, open_links, pod};
use crate::packets::{Forged, Prefixes, exchange, is_silent, received, server};

#[test]
fn a_pod_that_is_not_known_is_closed_both_ways_from_its_first_packet_on() {
    let Some(mut cluster) = Cluster::create(1) else { return };
    let (before, after) = (ruleset(&[1], &[]), ruleset(&[1, 2], &[]));
    load(&cluster.node, &before);
    let mut logged = Prefixes::open(&cluster.node);
    let mut links = open_links(&cluster.node);
    cluster.pods.push(Pod::create(&mut links, 2, Detection::Off));
    let [known, new] = cluster.pods.as_slice() else { panic!("two pods") };
    for (at, gateway) in GATEWAYS.into_iter().enumerate() {
        let own = new.addresses[at];
        let at_known = server(&known.namespace, SocketAddr::new(known.addresses[at], 5000));
        let at_new = server(&new.namespace, SocketAddr::new(own, 5000));
        let datagram = |from: IpAddr, to: IpAddr| Forged::datagram(from, to, 5000, "early");
        datagram(own, known.addresses[at]).send_from(&new.namespace);
        assert_eq!(logged.next(), prefix(&before));
        datagram(known.addresses[at], own).send_from(&known.namespace);
        assert_eq!(logged.next(), prefix(&before));
        // With the address of somebody who is known.
        datagram(known.addresses[at], known.addresses[at]).send_from(&new.namespace);
        assert_eq!(logged.next(), prefix(&before));
        if own.is_ipv4() {
            datagram(own, gateway.parse().unwrap()).send_from(&new.namespace);
            assert_eq!(logged.next(), prefix(&before));
        }
        assert!(is_silent(&at_known) && is_silent(&at_new));
        // The node calls, and is answered.
        exchange_datagram(&cluster.node, &new.namespace, own);
    }
    let transaction = after.changes_since(&before);
    cluster.node.run(|| Nftables::open().unwrap().commit(&transaction)).unwrap().unwrap();
    for (at, address) in known.addresses.into_iter().enumerate() {
        exchange((&new.namespace, new.addresses[at]), (&known.namespace, address));
        exchange((&known.namespace, address), (&new.namespace, new.addresses[at]));
    }
}

/// The link has another name, as CNIs give them; whoever calls goes on calling. What the pod before has left is forgotten with its link, by the agent.
#[test]
fn a_pod_takes_up_no_connection_that_was_forgotten() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [client, server_pod] = cluster.pods.as_slice() else { panic!("two pods") };
    let ruleset = ruleset(&[1, 2], &[]);
    load(&cluster.node, &ruleset);
    let mut logged = Prefixes::open(&cluster.node);
    let (own, address) = (client.addresses[0], server_pod.addresses[0]);
    let at_server = server(&server_pod.namespace, SocketAddr::new(address, 5000));
    let at_client = server(&client.namespace, SocketAddr::new(own, 5001));
    at_client.send_to(b"question", (address, 5000)).unwrap();
    assert_eq!(received(&at_server), "question");
    at_server.send_to(b"answer", (own, 5001)).unwrap();
    assert_eq!(received(&at_client), "answer");
    if cluster.node.run(|| command("ip", &["link", "set", "pod2", "name", "pod9"], "")).unwrap().is_none() {
        return;
    }
    let mut conntrack = cluster.node.run(|| Conntrack::open().unwrap()).unwrap();
    let left = conntrack.dump(None).unwrap();
    assert!(!left.is_empty());
    assert!(conntrack.delete_all(&left.iter().collect::<Vec<_>>()).unwrap().iter().all(|it| *it == Deleted::Yes));
    at_client.send_to(b"question", (address, 5000)).unwrap();
    assert_eq!(logged.next(), prefix(&ruleset));
    at_server.send_to(b"answer", (own, 5001)).unwrap();
    assert_eq!(logged.next(), prefix(&ruleset));
    assert!(is_silent(&at_server) && is_silent(&at_client));
}

#[test]
fn an_exempt_address_is_let_through() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [known, exempt] = cluster.pods.as_slice() else { panic!("two pods") };
    load(&cluster.node, &ruleset(&[1], &exempt.addresses));
    for (own, address) in exempt.addresses.into_iter().zip(known.addresses) {
        exchange((&exempt.namespace, own), (&known.namespace, address));
        exchange((&known.namespace, address), (&exempt.namespace, own));
    }
}

/// Whatever else is on the node is not asked for: no uplink, no tunnel, and no link of a network that is not named.
#[test]
fn links_that_are_no_pods_are_not_closed() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [first, second] = cluster.pods.as_slice() else { panic!("two pods") };
    let elsewhere = PodLinks { names: [LinkName::Beginning("pod10".to_owned())].into(), ..PodLinks::default() };
    load(&cluster.node, &with(&[], elsewhere));
    for (own, address) in first.addresses.into_iter().zip(second.addresses) {
        exchange((&first.namespace, own), (&second.namespace, address));
    }
}

#[test]
fn the_kernel_keeps_names_and_exempt_addresses() {
    in_netns(|| {
        let names = [LinkName::Beginning("fourteen-lette".to_owned()), LinkName::Whole("pods".to_owned())].into();
        let exempt = ["192.0.2.1", "fd00::7"].map(|it| it.parse().unwrap()).into();
        let ruleset = with(&[], PodLinks { names, bridges: ["fifteen-letters".to_owned()].into(), exempt });
        let mut nftables = Nftables::open().unwrap();
        nftables.load(&ruleset).unwrap();
        crate::rulesets::assert_read_back("closed", &mut nftables, &ruleset);
        crate::rulesets::compare_with_nft("closed", &ruleset);
        for name in ["", "sixteen-letters-", "veth*"] {
            let fifteen = LinkName::Beginning("fifteen-letters".to_owned());
            for name in [LinkName::Whole(name.to_owned()), LinkName::Beginning(name.to_owned()), fifteen] {
                let ruleset = with(&[], PodLinks { names: [name].into(), ..PodLinks::default() });
                let error = nftables.load(&ruleset).unwrap_err().to_string();
                assert!(error.contains("cannot be written: no link can be named `"), "{error}");
            }
        }
    });
}

/// A pod more is data: what holds a verdict would have the kernel check the whole table.
#[test]
fn one_pod_more_touches_no_rule() {
    let transaction = ruleset(&[1, 2], &[]).changes_since(&ruleset(&[1], &[]));
    let mut known = BTreeSet::new();
    for change in transaction.changes {
        if let Change::AddElements { map, elements } = change {
            assert_ne!(elements.kind(), MapKind::Numbers);
            known.insert(map);
        } else {
            assert!(matches!(&change, Change::AddDevices { chain, .. } if chain == "sources"), "{change:?}");
        }
    }
    assert!(known.contains("known4") && known.contains("known6"), "{known:?}");
}

/// That of a node with some pods, as `Cluster` makes them, that is closed to others.
fn ruleset(pods: &[u16], exempt: &[IpAddr]) -> Ruleset {
    let names = [LinkName::Beginning("pod".to_owned())].into();
    with(pods, PodLinks { names, bridges: BTreeSet::new(), exempt: exempt.iter().copied().collect() })
}

fn with(pods: &[u16], links: PodLinks) -> Ruleset {
    let manifest = |it: &u16| pod(&format!("p{it}"), &[&format!("10.1.0.{it}"), &format!("fd00::{it}")]);
    // Somebody elsewhere names the node.
    let manifests: String = [99].iter().chain(pods).map(manifest).collect();
    let model = model(&manifests);
    let of = |it: &u16| {
        model.endpoints.iter().position(|pod| *pod.name.name == *format!("p{it}")).map(|at| (EndpointId(at), format!("pod{it}")))
    };
    let view = NodeView { node: NodeId(0), links: pods.iter().filter_map(of).collect::<BTreeMap<_, _>>(), unknown: Unknown::Closed(links) };
    lower(&model, &compile(&model), &view, &mut Ids::default())
}

fn load(node: &Namespace, ruleset: &Ruleset) {
    node.run(|| Nftables::open().unwrap().load(ruleset)).unwrap().unwrap();
}

fn prefix(ruleset: &Ruleset) -> String {
    let found = ruleset.origins.iter().find(|(_, it)| **it == Origin::Guard(Guard::UnknownPod)).unwrap();
    format!("{LOG_PREFIX}{:08x} ", found.0)
}
