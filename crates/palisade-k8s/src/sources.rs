//! Where each object came from, so that an answer can point into the user's own text.
//!
//! Only the extent of an object's document is kept, or the JSON of an object of a live cluster. Pointing at a field costs reading that document again;
//! JSON is written as YAML first, because an excerpt has lines.

mod beside;
mod live;
mod yaml;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use palisade_api::names::KEP2091_KIND;
use palisade_api::tree::{FieldPath, Span};
use palisade_api::yaml::documents;
use palisade_model::{Location, PolicyKind, PolicyRef};

use crate::Text;

pub use beside::Beside;
pub use live::LiveObject;
pub(crate) use live::LiveSource;

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// As the API spells it; with the group, where two groups have a kind of that name and both are read.
    pub kind: Box<str>,
    /// None for cluster-scoped kinds.
    pub namespace: Option<Box<str>>,
    pub name: Box<str>,
}

/// A policy of KEP-2091 gets the key of our own group. Under its original group it is one API object with the shapes that were shipped, and has
/// their key; [`Sources`] looks there too.
impl From<&PolicyRef> for ObjectKey {
    fn from(policy: &PolicyRef) -> ObjectKey {
        let kind = match policy.kind {
            PolicyKind::Kep2091 => KEP2091_KIND,
            kind @ (PolicyKind::NetworkPolicy
            | PolicyKind::ClusterNetworkPolicy
            | PolicyKind::AdminNetworkPolicy
            | PolicyKind::BaselineAdminNetworkPolicy) => kind.as_str(),
        };
        ObjectKey { kind: kind.into(), namespace: policy.namespace.clone(), name: policy.name.clone() }
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
    objects: BTreeMap<ObjectKey, Place>,
}

/// Where an object came from.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Text(Extent),
    Live(LiveSource),
}

/// Where an object stands: its own text, whether that is a document or an item of a List.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) text: usize,
    pub(crate) span: Span,
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
    /// The field that is marked.
    pub path: FieldPath,
}

/// An object as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The text that holds it.
    pub text: Text,
    /// Its own part of that text.
    pub span: Span,
}

impl Sources {
    pub(crate) fn add_text(&mut self, text: Text) -> usize {
        self.texts.push(text);
        self.texts.len() - 1
    }

    pub(crate) fn place(&mut self, key: ObjectKey, place: Place) {
        self.objects.insert(key, place);
    }

    /// Those of another count from now on, where both have an object.
    pub(crate) fn put_over(&mut self, over: Sources) {
        let known = self.texts.len();
        self.texts.extend(over.texts);
        let moved = |place: Place| match place {
            Place::Text(it) => Place::Text(Extent { text: it.text + known, span: it.span }),
            Place::Live(_) => place,
        };
        self.objects.extend(over.objects.into_iter().map(|(key, place)| (key, moved(place))));
    }

    pub(crate) fn texts(&self) -> &[Text] {
        &self.texts
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys()
    }

    pub(crate) fn forget(&mut self, key: &ObjectKey) -> Option<Place> {
        self.objects.remove(key)
    }

    /// Whether an object at `place` is another version of the object that is known, not a second definition: an API server has one object of
    /// each name.
    pub(crate) fn is_update(&self, key: &ObjectKey, place: &Place) -> bool {
        matches!(place, Place::Live(_)) && !matches!(self.objects.get(key), Some(Place::Text(_)))
    }

    /// The key of the object that a policy was read from.
    pub fn key_of(&self, policy: &PolicyRef) -> ObjectKey {
        self.resolved(&ObjectKey::from(policy)).into_owned()
    }

    /// The key itself, or that of the original group.
    pub(crate) fn resolved<'k>(&self, key: &'k ObjectKey) -> Cow<'k, ObjectKey> {
        if *key.kind != *KEP2091_KIND || self.objects.contains_key(key) {
            return Cow::Borrowed(key);
        }
        Cow::Owned(ObjectKey { kind: PolicyKind::Kep2091.as_str().into(), ..key.clone() })
    }

    fn place_of(&self, key: &ObjectKey) -> Option<&Place> {
        self.objects.get(self.resolved(key).as_ref())
    }

    /// The objects that came from a live cluster.
    pub(crate) fn live(&self) -> impl Iterator<Item = (&ObjectKey, &LiveSource)> {
        self.objects.iter().filter_map(|(key, place)| match place {
            Place::Live(live) => Some((key, live)),
            Place::Text(_) => None,
        })
    }

    /// The place of a field of an object: of the first path that leads all the way, else of as much of a path as exists.
    pub fn find(&self, key: &ObjectKey, paths: &[FieldPath]) -> Option<Excerpt> {
        let Written { text, span } = self.written(key)?;
        let own = OwnText::of(&text.content, span)?;
        let document = documents(&own.content).next()?.ok()?;
        let mut best = (document.span, 0, FieldPath::default());
        for path in paths {
            let (span, followed) = document.locate(path);
            if followed > best.1 {
                best = (span, followed, FieldPath(path.0.iter().take(followed).cloned().collect()));
            }
            if followed == path.0.len() {
                break;
            }
        }
        let (line, column) = own.place(best.0);
        let start = own.offset(best.0.start);
        let end = start + first_line(own.content.get(best.0.start..best.0.end).unwrap_or(""));
        let location = Location { file: text.file.clone(), line, column };
        Some(Excerpt { location, content: text.content.clone(), start, end, path: best.2 })
    }

    /// The text of an object. That of a live object is written now, in the order in which kubectl shows fields.
    pub fn written(&self, key: &ObjectKey) -> Option<Written> {
        match self.place_of(key)? {
            Place::Text(extent) => Some(Written { text: self.texts.get(extent.text)?.clone(), span: extent.span }),
            Place::Live(live) => live.written(),
        }
    }

    /// The whole of a field or of an item, if the path leads all the way. The mark may drag white space and comments behind it.
    pub fn whole(&self, key: &ObjectKey, path: &FieldPath) -> Option<Excerpt> {
        let Written { text, span } = self.written(key)?;
        let own = OwnText::of(&text.content, span)?;
        let document = documents(&own.content).next()?.ok()?;
        let (span, followed) = document.locate(path);
        let (line, column) = own.place(span);
        let location = Location { file: text.file.clone(), line, column };
        let (start, end) = (own.offset(span.start), own.offset(span.end));
        (followed == path.0.len()).then(|| Excerpt { location, content: text.content.clone(), start, end, path: path.clone() })
    }

    /// Where an object begins.
    pub fn location(&self, key: &ObjectKey) -> Option<Location> {
        match self.place_of(key)? {
            Place::Text(extent) => {
                let file = self.texts.get(extent.text)?.file.clone();
                Some(Location { file, line: extent.span.line, column: extent.span.column })
            }
            Place::Live(live) => Some(live.location()),
        }
    }
}

/// The text of one object, cut out so that it can be read alone.
struct OwnText {
    content: String,
    span: Span,
    /// Spaces that were put in front, where a block needs its indentation.
    indent: usize,
}

impl OwnText {
    fn of(content: &str, span: Span) -> Option<OwnText> {
        let cut = content.get(span.start..span.end)?;
        // What stands in braces needs no indentation, and may stand far to the right.
        let indent = if cut.starts_with(['{', '[']) { 0 } else { span.column - 1 };
        Some(OwnText { content: format!("{}{cut}", " ".repeat(indent)), span, indent })
    }

    /// Line and column in the whole text.
    fn place(&self, inner: Span) -> (usize, usize) {
        let right = if inner.line == 1 { self.span.column - 1 - self.indent } else { 0 };
        (self.span.line + inner.line - 1, inner.column + right)
    }

    /// Byte in the whole text.
    fn offset(&self, inner: usize) -> usize {
        self.span.start + inner.saturating_sub(self.indent)
    }
}

/// How many bytes of a mark stand on its first line, without the white space that blocks drag behind them.
fn first_line(marked: &str) -> usize {
    marked.lines().next().unwrap_or("").trim_end().len()
}

#[cfg(test)]
mod tests {
    use crate::{Index, ObjectKey, Text};

    #[test]
    fn a_policy_of_kep2091_is_found_in_either_group() {
        let policy = |group: &str, name: &str, subject: &str| {
            let spec = format!("{{priority: 1, subject: {{{subject}: {{}}}}}}");
            format!("{{apiVersion: {group}/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, spec: {spec}}}\n---\n")
        };
        let (shipped, own) = ("policy.networking.k8s.io", "kep2091.palisade.dev");
        let content = [
            policy(shipped, "both", "namespaces"),
            policy(own, "both", "namespaceSelector"),
            policy(shipped, "original", "namespaceSelector"),
        ];
        let mut index = Index::default();
        index.read(Text { file: "f".into(), content: content.concat().into() });
        let snapshot = index.snapshot();
        let place = |key: &ObjectKey| snapshot.sources.location(key).map(|it| it.line);
        let mut found: Vec<(String, String, Option<usize>)> = Vec::new();
        for policy in &snapshot.model.policies {
            let key = snapshot.sources.key_of(&policy.origin);
            assert_eq!(place(&key), place(&ObjectKey::from(&policy.origin)));
            found.push((policy.origin.to_string(), key.to_string(), place(&key)));
        }
        let expected = [
            ("anp/both", "AdminNetworkPolicy both", 1),
            ("kep2091/both", "AdminNetworkPolicy.kep2091.palisade.dev both", 3),
            ("kep2091/original", "AdminNetworkPolicy original", 5),
        ];
        assert_eq!(found, expected.map(|(origin, key, line)| (origin.to_owned(), key.to_owned(), Some(line))));
        assert!(index.delete(&ObjectKey::from(&snapshot.model.policies[2].origin)));
        assert_eq!(index.snapshot().model.policies.len(), 2);
    }
}
