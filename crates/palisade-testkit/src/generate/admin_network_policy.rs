//! AdminNetworkPolicies and their Baseline as they were shipped, early and late.

use serde_json::{Map, Value, json};

use super::cluster_network_policy::{DOMAINS, NAMES, networks};
use super::vocabulary::{PLACE_LABELS, POD_LABELS, PORT_NAMES, PORTS, PROTOCOLS, keys, put, selector, wide};
use crate::random::Random;

#[derive(Clone, Copy, PartialEq)]
enum Tier {
    Admin,
    Baseline,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Early,
    Late,
}

pub(super) fn admin_network_policy(random: &mut Random, at: usize) -> Value {
    policy(random, Tier::Admin, NAMES.get(at).copied().unwrap_or("other"))
}

/// There is one at most.
pub(super) fn baseline_admin_network_policy(random: &mut Random) -> Value {
    policy(random, Tier::Baseline, "default")
}

fn policy(random: &mut Random, tier: Tier, name: &str) -> Value {
    let shape = random.of([Shape::Early, Shape::Late]);
    let subject = if random.percent(50) {
        json!({"namespaces": wide(random, PLACE_LABELS)})
    } else {
        json!({"pods": {"namespaceSelector": wide(random, PLACE_LABELS), "podSelector": wide(random, POD_LABELS)}})
    };
    let mut spec = Map::new();
    spec.insert("subject".to_owned(), subject);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = match random.below(10) {
            0..2 => None,
            2 => Some(json!([])),
            _ => Some((0..random.of([1, 1, 2, 3])).map(|_| rule(random, tier, shape, peers)).collect()),
        };
        put(random, &mut spec, list, rules);
    }
    let mut metadata = json!({"name": name});
    if random.percent(10) {
        let named = match shape {
            Shape::Early => "v0.1.0",
            Shape::Late => "v0.1.7",
        };
        json_patch::merge(&mut metadata, &json!({"annotations": {"palisade.dev/shape": named}}));
    }
    let kind = match tier {
        Tier::Admin => {
            spec.insert("priority".to_owned(), random.of([0, 5, 5, 5, 1000]).into());
            "AdminNetworkPolicy"
        }
        Tier::Baseline => "BaselineAdminNetworkPolicy",
    };
    json!({"apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn rule(random: &mut Random, tier: Tier, shape: Shape, peers: &str) -> Value {
    let mut rule = Map::new();
    let action = match tier {
        Tier::Admin => random.of(["Allow", "Deny", "Pass"]),
        Tier::Baseline => random.of(["Allow", "Deny"]),
    };
    rule.insert("action".to_owned(), action.into());
    if random.percent(20) {
        rule.insert("name".to_owned(), random.of(["first", "second"]).into());
    }
    let whom: Vec<Value> = (0..random.of([1, 1, 2])).map(|_| peer(random, tier, shape, peers)).collect();
    // The CRD refuses named ports beside these.
    let nameless = whom.iter().any(|it| it.get("networks").or(it.get("nodes")).or(it.get("domainNames")).is_some());
    rule.insert(peers.to_owned(), whom.into());
    let entries: Vec<Value> = (0..random.of([1, 1, 2])).map(|_| port(random)).collect();
    let entries = entries.into_iter().map(|it| match it {
        named if nameless && named.get("namedPort").is_some() => json!({"portNumber": {"protocol": "TCP", "port": 80}}),
        other => other,
    });
    let ports = random.percent(55).then(|| entries.collect());
    put(random, &mut rule, "ports", ports);
    if random.percent(2) {
        rule.insert("schedule".to_owned(), "nightly".into());
    }
    Value::Object(rule)
}

fn peer(random: &mut Random, tier: Tier, shape: Shape, peers: &str) -> Value {
    let mut peer = match (random.percent(3), shape) {
        (true, _) => random.of([&json!({}), &json!({"accounts": {}}), &json!({"regions": ["eu"]})]).clone(),
        (false, Shape::Early) => early(random),
        (false, Shape::Late) => late(random, tier, peers),
    };
    if random.percent(2) {
        json_patch::merge(&mut peer, &json!({"accounts": {"name": "x"}}));
    }
    peer
}

fn early(random: &mut Random) -> Value {
    let namespaces = match random.below(10) {
        0..3 => json!({"namespaceSelector": selector(random, PLACE_LABELS)}),
        3..6 => json!({"sameLabels": keys(random, PLACE_LABELS)}),
        6..9 => json!({"notSameLabels": keys(random, PLACE_LABELS)}),
        _ => json!({"notSameLabels": keys(random, PLACE_LABELS), "namespaceSelector": null}),
    };
    match random.below(2) {
        0 => json!({"namespaces": namespaces}),
        _ => json!({"pods": {"namespaces": namespaces, "podSelector": selector(random, POD_LABELS)}}),
    }
}

fn late(random: &mut Random, tier: Tier, peers: &str) -> Value {
    let kinds = match (peers, tier) {
        ("from", _) => 10,
        (_, Tier::Baseline) => 16,
        (_, Tier::Admin) => 20,
    };
    match random.below(kinds) {
        0..5 => json!({"namespaces": selector(random, PLACE_LABELS)}),
        5..10 => json!({"pods": {"namespaceSelector": selector(random, PLACE_LABELS), "podSelector": selector(random, POD_LABELS)}}),
        10..13 => json!({"networks": networks(random)}),
        13..16 => json!({"nodes": selector(random, PLACE_LABELS)}),
        _ => json!({"domainNames": [random.of(DOMAINS)]}),
    }
}

fn port(random: &mut Random) -> Value {
    let (one, other) = (random.of(PORTS), random.of(PORTS));
    let mut held = Map::new();
    let protocol = match random.below(20) {
        0..8 => None,
        // The schema takes any text.
        8 => Some("ICMP".into()),
        _ => Some(random.of(PROTOCOLS).into()),
    };
    put(random, &mut held, "protocol", protocol);
    match random.below(20) {
        0 => random.of([&json!({}), &json!({"icmp": {}})]).clone(),
        1..7 => json!({"namedPort": random.of(PORT_NAMES)}),
        7..13 => {
            held.insert("port".to_owned(), one.into());
            json!({"portNumber": held})
        }
        // Nobody checks that the range goes upwards.
        13 => {
            held.insert("start".to_owned(), one.into());
            held.insert("end".to_owned(), other.into());
            json!({"portRange": held})
        }
        _ => {
            held.insert("start".to_owned(), one.min(other).into());
            held.insert("end".to_owned(), one.max(other).into());
            json!({"portRange": held})
        }
    }
}
