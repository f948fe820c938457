//! Manifests: none makes the reader panic, everything in one is in the model or spoken of, and nothing depends on how it is spelt.

use palisade_engine::compile;
use palisade_k8s::{Index, Snapshot, Text};
use palisade_model::{PolicyRef, Severity};
use serde_json::Value;

const FILE: &str = "cluster.yaml";

/// An input is a file.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut index = Index::default();
    index.read(Text { file: FILE.into(), content: text.into() });
    let read = index.snapshot();
    places_exist(&read, text);
    drop(compile(&read.model));
    // Whoever reads an error knows that something is missing.
    if read.diagnostics.iter().any(|it| it.severity == Severity::Error) {
        return;
    }
    // Another reader of YAML, which gives up on a text at its first mistake.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let Ok(documents) = serde_saphyr::from_multiple_with_options::<Value>(text, options) else { return };
    documents.iter().for_each(|it| is_there(&read, it));
}

/// Every place that is quoted is one, or is right behind the end.
fn places_exist(read: &Snapshot, text: &str) {
    let breaks = text.replace("\r\n", "\n").matches(['\n', '\r']).count();
    for location in read.diagnostics.iter().filter_map(|it| it.location.as_ref()) {
        assert!((1..=breaks + 2).contains(&location.line) && location.column >= 1, "{location}");
    }
}

/// A policy, pod, namespace or node that another reader finds.
fn is_there(read: &Snapshot, object: &Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).filter(|it| !it.is_empty());
    let (Some(version), Some(kind), Some(name)) = (text("/apiVersion"), text("/kind"), text("/metadata/name")) else { return };
    let namespace = text("/metadata/namespace").unwrap_or("default");
    let model = &read.model;
    let there = match (version, kind) {
        ("networking.k8s.io/v1", "NetworkPolicy") => {
            let is = |it: &PolicyRef| it.namespace.as_deref() == Some(namespace) && *it.name == *name;
            model.policies.iter().any(|it| is(&it.origin)) || model.foreign.iter().any(is)
        }
        // Its address may belong to another by now.
        ("v1", "Pod") if matches!(text("/status/phase"), Some("Succeeded" | "Failed")) => return,
        ("v1", "Pod") => {
            let of_hosts = model.nodes.iter().flat_map(|it| &it.host_pods).map(|it| &it.name);
            model.endpoints.iter().map(|it| &it.name).chain(of_hosts).any(|it| *it.namespace == *namespace && *it.name == *name)
        }
        ("v1", "Namespace") => model.namespaces.contains_key(name),
        ("v1", "Node") => model.nodes.iter().any(|it| *it.name == *name),
        _ => return,
    };
    let spoken_of = read.diagnostics.iter().any(|it| it.object.contains(name));
    assert!(there || spoken_of, "{kind} {namespace}/{name} is lost in silence");
}
