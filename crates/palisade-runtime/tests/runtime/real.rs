//! What a real API server takes and refuses of our kinds, and that what it stores is read as files are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use palisade_k8s::{Index, LiveObject, Snapshot, Text};
use palisade_runtime::live::list;
use serde_json::{Value, json};

use crate::api_server::ApiServer;

const OURS: &str = "kep2091.palisade.dev/v1alpha1";
const ORIGINAL: &str = "policy.networking.k8s.io/v1alpha1";

/// Objects of scenarios that only files can have: scenario, name, and what the server says.
const ONLY_IN_FILES: [(&str, &str, &str); 15] = [
    ("an-empty-namespace-set-fails-closed", "p", "spec.ingress[0].from[0].namespaces in body should have at least 1 properties"),
    ("end-port-is-inclusive", "below", "endPort needs a port that is a number and not above it"),
    ("end-port-is-inclusive", "alone", "endPort needs a port that is a number and not above it"),
    ("end-port-is-inclusive", "name", "endPort needs a port that is a number and not above it"),
    ("has-100-rules-in-total", "over", "ingress and egress have at most 100 rules together"),
    ("has-100-rules-in-total", "shipped-over", "spec.ingress: Too many: 101: must have at most 100 items"),
    ("port-entry-without-a-port-matches-nothing", "nothing", "spec.ingress[0].l4Selector.ports[0] in body must be of type object"),
    ("priorities-above-1000-count-and-warn", "larger", "spec.priority in body should be less than or equal to 1000"),
    ("priorities-above-1000-count-and-warn", "large", "spec.priority in body should be less than or equal to 1000"),
    ("priorities-above-1000-count-and-warn", "negative", "spec.priority in body should be greater than or equal to 0"),
    ("priorities-above-1000-count-and-warn", "huge", "spec.priority in body should be less than or equal to 1000"),
    ("unknown-selectors-fail-closed-among-pods", "allow", r#"unknown field "spec.ingress[0].from[0].services""#),
    ("unknown-selectors-fail-closed-among-pods", "deny", r#"unknown field "spec.ingress[0].from[0].namespaces.services""#),
    ("unknown-selectors-fail-closed-among-pods", "pass", r#"unknown field "spec.ingress[0].from[0].namespacedPods.pods.names""#),
    ("story-2-", "kube-system", r#"namespaces "kube-system" already exists"#),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_real_api_server_takes_our_definitions_and_stores_what_files_say() {
    let Some(mut api) = ApiServer::start() else { return };
    define(&mut api);
    limits_are_refused(&api);
    stored_is_read_like_files(&api);
    labels_of_controllers_count(&api);
}

/// Creates everything in deploy/crds, and waits until it is served.
fn define(api: &mut ApiServer) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("deploy/crds")).unwrap().map(|it| it.unwrap().path()).collect();
    files.retain(|it| it.extension().is_some_and(|it| it == "yaml"));
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let definition: Value = serde_saphyr::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let created = api.ask("POST", &format!("{path}?fieldValidation=Strict"), Some(&definition));
        created.unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        api.until(&name, |api| {
            let stored = api.ask("GET", &format!("{path}/{name}"), None).unwrap();
            let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
        });
        let served = [&definition["spec"]["group"], &definition["spec"]["versions"][0]["name"], &definition["spec"]["names"]["plural"]];
        let served = format!("/apis/{}", served.map(|it| it.as_str().unwrap()).join("/"));
        api.until(&served, |api| api.ask("GET", &served, None).is_ok());
    }
}

/// What no scenario has: limits of the definition alone.
fn limits_are_refused(api: &ApiServer) {
    let all = json!({ "namespaceSelector": {} });
    let rule = |layer4: Value, peer: Value| json!({ "action": "Deny", "l4Selector": layer4, "from": [peer] });
    let own = json!({ "namespaces": { "self": true } });
    let port = |port: Value| rule(json!({ "ports": [port] }), own.clone());
    let peer = |peer: Value| rule(json!({ "allPorts": true }), peer);
    let requirement = |it: Value| peer(json!({ "namespaces": { "namespaceSelector": { "matchExpressions": [it] } } }));
    let both = json!({ "namespaceSelector": {}, "namespaceAndPodSelector": { "namespaceSelector": {}, "podSelector": {} } });
    let at = |subject: &Value, rule: Value| {
        let spec = json!({ "priority": 1, "subject": subject, "ingress": [rule] });
        json!({ "apiVersion": OURS, "kind": "AdminNetworkPolicy", "metadata": { "name": "p" }, "spec": spec })
    };
    let refused = [
        (at(&both, peer(own.clone())), "spec.subject: Invalid value: exactly one of namespaceSelector and namespaceAndPodSelector"),
        (at(&json!({ "namespaces": {} }), peer(own.clone())), r#"unknown field "spec.subject.namespaces""#),
        (at(&all, json!({ "action": "Deny" })), "spec.ingress[0].l4Selector: Required value"),
        (at(&all, json!({ "action": "Accept", "l4Selector": { "allPorts": true } })), r#"supported values: "Allow", "Deny", "Pass""#),
        (at(&all, rule(json!({}), own.clone())), "spec.ingress[0].l4Selector: Invalid value: exactly one of allPorts and ports"),
        (at(&all, rule(json!({ "allPorts": false }), own.clone())), "allPorts is true or not there"),
        (at(&all, rule(json!({ "ports": [] }), own.clone())), "spec.ingress[0].l4Selector.ports in body should have at least 1 items"),
        (at(&all, rule(json!({ "ports": vec![json!({}); 1001] }), own.clone())), "must have at most 1000 items"),
        (at(&all, port(json!({ "port": 0 }))), "ports[0].port in body should be greater than or equal to 1"),
        (at(&all, port(json!({ "port": 65536 }))), "ports[0].port in body should be less than or equal to 65535"),
        (at(&all, port(json!({ "port": "80" }))), "ports[0].port in body should match"),
        (at(&all, port(json!({ "port": 1, "endPort": 65536 }))), "ports[0].endPort in body should be less than or equal to 65535"),
        (at(&all, port(json!({ "protocol": "ICMP" }))), r#"supported values: "TCP", "UDP", "SCTP""#),
        (at(&all, peer(json!({}))), "spec.ingress[0].from[0] in body should have at least 1 properties"),
        (at(&all, peer(json!({ "namespaces": { "self": false } }))), r#"self: Unsupported value: false: supported values: "true""#),
        (at(&all, peer(json!({ "namespaces": { "self": true, "notSelf": true } }))), "from[0].namespaces: Too many: 2"),
        (at(&all, peer(json!({ "namespaces": { "sameLabels": ["no key"] } }))), "sameLabels[0] in body should match"),
        (at(&all, peer(json!({ "pods": { "podSelector": {} } }))), r#"unknown field "spec.ingress[0].from[0].pods""#),
        (at(&all, requirement(json!({ "key": "a", "operator": "In" }))), "matchExpressions[0].values: Required value"),
        (at(&all, requirement(json!({ "key": "a", "operator": "Exist" }))), r#"operator: Unsupported value: "Exist""#),
        (at(&all, requirement(json!({ "key": "a", "operator": "Exists", "values": ["b"] }))), "matchExpressions[0]"),
    ];
    for (object, said) in refused {
        let why = api.create(&object).expect_err(&object.to_string());
        assert!(why.contains(said), "{object}\nis refused, but not by `{said}`: {why}");
    }
    let longest = json!({ "ports": vec![json!({ "port": 1, "endPort": 65535 }); 1000] });
    api.create(&at(&all, rule(longest, own))).unwrap();
    api.clear();
}

/// Every scenario of KEP-2091, file by file, first as files and then as the server has it.
fn stored_is_read_like_files(api: &ApiServer) {
    let own = list(&api.options()).unwrap().live;
    let mut scenarios: Vec<PathBuf> = fs::read_dir(root().join("scenarios")).unwrap().map(|it| it.unwrap().path()).collect();
    scenarios.retain(|it| name(it).starts_with("kep2091-"));
    scenarios.sort();
    let mut refused = BTreeSet::new();
    let mut policies = 0;
    for scenario in &scenarios {
        let mut files: Vec<PathBuf> = fs::read_dir(scenario).unwrap().map(|it| it.unwrap().path()).collect();
        files.retain(|it| it.extension().is_some_and(|it| it == "yaml"));
        files.sort();
        let mut stored = Vec::new();
        for object in files.iter().flat_map(|it| objects(it)) {
            let named = object["metadata"]["name"].as_str().unwrap();
            let known = ONLY_IN_FILES.into_iter().find(|it| name(scenario).starts_with(&format!("kep2091-{}", it.0)) && it.1 == named);
            match (api.create(&object), known) {
                (Ok(()), None) => stored.push(object),
                (Err(why), Some((_, _, said))) if why.contains(said) => drop(refused.insert(known)),
                (answer, known) => panic!("{}: {object}\nthe server says {answer:?}, expected {known:?}", name(scenario)),
            }
        }
        let said = json!({ "apiVersion": "v1", "kind": "List", "items": stored }).to_string();
        let files = read(own.clone(), Some(Text { file: "stored".into(), content: said.into() }));
        let live = read(list(&api.options()).unwrap().live, None);
        same(name(scenario), &live, &files);
        policies += live.model.policies.len();
        api.clear();
    }
    assert_eq!(refused.len(), ONLY_IN_FILES.len(), "{refused:?}");
    assert!(scenarios.len() >= 25 && policies > 40, "{} scenarios, {policies} policies", scenarios.len());
}

/// A policy with each sort of controller in each kind: what is for another is listed and decides nothing.
fn labels_of_controllers_count(api: &ApiServer) {
    let own = list(&api.options()).unwrap().live;
    let mut stored = vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } })];
    for (at, value) in [None, Some("palisade"), Some("another"), Some("none"), Some("")].into_iter().enumerate() {
        let metadata = |kind: &str| {
            let labels = value.map(|it| json!({ "networking.k8s.io/policy-controller-name": it }));
            json!({ "name": format!("{kind}-{at}"), "labels": labels.unwrap_or_else(|| json!({})) })
        };
        let peers = json!([{ "namespaces": {} }]);
        let shipped = json!({ "priority": at, "subject": { "namespaces": {} }, "ingress": [{ "action": "Deny", "from": peers }] });
        let mut tiered = shipped.clone();
        tiered["tier"] = json!("Admin");
        let rule = json!({ "action": "Deny", "l4Selector": { "allPorts": true }, "from": [{ "namespaces": { "notSelf": true } }] });
        let proposed = json!({ "priority": at, "subject": { "namespaceSelector": {} }, "ingress": [rule] });
        let mut namespaced = metadata("np");
        namespaced["namespace"] = json!("x");
        stored.extend([
            json!({ "apiVersion": ORIGINAL, "kind": "AdminNetworkPolicy", "metadata": metadata("anp"), "spec": shipped }),
            json!({ "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": metadata("cnp"), "spec": tiered }),
            json!({ "apiVersion": OURS, "kind": "AdminNetworkPolicy", "metadata": metadata("kep"), "spec": proposed }),
            json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": namespaced, "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } }),
        ]);
    }
    let baseline = json!({ "subject": { "namespaces": {} }, "egress": [{ "action": "Allow", "to": [{ "namespaces": {} }] }] });
    stored
        .push(json!({ "apiVersion": ORIGINAL, "kind": "BaselineAdminNetworkPolicy", "metadata": { "name": "default" }, "spec": baseline }));
    for object in &stored {
        api.create(object).unwrap_or_else(|why| panic!("{object}: {why}"));
    }
    let said = json!({ "apiVersion": "v1", "kind": "List", "items": stored }).to_string();
    let live = read(list(&api.options()).unwrap().live, None);
    same("controllers", &live, &read(own, Some(Text { file: "stored".into(), content: said.into() })));
    assert_eq!((live.model.policies.len(), live.model.foreign.len()), (9, 12), "{:?}", live.model.foreign);
    api.clear();
}

fn name(folder: &Path) -> &str {
    folder.file_name().and_then(|it| it.to_str()).unwrap()
}

/// The objects of a file, where a policy of KEP-2091 is of the group that serves it and has a name, and pods run, since no kubelet will say so.
fn objects(file: &Path) -> Vec<Value> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap();
    for object in objects.iter_mut().filter(|it| it["kind"] == "AdminNetworkPolicy") {
        let subject = &object["spec"]["subject"];
        if subject.get("namespaces").is_none() && subject.get("pods").is_none() {
            object["apiVersion"] = json!(OURS);
        }
        if object.pointer("/metadata/name").is_none() {
            object["metadata"] = json!({ "name": "nameless" });
        }
    }
    for pod in objects.iter_mut().filter(|it| it["kind"] == "Pod") {
        pod["status"]["phase"] = json!("Running");
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    }
    objects
}

fn read(live: Vec<LiveObject>, text: Option<Text>) -> Snapshot {
    let mut index = Index::default();
    live.into_iter().for_each(|it| index.read_live(it));
    text.into_iter().for_each(|it| index.read(it));
    index.snapshot()
}

#[track_caller]
fn same(what: &str, live: &Snapshot, files: &Snapshot) {
    let (left, right) = (format!("{:#?}", live.model), format!("{:#?}", files.model));
    let first = left.lines().zip(right.lines()).position(|(left, right)| left != right).unwrap_or_default();
    let around = |of: &str| of.lines().skip(first.saturating_sub(10)).take(20).collect::<Vec<_>>().join("\n");
    assert!(live.model == files.model, "{what}\nlive:\n{}\nfiles:\n{}", around(&left), around(&right));
    let said = |of: &Snapshot| {
        let mut said: Vec<_> = of.diagnostics.iter().map(|it| (it.code, it.object.clone(), it.path.clone(), it.message.clone())).collect();
        said.sort();
        said
    };
    assert_eq!(said(live), said(files), "{what}");
}
