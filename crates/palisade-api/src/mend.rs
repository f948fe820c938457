//! What was probably meant, written out: one corrected line, for whoever has to correct it.

use crate::tree::{Node, Value};
use crate::yaml;

/// Longer lines are no help.
const LONGEST: usize = 100;

/// Fields that hold lists wherever they stand in a policy.
const LISTS: &[&str] = &[
    "domainNames",
    "egress",
    "except",
    "from",
    "ingress",
    "matchExpressions",
    "networks",
    "notSameLabels",
    "policyTypes",
    "ports",
    "protocols",
    "sameLabels",
    "to",
    "values",
];

/// `key: value` in one line, with lists where the API wants them, unless that is too long.
pub(crate) fn line(key: &str, node: &Node<'_>) -> Option<String> {
    let mut out = String::new();
    pair(&mut out, key, node)?;
    Some(format!("write it as: {out}"))
}

/// The same for a field that holds a list wherever it stands, and here one map.
pub(crate) fn line_of_list(key: &str, node: &Node<'_>) -> Option<String> {
    LISTS.contains(&key).then(|| line(key, node)).flatten()
}

/// The line at `offset` with commas for semicolons: in braces and brackets nothing else separates, whatever other languages do.
pub(crate) fn semicolons(text: &str, offset: usize) -> Option<String> {
    let (before, after) = text.split_at_checked(offset)?;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = after.find('\n').map_or(text.len(), |at| offset + at);
    let line = with_commas(text.get(start..end)?.trim())?;
    let mut body = line.as_str();
    while let Some(rest) = body.strip_prefix("- ") {
        body = rest.trim_start();
    }
    let general = || Some("entries in `{ }` and `[ ]` are separated by `,`, not by `;`".to_owned());
    let Some(Ok(Node { value: Value::Map(entries), .. })) = yaml::documents(body).next() else { return general() };
    match entries.as_slice() {
        [only] if !body.starts_with('{') => self::line(&only.key, &only.value).or_else(general),
        [] | [_, ..] => general(),
    }
}

/// The same text with a comma for every semicolon that stands in braces or brackets and outside of quotes. None: there is no such semicolon.
fn with_commas(line: &str) -> Option<String> {
    let mut out = String::with_capacity(line.len());
    let (mut depth, mut quote, mut found) = (0usize, None, false);
    for character in line.chars() {
        match (character, quote) {
            (_, Some(open)) => quote = Some(open).filter(|open| *open != character),
            ('"' | '\'', None) => quote = Some(character),
            ('{' | '[', None) => depth += 1,
            ('}' | ']', None) => depth = depth.saturating_sub(1),
            (_, None) => {}
        }
        let separates = character == ';' && quote.is_none() && depth > 0;
        found |= separates;
        out.push(if separates { ',' } else { character });
    }
    found.then_some(out)
}

fn pair(out: &mut String, key: &str, node: &Node<'_>) -> Option<()> {
    scalar(out, key);
    out.push_str(": ");
    let wrapped = LISTS.contains(&key) && matches!(node.value, Value::Map(_));
    if wrapped {
        out.push('[');
    }
    value(out, node)?;
    if wrapped {
        out.push(']');
    }
    Some(())
}

/// None: too long.
fn value(out: &mut String, node: &Node<'_>) -> Option<()> {
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
        Value::Int(it) => out.push_str(&it.to_string()),
        Value::Number(it) => out.push_str(it),
        Value::Str(it) => scalar(out, it),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                value(out, item)?;
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (at, entry) in entries.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                pair(out, &entry.key, &entry.value)?;
            }
            out.push('}');
        }
    }
    (out.len() <= LONGEST).then_some(())
}

/// A string, in quotes where it would be something else without.
fn scalar(out: &mut String, text: &str) {
    let letters = text.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_./".contains(&it));
    let plain = letters && text.starts_with(|it: char| it.is_ascii_alphabetic()) && matches!(yaml::plain(text.into()), Value::Str(_));
    match plain {
        true => out.push_str(text),
        false => {
            out.push('"');
            text.chars().for_each(|it| escaped(out, it));
            out.push('"');
        }
    }
}

/// A character as it stands between double quotes.
fn escaped(out: &mut String, character: char) {
    match character {
        '"' | '\\' => out.extend(['\\', character]),
        control if control.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(control))),
        other => out.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let problem = yaml::documents(text).find_map(Result::err);
        let mended = problem.and_then(|it| it.help);
        assert_eq!(mended.as_deref(), expected, "{text}");
    }

    #[test]
    fn a_semicolon_between_entries_becomes_a_comma_and_a_map_becomes_a_list_where_one_is_wanted() {
        let meant = Some("write it as: matchExpressions: [{key: tenant, operator: Exists}]");
        check("a:\n  matchExpressions: {key: \"tenant\"; operator: Exists}\nb: c\n", meant);
        check("a:\n  matchExpressions: {key: tenant; operator: Exists}\n", meant);
        check("a:\n  - matchExpressions: [{key: tenant; operator: Exists}]\n", meant);
        check("- matchLabels: {\"a\": \"1\"; \"b\": \"y\"}\n", Some("write it as: matchLabels: {a: \"1\", b: \"y\"}"));
        check(
            "from: {namespaces: {sameLabels: [a; \"b\"; c]; self: true}}\n",
            Some("write it as: from: [{namespaces: {sameLabels: [a, b, c], self: true}}]"),
        );
    }

    #[test]
    fn what_cannot_be_mended_gets_the_rule_or_nothing() {
        let rule = Some("entries in `{ }` and `[ ]` are separated by `,`, not by `;`");
        check("a: {b: \"c\"; d: {\n  e: f}}\n", rule);
        check("{a: \"b\"; c: d}\n", rule);
        check("a: [\"x;y\"\n", None);
        check("a: b: c; d\n", None);
    }
}
