//! The pods of a node, and the policies that have something to say about each.

use std::net::IpAddr;

use palisade_model::{Direction, EndpointId, Model, NamespaceSet, NodeId, PerDirection, Place, Policy, Rule, SharedList, Subject, Tier};
use rustc_hash::FxHashMap;

use crate::applying::{has_a_say, isolates};
use crate::compile::Compiled;
use crate::compile::intern::{Lists, index, number};
use crate::compile::node::owners::Owner;
use crate::compile::relations::{Part, Relations};
use crate::decide::{by_name, by_rank, is_subject};

/// An address of a pod of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    pub(super) address: IpAddr,
    pub(super) pod: EndpointId,
    pub(super) lists: PerDirection<u32>,
}

/// Of which pods Baseline policies have a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Baseline {
    /// Of those that no NetworkPolicy isolates.
    WhereAsked,
    /// Of all: that NetworkPolicy may not be among those that are asked.
    Always,
}

/// Who is selected by what.
#[derive(Debug)]
pub(super) struct Selected<'m> {
    /// In the order of addresses.
    pub(super) locals: Vec<Local>,
    /// Namespaces of these, by the number that the compiled cluster has for each.
    pub(super) namespaces: FxHashMap<&'m str, u32>,
    policies: Policies<'m>,
    baseline: Baseline,
    /// Policies by place, in the order in which they are asked.
    lists: PerDirection<Lists>,
    count: PerDirection<u32>,
}

/// The policies of a model that compare nothing, and after them the parts of those that do.
#[derive(Debug)]
struct Policies<'m> {
    whole: &'m SharedList<Policy>,
    relations: &'m Relations,
    parts: Vec<&'m Part>,
}

impl<'m> Policies<'m> {
    fn of(model: &'m Model, compiled: &'m Compiled) -> Policies<'m> {
        Policies { whole: &model.policies, relations: &compiled.relations, parts: compiled.relations.parts().collect() }
    }

    fn get(&self, at: u32) -> Option<&'m Policy> {
        match index(at).checked_sub(self.whole.len()) {
            None => self.whole.get(index(at)),
            Some(at) => self.parts.get(at).map(|it| &it.policy),
        }
    }

    /// What the subjects of a part have in common, in words.
    fn words(&self, at: u32) -> Option<&'m str> {
        self.parts.get(index(at).checked_sub(self.whole.len())?).map(|it| it.words.as_str())
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &'m Policy)> {
        let counts = |it: &(u32, &Policy)| self.relations.is_empty() || !self.relations.has(&it.1.origin);
        let parts = (number(self.whole.len())..).zip(self.parts.iter().map(|it| &it.policy));
        (0..).zip(self.whole).filter(counts).chain(parts)
    }
}

impl<'m> Selected<'m> {
    pub(super) fn of(model: &'m Model, compiled: &'m Compiled, node: NodeId, owners: &[Owner], baseline: Baseline) -> Selected<'m> {
        let mut selected = Selected {
            locals: Vec::new(),
            namespaces: FxHashMap::default(),
            policies: Policies::of(model, compiled),
            baseline,
            lists: PerDirection::default(),
            count: PerDirection::default(),
        };
        for owner in owners {
            let Place::Pod(id) = owner.place else { continue };
            let Some(placed) = compiled.pod(id).filter(|it| it.node == Some(node)) else { continue };
            selected.locals.push(Local { address: owner.address, pod: id, lists: PerDirection::default() });
            if let Some(endpoint) = model.endpoint(id) {
                selected.namespaces.insert(&endpoint.name.namespace, placed.namespace);
            }
        }
        let index = Index::of(&selected.policies, &selected.namespaces);
        let mut known: FxHashMap<(u32, u32), PerDirection<u32>> = FxHashMap::default();
        let mut locals = std::mem::take(&mut selected.locals);
        for local in &mut locals {
            let Some(placed) = compiled.pod(local.pod) else { continue };
            local.lists = *known.entry((placed.namespace, placed.labels)).or_insert_with(|| {
                let selecting = index.selecting(model, &selected.policies, local.pod);
                selected.add(&selecting)
            });
        }
        Selected { locals, ..selected }
    }

    /// The numbers of the lists of those among some policies that have a say.
    fn add(&mut self, policies: &[u32]) -> PerDirection<u32> {
        let mut one = |direction| {
            let list = having_a_say(&self.policies, policies, direction, self.baseline);
            let id = self.lists.of_mut(direction).intern(&list);
            let count = self.count.of_mut(direction);
            *count = (*count).max(id + 1);
            id
        };
        PerDirection { egress: one(Direction::Egress), ingress: one(Direction::Ingress) }
    }

    /// Every list of a direction, by number.
    pub(super) fn lists(&self, direction: Direction) -> impl Iterator<Item = &[u32]> {
        (0..*self.count.of(direction)).map(move |it| self.lists.of(direction).get(it))
    }

    /// The policies of a list, in the order in which they are asked.
    pub(super) fn list(&self, direction: Direction, list: u32) -> impl Iterator<Item = (u32, &'m Policy)> {
        self.lists.of(direction).get(list).iter().filter_map(|at| Some((*at, self.policies.get(*at)?)))
    }

    /// What the subjects of a policy have in common besides, if it is a part of one.
    pub(super) fn words(&self, policy: u32) -> Option<&'m str> {
        self.policies.words(policy)
    }

    /// The rules of a policy.
    pub(super) fn rules(&self, direction: Direction, policy: u32) -> &'m [Rule] {
        self.policies.get(policy).map_or(&[], |it| it.rules.of(direction))
    }
}

/// The policies among some that can decide about the pods that all of them select, in the order in which they are asked.
fn having_a_say(policies: &Policies<'_>, selecting: &[u32], direction: Direction, baseline: Baseline) -> Vec<u32> {
    let mut say: Vec<(u32, &Policy)> = selecting.iter().filter_map(|at| Some((*at, policies.get(*at)?))).collect();
    let isolated = baseline == Baseline::WhereAsked && say.iter().any(|(_, it)| isolates(it, direction));
    say.retain(|(_, it)| has_a_say(it, direction, || isolated));
    say.sort_by(|(_, a), (_, b)| {
        a.tier.cmp(&b.tier).then_with(|| match a.tier {
            Tier::Admin | Tier::Baseline => by_rank(a, b),
            Tier::NetworkPolicy => by_name(a, b),
        })
    });
    say.into_iter().map(|(at, _)| at).collect()
}

/// Policies by where their subjects can be.
struct Index<'m> {
    anywhere: Vec<u32>,
    by_namespace: FxHashMap<&'m str, Vec<u32>>,
}

impl<'m> Index<'m> {
    /// Only those of some namespaces are wanted.
    fn of(policies: &Policies<'m>, namespaces: &FxHashMap<&'m str, u32>) -> Index<'m> {
        let mut index = Index { anywhere: Vec::new(), by_namespace: FxHashMap::default() };
        for (at, policy) in policies.iter() {
            let Subject::Pods { namespaces: of, .. } = &policy.subject else { continue };
            match of {
                NamespaceSet::Own(own) if namespaces.contains_key(own.as_ref()) => {
                    index.by_namespace.entry(own.as_ref()).or_default().push(at);
                }
                NamespaceSet::Own(_) => {}
                NamespaceSet::Matching(_) => index.anywhere.push(at),
            }
        }
        index
    }

    fn selecting(&self, model: &Model, policies: &Policies<'_>, pod: EndpointId) -> Vec<u32> {
        let Some(endpoint) = model.endpoint(pod) else { return Vec::new() };
        let of_namespace = model.namespace_labels(&endpoint.name.namespace);
        let own = self.by_namespace.get(endpoint.name.namespace.as_ref()).into_iter().flatten();
        let is = |at: &u32| policies.get(*at).is_some_and(|it| is_subject(&it.subject, endpoint, of_namespace));
        own.chain(&self.anywhere).copied().filter(is).collect()
    }
}
