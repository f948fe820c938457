//! Questions to the engine about the pods of a rule, one for each pair that policy tells apart.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::{Alike, AlikeApart, Selecting, Traffic, decide_direction_among, selects};
use palisade_model::{
    Action, Direction, End, Endpoint, EndpointId, Family, Flow, NetworkId, Path, Peer, Place, PortMatch, PortProtocol, PortSet, Protocol,
    Reason, Rule, Verdict,
};

use crate::context::{Context, Crowd, Placed, peers};

/// Why nothing of what a rule accepts passes.
#[derive(Clone, Debug)]
pub(crate) struct Blocked<'a> {
    pub(crate) placed: Placed<'a>,
    /// What denies it, at the side of the policy and at the other one.
    pub(crate) own: BTreeSet<Reason>,
    pub(crate) other: BTreeSet<Reason>,
    /// Whom it was asked about.
    pub(crate) subject: EndpointId,
    pub(crate) peer: EndpointId,
    /// With which traffic.
    pub(crate) protocol: Protocol,
    pub(crate) port: Option<u16>,
}

/// Every rule that accepts something between pods of which nothing passes.
pub(crate) fn all_blocked<'a>(context: &Context<'a>) -> Vec<Blocked<'a>> {
    context.rules().filter(|it| it.rule.action == Action::Accept).filter_map(|it| blocked(context, it)).collect()
}

/// How many pods of each side are tried before all sorts of them are.
const FIRST: usize = 3;

/// Whether the pods of a rule cannot use what it accepts. None if some can, or if there is no pair to ask about.
fn blocked<'a>(context: &Context<'a>, placed: Placed<'a>) -> Option<Blocked<'a>> {
    let selected = |peer: &'a Peer| match peer {
        Peer::Pods { namespaces, pods } => Some((namespaces, pods)),
        Peer::Relative(_) | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    };
    let meant = peers(placed.rule).iter().map(selected).collect::<Option<Vec<_>>>()?;
    let others = || meant.iter().flat_map(|(namespaces, pods)| context.pods(namespaces, pods));
    let subjects = context.subjects(placed.policy);
    // Most rules let somebody pass.
    for subject in subjects.iter().take(FIRST) {
        for other in others().take(FIRST) {
            let (Some(subject), Some(other)) = (context.end(subject), context.end(other)) else { continue };
            let same_family = subject.address.map(Family::of) == other.address.map(Family::of);
            if same_family && subject.place != other.place && matches!(ask(context, placed, subject, other), Answer::Passes) {
                return None;
            }
        }
    }
    let mut asked = Vec::new();
    for (subject, other) in pairs(context, &subjects, &others().collect::<Vec<_>>()) {
        match ask(context, placed, subject, other) {
            Answer::Passes => return None,
            Answer::Denied(flow) => asked.push((subject, other, flow)),
            Answer::NoPort => {}
        }
    }
    reasons(context, placed, &asked)
}

enum Answer {
    /// Some traffic of the rule passes, or may if a name resolves.
    Passes,
    /// None does, as for this connection.
    Denied(Flow),
    /// The destination has no port of that name.
    NoPort,
}

fn ask(context: &Context<'_>, placed: Placed<'_>, subject: End, other: End) -> Answer {
    let (from, to) = match placed.direction {
        Direction::Egress => (subject, other),
        Direction::Ingress => (other, subject),
    };
    let Some(destination) = endpoint(context, &to) else { return Answer::NoPort };
    let wanted = traffic(placed.rule, destination);
    // A port that is served, if there is one.
    let served = destination.ports.iter().find(|port| wanted.iter().any(|it| it.0 == port.protocol && (it.1..=it.2).contains(&port.port)));
    let asked = served.map(|it| (it.protocol, it.port)).or(wanted.first().map(|it| (it.0, it.1)));
    let Some((protocol, port)) = asked else { return Answer::NoPort };
    let mut reach = context.reach();
    let Some(passing) = reach.between(&from, &to) else { return Answer::NoPort };
    let sets = reach.sets();
    let mut passes = sets.parts(passing.allowed).into_iter().chain(sets.parts(passing.depends_on_dns));
    match passes.any(|part| wanted.iter().any(|it| meets(&part, *it))) {
        true => Answer::Passes,
        false => Answer::Denied(Flow {
            network: NetworkId::DEFAULT,
            from,
            to,
            protocol: Protocol::Port(protocol),
            port: Some(port),
            path: Path::Direct,
        }),
    }
}

fn reasons<'a>(context: &Context<'a>, placed: Placed<'a>, asked: &[(End, End, Flow)]) -> Option<Blocked<'a>> {
    let (subject, other, flow) = asked.first()?;
    let (Place::Pod(subject), Place::Pod(peer)) = (subject.place, other.place) else { return None };
    let (protocol, port) = (flow.protocol, flow.port);
    let mut blocked = Blocked { placed, own: BTreeSet::new(), other: BTreeSet::new(), subject, peer, protocol, port };
    let mut known: BTreeMap<(EndpointId, Direction), Vec<Selecting<'a>>> = BTreeMap::new();
    for (subject, other, flow) in asked {
        let sides = match placed.direction {
            Direction::Egress => [(subject, Direction::Egress), (other, Direction::Ingress)],
            Direction::Ingress => [(subject, Direction::Ingress), (other, Direction::Egress)],
        };
        for (at, (end, direction)) in sides.into_iter().enumerate() {
            let Place::Pod(id) = end.place else { continue };
            let among = known.entry((id, direction)).or_insert_with(|| selecting(context, id, direction));
            let walk = decide_direction_among(context.model, among, flow, direction);
            if walk.verdict == Verdict::Deny {
                let side = if at == 0 { &mut blocked.own } else { &mut blocked.other };
                side.insert(walk.reason);
                break;
            }
        }
    }
    Some(blocked)
}

/// The policies that speak about a pod.
pub(crate) fn selecting<'a>(context: &Context<'a>, id: EndpointId, direction: Direction) -> Vec<Selecting<'a>> {
    let Some(endpoint) = context.model.endpoint(id) else { return Vec::new() };
    let policies = context.model.policies.iter().filter(|it| selects(context.model, it, endpoint));
    policies.map(|policy| Selecting { policy, rules: policy.rules.of(direction).iter().collect() }).collect()
}

fn endpoint<'a>(context: &Context<'a>, end: &End) -> Option<&'a Endpoint> {
    match end.place {
        Place::Pod(id) => context.model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    }
}

/// Ports that a rule means at a destination: protocol, first, last.
pub(crate) fn traffic(rule: &Rule, destination: &Endpoint) -> Vec<(PortProtocol, u16, u16)> {
    let PortSet::Of(entries) = &rule.ports else {
        return [PortProtocol::Tcp, PortProtocol::Udp, PortProtocol::Sctp].map(|it| (it, 1, u16::MAX)).to_vec();
    };
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            PortMatch::Numbers { protocol, ports } => found.push((*protocol, ports.first().max(1), ports.last())),
            PortMatch::Named { protocol, name } => {
                let named = destination
                    .ports
                    .iter()
                    .filter(|it| it.name.as_deref() == Some(name) && protocol.is_none_or(|wanted| wanted == it.protocol));
                found.extend(named.map(|it| (it.protocol, it.port, it.port)));
            }
            PortMatch::Unreadable => {}
        }
    }
    found
}

fn meets(part: &Traffic, (protocol, first, last): (PortProtocol, u16, u16)) -> bool {
    match part {
        Traffic::Ports { protocol: of, first: from, last: to } => *of == protocol && first.max(*from) <= last.min(*to),
        Traffic::Rest => false,
    }
}

/// Ends of each sort that policy tells apart, by family: a connection has one.
type Sorts<'c, K> = BTreeMap<(Option<Family>, K), Vec<(&'c str, End)>>;

/// A pair for each two sorts of pods that policy tells apart, never a pod with itself.
fn pairs(context: &Context<'_>, subjects: &[&Crowd<'_>], others: &[&Crowd<'_>]) -> Vec<(End, End)> {
    let (subjects, others) = (sorts(context, subjects), sorts(context, others));
    let mut found = Vec::new();
    for ((family, _), subjects) in &subjects.apart {
        for (_, others) in others.apart.iter().filter(|((it, _), _)| it == family) {
            let pairs = subjects.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
            found.extend(pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (a.1, b.1)).next());
        }
    }
    for (namespace, subjects) in &subjects.own {
        for ((family, _), (_, subject)) in subjects.iter().flat_map(|(sort, ends)| ends.iter().map(move |it| (sort, it))) {
            let others = others.own.get(namespace).into_iter().flatten().filter(|((it, _), _)| it == family);
            let other = |(_, ends): (&_, &Vec<(&str, End)>)| ends.iter().find(|it| it.1.place != subject.place).map(|it| (*subject, it.1));
            found.extend(others.filter_map(other));
        }
    }
    found
}

struct Sorted<'c> {
    /// Towards other namespaces: up to two of each, in different ones.
    apart: Sorts<'c, AlikeApart>,
    /// Towards the own one: up to two of each.
    own: BTreeMap<&'c str, Sorts<'c, Alike>>,
}

fn sorts<'c>(context: &Context<'_>, crowds: &[&Crowd<'c>]) -> Sorted<'c> {
    let mut sorted = Sorted { apart: BTreeMap::new(), own: BTreeMap::new() };
    let reach = context.reach();
    for (crowd, end) in crowds.iter().flat_map(|it| it.pods.iter().flat_map(|pod| reach.ends(*pod).map(|end| (*it, end)))) {
        let Some(alike) = reach.alike(&end) else { continue };
        let family = end.address.map(Family::of);
        let apart = sorted.apart.entry((family, alike.apart)).or_default();
        if apart.len() < 2 && apart.iter().all(|it| it.0 != crowd.namespace) {
            apart.push((crowd.namespace, end));
        }
        let own = sorted.own.entry(crowd.namespace).or_default().entry((family, alike)).or_default();
        if own.len() < 2 && own.iter().all(|it| it.1.place != end.place) {
            own.push((crowd.namespace, end));
        }
    }
    sorted
}
