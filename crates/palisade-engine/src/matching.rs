//! Whether a rule matches, and if not, what made it miss.

use palisade_model::{
    Direction, End, Endpoint, Flow, IpBlock, LabelSelector, Labels, Model, NamespaceSet, NodeAddresses, Peer, PeerSet, Place, PortMatch,
    PortSet, Protocol, RelativePods, Rule,
};

use crate::relative::{Nobody, Viewpoint, seen_from};
use crate::trace::{FailedRequirement, Match, PeerMiss, PeerMisses, PortMiss, Scope};

/// One direction of one flow: everything a rule is matched against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) model: &'a Model,
    pub(crate) flow: &'a Flow,
    pub(crate) direction: Direction,
    pub(crate) subject: &'a Endpoint,
}

impl<'a> Question<'a> {
    /// The other end.
    pub(crate) fn peer(&self) -> &'a End {
        match self.direction {
            Direction::Egress => &self.flow.to,
            Direction::Ingress => &self.flow.from,
        }
    }

    /// SPEC: semantics 1.8: ingress from the node the subject runs on.
    pub(crate) fn is_own_node_calling(&self) -> bool {
        let on = self.subject.node.map(Place::Node);
        self.direction == Direction::Ingress && self.nodes_have_addresses() && on.is_some_and(|node| self.flow.from.place == node)
    }

    /// SPEC: multiple networks: node peers and the exemption of the own node need a node with an address on the network.
    fn nodes_have_addresses(&self) -> bool {
        self.model.node_addresses(self.flow.network) == NodeAddresses::Present
    }

    pub(crate) fn try_rule(&self, rule: &Rule) -> Match {
        if self.is_of_unknown_pod() {
            return self.try_unknown(rule);
        }
        let peers = self.try_peers(&rule.peers);
        let ports = self.try_ports(&rule.ports);
        match (peers, ports) {
            (Hit::Yes(peer), Ok(port)) => Match::Yes { peer, port },
            (Hit::Perhaps(peer), Ok(_)) => Match::DependsOnDns { peer },
            (Hit::Yes(_) | Hit::Perhaps(_), Err(ports)) => Match::No { peers: None, ports: Some(ports) },
            (Hit::No(peers), ports) => Match::No { peers: Some(peers), ports: ports.err() },
        }
    }

    /// Whether some peers match, without what made them miss.
    pub(crate) fn match_peers(&self, peers: &PeerSet) -> PeersMatch {
        match self.try_peers(peers) {
            Hit::Yes(_) => PeersMatch::Yes,
            Hit::Perhaps(peer) => PeersMatch::Perhaps(peer),
            Hit::No(_) => PeersMatch::No,
        }
    }

    fn try_peers(&self, peers: &PeerSet) -> Hit {
        let entries = match peers {
            PeerSet::Any => return Hit::Yes(None),
            PeerSet::AnyButOwnNode if self.is_own_node_calling() => return Hit::No(PeerMisses::SparesOwnNode),
            PeerSet::AnyButOwnNode => return Hit::Yes(None),
            PeerSet::Of(entries) => entries,
        };
        let mut misses = Vec::with_capacity(entries.len());
        let mut perhaps = None;
        for (at, entry) in entries.iter().enumerate() {
            match self.try_peer(entry) {
                Ok(true) => return Hit::Yes(Some(at)),
                Ok(false) => perhaps = perhaps.or(Some(at)),
                Err(miss) => misses.push(miss),
            }
        }
        perhaps.map_or(Hit::No(PeerMisses::Entries(misses)), Hit::Perhaps)
    }

    /// `Ok(false)`: only if a name resolves to the other end.
    fn try_peer(&self, peer: &Peer) -> Result<bool, PeerMiss> {
        let other = self.peer();
        match peer {
            Peer::Pods { namespaces, pods } => self.try_pods(namespaces, pods).map(|()| true),
            Peer::Relative(relative) => self.try_relative(relative).map(|()| true),
            Peer::Networks(blocks) => in_blocks(other, blocks).map(|()| true),
            Peer::Nodes(selector) => self.try_node(selector).map(|()| true),
            // SPEC: semantics 7.4: names of pods are the cluster's own.
            Peer::Domains(patterns) => match other.place {
                Place::Outside | Place::Node(_) => Ok(false),
                Place::Pod(_) if patterns.iter().any(|pattern| pattern.is_cluster_local()) => Ok(false),
                Place::Pod(_) => Err(PeerMiss::NoName),
            },
            Peer::Unreadable => Err(PeerMiss::Unreadable),
        }
    }

    fn try_pods(&self, namespaces: &NamespaceSet, pods: &LabelSelector) -> Result<(), PeerMiss> {
        let Place::Pod(id) = self.peer().place else { return Err(PeerMiss::NotAPod) };
        // SPEC: multiple networks: a selector means the addresses that pods have on the network of the flow.
        let pod = self.model.endpoint(id).filter(|it| it.network() == self.flow.network).ok_or(PeerMiss::NotAPod)?;
        let of_pod = failed(Scope::Pod, pods, &pod.labels);
        match namespaces {
            NamespaceSet::Own(own) if *own != pod.name.namespace => Err(PeerMiss::OtherNamespace { own: own.clone(), pod: of_pod }),
            NamespaceSet::Own(_) => none_failed(of_pod),
            NamespaceSet::Matching(selector) => {
                let mut all = failed(Scope::Namespace, selector, self.model.namespace_labels(&pod.name.namespace));
                all.extend(of_pod);
                none_failed(all)
            }
        }
    }

    /// The first way to be meant is the one that is told when none holds.
    fn try_relative(&self, relative: &RelativePods) -> Result<(), PeerMiss> {
        let miss = |scope, key| PeerMiss::NothingToCompare { scope, key };
        let meant = seen_from(relative, Viewpoint::of(self.model, self.subject)).map_err(|nobody| match nobody {
            Nobody::NoKey(scope) => miss(scope, None),
            Nobody::Lacks(scope, key) => miss(scope, Some(key)),
        })?;
        let mut tried = meant.iter().map(|(namespaces, pods)| self.try_pods(namespaces, pods));
        let first = tried.next().unwrap_or(Err(PeerMiss::Unreadable));
        if first.is_ok() || tried.any(|it| it.is_ok()) { Ok(()) } else { first }
    }

    fn try_node(&self, selector: &LabelSelector) -> Result<(), PeerMiss> {
        let Place::Node(id) = self.peer().place else { return Err(PeerMiss::NotANode) };
        let node = self.model.node(id).filter(|_| self.nodes_have_addresses()).ok_or(PeerMiss::NotANode)?;
        none_failed(failed(Scope::Node, selector, &node.labels))
    }

    fn try_ports(&self, ports: &PortSet) -> Result<Option<usize>, Vec<PortMiss>> {
        let entries = match ports {
            PortSet::Any => return Ok(None),
            PortSet::Of(entries) => entries,
        };
        let mut misses = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            match self.try_port(entry) {
                Ok(()) => return Ok(Some(at)),
                Err(miss) => misses.push(miss),
            }
        }
        Err(misses)
    }

    pub(crate) fn try_port(&self, entry: &PortMatch) -> Result<(), PortMiss> {
        let flow = self.flow;
        match entry {
            PortMatch::Numbers { protocol, .. } if flow.protocol != Protocol::Port(*protocol) => Err(PortMiss::Protocol(*protocol)),
            PortMatch::Numbers { ports, .. } if flow.port.is_some_and(|port| ports.contains(port)) => Ok(()),
            PortMatch::Numbers { ports, .. } => Err(PortMiss::Number(*ports)),
            // SPEC: semantics 1.5: names are resolved on the destination, whichever direction is judged.
            PortMatch::Named { protocol, name } => {
                let pod = match flow.to.place {
                    Place::Pod(id) => self.model.endpoint(id),
                    Place::Node(_) | Place::Outside => None,
                };
                let Some(pod) = pod else { return Err(PortMiss::NameOfNoPod(name.clone())) };
                let mut named = pod
                    .ports
                    .iter()
                    .filter(|port| port.name.as_ref() == Some(name) && protocol.is_none_or(|wanted| wanted == port.protocol));
                let hit =
                    |port: &palisade_model::ContainerPort| flow.protocol == Protocol::Port(port.protocol) && flow.port == Some(port.port);
                match (named.clone().any(hit), named.next()) {
                    (true, _) => Ok(()),
                    (false, Some(port)) => Err(PortMiss::NameIs { name: name.clone(), protocol: port.protocol, port: port.port }),
                    (false, None) => Err(PortMiss::NoSuchName(name.clone())),
                }
            }
            PortMatch::Unreadable => Err(PortMiss::Unreadable),
        }
    }
}

/// Whether the other end is among some peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeersMatch {
    Yes,
    /// If the name of this entry resolves to it.
    Perhaps(usize),
    No,
}

enum Hit {
    Yes(Option<usize>),
    Perhaps(usize),
    No(PeerMisses),
}

pub(crate) fn in_blocks(end: &End, blocks: &[IpBlock]) -> Result<(), PeerMiss> {
    let Some(address) = end.address else { return Err(PeerMiss::NoAddress) };
    if blocks.iter().any(|block| block.contains(address)) {
        return Ok(());
    }
    let within = blocks.iter().filter(|block| block.cidr.contains(&address));
    let except = within.flat_map(|block| &block.except).find(|except| except.contains(&address));
    Err(except.map_or(PeerMiss::NotInBlocks, |except| PeerMiss::Excepted(*except)))
}

fn failed(scope: Scope, selector: &LabelSelector, labels: &Labels) -> Vec<FailedRequirement> {
    let missed = selector.requirements.iter().filter(|requirement| !requirement.matches(labels));
    let failed = |requirement: &palisade_model::Requirement| FailedRequirement {
        scope,
        requirement: requirement.clone(),
        found: labels.get(&requirement.key).map(Box::from),
    };
    missed.map(failed).collect()
}

fn none_failed(failed: Vec<FailedRequirement>) -> Result<(), PeerMiss> {
    if failed.is_empty() { Ok(()) } else { Err(PeerMiss::Labels(failed)) }
}
