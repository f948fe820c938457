//! Small clusters as text, one object a line:
//!
//! - `pod NAME ADDRESS here LABEL…`, or `away` for one of another node. A label is `key=value`.
//! - `policy NAME SUBJECT egress PEER…`, or `ingress`. A subject is a label or `*`. A peer is one of these, a block, or a block without another
//!   (`10.0.0.0/8-10.1.0.0/16`), each with one port or all (`app=web@80`).
//! - `deny NAME SUBJECT egress PEER…`, or `ingress`, before any policy. A peer is a label or `*`.

use std::collections::BTreeSet;

use palisade_model::Severity;
use palisade_nft::{Ids, Ruleset, Unknown};
use palisade_testkit::check::snapshot;
use palisade_testkit::interleaved::on_one_node;
use serde_json::{Value, json};

/// The ruleset of the node.
pub(crate) fn ruleset(text: &str, ids: &mut Ids, unknown: Unknown) -> Ruleset {
    let lines: Vec<Vec<&str>> = text.lines().map(|it| it.split_whitespace().collect::<Vec<&str>>()).filter(|it| !it.is_empty()).collect();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let objects: Vec<Value> = lines.iter().map(|words| object(words)).chain([namespace]).collect();
    let here: BTreeSet<String> =
        lines.iter().filter(|it| it[0] == "pod" && it[3] == "here").map(|it| format!("default/{}", it[1])).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let snapshot = snapshot("cluster.json", &list.to_string());
    let read = snapshot.diagnostics.iter().all(|it| it.severity != Severity::Error);
    assert!(read, "{text}: {:?}", snapshot.diagnostics);
    on_one_node(&snapshot.model, ids, unknown, |name| here.contains(name))
}

fn object(words: &[&str]) -> Value {
    match words {
        ["pod", name, address, "here" | "away", labels @ ..] => {
            let labels: serde_json::Map<String, Value> = labels.iter().map(|it| label(it)).collect();
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {"containers": [{"name": "c"}]},
                "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
            })
        }
        ["policy", name, subject, direction @ ("egress" | "ingress"), peers @ ..] => {
            let (types, side) = if *direction == "egress" { ("Egress", "to") } else { ("Ingress", "from") };
            let rules: Vec<Value> = peers.iter().map(|it| rule(it, side)).collect();
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"podSelector": selector(subject), "policyTypes": [types], *direction: rules},
            })
        }
        ["deny", name, subject, direction @ ("egress" | "ingress"), peers @ ..] => {
            let side = if *direction == "egress" { "to" } else { "from" };
            let of = |pods: &str| json!({"pods": {"namespaceSelector": {}, "podSelector": selector(pods)}});
            let rules: Vec<Value> = peers.iter().map(|it| json!({"action": "Deny", side: [of(it)]})).collect();
            json!({
                "apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": "AdminNetworkPolicy",
                "metadata": {"name": name},
                "spec": {"priority": 10, "subject": of(subject), *direction: rules},
            })
        }
        words => panic!("{words:?}"),
    }
}

fn label(text: &str) -> (String, Value) {
    let (key, value) = text.split_once('=').unwrap();
    (key.to_owned(), json!(value))
}

fn selector(text: &str) -> Value {
    if text == "*" { json!({}) } else { json!({"matchLabels": serde_json::Map::from_iter([label(text)])}) }
}

fn rule(text: &str, side: &str) -> Value {
    let (peer, port) = text.split_once('@').map_or((text, None), |(peer, port)| (peer, Some(port.parse::<u16>().unwrap())));
    let peer = match (peer.contains('/'), peer.split_once('-')) {
        (true, Some((block, but))) => json!({"ipBlock": {"cidr": block, "except": [but]}}),
        (true, None) => json!({"ipBlock": {"cidr": peer}}),
        (false, _) => json!({"podSelector": selector(peer)}),
    };
    let ports: Vec<Value> = port.iter().map(|it| json!({"port": it})).collect();
    json!({side: [peer], "ports": ports})
}
