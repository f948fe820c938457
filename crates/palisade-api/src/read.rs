//! The reader every kind is read with: typed access to a tree that notes each problem with its path and goes on.

use std::borrow::Cow;

use crate::choice::Dialect;
use crate::mend;
use crate::problem::{Consequence, Problem};
use crate::tree::{Entry, FieldPath, Node, Span, Step, Value};

/// Field names of the policy APIs, at whatever level. One of them in a place where it means nothing is a slip, not a newer API.
const VOCABULARY: &[&str] = &[
    "action",
    "allPorts",
    "cidr",
    "destinationNamedPort",
    "destinationPort",
    "domainNames",
    "egress",
    "end",
    "endPort",
    "except",
    "from",
    "ingress",
    "ipBlock",
    "key",
    "l4Selector",
    "matchExpressions",
    "matchLabels",
    "name",
    "namedPort",
    "namespaceAndPodSelector",
    "namespaceSelector",
    "namespacedPods",
    "namespaces",
    "networks",
    "nodes",
    "notSameLabels",
    "notSelf",
    "number",
    "operator",
    "podSelector",
    "pods",
    "policyTypes",
    "port",
    "portNumber",
    "portRange",
    "ports",
    "priority",
    "protocol",
    "protocols",
    "range",
    "sameLabels",
    "sctp",
    "self",
    "spec",
    "start",
    "subject",
    "tcp",
    "tier",
    "to",
    "udp",
    "values",
];

/// Walks one object. Problems are collected, never thrown.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    path: FieldPath,
    /// What becomes of a label whose value is null.
    pub(crate) null_labels: NullLabels,
    /// The words of the cluster policy that is read.
    pub(crate) dialect: Dialect,
    pub(crate) problems: Vec<Problem>,
}

/// What an API server makes of a label whose value is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NullLabels {
    /// The empty string: kinds that are built in.
    #[default]
    Empty,
    /// The whole label is dropped, and a selector gets wider: kinds of a CRD.
    Dropped,
}

/// The fields of one map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'n> {
    pub(crate) span: Span,
    entries: &'n [Entry<'n>],
}

/// What an unknown field looks like.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// A slip of spelling or place; the text says what was probably meant.
    Slip(String),
    /// Nothing we know: a newer API.
    Newer,
}

impl<'n> Fields<'n> {
    /// The value of a field; null counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node<'n>> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        (entry.value.value != Value::Null).then_some(&entry.value)
    }

    /// Keys with a value that are not among `known`.
    pub(crate) fn unknown(&self, known: &'static [&'static str]) -> impl Iterator<Item = &'n Entry<'n>> {
        self.entries.iter().filter(move |entry| !known.contains(&entry.key.as_ref()))
    }

    pub(crate) fn entries(&self) -> &'n [Entry<'n>] {
        self.entries
    }
}

/// Whether `key` is a slip for one of `known`, or something newer.
pub(crate) fn classify(key: &str, known: &[&str]) -> Unknown {
    if let Some(meant) = near(key, known, 2) {
        return Unknown::Slip(format!("did you mean `{meant}`?"));
    }
    if let Some(word) = VOCABULARY.iter().find(|word| word.eq_ignore_ascii_case(key)) {
        return Unknown::Slip(format!("`{word}` does not belong here; here belong {}", known.join(", ")));
    }
    Unknown::Newer
}

/// The known name that `key` is a misspelling of, if any: other case, or few letters off.
pub(crate) fn near<'k>(key: &str, known: &[&'k str], at_most: usize) -> Option<&'k str> {
    let allowed = |name: &str| if name.len() <= 4 { at_most.min(1) } else { at_most };
    let same_but_case = known.iter().find(|name| name.eq_ignore_ascii_case(key));
    let length = key.chars().count();
    // The distance is at least the difference in length, which is much cheaper to find.
    let comparable = |name: &&&str| **name != key && name.len().abs_diff(length) <= allowed(name);
    let close = || known.iter().filter(comparable).find(|name| strsim::osa_distance(name, key) <= allowed(name));
    same_but_case.or_else(close).copied()
}

impl Reader {
    /// Runs `body` one field deeper.
    pub(crate) fn within<T>(&mut self, name: impl Into<Cow<'static, str>>, body: impl FnOnce(&mut Reader) -> T) -> T {
        self.step(Step::Field(name.into()), body)
    }

    /// Runs `body` one step deeper.
    pub(crate) fn step<T>(&mut self, step: Step, body: impl FnOnce(&mut Reader) -> T) -> T {
        self.path.0.push(step);
        let result = body(self);
        self.path.0.pop();
        result
    }

    /// Goes to another place, and says which it was.
    pub(crate) fn replace_path(&mut self, path: FieldPath) -> FieldPath {
        std::mem::replace(&mut self.path, path)
    }

    /// The path of what is being read.
    pub(crate) fn path(&self) -> &FieldPath {
        &self.path
    }

    pub(crate) fn problem(
        &mut self,
        consequence: Consequence,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let path = self.path.clone();
        self.problems.push(Problem { consequence, code, path, span, message: message.into(), help });
    }

    /// A value that the API server would not take.
    pub(crate) fn invalid(&mut self, span: Span, message: impl Into<String>) {
        self.problem(Consequence::Refused, "invalid-value", span, message, None);
    }

    /// A value that the API server would not take, and what to write instead.
    pub(crate) fn invalid_with_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.problem(Consequence::Refused, "invalid-value", span, message, Some(help.into()));
    }

    pub(crate) fn wrong_type(&mut self, node: &Node<'_>, wanted: &str) {
        let help = match (&node.value, wanted) {
            (Value::Bool(_) | Value::Int(_) | Value::Number(_), "a string") => Some("quote it".to_owned()),
            (Value::Map(_), "a list") => {
                let field = self.path.0.last().and_then(|it| match it {
                    Step::Field(name) => Some(name.clone()),
                    Step::Index(_) => None,
                });
                let line = field.and_then(|name| mend::line_of_list(&name, node));
                Some(line.unwrap_or_else(|| "start each entry with `- `".to_owned()))
            }
            (Value::Str(text), "an integer") if text.parse::<i64>().is_ok() => Some("leave out the quotes".to_owned()),
            (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_), _) => None,
        };
        let message = format!("this is {}, but the API wants {wanted}", node.value.what());
        self.problem(Consequence::Refused, "wrong-type", node.span, message, help);
    }

    /// The fields of a map.
    pub(crate) fn fields<'n>(&mut self, node: &'n Node<'n>) -> Option<Fields<'n>> {
        match &node.value {
            Value::Map(entries) => Some(Fields { span: node.span, entries }),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) => {
                self.wrong_type(node, "a map");
                None
            }
        }
    }

    /// Refuses every key that the typed form does not have: the API server would drop it, and what is left is usually wider.
    pub(crate) fn only(&mut self, fields: &Fields<'_>, known: &'static [&'static str]) {
        for entry in fields.unknown(known) {
            self.refuse_field(entry, known);
        }
    }

    /// Refuses one field.
    pub(crate) fn refuse_field(&mut self, entry: &Entry<'_>, known: &[&str]) {
        let line = near(&entry.key, known, 2).and_then(|meant| mend::line(meant, &entry.value));
        let help = match (classify(&entry.key, known), line) {
            (Unknown::Slip(help), Some(line)) => format!("{help} {line}"),
            (Unknown::Slip(help), None) => help,
            (Unknown::Newer, _) => format!("known here: {}", known.join(", ")),
        };
        let message = "the API does not know this field; an API server drops it, and what is left can be wider than what was meant";
        let key = entry.key.to_string();
        self.within(key, |r| r.problem(Consequence::Refused, "unknown-field", entry.key_span, message, Some(help)));
    }

    /// Refuses misspellings of the fields that are read, in objects of which only a part is read.
    pub(crate) fn no_slips(&mut self, fields: &Fields<'_>, known: &'static [&'static str]) {
        for entry in fields.unknown(known) {
            if near(&entry.key, known, 1).is_some() {
                self.refuse_field(entry, known);
            }
        }
    }

    /// Reads a field, if it is there.
    pub(crate) fn optional<'n, T>(
        &mut self,
        fields: &Fields<'n>,
        name: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node<'n>) -> Option<T>,
    ) -> Option<T> {
        let node = fields.get(name)?;
        self.within(name, |r| read(r, node))
    }

    /// Reads a field that must be there.
    pub(crate) fn required<'n, T>(
        &mut self,
        fields: &Fields<'n>,
        name: &'static str,
        read: impl FnOnce(&mut Reader, &'n Node<'n>) -> Option<T>,
    ) -> Option<T> {
        if fields.get(name).is_none() {
            self.within(name, |r| r.problem(Consequence::Refused, "missing-field", fields.span, "this field is required", None));
            return None;
        }
        self.optional(fields, name, read)
    }

    /// Reads a list, if it is there. Absent, null and empty are one thing. Items that cannot be read are missing from the result, and
    /// their problem is noted: whoever calls this refuses the object for it.
    pub(crate) fn list<'n, T>(
        &mut self,
        fields: &Fields<'n>,
        name: &'static str,
        mut read: impl FnMut(&mut Reader, &'n Node<'n>) -> Option<T>,
    ) -> Vec<T> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        self.within(name, |r| {
            let Value::List(items) = &node.value else {
                r.wrong_type(node, "a list");
                return Vec::new();
            };
            r.each(items, &mut read).into_iter().flatten().collect()
        })
    }

    /// Reads every item of a list.
    pub(crate) fn each<'n, T>(
        &mut self,
        items: &'n [Node<'n>],
        mut read: impl FnMut(&mut Reader, &'n Node<'n>) -> Option<T>,
    ) -> Vec<Option<T>> {
        items.iter().enumerate().map(|(at, item)| self.step(Step::Index(at), |r| read(r, item))).collect()
    }

    /// Says that a list is longer or shorter than the API allows.
    pub(crate) fn count(&mut self, fields: &Fields<'_>, name: &'static str, least: usize, most: usize) {
        let Some(node) = fields.get(name) else { return };
        let Value::List(items) = &node.value else { return };
        if items.len() < least || items.len() > most {
            let message = format!("{} entries, but the API takes {least} to {most}", items.len());
            self.within(name, |r| r.invalid(node.span, message));
        }
    }

    pub(crate) fn string<'n>(&mut self, node: &'n Node<'n>) -> Option<&'n str> {
        if node.as_str().is_none() {
            self.wrong_type(node, "a string");
        }
        node.as_str()
    }

    pub(crate) fn integer(&mut self, node: &Node<'_>) -> Option<i64> {
        match node.value {
            Value::Int(number) => Some(number),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_type(node, "an integer");
                None
            }
        }
    }

    pub(crate) fn boolean(&mut self, node: &Node<'_>) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            Value::Null | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_type(node, "true or false");
                None
            }
        }
    }

    /// An integer between two bounds.
    pub(crate) fn bounded<T: TryFrom<i64>>(&mut self, node: &Node<'_>, least: i64, most: i64) -> Option<T> {
        let number = self.integer(node)?;
        let value = T::try_from(number).ok().filter(|_| (least..=most).contains(&number));
        if value.is_none() {
            self.invalid(node.span, format!("`{number}` is not between {least} and {most}"));
        }
        value
    }

    /// A port number.
    pub(crate) fn port(&mut self, node: &Node<'_>) -> Option<u16> {
        self.bounded(node, 1, 65535)
    }

    /// A map from strings to strings, such as labels.
    pub(crate) fn string_map<'n>(&mut self, node: &'n Node<'n>) -> Option<Vec<(&'n str, &'n str)>> {
        let fields = self.fields(node)?;
        let mut pairs = Vec::with_capacity(fields.entries.len());
        for entry in fields.entries {
            let value = match (entry.value.value == Value::Null, self.null_labels) {
                (true, NullLabels::Empty) => Some(""),
                (true, NullLabels::Dropped) => {
                    let help = Some("give it a value, or `\"\"` if the empty one is meant".to_owned());
                    let message = "an API server drops a label without a value here, and what is left is wider";
                    let key = entry.key.to_string();
                    self.within(key, |r| r.problem(Consequence::Refused, "invalid-value", entry.key_span, message, help));
                    None
                }
                (false, _) => self.within(entry.key.to_string(), |r| r.string(&entry.value)),
            };
            pairs.extend(value.map(|value| (entry.key.as_ref(), value)));
        }
        Some(pairs)
    }
}
