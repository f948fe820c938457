//! Additions to a policy as edits of the text that the user wrote: nothing else of it is touched, comments stay.
//!
//! The edited text is read again, and counts only if it is the policy that was tried out.

use std::sync::Arc;

use palisade_analysis::allow::Addition;
use palisade_api::tree::{Entry, Node, Value};
use palisade_api::yaml;
use palisade_k8s::{Controller, Index, ObjectKey, Sources, Text, Written};
use palisade_model::{Direction, PeerSet, PerDirection, Policy, PortSet, Rule};

use crate::manifest;

/// Some bytes of a text, and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) with: String,
}

/// A policy, edited where it was written.
#[derive(Clone, Debug)]
pub(super) struct Patched {
    /// What it was read from.
    pub(super) text: Text,
    /// In that text, by place.
    pub(super) replacements: Vec<Replacement>,
    /// The whole object afterwards, as a document of its own.
    pub(super) object: String,
}

/// Edits a policy; none if its text cannot be edited so that it says what `after` does.
pub(super) fn patched(sources: &Sources, controller: &Controller, after: &Policy, additions: &[Addition]) -> Option<Patched> {
    let Written { text, span } = sources.written(&ObjectKey::from(&after.origin))?;
    let own = text.content.get(span.start..span.end)?;
    let indent = if own.starts_with(['{', '[']) { 0 } else { span.column - 1 };
    let padded = format!("{}{own}", " ".repeat(indent));
    let root = yaml::documents(&padded).next()?.ok()?;
    let style = if own.starts_with('{') { Style::Json } else { Style::Yaml };
    let page = Page { text: &padded, style, newline: if padded.contains("\r\n") { "\r\n" } else { "\n" } };
    let mut replacements = Vec::new();
    for list in lists(additions) {
        replacements.extend(page.added(&root, after, &list)?);
    }
    // What is deeper ends first, where both end at one place.
    replacements.sort_by_key(|it| (it.start, it.end));
    let edited = applied(&padded, &replacements)?;
    let object = dedented(&edited, indent);
    is_read_as(&object, controller, after).then_some(())?;
    let moved = |it: Replacement| {
        Some(Replacement {
            start: it.start.checked_sub(indent)? + span.start,
            end: it.end.checked_sub(indent)? + span.start,
            with: it.with,
        })
    };
    Some(Patched { text, replacements: replacements.into_iter().map(moved).collect::<Option<_>>()?, object })
}

fn is_read_as(object: &str, controller: &Controller, wanted: &Policy) -> bool {
    let mut index = Index::of(controller.clone());
    index.read(Text { file: Arc::from(""), content: Arc::from(object) });
    index.snapshot().model.policies.iter().any(|it| it == wanted)
}

/// The text with all replacements, which do not overlap and are in order.
pub(super) fn applied(text: &str, replacements: &[Replacement]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for it in replacements {
        out.push_str(text.get(at..it.start)?);
        out.push_str(&it.with);
        at = it.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// A document that stood to the right, moved to the left.
fn dedented(text: &str, indent: usize) -> String {
    let mut out: String = text.lines().map(|line| format!("{}\n", line.get(leading(line).min(indent)..).unwrap_or(line))).collect();
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn leading(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// One list of a policy and what comes to its end.
struct List<'a> {
    direction: Direction,
    /// The rule that has it; none for the list of rules.
    rule: Option<usize>,
    key: &'static str,
    items: Vec<&'a Addition>,
}

/// Additions by the list that they are for, the deeper lists first.
fn lists(additions: &[Addition]) -> Vec<List<'_>> {
    let mut lists: Vec<List<'_>> = Vec::new();
    for it in additions {
        let direction = it.direction();
        let (rule, key) = match (it, direction) {
            (Addition::Rule { .. }, Direction::Ingress) => (None, "ingress"),
            (Addition::Rule { .. }, Direction::Egress) => (None, "egress"),
            (Addition::Peer { index, .. }, Direction::Ingress) => (Some(*index), "from"),
            (Addition::Peer { index, .. }, Direction::Egress) => (Some(*index), "to"),
            (Addition::Port { index, .. }, _) => (Some(*index), "ports"),
        };
        match lists.iter_mut().find(|list| (list.direction, list.rule, list.key) == (direction, rule, key)) {
            Some(known) => known.items.push(it),
            None => lists.push(List { direction, rule, key, items: vec![it] }),
        }
    }
    lists.sort_by_key(|it| it.rule.is_none());
    lists
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Yaml,
    Json,
}

struct Page<'t> {
    text: &'t str,
    style: Style,
    newline: &'static str,
}

impl Page<'_> {
    /// Puts items at the end of a list, wherever and however that is written.
    fn added(&self, root: &Node<'_>, policy: &Policy, list: &List<'_>) -> Option<Vec<Replacement>> {
        let spec = root.get("spec")?;
        let holder = match (list.rule, list.direction) {
            (None, _) => spec,
            (Some(at), direction) => item_of(spec.get(if direction == Direction::Ingress { "ingress" } else { "egress" })?, at)?,
        };
        let items: Vec<String> = list.items.iter().map(|it| item(policy, it)).collect::<Option<_>>()?;
        let Value::Map(entries) = &holder.value else { return None };
        let Some(entry) = entries.iter().find(|it| it.key == list.key) else { return self.with_list(holder, entries, list.key, &items) };
        match &entry.value.value {
            Value::List(known) => match (known.last(), self.is_flow(&entry.value)) {
                (Some(last), true) => Some(vec![insertion(last.span.end, format!(", {}", self.flow_items(&items)?))]),
                (Some(_), false) => {
                    let dash = self.dash(known.first()?)?;
                    Some(vec![self.lines_after(self.end_of(&entry.value), &block_items(&items, dash, self.newline))])
                }
                (None, _) => self.instead_of_nothing(holder, entry, &items),
            },
            Value::Null => self.instead_of_nothing(holder, entry, &items),
            Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::Map(_) => None,
        }
    }

    /// A list that was not there, at the end of the map.
    fn with_list(&self, holder: &Node<'_>, entries: &[Entry<'_>], key: &str, items: &[String]) -> Option<Vec<Replacement>> {
        let last = entries.iter().map(|it| self.end_of_entry(it)).max();
        if self.is_flow(holder) {
            let key = if self.style == Style::Json { format!("\"{key}\"") } else { key.to_owned() };
            let comma = if last.is_some() { ", " } else { "" };
            return Some(vec![insertion(last.unwrap_or(holder.span.start + 1), format!("{comma}{key}: [{}]", self.flow_items(items)?))]);
        }
        let last = last?;
        let column = entries.first()?.key_span.column - 1;
        let lines = format!("{}{key}:{}{}", " ".repeat(column), self.newline, block_items(items, column, self.newline));
        Some(vec![self.lines_after(last, &lines)])
    }

    /// A list in place of `[]` or nothing.
    fn instead_of_nothing(&self, holder: &Node<'_>, entry: &Entry<'_>, items: &[String]) -> Option<Vec<Replacement>> {
        let span = entry.value.span;
        if self.is_flow(holder) {
            return Some(vec![Replacement { start: span.start, end: span.end, with: format!("[{}]", self.flow_items(items)?) }]);
        }
        let before = self.text.get(entry.key_span.end..span.start)?;
        // Also without the space between the colon and what goes.
        let start = if span.end > span.start { span.start - (before.len() - before.trim_end().len()) } else { span.start };
        let gone = (span.end > span.start).then(|| Replacement { start, end: span.end, with: String::new() });
        let lines = block_items(items, entry.key_span.column - 1, self.newline);
        Some(gone.into_iter().chain([self.lines_after(span.end.max(entry.key_span.end), &lines)]).collect())
    }

    fn is_flow(&self, node: &Node<'_>) -> bool {
        self.text.get(node.span.start..).is_some_and(|it| it.starts_with(['[', '{']))
    }

    /// Where the last word of a value ends. What stands in blocks drags white space and comments behind it.
    fn end_of(&self, node: &Node<'_>) -> usize {
        let inner = match &node.value {
            Value::List(items) => items.iter().map(|it| self.end_of(it)).max(),
            Value::Map(entries) => entries.iter().map(|it| self.end_of_entry(it)).max(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => None,
        };
        if self.is_flow(node) { node.span.end } else { inner.unwrap_or(node.span.end) }
    }

    fn end_of_entry(&self, entry: &Entry<'_>) -> usize {
        match entry.value.value {
            Value::Null if entry.value.span.end <= entry.value.span.start => entry.key_span.end,
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_) => {
                self.end_of(&entry.value).max(entry.key_span.end)
            }
        }
    }

    /// The column of the dash before the first item of a list in block form.
    fn dash(&self, first: &Node<'_>) -> Option<usize> {
        let before = self.text.get(..first.span.start)?;
        let dash = before.rfind('-')?;
        let only_space = before.get(dash + 1..).is_some_and(|it| it.trim().is_empty());
        let line = before.get(..dash)?.rfind('\n').map_or(0, |at| at + 1);
        // A list in a list has two dashes on its first line.
        let clear = before.get(line..dash).is_some_and(|it| it.chars().all(|it| it == ' ' || it == '-'));
        (only_space && clear).then_some(dash - line)
    }

    /// Whole lines after the line that this place is on.
    fn lines_after(&self, place: usize, lines: &str) -> Replacement {
        match self.text.get(place..).and_then(|it| it.find('\n')) {
            Some(at) => insertion(place + at + 1, lines.to_owned()),
            None => insertion(self.text.len(), format!("{}{}", self.newline, lines.strip_suffix(self.newline).unwrap_or(lines))),
        }
    }

    fn flow_items(&self, items: &[String]) -> Option<String> {
        let of = |it: &String| yaml::documents(it).next()?.ok().map(|node| flow(&node, self.style));
        items.iter().map(of).collect::<Option<Vec<_>>>().map(|it| it.join(", "))
    }
}

fn insertion(at: usize, with: String) -> Replacement {
    Replacement { start: at, end: at, with }
}

fn item_of<'n, 'a>(list: &'n Node<'a>, at: usize) -> Option<&'n Node<'a>> {
    match &list.value {
        Value::List(items) => items.get(at),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::Map(_) => None,
    }
}

/// Items in block form, each after a dash at this column.
fn block_items(items: &[String], column: usize, newline: &str) -> String {
    let margin = " ".repeat(column);
    let mut out = String::new();
    for item in items {
        for (at, line) in item.lines().enumerate() {
            out.push_str(&format!("{margin}{} {line}{newline}", if at == 0 { "-" } else { " " }));
        }
    }
    out
}

/// An item as a document: what the manifest of a policy with nothing else says.
fn item(policy: &Policy, addition: &Addition) -> Option<String> {
    let of = |peers: PeerSet, ports: PortSet| Rule {
        index: 0,
        name: None,
        action: palisade_model::Action::Accept,
        peers,
        ports,
        fail_closed: None,
    };
    let (rule, key) = match addition {
        Addition::Rule { rule, .. } => (rule.clone(), None),
        Addition::Peer { peer, .. } => (of(PeerSet::Of(vec![peer.clone()]), PortSet::Any), Some("from")),
        Addition::Port { port, .. } => (of(PeerSet::Any, PortSet::Of(vec![port.clone()])), Some("ports")),
    };
    let direction = if key.is_some() { Direction::Ingress } else { addition.direction() };
    let (mut isolates, mut rules) = (PerDirection::default(), PerDirection::default());
    *isolates.of_mut(direction) = true;
    *rules.of_mut(direction) = vec![rule];
    let text = manifest::network_policy(&Policy { isolates, rules, ..policy.clone() });
    let root = yaml::documents(&text).next()?.ok()?;
    let written = item_of(root.get("spec")?.get(if direction == Direction::Ingress { "ingress" } else { "egress" })?, 0)?;
    let node = match key {
        Some(key) => item_of(written.get(key)?, 0)?,
        None => written,
    };
    let margin = node.span.column - 1;
    let cut = text.get(node.span.start..node.span.end)?.trim_end();
    Some(cut.lines().map(|line| format!("{}\n", line.get(leading(line).min(margin)..).unwrap_or(line))).collect())
}

/// A value on one line.
fn flow(node: &Node<'_>, style: Style) -> String {
    let word = |text: &str| match style {
        Style::Json => format!("{text:?}"),
        Style::Yaml => manifest::tree::scalar(text),
    };
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::Str(it) => word(it),
        Value::List(items) => format!("[{}]", items.iter().map(|it| flow(it, style)).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let all = entries.iter().map(|it| format!("{}: {}", word(&it.key), flow(&it.value, style)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(", "))
        }
    }
}
