//! Pods, nodes and namespaces, and the claims of each address.

use std::net::IpAddr;

use palisade_model::{Endpoint, EndpointId, Labels, Model, Node, NodeId, Place};

use crate::cells::marks::Space;
use crate::cells::{Claimant, LocalPods, NodeCells};

impl NodeCells {
    pub(super) fn take_pod(&mut self, model: &Model, id: EndpointId, old: Option<&Endpoint>, new: Option<&Endpoint>) -> LocalPods {
        let seen = |it: &&Endpoint| !it.addresses.is_empty();
        let (old, new) = (old.filter(seen), new.filter(seen));
        let is_contested = |it: &Endpoint| it.addresses.iter().any(|it| self.contested.contains_key(it));
        if old.zip(new).is_some_and(|(old, new)| is_same(old, new) && !is_contested(old)) || (old.is_none() && new.is_none()) {
            return LocalPods::TheSame;
        }
        let claimant = Claimant::pod(id);
        if let Some(old) = old {
            self.unclaim(claimant, &old.addresses);
            if let Some(space) = self.spaces.get_mut(&old.name.namespace) {
                if let Ok(at) = space.pods.binary_search(&claimant) {
                    space.pods.remove(at);
                }
                if space.pods.is_empty() {
                    self.spaces.remove(&old.name.namespace);
                }
            }
        }
        if let Some(new) = new {
            self.claim(claimant, &new.addresses);
            let namespace = &new.name.namespace;
            if !self.spaces.contains_key(namespace) {
                let space = self.space(namespace, model.namespace_labels(namespace));
                self.spaces.insert(namespace.clone(), space);
            }
            if let Some(space) = self.spaces.get_mut(namespace) {
                space.pods.binary_search(&claimant).err().into_iter().for_each(|at| space.pods.insert(at, claimant));
            }
        }
        let is_local = |it: Option<&Endpoint>| it.is_some_and(|it| it.node == Some(self.node));
        let (was, is) = (is_local(old), is_local(new));
        match is {
            true => self.local.insert(id),
            false => self.local.remove(&id),
        };
        if was || is { LocalPods::Changed } else { LocalPods::TheSame }
    }

    pub(super) fn take_node(&mut self, id: NodeId, old: Option<&Node>, new: Option<&Node>) {
        if old.zip(new).is_some_and(|(old, new)| old.labels == new.labels && old.addresses == new.addresses && old.name == new.name) {
            return;
        }
        old.into_iter().for_each(|it| self.unclaim(Claimant::node(id), &it.addresses));
        new.into_iter().for_each(|it| self.claim(Claimant::node(id), &it.addresses));
    }

    /// A namespace as the conditions that are asked see it.
    fn space(&self, name: &str, labels: &Labels) -> Space {
        let mut space = Space::default();
        for (condition, id) in self.questions.conditions.iter() {
            space.add(name, labels, condition, id);
        }
        space
    }

    pub(super) fn relabel_space(&mut self, model: &Model, name: &str) -> LocalPods {
        if !self.spaces.contains_key(name) {
            return LocalPods::TheSame;
        }
        let new = self.space(name, model.namespace_labels(name));
        let Some(space) = self.spaces.get_mut(name) else { return LocalPods::TheSame };
        if (&space.matching, &space.excluded) != (&new.matching, &new.excluded) {
            *space = Space { pods: std::mem::take(&mut space.pods), ..new };
            self.pending.addresses.extend(space.pods.iter().flat_map(|it| addresses_of(model, *it)));
        }
        let is_local = |it: &Claimant| matches!(it.place(), Place::Pod(id) if self.local.contains(&id));
        if space.pods.iter().any(is_local) { LocalPods::Changed } else { LocalPods::TheSame }
    }

    fn claim(&mut self, claimant: Claimant, addresses: &[IpAddr]) {
        for address in addresses {
            let claims = self.claims(*address);
            if !claims.contains(&claimant) {
                claims.push(claimant);
            }
        }
    }

    fn unclaim(&mut self, claimant: Claimant, addresses: &[IpAddr]) {
        addresses.iter().for_each(|it| self.claims(*it).retain(|it| *it != claimant));
    }

    fn claims(&mut self, address: IpAddr) -> &mut Vec<Claimant> {
        let NodeCells { pending, contested, owned, .. } = self;
        pending.claims.entry(address).or_insert_with(|| match contested.get(&address) {
            Some(claims) => claims.clone(),
            None => owned.get(&address).map(|it| it.by).into_iter().collect(),
        })
    }

    /// The owner of an address among some claimants.
    pub(super) fn decide(&mut self, model: &Model, address: IpAddr, claims: Vec<Claimant>) -> Option<Claimant> {
        let owner = claims.iter().copied().min_by(|one, other| model.claim_order(one.place(), other.place()));
        match claims.len() {
            0 | 1 => drop(self.contested.remove(&address)),
            _ => drop(self.contested.insert(address, claims)),
        }
        owner
    }
}

/// Whether two versions of a pod are the same to every policy and under the same name.
fn is_same(old: &Endpoint, new: &Endpoint) -> bool {
    old.node == new.node && old.name == new.name && old.labels == new.labels && old.ports == new.ports && old.addresses == new.addresses
}

pub(super) fn addresses_of(model: &Model, claimant: Claimant) -> &[IpAddr] {
    match claimant.place() {
        Place::Pod(id) => model.endpoint(id).map_or(&[], |it| &it.addresses),
        Place::Node(id) => model.node(id).map_or(&[], |it| &it.addresses),
        Place::Outside => &[],
    }
}
