//! The objects of a live cluster, as one who follows a watch of them needs them: what each contributes to the model, and no object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_api::tree::Span;
use palisade_api::{Body, Skipped};
use palisade_model::{Changes, Diagnostic, Model, Revision};

use crate::controller::Controller;
use crate::index::{Index, key_of};
use crate::joins::{AttachmentSource, Before, Dirty, Joins};
use crate::sources::{LiveObject, ObjectKey};

/// Follows the lists and watches of a live cluster and emits the changes of the model. Between two calls of [`LiveIndex::changes`] it has the objects
/// that arrived; afterwards it keeps their contributions, the workloads, the JSON of policies for excerpts, and the diagnostics.
#[derive(Clone, Debug, Default)]
pub struct LiveIndex {
    /// Objects that arrived since `changes` was last called, and all workloads.
    index: Index,
    joins: Joins,
    /// Objects that were set or removed since then.
    dirty: BTreeMap<ObjectKey, Before>,
    revision: Revision,
    /// The list that has objects of each kind, by the kind of their keys.
    lists: BTreeMap<Box<str>, Box<str>>,
    /// Lists that have begun, each with the objects that it has named so far.
    begun: BTreeMap<Box<str>, Named>,
}

/// The objects that a list has named.
#[derive(Clone, Debug)]
enum Named {
    /// No object of the list was known when it began, so none can be missing from it.
    First,
    Again {
        objects: BTreeSet<ObjectKey>,
        /// The names in messages of objects that have diagnostics.
        files: BTreeSet<Arc<str>>,
    },
}

impl LiveIndex {
    /// No objects, to be seen as a controller sees them.
    pub fn of(controller: Controller) -> LiveIndex {
        LiveIndex { index: Index::of(controller), ..LiveIndex::default() }
    }

    /// The same with networks besides the pod network, which a source tells.
    #[must_use]
    pub fn with_attachments(self, attachments: AttachmentSource) -> LiveIndex {
        LiveIndex { index: self.index.with_attachments(attachments), joins: Joins::with(attachments), ..self }
    }

    /// Begins a list of a resource, whose name in messages is `list`. Objects that are not read before `end_list` are deleted then.
    pub fn begin_list(&mut self, list: &str) {
        let is_known = self.lists.values().any(|it| **it == *list) || self.index.live_diagnostics.keys().any(|it| is_in(list, it));
        let again = Named::Again { objects: BTreeSet::new(), files: BTreeSet::new() };
        self.begun.insert(list.into(), if is_known { again } else { Named::First });
    }

    /// Ends a list: deletes the objects of the resource that the list did not name.
    pub fn end_list(&mut self, list: &str) {
        let Some(Named::Again { objects, files }) = self.begun.remove(list) else { return };
        let kinds: Vec<Box<str>> = self.lists.iter().filter(|(_, it)| ***it == *list).map(|(kind, _)| kind.clone()).collect();
        for kind in kinds {
            let known = self.joins.keys(&kind).into_iter().chain(self.dirty.keys().cloned());
            let gone: BTreeSet<ObjectKey> = known.filter(|it| it.kind == kind && !objects.contains(it)).collect();
            for key in gone {
                self.remove(&key);
            }
        }
        self.index.live_diagnostics.retain(|file, _| !is_in(list, file) || files.contains(file));
    }

    /// Takes one object. It counts from now on, if it can be read.
    pub fn read_live(&mut self, live: LiveObject) {
        let (key, file) = (live.key(), Arc::clone(live.file()));
        // An object of another API group may have the kind and the name of one that counts.
        let counts = !matches!(live.object().body, Body::Nothing(Skipped::Irrelevant));
        if counts {
            self.mark(&key);
            let list = self.lists.entry(key.kind.clone()).or_insert_with(|| live.list().into());
            if let Some(Named::Again { objects, .. }) = self.begun.get_mut(list) {
                objects.insert(key.clone());
            }
        }
        self.index.read_live(live);
        if self.index.live_diagnostics.contains_key(&file) {
            for (_, named) in self.begun.iter_mut().filter(|(list, _)| is_in(list, &file)) {
                if let Named::Again { files, .. } = named {
                    files.insert(Arc::clone(&file));
                }
            }
        }
        if counts && !self.index.objects.get(&key).is_some_and(is_policy) {
            self.index.sources.forget(&key);
        }
    }

    /// Removes an object, as the API server sends it last, with its diagnostics. Returns whether the object was known.
    pub fn delete_live(&mut self, live: &LiveObject) -> bool {
        let had_diagnostics = self.index.live_diagnostics.remove(live.file()).is_some();
        let counts = !matches!(live.object().body, Body::Nothing(Skipped::Irrelevant));
        (counts && self.remove(&live.key())) || had_diagnostics
    }

    fn remove(&mut self, key: &ObjectKey) -> bool {
        let was_known = self.is_known(key);
        if was_known {
            self.mark(key);
        }
        self.index.sources.forget(key);
        self.index.set_object(key, None);
        was_known
    }

    /// Whether the object counts now.
    fn is_known(&self, key: &ObjectKey) -> bool {
        if self.dirty.contains_key(key) { self.index.objects.contains_key(key) } else { self.joins.has(key) }
    }

    /// Notes that an object may differ at the next call of `changes`.
    fn mark(&mut self, key: &ObjectKey) {
        if !self.dirty.contains_key(key) {
            let before = if self.joins.has(key) { Before::Present } else { Before::Absent };
            self.dirty.insert(key.clone(), before);
        }
    }

    /// The changes of the model since the last call, or since there were no objects. A caller that reads a long list may ask for the changes of each
    /// part of it; the model is that of the cluster when every list has ended.
    pub fn changes(&mut self) -> Changes {
        let dirty = std::mem::take(&mut self.dirty);
        let mut changes = self.joins.update(&self.index.objects, Dirty::Some(&dirty), self.index.controller());
        for key in dirty.keys() {
            if !matches!(self.index.objects.get(key), Some(Body::Workload(_))) {
                self.index.objects.remove(key);
            }
        }
        changes.from = self.revision;
        changes.to = changes.revision_after(changes.from);
        self.revision = changes.to;
        changes
    }

    /// Everything that is to be said about the objects, as [`Index::snapshot`] says it. `model` is the model that the changes so far lead to.
    pub fn diagnostics(&self, model: &Model) -> Vec<Diagnostic> {
        let of_objects = self.index.live_diagnostics.values().flatten();
        of_objects.cloned().chain(self.index.diagnose(&self.joins, model)).collect()
    }

    /// Whether the changes so far left nothing behind. True again when all objects are deleted and `changes` was called after that.
    pub fn has_no_residue(&self) -> bool {
        let LiveIndex { index, joins, dirty, revision, lists: _, begun } = self;
        let nothing_stored = index.is_empty() && index.sources.keys().next().is_none() && index.live_diagnostics.is_empty();
        nothing_stored && joins.is_empty() && dirty.is_empty() && *revision == Revision::default() && begun.is_empty()
    }
}

/// Whether an object has a name in messages that is of a list.
fn is_in(list: &str, file: &str) -> bool {
    file.strip_prefix(list).is_some_and(|it| it.starts_with('/'))
}

impl LiveObject {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        key_of(self.object(), self.file(), Span { line: 1, column: 1, ..Span::default() })
    }
}

fn is_policy(body: &Body) -> bool {
    match body {
        Body::NetworkPolicy(_) | Body::ClusterNetworkPolicy(_) | Body::AdminNetworkPolicy(_) => true,
        Body::BaselineAdminNetworkPolicy(_) | Body::Kep2091(_) => true,
        Body::Pod(_) | Body::Workload(_) | Body::Namespace(_) | Body::Node(_) | Body::Service(_) | Body::Nothing(_) => false,
    }
}
