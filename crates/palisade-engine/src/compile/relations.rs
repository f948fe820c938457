//! Policies with relative peers. Each is compiled as its parts: one for all subjects that look alike to its relations. A part is there as long as
//! some pod is a subject of it.

use std::collections::BTreeMap;

use palisade_model::{Labels, Model, Policy, PolicyRef};
use rustc_hash::FxHashMap;

use crate::compile::Compiled;
use crate::compile::intern::number;
use crate::compile::policies::Key;
use crate::decide::is_about;
use crate::relative::{Compared, Values, Viewpoint};

/// The policies that have relative peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relations {
    all: BTreeMap<PolicyRef, Relation>,
    /// The parts that each pod is a subject of.
    of_pod: FxHashMap<u32, Vec<(PolicyRef, Values)>>,
}

#[derive(Clone, Debug)]
struct Relation {
    policy: Policy,
    compared: Compared,
    parts: BTreeMap<Values, Part>,
}

/// What a policy is for subjects that look alike.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) policy: Policy,
    /// What its subjects have in common, in words.
    pub(crate) words: String,
    subjects: usize,
}

/// A part that came, changed or went.
pub(crate) struct Turn {
    pub(crate) key: Key,
    pub(crate) policy: Option<Policy>,
}

impl Relations {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn has(&self, policy: &PolicyRef) -> bool {
        self.all.contains_key(policy)
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.all.values().flat_map(|it| it.parts.values())
    }

    /// The part of each policy that pods with a point of view are subjects of.
    fn meant(&self, from: Viewpoint<'_>) -> Vec<(PolicyRef, Values)> {
        let about = self.all.iter().filter(|(_, it)| is_about(&it.policy.subject, from.namespace, from.of_namespace, from.labels));
        about.map(|(origin, it)| (origin.clone(), it.compared.values(from))).collect()
    }

    /// A pod that is a subject of some parts now, and no longer of those it was. The parts that came or went by it.
    fn join(&mut self, pod: u32, meant: Vec<(PolicyRef, Values)>) -> Vec<(PolicyRef, Values)> {
        let left = if meant.is_empty() { self.of_pod.remove(&pod) } else { self.of_pod.insert(pod, meant.clone()) };
        let mut turned = Vec::new();
        for (origin, values) in meant {
            let Some(relation) = self.all.get_mut(&origin) else { continue };
            let Relation { policy, compared, parts } = relation;
            let part = parts.entry(values.clone()).or_insert_with(|| Part {
                policy: compared.part(policy, &values),
                words: values.to_string(),
                subjects: 0,
            });
            part.subjects += 1;
            if part.subjects == 1 {
                turned.push((origin, values));
            }
        }
        for (origin, values) in left.into_iter().flatten() {
            let Some(relation) = self.all.get_mut(&origin) else { continue };
            let Some(part) = relation.parts.get_mut(&values) else { continue };
            part.subjects = part.subjects.saturating_sub(1);
            if part.subjects == 0 {
                relation.parts.remove(&values);
                turned.push((origin, values));
            }
        }
        turned
    }

    fn part(&self, origin: &PolicyRef, values: &Values) -> Option<&Part> {
        self.all.get(origin)?.parts.get(values)
    }
}

impl Compiled {
    /// Takes in the relations of a model, before its pods come. Every part there is.
    pub(crate) fn relate(&mut self, model: &Model) -> Vec<Turn> {
        for policy in &model.policies {
            if let Some(compared) = Compared::by(policy) {
                let relation = Relation { policy: policy.clone(), compared, parts: BTreeMap::new() };
                self.relations.all.insert(policy.origin.clone(), relation);
            }
        }
        if self.relations.is_empty() {
            return Vec::new();
        }
        for (id, endpoint) in model.endpoints.iter_ids() {
            let meant = self.relations.meant(Viewpoint::of(model, endpoint));
            self.relations.join(number(id.0), meant);
        }
        let all = self.relations.all.iter().flat_map(|(origin, it)| it.parts.keys().map(move |values| (origin.clone(), values.clone())));
        let all: Vec<(PolicyRef, Values)> = all.collect();
        self.turns(all)
    }

    /// A policy comes, changes or goes. The parts that it has now and those that it had.
    pub(crate) fn relate_policy(&mut self, origin: &PolicyRef, policy: Option<&Policy>) -> Vec<Turn> {
        let relative = policy.and_then(|it| Some((it, Compared::by(it)?)));
        let gone = self.relations.all.remove(origin);
        if gone.is_none() && relative.is_none() {
            return Vec::new();
        }
        for of_pod in self.relations.of_pod.values_mut() {
            of_pod.retain(|(it, _)| it != origin);
        }
        let mut turned: Vec<(PolicyRef, Values)> =
            gone.into_iter().flat_map(|it| it.parts.into_keys()).map(|it| (origin.clone(), it)).collect();
        if let Some((policy, compared)) = relative {
            self.relations.all.insert(origin.clone(), Relation { policy: policy.clone(), compared, parts: BTreeMap::new() });
            let pods: Vec<u32> = self.pods.iter().map(|(id, _)| id).collect();
            turned.extend(pods.into_iter().flat_map(|it| self.join(it)));
        }
        self.turns(turned)
    }

    /// Pods that came, went or have other labels, or are in a namespace that has. The parts that came or went.
    pub(crate) fn relate_pods(&mut self, pods: &[u32]) -> Vec<Turn> {
        if self.relations.is_empty() {
            return Vec::new();
        }
        let turned = pods.iter().flat_map(|it| self.join(*it)).collect();
        self.turns(turned)
    }

    fn join(&mut self, pod: u32) -> Vec<(PolicyRef, Values)> {
        let meant = self.viewpoint(pod).map_or_else(Vec::new, |(namespace, of_namespace, labels)| {
            self.relations.meant(Viewpoint { namespace: &namespace, of_namespace: &of_namespace, labels: &labels })
        });
        self.relations.join(pod, meant)
    }

    /// The name and labels of a pod's namespace, and the pod's own.
    fn viewpoint(&self, pod: u32) -> Option<(Box<str>, Labels, Labels)> {
        let pod = self.pods.get(pod)?;
        let space = self.spaces.get(pod.namespace)?;
        let symbols = &self.parts.symbols;
        let of_namespace = self.parts.namespaces.labels(space.read, symbols);
        Some((symbols.get(space.name).into(), of_namespace, self.parts.pods.labels(pod.read, symbols)))
    }

    /// What has become of some parts, each once.
    fn turns(&mut self, mut turned: Vec<(PolicyRef, Values)>) -> Vec<Turn> {
        turned.sort_unstable();
        turned.dedup();
        let mut turns = Vec::with_capacity(turned.len());
        for (origin, values) in turned {
            let policy = self.relations.part(&origin, &values).map(|it| it.policy.clone());
            turns.push(Turn { key: Key::of_part(&origin, &values.to_string(), &mut self.parts.symbols), policy });
        }
        turns
    }
}
