//! Networks that have the same addresses do not touch each other.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "all of this is tests, and clippy knows them by their attribute only")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::{compile_network, decide};
use palisade_model::{Direction, End, Endpoint, Flow, Model, NetworkId, NodeId, Path, Place, Policy, Protocol};
use palisade_nft::{At, CtState, Guard, Ids, Origin, Packet, PodTables, Ruleset, Space, Step, Table, apply, load, lower_pods, plan, trace};
use palisade_testkit::check::{snapshot, snapshot_with_networks};
use palisade_testkit::generate::generate;
use palisade_testkit::nodes::Nodes;
use palisade_testkit::objects::Objects;
use palisade_testkit::random::Random;

/// Random clusters that have a second network.
fn clusters() -> impl Iterator<Item = (u64, Objects, Model)> {
    let read = |seed| {
        let objects = generate(seed).objects;
        let model = snapshot_with_networks("cluster.json", &objects.to_json()).model;
        (seed, objects, model)
    };
    (0..).map(read).filter(|(.., model)| !model.networks.is_empty())
}

/// Ends need not be on the network of the connection here: a packet may come from anywhere, and a pod of another network is no pod to a selector.
#[test]
fn spec_and_engine_agree_about_ends_of_any_network() {
    let mut apart = 0;
    for (seed, _, model) in clusters().take(60) {
        let mut random = Random::new(seed);
        let mut ends: Vec<End> = vec![End { place: Place::Outside, address: "10.0.0.5".parse().ok() }];
        let end = |place, addresses: &[IpAddr]| End { place, address: addresses.first().copied() };
        ends.extend(model.endpoints.iter_ids().map(|(id, it)| end(Place::Pod(id), &it.addresses)));
        ends.extend(model.nodes.iter_ids().map(|(id, it)| end(Place::Node(id), &it.addresses)));
        let networks: Vec<NetworkId> = model.network_ids().collect();
        for from in &ends {
            for to in &ends {
                let network = *random.pick(&networks).unwrap();
                let port = Some(random.of([80, 81, 53, 443]));
                let flow = Flow { network, from: *from, to: *to, protocol: Protocol::TCP, port, path: Path::Direct };
                let (decided, judged) = (decide(&model, &flow), palisade_spec::judge(&model, &flow));
                for direction in Direction::BOTH {
                    let walk = decided.walks.of(direction);
                    assert_eq!(judged.directions.of(direction), &(walk.verdict, walk.reason.clone()), "seed {seed}, {direction}: {flow:?}");
                }
                apart += usize::from(model.network_between(from, to) != network);
            }
        }
    }
    assert!(apart > 1_000, "{apart} connections on a network that an end is not on");
}

/// The objects of one network, written as if it were the pod network, make the model that the network has.
#[test]
fn a_network_is_a_cluster_of_its_own() {
    let (mut endpoints, mut policies) = (0, 0);
    for (seed, objects, model) in clusters().take(60) {
        for network in model.networks.iter() {
            let view = model.on_network(model.network_named(&network.name).unwrap());
            let alone = snapshot("cluster.json", &objects.on_network(Some(&network.name)).to_json()).model;
            let bare = |it: &Endpoint| Endpoint { attachment: None, node: None, ..it.clone() };
            let mut attached: Vec<Endpoint> = view.endpoints.iter().map(bare).collect();
            attached.sort_by(Endpoint::name_order);
            // Workloads were left out, so that nobody has an owner that stands for others.
            let of = |all: Vec<Endpoint>| all.into_iter().map(|it| Endpoint { owners: Vec::new(), ..it }).collect::<Vec<_>>();
            assert_eq!(of(attached.clone()), of(alone.endpoints.iter().cloned().collect()), "seed {seed}, {}", network.name);
            let on_pod_network = |it: &Policy| Policy { network: NetworkId::DEFAULT, ..it.clone() };
            let about: Vec<Policy> = view.policies.iter().map(on_pod_network).collect();
            assert_eq!(about, alone.policies.iter().cloned().collect::<Vec<_>>(), "seed {seed}, {}", network.name);
            endpoints += attached.len();
            policies += about.len();
        }
        let ignored = snapshot("cluster.json", &objects.to_json()).model;
        assert!(ignored.networks.is_empty() && ignored.endpoints.iter().all(|it| it.attachment.is_none()), "seed {seed}");
    }
    assert!(endpoints > 200 && policies > 100, "{endpoints} endpoints, {policies} policies");
}

#[test]
fn tables_of_pods_are_about_their_own_interfaces() {
    let mut seen = 0;
    for (seed, _, model) in clusters().take(40) {
        for network in model.networks.ids() {
            let compiled = compile_network(&model, network);
            for node in model.nodes.ids() {
                let PodTables { tables, without_interface } = lower_pods(&model, &compiled, node, &mut Ids::default());
                let here = model.endpoints.iter().filter(|it| it.network() == network && it.node == Some(node)).count();
                assert_eq!(tables.len() + without_interface.len(), here, "seed {seed}");
                for (id, ruleset) in &tables {
                    let Space::Pod { pod, network: name } = &id.space else { panic!("{id:?}") };
                    assert_eq!((&*model.network(network).unwrap().name, id.name()), (&**name, format!("palisade-{name}")));
                    let endpoint = model.endpoints.iter().find(|it| it.name == *pod && it.network() == network).unwrap();
                    check_interfaces(&model, endpoint, ruleset);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 60, "{seen} tables");
}

fn check_interfaces(model: &Model, endpoint: &Endpoint, ruleset: &Ruleset) {
    let interface = endpoint.interfaces().first().unwrap().to_string();
    let packet = |at: At, source: IpAddr, link: &str| Packet {
        at,
        source,
        destination: if source.is_ipv4() { "203.0.113.9".parse().unwrap() } else { "2001:db8::9".parse().unwrap() },
        protocol: 17,
        port: Some(9),
        source_port: None,
        state: CtState::New,
        priority: 0,
        source_is_local: false,
        from_link: Some(link.to_owned()),
        to_link: Some(link.to_owned()),
    };
    let fate = |at: At, source: IpAddr, link: &str| {
        let traced = trace(ruleset, &packet(at, source, link)).unwrap();
        (traced.accepted, traced.origins.last().map(|it| ruleset.origins[it].clone()))
    };
    let stranger: IpAddr = "198.51.100.77".parse().unwrap();
    // Other interfaces are other networks'.
    for at in [At::Input, At::Output, At::Forward] {
        assert_eq!(fate(at, stranger, "eth0"), (true, None), "{:?}", endpoint.name);
    }
    let network = endpoint.network();
    let owned =
        endpoint.addresses.iter().any(|it| matches!(model.place_of(network, *it), Place::Pod(id) if model.endpoint(id) == Some(endpoint)));
    let guard = if owned { Guard::ForgedSource } else { Guard::UnknownPod };
    assert_eq!(fate(At::Output, stranger, &interface), (false, Some(Origin::Guard(guard))), "{:?}", endpoint.name);
    for at in [At::Input, At::Forward] {
        let (accepted, origin) = fate(at, stranger, &interface);
        let closed = origin == Some(Origin::Guard(Guard::UnknownPod));
        assert!(closed != owned && !(closed && accepted), "{:?}: {accepted} {origin:?}", endpoint.name);
    }
}

/// The planner knows no difference between tables of a node and tables of a pod.
#[test]
fn tables_of_pods_are_planned_like_those_of_nodes() {
    let mut planned = 0;
    for (seed, _, model) in clusters().take(40) {
        for network in model.networks.ids() {
            let nodes = Nodes::of_network(&model, network);
            // Without the last policy of the network, and without the pod that comes first.
            let mut other = model.clone();
            let last = other.policies.iter().rposition(|it| it.network == network);
            last.into_iter().for_each(|at| drop(other.policies.remove(at)));
            let first = other.endpoints.iter_ids().find(|(_, it)| it.network() == network).map(|(id, _)| id);
            first.into_iter().for_each(|id| drop(other.endpoints.remove(id)));
            let others = Nodes::of_network(&other, network);
            for (id, old) in others.pods() {
                let new = &nodes.pods()[id];
                for (old, new) in [(old, new), (new, old)] {
                    let mut tables: BTreeMap<Table, Option<Ruleset>> = BTreeMap::new();
                    for step in load(old).into_iter().chain(plan(old, new)) {
                        let Step::Commit(transaction) = step else { continue };
                        let table = tables.entry(transaction.table).or_default();
                        apply(table, &transaction).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
                    }
                    tables.retain(|_, it| it.is_some());
                    let expected = Ruleset { origins: Default::default(), ..new.clone() };
                    assert_eq!(tables, BTreeMap::from([(Table::Own, Some(expected))]), "seed {seed}");
                    planned += 1;
                }
            }
        }
    }
    assert!(planned > 100, "{planned} plans");
}

#[test]
fn an_endpoint_that_no_node_has_needs_no_table() {
    let (_, _, model) = clusters().next().unwrap();
    let network = model.networks.ids().next().unwrap();
    let nowhere = lower_pods(&model, &compile_network(&model, network), NodeId(99), &mut Ids::default());
    assert_eq!(nowhere, PodTables::default());
    // The pod network is enforced by the node.
    let pod_network = lower_pods(&model, &compile_network(&model, NetworkId::DEFAULT), NodeId(0), &mut Ids::default());
    assert_eq!(pod_network, PodTables::default());
}
