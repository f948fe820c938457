//! Whether a schema is one that API servers take: every field has a type, and nothing is in it that they forbid.
//!
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use serde_json::{Map, Value};

/// Words that a structural schema may have in every place.
const WORDS: &[&str] = &[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Words that say which values are taken, and nothing about what is stored.
const CHECKS: &[&str] =
    &["enum", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required"];

/// What is wrong with a definition.
pub(super) fn problems(definition: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    match definition.pointer("/spec/versions/0/schema/openAPIV3Schema") {
        Some(schema) => walk(schema, "", &mut problems),
        None => problems.push("no schema".to_owned()),
    }
    problems
}

fn walk(schema: &Value, path: &str, problems: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        problems.push(format!("`{path}` is no schema"));
        return;
    };
    if fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        int_or_string(fields, path, problems);
        return;
    }
    for (word, inner) in fields.iter().filter(|(word, _)| !WORDS.contains(&word.as_str())) {
        match (word.as_str(), inner) {
            ("anyOf", Value::Array(ways)) => ways.iter().for_each(|it| way(it, fields, path, problems)),
            _ => problems.push(format!("`{path}`: `{word}` is not for structural schemas")),
        }
    }
    let of = fields.get("type").and_then(Value::as_str);
    match of {
        Some("object") if fields.contains_key("properties") && fields.contains_key("additionalProperties") => {
            problems.push(format!("`{path}` has properties and additionalProperties"));
        }
        Some("array") if !fields.contains_key("items") => problems.push(format!("`{path}` does not say what its items are")),
        Some("object" | "array" | "string" | "integer" | "number" | "boolean") => {}
        Some(other) => problems.push(format!("`{path}`: `{other}` is not a type")),
        None => problems.push(format!("`{path}` has no type")),
    }
    required(fields, path, problems);
    let properties = fields.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flatten() {
        walk(inner, &format!("{path}.{name}"), problems);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get(word) {
            walk(inner, &format!("{path}[]"), problems);
        }
    }
}

/// One of several ways to fit: it only checks what is described beside it.
fn way(schema: &Value, beside: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        problems.push(format!("`{path}`: a way to fit is no schema"));
        return;
    };
    for word in fields.keys().filter(|it| !CHECKS.contains(&it.as_str())) {
        problems.push(format!("`{path}`: `{word}` is not for ways to fit"));
    }
    for (name, inner) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        match beside.get("properties").and_then(|it| it.get(name)).and_then(Value::as_object) {
            Some(beside) => way(inner, beside, &format!("{path}.{name}"), problems),
            None => problems.push(format!("`{path}`: `{name}` is in a way to fit and not described")),
        }
    }
}

fn required(fields: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if fields.get("properties").and_then(|it| it.get(name)).is_none() {
            problems.push(format!("`{path}`: `{name}` is required and not described"));
        }
    }
    // What has a default is never missing, so that nobody can be told to write it.
    if fields.contains_key("default") && fields.get("type").and_then(Value::as_str) == Some("object") {
        problems.push(format!("`{path}`: a default for an object"));
    }
}

fn int_or_string(fields: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    let both = serde_json::json!([{ "type": "integer" }, { "type": "string" }]);
    let known = ["anyOf", "description", "maxLength", "maximum", "minimum", "pattern", "x-kubernetes-int-or-string"];
    let others = fields.keys().any(|it| !known.contains(&it.as_str()));
    if fields.get("anyOf").is_some_and(|it| *it != both) || others {
        problems.push(format!("`{path}`: a number or a string can be said in one way only"));
    }
}
