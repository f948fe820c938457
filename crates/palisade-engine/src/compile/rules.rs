//! Rules reduced to numbers: equal rules of any policies are one.

use palisade_model::{Action, IpBlock, LabelSelector, NamespaceSet, Peer, PeerSet, PortMatch, PortProtocol, PortSet, Rule};

use crate::compile::intern::{Interned, Lists};
use crate::compile::join::Join;
use crate::compile::ports::{PortSetId, PortSets, base};
use crate::compile::selectors::Selectors;

/// Everything that rules are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) namespaces: Selectors,
    pub(crate) pods: Selectors,
    /// Selectors of nodes.
    pub(crate) nodes: Selectors,
    /// Selectors over pods of the subject's own namespace: by number in `pods`.
    pub(crate) peers: Join,
    pub(crate) blocks: Interned<IpBlock>,
    pub(crate) ports: PortSets,
    pub(crate) port_names: Interned<Box<str>>,
    pub(crate) named: Interned<Named>,
    pub(crate) rules: Interned<Compact>,
    pub(crate) lists: Lists,
}

/// A rule: whom it speaks of, by kinds that are found in different ways, and which traffic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Compact {
    pub(crate) action: Action,
    pub(crate) peers: Peers,
    pub(crate) ports: PortSetId,
    /// Named ports of the destination besides, sorted.
    pub(crate) named: Vec<u32>,
}

/// Whom a rule speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peers {
    pub(crate) everyone: Everyone,
    /// Conditions on pods of any namespace.
    pub(crate) pods: Vec<u32>,
    /// Selectors over pods of the subject's own namespace.
    pub(crate) local: Vec<u32>,
    pub(crate) blocks: Vec<u32>,
    pub(crate) nodes: Vec<u32>,
    pub(crate) names: Names,
}

impl Peers {
    /// Whether somebody of another namespace can be meant.
    pub(crate) fn looks_abroad(&self) -> bool {
        self.everyone != Everyone::No
            || !self.pods.is_empty()
            || !self.blocks.is_empty()
            || !self.nodes.is_empty()
            || self.names != Names::None
    }
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pub(crate) protocol: Option<PortProtocol>,
    pub(crate) name: u32,
}

impl Parts {
    /// The number of a rule. `own` is the namespace of its policy, if it has one.
    pub(crate) fn rule(&mut self, rule: &Rule) -> u32 {
        let (ports, named) = self.traffic(&rule.ports);
        let peers = self.peer_set(&rule.peers);
        self.rules.intern(Compact { action: rule.action, peers, ports, named })
    }

    fn peer_set(&mut self, set: &PeerSet) -> Peers {
        let mut peers = Peers::default();
        match set {
            PeerSet::Any => peers.everyone = Everyone::Yes,
            PeerSet::AnyButOwnNode => peers.everyone = Everyone::ButOwnNode,
            PeerSet::Of(entries) => entries.iter().for_each(|it| self.peer(it, &mut peers)),
        }
        for list in [&mut peers.pods, &mut peers.local, &mut peers.blocks, &mut peers.nodes] {
            list.sort_unstable();
            list.dedup();
        }
        peers
    }

    fn peer(&mut self, peer: &Peer, peers: &mut Peers) {
        match peer {
            // A policy of a namespace only ever means its own.
            Peer::Pods { namespaces: NamespaceSet::Own(_), pods } => peers.local.push(self.pods.add(pods)),
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => peers.pods.push(self.condition(namespaces, pods)),
            Peer::Networks(blocks) => peers.blocks.extend(blocks.iter().map(|it| self.blocks.intern(it.clone()))),
            Peer::Nodes(selector) => peers.nodes.push(self.nodes.add(selector)),
            Peer::Domains(patterns) => {
                let local = patterns.iter().any(|it| it.is_cluster_local());
                peers.names = peers.names.max(if local { Names::Anywhere } else { Names::Outside });
            }
            Peer::Unreadable => {}
        }
    }

    fn condition(&mut self, namespaces: &LabelSelector, pods: &LabelSelector) -> u32 {
        let (namespace, pod) = (self.namespaces.add(namespaces), self.pods.add(pods));
        self.peers.add(namespace, pod, &self.namespaces, &self.pods)
    }

    fn traffic(&mut self, set: &PortSet) -> (PortSetId, Vec<u32>) {
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
                PortMatch::Named { protocol, name } => {
                    let name = self.port_names.intern_by(name.as_ref());
                    named.push(self.named.intern(Named { protocol: *protocol, name }));
                }
                PortMatch::Unreadable => {}
            }
        }
        named.sort_unstable();
        named.dedup();
        (self.ports.of(parts), named)
    }
}
