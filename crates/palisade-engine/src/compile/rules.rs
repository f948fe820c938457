//! Rules reduced to numbers: equal rules of any policies are one. Every use of a rule is a use of all that it is made of.

use ipnet::IpNet;
use palisade_model::{
    Action, IpBlock, LabelSelector, NamespaceSet, Operator, Peer, PeerSet, PortMatch, PortProtocol, PortSet, Requirement, Rule,
};
use rustc_hash::FxHashMap;

use crate::compile::intern::{Counted, Lists, Symbols, Uses, index, number};
use crate::compile::join::Join;
use crate::compile::ports::{PortSetId, PortSets, base};
use crate::compile::prefixes::Prefixes;
use crate::compile::selectors::{Asked, Selectors};

/// Every namespace has its name as a label.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Everything that rules are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) symbols: Symbols,
    pub(crate) namespaces: Selectors,
    pub(crate) pods: Selectors,
    /// Selectors of nodes.
    pub(crate) nodes: Selectors,
    /// Conditions on pods of any namespace. Selectors over pods of the subject's own are known by their number in `pods`.
    pub(crate) peers: Join,
    pub(crate) blocks: Counted<IpBlock>,
    pub(crate) prefixes: Prefixes,
    pub(crate) ports: PortSets,
    /// Names of ports that rules ask for, and how many do.
    pub(crate) port_names: FxHashMap<u32, u32>,
    pub(crate) rules: Counted<Compact>,
    pub(crate) lists: Lists,
    gathered: Gathered,
}

/// What an edit of policies brought in, or left without use.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) namespaces: Asked,
    pub(crate) pods: Asked,
    pub(crate) nodes: Asked,
    /// Selectors of nodes that came or went.
    pub(crate) node_selectors: Vec<u32>,
    pub(crate) conditions: Vec<u32>,
    pub(crate) prefixes: Vec<IpNet>,
    pub(crate) port_names: Vec<u32>,
}

/// What nobody uses any more, but still is in its place.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    pub(crate) namespaces: Vec<u32>,
    pub(crate) pods: Vec<u32>,
    pub(crate) nodes: Vec<u32>,
    pub(crate) conditions: Vec<u32>,
    pub(crate) blocks: Vec<u32>,
    pub(crate) rules: Vec<u32>,
}

/// A rule: whom it speaks of, by kinds that are found in different ways, and which traffic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Compact {
    pub(crate) action: Action,
    pub(crate) peers: Peers,
    pub(crate) ports: PortSetId,
    /// Named ports of the destination besides, sorted.
    pub(crate) named: Vec<Named>,
}

/// Whom a rule speaks of. All numbers stand in one list, so that rules are compared at one go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peers {
    pub(crate) everyone: Everyone,
    pub(crate) names: Names,
    all: Box<[u32]>,
    /// Where pods, local and blocks end; nodes are the rest.
    ends: [u32; 3],
}

impl Peers {
    fn of(gathered: &Gathered) -> Peers {
        let Gathered { everyone, pods, local, blocks, nodes, names } = gathered;
        let all = [pods.as_slice(), local, blocks, nodes].concat().into();
        let ends = [pods.len(), pods.len() + local.len(), pods.len() + local.len() + blocks.len()].map(number);
        Peers { everyone: *everyone, names: *names, all, ends }
    }

    fn part(&self, first: u32, end: Option<u32>) -> &[u32] {
        let end = end.map_or(self.all.len(), index);
        self.all.get(index(first)..end).unwrap_or(&[])
    }

    /// Conditions on pods of any namespace.
    pub(crate) fn pods(&self) -> &[u32] {
        let [end, ..] = self.ends;
        self.part(0, Some(end))
    }

    /// Selectors over pods of the subject's own namespace.
    pub(crate) fn local(&self) -> &[u32] {
        let [first, end, _] = self.ends;
        self.part(first, Some(end))
    }

    pub(crate) fn blocks(&self) -> &[u32] {
        let [_, first, end] = self.ends;
        self.part(first, Some(end))
    }

    pub(crate) fn nodes(&self) -> &[u32] {
        let [.., first] = self.ends;
        self.part(first, None)
    }

    /// Whether somebody of another namespace can be meant.
    pub(crate) fn looks_abroad(&self) -> bool {
        self.everyone != Everyone::No || self.names != Names::None || self.local().len() < self.all.len()
    }
}

/// Whom a rule speaks of, while its parts are gathered.
#[derive(Clone, Debug, Default)]
struct Gathered {
    everyone: Everyone,
    pods: Vec<u32>,
    local: Vec<u32>,
    blocks: Vec<u32>,
    nodes: Vec<u32>,
    names: Names,
}

/// Whether a rule speaks of everyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Everyone {
    #[default]
    No,
    /// But the subject's own node.
    ButOwnNode,
    Yes,
}

/// Whether a rule speaks of domain names, which may be anybody's outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Names {
    #[default]
    None,
    /// Nobody of the cluster has them.
    Outside,
    /// Pods may have them, too.
    Anywhere,
}

/// A named port as a rule asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) protocol: Option<PortProtocol>,
    pub(crate) name: u32,
}

impl Parts {
    /// One more who uses a rule: its number. `own` is the namespace whose pods the policy speaks about, if it is one.
    pub(crate) fn add_rule(&mut self, rule: &Rule, own: Option<&str>, news: &mut News) -> u32 {
        let (ports, named) = self.traffic(&rule.ports, news);
        let peers = self.peer_set(&rule.peers, own, news);
        self.rules.add_owned(Compact { action: rule.action, peers, ports, named }).0
    }

    /// One less who uses a rule and all that it is made of.
    pub(crate) fn release_rule(&mut self, id: u32, news: &mut News, unused: &mut Unused) {
        let Some(rule) = self.rules.get(id).cloned() else { return };
        note(self.rules.release(id), id, &mut unused.rules);
        for condition in rule.peers.pods() {
            self.release_condition(*condition, unused);
        }
        for selector in rule.peers.local() {
            note(self.pods.release(*selector), *selector, &mut unused.pods);
        }
        for selector in rule.peers.nodes() {
            note(self.nodes.release(*selector), *selector, &mut unused.nodes);
        }
        for block in rule.peers.blocks() {
            note(self.blocks.release(*block), *block, &mut unused.blocks);
        }
        for named in rule.named {
            let Some(count) = self.port_names.get_mut(&named.name) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.port_names.remove(&named.name);
                news.port_names.push(named.name);
            }
        }
    }

    fn release_condition(&mut self, id: u32, unused: &mut Unused) {
        let Some((namespace, pod)) = self.peers.selectors(id) else { return };
        note(self.peers.release(id), id, &mut unused.conditions);
        note(self.namespaces.release(namespace), namespace, &mut unused.namespaces);
        note(self.pods.release(pod), pod, &mut unused.pods);
    }

    /// Takes everything out that nobody uses. What it was seen in must be gone already.
    pub(crate) fn bury(&mut self, unused: &Unused, news: &mut News) {
        self.rules.forget(&unused.rules);
        self.peers.bury(&unused.conditions);
        self.namespaces.bury(&unused.namespaces, &mut news.namespaces);
        self.pods.bury(&unused.pods, &mut news.pods);
        news.node_selectors.extend(&unused.nodes);
        self.nodes.bury(&unused.nodes, &mut news.nodes);
        for block in self.blocks.unused(&unused.blocks) {
            if let Some(block) = self.blocks.get(block) {
                news.prefixes.extend(self.prefixes.release(block));
            }
        }
        self.blocks.forget(&unused.blocks);
    }

    fn peer_set(&mut self, set: &PeerSet, own: Option<&str>, news: &mut News) -> Peers {
        let mut peers = std::mem::take(&mut self.gathered);
        match set {
            PeerSet::Any => peers.everyone = Everyone::Yes,
            PeerSet::AnyButOwnNode => peers.everyone = Everyone::ButOwnNode,
            PeerSet::Of(entries) => entries.iter().for_each(|it| self.peer(it, own, &mut peers, news)),
        }
        // What is written twice is used once. Nothing can be without use here, for the first of them stays.
        let mut unused = Unused::default();
        for twice in once(&mut peers.pods) {
            self.release_condition(twice, &mut unused);
        }
        for twice in once(&mut peers.local) {
            self.pods.release(twice);
        }
        for twice in once(&mut peers.nodes) {
            self.nodes.release(twice);
        }
        for twice in once(&mut peers.blocks) {
            self.blocks.release(twice);
        }
        let found = Peers::of(&peers);
        // What it has room for is used again.
        (peers.everyone, peers.names) = (Everyone::No, Names::None);
        for list in [&mut peers.pods, &mut peers.local, &mut peers.blocks, &mut peers.nodes] {
            list.clear();
        }
        self.gathered = peers;
        found
    }

    fn peer(&mut self, peer: &Peer, own: Option<&str>, peers: &mut Gathered, news: &mut News) {
        match peer {
            Peer::Pods { namespaces: NamespaceSet::Own(of), pods } if own == Some(of) => {
                peers.local.push(self.pods.add(pods, &mut self.symbols, &mut news.pods));
            }
            Peer::Pods { namespaces: NamespaceSet::Own(of), pods } => {
                peers.pods.push(self.condition(&namespace_named(of), pods, news));
            }
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => peers.pods.push(self.condition(namespaces, pods, news)),
            Peer::Networks(blocks) => {
                for block in blocks {
                    let (id, uses) = self.blocks.add(block);
                    if uses == Uses::Only {
                        news.prefixes.extend(self.prefixes.add(block));
                    }
                    peers.blocks.push(id);
                }
            }
            Peer::Nodes(selector) => {
                let id = self.nodes.add(selector, &mut self.symbols, &mut news.nodes);
                news.node_selectors.push(id);
                peers.nodes.push(id);
            }
            Peer::Domains(patterns) => {
                let local = patterns.iter().any(|it| it.is_cluster_local());
                peers.names = peers.names.max(if local { Names::Anywhere } else { Names::Outside });
            }
            // Parts of policies have none.
            Peer::Relative(_) | Peer::Unreadable => {}
        }
    }

    fn condition(&mut self, namespaces: &LabelSelector, pods: &LabelSelector, news: &mut News) -> u32 {
        let namespace = self.namespaces.add(namespaces, &mut self.symbols, &mut news.namespaces);
        let pod = self.pods.add(pods, &mut self.symbols, &mut news.pods);
        let (id, uses) = self.peers.add(namespace, pod, &self.namespaces, &self.pods);
        if uses == Uses::Only {
            news.conditions.push(id);
        }
        id
    }

    fn traffic(&mut self, set: &PortSet, news: &mut News) -> (PortSetId, Vec<Named>) {
        let entries = match set {
            PortSet::Any => return (PortSetId::ALL, Vec::new()),
            PortSet::Of(entries) => entries,
        };
        let mut parts = Vec::new();
        let mut named = Vec::new();
        for entry in entries {
            match entry {
                PortMatch::Numbers { protocol, ports } => {
                    let base = base(*protocol);
                    parts.push((base + u32::from(ports.first()), base + u32::from(ports.last()) + 1));
                }
                PortMatch::Named { protocol, name } => named.push(Named { protocol: *protocol, name: self.symbols.intern(name) }),
                PortMatch::Unreadable => {}
            }
        }
        named.sort_unstable();
        named.dedup();
        for Named { name, .. } in &named {
            let count = self.port_names.entry(*name).or_insert(0);
            *count += 1;
            if *count == 1 {
                news.port_names.push(*name);
            }
        }
        (self.ports.of(parts), named)
    }
}

/// The selector of one namespace.
pub(crate) fn namespace_named(name: &str) -> LabelSelector {
    LabelSelector { requirements: vec![Requirement { key: NAME_LABEL.into(), operator: Operator::Equals(name.into()) }] }
}

fn note(uses: Uses, id: u32, unused: &mut Vec<u32>) {
    if uses == Uses::Only {
        unused.push(id);
    }
}

/// Sorts, and takes out what is there twice.
fn once(list: &mut Vec<u32>) -> Vec<u32> {
    if list.len() < 2 {
        return Vec::new();
    }
    list.sort_unstable();
    let twice: Vec<u32> = list.windows(2).filter_map(|it| (it.first() == it.get(1)).then(|| it.first().copied()).flatten()).collect();
    list.dedup();
    twice
}
