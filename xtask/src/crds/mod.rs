//! CustomResourceDefinitions, made from types and written to deploy/crds.
//!
//! One is ours. Those of others are described by the same sort of types, and held against what others ship: they take the same, with less prose.

mod cost;
mod kep2091;
mod labels;
mod parts;
mod structural;
#[cfg(test)]
mod tests;
mod upstream;

use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use self::parts::Status;
use self::upstream::{
    ADMIN_NETWORK_POLICY, AdminNetworkPolicy, BASELINE, BaselineAdminNetworkPolicy, CLUSTER_NETWORK_POLICY, ClusterNetworkPolicy,
};

/// A file of deploy/crds, and what makes it.
pub(crate) type Generated = (&'static str, fn() -> Result<String>);

/// All definitions.
pub(crate) const CRDS: [Generated; 4] = [
    ("deploy/crds/kep2091.palisade.dev_adminnetworkpolicies.yaml", || written::<kep2091::Spec>(&KEP2091)),
    ("deploy/crds/policy.networking.k8s.io_clusternetworkpolicies.yaml", || written::<ClusterNetworkPolicy>(&CLUSTER_NETWORK_POLICY)),
    ("deploy/crds/policy.networking.k8s.io_adminnetworkpolicies.yaml", || written::<AdminNetworkPolicy>(&ADMIN_NETWORK_POLICY)),
    ("deploy/crds/policy.networking.k8s.io_baselineadminnetworkpolicies.yaml", || written::<BaselineAdminNetworkPolicy>(&BASELINE)),
];

/// A kind, and how it is called.
struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    singular: &'static str,
    plural: &'static str,
    short: &'static str,
    /// Name, type and path of what `kubectl get` shows beside the age.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// What groups of Kubernetes itself must say.
    annotations: &'static [(&'static str, &'static str)],
    /// Rule and message of what holds for the whole object.
    rules: &'static [(&'static str, &'static str)],
    about: &'static str,
}

const KEP2091: Kind = Kind {
    group: "kep2091.palisade.dev",
    version: "v1alpha1",
    kind: "AdminNetworkPolicy",
    singular: "adminnetworkpolicy",
    plural: "adminnetworkpolicies",
    short: "kep2091",
    columns: &[("Priority", "integer", ".spec.priority")],
    annotations: &[],
    rules: &[],
    about: "AdminNetworkPolicy as KEP-2091 proposed it: cluster policy for connections between pods, where a larger priority is asked first.",
};

fn written<S: JsonSchema>(kind: &Kind) -> Result<String> {
    let definition = definition::<S>(kind)?;
    let problems = structural::problems(&definition);
    if !problems.is_empty() {
        bail!("{} of {} is no structural schema:\n{}", kind.kind, kind.group, problems.join("\n"));
    }
    let costs = cost::problems(&definition);
    if !costs.is_empty() {
        bail!("{} of {} has rules that cost too much:\n{}", kind.kind, kind.group, costs.join("\n"));
    }
    let yaml = serde_saphyr::to_string(&definition).context("the definition cannot be written")?;
    Ok(format!("# Written by `cargo xtask codegen`.\n{yaml}"))
}

/// The whole definition of a kind.
fn definition<S: JsonSchema>(kind: &Kind) -> Result<Value> {
    let mut schema = json!({
        "type": "object",
        "description": kind.about,
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": { "type": "string", "description": "The version of the API that the object is written in." },
            "kind": { "type": "string", "description": "The kind of the object." },
            "metadata": { "type": "object" },
            "spec": schema_of::<S>()?,
            "status": schema_of::<Status>()?,
        },
    });
    if let (false, Some(fields)) = (kind.rules.is_empty(), schema.as_object_mut()) {
        let rules = kind.rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message }));
        fields.insert("x-kubernetes-validations".to_owned(), rules.collect());
    }
    let columns = kind.columns.iter().copied().chain([("Age", "date", ".metadata.creationTimestamp")]);
    let columns: Vec<Value> = columns.map(|(name, of, path)| json!({ "name": name, "type": of, "jsonPath": path })).collect();
    let mut metadata = json!({ "name": format!("{}.{}", kind.plural, kind.group) });
    if !kind.annotations.is_empty() {
        let annotations: Map<String, Value> = kind.annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        metadata.as_object_mut().into_iter().for_each(|it| drop(it.insert("annotations".to_owned(), json!(annotations))));
    }
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": [kind.short],
            },
            "scope": "Cluster",
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": columns,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    }))
}

/// The schema of a type as API servers take it: nothing by reference, and what may be left out is never null.
fn schema_of<T: JsonSchema>() -> Result<Value> {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = serde_json::to_value(&schema)?;
    plain(&mut schema);
    Ok(schema)
}

/// Words of JSON schema that API servers do not take, and what they mean in theirs.
fn plain(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        for gone in ["title", "nullable", "$schema", "components"] {
            fields.remove(gone);
        }
        if let Some(Value::Array(types)) = fields.get("type").cloned() {
            let one = types.into_iter().find(|it| *it != json!("null"));
            fields.extend(one.map(|it| ("type".to_owned(), it)));
        }
        if let Some(Value::Array(values)) = fields.get_mut("enum") {
            values.retain(|it| !it.is_null());
        }
        // A type in a wrapper that only says more about it.
        for wrapper in ["allOf", "anyOf"] {
            let Some(Value::Array(inner)) = fields.get(wrapper).cloned() else { continue };
            let inner: Vec<Map<String, Value>> = inner.into_iter().filter_map(as_type).collect();
            if let [one] = inner.as_slice() {
                fields.remove(wrapper);
                for (key, value) in one.clone() {
                    fields.entry(key).or_insert(value);
                }
            }
        }
        for key in ["properties"] {
            if let Some(Value::Object(properties)) = fields.get_mut(key) {
                properties.values_mut().for_each(plain);
            }
        }
        for key in ["items", "additionalProperties"] {
            fields.get_mut(key).into_iter().for_each(plain);
        }
    }
}

/// A schema that is not null's.
fn as_type(schema: Value) -> Option<Map<String, Value>> {
    match schema {
        Value::Object(fields) if fields.get("type") == Some(&json!("null")) || fields.get("enum") == Some(&json!([null])) => None,
        Value::Object(fields) => Some(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}
