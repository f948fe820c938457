//! For a pod that is isolated: the rule that came closest to accepting.

use palisade_engine::{Match, PeerMiss, PeerMisses, PortMiss, RuleStep, Scope};

/// The rule that missed by least, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    pub step: RuleStep,
    /// Index of the peer entry that missed by least; none if a peer matched.
    pub peer: Option<usize>,
    /// Index of the port entry that missed by least; none if a port matched.
    pub port: Option<usize>,
}

impl Nearest {
    /// Why that peer entry missed.
    pub fn peer_miss(&self) -> Option<&PeerMiss> {
        match (&self.step.result, self.peer) {
            (Match::No { peers: Some(PeerMisses::Entries(misses)), .. }, Some(at)) => misses.get(at),
            (Match::No { .. } | Match::Yes { .. } | Match::DependsOnDns { .. }, _) => None,
        }
    }

    /// Why that port entry missed.
    pub fn port_miss(&self) -> Option<&PortMiss> {
        match (&self.step.result, self.port) {
            (Match::No { ports: Some(misses), .. }, Some(at)) => misses.get(at),
            (Match::No { .. } | Match::Yes { .. } | Match::DependsOnDns { .. }, _) => None,
        }
    }
}

/// The nearest of the rules that were tried and missed. The first one wins a tie.
pub fn nearest(rules: &[RuleStep]) -> Option<Nearest> {
    let scored = rules.iter().filter_map(|step| {
        let Match::No { peers, ports } = &step.result else { return None };
        let (peer, peer_cost) = cheapest(peers.as_ref().map(|it| match it {
            PeerMisses::Entries(misses) => misses.iter().map(peer_cost).collect(),
            PeerMisses::SparesOwnNode => Vec::new(),
        }));
        let (port, port_cost) = cheapest(ports.as_ref().map(|misses| misses.iter().map(port_cost).collect()));
        Some((peer_cost + port_cost, Nearest { step: step.clone(), peer, port }))
    });
    scored.min_by_key(|(cost, _)| *cost).map(|(_, nearest)| nearest)
}

/// Index and cost of the cheapest miss; a part that matched costs nothing, one that cannot match costs most.
fn cheapest(costs: Option<Vec<usize>>) -> (Option<usize>, usize) {
    let Some(costs) = costs else { return (None, 0) };
    let best = costs.iter().enumerate().min_by_key(|(_, cost)| **cost);
    best.map_or((None, 100), |(at, cost)| (Some(at), *cost))
}

fn peer_cost(miss: &PeerMiss) -> usize {
    match miss {
        PeerMiss::Labels(failed) => failed.iter().map(|it| if it.scope == Scope::Pod { 2 } else { 3 }).sum(),
        PeerMiss::OtherNamespace { pod, .. } => 4 + 2 * pod.len(),
        PeerMiss::Excepted(_) | PeerMiss::NotInBlocks => 6,
        PeerMiss::NoAddress => 5,
        PeerMiss::NothingToCompare { .. } => 10,
        PeerMiss::NotAPod | PeerMiss::NotANode | PeerMiss::NoName => 20,
        PeerMiss::NotKnown | PeerMiss::Unreadable => 50,
    }
}

fn port_cost(miss: &PortMiss) -> usize {
    match miss {
        PortMiss::Number(_) | PortMiss::NameIs { .. } => 2,
        PortMiss::NoSuchName(_) | PortMiss::NameOfNoPod(_) => 3,
        PortMiss::Protocol(_) => 4,
        PortMiss::Unreadable => 50,
    }
}
