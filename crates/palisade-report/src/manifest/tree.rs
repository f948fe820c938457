//! An object on its way to a text: its fields in the order in which people write them, and the remarks above them.

use serde_json::Value;

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    Number(i64),
    True,
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    /// On one line.
    Inline(Box<Node>),
    /// An item of a list with lines of comment above it, each with its `#`.
    Remarked(Vec<String>, Box<Node>),
}

impl Node {
    pub(super) fn text(text: impl ToString) -> Node {
        Node::Text(text.to_string())
    }

    /// On one line, unless it is one anyway.
    pub(super) fn inline(self) -> Node {
        Node::Inline(Box::new(self))
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Node::Text(text) => Value::String(text.clone()),
            Node::Number(number) => Value::from(*number),
            Node::True => Value::Bool(true),
            Node::List(items) => Value::Array(items.iter().map(Node::json).collect()),
            Node::Map(entries) => Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.json())).collect()),
            Node::Inline(inner) | Node::Remarked(_, inner) => inner.json(),
        }
    }

    /// A document, or an item of a list, without indentation.
    pub(super) fn yaml(&self) -> String {
        let mut out = String::new();
        self.block(&mut out, 0, "");
        out
    }

    /// Writes lines from column `depth` on. `lead` stands before the first of them in place of its last characters of indentation.
    fn block(&self, out: &mut String, depth: usize, lead: &str) {
        match self {
            Node::Remarked(lines, inner) => {
                for line in lines {
                    indented(out, depth - lead.len(), line);
                }
                inner.block(out, depth, lead);
            }
            Node::Map(entries) if !entries.is_empty() => {
                for (at, (key, value)) in entries.iter().enumerate() {
                    let before = if at == 0 { lead } else { "" };
                    value.entry(out, depth, before, &scalar(key));
                }
            }
            Node::List(items) if !items.is_empty() => {
                for item in items {
                    item.block(out, depth + 2, "- ");
                }
            }
            Node::Map(_) | Node::List(_) | Node::Text(_) | Node::Number(_) | Node::True | Node::Inline(_) => {
                indented(out, depth - lead.len(), &format!("{lead}{}", self.on_one_line()));
            }
        }
    }

    /// `key: value`, or the key and the value below it. Lists stand as far to the left as their key.
    fn entry(&self, out: &mut String, depth: usize, lead: &str, key: &str) {
        let below = match self {
            Node::Map(entries) if !entries.is_empty() => Some(depth + 2),
            Node::List(items) if !items.is_empty() => Some(depth),
            Node::Map(_) | Node::List(_) | Node::Text(_) | Node::Number(_) | Node::True | Node::Inline(_) | Node::Remarked(..) => None,
        };
        match below {
            Some(column) => {
                indented(out, depth - lead.len(), &format!("{lead}{key}:"));
                self.block(out, column, "");
            }
            None => indented(out, depth - lead.len(), &format!("{lead}{key}: {}", self.on_one_line())),
        }
    }

    fn on_one_line(&self) -> String {
        let joined = |parts: Vec<String>| parts.join(", ");
        match self {
            Node::Text(text) => scalar(text),
            Node::Number(number) => number.to_string(),
            Node::True => "true".to_owned(),
            Node::List(items) => format!("[{}]", joined(items.iter().map(Node::on_one_line).collect())),
            Node::Map(entries) => {
                let entry = |(key, value): &(String, Node)| format!("{}: {}", scalar(key), value.on_one_line());
                format!("{{{}}}", joined(entries.iter().map(entry).collect()))
            }
            Node::Inline(inner) | Node::Remarked(_, inner) => inner.on_one_line(),
        }
    }
}

/// Fields in their order.
pub(super) fn map<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Fields in their order, those that are there.
pub(super) fn some<'k>(entries: impl IntoIterator<Item = (&'k str, Option<Node>)>) -> Node {
    Node::Map(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// A string that every YAML reader takes for a string: quoted unless it plainly is one.
pub(crate) fn scalar(text: &str) -> String {
    let word =
        text.starts_with(|it: char| it.is_ascii_alphabetic()) && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_./".contains(&it));
    let lower = text.to_ascii_lowercase();
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&lower.as_str());
    if word && !reserved { text.to_owned() } else { quoted(text) }
}

/// Between double quotes, where YAML takes every escape of JSON.
fn quoted(text: &str) -> String {
    Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
        .replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
        .replace('\u{feff}', "\\ufeff")
}

fn indented(out: &mut String, columns: usize, text: &str) {
    out.extend(std::iter::repeat_n(' ', columns));
    out.push_str(text);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_stand_above_what_they_are_about() {
        let rule = map([("action", Node::text("Deny")), ("from", Node::List(vec![map([("namespaces", Node::Map(Vec::new()))])]))]);
        let remarked = Node::Remarked(vec!["# nobody".to_owned()], Box::new(rule));
        let node = map([("spec", map([("ingress", Node::List(vec![remarked]))]))]);
        assert_eq!(node.yaml(), "spec:\n  ingress:\n  # nobody\n  - action: Deny\n    from:\n    - namespaces: {}\n");
    }

    #[test]
    fn what_another_type_could_be_read_from_is_quoted() {
        for (text, written) in
            [("web", "web"), ("no", "\"no\""), ("1e3", "\"1e3\""), ("", "\"\""), ("a: b", "\"a: b\""), ("a\nb\"", "\"a\\nb\\\"\"")]
        {
            assert_eq!(scalar(text), written);
        }
    }
}
