//! The connections that a soak tries over and over, and what policy says of each at any time.

use std::net::{IpAddr, SocketAddr};

use palisade_engine::{Decision, decide};
use palisade_model::{Direction, End, Family, Flow, Model, NetworkId, Path, PerDirection, PortProtocol, Protocol, Verdict};

use crate::plan::Plan;
use crate::question::Speaker;
use crate::soak::change::OUTSIDE;
use crate::soak::world::{COMMON, MOVED, SWAPPED, SWAPPED_ISOLATION};

/// Packets that differ only in their source port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) protocol: PortProtocol,
    pub(crate) port: u16,
    pub(crate) judges: Judges,
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) speaker: Speaker,
    pub(crate) address: IpAddr,
}

/// Who decides about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judges {
    /// One table, both directions.
    OneNode,
    /// Egress on one node, ingress on another, and neither knows how far the other is.
    TwoNodes,
}

/// What a model says of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// An end is not there.
    Absent,
    Judged(PerDirection<Verdict>),
}

/// What must become of a packet while some models were in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// All deny it.
    Denied,
    /// All accept it.
    Accepted,
    /// All deny it, but not all on the same node: while one node is ahead of the other it may pass.
    DeniedByTurns,
    /// They differ, or an end comes or goes.
    Either,
}

/// All connections of a cluster in which everybody is there.
pub(crate) fn classes(plan: &Plan) -> Vec<Class> {
    let mut all = Vec::new();
    for from in &plan.model.endpoints {
        for to in plan.model.endpoints.iter().filter(|it| it.name != from.name) {
            let judges = if from.node == to.node { Judges::OneNode } else { Judges::TwoNodes };
            let is = |app: &str, endpoint: &palisade_model::Endpoint| endpoint.labels.get("app") == Some(app);
            for (source, address) in pairs(&from.addresses, &to.addresses) {
                let mut add = |protocol, port| {
                    let party = |name: &palisade_model::PodName, address| Party { speaker: Speaker::Pod(name.clone()), address };
                    all.push(Class { from: party(&from.name, source), to: party(&to.name, address), protocol, port, judges });
                };
                COMMON.into_iter().for_each(|port| add(PortProtocol::Udp, port));
                if is("a", from) && is("b", to) {
                    [MOVED, SWAPPED, SWAPPED_ISOLATION].into_iter().for_each(|port| add(PortProtocol::Udp, port));
                }
                if source.is_ipv4() {
                    let [_, second] = COMMON;
                    add(PortProtocol::Tcp, second);
                }
            }
        }
    }
    let [_, port] = COMMON;
    for pod in &plan.model.endpoints {
        for (address, stranger) in pairs(&pod.addresses, &OUTSIDE) {
            let pod = Party { speaker: Speaker::Pod(pod.name.clone()), address };
            let outside = Party { speaker: Speaker::Outside, address: stranger };
            let class = |from: &Party, to: &Party| Class {
                from: from.clone(),
                to: to.clone(),
                protocol: PortProtocol::Udp,
                port,
                judges: Judges::OneNode,
            };
            all.extend([class(&pod, &outside), class(&outside, &pod)]);
        }
    }
    all
}

fn pairs<'a>(from: &'a [IpAddr], to: &'a [IpAddr]) -> impl Iterator<Item = (IpAddr, IpAddr)> + 'a {
    from.iter().flat_map(move |source| to.iter().filter(|it| Family::of(**it) == Family::of(*source)).map(|it| (*source, *it)))
}

impl Class {
    pub(crate) fn source(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.from.address, port)
    }

    pub(crate) fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.to.address, self.port)
    }

    /// What is decided about it, if both ends are there.
    pub(crate) fn decided(&self, model: &Model) -> Option<Decision> {
        let end = |party: &Party| {
            let there = match &party.speaker {
                Speaker::Pod(name) => model.endpoints.iter().any(|it| it.name == *name),
                Speaker::Node(_) | Speaker::Outside => true,
            };
            there.then(|| End { place: model.place_of(NetworkId::DEFAULT, party.address), address: Some(party.address) })
        };
        let (from, to) = (end(&self.from)?, end(&self.to)?);
        let flow = Flow {
            network: NetworkId::DEFAULT,
            from,
            to,
            protocol: Protocol::Port(self.protocol),
            port: Some(self.port),
            path: Path::Direct,
        };
        Some(decide(model, &flow))
    }

    /// The class in words.
    pub(crate) fn words(&self, port: u16) -> String {
        let name = |it: &Party| match &it.speaker {
            Speaker::Pod(name) => name.to_string(),
            Speaker::Node(name) => name.to_string(),
            Speaker::Outside => "outside".to_owned(),
        };
        let nodes = match self.judges {
            Judges::OneNode => "one node",
            Judges::TwoNodes => "two nodes",
        };
        let (from, to) = (name(&self.from), name(&self.to));
        format!("{} {from} ({}) → {to} ({}), {nodes}", self.protocol, self.source(port), self.destination())
    }
}

impl Line {
    pub(crate) fn of(decision: Option<&Decision>) -> Line {
        decision
            .map_or(Line::Absent, |it| Line::Judged(PerDirection { egress: it.walks.egress.verdict, ingress: it.walks.ingress.verdict }))
    }
}

/// What must become of a packet that is judged by any of some models.
pub(crate) fn claim(judges: Judges, lines: impl Iterator<Item = Line> + Clone) -> Claim {
    let all = |wanted: &dyn Fn(PerDirection<Verdict>) -> bool| {
        lines.clone().all(|it| match it {
            Line::Absent => false,
            Line::Judged(verdicts) => wanted(verdicts),
        })
    };
    let accepts = |it: PerDirection<Verdict>| it.egress == Verdict::Accept && it.ingress == Verdict::Accept;
    let by = |direction: Direction| move |it: PerDirection<Verdict>| *it.of(direction) != Verdict::Accept;
    if all(&accepts) {
        Claim::Accepted
    } else if !all(&|it| !accepts(it)) {
        Claim::Either
    } else if judges == Judges::OneNode || Direction::BOTH.into_iter().any(|direction| all(&by(direction))) {
        Claim::Denied
    } else {
        Claim::DeniedByTurns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPT: Verdict = Verdict::Accept;
    const DENY: Verdict = Verdict::Deny;

    fn check(judges: Judges, lines: &[Option<(Verdict, Verdict)>], expected: Claim) {
        let lines = lines.iter().map(|it| it.map_or(Line::Absent, |(egress, ingress)| Line::Judged(PerDirection { egress, ingress })));
        assert_eq!(claim(judges, lines), expected);
    }

    #[test]
    fn what_all_models_say_is_claimed() {
        check(Judges::OneNode, &[Some((ACCEPT, ACCEPT)), Some((ACCEPT, ACCEPT))], Claim::Accepted);
        check(Judges::OneNode, &[Some((DENY, ACCEPT)), Some((ACCEPT, DENY))], Claim::Denied);
        check(Judges::OneNode, &[Some((DENY, ACCEPT)), Some((ACCEPT, ACCEPT))], Claim::Either);
        check(Judges::OneNode, &[Some((DENY, ACCEPT)), None], Claim::Either);
        check(Judges::OneNode, &[Some((ACCEPT, ACCEPT)), None], Claim::Either);
    }

    #[test]
    fn two_nodes_deny_only_what_one_of_them_denies_all_the_time() {
        check(Judges::TwoNodes, &[Some((DENY, ACCEPT)), Some((ACCEPT, DENY))], Claim::DeniedByTurns);
        check(Judges::TwoNodes, &[Some((DENY, ACCEPT)), Some((DENY, DENY))], Claim::Denied);
        check(Judges::TwoNodes, &[Some((ACCEPT, DENY)), Some((ACCEPT, DENY))], Claim::Denied);
        check(Judges::TwoNodes, &[Some((ACCEPT, ACCEPT)), Some((ACCEPT, ACCEPT))], Claim::Accepted);
    }
}
