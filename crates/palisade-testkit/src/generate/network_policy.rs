//! NetworkPolicies, in every spelling that the API server takes.

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::vocabulary::{PLACE_LABELS, POD_LABELS, block, parts_of, port, put, selector};
use crate::random::Random;

pub(super) fn network_policy(random: &mut Random, cluster: &Cluster, at: usize) -> Value {
    let namespace = random.pick(&cluster.namespaces).copied().unwrap_or("default");
    let mut spec = Map::new();
    let subject = random.percent(90).then(|| selector(random, POD_LABELS));
    put(random, &mut spec, "podSelector", subject);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = match random.below(10) {
            0..3 => None,
            3 => Some(json!([])),
            _ => Some((0..random.of([1, 1, 2])).map(|_| rule(random, peers)).collect()),
        };
        put(random, &mut spec, list, rules);
    }
    let types = match random.below(9) {
        0..3 => None,
        3 => Some(json!([])),
        4 => Some(json!(["Ingress"])),
        5 => Some(json!(["Egress"])),
        6 => Some(json!(["Egress", "Ingress"])),
        7 => Some(json!(["Ingress", "Egress"])),
        _ => Some(json!(["Egress", "Egress"])),
    };
    put(random, &mut spec, "policyTypes", types);
    let spec = if random.percent(2) { random.of([None, Some(Value::Null).as_ref()]).cloned() } else { Some(Value::Object(spec)) };
    let mut policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": format!("np{at}"), "namespace": namespace},
    });
    if let (Some(spec), Some(fields)) = (spec, policy.as_object_mut()) {
        fields.insert("spec".to_owned(), spec);
    }
    policy
}

fn rule(random: &mut Random, peers: &str) -> Value {
    let mut rule = Map::new();
    let whom = match random.below(10) {
        0..2 => None,
        2 => Some(json!([])),
        _ => Some((0..random.of([1, 1, 2, 3])).map(|_| peer(random)).collect()),
    };
    put(random, &mut rule, peers, whom);
    let ports = match random.below(10) {
        0..4 => None,
        4 => Some(json!([])),
        _ => Some((0..random.of([1, 1, 2])).map(|_| port(random)).collect()),
    };
    put(random, &mut rule, "ports", ports);
    Value::Object(rule)
}

fn peer(random: &mut Random) -> Value {
    match random.below(20) {
        0..5 => json!({"podSelector": selector(random, POD_LABELS)}),
        5..9 => json!({"namespaceSelector": selector(random, PLACE_LABELS)}),
        9..12 => json!({"podSelector": selector(random, POD_LABELS), "namespaceSelector": selector(random, PLACE_LABELS)}),
        12 => json!({"podSelector": selector(random, POD_LABELS), "namespaceSelector": null}),
        13 if random.percent(30) => random.of([&json!({}), &Value::Null, &json!({"podSelector": null})]).clone(),
        _ => json!({"ipBlock": ip_block(random)}),
    }
}

fn ip_block(random: &mut Random) -> Value {
    let mut fields = Map::new();
    let cidr = block(random);
    let odd = match cidr {
        "10.0.0.0/24" if random.percent(20) => "10.0.0.9/24",
        "10.0.0.0/8" if random.percent(20) => "010.000.0.0/8",
        _ => cidr,
    };
    fields.insert("cidr".to_owned(), odd.into());
    let except = match random.below(10) {
        0..4 => None,
        4 => Some(json!([])),
        _ => Some(parts_of(random, cidr).into()),
    };
    put(random, &mut fields, "except", except);
    Value::Object(fields)
}
