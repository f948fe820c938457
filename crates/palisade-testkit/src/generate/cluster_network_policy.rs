//! ClusterNetworkPolicies of today, with now and then something of a later version.

use serde_json::{Map, Value, json};

use super::vocabulary::{PLACE_LABELS, POD_LABELS, PORT_NAMES, PORTS, block, put, selector};
use crate::random::Random;

/// In byte order they are not in the order of a dictionary.
pub(super) const NAMES: [&str; 5] = ["b", "a.b", "a-b", "ab", "a"];
pub(super) const DOMAINS: [&str; 7] =
    ["example.com", "*.example.com", "web.x.svc.cluster.local", "*.cluster.local", "cluster.local", "*.svc.Cluster.LOCAL.", "Example.ORG."];

pub(super) fn cluster_network_policy(random: &mut Random, at: usize) -> Value {
    let name = NAMES.get(at).copied().unwrap_or("other");
    let subject = match random.below(20) {
        0 => json!({"accounts": {}}),
        1..9 => json!({"namespaces": selector(random, PLACE_LABELS)}),
        _ => json!({"pods": pods(random)}),
    };
    let mut spec = Map::new();
    spec.insert("tier".to_owned(), random.of(["Admin", "Baseline"]).into());
    spec.insert("priority".to_owned(), random.of([0, 5, 5, 1000]).into());
    spec.insert("subject".to_owned(), subject);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = match random.below(10) {
            0..2 => None,
            2 => Some(json!([])),
            _ => Some((0..random.of([1, 1, 2, 3])).map(|_| rule(random, peers)).collect()),
        };
        put(random, &mut spec, list, rules);
    }
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn rule(random: &mut Random, peers: &str) -> Value {
    let mut rule = Map::new();
    let action = if random.percent(2) { "Log" } else { random.of(["Accept", "Deny", "Pass"]) };
    rule.insert("action".to_owned(), action.into());
    if random.percent(20) {
        rule.insert("name".to_owned(), random.of(["first", "second"]).into());
    }
    let whom: Vec<Value> = (0..random.of([1, 1, 2])).map(|_| peer(random, peers)).collect();
    // Both CRDs refuse named ports beside these.
    let nameless = whom.iter().any(|it| it.get("nodes").or(it.get("domainNames")).is_some());
    rule.insert(peers.to_owned(), whom.into());
    let mut entry = || match protocol(random) {
        named if nameless && named.get("destinationNamedPort").is_some() => json!({"tcp": {"destinationPort": {"number": 80}}}),
        other => other,
    };
    let entries: Vec<Value> = vec![entry(), entry()];
    let protocols = random.percent(55).then(|| entries.into_iter().take(random.of([1, 1, 2])).collect());
    put(random, &mut rule, "protocols", protocols);
    if random.percent(2) {
        rule.insert("schedule".to_owned(), "nightly".into());
    }
    Value::Object(rule)
}

fn peer(random: &mut Random, peers: &str) -> Value {
    let kinds = if peers == "from" { 10 } else { 20 };
    let mut peer = match random.below(kinds) {
        0 if random.percent(40) => random.of([&json!({}), &json!({"accounts": {}}), &json!({"regions": ["eu"]})]).clone(),
        0..6 => json!({"namespaces": selector(random, PLACE_LABELS)}),
        6..10 => json!({"pods": pods(random)}),
        10..13 => json!({"networks": networks(random)}),
        13..16 => json!({"nodes": selector(random, PLACE_LABELS)}),
        _ => json!({"domainNames": [random.of(DOMAINS)]}),
    };
    if random.percent(2) {
        json_patch::merge(&mut peer, &json!({"accounts": {"name": "x"}}));
    }
    peer
}

fn pods(random: &mut Random) -> Value {
    let mut pods = Map::new();
    pods.insert("podSelector".to_owned(), selector(random, POD_LABELS));
    let namespaces = random.percent(60).then(|| selector(random, PLACE_LABELS));
    put(random, &mut pods, "namespaceSelector", namespaces);
    Value::Object(pods)
}

/// A set: no block twice.
pub(super) fn networks(random: &mut Random) -> Value {
    let mut networks = vec![block(random)];
    let second = block(random);
    if random.percent(40) && !networks.contains(&second) {
        networks.push(second);
    }
    networks.into()
}

fn protocol(random: &mut Random) -> Value {
    let protocol = random.of(["tcp", "tcp", "udp", "sctp"]);
    match random.below(30) {
        0 => random.of([&json!({}), &json!({"icmp": {}}), &json!({"tcp": {}}), &json!({"tcp": {"sourcePort": 5}})]).clone(),
        1 => json!({protocol: {"destinationPort": random.of([&json!({}), &json!({"mask": 3}), &json!({"number": 80, "mask": 3})])}}),
        2 => json!({protocol: {"destinationPort": {"number": 80}, "flags": "syn"}}),
        3..12 => json!({"destinationNamedPort": random.of(PORT_NAMES)}),
        12..22 => json!({protocol: {"destinationPort": {"number": random.of(PORTS)}}}),
        _ => {
            let (one, other) = (random.of(PORTS), random.of(PORTS));
            let end = if one == other { one.saturating_add(1) } else { one.max(other) };
            let start = if one == end { one - 1 } else { one.min(other) };
            json!({protocol: {"destinationPort": {"range": {"start": start, "end": end}}}})
        }
    }
}
