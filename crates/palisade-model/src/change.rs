//! Differences between two versions of a model, computed once by the producer of the model and used by every consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use ipnet::IpNet;

use crate::cluster::{Endpoint, EndpointId, Model, Namespace, Node, NodeId, PodName, Service};
use crate::networks::{Network, NetworkId};
use crate::origin::{PolicyRef, RuleRef};
use crate::policy::{Policy, PolicyKey};

/// One object in two versions of a model. None if the version does not have the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta<I, T> {
    /// The object.
    pub id: I,
    /// The object in the earlier version.
    // INVARIANT: differs from `new`.
    pub old: Option<Arc<T>>,
    /// The object in the later version.
    pub new: Option<Arc<T>>,
}

/// Members that a set lost and gained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange<T> {
    /// Members of the earlier version alone.
    pub removed: Vec<T>,
    /// Members of the later version alone.
    pub added: Vec<T>,
}

/// Identifies one version of a model by its content: the sum of the hashes of all its objects. It depends on neither order nor history.
///
/// A consumer that missed a change has another revision than the change starts from, and so notices the gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(u64);

/// A Service by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

/// An audited policy by the name of its set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AuditedPolicy {
    /// The set.
    pub set: Box<str>,
    /// The policy.
    pub policy: PolicyKey,
}

/// Everything that differs between two versions of a model, each list in the order of its ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The version that these changes start from.
    pub from: Revision,
    /// The version that they lead to.
    pub to: Revision,
    /// Networks other than the pod network.
    pub networks: Vec<Delta<NetworkId, Network>>,
    /// Namespaces by name.
    pub namespaces: Vec<Delta<Box<str>, Namespace>>,
    /// Nodes.
    pub nodes: Vec<Delta<NodeId, Node>>,
    /// Endpoints. An endpoint that replaces another one in its slot is a single delta.
    pub endpoints: Vec<Delta<EndpointId, Endpoint>>,
    /// Services.
    pub services: Vec<Delta<ServiceName, Service>>,
    /// Policies that are enforced.
    pub policies: Vec<Delta<PolicyKey, Policy>>,
    /// Policies that are audited and not enforced.
    pub audited: Vec<Delta<AuditedPolicy, Policy>>,
    /// `Model::node_ranges`.
    pub node_ranges: SetChange<IpNet>,
    /// `Model::completed`.
    pub completed: SetChange<PodName>,
    /// `Model::foreign`.
    pub foreign: SetChange<PolicyRef>,
    /// `Model::logged`.
    pub logged: SetChange<RuleRef>,
}

impl<T> Default for SetChange<T> {
    fn default() -> SetChange<T> {
        SetChange { removed: Vec::new(), added: Vec::new() }
    }
}

impl<T> SetChange<T> {
    /// Whether the set is the same in both versions.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

impl<I, T: PartialEq> Delta<I, T> {
    /// The delta of an object, or None if the object is the same in both versions.
    pub fn between(id: I, old: Option<Arc<T>>, new: Option<Arc<T>>) -> Option<Delta<I, T>> {
        let same = match (&old, &new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        (!same).then_some(Delta { id, old, new })
    }
}

impl Changes {
    /// Whether both versions are the same.
    pub fn is_empty(&self) -> bool {
        let Changes { from: _, to: _, networks, namespaces, nodes, endpoints, services, policies, .. } = self;
        let Changes { audited, node_ranges, completed, foreign, logged, .. } = self;
        networks.is_empty()
            && namespaces.is_empty()
            && nodes.is_empty()
            && endpoints.is_empty()
            && services.is_empty()
            && policies.is_empty()
            && audited.is_empty()
            && node_ranges.is_empty()
            && completed.is_empty()
            && foreign.is_empty()
            && logged.is_empty()
    }

    /// All objects of a model, as changes of the empty model.
    pub fn all(model: &Model) -> Changes {
        let mut changes = Changes::default();
        let new = |it: &Arc<Policy>| Some(Arc::clone(it));
        let networks = model.networks.iter_shared();
        changes.networks.extend(networks.map(|(id, it)| Delta { id, old: None, new: Some(Arc::clone(it)) }));
        let namespaces = model.namespaces.iter();
        changes.namespaces.extend(namespaces.map(|(id, it)| Delta { id: id.clone(), old: None, new: Some(Arc::new(it.clone())) }));
        let nodes = model.nodes.iter_shared();
        changes.nodes.extend(nodes.map(|(id, it)| Delta { id, old: None, new: Some(Arc::clone(it)) }));
        let endpoints = model.endpoints.iter_shared();
        changes.endpoints.extend(endpoints.map(|(id, it)| Delta { id, old: None, new: Some(Arc::clone(it)) }));
        let services = model.services.iter();
        changes.services.extend(services.map(|it| Delta { id: ServiceName::of(it), old: None, new: Some(Arc::new(it.clone())) }));
        let policies = model.policies.iter_shared();
        changes.policies.extend(policies.map(|it| Delta { id: it.key(), old: None, new: new(it) }));
        changes.policies.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        for (set, policies) in &model.audited {
            let id = |it: &Policy| AuditedPolicy { set: set.clone(), policy: it.key() };
            changes.audited.extend(policies.iter().map(|it| Delta { id: id(it), old: None, new: Some(Arc::new(it.clone())) }));
        }
        changes.audited.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        changes.node_ranges.added.clone_from(&model.node_ranges);
        changes.completed.added.clone_from(&model.completed);
        changes.foreign.added.clone_from(&model.foreign);
        changes.logged.added.extend(model.logged.iter().cloned());
        changes.to = changes.revision_after(Revision::default());
        changes
    }

    /// The model of changes that add objects only, as those of a first reading do.
    pub fn into_model(self) -> Model {
        let mut model = Model::default();
        self.networks.into_iter().for_each(|it| drop(model.networks.set(it.id, it.new)));
        let namespaces = self.namespaces.into_iter().filter_map(|it| Some((it.id, it.new?.as_ref().clone())));
        model.namespaces = namespaces.collect();
        self.nodes.into_iter().for_each(|it| drop(model.nodes.set(it.id, it.new)));
        self.endpoints.into_iter().for_each(|it| drop(model.endpoints.set(it.id, it.new)));
        model.services = self.services.into_iter().filter_map(|it| Some(it.new?.as_ref().clone())).collect();
        model.policies = self.policies.into_iter().filter_map(|it| it.new).collect();
        model.policies.sort_by(Policy::in_order);
        for delta in self.audited {
            model.audited.entry(delta.id.set).or_default().extend(delta.new.map(Arc::unwrap_or_clone));
        }
        model.audited.values_mut().for_each(|it| it.sort_by(Policy::in_order));
        model.node_ranges = self.node_ranges.added;
        model.completed = self.completed.added;
        model.foreign = self.foreign.added;
        model.logged = self.logged.added.into_iter().collect();
        model
    }

    /// The changes from one model to another whose ids mean the same objects, for a producer that makes whole models. `starting` sets the revisions.
    pub fn between(old: &Model, new: &Model) -> Changes {
        let mut changes = Changes::default();
        let networks = new.networks.changes_since(&old.networks).into_iter();
        changes.networks = networks.map(|it| Delta { id: it.id, old: it.old.cloned(), new: it.new.cloned() }).collect();
        if old.namespaces != new.namespaces {
            let shared = |it: &BTreeMap<Box<str>, Namespace>| it.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()))).collect();
            changes.namespaces = of_maps(&shared(&old.namespaces), &shared(&new.namespaces));
        }
        let nodes = new.nodes.changes_since(&old.nodes).into_iter();
        changes.nodes = nodes.map(|it| Delta { id: it.id, old: it.old.cloned(), new: it.new.cloned() }).collect();
        let endpoints = new.endpoints.changes_since(&old.endpoints).into_iter();
        changes.endpoints = endpoints.map(|it| Delta { id: it.id, old: it.old.cloned(), new: it.new.cloned() }).collect();
        if old.services != new.services {
            let shared = |it: &[Service]| it.iter().map(|it| (ServiceName::of(it), Arc::new(it.clone()))).collect();
            changes.services = of_maps(&shared(&old.services), &shared(&new.services));
        }
        if old.policies != new.policies {
            let shared = |it: &Model| it.policies.iter_shared().map(|it| (it.key(), Arc::clone(it))).collect();
            changes.policies = of_maps(&shared(old), &shared(new));
        }
        if old.audited != new.audited {
            let id = |set: &str, it: &Policy| AuditedPolicy { set: set.into(), policy: it.key() };
            let each =
                |it: &Model| it.audited.iter().flat_map(|(set, all)| all.iter().map(|it| (set.clone(), it.clone()))).collect::<Vec<_>>();
            let shared = |it: &Model| each(it).into_iter().map(|(set, it)| (id(&set, &it), Arc::new(it))).collect();
            changes.audited = of_maps(&shared(old), &shared(new));
        }
        changes.node_ranges = of_sets(&old.node_ranges, &new.node_ranges);
        changes.completed = of_sets(&old.completed, &new.completed);
        changes.foreign = of_sets(&old.foreign, &new.foreign);
        changes.logged = of_sets(&old.logged, &new.logged);
        changes.starting(Revision::default())
    }

    /// The same changes of a model of another revision.
    #[must_use]
    pub fn starting(mut self, from: Revision) -> Changes {
        self.from = from;
        self.to = self.revision_after(from);
        self
    }

    /// These changes and later ones as one: of each object the first old and the last new version. Objects that end as they began are left out.
    #[must_use]
    pub fn then(self, later: Changes) -> Changes {
        Changes {
            from: self.from,
            to: later.to,
            networks: compose(self.networks, later.networks),
            namespaces: compose(self.namespaces, later.namespaces),
            nodes: compose(self.nodes, later.nodes),
            endpoints: compose(self.endpoints, later.endpoints),
            services: compose(self.services, later.services),
            policies: compose(self.policies, later.policies),
            audited: compose(self.audited, later.audited),
            node_ranges: compose_sets(self.node_ranges, later.node_ranges),
            completed: compose_sets(self.completed, later.completed),
            foreign: compose_sets(self.foreign, later.foreign),
            logged: compose_sets(self.logged, later.logged),
        }
    }

    /// The revision of a model after these changes.
    pub fn revision_after(&self, mut revision: Revision) -> Revision {
        self.networks.iter().for_each(|it| revision.delta("network", it));
        self.namespaces.iter().for_each(|it| revision.delta("namespace", it));
        self.nodes.iter().for_each(|it| revision.delta("node", it));
        self.endpoints.iter().for_each(|it| revision.delta("endpoint", it));
        self.services.iter().for_each(|it| revision.delta("service", it));
        self.policies.iter().for_each(|it| revision.delta("policy", it));
        self.audited.iter().for_each(|it| revision.delta("audited", it));
        revision.set("node range", &self.node_ranges);
        revision.set("completed", &self.completed);
        revision.set("foreign", &self.foreign);
        revision.set("logged", &self.logged);
        revision
    }
}

impl From<Delta<EndpointId, Endpoint>> for Changes {
    fn from(delta: Delta<EndpointId, Endpoint>) -> Changes {
        Changes { endpoints: vec![delta], ..Changes::default() }
    }
}

impl From<Delta<Box<str>, Namespace>> for Changes {
    fn from(delta: Delta<Box<str>, Namespace>) -> Changes {
        Changes { namespaces: vec![delta], ..Changes::default() }
    }
}

impl From<Delta<PolicyKey, Policy>> for Changes {
    fn from(delta: Delta<PolicyKey, Policy>) -> Changes {
        Changes { policies: vec![delta], ..Changes::default() }
    }
}

impl ServiceName {
    /// The name of a Service.
    pub fn of(service: &Service) -> ServiceName {
        ServiceName { namespace: service.namespace.clone(), name: service.name.clone() }
    }
}

impl Revision {
    fn delta<I: Hash, T: Hash>(&mut self, kind: &str, delta: &Delta<I, T>) {
        let Revision(sum) = self;
        if let Some(old) = &delta.old {
            *sum = sum.wrapping_sub(hash(&(kind, &delta.id, old)));
        }
        if let Some(new) = &delta.new {
            *sum = sum.wrapping_add(hash(&(kind, &delta.id, new)));
        }
    }

    fn set<T: Hash>(&mut self, kind: &str, change: &SetChange<T>) {
        let Revision(sum) = self;
        change.removed.iter().for_each(|it| *sum = sum.wrapping_sub(hash(&(kind, it))));
        change.added.iter().for_each(|it| *sum = sum.wrapping_add(hash(&(kind, it))));
    }
}

fn of_maps<K: Clone + Ord, V: PartialEq>(old: &BTreeMap<K, Arc<V>>, new: &BTreeMap<K, Arc<V>>) -> Vec<Delta<K, V>> {
    let keys: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    keys.into_iter().filter_map(|key| Delta::between(key.clone(), old.get(key).cloned(), new.get(key).cloned())).collect()
}

fn of_sets<'a, T: Clone + Ord + 'a>(old: impl IntoIterator<Item = &'a T>, new: impl IntoIterator<Item = &'a T>) -> SetChange<T> {
    let [old, new]: [BTreeSet<&T>; 2] = [old.into_iter().collect(), new.into_iter().collect()];
    let only = |one: &BTreeSet<&T>, other: &BTreeSet<&T>| one.difference(other).map(|it| (*it).clone()).collect();
    SetChange { removed: only(&old, &new), added: only(&new, &old) }
}

fn compose<I: Clone + Ord, T: PartialEq>(first: Vec<Delta<I, T>>, later: Vec<Delta<I, T>>) -> Vec<Delta<I, T>> {
    let mut all: BTreeMap<I, Delta<I, T>> = first.into_iter().map(|it| (it.id.clone(), it)).collect();
    for Delta { id, old, new } in later {
        let old = all.remove(&id).map_or(old, |it| it.old);
        all.extend(Delta::between(id.clone(), old, new).map(|it| (id, it)));
    }
    all.into_values().collect()
}

fn compose_sets<T: Clone + Ord>(first: SetChange<T>, later: SetChange<T>) -> SetChange<T> {
    let [mut removed, mut added]: [BTreeSet<T>; 2] = [first.removed.into_iter().collect(), first.added.into_iter().collect()];
    for gone in later.removed {
        if !added.remove(&gone) {
            removed.insert(gone);
        }
    }
    for new in later.added {
        if !removed.remove(&new) {
            added.insert(new);
        }
    }
    SetChange { removed: removed.into_iter().collect(), added: added.into_iter().collect() }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
