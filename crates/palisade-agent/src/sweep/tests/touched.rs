use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::{Endpoint, EndpointId, Model, NodeId, PodName, Readiness, Running, Slots};

use super::changing::Changing;
use super::{address, cluster_of, follow, links_of, model, name};
use crate::cluster::Cluster;
use crate::sweep::{Judged, Touched};

const CLUSTER: &str = "
    node n1 192.0.2.1
    node n2 192.0.2.2
    pod a n1 10.0.0.1 app=a
    pod b n2 10.0.0.2 app=b
    pod c n1 10.0.0.3 app=c
    in p app=a app=b
";

fn touched(after: &str, before: &str) -> Touched {
    let before = model(before);
    between(&before, &aligned(&before, model(after)))
}

/// The connections that a change may deny.
fn between(before: &Model, after: &Model) -> Touched {
    follow(&mut cluster_of(before), after, links_of(after))
}

/// The same model with the ids that its pods have in another one: an index gives an id for as long as a pod exists.
fn aligned(before: &Model, after: Model) -> Model {
    let mut endpoints = Slots::<EndpointId, Endpoint>::default();
    for (at, pod) in after.endpoints.iter().enumerate() {
        let known = before.endpoints.iter_ids().find(|(_, it)| it.name == pod.name).map(|(id, _)| id);
        drop(endpoints.set(known.unwrap_or(EndpointId(before.endpoints.slot_count() + at)), Some(Arc::new(pod.clone()))));
    }
    Model { endpoints, ..after }
}

/// `judged` and `left` as addresses; those who left with the pod.
fn check(after: &str, judged: &[&str], left: &[(&str, &str)]) {
    let expected = Touched {
        judged: Judged::Of(judged.iter().map(|it| address(it)).collect()),
        left: left.iter().map(|(it, pod)| (address(it), name(pod))).collect(),
    };
    assert_eq!(touched(after, CLUSTER), expected, "{after}");
}

fn replaced(from: &str, to: &str) -> String {
    assert!(CLUSTER.contains(from), "{from}");
    CLUSTER.replace(from, to)
}

#[test]
fn nothing_touches_nobody() {
    check(CLUSTER, &[], &[]);
    assert!(touched(CLUSTER, CLUSTER).is_empty());
}

#[test]
fn a_policy_touches_whom_it_selects_or_has_selected() {
    check(&replaced("in p app=a app=b", ""), &["10.0.0.1"], &[]);
    check(&replaced("in p app=a app=b", "in p app=a app=c"), &["10.0.0.1"], &[]);
    check(&replaced("in p app=a app=b", "in p app=b app=b"), &["10.0.0.1", "10.0.0.2"], &[]);
    // Also on other nodes: an answer from there would pass for one.
    check(&format!("{CLUSTER}out q app=b app=a"), &["10.0.0.2"], &[]);
}

#[test]
fn ranges_of_pods_touch_everybody() {
    let mut model = model(CLUSTER);
    model.close_ranges(&["10.0.0.0/8".parse().unwrap()], &Default::default());
    assert_eq!(between(&self::model(CLUSTER), &model).judged, Judged::All);
    assert!(between(&model, &model).is_empty());
}

#[test]
fn labels_touch_their_pod() {
    check(&replaced("10.0.0.3 app=c", "10.0.0.3 app=d"), &["10.0.0.3"], &[]);
    check(&replaced("10.0.0.2 app=b", "10.0.0.2 app=d"), &["10.0.0.2"], &[]);
    check(&format!("{CLUSTER}namespace team=t"), &["10.0.0.1", "10.0.0.2", "10.0.0.3"], &[]);
}

#[test]
fn a_pod_that_comes_touches_its_address() {
    check(&format!("{CLUSTER}pod d n2 10.0.0.4 app=d"), &["10.0.0.4"], &[]);
}

#[test]
fn a_pod_that_goes_leaves_its_address() {
    check(&replaced("pod c n1 10.0.0.3 app=c", ""), &["10.0.0.3"], &[("10.0.0.3", "c")]);
    check(&replaced("pod b n2 10.0.0.2 app=b", ""), &["10.0.0.2"], &[("10.0.0.2", "b")]);
    check(&replaced("10.0.0.3 app=c", "10.0.0.4 app=c"), &["10.0.0.3", "10.0.0.4"], &[("10.0.0.3", "c")]);
}

#[test]
fn an_address_that_changes_hands_is_left_even_if_the_labels_are_the_same() {
    check(&replaced("pod c n1", "pod d n1"), &["10.0.0.3"], &[("10.0.0.3", "c")]);
    check(&replaced("pod b n2", "pod d n2"), &["10.0.0.2"], &[("10.0.0.2", "b")]);
}

#[test]
fn a_pod_of_the_same_name_on_another_link_is_another_pod() {
    let model = model(CLUSTER);
    let links: BTreeMap<_, _> =
        (0..).zip(&model.endpoints).map(|(at, it)| (palisade_model::EndpointId(at), format!("new-{}", it.name.name))).collect();
    let own = links.into_iter().filter(|(id, _)| model.endpoint(*id).unwrap().node == Some(NodeId(0))).collect();
    let touched = follow(&mut cluster_of(&model), &model, own);
    assert_eq!(touched.left, BTreeMap::from([(address("10.0.0.1"), name("a")), (address("10.0.0.3"), name("c"))]));
}

#[test]
fn nodes_touch_their_addresses() {
    check(&replaced("node n2 192.0.2.2", "node n2 192.0.2.3"), &["192.0.2.2", "192.0.2.3"], &[]);
}

/// Of two pods that claim an address, the one that runs has it.
#[test]
fn an_address_of_two_pods_is_left_when_the_other_gets_it() {
    let mut before = model(&format!("{CLUSTER}pod d n1 10.0.0.3 app=d"));
    before.endpoints[3].running = Running::NotSaid;
    let mut after = before.clone();
    after.endpoints[2].running = Running::NotSaid;
    after.endpoints[3].running = Running::Yes;
    let touched = between(&before, &after);
    let both = Touched { judged: Judged::Of([address("10.0.0.3")].into()), left: BTreeMap::from([(address("10.0.0.3"), name("c"))]) };
    assert_eq!(touched, both);
    // The other one goes, and nothing changes for who has the address.
    let mut alone = before.clone();
    alone.endpoints.remove(palisade_model::EndpointId(3));
    let touched = between(&before, &alone);
    assert_eq!(touched.left, BTreeMap::new());
}

#[test]
fn readiness_alone_touches_nobody() {
    let before = model(CLUSTER);
    let mut after = before.clone();
    after.endpoints[0].readiness = Readiness::NotReady;
    assert!(between(&before, &after).is_empty());
}

#[test]
fn what_several_changes_touch_is_put_together() {
    let mut all = touched(&replaced("in p app=a app=b", ""), CLUSTER);
    all.absorb(touched(&replaced("pod c n1 10.0.0.3 app=c", ""), CLUSTER));
    assert!(all.judges([address("10.0.0.1"), address("192.0.2.9")]));
    assert!(!all.judges([address("10.0.0.2"), address("192.0.2.9")]));
    assert_eq!(all.left_by([address("10.0.0.2"), address("10.0.0.3")]), Some(&name("c")));
    all.absorb(Touched::all());
    assert_eq!((all.judged, all.left.len()), (Judged::All, 1));
}

/// What is known of each pod and node, by its name; not who has its addresses.
fn known(model: &Model) -> BTreeMap<String, (String, Vec<IpAddr>)> {
    let node = |it: &Endpoint| it.node.and_then(|it| model.node(it)).map(|it| it.name.clone());
    let of = |it: &Endpoint| format!("{:?} {:?} {:?} {:?}", it.labels, model.namespace_labels(&it.name.namespace), it.ports, node(it));
    let pods = model.endpoints.iter().map(|it| (it.name.to_string(), (of(it), it.addresses.clone())));
    let nodes = model.nodes.iter().map(|it| (format!("node {}", it.name), (format!("{:?}", it.labels), it.addresses.clone())));
    pods.chain(nodes).collect()
}

#[test]
fn a_cluster_that_follows_changes_knows_owners_and_what_a_change_touches() {
    let mut changing = Changing::default();
    let mut cluster = Cluster::of(changing.model.clone(), NodeId(0), changing.links());
    let (mut judged_some, mut left_some) = (0, 0);
    for _ in 0..2000 {
        let old = changing.clone();
        changing.step();
        let owners = Changing::addresses().filter(|it| old.owner(*it) != changing.owner(*it));
        let left: BTreeMap<IpAddr, PodName> = owners.filter_map(|it| Some((it, old.owner(it)?.0))).collect();
        let (was, is) = (known(&old.model), known(&changing.model));
        let other = was.keys().chain(is.keys()).filter(|it| was.get(*it) != is.get(*it));
        let mut judged: HashSet<IpAddr> = other.flat_map(|it| [was.get(it), is.get(it)]).flatten().flat_map(|it| it.1.clone()).collect();
        // Who is otherwise the same may win an address, or lose it.
        let runs = |pod: &Endpoint| old.model.endpoints.iter().find(|it| it.name == pod.name).map(|it| it.running);
        let changed = changing.model.endpoints.iter().filter(|it| runs(it).is_some_and(|was| was != it.running));
        judged.extend(changed.flat_map(|it| &it.addresses).filter(|it| old.owner(**it) != changing.owner(**it)));
        let touched = follow(&mut cluster, &changing.model, changing.links());
        assert_eq!(touched, Touched { judged: Judged::Of(judged), left: left.clone() }, "{:?} {:?}", old.model, changing.model);
        for address in Changing::addresses() {
            assert_eq!(
                cluster.place(address),
                changing.model.place_of(palisade_model::NetworkId::DEFAULT, address),
                "{address} in {:?}",
                changing.model
            );
        }
        judged_some += usize::from(touched.judged != Judged::default());
        left_some += usize::from(!left.is_empty());
    }
    assert!(judged_some > 1000 && left_some > 300, "{judged_some} {left_some}");
}
