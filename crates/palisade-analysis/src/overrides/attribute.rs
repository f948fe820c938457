//! Which rules are at work in a line: those of the cluster policy that decide, and what they decide otherwise than.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::{PortSetId, PortSets, Selecting, Traffic, decide_direction_among, selects};
use palisade_model::{
    Action, Direction, End, Endpoint, EndpointId, Family, Flow, Model, NamespaceSet, NetworkId, Path, Peer, PeerSet, Place, Policy,
    PortMatch, PortProtocol, PortSet, Protocol, Reason, Rule, RuleRef, SharedList, Subject, Tier, Verdict,
};

use super::{Overridden, What};
use crate::diff::Compared;
use crate::diff::because::{Asked, ends, is_pair};
use crate::diff::members::{Id, place};
use crate::diff::merge::{Ends, Line};
use crate::diff::suspects::speaks_of;

/// Asks about the lines of one policy.
#[derive(Debug)]
pub(super) struct Attributing<'w> {
    compared: &'w Compared,
    policy: &'w Policy,
    direction: Direction,
    action: Action,
    /// What was read, and beside each pod that others are like one more of its sort.
    model: Model,
    twins: BTreeMap<EndpointId, EndpointId>,
    /// Of the Admin tier, in which only the policy acts.
    admin: Vec<&'w Policy>,
    /// NetworkPolicies that isolate in this direction, by namespace.
    network: BTreeMap<&'w str, Vec<&'w Policy>>,
}

type Question = (Protocol, Option<u16>);

impl<'w> Attributing<'w> {
    pub(super) fn new(
        read: &'w Model,
        compared: &'w Compared,
        policy: &'w Policy,
        direction: Direction,
        action: Action,
        spoken: &'w Model,
    ) -> Attributing<'w> {
        let mut model = Model { policies: SharedList::default(), services: Vec::new(), ..read.clone() };
        let mut twins = BTreeMap::new();
        let met: BTreeSet<Id> = compared.lines.iter().flat_map(|it| it.from.kinds.iter().chain(&it.to.kinds)).copied().collect();
        for kind in met.into_iter().filter_map(|it| compared.members.kind(it)).filter(|it| !it.lone) {
            for slot in &kind.slots.new {
                let Place::Pod(id) = slot.end.place else { continue };
                let Some(endpoint) = model.endpoint(id).cloned().filter(|_| !twins.contains_key(&id)) else { continue };
                twins.insert(id, model.endpoints.push(endpoint));
            }
        }
        let mut network: BTreeMap<&str, Vec<&Policy>> = BTreeMap::new();
        for it in spoken.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy && *it.isolates.of(direction)) {
            if let Subject::Pods { namespaces: NamespaceSet::Own(namespace), .. } = &it.subject {
                network.entry(namespace).or_default().push(it);
            }
        }
        let admin = spoken.policies.iter().filter(|it| it.tier == Tier::Admin).collect();
        Attributing { compared, policy, direction, action, model, twins, admin, network }
    }

    /// Everything that is overridden somewhere in a line, and by which rules.
    pub(super) fn of(&self, line: &Line) -> Vec<Overridden> {
        let (own, others) = match self.direction {
            Direction::Egress => (&line.from, &line.to),
            Direction::Ingress => (&line.to, &line.from),
        };
        let others = self.asked(others);
        let mut found = BTreeSet::new();
        let mut by_namespace: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        for kind in &own.kinds {
            by_namespace.entry(self.compared.members.namespace_of(*kind)).or_default().push(*kind);
        }
        // Who decides for an end is the same for all subjects, where rules look at that end alone.
        let at_once: Option<Vec<BTreeSet<RuleRef>>> = (self.action != Action::Deny && !self.by_subject(None))
            .then(|| others.iter().map(|it| self.deciding(line, &own.kinds, *it, None)).collect());
        for kinds in by_namespace.into_values() {
            let first = kinds.first().and_then(|it| self.endpoint(*it));
            let policies = first.and_then(|it| self.network.get(it.name.namespace.as_ref())).map(Vec::as_slice).unwrap_or_default();
            for policy in policies {
                let is_subject = |it: &Id| self.endpoint(*it).is_some_and(|pod| selects(&self.model, policy, pod));
                let selected: Vec<Id> = kinds.iter().copied().filter(is_subject).collect();
                match self.action {
                    Action::Deny => {
                        for rule in policy.rules.of(self.direction) {
                            let meant = others.iter().filter(|it| self.may_mean(rule, **it));
                            let what = What::Rule(reference(policy, self.direction, rule));
                            let by = meant.flat_map(|it| self.deciding(line, &selected, *it, Some((policy, rule))));
                            found.extend(by.map(|by| Overridden { by, what: what.clone() }));
                        }
                    }
                    Action::Accept | Action::Pass => {
                        let what = What::Isolation(policy.origin.clone());
                        for (at, other) in others.iter().enumerate() {
                            let by = match at_once.as_ref().and_then(|it| it.get(at)) {
                                Some(known) if self.pairs(line, &selected, *other).next().is_some() => known.clone(),
                                Some(_) => BTreeSet::new(),
                                None => self.deciding(line, &selected, *other, None),
                            };
                            found.extend(by.into_iter().map(|by| Overridden { by, what: what.clone() }));
                        }
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    fn asked(&self, ends: &Ends) -> Vec<Asked<'w>> {
        let compared = self.compared;
        let kinds = ends.kinds.iter().filter_map(|it| compared.members.kind(*it).map(|kind| Asked::Kind(*it, kind)));
        let ranges = ends.ranges.iter().filter_map(|it| compared.ranges.get(place(*it)).map(|range| Asked::Range(range.0)));
        kinds.chain(ranges).collect()
    }

    /// Whether it may depend on the subject which rule matches an end: by relations, or by the names of its ports.
    fn by_subject(&self, accepting: Option<&Rule>) -> bool {
        let relative = |it: &Rule| matches!(&it.peers, PeerSet::Of(peers) if peers.iter().any(|it| matches!(it, Peer::Relative(_))));
        let named = |it: &Rule| matches!(&it.ports, PortSet::Of(ports) if ports.iter().any(|it| matches!(it, PortMatch::Named { .. })));
        let mut rules = self.policy.rules.of(self.direction).iter().chain(accepting);
        rules.any(|it| relative(it) || (self.direction == Direction::Ingress && named(it)))
    }

    /// Whether a rule of a NetworkPolicy has an entry for an end.
    fn may_mean(&self, rule: &Rule, other: Asked<'_>) -> bool {
        let PeerSet::Of(peers) = &rule.peers else { return true };
        match other {
            Asked::Kind(id, _) => self.endpoint(id).is_some_and(|pod| peers.iter().any(|it| speaks_of(&self.model, it, pod))),
            Asked::Range(address) => {
                peers.iter().any(|it| matches!(it, Peer::Networks(blocks) if blocks.iter().any(|it| it.contains(address))))
            }
        }
    }

    /// Each subject that the line is about together with an end: who calls, and who is called.
    fn pairs(&self, line: &Line, subjects: &[Id], other: Asked<'w>) -> impl Iterator<Item = (Asked<'w>, Asked<'w>)> {
        let (compared, direction, between) = (self.compared, self.direction, line.between);
        let pair = move |(id, kind)| match direction {
            Direction::Egress => (Asked::Kind(id, kind), other),
            Direction::Ingress => (other, Asked::Kind(id, kind)),
        };
        let kinds = subjects.iter().filter_map(move |it| compared.members.kind(*it).map(|kind| (*it, kind)));
        kinds.map(pair).filter(move |(from, to)| is_pair(between, from, to))
    }

    /// The rules that decide between some of the subjects and an end, of what a rule accepts if one is given.
    fn deciding(&self, line: &Line, subjects: &[Id], other: Asked<'w>, accepting: Option<(&Policy, &Rule)>) -> BTreeSet<RuleRef> {
        let mut found = BTreeSet::new();
        let enough = if self.by_subject(accepting.map(|it| it.1)) { usize::MAX } else { 1 };
        for (from, to) in self.pairs(line, subjects, other).take(enough) {
            // Where both families are told together, a rule may still be about one of them.
            let families = line.delta.family.map_or(vec![Family::V4, Family::V6], |it| vec![it]);
            for family in families {
                if let Some((from, to)) = ends(from, to, Some(family), |it| &it.slots.new) {
                    self.ask(line, from, self.parted(from, to), accepting, &mut found);
                }
            }
        }
        found
    }

    fn ask(&self, line: &Line, from: End, to: End, accepting: Option<(&Policy, &Rule)>, found: &mut BTreeSet<RuleRef>) {
        let destination = match to.place {
            Place::Pod(id) => self.model.endpoint(id),
            Place::Node(_) | Place::Outside => None,
        };
        let rules = self.policy.rules.of(self.direction).iter().chain(accepting.map(|it| it.1));
        let subject = match self.direction {
            Direction::Egress => from,
            Direction::Ingress => to,
        };
        let Place::Pod(id) = subject.place else { return };
        let Some(pod) = self.model.endpoint(id) else { return };
        let admin = self.admin.iter().filter(|it| selects(&self.model, it, pod));
        let admin: Vec<Selecting<'_>> =
            admin.map(|it| Selecting { policy: it, rules: it.rules.of(self.direction).iter().collect() }).collect();
        for (protocol, port) in questions(&self.compared.sets, line, rules, destination) {
            let flow = Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct };
            let accepts = |(policy, rule)| {
                let alone = [Selecting { policy, rules: vec![rule] }];
                decide_direction_among(&self.model, &alone, &flow, self.direction).verdict == Verdict::Accept
            };
            if accepting.is_none_or(accepts)
                && let Reason::Rule(rule) = decide_direction_among(&self.model, &admin, &flow, self.direction).reason
                && rule.policy == self.policy.origin
            {
                found.insert(rule);
            }
        }
    }

    fn endpoint(&self, kind: Id) -> Option<&Endpoint> {
        let pod = self.compared.members.kind(kind)?.pods.new?;
        self.model.endpoint(pod)
    }

    /// The called end, which is another pod of its sort where it is that of the caller.
    fn parted(&self, from: End, to: End) -> End {
        match (to.place, from.place == to.place) {
            (Place::Pod(id), true) => self.twins.get(&id).map_or(to, |twin| End { place: Place::Pod(*twin), ..to }),
            (Place::Pod(_) | Place::Node(_) | Place::Outside, _) => to,
        }
    }
}

fn reference(policy: &Policy, direction: Direction, rule: &Rule) -> RuleRef {
    RuleRef { policy: policy.origin.clone(), direction, index: rule.index, name: rule.name.clone() }
}

/// Traffic of a line, at every place where some of the rules may begin or end to match.
fn questions<'r>(
    sets: &PortSets,
    line: &Line,
    rules: impl Iterator<Item = &'r Rule>,
    destination: Option<&Endpoint>,
) -> BTreeSet<Question> {
    let traffic = line.delta.traffic;
    let changed = [traffic.opened, traffic.opened_by_name, traffic.closed, traffic.closed_but_by_name];
    let mut asked: BTreeSet<Question> = BTreeSet::new();
    for part in changed.into_iter().flat_map(|it: PortSetId| sets.parts(it)) {
        asked.insert(match part {
            Traffic::Ports { protocol, first, .. } => (Protocol::Port(protocol), Some(first)),
            Traffic::Rest => (Protocol::Icmp, None),
        });
    }
    let entries = rules.flat_map(|it| match &it.ports {
        PortSet::Of(entries) => entries.as_slice(),
        PortSet::Any => &[],
    });
    for (protocol, first, last) in entries.flat_map(|it| numbers(it, destination)) {
        let edges = [Some(first), last.checked_add(1)].into_iter().flatten().map(|port| (Protocol::Port(protocol), Some(port)));
        asked.extend(edges.filter(|it| changed.into_iter().any(|set| sets.contains(set, it.0, it.1))));
    }
    asked
}

/// The ports that an entry stands for, the first and the last of each run.
fn numbers(entry: &PortMatch, destination: Option<&Endpoint>) -> Vec<(PortProtocol, u16, u16)> {
    match entry {
        PortMatch::Numbers { protocol, ports } => vec![(*protocol, ports.first(), ports.last())],
        PortMatch::Named { name, .. } => {
            let ports = destination.into_iter().flat_map(|it| &it.ports);
            ports.filter(|it| it.name.as_ref() == Some(name)).map(|it| (it.protocol, it.port, it.port)).collect()
        }
        PortMatch::Unreadable => Vec::new(),
    }
}
