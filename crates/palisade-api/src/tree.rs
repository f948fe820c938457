//! An object as it was written: a tree of values, each with its place in the text.
//!
//! Typed reading walks this tree, and so does whoever later wants to point at a field. It is never changed.

use std::borrow::Cow;
use std::fmt;

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
    /// Column of the first byte in characters, from 1.
    pub column: usize,
}

/// One value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    pub span: Span,
    pub value: Value<'a>,
}

/// A value as kubectl would send it to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is no 64-bit integer, as written.
    Number(Cow<'a, str>),
    Str(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// One key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    pub key: Cow<'a, str>,
    pub key_span: Span,
    pub value: Node<'a>,
}

impl Value<'_> {
    /// What this is, in a user's words.
    pub fn what(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a number",
            Value::Number(_) => "a number that is not an integer",
            Value::Str(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

impl<'a> Node<'a> {
    /// The value of a field of a map. Null counts as absent, as it does for the API server.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        let Value::Map(entries) = &self.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == key)?;
        (entry.value.value != Value::Null).then_some(&entry.value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The span of what a path leads to, and how many steps of the path exist. A path that ends in a key leads to the key with its
    /// value.
    pub fn locate(&self, path: &FieldPath) -> (Span, usize) {
        let mut node = self;
        let mut span = self.span;
        for (followed, step) in path.0.iter().enumerate() {
            match (step, &node.value) {
                (Step::Field(name), Value::Map(entries)) => {
                    let Some(entry) = entries.iter().find(|entry| entry.key == **name) else { return (span, followed) };
                    span = entry.span();
                    node = &entry.value;
                }
                (Step::Index(at), Value::List(items)) => {
                    let Some(item) = items.get(*at) else { return (span, followed) };
                    span = item.span;
                    node = item;
                }
                (Step::Field(_) | Step::Index(_), _) => return (span, followed),
            }
        }
        (span, path.0.len())
    }
}

impl Entry<'_> {
    fn span(&self) -> Span {
        Span { end: self.value.span.end.max(self.key_span.end), ..self.key_span }
    }
}

/// A path from an object to one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(pub Vec<Step>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Field(Cow<'static, str>),
    Index(usize),
}

impl FieldPath {
    /// This path and one field more.
    #[must_use]
    pub fn field(mut self, name: impl Into<Cow<'static, str>>) -> FieldPath {
        self.0.push(Step::Field(name.into()));
        self
    }

    /// This path and one list item more.
    #[must_use]
    pub fn index(mut self, at: usize) -> FieldPath {
        self.0.push(Step::Index(at));
        self
    }
}

/// `spec.ingress[0].from[1]`, with keys that hold a dot or a slash in quotes.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Field(name) if name.contains(['.', '/', ' ']) => write!(f, "[\"{name}\"]")?,
                Step::Field(name) if at == 0 => write!(f, "{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}
