//! Makes what a random test found small enough to read: leaves out whatever is not needed for it to happen again.

use serde_json::Value;

use crate::objects::Objects;
use crate::paths;

/// The fewest lines, by greedy removal of ever smaller runs of them, for which `happens` still holds.
pub fn lines(text: &str, happens: impl Fn(&str) -> bool) -> String {
    let mut kept: Vec<&str> = text.split_inclusive('\n').collect();
    let mut run = kept.len().div_ceil(2).max(1);
    loop {
        let before = kept.len();
        let mut at = 0;
        while at < kept.len() {
            let rest: Vec<&str> = kept.iter().take(at).chain(kept.iter().skip(at + run)).copied().collect();
            if happens(&rest.concat()) {
                kept = rest;
            } else {
                at += run;
            }
        }
        if run == 1 && kept.len() == before {
            return kept.concat();
        }
        run = run.div_ceil(2);
    }
}

/// The fewest objects, each with the fewest fields and items, for which `happens` still holds.
pub fn objects(objects: &Objects, happens: impl Fn(&Objects) -> bool) -> Objects {
    let mut smallest = Value::Array(objects.0.clone());
    loop {
        let before = smallest.clone();
        let mut at = 0;
        while let Some(path) = removable(&smallest).get(at) {
            let mut candidate = smallest.clone();
            paths::take(&mut candidate, path);
            if happens(&as_objects(&candidate)) {
                smallest = candidate;
            } else {
                at += 1;
            }
        }
        if smallest == before {
            return as_objects(&smallest);
        }
    }
}

fn as_objects(list: &Value) -> Objects {
    Objects(list.as_array().cloned().unwrap_or_default())
}

/// What makes an object the one that it is stays.
const IDENTITY: [&str; 5] = ["apiVersion", "kind", "metadata", "name", "namespace"];

/// The paths of everything that may be left out, the large things before their parts.
fn removable(value: &Value) -> Vec<String> {
    let mut paths = paths::all(value);
    paths.retain(|path| paths::split(path).is_some_and(|(_, key)| !IDENTITY.contains(&key.as_str())));
    paths
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_lines_that_matter_stay() {
        let text = "a\nb\nc\nd\ne\nf\ng\n";
        assert_eq!(lines(text, |it| it.contains("b\n") && it.contains('f')), "b\nf\n");
    }

    #[test]
    fn only_the_fields_that_matter_stay() {
        let pod = |name: &str| json!({"kind": "Pod", "metadata": {"name": name, "labels": {"a/b": "1", "c": "2"}}, "spec": {"l": [1, 2]}});
        let cluster = Objects(vec![pod("a"), pod("b")]);
        let label = |it: &Objects| it.0.iter().any(|it| it["metadata"]["name"] == "b" && it["metadata"]["labels"]["a/b"] == "1");
        let expected = Objects(vec![json!({"kind": "Pod", "metadata": {"name": "b", "labels": {"a/b": "1"}}})]);
        assert_eq!(objects(&cluster, label), expected);
    }
}
