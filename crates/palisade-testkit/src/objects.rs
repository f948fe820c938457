//! The raw cluster of a scenario: Kubernetes objects as JSON values, and the steps that change them.
//!
//! Nothing is defaulted, pruned or checked here: what a manifest says is what the judges get.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::scenario::{ObjectKey, Step};

/// The objects in the order of the manifests. No two have the same group, kind, namespace and name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Objects(pub Vec<Value>);

impl Objects {
    /// Reads manifests: any number of YAML documents, empty ones skipped, lists flattened. Of two objects
    /// with the same name the later one counts, as if they were applied one after the other.
    pub fn parse(yaml: &str) -> Result<Objects, String> {
        // `010` is eight to kubectl, whose reader of YAML is one of version 1.1.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(yaml, options).map_err(|error| error.to_string())?;
        let mut objects = Objects::default();
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            for object in flatten(document)? {
                objects.put(object);
            }
        }
        Ok(objects)
    }

    /// Reads the manifests of one file.
    pub fn read(path: &Path) -> Result<Objects, String> {
        let failed = |error: String| format!("{}: {error}", path.display());
        let yaml = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Objects::parse(&yaml).map_err(failed)
    }

    /// Does what the step says. The file of [`Step::Apply`] is read here.
    pub fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Apply(path) => {
                self.apply(Objects::read(path)?);
                Ok(())
            }
            Step::Delete(key) => self.delete(key),
            Step::Relabel(key, labels) => self.relabel(key, labels),
            Step::Patch(key, patch) => self.patch(key, patch),
        }
    }

    /// Creates or replaces each of `changed`.
    pub fn apply(&mut self, changed: Objects) {
        for object in changed.0 {
            self.put(object);
        }
    }

    pub fn delete(&mut self, key: &ObjectKey) -> Result<(), String> {
        let index = self.find(key)?;
        self.0.remove(index);
        Ok(())
    }

    /// Sets labels, or removes those without a value, in the object's own metadata.
    pub fn relabel(&mut self, key: &ObjectKey, labels: &[(String, Option<String>)]) -> Result<(), String> {
        let object = self.get_mut(key)?;
        let current = member(member(object, "metadata")?, "labels")?;
        let current = as_map(current, "labels")?;
        for (label, value) in labels {
            match value {
                Some(value) => current.insert(label.clone(), Value::String(value.clone())),
                None => current.remove(label),
            };
        }
        Ok(())
    }

    /// Changes one object by a JSON patch (an array) or a merge patch (an object).
    pub fn patch(&mut self, key: &ObjectKey, patch: &Value) -> Result<(), String> {
        let object = self.get_mut(key)?;
        if !patch.is_array() {
            json_patch::merge(object, patch);
            return Ok(());
        }
        let operations: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|error| format!("`{patch}`: {error}"))?;
        json_patch::patch(object, &operations).map_err(|error| format!("`{patch}`: {error}"))
    }

    /// The objects as one `List`. JSON is YAML, so any reader of manifests takes it.
    pub fn to_json(&self) -> String {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.0});
        format!("{list:#}\n")
    }

    fn put(&mut self, object: Value) {
        let identity = Identity::of(&object);
        let old = self.0.iter_mut().find(|old| identity.is_some() && Identity::of(old) == identity);
        match old {
            Some(old) => *old = object,
            None => self.0.push(object),
        }
    }

    fn get_mut(&mut self, key: &ObjectKey) -> Result<&mut Value, String> {
        let index = self.find(key)?;
        self.0.get_mut(index).ok_or_else(|| format!("`{}`: no such object", shown(key)))
    }

    fn find(&self, key: &ObjectKey) -> Result<usize, String> {
        let mut found =
            self.0.iter().enumerate().filter(|(_, object)| Identity::of(object).is_some_and(|identity| identity.answers_to(key)));
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (None, _) => Err(format!("`{}`: no such object", shown(key))),
            (Some(_), Some(_)) => Err(format!("`{}`: more than one such object", shown(key))),
        }
    }
}

/// What makes two manifests the same object. Objects without a name are never the same.
#[derive(PartialEq)]
struct Identity<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Identity<'a> {
    fn of(object: &'a Value) -> Option<Identity<'a>> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        Some(Identity {
            group: text("/apiVersion")?.rsplit_once('/').map_or("", |(group, _)| group),
            kind: text("/kind")?,
            namespace: namespace_or_default(text("/metadata/namespace")),
            name: text("/metadata/name")?,
        })
    }

    /// A key may name the group after the kind.
    fn answers_to(&self, key: &ObjectKey) -> bool {
        let kind = self.kind.to_lowercase();
        let named = kind == key.kind || format!("{kind}.{}", self.group) == key.kind;
        named && self.namespace == namespace_or_default(key.namespace.as_deref()) && self.name == key.name
    }
}

/// Cluster-scoped objects fall into `default` too, on both sides of every comparison.
fn namespace_or_default(namespace: Option<&str>) -> &str {
    namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The document itself, or the items of a list. Items of a `PodList` have no kind of their own in what the
/// API serves, so they get the list's.
fn flatten(document: Value) -> Result<Vec<Value>, String> {
    let kind = document.get("kind").and_then(Value::as_str).map(str::to_owned);
    let Some(kind) = kind else {
        return Err(format!("an object without a kind: `{document}`"));
    };
    let Some(item_kind) = kind.strip_suffix("List") else {
        return Ok(vec![document]);
    };
    let version = document.get("apiVersion").cloned();
    let items = match document.get("items") {
        Some(Value::Array(items)) => items.clone(),
        None | Some(Value::Null) if item_kind.is_empty() => Vec::new(),
        Some(_) if item_kind.is_empty() => return Err("`List`: items is not a list".to_owned()),
        // A custom kind that only happens to be named like a list.
        None | Some(_) => return Ok(vec![document]),
    };
    let mut objects = Vec::new();
    for mut item in items {
        if let Some(map) = item.as_object_mut().filter(|_| !item_kind.is_empty()) {
            map.entry("kind").or_insert_with(|| item_kind.into());
            map.entry("apiVersion").or_insert_with(|| version.clone().unwrap_or_default());
        }
        objects.extend(flatten(item)?);
    }
    Ok(objects)
}

/// The member of a map, made if it is missing or null.
fn member<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Value, String> {
    let member = as_map(value, name)?.entry(name).or_insert_with(|| json!({}));
    if member.is_null() {
        *member = json!({});
    }
    Ok(member)
}

fn as_map<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, String> {
    value.as_object_mut().ok_or_else(|| format!("`{name}`: not a map"))
}

fn shown(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{}/{namespace}/{}", key.kind, key.name),
        None => format!("{}/{}", key.kind, key.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "
# nothing here
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: b}}
---
{apiVersion: v1, kind: PodList, items: [{metadata: {name: c}}]}
";

    fn key(kind: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey { kind: kind.into(), namespace: namespace.map(str::to_owned), name: name.into() }
    }

    #[test]
    fn empty_documents_are_skipped_and_lists_flattened() {
        let expected = Objects(vec![
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}),
        ]);
        assert_eq!(Objects::parse(PODS).unwrap(), expected);
    }

    #[test]
    fn the_printed_list_reads_back_as_the_same_objects() {
        let objects = Objects::parse(PODS).unwrap();
        assert_eq!(Objects::parse(&objects.to_json()).unwrap(), objects);
    }

    #[test]
    fn an_applied_object_replaces_the_whole_old_one() {
        let mut objects = Objects::parse(PODS).unwrap();
        let changed = "{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: default}, spec: {}}";
        objects.apply(Objects::parse(changed).unwrap());
        assert_eq!(objects.0.len(), 3);
        assert_eq!(objects.0[1]["spec"], json!({}));
    }

    #[test]
    fn labels_are_set_and_removed() {
        let mut objects = Objects::parse(PODS).unwrap();
        let pod = key("pod", Some("x"), "a");
        objects.relabel(&pod, &[("k".into(), Some("v".into())), ("l".into(), None)]).unwrap();
        assert_eq!(objects.0[0]["metadata"]["labels"], json!({"k": "v"}));
        objects.relabel(&pod, &[("k".into(), None)]).unwrap();
        assert_eq!(objects.0[0]["metadata"]["labels"], json!({}));
    }

    #[test]
    fn an_array_patches_by_operations_and_an_object_merges() {
        let mut objects = Objects::parse(PODS).unwrap();
        let pod = key("pod", None, "b");
        objects.patch(&pod, &json!({"spec": {"nodeName": "n", "hostNetwork": true}})).unwrap();
        objects.patch(&pod, &json!([{"op": "remove", "path": "/spec/hostNetwork"}])).unwrap();
        assert_eq!(objects.0[1]["spec"], json!({"nodeName": "n"}));
        assert!(objects.patch(&pod, &json!([{"op": "remove", "path": "/absent"}])).is_err());
    }

    #[test]
    fn a_step_on_a_missing_object_is_an_error() {
        let mut objects = Objects::parse(PODS).unwrap();
        let missing = key("pod", Some("x"), "b");
        assert_eq!(objects.delete(&missing), Err("`pod/x/b`: no such object".to_owned()));
        assert!(objects.take(&Step::Relabel(missing.clone(), Vec::new())).is_err());
        assert!(objects.take(&Step::Patch(missing, json!({}))).is_err());
        assert!(objects.take(&Step::Delete(key("pod", Some("x"), "a"))).is_ok());
    }
}
