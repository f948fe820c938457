//! A tree as YAML that every reader understands alike, for excerpts of objects that were read from JSON.
//!
//! Every string is double-quoted, so that no reader of YAML 1.1 or 1.2 can take `no`, `010` or `1e3` for anything
//! else. Keys are plain only where no reader can. Line breaks and invisible characters are escaped.

use palisade_api::tree::{Entry, Node, Value};

/// One document, ending in a line break, without a `---` of its own. Keys are sorted, except that an object says
/// first what it is.
pub(super) fn document(node: &Node<'_>) -> String {
    let mut out = String::new();
    match shape(node) {
        Shape::Map(entries) => block_map(&mut out, entries, 0),
        Shape::List(items) => block_list(&mut out, items, 0),
        Shape::Inline => inline(&mut out, node),
    }
    out.push('\n');
    out
}

/// How a value is laid out.
enum Shape<'n> {
    Map(&'n [Entry<'n>]),
    List(&'n [Node<'n>]),
    /// A scalar, or a container with nothing in it.
    Inline,
}

fn shape<'n>(node: &'n Node<'n>) -> Shape<'n> {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => Shape::Map(entries),
        Value::List(items) if !items.is_empty() => Shape::List(items),
        Value::Map(_) | Value::List(_) => Shape::Inline,
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => Shape::Inline,
    }
}

/// Writes entries one below the other; the cursor is where the first one begins.
fn block_map(out: &mut String, entries: &[Entry<'_>], indent: usize) {
    let mut entries: Vec<&Entry<'_>> = entries.iter().collect();
    entries.sort_by_key(|it| (rank(&it.key, indent), &it.key));
    for (place, Entry { key, value, .. }) in entries.into_iter().enumerate() {
        if place > 0 {
            new_line(out, indent);
        }
        if is_plain_key(key) {
            out.push_str(key)
        } else {
            quote(out, key)
        }
        out.push(':');
        match shape(value) {
            Shape::Map(entries) => {
                new_line(out, indent + 2);
                block_map(out, entries, indent + 2);
            }
            Shape::List(items) => {
                new_line(out, indent);
                block_list(out, items, indent);
            }
            Shape::Inline => {
                out.push(' ');
                inline(out, value);
            }
        }
    }
}

/// Writes items one below the other; the cursor is where the first one begins.
fn block_list(out: &mut String, items: &[Node<'_>], indent: usize) {
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            new_line(out, indent);
        }
        out.push_str("- ");
        match shape(item) {
            Shape::Map(entries) => block_map(out, entries, indent + 2),
            Shape::List(items) => block_list(out, items, indent + 2),
            Shape::Inline => inline(out, item),
        }
    }
}

/// Writes what fits on the line.
fn inline(out: &mut String, node: &Node<'_>) {
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Number(number) => out.push_str(&decimal(number)),
        Value::Str(text) => quote(out, text),
        Value::List(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
    }
}

fn new_line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

/// The order in which people expect the fields of an object; nested maps are sorted by key alone.
fn rank(key: &str, indent: usize) -> usize {
    let first = ["apiVersion", "kind", "metadata"];
    match indent {
        0 => first.iter().position(|it| *it == key).unwrap_or(first.len()),
        _ => 0,
    }
}

/// Letters first, nothing that YAML has a use for, and none of the words that YAML 1.1 takes for a truth value.
fn is_plain_key(key: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && !WORDS.contains(&key.to_ascii_lowercase().as_str())
}

/// YAML 1.1 takes `1e30` for a string: a number with an exponent needs a point and a sign.
fn decimal(number: &str) -> String {
    let Some((digits, exponent)) = number.split_once(['e', 'E']) else { return number.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            character if is_visible(character) => out.push(character),
            character => escape(out, u32::from(character)),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, code: u32) {
    out.push_str(&match code {
        ..=0xFFFF => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    });
}

/// Whether every YAML reader takes the character as it is: no control character, no line break, no byte order mark,
/// none of the code points that are not characters.
fn is_visible(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{2028}' | '\u{2029}' | '\u{FEFF}')
        && u32::from(character) & 0xFFFE != 0xFFFE
        && !('\u{FDD0}'..='\u{FDEF}').contains(&character)
}
