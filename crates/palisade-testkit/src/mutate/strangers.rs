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
        "AdminNetworkPolicy" => &[("priority", ""), ("subject", "subject"), ("ingress", "anp-ingress"), ("egress", "anp-egress")],
        "BaselineAdminNetworkPolicy" => &[("subject", "subject"), ("ingress", "anp-ingress"), ("egress", "banp-egress")],
        "anp-ingress" => &[("name", ""), ("action", ""), ("from", "anp-from"), ("ports", "anp-port")],
        "anp-egress" => &[("name", ""), ("action", ""), ("to", "anp-to"), ("ports", "anp-port")],
        "banp-egress" => &[("name", ""), ("action", ""), ("to", "banp-to"), ("ports", "anp-port")],
        "anp-from" => &[("namespaces", "anp-namespaces"), ("pods", "anp-pods")],
        "anp-to" => &[("namespaces", "anp-namespaces"), ("pods", "anp-pods"), ("networks", ""), ("nodes", "selector"), ("domainNames", "")],
        "banp-to" => &[("namespaces", "anp-namespaces"), ("pods", "anp-pods"), ("networks", ""), ("nodes", "selector")],
        // As first and as last shipped.
        "anp-namespaces" => &[
            ("namespaceSelector", "selector"),
            ("sameLabels", ""),
            ("notSameLabels", ""),
            ("matchLabels", ""),
            ("matchExpressions", "expression"),
        ],
        "anp-pods" => &[("namespaces", "anp-namespaces"), ("namespaceSelector", "selector"), ("podSelector", "selector")],
        "anp-port" => &[("portNumber", "port-number"), ("portRange", "port-range"), ("namedPort", "")],
        "port-number" => &[("protocol", ""), ("port", "")],
        "port-range" => &[("protocol", ""), ("start", ""), ("end", "")],
        "KEP-2091" => &[("priority", ""), ("subject", "kep-subject"), ("ingress", "kep-ingress"), ("egress", "kep-egress")],
        "kep-subject" => &[("namespaceSelector", "selector"), ("namespaceAndPodSelector", "pods")],
        "kep-ingress" => &[("name", ""), ("action", ""), ("l4Selector", "l4"), ("from", "kep-peer")],
        "kep-egress" => &[("name", ""), ("action", ""), ("l4Selector", "l4"), ("to", "kep-peer")],
        "l4" => &[("allPorts", ""), ("ports", "np-port")],
        "kep-peer" => &[("namespaces", "kep-namespaces"), ("namespacedPods", "namespaced-pods")],
        "namespaced-pods" => &[("namespaces", "kep-namespaces"), ("pods", "kep-pods")],
        "kep-namespaces" => &[("self", ""), ("notSelf", ""), ("namespaceSelector", "selector"), ("sameLabels", ""), ("notSameLabels", "")],
        "kep-pods" => &[("podSelector", "selector"), ("sameLabels", ""), ("notSameLabels", "")],
        _ => return None,
    })
}

/// The keys in the spec of a policy that its API does not have there. Keys that users choose are none of them.
pub fn strangers(object: &Value) -> Vec<String> {
    let Some(kind) = kind(object) else { return Vec::new() };
    let mut found = Vec::new();
    visit(object.get("spec").unwrap_or(&Value::Null), kind, &mut |_, key, known| found.extend((!known).then(|| key.to_owned())));
    found
}

/// The shape of the spec; none for what is not a policy.
fn kind(object: &Value) -> Option<&'static str> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let proposed = |field: &str| object.pointer("/spec/subject").is_some_and(|it| it.get(field).is_some());
    match (text("/apiVersion")?, text("/kind")?) {
        ("networking.k8s.io/v1", "NetworkPolicy") => Some("NetworkPolicy"),
        ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy") => Some("ClusterNetworkPolicy"),
        ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy") => Some("BaselineAdminNetworkPolicy"),
        ("kep2091.palisade.dev/v1alpha1", "AdminNetworkPolicy") => Some("KEP-2091"),
        ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy") => {
            let proposed = proposed("namespaceSelector") || proposed("namespaceAndPodSelector");
            Some(if proposed { "KEP-2091" } else { "AdminNetworkPolicy" })
        }
        _ => None,
    }
}

/// Every key with the map that it is in, and whether that has such a field.
fn visit(value: &Value, of: &str, met: &mut impl FnMut(&str, &str, bool)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, of, met)),
        Value::Object(fields) => {
            let Some(known) = shape(of) else { return };
            for (key, field) in fields {
                let found = known.iter().find(|(name, _)| name == key);
                met(of, key, found.is_some());
                if let Some((_, inner)) = found {
                    visit(field, inner, met);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::generate::generate;

    #[test]
    fn label_keys_are_free_and_fields_are_not() {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {"podSelector": {"matchLabels": {"form": "a"}, "matchlabels": {}}, "ingress": [{"form": []}, {"from": [{"to": 1}]}]},
        });
        assert_eq!(strangers(&policy), ["form", "to", "matchlabels"]);
    }

    #[test]
    fn the_shapes_of_one_kind_have_fields_of_their_own() {
        let policy = |group: &str, kind: &str, spec: Value| json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "spec": spec});
        let shipped = json!({"subject": {"namespaces": {}}, "ingress": [{"from": [{"namespaces": {"sameLabels": [], "self": true}}]}]});
        let proposed =
            json!({"subject": {"namespaceSelector": {"labels": {}}}, "egress": [{"to": [{"pods": {}}], "l4Selector": {"port": 1}}]});
        assert_eq!(strangers(&policy("policy.networking.k8s.io", "AdminNetworkPolicy", shipped)), ["self"]);
        for group in ["policy.networking.k8s.io", "kep2091.palisade.dev"] {
            assert_eq!(strangers(&policy(group, "AdminNetworkPolicy", proposed.clone())), ["port", "pods", "labels"]);
        }
        let baseline = json!({"priority": 1, "egress": [{"to": [{"domainNames": []}]}]});
        assert_eq!(strangers(&policy("policy.networking.k8s.io", "BaselineAdminNetworkPolicy", baseline)), ["domainNames", "priority"]);
    }

    /// Every field of every kind, as `map.field`.
    fn all_fields() -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut next = vec!["NetworkPolicy", "ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "KEP-2091"];
        while let Some(of) = next.pop() {
            for (field, inner) in shape(of).into_iter().flatten() {
                if all.insert(format!("{of}.{field}")) {
                    next.push(inner);
                }
            }
        }
        all
    }

    #[test]
    fn random_policies_use_every_field() {
        let mut met = BTreeSet::new();
        for object in (0..300).flat_map(|seed| generate(seed).objects.0) {
            let Some(kind) = kind(&object) else { continue };
            visit(object.get("spec").unwrap_or(&Value::Null), kind, &mut |of, key, known| {
                met.extend(known.then(|| format!("{of}.{key}")));
            });
        }
        let missing: Vec<String> = all_fields().difference(&met).cloned().collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
