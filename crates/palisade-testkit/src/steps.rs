//! One model made of another by single changes in random order, as a watcher of a cluster would meet them.
//!
//! Every model on the way is whole: a pod's namespace and node are there before it, and stay as long as it does.

use std::collections::{BTreeMap, VecDeque};

use palisade_model::{Endpoint, Model, Namespace, Node, NodeId, PodName, Policy, PolicyRef};

use crate::random::Random;

/// One object comes, goes, or is another from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Namespace(Box<str>, Option<Namespace>),
    Node(Box<str>, Option<Node>),
    /// Its node is the place in the model after the change.
    Pod(PodName, Option<Endpoint>),
    Policy(PolicyRef, Option<Policy>),
}

/// A change, and the model after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub change: Change,
    pub model: Model,
}

/// Takes `start`, which belongs to the model `from`, through changes that lead to the model `to`.
pub fn through<S>(random: &mut Random, from: &Model, to: &Model, start: S, mut take: impl FnMut(S, &Step) -> S) -> S {
    let mut state = start;
    let mut now = Parts::of(from);
    let mut waiting = changes(random, &now, &Parts::of(to));
    while !waiting.is_empty() {
        let possible: Vec<usize> =
            (0..waiting.len()).filter(|at| waiting.get(*at).and_then(|it| it.front()).is_some_and(|it| now.allows(it))).collect();
        // What a thing needs comes without needing anything, so there always is one.
        let Some(at) = random.pick(&possible).copied() else { break };
        let Some(change) = waiting.get_mut(at).and_then(VecDeque::pop_front) else { break };
        waiting.retain(|it| !it.is_empty());
        now.take(&change);
        let model = now.model(to);
        state = take(state, &Step { change: change.in_model(&model), model });
    }
    state
}

/// A model by names, without places.
#[derive(Clone, Debug, Default)]
struct Parts {
    namespaces: BTreeMap<Box<str>, Namespace>,
    nodes: BTreeMap<Box<str>, Node>,
    pods: BTreeMap<PodName, Pod>,
    policies: BTreeMap<PolicyRef, Policy>,
}

/// A pod, with its node by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    endpoint: Endpoint,
    node: Option<Box<str>>,
}

/// A change by names.
#[derive(Clone, Debug)]
enum Part {
    Namespace(Box<str>, Option<Namespace>),
    Node(Box<str>, Option<Node>),
    Pod(PodName, Option<Pod>),
    Policy(PolicyRef, Option<Box<Policy>>),
}

impl Parts {
    fn of(model: &Model) -> Parts {
        let pod = |it: &Endpoint| {
            let node = it.node.and_then(|id| model.node(id)).map(|it| it.name.clone());
            (it.name.clone(), Pod { endpoint: Endpoint { node: None, ..it.clone() }, node })
        };
        Parts {
            namespaces: model.namespaces.clone(),
            nodes: model.nodes.iter().map(|it| (it.name.clone(), it.clone())).collect(),
            pods: model.endpoints.iter().map(pod).collect(),
            policies: model.policies.iter().map(|it| (it.origin.clone(), it.clone())).collect(),
        }
    }

    /// Whether the model stays whole.
    fn allows(&self, part: &Part) -> bool {
        match part {
            Part::Namespace(_, Some(_)) | Part::Node(_, Some(_)) | Part::Pod(_, None) | Part::Policy(..) => true,
            Part::Namespace(name, None) => !self.pods.keys().any(|pod| pod.namespace == *name),
            Part::Node(name, None) => !self.pods.values().any(|pod| pod.node.as_ref() == Some(name)),
            Part::Pod(name, Some(pod)) => {
                self.namespaces.contains_key(&name.namespace) && pod.node.as_ref().is_none_or(|node| self.nodes.contains_key(node))
            }
        }
    }

    fn take(&mut self, part: &Part) {
        match part.clone() {
            Part::Namespace(name, namespace) => put(&mut self.namespaces, name, namespace),
            Part::Node(name, node) => put(&mut self.nodes, name, node),
            Part::Pod(name, pod) => put(&mut self.pods, name, pod),
            Part::Policy(name, policy) => put(&mut self.policies, name, policy.map(|it| *it)),
        }
    }

    /// The model that has these parts, and from `other` what no verdict depends on.
    fn model(&self, other: &Model) -> Model {
        let endpoints = self.pods.values().map(|pod| {
            let node = pod.node.as_ref().and_then(|name| self.nodes.keys().position(|it| it == name)).map(NodeId);
            Endpoint { node, ..pod.endpoint.clone() }
        });
        let mut policies: Vec<Policy> = self.policies.values().cloned().collect();
        policies.sort_by(|a, b| (a.tier, a.rank, &a.origin.name, &a.origin).cmp(&(b.tier, b.rank, &b.origin.name, &b.origin)));
        Model {
            namespaces: self.namespaces.clone(),
            endpoints: endpoints.collect(),
            nodes: self.nodes.values().cloned().collect(),
            services: other.services.clone(),
            policies,
            completed: other.completed.clone(),
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

impl Part {
    fn in_model(self, model: &Model) -> Change {
        match self {
            Part::Namespace(name, namespace) => Change::Namespace(name, namespace),
            Part::Node(name, node) => Change::Node(name, node),
            Part::Pod(name, _) => {
                let endpoint = model.endpoints.iter().find(|it| it.name == name).cloned();
                Change::Pod(name, endpoint)
            }
            Part::Policy(name, policy) => Change::Policy(name, policy.map(|it| *it)),
        }
    }
}

/// What has to happen to each thing, in its order. Pods and policies now and then go and come back.
fn changes(random: &mut Random, from: &Parts, to: &Parts) -> Vec<VecDeque<Part>> {
    let mut all: Vec<VecDeque<Part>> = Vec::new();
    all.extend(between(random, 0, &from.namespaces, &to.namespaces, Part::Namespace));
    all.extend(between(random, 0, &from.nodes, &to.nodes, Part::Node));
    all.extend(between(random, 30, &from.pods, &to.pods, Part::Pod));
    all.extend(between(random, 30, &from.policies, &to.policies, |name, policy| Part::Policy(name, policy.map(Box::new))));
    all
}

fn between<K: Ord + Clone, V: Clone + PartialEq>(
    random: &mut Random,
    detours: usize,
    from: &BTreeMap<K, V>,
    to: &BTreeMap<K, V>,
    part: impl Fn(K, Option<V>) -> Part,
) -> Vec<VecDeque<Part>> {
    let mut all = Vec::new();
    let new = to.keys().filter(|key| !from.contains_key(*key));
    for key in from.keys().chain(new) {
        let (old, new) = (from.get(key), to.get(key));
        let mut own = VecDeque::new();
        if new.is_some() && random.percent(detours) {
            own.push_back(part(key.clone(), None));
        }
        if old != new || !own.is_empty() {
            own.push_back(part(key.clone(), new.cloned()));
        }
        all.extend(Some(own).filter(|own| !own.is_empty()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::snapshot;
    use crate::generate::generate;

    #[test]
    fn any_cluster_becomes_any_other_and_is_whole_on_the_way() {
        let model = |seed| snapshot("cluster.json", &generate(seed).objects.to_json()).model;
        for seed in 0..20 {
            let (from, to) = (model(seed), model(seed + 1));
            let (last, steps) = through(&mut Random::new(seed), &from, &to, (from.clone(), 0), |(before, steps), step| {
                for endpoint in &step.model.endpoints {
                    assert!(step.model.namespaces.contains_key(&endpoint.name.namespace), "seed {seed}: {endpoint:?}");
                    assert!(endpoint.node.is_none_or(|it| step.model.node(it).is_some()), "seed {seed}: {endpoint:?}");
                }
                let came = |it: &Model| (it.endpoints.len(), it.nodes.len(), it.namespaces.len(), it.policies.len());
                let ((a, b, c, d), (e, f, g, h)) = (came(&before), came(&step.model));
                assert!(a.abs_diff(e) + b.abs_diff(f) + c.abs_diff(g) + d.abs_diff(h) <= 1, "seed {seed}: {:?}", step.change);
                (step.model.clone(), steps + 1)
            });
            assert_eq!(last, to, "seed {seed}");
            assert!(steps > 5, "seed {seed}: {steps} steps");
        }
    }
}
