//! A second and a third network, with the addresses of the pod network.

use serde_json::{Value, json};

use crate::random::Random;

/// Networks, as the namespaces of pods may name them.
const NETWORKS: [&str; 2] = ["x/blue", "y/red"];

/// Attaches pods of half of all clusters, and has some policies be about other networks than the pod network. The other half has no annotation.
///
/// Without networks the objects are what they were before: whoever ignores annotations sees the same cluster.
pub(super) fn attach(random: &mut Random, objects: &mut [Value]) {
    if random.percent(50) {
        return;
    }
    for object in objects {
        match object.get("kind").and_then(Value::as_str) {
            Some("Pod") if random.percent(75) => annotate(object, "k8s.v1.cni.cncf.io/network-status", &status(random).to_string()),
            Some(kind) if kind.ends_with("NetworkPolicy") && random.percent(60) => {
                let own = kind == "NetworkPolicy";
                annotate(object, "k8s.v1.cni.cncf.io/policy-for", &policy_for(random, own));
            }
            Some(_) | None => {}
        }
    }
}

fn annotate(object: &mut Value, name: &str, value: &str) {
    json_patch::merge(object, &json!({ "metadata": { "annotations": { name: value } } }));
}

fn status(random: &mut Random) -> Value {
    let mut entries = Vec::new();
    if random.percent(50) {
        entries.push(json!({ "name": "cbr0", "interface": "eth0", "ips": ["10.0.0.1"], "default": true }));
    }
    for at in 1..=random.between(1, 3) {
        let mut entry = json!({ "name": random.of(NETWORKS), "interface": format!("net{at}"), "ips": addresses(random) });
        if random.percent(5) {
            json_patch::merge(&mut entry, &json!({ "interface": null }));
        }
        entries.push(entry);
    }
    entries.into()
}

/// Addresses of pods and nodes of the pod network, and some that nobody has there.
fn addresses(random: &mut Random) -> Value {
    let four = |random: &mut Random| match random.below(8) {
        0 => format!("172.18.0.{}", random.between(1, 3)),
        1 => "192.168.0.1".to_owned(),
        _ => format!("10.0.0.{}", random.between(1, 9)),
    };
    let six = |random: &mut Random| format!("fd00::{}", random.between(1, 9));
    match random.below(6) {
        0..3 => json!([four(random)]),
        3 => json!([six(random)]),
        4 => json!([four(random), six(random)]),
        _ => json!([]),
    }
}

/// A policy with a namespace may leave it out.
fn policy_for(random: &mut Random, own: bool) -> String {
    match random.below(6) {
        0..2 => NETWORKS.join(", "),
        2 if own => random.of(["blue", "red"]).to_owned(),
        _ => random.of(NETWORKS).to_owned(),
    }
}
