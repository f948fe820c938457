//! Places in a JSON value, as RFC 6901 pointers.

use serde_json::Value;

/// The pointers of everything inside of `value`, the outer things first.
pub fn all(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        let mut found = Vec::new();
        match value {
            Value::Array(items) => found.extend(items.iter().enumerate().map(|(at, item)| (format!("{path}/{at}"), item))),
            Value::Object(fields) => found.extend(fields.iter().map(|(key, field)| (below(&path, key), field))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        paths.extend(found.iter().map(|(path, _)| path.clone()));
        open.extend(found);
    }
    paths.sort_by_key(|path| path.matches('/').count());
    paths
}

/// The pointer of a field.
pub fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The pointer of what holds a place, and its key or index there.
pub fn split(path: &str) -> Option<(&str, String)> {
    let (above, last) = path.rsplit_once('/')?;
    Some((above, last.replace("~1", "/").replace("~0", "~")))
}

/// Takes something out.
pub fn take(value: &mut Value, path: &str) -> Option<Value> {
    let (above, last) = split(path)?;
    match value.pointer_mut(above)? {
        Value::Array(items) => last.parse().ok().filter(|at| *at < items.len()).map(|at: usize| items.remove(at)),
        Value::Object(fields) => fields.remove(&last),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
