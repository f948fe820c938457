//! What an object has beside its policy: labels, annotations, and the comments of its author.

use palisade_api::tree::{Entry, Node, Value};
use palisade_api::{names, yaml};
use palisade_model::Direction;

use super::{ObjectKey, OwnText, Sources, Written};

/// What kubectl writes for itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What an object has beside its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// `metadata.labels`, in order.
    pub labels: Vec<(String, String)>,
    /// `metadata.annotations`, in order, but for what kubectl writes for itself and for what says in which shape the object is.
    pub annotations: Vec<(String, String)>,
    /// Lines of comment about the object, each with its `#`.
    pub remarks: Vec<String>,
    /// Lines of comment about rules, by direction and place in the list.
    pub rule_remarks: Vec<(Direction, usize, Vec<String>)>,
}

/// A comment of a text.
struct Comment<'t> {
    line: usize,
    start: usize,
    text: &'t str,
    /// Whether nothing else is on the line.
    alone: bool,
}

/// A place that comments can be about.
#[derive(Clone, Copy)]
struct Anchor {
    line: usize,
    start: usize,
    /// None for the object.
    rule: Option<(Direction, usize)>,
}

impl Sources {
    /// What an object has beside its policy; none if its text is not known.
    pub fn beside(&self, key: &ObjectKey) -> Option<Beside> {
        let Written { text, span } = self.written(key)?;
        let own = OwnText::of(&text.content, span)?;
        let document = yaml::documents(&own.content).next()?.ok()?;
        let metadata = document.get("metadata");
        let mut beside = Beside {
            labels: metadata.and_then(|it| it.get("labels")).map(pairs).unwrap_or_default(),
            annotations: metadata.and_then(|it| it.get("annotations")).map(pairs).unwrap_or_default(),
            remarks: above(text.content.get(..span.start).unwrap_or_default()),
            rule_remarks: Vec::new(),
        };
        beside.annotations.retain(|(key, _)| key != LAST_APPLIED && key != names::SHAPE);
        // JSON has no comments, and what stands in braces has no lines to put them on.
        if !own.content.trim_start().starts_with('{') {
            beside.attach(&comments(&own.content, &document), &anchors(&document));
        }
        Some(beside)
    }
}

impl Beside {
    fn attach(&mut self, comments: &[Comment<'_>], anchors: &[Anchor]) {
        for (at, comment) in comments.iter().enumerate() {
            match about(comment, comments.get(at..).unwrap_or_default(), anchors) {
                None => self.remarks.push(comment.text.to_owned()),
                Some((direction, index)) => {
                    let known = self.rule_remarks.iter_mut().find(|it| (it.0, it.1) == (direction, index));
                    match known {
                        Some((_, _, lines)) => lines.push(comment.text.to_owned()),
                        None => self.rule_remarks.push((direction, index, vec![comment.text.to_owned()])),
                    }
                }
            }
        }
    }
}

/// What a comment is about: what follows the block of comments that it is in, else what it stands in.
fn about(comment: &Comment<'_>, rest: &[Comment<'_>], anchors: &[Anchor]) -> Option<(Direction, usize)> {
    let block = rest.iter().enumerate().take_while(|(at, it)| it.alone && it.line == comment.line + at).count();
    let below = anchors.iter().find(|it| block > 0 && it.line == comment.line + block);
    let around = || anchors.iter().filter(|it| it.start <= comment.start).max_by_key(|it| it.start);
    below.or_else(around).and_then(|it| it.rule)
}

/// The comments straight above an object.
fn above(before: &str) -> Vec<String> {
    // The object begins on the last line, which may hold a dash.
    let mut lines = before.rsplit('\n').skip(1).map(str::trim).take_while(|it| it.starts_with('#')).collect::<Vec<_>>();
    lines.reverse();
    lines.into_iter().map(str::to_owned).collect()
}

fn anchors(document: &Node<'_>) -> Vec<Anchor> {
    let key = |entry: &Entry<'_>, rule| Anchor { line: entry.key_span.line, start: entry.key_span.start, rule };
    let mut anchors: Vec<Anchor> = entries(document).iter().map(|it| key(it, None)).collect();
    for entry in document.get("spec").map(entries).unwrap_or_default() {
        let direction = match entry.key.as_ref() {
            "ingress" => Some(Direction::Ingress),
            "egress" => Some(Direction::Egress),
            _ => None,
        };
        let rules = match (&entry.value.value, direction) {
            (Value::List(items), Some(direction)) if !items.is_empty() => Some((items, direction)),
            (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_), _) => None,
        };
        // What is said of the whole list is said above its first rule.
        anchors.push(key(entry, rules.map(|(_, direction)| (direction, 0))));
        for (index, item) in rules.into_iter().flat_map(|(items, _)| items.iter().enumerate()) {
            anchors.extend(direction.map(|it| Anchor { line: item.span.line, start: item.span.start, rule: Some((it, index)) }));
        }
    }
    anchors
}

fn entries<'n, 'a>(node: &'n Node<'a>) -> &'n [Entry<'a>] {
    match &node.value {
        Value::Map(entries) => entries,
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) => &[],
    }
}

/// Labels or annotations. An API server stores a null one as empty.
fn pairs(node: &Node<'_>) -> Vec<(String, String)> {
    let text = |node: &Node<'_>| match &node.value {
        Value::Str(text) => Some(text.to_string()),
        Value::Null => Some(String::new()),
        // Such an object was refused.
        Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
    };
    entries(node).iter().filter_map(|it| Some((it.key.to_string(), text(&it.value)?))).collect()
}

/// A `#` begins a comment where it stands after white space and in no value.
fn comments<'t>(text: &'t str, document: &Node<'_>) -> Vec<Comment<'t>> {
    let mut values = Vec::new();
    scalars(document, &mut values);
    let mut found = Vec::new();
    let mut start = 0;
    for (index, line) in text.split('\n').enumerate() {
        let marks = line.match_indices('#').map(|it| it.0);
        let outside = |at: &usize| !values.iter().any(|(first, last)| *first <= start + at && start + at < *last);
        let spaced = |at: &usize| line.get(..*at).is_none_or(|before| before.is_empty() || before.ends_with([' ', '\t']));
        if let Some(at) = marks.filter(spaced).find(outside) {
            let alone = line.get(..at).is_some_and(|before| before.trim().is_empty());
            let comment = line.get(at..).unwrap_or_default().trim_end();
            found.push(Comment { line: index + 1, start: start + at, text: comment, alone });
        }
        start += line.len() + 1;
    }
    found
}

fn scalars(node: &Node<'_>, found: &mut Vec<(usize, usize)>) {
    match &node.value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => found.push((node.span.start, node.span.end)),
        Value::List(items) => items.iter().for_each(|it| scalars(it, found)),
        Value::Map(entries) => {
            for entry in entries {
                found.push((entry.key_span.start, entry.key_span.end));
                scalars(&entry.value, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Index, Text};

    const TEXT: &str = r##"# unrelated

# who may watch
# the watchers
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata:
  name: watch
  labels: {team: "#1", spare: null}
  annotations:
    # why
    note: a # b
    later:
    kubectl.kubernetes.io/last-applied-configuration: '{}'
spec:
  tier: Admin # never Baseline
  priority: 1
  subject: {namespaces: {}}
  # all of these
  ingress:
  # the first
  - action: Accept # yes
    from:
    # everybody
    - namespaces: {}
  # the second,
  # of two
  - action: Deny
    from:
    - namespaces: {}
"##;

    #[test]
    fn comments_are_about_what_they_stand_at() {
        let mut index = Index::default();
        index.read(Text { file: "a".into(), content: TEXT.into() });
        let key = ObjectKey { kind: "ClusterNetworkPolicy".into(), namespace: None, name: "watch".into() };
        let beside = index.snapshot().sources.beside(&key).unwrap();
        let lines = |lines: &[&str]| lines.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Vec<_>>();
        assert_eq!(beside.labels, pairs(&[("team", "#1"), ("spare", "")]));
        assert_eq!(beside.annotations, pairs(&[("note", "a"), ("later", "")]));
        assert_eq!(beside.remarks, lines(&["# who may watch", "# the watchers", "# why", "# b", "# never Baseline"]));
        let first = lines(&["# all of these", "# the first", "# yes", "# everybody"]);
        let second = lines(&["# the second,", "# of two"]);
        assert_eq!(beside.rule_remarks, [(Direction::Ingress, 0, first), (Direction::Ingress, 1, second)]);
    }
}
