//! AdminNetworkPolicies as KEP-2091 proposed them, under the apiVersion it gave them and under our own.

use serde_json::{Map, Value, json};

use super::cluster_network_policy::NAMES;
use super::vocabulary::{PLACE_LABELS, POD_LABELS, keys, port, put, selector, wide};
use crate::random::Random;

/// The group that the proposal names, and ours, where nothing else is.
const ORIGINAL: &str = "policy.networking.k8s.io";
const OWN: &str = "kep2091.palisade.dev";

pub(super) fn kep_2091(random: &mut Random, at: usize) -> Value {
    let group = random.of([ORIGINAL, OWN]);
    let subject = match random.below(20) {
        // In the other group nothing would tell the shape.
        0 if group == OWN => json!({"accounts": {}}),
        0..9 => json!({"namespaceSelector": wide(random, PLACE_LABELS)}),
        _ => json!({"namespaceAndPodSelector": {"namespaceSelector": wide(random, PLACE_LABELS), "podSelector": wide(random, POD_LABELS)}}),
    };
    let mut spec = Map::new();
    // Those of the other kinds are 0, 5 and 1000: the same ranks, but the last.
    spec.insert("priority".to_owned(), random.of([0, 0, 0, 1, 995, 995, 995, 1000, 2000]).into());
    spec.insert("subject".to_owned(), subject);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = match random.below(10) {
            0..2 => None,
            2 => Some(json!([])),
            _ => Some((0..random.of([1, 1, 2, 3])).map(|_| rule(random, peers)).collect()),
        };
        put(random, &mut spec, list, rules);
    }
    let mut metadata = json!({"name": NAMES.get(at).copied().unwrap_or("other")});
    if group == ORIGINAL && random.percent(10) {
        json_patch::merge(&mut metadata, &json!({"annotations": {"palisade.dev/shape": "kep2091"}}));
    }
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "AdminNetworkPolicy", "metadata": metadata, "spec": spec})
}

fn rule(random: &mut Random, peers: &str) -> Value {
    let mut rule = Map::new();
    rule.insert("action".to_owned(), random.of(["Allow", "Deny", "Pass"]).into());
    if random.percent(20) {
        rule.insert("name".to_owned(), random.of(["first", "second"]).into());
    }
    let whom = match random.below(20) {
        0 => None,
        1 => Some(json!([])),
        _ => Some((0..random.of([1, 1, 2])).map(|_| peer(random)).collect()),
    };
    put(random, &mut rule, peers, whom);
    rule.insert("l4Selector".to_owned(), l4_selector(random));
    if random.percent(2) {
        rule.insert("schedule".to_owned(), "nightly".into());
    }
    Value::Object(rule)
}

fn peer(random: &mut Random) -> Value {
    let mut peer = match random.below(30) {
        0 => random.of([&json!({}), &json!({"accounts": {}}), &json!({"regions": ["eu"]})]).clone(),
        1..15 => json!({"namespaces": namespaces(random)}),
        _ => json!({"namespacedPods": {"namespaces": namespaces(random), "pods": pods(random)}}),
    };
    if random.percent(2) {
        json_patch::merge(&mut peer, &json!({"accounts": {"name": "x"}}));
    }
    peer
}

fn namespaces(random: &mut Random) -> Value {
    match random.below(30) {
        0 => random.of([&json!({}), &json!({"regions": ["eu"]})]).clone(),
        1..6 => json!({"self": true}),
        6..11 => json!({"notSelf": true}),
        11..18 => json!({"namespaceSelector": selector(random, PLACE_LABELS)}),
        18..23 => json!({"sameLabels": keys(random, PLACE_LABELS)}),
        23 => json!({"sameLabels": keys(random, PLACE_LABELS), "namespaceSelector": null}),
        _ => json!({"notSameLabels": keys(random, PLACE_LABELS)}),
    }
}

fn pods(random: &mut Random) -> Value {
    match random.below(20) {
        0 => random.of([&json!({}), &json!({"images": ["web"]})]).clone(),
        1..8 => json!({"podSelector": selector(random, POD_LABELS)}),
        8..14 => json!({"sameLabels": keys(random, POD_LABELS)}),
        _ => json!({"notSameLabels": keys(random, POD_LABELS)}),
    }
}

fn l4_selector(random: &mut Random) -> Value {
    match random.below(20) {
        0 => random.of([&json!({}), &json!({"icmp": true}), &json!({"ports": []})]).clone(),
        1..10 => json!({"allPorts": true}),
        _ => json!({"ports": (0..random.of([1, 1, 2])).map(|_| port(random)).collect::<Vec<Value>>()}),
    }
}
