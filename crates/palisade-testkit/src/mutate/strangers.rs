//! The fields of the policy APIs, written down apart from the reader.

use serde_json::Value;

/// The fields of one kind of map, each with the kind of its value. Lists are looked through.
type Shape = &'static [(&'static str, &'static str)];

fn shape(name: &str) -> Option<Shape> {
    Some(match name {
        "NetworkPolicy" => &[("podSelector", "selector"), ("policyTypes", ""), ("ingress", "np-ingress"), ("egress", "np-egress")],
        "np-ingress" => &[("from", "np-peer"), ("ports", "np-port")],
        "np-egress" => &[("to", "np-peer"), ("ports", "np-port")],
        "np-peer" => &[("podSelector", "selector"), ("namespaceSelector", "selector"), ("ipBlock", "block")],
        "np-port" => &[("protocol", ""), ("port", ""), ("endPort", "")],
        "block" => &[("cidr", ""), ("except", "")],
        "selector" => &[("matchLabels", ""), ("matchExpressions", "expression")],
        "expression" => &[("key", ""), ("operator", ""), ("values", "")],
        "ClusterNetworkPolicy" => {
            &[("tier", ""), ("priority", ""), ("subject", "subject"), ("ingress", "cnp-ingress"), ("egress", "cnp-egress")]
        }
        "subject" | "cnp-from" => &[("namespaces", "selector"), ("pods", "pods")],
        "pods" => &[("namespaceSelector", "selector"), ("podSelector", "selector")],
        "cnp-ingress" => &[("name", ""), ("action", ""), ("from", "cnp-from"), ("protocols", "protocol")],
        "cnp-egress" => &[("name", ""), ("action", ""), ("to", "cnp-to"), ("protocols", "protocol")],
        "cnp-to" => &[("namespaces", "selector"), ("pods", "pods"), ("networks", ""), ("nodes", "selector"), ("domainNames", "")],
        "protocol" => &[("tcp", "layer4"), ("udp", "layer4"), ("sctp", "layer4"), ("destinationNamedPort", "")],
        "layer4" => &[("destinationPort", "destination")],
        "destination" => &[("number", ""), ("range", "range")],
        "range" => &[("start", ""), ("end", "")],
        _ => return None,
    })
}

/// The keys in the spec of a policy that its API does not have there. Keys that users choose are none of them.
pub fn strangers(object: &Value) -> Vec<String> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("");
    let kind = match (text("/apiVersion"), text("/kind")) {
        ("networking.k8s.io/v1", "NetworkPolicy") => "NetworkPolicy",
        ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy") => "ClusterNetworkPolicy",
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    collect(object.get("spec").unwrap_or(&Value::Null), kind, &mut found);
    found
}

fn collect(value: &Value, of: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, of, found)),
        Value::Object(fields) => {
            let Some(known) = shape(of) else { return };
            for (key, field) in fields {
                match known.iter().find(|(name, _)| name == key) {
                    Some((_, inner)) => collect(field, inner, found),
                    None => found.push(key.clone()),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_keys_are_free_and_fields_are_not() {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {"podSelector": {"matchLabels": {"form": "a"}, "matchlabels": {}}, "ingress": [{"form": []}, {"from": [{"to": 1}]}]},
        });
        assert_eq!(strangers(&policy), ["form", "to", "matchlabels"]);
    }
}
