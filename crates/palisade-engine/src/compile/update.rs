//! Objects that came, changed or went: everything that depends on them is computed again, and nothing else.

use ipnet::IpNet;
use palisade_model::{Changes, EndpointId, Labels, Policy, PolicyRef};
use rustc_hash::FxHashSet;

use crate::compile::Compiled;
use crate::compile::intern::{index, number};
use crate::compile::join::{Join, Wants};
use crate::compile::policies::{About, Key, Memo, Stored};
use crate::compile::relations::Turn;
use crate::compile::rules::{News, Unused};

/// What has to be worked out anew.
#[derive(Debug, Default)]
struct Stale {
    /// Pairs whose policies may be others, or may have other rules.
    pairs: FxHashSet<u32>,
    /// Cells likewise.
    cells: FxHashSet<u32>,
    pods: FxHashSet<u32>,
}

/// This many things may be left over by changes before it is worth a word.
const LEFT_OVER: usize = 100_000;

impl Compiled {
    /// Whether changes have left more behind than there was when it was compiled. Answers stay the same; to compile the model anew gives the memory
    /// back, whenever its owner has time for that.
    pub fn is_worn(&self) -> bool {
        self.size() > self.born * 2 + LEFT_OVER
    }

    /// Applies changes of the model, as far as they are about the network that was compiled. Returns the pods that policy sees differently after
    /// them, or treats differently, in order.
    pub fn update(&mut self, changes: &Changes) -> Vec<EndpointId> {
        let changes = &*changes.on_network(self.network, self.node_addresses);
        let mut stale = Stale::default();
        for delta in &changes.nodes {
            match &delta.new {
                Some(node) => self.set_node(delta.id, node),
                None => drop(self.nodes.remove(number(delta.id.0))),
            }
        }
        for delta in &changes.namespaces {
            // Pods that are still in a removed namespace are in a namespace without labels.
            let labels = delta.new.as_ref().map(|it| it.labels.clone()).unwrap_or_default();
            let turns = self.relabel(&delta.id, &labels, &mut stale);
            self.edit_parts(turns, &mut stale);
        }
        for delta in &changes.endpoints {
            let slot = number(delta.id.0);
            if delta.old.is_some() {
                self.leave_cell(slot);
                self.pods.remove(slot);
            }
            if let Some(pod) = &delta.new {
                let namespace = self.space(&pod.name.namespace);
                self.enter_pod(delta.id, pod, namespace);
                stale.pods.insert(slot);
            }
            let turns = self.relate_pods(&[slot]);
            self.edit_parts(turns, &mut stale);
        }
        for delta in &changes.policies {
            let turns = self.put_over(&delta.id.origin, delta.new.as_deref(), &mut stale);
            self.edit_parts(turns, &mut stale);
        }
        self.refresh(stale)
    }

    /// Applies changes of parts of policies with relative peers.
    fn edit_parts(&mut self, turns: Vec<Turn>, stale: &mut Stale) {
        for Turn { key, policy } in turns {
            self.edit(key, policy.as_ref(), stale);
        }
    }

    /// Puts a policy in the place of another; the parts of one with relations are left to do.
    fn put_over(&mut self, origin: &PolicyRef, policy: Option<&Policy>, stale: &mut Stale) -> Vec<Turn> {
        let turns = self.relate_policy(origin, policy);
        let key = Key::of(origin, &mut self.parts.symbols);
        self.edit(key, policy.filter(|_| !self.relations.has(origin)), stale);
        turns
    }

    fn relabel(&mut self, name: &str, labels: &Labels, stale: &mut Stale) -> Vec<Turn> {
        let id = self.space(name);
        if self.label_space(id, labels) {
            self.pair_cells(id, stale);
        }
        if self.relations.is_empty() {
            return Vec::new();
        }
        let cells = self.spaces.get(id).into_iter().flat_map(|it| &it.cells).filter_map(|it| self.spaces.cells.get(*it));
        let pods: Vec<u32> = cells.flat_map(|it| &it.pods).copied().collect();
        self.relate_pods(&pods)
    }

    /// Moves the cells of a namespace to the pairs of its labels.
    fn pair_cells(&mut self, space: u32, stale: &mut Stale) {
        let cells = self.spaces.get(space).map(|it| it.cells.clone()).unwrap_or_default();
        for cell in cells {
            self.pair_again(cell);
            stale.cells.insert(cell);
        }
    }

    /// A policy is put in the place of another; both may be none. The new one comes before the old one goes, so that what they have in common
    /// stays where it is.
    fn edit(&mut self, key: Key, policy: Option<&Policy>, stale: &mut Stale) {
        let old = self.policies.find(key).and_then(|it| self.take_policy(it));
        if old.is_none() && policy.is_none() {
            return;
        }
        self.memo = Memo::default();
        let mut news = News::default();
        let new = policy.map(|it| Stored::add(it, key, &mut self.parts, &mut self.policies.subjects, &mut news));
        let about = new.as_ref().map(|it| it.about);
        if let Some(new) = new {
            self.put_policy(new);
        }
        let came = std::mem::take(&mut news.conditions);
        self.reduce_again(&news, stale);
        self.reword(&came, stale);
        self.mark(about, stale);
        let Some(old) = old else { return self.look_again(&news, stale) };
        self.mark(Some(old.about), stale);
        let mut unused = Unused::default();
        let subject = old.release(&mut self.parts, &mut self.policies.subjects, &mut news, &mut unused);
        let went: Vec<u32> = unused.conditions.iter().copied().filter(|it| !self.parts.peers.is_used(*it)).collect();
        self.reword(&went, stale);
        self.policies.subjects.bury(&subject.into_iter().collect::<Vec<u32>>());
        let (nodes, prefixes, port_names) = (news.node_selectors, news.prefixes, news.port_names);
        let mut news = News { node_selectors: nodes, prefixes, port_names, ..News::default() };
        self.parts.bury(&unused, &mut news);
        self.reduce_again(&news, stale);
        self.look_again(&news, stale);
    }

    /// Labels that policies began or ceased to ask about: whoever has them gets another place.
    fn reduce_again(&mut self, news: &News, stale: &mut Stale) {
        let read = self.parts.namespaces.stirred(&news.namespaces);
        if !read.is_empty() {
            let spaces: Vec<u32> = (0..).zip(&self.spaces.all).filter(|(_, it)| read.contains(&it.read)).map(|(id, _)| id).collect();
            for id in spaces {
                if self.reduce_space(id) {
                    self.pair_cells(id, stale);
                }
            }
        }
        let read = self.parts.pods.stirred(&news.pods);
        if !read.is_empty() {
            let pods: Vec<u32> = self.pods.iter().filter(|(_, it)| read.contains(&it.read)).map(|(id, _)| id).collect();
            for id in pods {
                self.leave_cell(id);
                self.enter_cell(id);
                stale.pods.insert(id);
            }
        }
        self.parts.nodes.stirred(&news.nodes);
    }

    /// Conditions that came or went: whoever they are not as usual for is seen with them, or without.
    fn reword(&mut self, conditions: &[u32], stale: &mut Stale) {
        for condition in conditions {
            let used = self.parts.peers.is_used(*condition);
            for id in self.deviating_pairs(&self.parts.peers, *condition) {
                let Some(pair) = self.spaces.pairs.get_mut(id) else { continue };
                let view = self.views.get(pair.view);
                let changed: Vec<u32> = match (view.binary_search(condition), used) {
                    (Ok(_), true) | (Err(_), false) => continue,
                    (Err(at), true) => [view.get(..at).unwrap_or(&[]), &[*condition], view.get(at..).unwrap_or(&[])].concat(),
                    (Ok(_), false) => view.iter().copied().filter(|it| it != condition).collect(),
                };
                pair.view = self.views.intern(&changed);
                stale.pods.extend(pair.cells.iter().filter_map(|it| self.spaces.cells.get(*it)).flat_map(|it| &it.pods));
            }
        }
    }

    /// Pairs for which a condition is not as it is by default.
    fn deviating_pairs(&self, conditions: &Join, condition: u32) -> Vec<u32> {
        let (Some((namespace, pod)), Some(wants)) = (conditions.selectors(condition), conditions.wants(condition)) else {
            return Vec::new();
        };
        let (namespaces, pods) = (&self.parts.namespaces, &self.parts.pods);
        let by_namespace = || {
            let sets = namespaces.deviants(namespace);
            sets.into_iter().filter_map(|it| self.spaces.by_namespace.get(&it)).flatten().copied().collect::<Vec<u32>>()
        };
        let by_pod = || {
            let sets = pods.deviants(pod);
            sets.into_iter().filter_map(|it| self.spaces.by_pod.get(&it)).flatten().copied().collect::<Vec<u32>>()
        };
        let mut found = match wants {
            Wants::Nothing => [by_namespace(), by_pod()].concat(),
            Wants::Namespace => by_namespace(),
            Wants::Pod => by_pod(),
            Wants::Both => {
                let (a, b) = (by_namespace(), by_pod());
                if a.len() <= b.len() { a } else { b }
            }
        };
        let default = conditions.default_of(condition);
        let holds = |id: &u32| {
            let Some(pair) = self.spaces.pairs.get(*id) else { return default };
            namespaces.holds(namespace, pair.of_namespace) && pods.holds(pod, pair.of_pod)
        };
        found.retain(|it| holds(it) != default);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Marks whom a policy speaks about.
    fn mark(&self, about: Option<About>, stale: &mut Stale) {
        match about {
            None | Some(About::Nobody) => {}
            Some(About::Own { namespace, pods }) => {
                let space = self.spaces.find(namespace).and_then(|it| self.spaces.get(it));
                let cells = space.into_iter().flat_map(|it| &it.cells).filter_map(|it| Some((*it, self.spaces.cells.get(*it)?)));
                stale.cells.extend(cells.filter(|(_, cell)| self.parts.pods.holds(pods, cell.labels)).map(|(id, _)| id));
            }
            Some(About::Matching(condition)) => {
                let deviating = self.deviating_pairs(&self.policies.subjects, condition);
                match self.policies.subjects.default_of(condition) {
                    false => stale.pairs.extend(deviating),
                    true => {
                        let all = self.spaces.pairs.iter().map(|(id, _)| id);
                        stale.pairs.extend(all.filter(|it| deviating.binary_search(it).is_err()));
                    }
                }
            }
        }
    }

    /// Blocks, names of ports and selectors of nodes that came or went.
    fn look_again(&mut self, news: &News, stale: &mut Stale) {
        if !news.prefixes.is_empty() {
            self.locate_again(&news.prefixes, stale);
            self.see_outside();
        }
        if !news.port_names.is_empty() {
            let asks = |ports: u32| self.ports.get(ports).chunks(2).filter_map(|it| it.first()).any(|it| news.port_names.contains(it));
            stale.pods.extend(self.pods.iter().filter(|(_, it)| asks(it.ports)).map(|(id, _)| id));
        }
        if !news.prefixes.is_empty() || !news.node_selectors.is_empty() || !news.nodes.is_empty() {
            let nodes: Vec<u32> = self.nodes.iter().map(|(slot, _)| slot).collect();
            nodes.into_iter().for_each(|it| self.settle_node(it));
        }
    }

    /// Looks up again where addresses are that some prefixes hold.
    fn locate_again(&mut self, prefixes: &[IpNet], stale: &mut Stale) {
        for (id, pod) in self.pods.iter_mut() {
            for seen in &mut pod.seen {
                let Some(address) = seen.address.filter(|it| prefixes.iter().any(|prefix| prefix.contains(it))) else { continue };
                seen.prefix = self.parts.prefixes.locate(address);
                stale.pods.insert(id);
            }
        }
        for seen in self.nodes.iter_mut().flat_map(|(_, it)| &mut it.seen) {
            seen.prefix = seen.address.map_or(seen.prefix, |it| self.parts.prefixes.locate(it));
        }
    }

    /// Works out everything that is marked, and settles the pods that it is about.
    fn refresh(&mut self, mut stale: Stale) -> Vec<EndpointId> {
        for id in stale.pairs {
            let Some(pair) = self.spaces.pairs.get(id) else { continue };
            let selecting = self.selecting(pair.of_namespace, pair.of_pod);
            if let Some(pair) = self.spaces.pairs.get_mut(id) {
                pair.selecting = selecting;
                stale.cells.extend(&pair.cells);
            }
        }
        for id in stale.cells {
            let Some((space, labels, pair)) = self.spaces.cells.get(id).map(|it| (it.space, it.labels, it.pair)) else { continue };
            let own = self.own_policies(space, labels);
            let selecting = self.spaces.pairs.get(pair).map_or(0, |it| it.selecting);
            let tiers = self.policies.tiers(selecting, own, &self.slots, &mut self.parts, &mut self.memo);
            if let Some(cell) = self.spaces.cells.get_mut(id) {
                (cell.own, cell.tiers) = (own, tiers);
                stale.pods.extend(&cell.pods);
            }
        }
        let mut changed: Vec<EndpointId> = stale.pods.into_iter().filter(|it| self.settle(*it)).map(|it| EndpointId(index(it))).collect();
        changed.sort_unstable();
        changed
    }
}
