//! Links, addresses and routes, with real packets over them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ipnet::IpNet;
use palisade_kernel::{KernelError, Link, LinkAddress, LinkState, Links, Namespace, NextHop, Route};

use crate::ground::{Cluster, GATEWAYS, await_links, exchange_datagram, exchange_stream, in_netns, privileged, say};

/// Two namespaces and the links of both.
fn pair() -> Option<[(Namespace, Links); 2]> {
    let open = || {
        let namespace = privileged(Namespace::create())?;
        let links = namespace.run(|| Links::open().unwrap()).unwrap();
        Some((namespace, links))
    };
    Some([open()?, open()?])
}

fn names(links: &[Link]) -> Vec<&str> {
    links.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn two_namespaces_talk_over_a_veth() {
    let Some([(here, mut near), (there, mut far)]) = pair() else { return };
    near.add_veth("near", "far", &there).unwrap();
    for (links, name, numbers) in [(&mut near, "near", ["10.0.0.1/24", "fd00::1/64"]), (&mut far, "far", ["10.0.0.2/24", "fd00::2/64"])] {
        links.set_up(name).unwrap();
        for address in numbers {
            links.add_address(name, address.parse().unwrap()).unwrap();
        }
    }
    assert_eq!(near.link("near").unwrap().state, LinkState::Running);
    for [mine, other] in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]].map(|pair| pair.map(|it| it.parse::<IpAddr>().unwrap())) {
        assert_eq!(exchange_datagram(&here, &there, other), mine);
        assert_eq!(exchange_stream(&there, &here, mine), other);
    }
}

#[test]
fn pods_without_a_network_in_common_talk_through_their_node() {
    let Some(cluster) = Cluster::create(2) else { return };
    let [one, other] = cluster.pods.as_slice() else { panic!("two pods") };
    for (mine, theirs) in one.addresses.into_iter().zip(other.addresses) {
        assert_eq!(exchange_datagram(&one.namespace, &other.namespace, theirs), mine);
        assert_eq!(exchange_stream(&one.namespace, &other.namespace, theirs), mine);
        assert_eq!(exchange_stream(&other.namespace, &one.namespace, mine), theirs);
    }
    let mut links = one.namespace.run(|| Links::open().unwrap()).unwrap();
    let [to4, to6] = ["0.0.0.0/0", "::/0"].map(|it| it.parse().unwrap());
    let [via4, via6] = GATEWAYS.map(|it| NextHop::OnLink(it.parse().unwrap()));
    let [from4, from6] = one.addresses.map(Some);
    let routes: Vec<Route> = links.routes().unwrap().into_iter().filter(|it| it.to == to4 || it.to == to6).collect();
    let link = || "eth0".to_owned();
    let expected = [Route { to: to4, via: via4, link: link(), source: from4 }, Route { to: to6, via: via6, link: link(), source: from6 }];
    assert_eq!(routes, expected);
}

#[test]
fn two_ports_of_a_bridge_talk() {
    let Some([(_node, mut node), (one, mut first)]) = pair() else { return };
    let other = Namespace::create().unwrap();
    let mut second = other.run(|| Links::open().unwrap()).unwrap();
    node.add_bridge("br0").unwrap();
    node.set_up("br0").unwrap();
    for (name, namespace) in [("one", &one), ("other", &other)] {
        node.add_veth(name, "eth0", namespace).unwrap();
        node.attach(name, "br0").unwrap();
        node.set_up(name).unwrap();
    }
    for (links, addresses) in [(&mut first, ["10.0.0.1/24", "fd00::1/64"]), (&mut second, ["10.0.0.2/24", "fd00::2/64"])] {
        links.set_up("eth0").unwrap();
        for address in addresses {
            links.add_address("eth0", address.parse().unwrap()).unwrap();
        }
    }
    for name in ["one", "other"] {
        assert_eq!(node.link(name).unwrap().state, LinkState::Running);
    }
    let listed = node.list().unwrap();
    let bridge = listed.iter().find(|it| it.name == "br0").unwrap();
    let expected = [
        ("lo", None, None),
        ("br0", Some("bridge"), None),
        ("one", Some("veth"), Some(bridge.index)),
        ("other", Some("veth"), Some(bridge.index)),
    ];
    assert_eq!(listed.iter().map(|it| (it.name.as_str(), it.kind.as_deref(), it.master)).collect::<Vec<_>>(), expected);
    for address in ["10.0.0.2", "fd00::2"] {
        exchange_datagram(&one, &other, address.parse().unwrap());
        exchange_stream(&one, &other, address.parse().unwrap());
    }
}

#[test]
fn a_neighbour_that_was_told_is_not_asked() {
    let Some([(here, mut near), (there, mut far)]) = pair() else { return };
    near.add_veth("near", "far", &there).unwrap();
    for (links, name, address) in [(&mut near, "near", "10.0.0.1/24"), (&mut far, "far", "10.0.0.2/24")] {
        links.set_up(name).unwrap();
        links.add_address(name, address.parse().unwrap()).unwrap();
    }
    // Who answers no question can be reached by a told neighbour only.
    there.run(|| palisade_kernel::set_sysctl("net/ipv4/conf/far/arp_ignore", "8").unwrap()).unwrap();
    let hardware = far.list().unwrap().into_iter().find(|it| it.name == "far").unwrap().hardware.unwrap();
    near.add_neighbour("near", "10.0.0.2".parse().unwrap(), hardware).unwrap();
    exchange_datagram(&here, &there, "10.0.0.2".parse().unwrap());
}

#[test]
fn a_deleted_link_takes_its_other_end_along() {
    let Some([(_here, mut near), (there, mut far)]) = pair() else { return };
    near.add_veth("near", "far", &there).unwrap();
    assert_eq!((names(&near.list().unwrap()), names(&far.list().unwrap())), (vec!["lo", "near"], vec!["lo", "far"]));
    near.delete("near").unwrap();
    assert_eq!((names(&near.list().unwrap()), names(&far.list().unwrap())), (vec!["lo"], vec!["lo"]));
}

#[test]
fn nothing_is_left_of_a_cluster() {
    let Some(cluster) = Cluster::create(3) else { return };
    let Cluster { node, pods } = cluster;
    drop(pods);
    await_links(&node, |links| names(links) == ["lo"]);
}

#[test]
fn a_link_runs_once_both_ends_are_set_up() {
    for _ in 0..50 {
        let Some([(_here, mut near), (there, mut far)]) = pair() else { return };
        near.add_veth("near", "far", &there).unwrap();
        let mut states = || (near.link("near").unwrap().state, far.link("far").unwrap().state);
        assert_eq!(states(), (LinkState::Down, LinkState::Down));
        near.set_up("near").unwrap();
        assert_eq!(near.link("near").unwrap().state, LinkState::Waiting);
        far.set_up("far").unwrap();
        assert_eq!(near.link("near").unwrap().state, LinkState::Running);
        assert_eq!(far.link("far").unwrap().state, LinkState::Running);
        near.set_up("lo").unwrap();
        let listed: Vec<LinkState> = near.list().unwrap().iter().map(|it| it.state).collect();
        assert_eq!(listed, [LinkState::Running; 2]);
    }
}

#[test]
fn addresses_and_routes_come_and_go() {
    in_netns(|| {
        let mut links = Links::open().unwrap();
        links.add_bridge("br0").unwrap();
        links.set_up("br0").unwrap();
        let address = |text: &str| LinkAddress { link: "br0".to_owned(), address: text.parse().unwrap() };
        let (four, six) = (address("192.0.2.1/24"), address("2001:db8::1/64"));
        for it in [&four, &six] {
            links.add_address(&it.link, it.address).unwrap();
        }
        let ours = |links: &mut Links| links.addresses().unwrap().into_iter().filter(|it| it == &four || it == &six).collect::<Vec<_>>();
        assert_eq!(ours(&mut links), [four.clone(), six.clone()]);
        let route = |to: &str, via| Route { to: to.parse().unwrap(), via, link: "br0".to_owned(), source: None };
        let gateway = |text: &str| text.parse().unwrap();
        let routes = [
            route("0.0.0.0/0", NextHop::Gateway(gateway("192.0.2.9"))),
            route("10.0.0.0/8", NextHop::OnLink(gateway("169.254.1.1"))),
            route("10.1.0.0/16", NextHop::Gateway(gateway("2001:db8::9"))),
            route("10.2.0.1/32", NextHop::Destination),
            route("::/0", NextHop::OnLink(gateway("fe80::1"))),
            route("2001:db8:1::/48", NextHop::Gateway(gateway("2001:db8::9"))),
            route("2001:db8:2::1/128", NextHop::Destination),
        ];
        let before = links.routes().unwrap();
        for it in &routes {
            links.add_route(it).unwrap();
        }
        let added: Vec<Route> = links.routes().unwrap().into_iter().filter(|it| !before.contains(it)).collect();
        assert_eq!(added, routes);
        for it in &routes {
            links.delete_route(it).unwrap();
        }
        assert_eq!(links.routes().unwrap(), before);
        for it in [&four, &six] {
            links.delete_address(&it.link, it.address).unwrap();
        }
        assert_eq!(ours(&mut links), []);
    });
}

#[test]
fn every_refusal_names_its_object() {
    let Some([(_here, mut links), (there, _)]) = pair() else { return };
    links.add_veth("near", "far", &there).unwrap();
    links.add_address("near", "10.0.0.1/24".parse().unwrap()).unwrap();
    let route = |link: &str| {
        let via = NextHop::Gateway("192.0.2.1".parse().unwrap());
        Route { to: "10.0.0.0/8".parse().unwrap(), via, link: link.to_owned(), source: None }
    };
    let on_link = Route { via: NextHop::OnLink("169.254.1.1".parse().unwrap()), source: "10.9.9.9".parse().ok(), ..route("near") };
    let cases: Vec<(Result<(), KernelError>, &str)> = vec![
        (links.add_veth("near", "other", &there), "cannot add link `near` with peer `other`: File exists"),
        (links.add_veth("other", "far", &there), "cannot add link `other` with peer `far`: File exists"),
        (links.add_bridge("near"), "cannot add link `near`: File exists"),
        (links.add_bridge("sixteen-letters."), "cannot find link `sixteen-letters.`: Invalid argument"),
        (links.add_bridge("br%d"), "cannot find link `br%d`: Invalid argument"),
        (links.set_up(""), "cannot find link ``: Invalid argument"),
        (links.set_up("none"), "cannot change link `none`: No such device"),
        (links.delete("none"), "cannot delete link `none`: No such device"),
        (links.delete("lo"), "cannot delete link `lo`: Operation not supported on transport endpoint"),
        (links.attach("near", "none"), "cannot find link `none`: No such device"),
        (links.attach("none", "near"), "cannot change link `none` as port of bridge `near`: No such device"),
        (links.attach("near", "lo"), "cannot change link `near` as port of bridge `lo`: Operation not supported on transport endpoint"),
        (links.add_address("none", "10.0.0.1/24".parse().unwrap()), "cannot find link `none`: No such device"),
        (links.add_address("near", "10.0.0.1/24".parse().unwrap()), "cannot add address 10.0.0.1/24 on `near`: File exists"),
        (
            links.delete_address("near", "10.0.0.2/24".parse().unwrap()),
            "cannot delete address 10.0.0.2/24 on `near`: Cannot assign requested address",
        ),
        (links.add_route(&route("none")), "cannot find link `none`: No such device"),
        (links.add_route(&route("near")), "cannot add route 10.0.0.0/8 via 192.0.2.1 on `near`: Network is unreachable"),
        (links.add_route(&on_link), "cannot add route 10.0.0.0/8 via 169.254.1.1 on-link on `near` from 10.9.9.9: Network is down"),
        (links.delete_route(&route("near")), "cannot delete route 10.0.0.0/8 via 192.0.2.1 on `near`: No such process"),
        (links.add_neighbour("none", "10.0.0.2".parse().unwrap(), [2; 6]), "cannot find link `none`: No such device"),
    ];
    let told: Vec<String> =
        cases.iter().map(|(result, _)| result.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned())).collect();
    assert_eq!(told, cases.iter().map(|(_, expected)| *expected).collect::<Vec<_>>());
}

#[test]
fn what_is_read_while_addresses_come_and_go_is_whole() {
    let Some([(here, mut links), _]) = pair() else { return };
    let address = |number: u16| IpNet::from(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, number]));
    let kept: Vec<LinkAddress> = (1..=500).map(|it| LinkAddress { link: "lo".to_owned(), address: address(it) }).collect();
    for it in &kept {
        links.add_address(&it.link, it.address).unwrap();
    }
    let (done, mut readings) = (AtomicBool::new(false), [0; 2]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = here.run(|| Links::open().unwrap()).unwrap();
            for _ in 0..1_000 {
                other.add_address("lo", address(0)).unwrap();
                other.delete_address("lo", address(0)).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let [steady, unsteady] = &mut readings;
            match links.addresses() {
                Ok(read) => {
                    assert!(read.iter().filter(|it| it.address != address(0)).eq(&kept), "{read:?}");
                    *steady += 1;
                }
                Err(error) => {
                    assert!(matches!(error, KernelError::UnsteadyNetwork { .. }), "{error}");
                    *unsteady += 1;
                }
            }
        }
    });
    assert_eq!(links.addresses().unwrap(), kept);
    say(&format!("steady and unsteady readings: {readings:?}"));
}

#[test]
fn five_hundred_pods_stand_on_one_node() {
    let start = Instant::now();
    let Some(cluster) = Cluster::create(500) else { return };
    let made = start.elapsed();
    let mut links = cluster.node.run(|| Links::open().unwrap()).unwrap();
    assert_eq!(links.list().unwrap().len(), 501);
    let (first, last) = (cluster.pods.first().unwrap(), cluster.pods.last().unwrap());
    for address in last.addresses {
        exchange_stream(&first.namespace, &last.namespace, address);
    }
    let Cluster { node, pods } = cluster;
    let start = Instant::now();
    drop(pods);
    await_links(&node, |links| names(links) == ["lo"]);
    say(&format!("500 pods with addresses and routes of both families: made in {made:?}, gone in {:?}", start.elapsed()));
}
