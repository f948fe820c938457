//! What the programs of a node ask about other ends: its rules reduced to numbers, and the words for each number.

use std::collections::BTreeSet;

use palisade_model::{
    Direction, Family, IpBlock, LabelSelector, Labels, NamespaceSet, Peer, PeerSet, PerDirection, PortMatch, PortSet, Rule,
};
use rustc_hash::FxHashMap;

use crate::compile::intern::{Interned, Symbols, index, number};
use crate::compile::join::Join;
use crate::compile::node::selected::Selected;
use crate::compile::node::words;
use crate::compile::rules::{Everyone, Names, namespace_named};
use crate::compile::selectors::{self, Selectors};
use crate::unknown::covers_all;

/// How many words are made of what may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// A count and a digest, where there are many blocks or exceptions.
    Short,
    /// All of them.
    Full,
}

/// Everything that is asked about.
#[derive(Debug, Default)]
pub(super) struct Asked<'m> {
    symbols: Symbols,
    pub(super) namespaces: Selectors,
    pub(super) pods: Selectors,
    pub(super) nodes: Selectors,
    /// Conditions on pods of any namespace.
    pub(super) peers: Join,
    pub(super) blocks: Interned<IpBlock>,
    /// Names of ports of other ends.
    pub(super) port_names: BTreeSet<&'m str>,
    /// Selectors over the pods of a namespace of the node, by the number of that.
    pub(super) own: FxHashMap<u32, Own<'m>>,
    rules: Vec<Asking<'m>>,
    /// Place of the first rule of a policy and how many there are.
    of_policy: PerDirection<FxHashMap<u32, (usize, usize)>>,
    namespace_words: Vec<String>,
    pod_words: Vec<String>,
    node_words: Vec<String>,
    peer_words: Vec<String>,
    block_words: Vec<String>,
}

/// What is asked about pods of one namespace from inside of it.
#[derive(Debug)]
pub(super) struct Own<'m> {
    pub(super) name: &'m str,
    pub(super) selectors: BTreeSet<u32>,
}

/// A rule by what it asks.
#[derive(Debug)]
pub(super) struct Asking<'m> {
    /// Its number among all rules that are asked.
    pub(super) id: u32,
    pub(super) rule: &'m Rule,
    pub(super) everyone: Everyone,
    /// Conditions on pods of any namespace.
    pub(super) pods: Vec<u32>,
    /// Whether one of these covers every pod there could be.
    pub(super) all_pods: bool,
    /// Namespace and selector over its pods.
    pub(super) own: Vec<(u32, u32)>,
    /// In order, each once.
    pub(super) blocks: Vec<u32>,
    /// Families that one of these holds as a whole, unless it says otherwise.
    whole: Vec<Family>,
    pub(super) nodes: Vec<u32>,
    pub(super) names: Names,
    /// Names of ports of the destination.
    pub(super) ports: Vec<&'m str>,
}

impl Asking<'_> {
    /// Whether one of its blocks holds every address of a family unless it says otherwise.
    pub(super) fn is_whole(&self, family: Family) -> bool {
        self.whole.contains(&family)
    }
}

impl<'m> Asked<'m> {
    pub(super) fn by(selected: &Selected<'m>) -> Asked<'m> {
        let mut asked = Asked::default();
        for direction in Direction::BOTH {
            let mut policies: Vec<u32> = selected.lists(direction).flatten().copied().collect();
            policies.sort_unstable();
            policies.dedup();
            for policy in policies {
                let (first, rules) = (asked.rules.len(), selected.rules(direction, policy));
                for rule in rules {
                    let asking = asked.asking(rule, direction, &selected.namespaces);
                    asked.rules.push(asking);
                }
                asked.of_policy.of_mut(direction).insert(policy, (first, rules.len()));
            }
        }
        asked
    }

    /// The rules of a policy that selects a pod of the node.
    pub(super) fn rules(&self, direction: Direction, policy: u32) -> &[Asking<'m>] {
        let (first, count) = self.of_policy.of(direction).get(&policy).copied().unwrap_or((0, 0));
        self.rules.get(first..first + count).unwrap_or(&[])
    }

    /// The rules of all policies that select a pod of the node, by number.
    pub(super) fn all_rules(&self) -> &[Asking<'m>] {
        &self.rules
    }

    pub(super) fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Whether a block holds every address of a family unless it says otherwise.
    pub(super) fn is_whole(&self, block: u32, family: Family) -> bool {
        self.blocks.get(block).is_some_and(|it| it.cidr.prefix_len() == 0 && Family::of(it.cidr.network()) == family)
    }

    pub(super) fn peer_word(&self, condition: u32) -> String {
        worded("", self.peer_words.get(index(condition)), condition)
    }

    pub(super) fn own_word(&self, selector: u32) -> String {
        worded("own ", self.pod_words.get(index(selector)), selector)
    }

    pub(super) fn node_word(&self, selector: u32) -> String {
        worded("node ", self.node_words.get(index(selector)), selector)
    }

    pub(super) fn block_word(&self, block: u32, listing: Listing) -> String {
        match listing {
            Listing::Short => worded("block ", self.block_words.get(index(block)), block),
            Listing::Full => worded("block ", self.blocks.get(block).map(words::block).as_ref(), block),
        }
    }

    fn asking(&mut self, rule: &'m Rule, direction: Direction, namespaces: &FxHashMap<&'m str, u32>) -> Asking<'m> {
        let mut asking = Asking {
            id: number(self.rules.len()),
            rule,
            everyone: Everyone::No,
            pods: Vec::new(),
            all_pods: false,
            own: Vec::new(),
            blocks: Vec::new(),
            whole: Vec::new(),
            nodes: Vec::new(),
            names: Names::None,
            ports: Vec::new(),
        };
        if let PortSet::Of(entries) = &rule.ports {
            asking.ports.extend(entries.iter().filter_map(name));
            asking.ports.sort_unstable();
            asking.ports.dedup();
        }
        // Ports are those of the destination.
        if direction == Direction::Egress {
            self.port_names.extend(&asking.ports);
        }
        match &rule.peers {
            PeerSet::Any => asking.everyone = Everyone::Yes,
            PeerSet::AnyButOwnNode => asking.everyone = Everyone::ButOwnNode,
            PeerSet::Of(peers) => peers.iter().for_each(|it| self.peer(it, namespaces, &mut asking)),
        }
        asking.blocks.sort_unstable();
        asking.blocks.dedup();
        let is_whole = |family: &Family| asking.blocks.iter().any(|it| self.is_whole(*it, *family));
        asking.whole = [Family::V4, Family::V6].into_iter().filter(is_whole).collect();
        asking
    }

    fn peer(&mut self, peer: &'m Peer, namespaces: &FxHashMap<&'m str, u32>, asking: &mut Asking<'m>) {
        if let Peer::Pods { namespaces, pods } = peer {
            asking.all_pods |= covers_all(namespaces, pods);
        }
        match peer {
            Peer::Pods { namespaces: NamespaceSet::Own(own), pods } => {
                let Some(namespace) = namespaces.get(own.as_ref()) else {
                    return asking.pods.push(self.condition(&namespace_named(own), pods));
                };
                let selector = self.pod_selector(pods);
                let of = self.own.entry(*namespace).or_insert_with(|| Own { name: own, selectors: BTreeSet::new() });
                of.selectors.insert(selector);
                asking.own.push((*namespace, selector));
            }
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => asking.pods.push(self.condition(namespaces, pods)),
            Peer::Networks(blocks) => asking.blocks.extend(blocks.iter().map(|it| self.block(it))),
            Peer::Nodes(selector) => {
                let id = self.nodes.add(selector, &mut self.symbols, &mut selectors::Asked::default());
                say(&mut self.node_words, id, || words::selector(selector));
                asking.nodes.push(id);
            }
            Peer::Domains(patterns) => {
                let local = patterns.iter().any(|it| it.is_cluster_local());
                asking.names = asking.names.max(if local { Names::Anywhere } else { Names::Outside });
            }
            // Parts of policies have none.
            Peer::Relative(_) | Peer::Unreadable => {}
        }
    }

    /// The number of a block. Its exceptions may be written in any order.
    fn block(&mut self, block: &IpBlock) -> u32 {
        let mut block = block.clone();
        block.except.sort_unstable();
        block.except.dedup();
        let id = self.blocks.intern(block);
        let blocks = &self.blocks;
        say(&mut self.block_words, id, || blocks.get(id).map(words::short_block).unwrap_or_default());
        id
    }

    /// Selectors of namespaces that deviate for some labels.
    pub(super) fn of_namespace(&mut self, labels: &Labels) -> &[u32] {
        self.namespaces.deviating_for(labels, &mut self.symbols)
    }

    /// Selectors of pods that deviate for some labels.
    pub(super) fn of_pod(&mut self, labels: &Labels) -> &[u32] {
        self.pods.deviating_for(labels, &mut self.symbols)
    }

    /// Selectors of nodes that hold for some labels.
    pub(super) fn of_node(&mut self, labels: &Labels) -> Vec<u32> {
        let read = self.nodes.read(labels, &mut self.symbols);
        let set = self.nodes.reduce(read);
        self.nodes.used().filter(|it| self.nodes.holds(*it, set)).collect()
    }

    fn pod_selector(&mut self, pods: &LabelSelector) -> u32 {
        let id = self.pods.add(pods, &mut self.symbols, &mut selectors::Asked::default());
        say(&mut self.pod_words, id, || words::selector(pods));
        id
    }

    fn condition(&mut self, namespaces: &LabelSelector, pods: &LabelSelector) -> u32 {
        let namespace = self.namespaces.add(namespaces, &mut self.symbols, &mut selectors::Asked::default());
        let pod = self.pod_selector(pods);
        say(&mut self.namespace_words, namespace, || words::selector(namespaces));
        let (id, _) = self.peers.add(namespace, pod, &self.namespaces, &self.pods);
        let of = |words: &[String], id: u32| words.get(index(id)).cloned().unwrap_or_default();
        let (namespace_words, pod_words) = (&self.namespace_words, &self.pod_words);
        say(&mut self.peer_words, id, || format!("peer {} {}", of(namespace_words, namespace), of(pod_words, pod)));
        id
    }
}

/// What words say of a number. Every number has words; if one had not, it would still be told from all others, since classes with the same words
/// are one.
fn worded(what: &str, words: Option<&String>, id: u32) -> String {
    words.map_or_else(|| format!("{what}#{id}"), |it| format!("{what}{it}"))
}

/// The words for a number, if it is new.
fn say(words: &mut Vec<String>, id: u32, word: impl FnOnce() -> String) {
    if number(words.len()) == id {
        words.push(word());
    }
}

fn name(entry: &PortMatch) -> Option<&str> {
    match entry {
        PortMatch::Named { name, .. } => Some(name),
        PortMatch::Numbers { .. } | PortMatch::Unreadable => None,
    }
}
