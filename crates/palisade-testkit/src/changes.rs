//! A model as objects that come, change and go one by one.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::{Change, Compiled};
use palisade_model::{Endpoint, EndpointId, Labels, Model, Namespace, Node, NodeId, PodName, Policy, PolicyRef};

use crate::random::Random;

/// The objects of a model, by name.
#[derive(Clone, Debug, Default)]
pub struct World {
    namespaces: BTreeMap<Box<str>, Namespace>,
    /// Each with the name of its node.
    pods: BTreeMap<PodName, (Endpoint, Option<Box<str>>)>,
    nodes: BTreeMap<Box<str>, Node>,
    policies: BTreeMap<PolicyRef, Policy>,
}

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Namespace(Box<str>),
    Pod(PodName),
    Node(Box<str>),
    Policy(PolicyRef),
}

impl World {
    pub fn of(model: &Model) -> World {
        let node_of = |id: NodeId| model.node(id).map(|it| it.name.clone());
        let pods = model.endpoints.iter().map(|it| (it.name.clone(), (it.clone(), it.node.and_then(node_of))));
        World {
            namespaces: model.namespaces.clone(),
            pods: pods.collect(),
            nodes: model.nodes.iter().map(|it| (it.name.clone(), it.clone())).collect(),
            policies: model.policies.iter().map(|it| (it.origin.clone(), it.clone())).collect(),
        }
    }

    /// The model of these objects. A node that only pods name is there without addresses.
    pub fn model(&self) -> Model {
        let mut nodes = self.nodes.clone();
        for name in self.pods.values().filter_map(|it| it.1.as_ref()) {
            nodes.entry(name.clone()).or_insert_with(|| Node {
                name: name.clone(),
                labels: Labels::default(),
                addresses: Vec::new(),
                host_pods: Vec::new(),
                assumed: true,
            });
        }
        let places: BTreeMap<&str, NodeId> = nodes.keys().enumerate().map(|(at, name)| (name.as_ref(), NodeId(at))).collect();
        let placed = |(pod, node): &(Endpoint, Option<Box<str>>)| {
            let node = node.as_deref().and_then(|it| places.get(it)).copied();
            Endpoint { node, ..pod.clone() }
        };
        Model {
            namespaces: self.namespaces.clone(),
            endpoints: self.pods.values().map(placed).collect(),
            policies: self.policies.values().cloned().collect(),
            nodes: nodes.values().cloned().collect(),
            ..Model::default()
        }
    }

    /// The same objects with each other's labels: what was related to a pod is so no longer, and something else is.
    pub fn relabelled(&self, random: &mut Random) -> World {
        let mut other = self.clone();
        let spaces: Vec<&Labels> = self.namespaces.values().map(|it| &it.labels).collect();
        for (name, namespace) in &mut other.namespaces {
            let mut labels = random.pick(&spaces).map(|it| (*it).clone()).unwrap_or_default();
            // That one is the API server's.
            labels.set("kubernetes.io/metadata.name", name);
            namespace.labels = labels;
        }
        let pods: Vec<&Labels> = self.pods.values().map(|(pod, _)| &pod.labels).collect();
        for (pod, _) in other.pods.values_mut() {
            pod.labels = random.pick(&pods).map(|it| (*it).clone()).unwrap_or_default();
        }
        other
    }

    /// The policies with each other's rules, where they are of one tier: nothing but its rules changes in a policy.
    pub fn rewritten(&self, random: &mut Random) -> World {
        let mut other = self.clone();
        for policy in other.policies.values_mut() {
            let alike: Vec<&Policy> = self.policies.values().filter(|it| it.tier == policy.tier).collect();
            policy.rules = random.pick(&alike).map(|it| it.rules.clone()).unwrap_or_default();
        }
        other
    }

    /// Every object of either, in an order of its own.
    pub fn objects(&self, other: &World, random: &mut Random) -> Vec<Object> {
        let all = [self, other].into_iter().flat_map(|it| {
            let namespaces = it.namespaces.keys().cloned().map(Object::Namespace);
            let pods = it.pods.keys().cloned().map(Object::Pod);
            let nodes = it.nodes.keys().cloned().map(Object::Node);
            namespaces.chain(pods).chain(nodes).chain(it.policies.keys().cloned().map(Object::Policy))
        });
        let mut objects: Vec<Object> = all.collect::<BTreeSet<Object>>().into_iter().collect();
        for at in (1..objects.len()).rev() {
            objects.swap(at, random.below(at + 1));
        }
        objects
    }

    /// Makes one object what it is in another world, here and in what was compiled of this one. The pods that were touched by it.
    pub fn step(&mut self, object: &Object, other: &World, compiled: &mut Compiled) -> Vec<EndpointId> {
        match object {
            Object::Namespace(name) => match put(&mut self.namespaces, name, other.namespaces.get(name)) {
                Some(it) => compiled.update(Change::Namespace(name, &it.labels)),
                None => compiled.update(Change::NamespaceGone(name)),
            },
            Object::Pod(name) => match put(&mut self.pods, name, other.pods.get(name)) {
                Some((pod, node)) => compiled.update(Change::Pod { pod, node: node.as_deref() }),
                None => compiled.update(Change::PodGone(name)),
            },
            Object::Node(name) => match put(&mut self.nodes, name, other.nodes.get(name)) {
                Some(it) => compiled.update(Change::Node(it)),
                None => compiled.update(Change::NodeGone(name)),
            },
            Object::Policy(name) => match put(&mut self.policies, name, other.policies.get(name)) {
                Some(it) => compiled.update(Change::Policy(it)),
                None => compiled.update(Change::PolicyGone(name)),
            },
        }
    }
}

fn put<'a, K: Clone + Ord, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&'a V>) -> Option<&'a V> {
    match value {
        Some(value) => drop(map.insert(key.clone(), value.clone())),
        None => drop(map.remove(key)),
    }
    value
}
