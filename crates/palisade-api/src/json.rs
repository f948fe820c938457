//! Objects as an API server sends them: JSON into trees, without text in between.
//!
//! All nodes of such a tree have one position, its start: a user never sees this JSON. Large parts that no reader of the kind looks at are skipped
//! while parsing, by the [`Part`] of the kind; every field that the reader would complain about is kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::object::{self, Object, read_object};
use crate::part::Part;
use crate::tree::{Entry, Node, Span, Value};
use crate::yaml::{self, DEPTH, Unreadable};

/// The position of every node.
const START: Span = Span { start: 0, end: 0, line: 1, column: 1 };

/// Maps with more entries than this are checked for repeated keys by sorting, because comparing all pairs takes quadratic time.
const PAIRWISE: usize = 16;

/// Version and kind of an object. The items of a list do not name their own; the list's resource does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMeta {
    pub api_version: String,
    pub kind: String,
}

/// Reads one object. `of` replaces its `apiVersion` and `kind`.
pub fn object(json: &[u8], of: Option<&TypeMeta>) -> Result<Object, Unreadable> {
    parse(json, of, object::part).map(|tree| read_object(&tree))
}

/// The whole tree of an object but `metadata.managedFields`, which only the API server uses. `of` replaces `apiVersion` and `kind`.
pub fn tree<'a>(json: &'a [u8], of: Option<&TypeMeta>) -> Result<Node<'a>, Unreadable> {
    parse(json, of, |_, _| &Part::OBJECT)
}

/// `metadata.namespace` and `metadata.name`, also of an object that [`object`] cannot read for another of its fields.
pub fn name(json: &[u8]) -> (Option<String>, Option<String>) {
    static NAMED: Part = Part::Known(&["metadata"], &[("metadata", Part::Known(&["namespace", "name"], &[]))]);
    let of = TypeMeta { api_version: String::new(), kind: String::new() };
    let tree = parse(json, Some(&of), |_, _| &NAMED).ok();
    let text = |name: &str| Some(tree.as_ref()?.get("metadata")?.get(name)?.as_str()?.to_owned());
    (text("namespace"), text("name"))
}

/// The part of a kind that is kept, by `apiVersion` and `kind`.
type PartOf = fn(&str, &str) -> &'static Part;

fn parse<'a>(json: &'a [u8], of: Option<&TypeMeta>, part_of: PartOf) -> Result<Node<'a>, Unreadable> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let tree = Root { of, part_of }.deserialize(&mut deserializer);
    tree.and_then(|tree| deserializer.end().map(|()| tree)).map_err(|error| unreadable(json, &error))
}

/// The object itself, whose first fields say which parts of the others are kept.
#[derive(Clone, Copy)]
struct Root<'t> {
    of: Option<&'t TypeMeta>,
    part_of: PartOf,
}

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let named = |key, text: &String| Entry { key: Cow::Borrowed(key), key_span: START, value: text_node(text.clone().into()) };
        let of = |it: &TypeMeta| vec![named("apiVersion", &it.api_version), named("kind", &it.kind)];
        let mut entries: Vec<Entry<'de>> = self.of.map(of).unwrap_or_default();
        let given = entries.len();
        while let Some(key) = map.next_key_seed(Key)? {
            if entries.iter().take(given).any(|it| it.key == key) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let text = |name: &str| entries.iter().find(|it| it.key == name).and_then(|it| it.value.as_str());
            let part = match (text("apiVersion"), text("kind")) {
                (Some(version), Some(kind)) => (self.part_of)(version, kind),
                // Fields in another order than API servers write: nothing is skipped, which gives the same object.
                (Some(_) | None, _) => &Part::OBJECT,
            };
            if let Some(part) = part.of_field(&key) {
                let value = map.next_value_seed(Tree { part, depth: 1 })?;
                entries.push(Entry { key, key_span: START, value });
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        node_of(entries)
    }
}

/// A value below the root.
#[derive(Clone, Copy)]
struct Tree {
    part: &'static Part,
    /// How many lists and maps are open around it.
    depth: usize,
}

impl Tree {
    fn deeper<E: Error>(self) -> Result<usize, E> {
        let depth = self.depth + 1;
        if depth > DEPTH { Err(E::custom(yaml::too_deep())) } else { Ok(depth) }
    }
}

impl<'de> DeserializeSeed<'de> for Tree {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node<'de>, E> {
        Ok(node(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node<'de>, E> {
        Ok(node(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node<'de>, E> {
        Ok(node(Value::Int(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node<'de>, E> {
        Ok(node(i64::try_from(value).map_or_else(|_| Value::Number(value.to_string().into()), Value::Int)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node<'de>, E> {
        let text = serde_json::Number::from_f64(value).map_or_else(|| value.to_string(), |it| it.to_string());
        // 80.0 is 80, as it is in YAML.
        Ok(node(yaml::plain(text.into())))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(text_node(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node<'de>, E> {
        Ok(text_node(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node<'de>, A::Error> {
        let depth = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Tree { depth, ..self })? {
            items.push(item);
        }
        Ok(node(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let depth = self.deeper()?;
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if let Some(part) = self.part.of_field(&key) {
                let value = map.next_value_seed(Tree { part, depth })?;
                entries.push(Entry { key, key_span: START, value });
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        node_of(entries)
    }
}

/// The key of an entry.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(text.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(text.to_owned().into())
    }
}

fn node(value: Value<'_>) -> Node<'_> {
    Node { span: START, value }
}

fn text_node(text: Cow<'_, str>) -> Node<'_> {
    node(Value::Str(text))
}

/// A map of these entries, unless a key is repeated: tools do not agree on which value counts, and a policy must not mean two things.
fn node_of<'de, E: Error>(entries: Vec<Entry<'de>>) -> Result<Node<'de>, E> {
    match repeated(&entries) {
        Some(key) => Err(E::custom(format!("the key `{key}` is set twice"))),
        None => Ok(node(Value::Map(entries))),
    }
}

fn repeated<'n>(entries: &'n [Entry<'_>]) -> Option<&'n str> {
    if entries.len() <= PAIRWISE {
        let earlier = |at: usize, key: &str| entries.iter().take(at).any(|it| it.key == key);
        return entries.iter().enumerate().find(|(at, it)| earlier(*at, &it.key)).map(|(_, it)| it.key.as_ref());
    }
    let mut keys: Vec<&str> = entries.iter().map(|it| it.key.as_ref()).collect();
    keys.sort_unstable();
    keys.windows(2).find_map(|pair| match pair {
        [a, b] if a == b => Some(*a),
        _ => None,
    })
}

fn unreadable(json: &[u8], error: &serde_json::Error) -> Unreadable {
    let (line, column) = (error.line().max(1), error.column().max(1));
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    let before: usize = json.split(|byte| *byte == b'\n').take(line - 1).map(|it| it.len() + 1).sum();
    Unreadable { message, line, column, offset: before + column - 1, help: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let problem = object(json.as_bytes(), None).unwrap_err();
        format!("{}:{} ({}): {}", problem.line, problem.column, problem.offset, problem.message)
    }

    #[test]
    fn json_gives_the_tree_of_the_same_text_as_yaml() {
        let json = r#"{"a": [null, true, 0, -1, 80.0, 1.5, 1e30, 18446744073709551615, "no", "é\n", [], {}], "\"<<": {"010": "~"}}"#;
        let expected = [
            "[Null, Bool(true), Int(0), Int(-1), Int(80), Number(\"1.5\"), Number(\"1e+30\"), Number(\"18446744073709551615\"), ",
            "Str(\"no\"), Str(\"é\\n\"), List([]), Map([])]",
        ];
        let tree = tree(json.as_bytes(), None).unwrap();
        let Some(Node { value: Value::List(items), .. }) = tree.get("a") else { panic!("{tree:?}") };
        let values: Vec<&Value<'_>> = items.iter().map(|it| &it.value).collect();
        assert_eq!(format!("{values:?}"), expected.concat());
        assert_eq!(tree.get("\"<<").and_then(|it| it.get("010")).and_then(Node::as_str), Some("~"));
    }

    #[test]
    fn a_key_that_is_set_twice_is_refused_wherever_it_is_read() {
        assert_eq!(refusal(r#"{"kind": "Pod", "kind": "Node"}"#), "1:31 (30): the key `kind` is set twice");
        let policy = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
"spec": {"podSelector": {}, "policyTypes": [], "podSelector": {"matchLabels": {"a": "b"}}}}"#;
        assert_eq!(refusal(policy), "2:90 (153): the key `podSelector` is set twice");
        let many: Vec<String> = (0..40).map(|at| format!("\"k{}\": {at}", at % 39)).collect();
        assert_eq!(refusal(&format!("{{\"a\": {{{}}}}}", many.join(", "))), "1:425 (424): the key `k0` is set twice");
    }

    #[test]
    fn nesting_is_limited_where_it_is_read_and_costs_no_stack_where_it_is_skipped() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let policy = |value: &str| format!(r#"{{"apiVersion": "v1", "kind": "Service", "spec": {value}}}"#);
        assert!(object(policy(&nested(99)).as_bytes(), None).is_ok());
        let refused = object(policy(&nested(100)).as_bytes(), None).unwrap_err();
        assert_eq!(refused.message, "nested more than 100 levels deep");
        assert_eq!(object(policy(&nested(1_000_000)).as_bytes(), None).unwrap_err().message, "nested more than 100 levels deep");
        let deep = nested(1_000_000);
        let pod = format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "a", "managedFields": {deep}}}, "spec": {{"volumes": {deep}}}}}"#
        );
        assert_eq!(object(pod.as_bytes(), None).unwrap().problems, []);
    }

    #[test]
    fn what_is_no_json_object_is_refused_with_its_place() {
        assert_eq!(refusal(""), "1:1 (0): EOF while parsing a value");
        assert_eq!(refusal("{\n\"a\": 1,}"), "2:8 (9): trailing comma");
        assert_eq!(refusal("{} {}"), "1:4 (3): trailing characters");
        assert_eq!(refusal("[]"), "1:2 (1): invalid type: sequence, expected an object");
        assert_eq!(refusal(r#"{"a": "\ud800"}"#), "1:14 (13): unexpected end of hex escape");
    }

    #[test]
    fn the_type_of_a_list_counts_and_the_name_is_known_of_what_cannot_be_read() {
        let of = TypeMeta { api_version: "v1".into(), kind: "Namespace".into() };
        let json = br#"{"kind": "Pod", "metadata": {"name": "a", "managedFields": 7}, "spec": {"x": 1}}"#;
        let read = object(json, Some(&of)).unwrap();
        assert_eq!((read.kind.as_str(), read.name.as_deref(), read.problems.len()), ("Namespace", Some("a"), 0));
        let twice = br#"{"spec": {"x": 1, "x": 2}, "metadata": {"name": "a", "namespace": "b"}}"#;
        assert!(object(twice, Some(&of)).is_err());
        assert_eq!(name(twice), (Some("b".to_owned()), Some("a".to_owned())));
    }
}
