//! Objects of a live cluster, as an API server sends them.

use std::sync::Arc;

use palisade_api::json::{self, TypeMeta};
use palisade_api::tree::Span;
use palisade_api::yaml::{Unreadable, documents};
use palisade_api::{Body, Object, closed, read_object};
use palisade_model::{Diagnostic, Location, Severity};

use super::{Place, Written, yaml};
use crate::{Index, Text};

/// An object of a live cluster. Its JSON is read when it arrives, and kept only where an excerpt of it may be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveObject {
    source: LiveSource,
    object: Object,
    /// Why no more than the name of the object could be read.
    unreadable: Option<Unreadable>,
}

/// Where a live object came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveSource {
    /// The name that messages use: `cluster/networkpolicies/shop/db`.
    file: Arc<str>,
    /// None for pods, nodes and workloads. No answer quotes them, and there are many.
    json: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Json {
    of: Arc<TypeMeta>,
    content: Arc<str>,
}

impl LiveObject {
    /// Reads one item of the list of a resource, whose name in messages is `list`: `cluster/networkpolicies`.
    pub fn read(list: &str, of: &Arc<TypeMeta>, content: &str) -> LiveObject {
        let (object, unreadable) = match json::object(content.as_bytes(), Some(of)) {
            Ok(object) => (object, None),
            Err(problem) => {
                let (namespace, name) = json::name(content.as_bytes());
                (closed::unread(of, namespace, name), Some(problem))
            }
        };
        let name = object.name.as_deref().unwrap_or_default();
        let file = match &object.namespace {
            Some(namespace) => format!("{list}/{namespace}/{name}"),
            None => format!("{list}/{name}"),
        };
        let json = Json { of: Arc::clone(of), content: content.into() };
        let object = if unreadable.is_none() { json.with_positions(object) } else { object };
        let json = (unreadable.is_none() && is_quoted(&object.body)).then_some(json);
        LiveObject { source: LiveSource { file: file.into(), json }, object, unreadable }
    }

    /// The name that messages use.
    pub fn file(&self) -> &Arc<str> {
        &self.source.file
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// The name of its list in messages.
    pub(crate) fn list(&self) -> &str {
        let parts = if self.object.namespace.is_some() { 2 } else { 1 };
        self.source.file.rsplitn(parts + 1, '/').nth(parts).unwrap_or_default()
    }

    /// The object as YAML, where it may be quoted.
    pub fn text(&self) -> Option<Text> {
        self.source.written().map(|it| it.text)
    }
}

/// Whether an answer may show lines of such an object.
fn is_quoted(body: &Body) -> bool {
    match body {
        Body::Pod(_) | Body::Node(_) | Body::Workload(_) => false,
        Body::NetworkPolicy(_) | Body::ClusterNetworkPolicy(_) | Body::AdminNetworkPolicy(_) | Body::BaselineAdminNetworkPolicy(_) => true,
        Body::Kep2091(_) | Body::Namespace(_) | Body::Service(_) | Body::Nothing(_) => true,
    }
}

impl LiveSource {
    pub(crate) fn file(&self) -> &Arc<str> {
        &self.file
    }

    pub(super) fn location(&self) -> Location {
        Location { file: Arc::clone(&self.file), line: 1, column: 1 }
    }

    /// The object as YAML.
    pub(super) fn written(&self) -> Option<Written> {
        let content: Arc<str> = self.json.as_ref()?.to_yaml()?.into();
        let span = documents(&content).next()?.ok()?.span;
        Some(Written { text: Text { file: Arc::clone(&self.file), content }, span })
    }
}

impl Json {
    fn to_yaml(&self) -> Option<String> {
        let tree = json::tree(self.content.as_bytes(), Some(&self.of)).ok()?;
        Some(yaml::document(&tree))
    }

    /// The object with the positions in its YAML, which its problems name. Most objects have no problem and are not written.
    fn with_positions(&self, object: Object) -> Object {
        if object.problems.is_empty() {
            return object;
        }
        let content = self.to_yaml().unwrap_or_default();
        let again = documents(&content).next().and_then(Result::ok).map(|it| read_object(&it));
        again.unwrap_or(object)
    }
}

impl Index {
    /// Takes one object of a live cluster. It counts from now on, if it can be read.
    pub fn read_live(&mut self, live: LiveObject) {
        let LiveObject { source, object, unreadable } = live;
        let Location { file, line, column } = source.location();
        self.keep(&file, object, Span { line, column, ..Span::default() }, Place::Live(source));
        if let Some(problem) = unreadable {
            self.live_diagnostics.entry(Arc::clone(&file)).or_default().push(Diagnostic {
                severity: Severity::Error,
                code: "unreadable-document",
                location: Some(Location { file, line: problem.line, column: problem.column }),
                object: Box::default(),
                path: Box::default(),
                message: format!("the JSON of the API server cannot be read: {}", problem.message).into(),
                help: Some("the other objects of this list still count".into()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKey;

    fn live(list: &str, api_version: &str, kind: &str, content: &str) -> LiveObject {
        let of = Arc::new(TypeMeta { api_version: api_version.into(), kind: kind.into() });
        LiveObject::read(list, &of, content)
    }

    #[test]
    fn diagnostics_of_a_live_object_live_as_long_as_its_version() {
        let policy = |selector: &str| {
            let content = format!(r#"{{"metadata": {{"name": "p", "namespace": "x"}}, "spec": {{"podSelector": {selector}}}}}"#);
            live("cluster/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", &content)
        };
        let codes = |index: &Index| index.snapshot().diagnostics.iter().map(|it| it.code).collect::<Vec<_>>();
        let mut index = Index::default();
        index.read_live(policy(r#"{"matchLabel": {}}"#));
        let refused = codes(&index);
        assert_eq!(refused, ["unknown-field", "closed-form", "assumed-namespace"]);
        (0..3).for_each(|_| index.read_live(policy(r#"{"matchLabel": {}}"#)));
        assert_eq!(codes(&index), refused);
        (0..3).for_each(|_| index.read_live(policy("{}")));
        assert_eq!(codes(&index), ["assumed-namespace"]);
        index.read_live(policy(r#"{"matchLabel": {}}"#));
        assert_eq!(codes(&index), refused);
        let key = ObjectKey { kind: "NetworkPolicy".into(), namespace: Some("x".into()), name: "p".into() };
        assert!(index.delete(&key), "a refused policy counts in its closed form");
        assert_eq!(codes(&index), [""; 0]);
    }

    #[test]
    fn a_text_with_the_name_of_a_live_object_replaces_that_object_alone() {
        let policy = |name: &str| {
            let content = format!(r#"{{"metadata": {{"name": "{name}", "namespace": "x"}}, "spec": {{"podSelector": {{}}}}}}"#);
            live("cluster/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy", &content)
        };
        let pod = live("cluster/pods", "v1", "Pod", r#"{"metadata": {"name": "a", "namespace": "x"}, "status": {"podIP": "10.0.0.1"}}"#);
        assert_eq!((&**pod.file(), pod.text()), ("cluster/pods/x/a", None));
        let mut index = Index::default();
        [policy("p"), policy("q"), pod].into_iter().for_each(|it| index.read_live(it));
        let Text { file, content } = policy("q").text().unwrap();
        let changed = Text { file, content: content.replace("podSelector: {}", "podSelector: {matchLabels: {a: b}}").into() };
        let again = index.with_texts(&[changed]).snapshot();
        let subjects: Vec<String> = again.model.policies.iter().map(|it| format!("{} {:?}", it.origin, it.subject)).collect();
        let before: Vec<String> = index.snapshot().model.policies.iter().map(|it| format!("{} {:?}", it.origin, it.subject)).collect();
        assert_eq!((subjects.len(), &subjects[0], again.model.endpoints.len()), (2, &before[0], 1));
        assert_ne!(subjects[1], before[1]);
    }
}
