//! Ours is what API servers take, and those of others are what others ship.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use palisade_analysis::convert::{Objects, Target, Unsayable, convert};
use palisade_k8s::Beside;
use palisade_model::PolicyKind;
use palisade_report::manifest::manifest;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::upstream::{
    ADMIN_NETWORK_POLICY, AdminNetworkPolicy, BASELINE, BaselineAdminNetworkPolicy, CLUSTER_NETWORK_POLICY, ClusterNetworkPolicy,
    EXPERIMENTAL,
};
use super::{KEP2091, Kind, cost, definition, kep2091, structural};

#[test]
fn ours_is_structural() {
    assert_eq!(structural::problems(&definition::<kep2091::Spec>(&KEP2091).unwrap()), Vec::<String>::new());
}

#[test]
fn what_is_not_structural_is_found() {
    let problems = |schema: Value| {
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
        structural::problems(&definition)
    };
    assert_eq!(problems(json!({"type": "object", "properties": {"a": {}}})), ["`.a` has no type"]);
    assert_eq!(problems(json!({"type": "object", "oneOf": []})), ["``: `oneOf` is not for structural schemas"]);
    assert_eq!(problems(json!({"type": "array"})), ["`` does not say what its items are"]);
    assert_eq!(problems(json!({"type": "object", "required": ["a"]})), ["``: `a` is required and not described"]);
    let both = json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
    assert_eq!(problems(both), ["`` has properties and additionalProperties"]);
    let ways = json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [
        {"properties": {"a": {"maxLength": 1}}},
        {"properties": {"a": {"type": "string"}, "b": {"maxLength": 1}}},
    ]});
    assert_eq!(problems(ways), ["`.a`: `type` is not for ways to fit", "``: `b` is in a way to fit and not described"]);
    let wrong = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}]});
    assert_eq!(problems(wrong), ["``: a number or a string can be said in one way only"]);
}

#[test]
fn rules_that_cost_too_much_are_found() {
    let check = |schema: Value, expected: &[&str]| {
        let found = cost::problems(&json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}));
        assert_eq!(found, expected, "{schema}");
    };
    let with =
        |rule: &str, properties: Value| json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]});
    let list = |most: Value, items: Value| json!({"type": "array", "maxItems": most, "items": items});
    let text = json!({"type": "string"});
    let short = json!({"type": "string", "maxLength": 9});
    let port = json!({"x-kubernetes-int-or-string": true, "maxLength": 15});

    check(with("self.a == 'b'", json!({"a": short})), &[]);
    check(with("has(self.a)", json!({"a": text})), &[]);
    check(with("self.a == 'b'", json!({"a": text})), &["`.a` is a text without a bound: self.a == 'b'"]);
    check(with("type(self.a) == int && self.a <= 5", json!({"a": port})), &[]);
    let whole = "`.a` is a number or a text of any length, and is read as a whole: self.a != string(self.a)";
    check(with("self.a != string(self.a)", json!({"a": port})), &[whole]);
    check(list(json!(100), with("has(self.a)", json!({"a": text}))), &[]);
    check(list(Value::Null, with("has(self.a)", json!({"a": text}))), &["`[]`: a rule below a list without a bound: has(self.a)"]);
    let once = "self.a.all(it, it > 1)";
    check(with(once, json!({"a": list(json!(100), json!({"type": "integer"}))})), &[]);
    check(
        with(once, json!({"a": list(Value::Null, json!({"type": "integer"}))})),
        &[&format!("`.a` is gone through and has no bound: {once}")],
    );
    let twice = "self.a.all(it, self.b.exists(other, it > other))";
    let lists = json!({"a": list(json!(9), json!({"type": "integer"})), "b": list(json!(9), json!({"type": "integer"}))});
    check(with(twice, lists), &[&format!("`.b` is gone through again for each item of another list: {twice}")]);
    let many = list(json!(1000), list(json!(2000), with("has(self.a)", json!({"a": text}))));
    check(many, &["`[][]`: may cost 12000000, and 10000000 is the most: has(self.a)"]);
    let cheap = json!({"type": "object", "properties": {}, "x-kubernetes-validations": vec![json!({"rule": "true"}); 11]});
    check(list(json!(10_000_000), cheap), &["all rules together may cost 110000000, and 100000000 is the most"]);
}

#[test]
fn the_limits_of_kep2091_are_in_ours() {
    let definition = definition::<kep2091::Spec>(&KEP2091).unwrap();
    let spec = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    let at = |pointer: &str| spec.pointer(pointer).cloned().unwrap_or_else(|| panic!("{pointer} in {spec:#}"));
    assert_eq!((at("/properties/priority/minimum"), at("/properties/priority/maximum")), (json!(0), json!(1000)));
    assert_eq!(at("/required"), json!(["priority", "subject"]));
    assert!(at("/x-kubernetes-validations/0/rule").as_str().unwrap().ends_with("<= 100"));
    let rule = "/properties/ingress/items/properties";
    assert_eq!(at(&format!("{rule}/l4Selector/x-kubernetes-validations/1/rule")), json!("!has(self.allPorts) || self.allPorts"));
    let set = format!("{rule}/from/items/properties/namespaces");
    assert_eq!((at(&format!("{set}/minProperties")), at(&format!("{set}/maxProperties"))), (json!(1), json!(1)));
    assert_eq!(at(&format!("{set}/properties/self/enum")), json!([true]));
    let port = format!("{rule}/l4Selector/properties/ports/items");
    assert_eq!(spec.pointer(&format!("{port}/required")), None, "an entry without a port is legal, and matches nothing");
    assert_eq!(at(&format!("{port}/properties/port/x-kubernetes-int-or-string")), json!(true));
    assert_eq!(at("/properties/ingress/items/required"), json!(["action", "l4Selector"]));
    assert_eq!(at("/properties/egress/items/properties/action/enum"), json!(["Allow", "Deny", "Pass"]));
}

#[test]
fn the_kinds_of_others_are_what_others_ship() {
    compare::<ClusterNetworkPolicy>(&CLUSTER_NETWORK_POLICY, "clusternetworkpolicies", "");
    compare::<AdminNetworkPolicy>(&ADMIN_NETWORK_POLICY, "adminnetworkpolicies", ".v0.1.7");
    compare::<BaselineAdminNetworkPolicy>(&BASELINE, "baselineadminnetworkpolicies", ".v0.1.7");
}

/// The schema of a definition, where nothing is taken that it does not describe, and all rules can be evaluated here.
fn closed<S: JsonSchema>(kind: &Kind) -> Value {
    let mut schema = definition::<S>(kind).unwrap().pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap().clone();
    close(&mut schema);
    schema
}

/// What `type` is asked here, in words that kube-cel knows too. They mean the same, and cost more than API servers take.
const TYPE_ASKED: (&str, &str) = ("type(self.port) == int", "self.port != string(self.port)");

fn close(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for rule in fields.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut).into_iter().flatten() {
        rule["rule"] = json!(rule["rule"].as_str().unwrap().replace(TYPE_ASKED.0, TYPE_ASKED.1));
    }
    if fields.contains_key("properties") {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
    for inner in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut()) {
        close(inner);
    }
    fields.get_mut("items").into_iter().for_each(close);
}

#[test]
fn what_is_written_fits_its_definition() {
    let schemas = BTreeMap::from([
        (PolicyKind::ClusterNetworkPolicy, closed::<ClusterNetworkPolicy>(&CLUSTER_NETWORK_POLICY)),
        (PolicyKind::AdminNetworkPolicy, closed::<AdminNetworkPolicy>(&ADMIN_NETWORK_POLICY)),
        (PolicyKind::BaselineAdminNetworkPolicy, closed::<BaselineAdminNetworkPolicy>(&BASELINE)),
        (PolicyKind::Kep2091, closed::<kep2091::Spec>(&KEP2091)),
    ]);
    let mut met: BTreeMap<PolicyKind, usize> = BTreeMap::new();
    for seed in 0..60 {
        let model = snapshot("cluster", &generate(seed).objects.to_json()).model;
        for target in [Target::ClusterNetworkPolicy, Target::AdminNetworkPolicy, Target::Kep2091] {
            for written in convert(&model, &Objects::default(), target, None, Unsayable::Dropped).written {
                let object = manifest(&written.policy, &Beside::default()).json();
                let kind = written.policy.origin.kind;
                jsonschema::validate(&schemas[&kind], &object).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{object:#}"));
                assert_eq!(refused(&schemas[&kind], &object), Vec::<String>::new(), "seed {seed}: {object:#}");
                *met.entry(kind).or_default() += 1;
            }
        }
    }
    assert_eq!(met.len(), schemas.len(), "{met:?}");
}

#[test]
fn what_kep2091_forbids_is_refused() {
    let schema = closed::<kep2091::Spec>(&KEP2091);
    let object = |priority: i32, rule: Value| {
        let spec = json!({"priority": priority, "subject": {"namespaceSelector": {}}, "ingress": [rule]});
        json!({"apiVersion": "kep2091.palisade.dev/v1alpha1", "kind": "AdminNetworkPolicy", "metadata": {"name": "a"}, "spec": spec})
    };
    let rule = |peer: Value| json!({"action": "Deny", "l4Selector": {"allPorts": true}, "from": [peer]});
    let taken = |object: Value| jsonschema::is_valid(&schema, &object);
    assert!(taken(object(1000, rule(json!({"namespaces": {"self": true}})))));
    assert!(taken(object(0, json!({"action": "Pass", "l4Selector": {"ports": [{"port": "http"}, {"port": 80, "endPort": 90}, {}]}}))));
    assert!(!taken(object(1001, rule(json!({"namespaces": {"self": true}})))));
    assert!(!taken(object(-1, rule(json!({"namespaces": {"self": true}})))));
    assert!(!taken(object(1, rule(json!({"namespaces": {"self": false}})))));
    assert!(!taken(object(1, rule(json!({"namespaces": {"self": true, "notSelf": true}})))));
    assert!(!taken(object(1, rule(json!({})))));
    assert!(!taken(object(1, json!({"action": "Deny", "from": []}))));
    assert!(!taken(object(1, json!({"action": "Accept", "l4Selector": {"allPorts": true}}))));
    assert!(!taken(object(1, json!({"action": "Deny", "l4Selector": {"ports": [{"protocol": "ICMP"}]}}))));
    for (port, expected) in [
        (json!(1), true),
        (json!(65535), true),
        (json!("1-a-2"), true),
        (json!(0), false),
        (json!(65536), false),
        (json!("80"), false),
        (json!("a--b"), false),
        (json!("Http"), false),
        (json!("sixteen-letters-"), false),
        (json!("sixteen-letter-s"), false),
    ] {
        assert_eq!(taken(object(1, json!({"action": "Deny", "l4Selector": {"ports": [{"port": port}]}}))), expected, "{port}");
    }
    for (requirement, expected) in [
        (json!({"key": "example.com/a", "operator": "In", "values": ["b", ""]}), true),
        (json!({"key": "a", "operator": "Exists"}), true),
        (json!({"key": "a", "operator": "Exists", "values": []}), true),
        (json!({"key": "a", "operator": "Exists", "values": ["b"]}), false),
        (json!({"key": "a", "operator": "NotIn"}), false),
        (json!({"key": "a", "operator": "In", "values": []}), false),
        (json!({"key": "a", "operator": "in", "values": ["b"]}), false),
        (json!({"key": "a", "operator": "In", "values": ["-b"]}), false),
        (json!({"key": "a/b/c", "operator": "Exists"}), false),
    ] {
        let peer = json!({"namespaces": {"namespaceSelector": {"matchExpressions": [requirement]}}});
        assert_eq!(taken(object(1, rule(peer))), expected, "{requirement}");
    }
    assert!(taken(object(1, rule(json!({"namespaces": {"sameLabels": ["example.com/tenant"]}})))));
    assert!(!taken(object(1, rule(json!({"namespaces": {"sameLabels": ["no key"]}})))));
}

/// What the rules of a schema have against an object, as an API server evaluates them.
fn refused(schema: &Value, object: &Value) -> Vec<String> {
    let result = kube_cel::Validator::new().validate(schema, object, None);
    result.err().into_iter().flat_map(kube_cel::ValidationErrors::into_vec).map(|it| format!("{}: {}", it.field_path, it.message)).collect()
}

#[test]
fn what_only_rules_can_forbid_is_refused_by_rules() {
    let schema = closed::<kep2091::Spec>(&KEP2091);
    let compiled = kube_cel::compile_schema(&schema);
    assert!(!compiled.has_errors(), "{:?}", compiled.compilation_errors());
    let check = |subject: Value, rules: Vec<Value>, expected: &[&str]| {
        let spec = json!({"priority": 5, "subject": subject, "ingress": rules, "egress": rules});
        let object =
            json!({"apiVersion": "kep2091.palisade.dev/v1alpha1", "kind": "AdminNetworkPolicy", "metadata": {"name": "a"}, "spec": spec});
        assert_eq!(refused(&schema, &object), expected, "{object}");
    };
    let all = json!({"namespaceSelector": {}});
    let rule = |layer4: Value| json!({"action": "Deny", "l4Selector": layer4});
    let good = rule(json!({"ports": [{"port": 80, "endPort": 80}, {"port": "http"}, {}]}));
    check(all.clone(), vec![good.clone(); 50], &[]);
    check(all.clone(), vec![good.clone(); 51], &["spec: ingress and egress have at most 100 rules together"]);
    let both = json!({"namespaceSelector": {}, "namespaceAndPodSelector": {"namespaceSelector": {}, "podSelector": {}}});
    check(both, vec![], &["spec.subject: exactly one of namespaceSelector and namespaceAndPodSelector"]);
    check(json!({}), vec![], &["spec.subject: exactly one of namespaceSelector and namespaceAndPodSelector"]);
    for (layer4, message) in [
        (json!({"allPorts": false}), "l4Selector: allPorts is true or not there"),
        (json!({}), "l4Selector: exactly one of allPorts and ports"),
        (json!({"allPorts": true, "ports": []}), "l4Selector: exactly one of allPorts and ports"),
        (json!({"ports": [{"port": 80, "endPort": 79}]}), "l4Selector.ports[0]: endPort"),
        (json!({"ports": [{"port": "http", "endPort": 90}]}), "l4Selector.ports[0]: endPort"),
        (json!({"ports": [{"endPort": 90}]}), "l4Selector.ports[0]: endPort"),
    ] {
        let spec = json!({"priority": 5, "subject": all, "ingress": [rule(layer4.clone())]});
        let object =
            json!({"apiVersion": "kep2091.palisade.dev/v1alpha1", "kind": "AdminNetworkPolicy", "metadata": {"name": "a"}, "spec": spec});
        let said = refused(&schema, &object);
        assert!(said.len() == 1 && said[0].starts_with(&format!("spec.ingress[0].{message}")), "{layer4}: {said:?}");
    }
}

/// Holds a kind against the files of both channels, where there are such.
fn compare<S: JsonSchema>(kind: &Kind, plural: &str, version: &str) {
    for channel in ["experimental", "standard"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../shared/crds/{plural}.{channel}{version}.yaml"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            println!("skipped: no {}", path.display());
            continue;
        };
        let theirs: Value = serde_saphyr::from_str(&text).unwrap();
        let mut ours = definition::<S>(kind).unwrap();
        if channel == "standard" {
            without_experimental(&mut ours, "");
        }
        let mut differences = Vec::new();
        for part in ["group", "names", "scope", "versions"] {
            differ(&ours["spec"][part], &theirs["spec"][part], &format!(".{part}"), &mut differences);
        }
        let annotated = |of: &Value| {
            let mut annotations = of["metadata"]["annotations"].clone();
            annotations["policy.networking.k8s.io/channel"] = json!(channel);
            (of["metadata"]["name"].clone(), annotations)
        };
        assert_eq!(annotated(&ours), annotated(&theirs));
        assert!(differences.is_empty(), "{}:\n{}", path.display(), differences.join("\n"));
    }
}

/// Takes out what only the experimental channel has, and the rules that speak of it.
fn without_experimental(schema: &mut Value, path: &str) {
    let Value::Object(fields) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(|it| without_experimental(it, path));
        }
        return;
    };
    if let Some(Value::Array(rules)) = fields.get_mut("x-kubernetes-validations") {
        rules.retain(|it| !it["rule"].as_str().unwrap_or_default().contains("peer.nodes"));
        if rules.is_empty() {
            fields.remove("x-kubernetes-validations");
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.retain(|name, _| !EXPERIMENTAL.iter().any(|it| format!("{path}.{name}").ends_with(it)));
        for (name, inner) in properties.iter_mut() {
            without_experimental(inner, &format!("{path}.{name}"));
        }
    }
    for (word, inner) in fields.iter_mut() {
        match word.as_str() {
            "items" => without_experimental(inner, &format!("{path}[]")),
            "schema" | "openAPIV3Schema" | "spec" | "versions" => without_experimental(inner, path),
            _ => {}
        }
    }
}

/// Words that say nothing about what is taken.
const PROSE: [&str; 2] = ["description", "message"];

fn differ(ours: &Value, theirs: &Value, path: &str, differences: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            // A property may be called like a word of prose.
            let prose = |key: &str| PROSE.contains(&key) && !path.ends_with(".properties");
            for key in keys.into_iter().filter(|it| !prose(it)) {
                match (ours.get(key), theirs.get(key)) {
                    (Some(ours), Some(theirs)) => differ(ours, theirs, &format!("{path}.{key}"), differences),
                    (Some(ours), None) => differences.push(format!("{path}.{key}: only ours: {ours}")),
                    (None, theirs) => differences.push(format!("{path}.{key}: only theirs: {}", json!(theirs))),
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let sorted = |of: &[Value]| {
                let mut of = of.to_vec();
                of.sort_by_key(Value::to_string);
                of
            };
            // The order of words does not matter, that of objects does.
            let words = ours.iter().all(Value::is_string);
            let (ours, theirs) = if words { (sorted(ours), sorted(theirs)) } else { (ours.clone(), theirs.clone()) };
            for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                differ(ours, theirs, &format!("{path}[{at}]"), differences);
            }
        }
        (ours, theirs) if number(ours).is_some() && number(ours) == number(theirs) => {}
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => differences.push(format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

/// 1000 and 1000.0 are one number.
fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}
