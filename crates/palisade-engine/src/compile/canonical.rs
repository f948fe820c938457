//! Everything that was compiled, in words that depend on the objects alone and not on the order in which they came.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::{Direction, EndpointId, Model, NodeId};
use rustc_hash::FxHashMap;

use crate::compile::intern::index;
use crate::compile::rules::{Compact, Named};
use crate::compile::{At, Compiled, Foreign, Kind, Program};

/// Words for numbers, each worked out once, and then numbered by their order.
#[derive(Default)]
struct Table {
    words: FxHashMap<u32, String>,
}

impl Table {
    fn add(&mut self, id: u32, words: impl FnOnce() -> String) {
        self.words.entry(id).or_insert_with(words);
    }

    /// The place of each among all words, in order; and the words.
    fn numbered(self) -> (FxHashMap<u32, usize>, Vec<String>) {
        let distinct: BTreeSet<&String> = self.words.values().collect();
        let places: BTreeMap<&String, usize> = distinct.iter().enumerate().map(|(at, it)| (*it, at)).collect();
        let numbers = self.words.iter().filter_map(|(id, words)| Some((*id, *places.get(words)?))).collect();
        let words = distinct.into_iter().cloned().collect();
        (numbers, words)
    }
}

impl Compiled {
    /// The whole, as text: the same for the same objects, whether they were compiled at once or came and changed one by one, in any order.
    pub fn canonical(&self, model: &Model) -> String {
        let mut foreign = Table::default();
        let mut programs = [Table::default(), Table::default()];
        let mut rules = Table::default();
        for (id, rule) in self.parts.rules.iter() {
            rules.add(id, || self.rule(rule));
        }
        let seen = |table: &mut Table, seen: &[At]| {
            for id in seen.iter().map(|it| it.foreign) {
                table.add(id, || self.foreign.get(id).map(|it| self.view(*it)).unwrap_or_default());
            }
        };
        for (_, pod) in self.pods.iter() {
            seen(&mut foreign, &pod.seen);
            for (direction, table) in Direction::BOTH.into_iter().zip(&mut programs) {
                let id = *pod.programs.of(direction);
                table.add(id, || self.programs.of(direction).get(id).map(|it| self.program(*it)).unwrap_or_default());
            }
        }
        self.nodes.iter().for_each(|(_, it)| seen(&mut foreign, &it.seen));
        let (views, view_words) = foreign.numbered();
        let [(egress, egress_words), (ingress, ingress_words)] = programs.map(Table::numbered);
        let symbols = &self.parts.symbols;
        let place = |it: &At| (it.address.map(|it| it.to_string()), views.get(&it.foreign));
        let pods = self.pods.iter().map(|(slot, pod)| {
            let endpoint = model.endpoint(EndpointId(index(slot))).map(|it| &it.name);
            let namespace = self.spaces.get(pod.namespace).map_or("", |it| symbols.get(it.name));
            let node = pod.node.and_then(|it| model.node(it)).map(|it| &it.name);
            let labels = self.parts.pods.set_in_words(pod.labels, symbols);
            let seen: Vec<_> = pod.seen.iter().map(place).collect();
            let programs = (egress.get(&pod.programs.egress), ingress.get(&pod.programs.ingress));
            format!("pod {namespace} {endpoint:?} {node:?} {labels} {seen:?} {programs:?}")
        });
        let nodes = self.nodes.iter().map(|(slot, it)| (model.node(NodeId(index(slot))).map(|it| &it.name), it));
        let nodes = nodes.map(|(name, it)| format!("node {name:?} {:?}", it.seen.iter().map(place).collect::<Vec<_>>()));
        let ranges =
            self.parts.prefixes.ranges().into_iter().map(|(first, last, prefix)| format!("range {first} {last} {}", self.prefix(prefix)));
        let mut out = String::new();
        for (title, words) in [("rule", rules.numbered().1), ("view", view_words), ("egress", egress_words), ("ingress", ingress_words)] {
            out.extend(words.iter().enumerate().map(|(at, it)| format!("{title} {at}: {it}\n")));
        }
        for mut lines in [pods.collect::<Vec<String>>(), nodes.collect(), ranges.collect()] {
            lines.sort_unstable();
            out.extend(lines.into_iter().map(|it| it + "\n"));
        }
        out
    }

    fn prefix(&self, id: u32) -> String {
        self.parts.prefixes.get(id).map_or_else(|| "-".to_owned(), |it| it.to_string())
    }

    fn condition(&self, id: u32) -> String {
        let Some((namespace, pod)) = self.parts.peers.selectors(id) else { return String::new() };
        let (namespaces, pods) = (&self.parts.namespaces, &self.parts.pods);
        format!("{{{}}}{{{}}}", namespaces.in_words(namespace, &self.parts.symbols), pods.in_words(pod, &self.parts.symbols))
    }

    fn port(&self, list: &[u32]) -> String {
        let mut ports: Vec<(&str, u32)> = list
            .chunks(2)
            .filter_map(|it| if let [name, port] = it { Some((self.parts.symbols.get(*name), *port)) } else { None })
            .collect();
        ports.sort_unstable();
        format!("{ports:?}")
    }

    fn view(&self, foreign: Foreign) -> String {
        let ids = self.views.get(foreign.view).iter();
        let mut seen: Vec<String> = match foreign.kind {
            Kind::Pod => ids.map(|it| self.condition(*it)).collect(),
            Kind::Node => ids.map(|it| self.parts.nodes.in_words(*it, &self.parts.symbols)).collect(),
            Kind::Outside => Vec::new(),
        };
        seen.sort_unstable();
        let ports = self.port(self.port_views.get(foreign.ports));
        format!("{:?} {seen:?} {} {ports}", foreign.kind, self.prefix(foreign.prefix))
    }

    fn rule(&self, rule: &Compact) -> String {
        let symbols = &self.parts.symbols;
        let in_words = |ids: &[u32], words: &dyn Fn(u32) -> String| {
            let mut all: Vec<String> = ids.iter().map(|it| words(*it)).collect();
            all.sort_unstable();
            all
        };
        let peers = &rule.peers;
        let pods = in_words(peers.pods(), &|it| self.condition(it));
        let local = in_words(peers.local(), &|it| self.parts.pods.in_words(it, symbols));
        let nodes = in_words(peers.nodes(), &|it| self.parts.nodes.in_words(it, symbols));
        let blocks = in_words(peers.blocks(), &|it| self.parts.blocks.get(it).map(ToString::to_string).unwrap_or_default());
        let mut named: Vec<String> =
            rule.named.iter().map(|Named { protocol, name }| format!("{protocol:?} {}", symbols.get(*name))).collect();
        named.sort_unstable();
        let ports = self.parts.ports.parts(rule.ports);
        format!(
            "{:?} {:?} {pods:?} own {local:?} {nodes:?} {blocks:?} {:?} on {ports:?} {named:?}",
            rule.action, peers.everyone, peers.names
        )
    }

    fn program(&self, program: Program) -> String {
        let rules = |list: u32| -> Vec<String> {
            self.parts.lists.get(list).iter().filter_map(|it| self.parts.rules.get(*it)).map(|it| self.rule(it)).collect()
        };
        let network = program.network.map(|it| {
            let mut rules = rules(it);
            rules.sort_unstable();
            rules
        });
        let ports = self.port(self.port_views.get(program.ports));
        format!("{:?} {network:?} {:?} {ports}", rules(program.admin), rules(program.baseline))
    }
}
