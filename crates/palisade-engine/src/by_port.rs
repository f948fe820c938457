//! Verdicts for the ports between two ends, one port after the other: at each only the rules are tried that speak of it, and the peers of a rule are
//! tried once for all ports. Many rules with many ports thus cost their number times a logarithm.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use palisade_model::{
    Action, ContainerPort, Direction, End, Flow, NetworkId, Path, Place, Policy, PortMatch, PortProtocol, PortSet, Ports, Protocol, Rule,
    Tier,
};

use crate::decide::{Candidate, Candidates, Isolated, Selecting, Told, judge};
use crate::judge::{Judge, Judged};
use crate::matching::{PeersMatch, Question};
use crate::trace::Match;

/// Decides flows between two ends. Quick if the ports of each protocol are asked for in order.
#[derive(Debug)]
pub struct ByPort<'s, 'm> {
    judge: &'s Judge<'s, 'm>,
    network: NetworkId,
    from: End,
    to: End,
    path: Path,
    /// Tier by tier, in the order in which they are asked.
    rules: Vec<Tried<'m>>,
    tiers: [Range<u32>; 3],
    /// Rules that speak of everything, by place.
    of_all: Vec<u32>,
    /// Ports that rules speak of, by the first one.
    spoken_of: Vec<Spoken>,
    /// Whether the other end is a pod of which nothing is known but its address.
    peer_is_unknown: bool,
    at: Position,
}

/// A rule, and whether its peers match if that is known.
#[derive(Debug)]
struct Tried<'m> {
    policy: &'m Policy,
    rule: &'m Rule,
    peers: Cell<Option<PeersMatch>>,
}

/// Ports of one protocol, and the place of a rule that speaks of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spoken {
    protocol: PortProtocol,
    first: u16,
    last: u16,
    rule: u32,
}

/// Where in the order of ports the last question was.
#[derive(Debug, Default)]
struct Position {
    /// None: at what has no port.
    port: Option<(PortProtocol, u16)>,
    /// The place of the first of `spoken_of` that lies ahead.
    next: usize,
    /// Rules that speak of the port, by place, with how many times each does.
    speaking: BTreeMap<u32, u32>,
    /// The last ports of those, the nearest first.
    ending: BinaryHeap<Reverse<(u16, u32)>>,
}

impl<'s, 'm> ByPort<'s, 'm> {
    pub(crate) fn between(judge: &'s Judge<'s, 'm>, from: End, to: End, path: Path) -> ByPort<'s, 'm> {
        let mut rules = Vec::new();
        let tiers = [Tier::Admin, Tier::NetworkPolicy, Tier::Baseline].map(|tier| {
            let first = place(rules.len());
            for selecting in judge.tiers.policies(tier) {
                rules.extend(selecting.rules.iter().map(|it| Tried { policy: selecting.policy, rule: it, peers: Cell::new(None) }));
            }
            first..place(rules.len())
        });
        let peer = match judge.direction {
            Direction::Egress => to,
            Direction::Ingress => from,
        };
        let network = judge.model.network_between(&from, &to);
        let peer_is_unknown = judge.model.is_unknown_pod(network, &peer);
        let (of_all, spoken_of, at) = (Vec::new(), Vec::new(), Position::default());
        let mut by_port = ByPort { judge, network, from, to, path, rules, tiers, of_all, spoken_of, peer_is_unknown, at };
        by_port.read_ports();
        by_port.begin(None);
        by_port
    }

    fn read_ports(&mut self) {
        let model = self.judge.model;
        let named: &[ContainerPort] = match self.to.place {
            Place::Pod(id) => model.endpoint(id).map_or(&[], |it| &it.ports),
            Place::Node(_) | Place::Outside => &[],
        };
        let is_unknown = self.peer_is_unknown && self.judge.direction == Direction::Egress;
        for (tried, at) in self.rules.iter().zip(0..) {
            let entries = match &tried.rule.ports {
                PortSet::Any => {
                    self.of_all.push(at);
                    continue;
                }
                PortSet::Of(entries) => entries,
            };
            let mut add = |protocol, ports: Ports| {
                self.spoken_of.push(Spoken { protocol, first: ports.first(), last: ports.last(), rule: at });
            };
            for entry in entries {
                match entry {
                    PortMatch::Numbers { protocol, ports } => add(*protocol, *ports),
                    // Whichever port the unknown pod calls so. No rule accepts by that.
                    PortMatch::Named { protocol, .. } if is_unknown => {
                        let all = [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp]
                            .into_iter()
                            .filter(|it| protocol.is_none_or(|own| own == *it));
                        all.filter(|_| tried.rule.action != Action::Accept).for_each(|it| add(it, Ports::ALL));
                    }
                    PortMatch::Named { protocol, name } => {
                        let ports = named.iter().filter(|it| it.name.as_ref() == Some(name));
                        let ports = ports.filter(|it| protocol.is_none_or(|own| own == it.protocol));
                        ports.for_each(|it| add(it.protocol, Ports::one(it.port)));
                    }
                    PortMatch::Unreadable => {}
                }
            }
        }
        self.spoken_of.sort_unstable();
    }

    /// Decides one flow.
    pub fn decide(&mut self, protocol: Protocol, port: Option<u16>) -> Judged<'m> {
        let at = match (protocol, port) {
            (Protocol::Port(protocol), Some(port)) => Some((protocol, port)),
            (Protocol::Port(_) | Protocol::Icmp | Protocol::Other(_), _) => None,
        };
        self.go_to(at);
        let ByPort { network, from, to, path, .. } = *self;
        let flow = Flow { network, from, to, protocol, port, path };
        judge(self.judge.model, &*self, &flow, self.judge.direction, &mut Told::Nobody)
    }

    fn go_to(&mut self, port: Option<(PortProtocol, u16)>) {
        let goes_on = matches!((self.at.port, port), (Some((of, before)), Some((protocol, port))) if of == protocol && before <= port);
        if !goes_on && self.at.port != port {
            self.begin(port.map(|it| it.0));
        }
        self.at.port = port;
        let Some((protocol, port)) = port else { return };
        while let Some(spoken) = self.spoken_of.get(self.at.next).filter(|it| (it.protocol, it.first) <= (protocol, port)) {
            *self.at.speaking.entry(spoken.rule).or_insert(0) += 1;
            self.at.ending.push(Reverse((spoken.last, spoken.rule)));
            self.at.next += 1;
        }
        while let Some(Reverse((_, rule))) = self.at.ending.peek().copied().filter(|Reverse((last, _))| *last < port) {
            self.at.ending.pop();
            if let Some(times) = self.at.speaking.get_mut(&rule) {
                *times -= 1;
                if *times == 0 {
                    self.at.speaking.remove(&rule);
                }
            }
        }
    }

    /// Goes to before the first port of a protocol, or to what has no port.
    fn begin(&mut self, protocol: Option<PortProtocol>) {
        let next = protocol.map_or(0, |protocol| self.spoken_of.partition_point(|it| it.protocol < protocol));
        let speaking = self.of_all.iter().map(|it| (*it, 1)).collect();
        self.at = Position { port: None, next, speaking, ending: BinaryHeap::new() };
    }
}

impl<'m> Candidates<'m> for ByPort<'_, 'm> {
    fn policies(&self, tier: Tier) -> &[&Selecting<'m>] {
        self.judge.tiers.policies(tier)
    }

    fn isolated(&self) -> Isolated {
        self.judge.tiers.isolated()
    }

    fn candidates(&self, tier: Tier) -> impl Iterator<Item = Candidate<'m>> {
        let [admin, network, baseline] = &self.tiers;
        let of_tier = match tier {
            Tier::Admin => admin,
            Tier::NetworkPolicy => network,
            Tier::Baseline => baseline,
        };
        let speaking = self.at.speaking.range(of_tier.clone()).map(|(at, _)| *at);
        speaking.filter_map(|at| self.tried(at).map(|it| Candidate { policy: it.policy, rule: it.rule, at }))
    }

    /// Rules that speak of the port match if their peers do. Only of unknown pods more is asked.
    fn try_candidate(&self, question: &Question<'_>, candidate: &Candidate<'m>) -> Match {
        let Some(tried) = self.tried(candidate.at).filter(|_| !self.peer_is_unknown) else {
            return question.try_rule(candidate.rule);
        };
        let peers = tried.peers.get().unwrap_or_else(|| {
            let peers = question.match_peers(&candidate.rule.peers);
            tried.peers.set(Some(peers));
            peers
        });
        match peers {
            PeersMatch::Yes => Match::Yes { peer: None, port: None },
            PeersMatch::Perhaps(peer) => Match::DependsOnDns { peer },
            PeersMatch::No => Match::No { peers: None, ports: None },
        }
    }
}

impl<'m> ByPort<'_, 'm> {
    fn tried(&self, at: u32) -> Option<&Tried<'m>> {
        self.rules.get(usize::try_from(at).ok()?)
    }
}

/// A place as a number. No cluster has more rules than there are numbers; if one had, the last ones would be one.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
