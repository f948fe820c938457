//! The words that policies and clusters share.

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::random::Random;

/// Of pods.
pub(super) const POD_LABELS: [(&str, [&str; 3]); 2] = [("app", ["a", "b", "c"]), ("tier", ["web", "db", ""])];
/// Of namespaces, and of nodes.
pub(super) const PLACE_LABELS: [(&str, [&str; 3]); 2] = [("team", ["red", "blue", "green"]), ("env", ["prod", "dev", ""])];

pub(super) const PORT_NAMES: [&str; 3] = ["web", "dns", "metrics"];
pub(super) const PORTS: [u16; 7] = [1, 9, 53, 80, 443, 8080, 65535];
pub(super) const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Addresses that nobody in the cluster has.
pub(super) const OUTSIDE: [&str; 4] = ["203.0.113.5", "203.0.113.200", "2001:db8::5", "10.0.0.77"];

/// Blocks over pods (10.0.0.0/24, fd00::/64), nodes (172.18.0.0/24, fd01::/64) and the outside.
const BLOCKS: [&str; 22] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.0.0/29",
    "10.0.0.0/30",
    "10.0.0.4/30",
    "10.0.0.1/32",
    "10.0.0.2/32",
    "10.0.0.5/32",
    "172.18.0.0/24",
    "172.18.0.1/32",
    "203.0.113.0/24",
    "203.0.113.128/25",
    "128.0.0.0/1",
    "::/0",
    "fd00::/8",
    "fd00::/64",
    "fd00::4/126",
    "fd00::1/128",
    "fd01::/64",
    "fd01::1/128",
    "2001:db8::/32",
];

pub(super) fn block(random: &mut Random) -> &'static str {
    random.of(BLOCKS)
}

/// Blocks that lie inside of `block`, and are smaller.
pub(super) fn parts_of(random: &mut Random, block: &str) -> Vec<&'static str> {
    let parse = |text: &str| text.parse::<IpNet>().ok();
    let inside = |part: &&&str| match (parse(block), parse(part)) {
        (Some(whole), Some(part)) => whole.contains(&part) && whole.prefix_len() < part.prefix_len(),
        (None, _) | (_, None) => false,
    };
    let parts: Vec<&&'static str> = BLOCKS.iter().filter(inside).collect();
    (0..random.between(1, 2)).filter_map(|_| random.pick(&parts).map(|part| **part)).collect()
}

/// Some of the labels, each with one of its values.
pub(super) fn labels(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, values) in vocabulary {
        if random.percent(70) {
            let value = random.of(values);
            labels.insert(key.to_owned(), if value.is_empty() && random.percent(20) { Value::Null } else { value.into() });
        }
    }
    labels
}

/// Keys of labels to compare: none, one or more, and some that nobody has.
pub(super) fn keys(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Value {
    let [(one, _), (other, _)] = vocabulary;
    match random.below(12) {
        0..2 => json!([]),
        2..5 => json!([one]),
        5..8 => json!([other]),
        8..10 => json!([one, other]),
        10 => json!([other, "absent"]),
        _ => json!([one, one]),
    }
}

/// A label selector in one of its many spellings.
pub(super) fn selector(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Value {
    let mut selector = Map::new();
    match random.below(10) {
        0..3 => {}
        3..6 => drop(selector.insert("matchLabels".to_owned(), match_labels(random, vocabulary))),
        6..9 => drop(selector.insert("matchExpressions".to_owned(), expressions(random, vocabulary))),
        _ => {
            selector.insert("matchLabels".to_owned(), match_labels(random, vocabulary));
            selector.insert("matchExpressions".to_owned(), expressions(random, vocabulary));
        }
    }
    for (key, empty) in [("matchLabels", json!({})), ("matchExpressions", json!([]))] {
        if random.percent(5) {
            let nothing = if random.percent(50) { empty } else { Value::Null };
            selector.entry(key).or_insert(nothing);
        }
    }
    Value::Object(selector)
}

/// A selector of everything, or any other: subjects have to be found before their relations matter.
pub(super) fn wide(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Value {
    if random.percent(50) { json!({}) } else { selector(random, vocabulary) }
}

fn match_labels(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Value {
    let mut pairs = Map::new();
    for _ in 0..random.of([1, 1, 1, 2]) {
        let (key, values) = random.of(vocabulary);
        pairs.insert(key.to_owned(), random.of(values).into());
    }
    Value::Object(pairs)
}

fn expressions(random: &mut Random, vocabulary: [(&str, [&str; 3]); 2]) -> Value {
    let expression = |random: &mut Random| {
        let (key, values) = random.of(vocabulary);
        let key = if random.percent(10) { "absent" } else { key };
        let some: Vec<&str> = (0..random.between(1, 2)).map(|_| random.of(values)).collect();
        match random.of(["In", "NotIn", "NotIn", "Exists", "DoesNotExist"]) {
            operator @ ("Exists" | "DoesNotExist") => match random.below(3) {
                0 => json!({"key": key, "operator": operator}),
                1 => json!({"key": key, "operator": operator, "values": null}),
                _ => json!({"key": key, "operator": operator, "values": []}),
            },
            operator => json!({"key": key, "operator": operator, "values": some}),
        }
    };
    (0..random.of([1, 1, 2])).map(|_| expression(random)).collect()
}

/// An entry of ports, as NetworkPolicy and KEP-2091 have it.
pub(super) fn port(random: &mut Random) -> Value {
    let mut fields = Map::new();
    let protocol = random.percent(65).then(|| random.of(PROTOCOLS).into());
    put(random, &mut fields, "protocol", protocol);
    let (one, other) = (random.of(PORTS), random.of(PORTS));
    let (port, end) = match random.below(10) {
        0..2 => (None, None),
        2..5 => (Some(random.of(PORT_NAMES).into()), None),
        5..8 => (Some(one.into()), None),
        _ => (Some(one.min(other).into()), Some(one.max(other).into())),
    };
    put(random, &mut fields, "port", port);
    put(random, &mut fields, "endPort", end);
    Value::Object(fields)
}

/// The value, or one of the ways to say nothing.
pub(super) fn put(random: &mut Random, fields: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(key.to_owned(), value)),
        None if random.percent(30) => drop(fields.insert(key.to_owned(), Value::Null)),
        None => {}
    }
}
