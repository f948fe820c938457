//! The objects that were read, and the model they make.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_api::networks::{NETWORK_STATUS, POLICY_FOR};
use palisade_api::tree::{Entry, Node, Span, Value};
use palisade_api::{Body, Consequence, Object, Problem, Skipped, names, read_object, yaml};
use palisade_model::{Diagnostic, Location, Model, NetworkId, PolicyRef, Severity};

use crate::Text;
use crate::controller::{Controller, Labelled, policy_meta};
use crate::joins::{AttachmentSource, Dirty, Joins, Standing};
use crate::policy;
use crate::sources::{Extent, ObjectKey, Place, Sources};
use crate::words::quoted;

/// Objects by name. What is read later replaces what was read before, as `kubectl apply` would.
#[derive(Clone, Debug, Default)]
pub struct Index {
    pub(crate) objects: BTreeMap<ObjectKey, Body>,
    pub(crate) sources: Sources,
    /// Diagnostics of texts and of the input as a whole, in input order.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Diagnostics of live objects, by the file name of the object. A newer version of the object replaces them, its deletion removes them.
    pub(crate) live_diagnostics: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    pub(crate) irrelevant: BTreeMap<String, usize>,
    controller: Controller,
    attachments: AttachmentSource,
}

/// What the objects mean, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub model: Model,
    /// Everything that was noticed, in the order of the input.
    pub diagnostics: Vec<Diagnostic>,
    /// Where each object stands.
    pub sources: Sources,
    /// How many objects of each kind were read that policy does not depend on.
    pub irrelevant: BTreeMap<String, usize>,
    /// Which controllers the policies are for, also those that do not count here.
    pub labelled: Vec<Labelled>,
    /// Policies that are watched and not enforced, by set and name.
    pub audited: Vec<Audited>,
}

/// A policy that is watched and not enforced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Audited {
    pub set: Box<str>,
    pub policy: PolicyRef,
    /// The controller that it is for; none for all.
    pub controller: Option<Box<str>>,
    /// The controller that it must be for to count here, where it is switched off.
    pub promoted_as: Option<Box<str>>,
}

impl Index {
    /// No objects, to be seen as a controller sees them.
    pub fn of(controller: Controller) -> Index {
        Index { controller, ..Index::default() }
    }

    /// The same with networks besides the pod network, which a source tells.
    #[must_use]
    pub fn with_attachments(self, attachments: AttachmentSource) -> Index {
        Index { attachments, ..self }
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Reads one text. Its objects count from now on, those that can be read.
    pub fn read(&mut self, text: Text) {
        let content = text.content.clone();
        let file = text.file.clone();
        let at = self.sources.add_text(text);
        for document in yaml::documents(&content) {
            match document {
                Ok(document) if document.value == Value::Null => {}
                Ok(document) => self.take(&file, &document, at),
                Err(problem) => self.unreadable(&file, &content, &problem),
            }
        }
    }

    /// Whether no object was read that policy depends on.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Removes one object. Diagnostics about an object of a live cluster go with it.
    pub fn delete(&mut self, key: &ObjectKey) -> bool {
        let key = self.sources.resolved(key).into_owned();
        if let Some(Place::Live(live)) = self.sources.forget(&key) {
            self.live_diagnostics.remove(live.file());
        }
        self.set_object(&key, None)
    }

    /// Adds what the source of the input noticed: files that are missing, resources that are forbidden.
    pub fn note(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        self.diagnostics.extend(diagnostics);
    }

    /// What the objects mean.
    pub fn snapshot(&self) -> Snapshot {
        let mut joins = Joins::with(self.attachments);
        let model = joins.update(&self.objects, Dirty::All, &self.controller).into_model();
        let of_objects = self.diagnostics.iter().chain(self.live_diagnostics.values().flatten());
        let diagnostics = of_objects.cloned().chain(self.diagnose(&joins, &model)).collect();
        let labelled = self.controller.labelled(self.objects.iter());
        let audited = self.audited(&joins);
        Snapshot { model, diagnostics, sources: self.sources.clone(), irrelevant: self.irrelevant.clone(), labelled, audited }
    }

    /// What is to be said about the objects together, in the order of the keys of policies first.
    pub(crate) fn diagnose(&self, joins: &Joins, model: &Model) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        for (key, entry) in joins.policies.iter() {
            match &entry.standing {
                Standing::Foreign(controller) => {
                    diagnostics.push(self.controller.ignored(key, controller, self.sources.location(key)));
                }
                Standing::Enforced | Standing::Audited { .. } if joins.policies.is_hidden(key, entry) => {
                    diagnostics.push(self.same_reference(key));
                }
                Standing::Enforced => diagnostics.extend(entry.odd.iter().map(|it| self.logs_nothing(key, it))),
                Standing::Audited { label: Some(_), .. } => {}
                Standing::Audited { label: None, .. } => diagnostics.push(Controller::audited_by_some(key, self.sources.location(key))),
            }
        }
        diagnostics.extend(assumed_namespaces(model));
        diagnostics.extend(shared_addresses(model));
        let all = if model.audited.is_empty() { Cow::Borrowed(model) } else { Cow::Owned(model.with_all_audited()) };
        // A policy of several networks has the same problem on each.
        let mut known: Vec<Diagnostic> = Vec::new();
        for found in policy::relations(&all, &self.sources) {
            if model.networks.is_empty() || !known.contains(&found) {
                known.push(found);
            }
        }
        diagnostics.extend(known);
        diagnostics.extend(policy::merged_order(&model.on_network(NetworkId::DEFAULT)));
        diagnostics
    }

    /// The policies that are watched and not enforced, in order.
    fn audited(&self, joins: &Joins) -> Vec<Audited> {
        let mut audited = Vec::new();
        for (key, entry) in joins.policies.iter() {
            let Standing::Audited { set, label } = &entry.standing else { continue };
            if joins.policies.is_hidden(key, entry) {
                continue;
            }
            let promoted_as = label.as_deref().and_then(|it| self.controller.instead_of(it)).map(Into::into);
            let policy = entry.policy.origin.clone();
            audited.push(Audited { set: set.clone(), policy, controller: label.clone(), promoted_as });
        }
        audited.sort_unstable();
        audited
    }

    /// Puts an object into the index, or removes it. Returns whether the index had an object of that name.
    pub(crate) fn set_object(&mut self, key: &ObjectKey, body: Option<Body>) -> bool {
        match body {
            Some(body) => self.objects.insert(key.clone(), body).is_some(),
            None => self.objects.remove(key).is_some(),
        }
    }

    /// The networks of an object that cannot be read.
    fn attachment_problems(&self, file: &Arc<str>, span: Span, key: &ObjectKey, body: &Body) -> Vec<Diagnostic> {
        let (annotation, meta) =
            if let Body::Pod(pod) = body { (NETWORK_STATUS, Some(&pod.meta)) } else { (POLICY_FOR, policy_meta(body)) };
        let problems = self.attachments.problems(key, meta.and_then(|it| it.networks.as_deref()));
        let diagnostic = |message: String| Diagnostic {
            severity: Severity::Error,
            code: "unreadable-network",
            location: Some(Location { file: Arc::clone(file), line: span.line, column: span.column }),
            object: key.to_string().into(),
            path: format!("metadata.annotations[\"{annotation}\"]").into(),
            message: message.into(),
            help: None,
        };
        problems.into_iter().map(diagnostic).collect()
    }

    fn logs_nothing(&self, key: &ObjectKey, message: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            code: "annotation-without-effect",
            location: self.sources.location(key),
            object: key.to_string().into(),
            path: format!("metadata.annotations[\"{}\"]", names::LOG).into(),
            message: message.into(),
            help: None,
        }
    }

    /// Two objects of KEP-2091 in two groups, which answers could not tell apart.
    fn same_reference(&self, key: &ObjectKey) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code: "same-name-in-two-groups",
            location: self.sources.location(key),
            object: key.to_string().into(),
            path: "metadata.name".into(),
            message: "an AdminNetworkPolicy of KEP-2091 has this name in another API group, and both would be called the same; this one is left out".into(),
            help: Some("rename or remove one of them".into()),
        }
    }

    /// Takes one object, or each object of a List.
    fn take(&mut self, file: &Arc<str>, node: &Node<'_>, text: usize) {
        if let Some(items) = list_items(node) {
            for item in items {
                self.take(file, &named_by_list(node, item), text);
            }
            return;
        }
        let place = Place::Text(Extent { text, span: node.span });
        self.keep(file, read_object(node), node.span, place);
    }

    /// Counts an object that was read, with its problems.
    pub(crate) fn keep(&mut self, file: &Arc<str>, object: Object, span: Span, place: Place) {
        let key = key_of(&object, file, span);
        let mut problems: Vec<Diagnostic> = object.problems.iter().map(|problem| diagnose(file, &key, problem)).collect();
        let body = match (object.body, &place) {
            // The user of a file is told to mend it; what a cluster has stored must not widen access until somebody does.
            (Body::Nothing(Skipped::Refused), Place::Live(_)) => {
                problems.extend(object.closed.as_deref().map(|it| closed_form(file, &key, it)));
                object.closed.map_or(Body::Nothing(Skipped::Refused), |it| *it)
            }
            (body, _) => body,
        };
        problems.extend(self.attachment_problems(file, span, &key, &body));
        match &place {
            Place::Text(_) => self.diagnostics.extend(problems),
            // The newest version of the object replaces those before it, and so do its problems.
            Place::Live(_) => self.replace_live_diagnostics(file, problems),
        }
        match body {
            Body::Nothing(Skipped::Irrelevant) => *self.irrelevant.entry(object.kind).or_default() += 1,
            Body::Nothing(Skipped::Refused) => {
                // What was read before under this name is not what the user has now.
                self.set_object(&key, None);
                self.sources.place(key, place);
            }
            body @ (Body::NetworkPolicy(_)
            | Body::ClusterNetworkPolicy(_)
            | Body::AdminNetworkPolicy(_)
            | Body::BaselineAdminNetworkPolicy(_)
            | Body::Kep2091(_)
            | Body::Pod(_)
            | Body::Workload(_)
            | Body::Namespace(_)
            | Body::Node(_)
            | Body::Service(_)) => {
                if !self.sources.is_update(&key, &place) {
                    self.note_duplicate(file, &key, span);
                }
                self.set_object(&key, Some(body));
                self.sources.place(key, place);
            }
        }
    }

    /// Puts the diagnostics of one live object in the place of those that an earlier version of it had.
    pub(crate) fn replace_live_diagnostics(&mut self, file: &Arc<str>, diagnostics: Vec<Diagnostic>) {
        if diagnostics.is_empty() {
            self.live_diagnostics.remove(file);
        } else {
            self.live_diagnostics.insert(Arc::clone(file), diagnostics);
        }
    }

    fn note_duplicate(&mut self, file: &Arc<str>, key: &ObjectKey, span: Span) {
        if !self.objects.contains_key(key) {
            return;
        }
        let earlier = self.sources.location(key).map(|it| format!(" at {it}")).unwrap_or_default();
        let message = format!("the same object was read before{earlier}; this one replaces it");
        let problem = Problem {
            consequence: Consequence::Narrowed,
            code: "duplicate-object",
            path: palisade_api::tree::FieldPath::default(),
            span,
            message,
            help: Some("keep one of them".to_owned()),
        };
        self.diagnostics.push(diagnose(file, key, &problem));
    }

    fn unreadable(&mut self, file: &Arc<str>, content: &str, problem: &yaml::Unreadable) {
        let (before, after) = content.split_at_checked(problem.offset).unwrap_or((content, ""));
        let line = format!("{}{}", before.rsplit('\n').next().unwrap_or(""), after.split('\n').next().unwrap_or(""));
        let help = match (line.contains("{{"), line.starts_with('\t') || line.trim_start_matches(' ').starts_with('\t')) {
            (true, _) => "this looks like a template; render it first: helm template . | palisade … -f -",
            (false, true) => "YAML does not take tabs for indentation",
            (false, false) => problem.help.as_deref().unwrap_or("objects in other documents of this file still count"),
        };
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            code: "unreadable-document",
            location: Some(Location { file: file.clone(), line: problem.line, column: problem.column }),
            object: Box::default(),
            path: Box::default(),
            message: format!("the document cannot be read: {}", problem.message.trim_end_matches('.')).into(),
            help: Some(help.into()),
        });
    }
}

/// The items of a `List`, `PodList` and the like.
fn list_items<'n, 'a>(node: &'n Node<'a>) -> Option<&'n [Node<'a>]> {
    let kind = node.get("kind")?.as_str()?;
    let Value::List(items) = &node.get("items")?.value else { return None };
    kind.ends_with("List").then_some(items)
}

/// Items of a `PodList` have no kind of their own in what the API serves, so they get the list's.
fn named_by_list<'n, 'a>(list: &Node<'a>, item: &'n Node<'a>) -> Cow<'n, Node<'a>> {
    let kind = list.get("kind").and_then(Node::as_str).and_then(|kind| kind.strip_suffix("List"));
    let Some(kind) = kind.filter(|kind| !kind.is_empty() && item.get("kind").is_none()) else { return Cow::Borrowed(item) };
    let mut named = item.clone();
    let Value::Map(entries) = &mut named.value else { return Cow::Borrowed(item) };
    for (key, value) in [("kind", Some(kind)), ("apiVersion", list.get("apiVersion").and_then(Node::as_str))] {
        let missing = entries.iter().all(|entry| entry.key != key);
        let value = value.filter(|_| missing).map(|text| Node { span: item.span, value: Value::Str(text.to_owned().into()) });
        entries.extend(value.map(|value| Entry { key: key.into(), key_span: item.span, value }));
    }
    Cow::Owned(named)
}

const CLUSTER_SCOPED: &[&str] = &[
    "Namespace",
    "Node",
    "ClusterNetworkPolicy",
    "AdminNetworkPolicy",
    "BaselineAdminNetworkPolicy",
    "CiliumClusterwideNetworkPolicy",
    "GlobalNetworkPolicy",
];

pub(crate) fn key_of(object: &Object, file: &Arc<str>, span: Span) -> ObjectKey {
    let namespace = match CLUSTER_SCOPED.contains(&object.kind.as_str()) {
        true => None,
        false => Some(object.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or("default").into()),
    };
    let name = match object.name.as_deref() {
        Some(name) if !name.is_empty() => name.into(),
        Some(_) | None => format!("{file}:{}", span.line).into(),
    };
    let own_group =
        object.api_version.as_deref().is_some_and(|it| it.split_once('/').is_some_and(|(group, _)| group == names::KEP2091_GROUP));
    let kind = if own_group && object.kind == "AdminNetworkPolicy" { names::KEP2091_KIND } else { object.kind.as_str() };
    ObjectKey { kind: kind.into(), namespace, name }
}

fn diagnose(file: &Arc<str>, key: &ObjectKey, problem: &Problem) -> Diagnostic {
    Diagnostic {
        severity: problem.consequence.severity(),
        code: problem.code,
        location: Some(Location { file: file.clone(), line: problem.span.line, column: problem.span.column }),
        object: if *key.kind == *"document" { Box::default() } else { key.to_string().into() },
        path: problem.path.to_string().into(),
        message: problem.message.as_str().into(),
        help: problem.help.as_deref().map(Into::into),
    }
}

/// Says what a policy of a live cluster does that is refused.
fn closed_form(file: &Arc<str>, key: &ObjectKey, closed: &Body) -> Diagnostic {
    let message = match closed {
        Body::NetworkPolicy(policy) if policy.pod_selector.selects_everything() => {
            "cannot be read as a whole; until it can, every pod of its namespace is isolated in both directions"
        }
        Body::NetworkPolicy(_) => "cannot be read as a whole; until it can, the pods it selects are isolated in both directions",
        Body::ClusterNetworkPolicy(_)
        | Body::AdminNetworkPolicy(_)
        | Body::BaselineAdminNetworkPolicy(_)
        | Body::Kep2091(_)
        | Body::Pod(_)
        | Body::Workload(_)
        | Body::Namespace(_)
        | Body::Node(_)
        | Body::Service(_)
        | Body::Nothing(_) => {
            "cannot be read as a whole; until it can, rules with an error accept nothing, or deny everything if they deny or pass"
        }
    };
    Diagnostic {
        severity: Severity::Error,
        code: "closed-form",
        location: Some(Location { file: Arc::clone(file), line: 1, column: 1 }),
        object: key.to_string().into(),
        path: Box::default(),
        message: message.into(),
        help: Some("correct the fields that the other messages about this object name".into()),
    }
}

fn assumed_namespaces(model: &Model) -> Option<Diagnostic> {
    let assumed: Vec<Box<str>> = model.namespaces.iter().filter(|(_, it)| it.assumed).map(|(name, _)| name.clone()).collect();
    let (noun, verb) = if assumed.len() == 1 { ("namespace", "is") } else { ("namespaces", "are") };
    let message = format!("{noun} {} {verb} assumed, with no label but kubernetes.io/metadata.name", quoted(&assumed));
    (!assumed.is_empty()).then(|| Diagnostic {
        severity: Severity::Note,
        code: "assumed-namespace",
        location: None,
        object: Box::default(),
        path: Box::default(),
        message: message.into(),
        help: Some("add the Namespace objects if policies select namespaces by other labels".into()),
    })
}

fn shared_addresses(model: &Model) -> Vec<Diagnostic> {
    let mut owners = BTreeMap::new();
    let mut shared = Vec::new();
    for endpoint in &model.endpoints {
        for address in &endpoint.addresses {
            if let Some(first) = owners.insert((endpoint.network(), *address), &endpoint.name) {
                shared.push(Diagnostic {
                    severity: Severity::Warning,
                    code: "shared-address",
                    location: None,
                    object: format!("Pod {}", endpoint.name).into(),
                    path: if endpoint.attachment.is_none() { "status.podIPs" } else { "metadata.annotations" }.into(),
                    message: format!("{address} is also the address of {first}; packets cannot tell them apart").into(),
                    help: None,
                });
            }
        }
    }
    shared
}
