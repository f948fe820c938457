//! A `LiveIndex` that follows single objects comes to the model and the diagnostics of an `Index` that reads all objects at once.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;

use palisade_k8s::{AttachmentSource, Index, LiveIndex, LiveObject, TypeMeta};
use palisade_model::{Replica, Severity};
use palisade_testkit::generate::generate;
use palisade_testkit::random::Random;
use serde_json::{Value, json};

const CLUSTERS: u64 = 40;
const EVENTS: usize = 300;

/// Objects whose meaning depends on each other: chains of workloads, pods that tell addresses of nodes, host-network pods, assumed namespaces.
fn joined(random: &mut Random) -> Value {
    let namespace = random.of(["a", "b"]);
    let number = random.below(4);
    let labels = json!({ "app": random.of(["x", "y"]), "pod-template-hash": format!("h{}", random.below(2)) });
    let owner = |kind: &str, name: String| json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true }]);
    let host = random.percent(20);
    let node = if random.percent(70) { json!(format!("n{}", random.below(3))) } else { Value::Null };
    let ports = json!([{ "containerPort": 80 + random.below(3), "name": "http" }]);
    let spec = json!({ "hostNetwork": host, "nodeName": node, "containers": [{ "name": "c", "image": "i", "ports": ports }] });
    match random.below(9) {
        0..=3 => {
            let owners = match random.below(4) {
                0 => Value::Null,
                1 => owner("ReplicaSet", format!("w{}-h{}", random.below(3), random.below(2))),
                2 => owner("StatefulSet", format!("w{}", random.below(3))),
                _ => owner("Job", format!("j{}", random.below(2))),
            };
            let phase = random.of(["Running", "Running", "Pending", "Succeeded"]);
            let (address, host_address) = (format!("10.0.0.{}", 1 + random.below(20)), format!("192.0.2.{}", 1 + random.below(3)));
            let networks = random.below(3);
            let status = |at| json!({ "name": format!("{namespace}/net{at}"), "interface": format!("net{at}"), "ips": [address] });
            let attached = json!((0..networks).map(status).collect::<Vec<Value>>()).to_string();
            let annotations = if networks > 0 { json!({ "k8s.v1.cni.cncf.io/network-status": attached }) } else { Value::Null };
            json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": namespace, "name": format!("w{number}"), "labels": labels, "ownerReferences": owners,
                    "annotations": annotations },
                "spec": spec,
                "status": { "phase": phase, "podIP": address, "podIPs": [{ "ip": address }], "hostIP": host_address } })
        }
        4 => json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "namespace": namespace, "name": format!("w{}-h{}", random.below(3), random.below(2)),
                "ownerReferences": if random.percent(60) { owner("Deployment", format!("w{}", random.below(3))) } else { Value::Null } },
            "spec": { "selector": { "matchLabels": { "app": "x" } }, "template": { "metadata": { "labels": labels }, "spec": spec } } }),
        5 => json!({ "apiVersion": "apps/v1", "kind": random.of(["Deployment", "StatefulSet"]),
            "metadata": { "namespace": namespace, "name": format!("w{number}") },
            "spec": { "serviceName": "s", "selector": { "matchLabels": { "app": "x" } },
                "template": { "metadata": { "labels": labels }, "spec": spec } } }),
        6 => json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": format!("n{}", random.below(3)), "labels": labels },
            "spec": { "podCIDRs": [format!("10.1.{}.0/24", random.below(2))] },
            "status": { "addresses": [{ "type": "InternalIP", "address": format!("192.0.2.{}", 1 + random.below(4)) }] } }),
        7 => json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels } }),
        _ => json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": namespace, "name": format!("s{number}") },
            "spec": { "selector": { "app": random.of(["x", "y"]) }, "ports": [{ "port": 80 + random.below(2) }] } }),
    }
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The object as an API server would send it in a list of its resource.
fn live(object: &Value) -> LiveObject {
    let (api_version, kind) = (text(object, "/apiVersion").to_owned(), text(object, "/kind").to_owned());
    LiveObject::read(&resource(object), &Arc::new(TypeMeta { api_version, kind }), &object.to_string())
}

/// Groups of the same kind have lists of their own.
fn resource(object: &Value) -> String {
    let group = text(object, "/apiVersion").rsplit_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("cluster/{}s{group}", text(object, "/kind").to_lowercase())
}

/// An index of a cluster whose pods have networks by annotations.
fn empty() -> LiveIndex {
    LiveIndex::default().with_attachments(AttachmentSource::Annotations)
}

/// The objects that a cluster has at one time, by list, namespace and name.
type Objects = BTreeMap<(String, String, String), Value>;

fn key(object: &Value) -> (String, String, String) {
    (resource(object), text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

/// Compares an index and a replica that followed changes with an index that reads all objects at once.
fn check(index: &mut LiveIndex, replica: &mut Replica, objects: &Objects, when: &str) {
    let changes = index.changes();
    assert_eq!(replica.apply(&changes), Ok(()), "{when}: {changes:?}");
    let mut fresh = Index::default().with_attachments(AttachmentSource::Annotations);
    objects.values().for_each(|it| fresh.read_live(live(it)));
    let fresh = fresh.snapshot();
    assert_eq!(replica.model().canonical(), fresh.model, "{when}: {changes:?}");
    assert_eq!(replica.revision(), changes.to, "{when}");
    assert_eq!(index.diagnostics(&replica.model().canonical()), fresh.diagnostics, "{when}");
    assert!(index.changes().is_empty(), "{when}");
}

fn follow(seed: u64, mut draw: impl FnMut(&mut Random) -> Value) {
    let mut random = Random::new(seed);
    let (mut index, mut replica, mut objects) = (empty(), Replica::default(), Objects::new());
    let mut ids = BTreeSet::new();
    for event in 0..EVENTS {
        // Objects that are read before the first question, and several at once, are followed alike.
        let together = if event == 0 { 30 } else { 1 + random.below(3) };
        for _ in 0..together {
            let (deletes, known): (bool, Vec<_>) = (random.percent(35), objects.keys().cloned().collect());
            if let Some(gone) = random.pick(&known).filter(|_| deletes).and_then(|it| objects.remove(it)) {
                assert!(index.delete_live(&live(&gone)), "{gone}");
            } else {
                let object = draw(&mut random);
                index.read_live(live(&object));
                objects.insert(key(&object), object);
            }
        }
        check(&mut index, &mut replica, &objects, &format!("seed {seed}, event {event}"));
        ids.extend(replica.model().endpoints.ids());
    }
    // A list that names fewer objects deletes the others; all lists are empty at last.
    let lists: BTreeSet<String> = objects.keys().map(|it| it.0.clone()).collect();
    for keep in [2, 0] {
        for list in &lists {
            index.begin_list(list);
            let kept: Vec<_> = objects.keys().filter(|it| it.0 == *list).take(keep).cloned().collect();
            objects.retain(|key, _| key.0 != *list || kept.contains(key));
            objects.iter().filter(|(key, _)| key.0 == *list).for_each(|(_, it)| index.read_live(live(it)));
            index.end_list(list);
        }
        check(&mut index, &mut replica, &objects, &format!("seed {seed}, lists of {keep}"));
    }
    let slots = (replica.model().endpoints.slot_count(), replica.model().networks.slot_count());
    assert!(index.has_no_residue() && slots == (0, 0), "seed {seed}");
    assert!(ids.len() < EVENTS, "seed {seed}: ids are not used again");
}

#[test]
fn objects_that_depend_on_each_other_are_followed() {
    (0..CLUSTERS).for_each(|seed| follow(seed, joined));
}

#[test]
fn objects_of_random_clusters_are_followed() {
    for seed in 0..CLUSTERS / 2 {
        let drawn: Vec<Value> = (0..3).flat_map(|it| generate(seed * 3 + it).objects.0).collect();
        follow(seed, |random| random.pick(&drawn).unwrap().clone());
    }
}

#[test]
fn a_newer_version_of_a_live_object_is_no_duplicate() {
    let namespace =
        |team: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a", "labels": { "team": team } } });
    let (mut index, mut replica) = (LiveIndex::default(), Replica::default());
    index.read_live(live(&namespace("one")));
    replica.apply(&index.changes()).unwrap();
    for _ in 0..3 {
        index.read_live(live(&namespace("two")));
    }
    let changes = index.changes();
    replica.apply(&changes).unwrap();
    assert_eq!((changes.namespaces.len(), index.diagnostics(replica.model()).len()), (1, 0));
    index.read_live(live(&namespace("two")));
    assert!(index.changes().is_empty());
    assert!(index.delete_live(&live(&namespace("two"))) && !index.delete_live(&live(&namespace("two"))));
    assert_eq!(index.changes().namespaces.len(), 1);
    assert!(index.has_no_residue());
}

/// The kind and the name do not make an object of another API group the policy that counts.
#[test]
fn an_object_of_another_group_leaves_the_policy_of_its_name_alone() {
    let policy = network_policy(&json!({}), 80);
    let other = json!({ "apiVersion": "crd.projectcalico.org/v1", "kind": "NetworkPolicy", "metadata": policy["metadata"], "spec": {} });
    let mut index = LiveIndex::default();
    index.read_live(live(&policy));
    assert_eq!(index.changes().policies.len(), 1);
    index.read_live(live(&other));
    assert!(index.changes().is_empty());
    // A warning says that it has no effect.
    assert!(index.delete_live(&live(&other)) && index.changes().is_empty());
    index.begin_list(&resource(&other));
    index.end_list(&resource(&other));
    assert!(index.changes().is_empty());
    assert!(index.delete_live(&live(&policy)));
    assert_eq!((index.changes().policies.len(), index.has_no_residue()), (1, true));
}

fn network_policy(selector: &Value, port: u32) -> Value {
    json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "namespace": "shop", "name": "db" },
        "spec": { "podSelector": selector, "ingress": [{ "ports": [{ "port": port }] }] } })
}

/// The only policy of an index, and the codes of its errors.
fn only_policy(index: &Index) -> (String, Vec<&'static str>) {
    let snapshot = index.snapshot();
    let policy = match snapshot.model.policies.iter().collect::<Vec<_>>().as_slice() {
        [policy] => {
            let rules = policy.rules.egress.iter().chain(&policy.rules.ingress);
            let rules: Vec<String> = rules.map(|it| format!("{} {:?} {:?}", it.index, it.action, it.peers)).collect();
            format!("{:?} isolates {:?} {:?} {rules:?}", policy.subject, policy.isolates.egress, policy.isolates.ingress)
        }
        policies => format!("{} policies", policies.len()),
    };
    let errors = snapshot.diagnostics.iter().filter(|it| it.severity == Severity::Error).map(|it| it.code);
    (policy, errors.collect())
}

#[test]
fn a_live_network_policy_that_cannot_be_read_isolates_its_subject() {
    let (db, odd) = (json!({ "matchLabels": { "app": "db" } }), json!({ "matchExpressions": [{ "key": "app", "operator": "Near" }] }));
    let read = |objects: &[LiveObject]| {
        let mut index = Index::default();
        objects.iter().for_each(|it| index.read_live(it.clone()));
        index
    };
    let (good, bad) = (live(&network_policy(&db, 80)), live(&network_policy(&db, 80_000)));
    let closed = only_policy(&read(slice::from_ref(&bad)));
    assert!(closed.0.contains("app") && closed.0.ends_with("isolates true true []"), "{closed:?}");
    assert_eq!(closed.1, ["invalid-value", "closed-form"]);
    // The version before it does not matter, nor does any version after a correction.
    assert_eq!(only_policy(&read(&[good.clone(), bad.clone()])), closed);
    assert_eq!(only_policy(&read(&[bad.clone(), good.clone()])), only_policy(&read(slice::from_ref(&good))));
    let whole = only_policy(&read(&[live(&network_policy(&odd, 80))]));
    assert!(!whole.0.contains("app") && whole.0.ends_with("isolates true true []"), "{whole:?}");
    let of = Arc::new(TypeMeta { api_version: "networking.k8s.io/v1".to_owned(), kind: "NetworkPolicy".to_owned() });
    let twice =
        r#"{"metadata": {"namespace": "shop", "name": "db"}, "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "podSelector": {}}}"#;
    let list = resource(&network_policy(&db, 80));
    let unreadable = read(&[LiveObject::read(&list, &of, twice)]);
    assert_eq!(only_policy(&unreadable).0, whole.0);
    // A deletion takes the closed form and the diagnostics away.
    for (objects, last) in [(vec![good, bad.clone()], bad), (vec![], LiveObject::read(&list, &of, twice))] {
        let (mut index, mut replica) = (LiveIndex::default(), Replica::default());
        objects.into_iter().chain([last.clone()]).for_each(|it| index.read_live(it));
        replica.apply(&index.changes()).unwrap();
        let count = |index: &LiveIndex, replica: &Replica| (replica.model().policies.len(), index.diagnostics(replica.model()).is_empty());
        assert_eq!(count(&index, &replica), (1, false));
        assert!(index.delete_live(&last));
        replica.apply(&index.changes()).unwrap();
        assert_eq!(count(&index, &replica), (0, true));
    }
}

#[test]
fn rules_of_a_live_cluster_policy_that_cannot_be_read_fail_closed() {
    let policy = |namespaces: Value, rules: Value| {
        json!({ "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": { "name": "p" },
            "spec": { "tier": "Admin", "priority": 1, "subject": { "namespaces": namespaces }, "ingress": rules } })
    };
    let rule = |action: &str, port: u32| {
        json!({ "action": action, "from": [{ "namespaces": { "matchLabels": { "team": "a" } } }],
            "protocols": [{ "tcp": { "destinationPort": { "number": port } } }] })
    };
    let check = |namespaces: Value, rules: Value, expected: &[&str], errors: usize| {
        let mut index = Index::default();
        index.read_live(live(&policy(namespaces, rules)));
        let (found, codes) = only_policy(&index);
        assert!(expected.iter().all(|it| found.contains(it)), "{found} should have {expected:?}");
        assert_eq!((codes.len(), codes.contains(&"closed-form")), (errors, errors > 0), "{codes:?}");
    };
    let all = || json!({});
    check(all(), json!([rule("Accept", 80), rule("Deny", 81)]), &["0 Accept Of([Pods", "1 Deny Of([Pods"], 0);
    check(all(), json!([rule("Accept", 80_000), rule("Deny", 81)]), &["0 Accept Of([])", "1 Deny Of([Pods"], 2);
    check(all(), json!([rule("Deny", 80_000), rule("Accept", 81)]), &["0 Deny AnyButOwnNode", "1 Accept Of([Pods"], 2);
    check(all(), json!([rule("Pass", 80_000)]), &["0 Deny AnyButOwnNode"], 2);
    check(all(), json!("none"), &["0 Deny AnyButOwnNode"], 2);
    check(json!({ "matchLabels": 7 }), json!([rule("Deny", 80)]), &["Unknown", "0 Deny Of([Pods"], 2);
}
