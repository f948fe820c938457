//! From objects to changes of the model.
//!
//! A pod becomes an endpoint only together with its workloads and its node, a node is told addresses by its pods, and a namespace exists while an object
//! is in it. `Joins` keeps what each object contributed, so that a changed object costs only the objects that depend on it. A fresh `Joins` that reads all
//! objects is the definition: reading them one after another, in any order, leads to the same model up to ids.

mod endpoints;
mod networks;
mod nodes;
mod owners;
mod policies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_api::{Body, Pod, Service, Workload};
use palisade_model::{Changes, Delta, Labels, Namespace, PodName, ServiceName};

use crate::controller::Controller;
use crate::joins::endpoints::Endpoints;
use crate::joins::networks::Networks;
use crate::joins::nodes::Nodes;
use crate::joins::policies::Policies;
use crate::sources::ObjectKey;

pub use networks::AttachmentSource;
pub(crate) use owners::Owners;
pub(crate) use policies::Standing;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What the objects contributed to the model so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joins {
    source: AttachmentSource,
    networks: Networks,
    owners: Owners,
    endpoints: Endpoints,
    nodes: Nodes,
    namespaces: BTreeMap<Box<str>, NamespaceEntry>,
    services: BTreeMap<ServiceName, Arc<palisade_model::Service>>,
    pub(crate) policies: Policies,
}

#[derive(Clone, Debug, Default)]
struct NamespaceEntry {
    /// Labels of the Namespace object.
    object: Option<Labels>,
    /// The number of objects in the namespace.
    members: usize,
    given: Option<Arc<Namespace>>,
}

/// Objects that may differ from the last time they were read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dirty<'d> {
    /// All of them; nothing was read before.
    All,
    Some(&'d BTreeMap<ObjectKey, Before>),
}

/// Whether an object was among those that were read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Absent,
    Present,
}

/// Objects that a batch must look at again.
#[derive(Debug, Default)]
struct Stale {
    /// Pods whose chain of workloads may have changed.
    pods: BTreeSet<PodName>,
    workloads: BTreeSet<ObjectKey>,
    namespaces: BTreeSet<Box<str>>,
}

impl Joins {
    /// No objects, to be joined with the attachments of a source.
    pub(crate) fn with(source: AttachmentSource) -> Joins {
        Joins { source, ..Joins::default() }
    }

    /// Reads the objects that may have changed. The changes have no revisions.
    pub(crate) fn update(&mut self, objects: &BTreeMap<ObjectKey, Body>, dirty: Dirty<'_>, controller: &Controller) -> Changes {
        match dirty {
            Dirty::All => self.read(objects, || objects.iter().map(|(key, body)| (key, Before::Absent, Some(body))), controller),
            Dirty::Some(keys) => self.read(objects, || keys.iter().map(|(key, before)| (key, *before, objects.get(key))), controller),
        }
    }

    fn read<'o, I: Iterator<Item = (&'o ObjectKey, Before, Option<&'o Body>)>>(
        &mut self,
        objects: &BTreeMap<ObjectKey, Body>,
        dirty: impl Fn() -> I,
        controller: &Controller,
    ) -> Changes {
        let (mut changes, mut stale) = (Changes::default(), Stale::default());
        for (key, before, body) in dirty() {
            self.count_member(key, before, body, &mut stale);
            if *key.kind == *"Pod" {
                continue;
            }
            let workload = workload(body);
            if self.owners.set(key, workload.map(|it| it.meta.owner.clone())) || workload.is_some() {
                stale.workloads.insert(key.clone());
            }
        }
        self.add_dependents(&mut stale);
        for (key, _, body) in dirty() {
            match body {
                Some(Body::Pod(pod)) => self.set_pod(key, Some(pod), &mut stale, &mut changes),
                Some(Body::Node(node)) => self.nodes.set_object(&key.name, Some(node), &mut changes.node_ranges),
                Some(Body::Namespace(_) | Body::Workload(_)) => {}
                Some(Body::Service(service)) => self.set_service(key, Some(service), &mut changes),
                Some(
                    body @ (Body::NetworkPolicy(_)
                    | Body::ClusterNetworkPolicy(_)
                    | Body::AdminNetworkPolicy(_)
                    | Body::BaselineAdminNetworkPolicy(_)
                    | Body::Kep2091(_)),
                ) => self.policies.set(key, Some(body), controller, self.source, &mut self.networks),
                None | Some(Body::Nothing(_)) => self.forget(key, &mut stale, &mut changes),
            }
        }
        for pod in std::mem::take(&mut stale.pods) {
            self.follow_owners(&pod, &mut stale);
        }
        for key in std::mem::take(&mut stale.workloads) {
            self.set_workload(&key, workload(objects.get(&key)));
        }
        self.networks.give(&mut changes);
        self.nodes.give(&mut changes);
        self.endpoints.give(&self.nodes, &self.networks, &mut changes);
        self.give_namespaces(&stale.namespaces, &mut changes);
        self.policies.give(&self.networks, &mut changes);
        sort(&mut changes);
        changes
    }

    /// Counts the objects of each namespace, and takes the labels of a Namespace object in.
    fn count_member(&mut self, key: &ObjectKey, before: Before, body: Option<&Body>, stale: &mut Stale) {
        let (was, is) = (before == Before::Present, body.is_some());
        if let Some(namespace) = key.namespace.as_ref().filter(|_| was != is) {
            let entry = self.namespaces.entry(namespace.clone()).or_default();
            entry.members = if is { entry.members + 1 } else { entry.members - 1 };
            if entry.members <= 1 {
                stale.namespaces.insert(namespace.clone());
            }
        }
        if *key.kind == *"Namespace" {
            let object = match body {
                Some(Body::Namespace(namespace)) => Some(namespace.meta.labels.clone()),
                Some(_) | None => None,
            };
            self.namespaces.entry(key.name.clone()).or_default().object = object;
            stale.namespaces.insert(key.name.clone());
        }
    }

    /// Adds the pods and workloads whose chain of owners leads over a workload that came, went or has another owner.
    fn add_dependents(&mut self, stale: &mut Stale) {
        for (namespace, changed) in self.owners.take_changed() {
            stale.pods.extend(self.endpoints.pods_owned_by(&namespace, &changed));
            stale.workloads.extend(self.owners.children(&namespace, &changed));
        }
    }

    fn set_pod(&mut self, key: &ObjectKey, pod: Option<&Pod>, stale: &mut Stale, changes: &mut Changes) {
        let name = pod_name(key);
        stale.pods.remove(&name);
        let owners = pod.map_or_else(Vec::new, |pod| self.owners.of_pod(key, pod.meta.owner.as_ref(), &pod.meta.labels));
        let attached = pod.map(|it| self.source.of_pod(key, it)).unwrap_or_default();
        self.endpoints.set_attached(&name, pod, &owners, attached, &mut self.networks);
        let crossed = self.endpoints.set_pod(&name, pod, owners, &mut self.nodes, &mut changes.completed);
        stale.workloads.extend(crossed);
    }

    /// Gives a pod the chain of owners that it has now.
    fn follow_owners(&mut self, name: &PodName, stale: &mut Stale) {
        let Some((owner, labels)) = self.endpoints.owner_of(name, &self.nodes) else { return };
        let key = ObjectKey { kind: "Pod".into(), namespace: Some(name.namespace.clone()), name: name.name.clone() };
        let owners = self.owners.of_pod(&key, owner.as_ref(), &labels);
        stale.workloads.extend(self.endpoints.set_owners(name, owners, &mut self.nodes));
    }

    /// SPEC: the pods of a workload differ in name and address only, so one endpoint stands for all of them until they are read one by one.
    fn set_workload(&mut self, key: &ObjectKey, workload: Option<&Workload>) {
        let owned = workload.and_then(|it| it.meta.owner.as_ref()).is_some_and(|owner| self.owners.exists(key, owner));
        let stands = workload.filter(|_| !owned && !self.endpoints.has_pods(key));
        self.endpoints.set_workload(key, stands, &mut self.nodes);
    }

    fn set_service(&mut self, key: &ObjectKey, service: Option<&Service>, changes: &mut Changes) {
        let name = service_name(key);
        let new = service.map(|it| {
            Arc::new(palisade_model::Service {
                namespace: name.namespace.clone(),
                name: name.name.clone(),
                reached: it.reached.clone(),
                kind: it.kind.clone(),
                ports: it.ports.clone(),
            })
        });
        let old = match &new {
            Some(new) => self.services.insert(name.clone(), Arc::clone(new)),
            None => self.services.remove(&name),
        };
        changes.services.extend(Delta::between(name, old, new));
    }

    /// Removes the contribution of an object that is gone.
    fn forget(&mut self, key: &ObjectKey, stale: &mut Stale, changes: &mut Changes) {
        match key.kind.as_ref() {
            "Pod" => self.set_pod(key, None, stale, changes),
            "Node" => self.nodes.set_object(&key.name, None, &mut changes.node_ranges),
            "Service" => self.set_service(key, None, changes),
            // The others were read above, or count as policies if they were any.
            _ => self.policies.forget(key, &mut self.networks),
        }
    }

    fn give_namespaces(&mut self, names: &BTreeSet<Box<str>>, changes: &mut Changes) {
        for name in names {
            let Some(entry) = self.namespaces.get_mut(name) else { continue };
            // SPEC: semantics 1.12: the API server sets the label on every namespace and keeps it.
            let named = |mut labels: Labels| {
                labels.set(NAME_LABEL, name);
                labels
            };
            let new = match &entry.object {
                Some(labels) => Some(Namespace { labels: named(labels.clone()), assumed: false }),
                None if entry.members > 0 => Some(Namespace { labels: named(Labels::default()), assumed: true }),
                None => None,
            };
            let new = new.map(Arc::new);
            let old = std::mem::replace(&mut entry.given, new.clone());
            if new.is_none() {
                self.namespaces.remove(name);
            }
            changes.namespaces.extend(Delta::between(name.clone(), old, new));
        }
    }

    /// Whether an object contributes.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        match key.kind.as_ref() {
            "Pod" => self.endpoints.has_pod(&pod_name(key)),
            "Node" => self.nodes.has_object(&key.name),
            "Namespace" => self.namespaces.get(&key.name).is_some_and(|it| it.object.is_some()),
            "Service" => self.services.contains_key(&service_name(key)),
            _ => self.policies.has(key) || self.owners.has(key),
        }
    }

    /// The keys of the objects of a kind that contribute.
    pub(crate) fn keys(&self, kind: &str) -> Vec<ObjectKey> {
        let cluster_wide = |name: &str| ObjectKey { kind: kind.into(), namespace: None, name: name.into() };
        let key = |namespace: &str, name: &str| ObjectKey { namespace: Some(namespace.into()), ..cluster_wide(name) };
        match kind {
            "Pod" => self.endpoints.pod_names().map(|it| key(&it.namespace, &it.name)).collect(),
            "Node" => self.nodes.object_names().map(cluster_wide).collect(),
            "Namespace" => self.namespaces.iter().filter(|(_, it)| it.object.is_some()).map(|(name, _)| cluster_wide(name)).collect(),
            "Service" => self.services.keys().map(|it| key(&it.namespace, &it.name)).collect(),
            _ => self.policies.iter().map(|(key, _)| key.clone()).chain(self.owners.keys()).filter(|it| *it.kind == *kind).collect(),
        }
    }

    /// Whether no object contributes anything, and nothing is counted.
    pub(crate) fn is_empty(&self) -> bool {
        let Joins { source: _, networks, owners, endpoints, nodes, namespaces, services, policies } = self;
        networks.is_empty()
            && owners.is_empty()
            && endpoints.is_empty()
            && nodes.is_empty()
            && namespaces.is_empty()
            && services.is_empty()
            && policies.is_empty()
    }
}

fn sort(changes: &mut Changes) {
    changes.services.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    changes.node_ranges.removed.sort_unstable();
    changes.node_ranges.added.sort_unstable();
    changes.completed.removed.sort_unstable();
    changes.completed.added.sort_unstable();
}

fn workload(body: Option<&Body>) -> Option<&Workload> {
    match body {
        Some(Body::Workload(workload)) => Some(workload),
        Some(_) | None => None,
    }
}

fn service_name(key: &ObjectKey) -> ServiceName {
    ServiceName { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}

fn pod_name(key: &ObjectKey) -> PodName {
    PodName { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}
