//! The objects that were read, and the model they make.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_api::tree::{Entry, Node, Span, Value};
use palisade_api::{Body, Consequence, Object, Problem, Skipped, names, read_object, yaml};
use palisade_model::{Diagnostic, Location, Model, PolicyRef, Severity, Shape};

use crate::Text;
use crate::controller::{Controller, Labelled, ReadAs, policy_meta};
use crate::sources::{Extent, ObjectKey, Sources};
use crate::words::quoted;
use crate::{cluster, policy};

/// Objects by name. What is read later replaces what was read before, as `kubectl apply` would.
#[derive(Clone, Debug, Default)]
pub struct Index {
    pub(crate) objects: BTreeMap<ObjectKey, Body>,
    pub(crate) sources: Sources,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) irrelevant: BTreeMap<String, usize>,
    controller: Controller,
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

    /// Removes one object, as if it had never been read.
    pub fn delete(&mut self, key: &ObjectKey) -> bool {
        let key = self.sources.resolved(key).into_owned();
        self.sources.forget(&key);
        self.objects.remove(&key).is_some()
    }

    /// Adds what the source of the input noticed: files that are missing, resources that are forbidden.
    pub fn note(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        self.diagnostics.extend(diagnostics);
    }

    /// What the objects mean.
    pub fn snapshot(&self) -> Snapshot {
        let mut model = cluster::model(self.objects.iter());
        let mut diagnostics = self.diagnostics.clone();
        let mut kep2091 = BTreeSet::new();
        let mut audited = Vec::new();
        for (key, body) in &self.objects {
            let read_as = self.controller.reads(body);
            // SPEC: semantics 4: the policy of another controller does not exist.
            if let ReadAs::Foreign(controller) = read_as {
                diagnostics.push(self.controller.ignored(key, controller, self.sources.location(key)));
                model.foreign.extend(policy::of(key, body).map(|it| it.origin));
                continue;
            }
            let Some(policy) = policy::of(key, body) else { continue };
            if policy.shape == Shape::Kep2091 && !kep2091.insert(key.name.as_ref()) {
                diagnostics.push(self.same_reference(key));
                continue;
            }
            match read_as {
                ReadAs::Audited { set, label } => {
                    if label.is_none() {
                        diagnostics.push(Controller::audited_by_some(key, self.sources.location(key)));
                    }
                    let promoted_as = label.and_then(|it| self.controller.instead_of(it)).map(Into::into);
                    audited.push(Audited {
                        set: set.into(),
                        policy: policy.origin.clone(),
                        controller: label.map(Into::into),
                        promoted_as,
                    });
                    model.audited.entry(set.into()).or_default().push(policy);
                }
                ReadAs::Counting | ReadAs::Foreign(_) => {
                    if let Some(meta) = policy_meta(body) {
                        let (rules, odd) = policy::logged(&policy, &meta.logging);
                        model.logged.extend(rules);
                        diagnostics.extend(odd.into_iter().map(|message| self.logs_nothing(key, message)));
                    }
                    model.policies.push(policy);
                }
            }
        }
        audited.sort_unstable();
        let labelled = self.controller.labelled(self.objects.iter());
        policy::sort(&mut model);
        model.foreign.sort_unstable();
        diagnostics.extend(self.assume_namespaces(&mut model));
        diagnostics.extend(shared_addresses(&model));
        let all = if model.audited.is_empty() { Cow::Borrowed(&model) } else { Cow::Owned(model.with_all_audited()) };
        diagnostics.extend(policy::relations(&all, &self.sources));
        diagnostics.extend(policy::merged_order(&model));
        Snapshot { model, diagnostics, sources: self.sources.clone(), irrelevant: self.irrelevant.clone(), labelled, audited }
    }

    fn logs_nothing(&self, key: &ObjectKey, message: String) -> Diagnostic {
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

    fn assume_namespaces(&self, model: &mut Model) -> Option<Diagnostic> {
        let referred: BTreeSet<Box<str>> = self.objects.keys().filter_map(|key| key.namespace.clone()).collect();
        let assumed: Vec<Box<str>> = referred.into_iter().filter(|name| !model.namespaces.contains_key(name)).collect();
        for name in &assumed {
            cluster::assume_namespace(model, name);
        }
        let (noun, verb) = if assumed.len() == 1 { ("namespace", "is") } else { ("namespaces", "are") };
        let message = format!("{noun} {} {verb} assumed, with no label but kubernetes.io/metadata.name", quoted(&assumed));
        let help = Some("add the Namespace objects if policies select namespaces by other labels".into());
        let (object, path) = (Box::default(), Box::default());
        let code = "assumed-namespace";
        (!assumed.is_empty()).then(|| Diagnostic {
            severity: Severity::Note,
            code,
            location: None,
            object,
            path,
            message: message.into(),
            help,
        })
    }

    /// Takes one object, or each object of a List.
    fn take(&mut self, file: &Arc<str>, node: &Node<'_>, text: usize) {
        if let Some(items) = list_items(node) {
            for item in items {
                self.take(file, &named_by_list(node, item), text);
            }
            return;
        }
        let extent = Extent { text, span: node.span };
        let object = read_object(node);
        let key = key_of(&object, file, node.span);
        for problem in &object.problems {
            self.diagnostics.push(diagnose(file, &key, problem));
        }
        match object.body {
            Body::Nothing(Skipped::Irrelevant) => *self.irrelevant.entry(object.kind).or_default() += 1,
            Body::Nothing(Skipped::Refused) => {
                // What was read before under this name is not what the user has now.
                self.objects.remove(&key);
                self.sources.place(key, extent);
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
                self.note_duplicate(file, &key, node.span);
                self.objects.insert(key.clone(), body);
                self.sources.place(key, extent);
            }
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

fn key_of(object: &Object, file: &Arc<str>, span: Span) -> ObjectKey {
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

fn shared_addresses(model: &Model) -> Vec<Diagnostic> {
    let mut owners = BTreeMap::new();
    let mut shared = Vec::new();
    for endpoint in &model.endpoints {
        for address in &endpoint.addresses {
            if let Some(first) = owners.insert(*address, &endpoint.name) {
                shared.push(Diagnostic {
                    severity: Severity::Warning,
                    code: "shared-address",
                    location: None,
                    object: format!("Pod {}", endpoint.name).into(),
                    path: "status.podIPs".into(),
                    message: format!("{address} is also the address of {first}; packets cannot tell them apart").into(),
                    help: None,
                });
            }
        }
    }
    shared
}
