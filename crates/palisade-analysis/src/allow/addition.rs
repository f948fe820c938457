//! What is added to a policy.

use palisade_model::{Direction, Peer, PeerSet, Policy, PortMatch, PortSet, Rule};

/// One item more in one of the lists of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addition {
    /// A rule, after the others.
    Rule { direction: Direction, rule: Rule },
    /// A peer of a rule, after its others.
    Peer { direction: Direction, index: usize, peer: Peer },
    /// A port of a rule, after its others.
    Port { direction: Direction, index: usize, port: PortMatch },
}

impl Addition {
    pub fn direction(&self) -> Direction {
        match self {
            Addition::Rule { direction, .. } | Addition::Peer { direction, .. } | Addition::Port { direction, .. } => *direction,
        }
    }

    /// Adds it to a policy.
    pub fn put_into(&self, policy: &mut Policy) {
        let rules = policy.rules.of_mut(self.direction());
        let at = |index: usize| move |it: &&mut Rule| it.index == index;
        match self {
            Addition::Rule { rule, .. } => rules.push(rule.clone()),
            Addition::Peer { index, peer, .. } => {
                if let Some(Rule { peers: PeerSet::Of(peers), .. }) = rules.iter_mut().find(at(*index)) {
                    peers.push(peer.clone());
                }
            }
            Addition::Port { index, port, .. } => {
                if let Some(Rule { ports: PortSet::Of(ports), .. }) = rules.iter_mut().find(at(*index)) {
                    ports.push(port.clone());
                }
            }
        }
    }
}
