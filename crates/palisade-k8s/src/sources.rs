//! Where each object came from, so that an answer can point into the user's own text.
//!
//! Only the extent of an object's document is kept. Whoever wants to point at a field pays for reading that document again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use palisade_api::tree::{FieldPath, Node, Span, Value};
use palisade_api::yaml;
use palisade_model::{Location, PolicyRef};

use crate::Text;

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// As the API spells it.
    pub kind: Box<str>,
    /// None for cluster-scoped kinds.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

impl From<&PolicyRef> for ObjectKey {
    fn from(policy: &PolicyRef) -> ObjectKey {
        ObjectKey { kind: policy.kind.as_str().into(), namespace: policy.namespace.clone(), name: policy.name.clone() }
    }
}

/// `NetworkPolicy shop/db`.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// The texts that were read and where in them each object stands.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    texts: Vec<Text>,
    objects: BTreeMap<ObjectKey, Extent>,
}

/// The document an object stands in, and its place in it when the document is a List.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) text: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: usize,
    pub(crate) items: Vec<usize>,
}

/// A marked place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    pub location: Location,
    /// The whole text.
    pub content: Arc<str>,
    /// First byte of the mark.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

impl Sources {
    pub(crate) fn add_text(&mut self, text: Text) -> usize {
        self.texts.push(text);
        self.texts.len() - 1
    }

    pub(crate) fn place(&mut self, key: ObjectKey, extent: Extent) {
        self.objects.insert(key, extent);
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// The place of a field of an object: of the first path that leads all the way, else of as much of a path as exists.
    pub fn find(&self, key: &ObjectKey, paths: &[FieldPath]) -> Option<Excerpt> {
        let extent = self.objects.get(key)?;
        let text = self.texts.get(extent.text)?;
        let document = text.content.get(extent.start..extent.end.max(extent.start))?;
        let document = yaml::documents(document).next()?.ok()?;
        let mut node = &document.root;
        for at in &extent.items {
            node = item(node, *at)?;
        }
        let located = paths.iter().map(|path| (node.locate(path), path.0.len()));
        let mut best: Option<(Span, usize)> = None;
        for ((span, followed), whole) in located {
            if best.is_none_or(|(_, before)| followed > before) {
                best = Some((span, followed));
            }
            if followed == whole {
                break;
            }
        }
        let span = best.map_or(node.span, |(span, _)| span);
        let location = Location { file: text.file.clone(), line: span.line + extent.line - 1, column: span.column };
        Some(Excerpt {
            location,
            content: text.content.clone(),
            start: span.start + extent.start,
            end: trimmed(&text.content, span, extent.start),
        })
    }

    /// Where an object begins.
    pub fn location(&self, key: &ObjectKey) -> Option<Location> {
        self.find(key, &[FieldPath::default()]).map(|excerpt| excerpt.location)
    }
}

pub(crate) fn item<'n, 'a>(node: &'n Node<'a>, at: usize) -> Option<&'n Node<'a>> {
    match &node.get("items")?.value {
        Value::List(items) => items.get(at),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::Map(_) => None,
    }
}

/// The end of a span, without the white space that block structures drag behind them, and never past its first line.
fn trimmed(content: &str, span: Span, offset: usize) -> usize {
    let (start, end) = (span.start + offset, span.end + offset);
    let marked = content.get(start..end).unwrap_or("");
    let line = marked.lines().next().unwrap_or("").trim_end();
    start + line.len()
}
