//! Which policies are responsible: `decide` asked about pairs of a line, in both versions.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::{PortSetId, PortSets, Traffic, decide_direction};
use palisade_model::{
    Direction, End, EndpointId, Family, Flow, Model, NamespaceSet, NetworkId, Path, Place, Policy, Protocol, Reason, SharedList, Subject,
    Verdict,
};

use super::members::{Both, Id, Kind, Members, place};
use super::merge::Line;
use super::suspects::Affected;
use super::{Because, Between, Presence, outside};
use crate::matrix::units::Slot;

/// Asks about pairs.
pub(super) struct Asking<'m> {
    members: &'m Members,
    ranges: &'m [(IpAddr, IpAddr)],
    versions: Both<ByNamespace>,
    /// In which directions something can differ.
    directions: Vec<Direction>,
}

/// An end of a question.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'m> {
    Kind(Id, &'m Kind),
    Range(IpAddr),
}

impl<'m> Asking<'m> {
    pub(super) fn new(old: &Model, new: &Model, members: &'m Members, ranges: &'m [(IpAddr, IpAddr)], affected: &[Affected]) -> Asking<'m> {
        let touched = members.kinds.iter().any(|it| it.touched);
        let can_differ = |direction: &Direction| touched || affected.iter().any(|it| it.direction == *direction);
        let directions = Direction::BOTH.into_iter().filter(can_differ).collect();
        Asking { members, ranges, versions: Both { old: ByNamespace::of(old), new: ByNamespace::of(new) }, directions }
    }

    /// All that is responsible for a line, the most frequent first.
    pub(super) fn of(&mut self, sets: &PortSets, line: &Line) -> Vec<Because> {
        let traffic = line.delta.traffic;
        let changed = [traffic.opened, traffic.opened_by_name, traffic.closed, traffic.closed_but_by_name];
        let asked: Vec<(Protocol, Option<u16>)> = changed.into_iter().flat_map(|it| questions(sets, it)).collect();
        let mut found: BTreeMap<Because, usize> = BTreeMap::new();
        for (from, to) in self.pairs(line) {
            for (protocol, port) in &asked {
                for because in self.ask(from, to, line.delta.family, *protocol, *port) {
                    *found.entry(because).or_default() += 1;
                }
            }
        }
        // Of ends that come or go, what policies say about them is worth a word, and that none does only where all say so.
        let said = |it: &Because| [&it.before, &it.after].into_iter().flatten().any(|it| it.1 != Reason::Default);
        if line.delta.presence != Presence::Both && found.keys().any(said) {
            found.retain(|it, _| said(it));
        }
        let mut found: Vec<(Because, usize)> = found.into_iter().collect();
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        found.into_iter().map(|it| it.0).collect()
    }

    /// Pairs of a line so that every end is in one of them.
    fn pairs(&self, line: &Line) -> Vec<(Asked<'m>, Asked<'m>)> {
        let (from, to) = (self.ends(&line.from.kinds, &line.from.ranges), self.ends(&line.to.kinds, &line.to.ranges));
        let mut pairs = Vec::new();
        let mut met = vec![false; to.len()];
        for (at, source) in from.iter().enumerate() {
            let mut turns = (0..to.len()).map(|step| (at + step) % to.len());
            let found = turns.find_map(|it| to.get(it).filter(|end| is_pair(line.between, source, end)).map(|end| (it, *end)));
            if let Some((it, end)) = found {
                pairs.push((*source, end));
                if let Some(met) = met.get_mut(it) {
                    *met = true;
                }
            }
        }
        for (at, (destination, _)) in to.iter().zip(met).enumerate().filter(|(_, (_, met))| !met) {
            let mut turns = (0..from.len()).map(|step| (at + step) % from.len());
            let found = turns.find_map(|it| from.get(it).filter(|end| is_pair(line.between, end, destination)));
            pairs.extend(found.map(|source| (*source, *destination)));
        }
        pairs
    }

    fn ends(&self, kinds: &[Id], ranges: &[Id]) -> Vec<Asked<'m>> {
        let members = self.members;
        let kinds = kinds.iter().filter_map(|it| members.kind(*it).map(|kind| Asked::Kind(*it, kind)));
        let ranges = ranges.iter().filter_map(|it| self.ranges.get(place(*it)).map(|range| Asked::Range(range.0)));
        kinds.chain(ranges).collect()
    }

    /// The directions whose answers differ; all of them where an end is new or gone.
    fn ask(&mut self, from: Asked<'_>, to: Asked<'_>, family: Option<Family>, protocol: Protocol, port: Option<u16>) -> Vec<Because> {
        let flow = |slots: fn(&Kind) -> &[Slot]| {
            let (from, to) = ends(from, to, family, slots)?;
            Some(Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct })
        };
        let flows = Both { old: flow(|it| &it.slots.old), new: flow(|it| &it.slots.new) };
        let mut all = Vec::new();
        for direction in self.directions.iter().copied() {
            let before = flows.old.as_ref().map(|it| self.versions.old.decide(it, direction));
            let after = flows.new.as_ref().map(|it| self.versions.new.decide(it, direction));
            let same = matches!((&before, &after), (Some(before), Some(after)) if before.0 == after.0);
            let nobody = [&before, &after].into_iter().flatten().all(|it| it.1 == Reason::NotAPod);
            if !same && !nobody {
                all.push(Because { direction, before, after });
            }
        }
        all
    }
}

/// A port of each stretch of traffic.
fn questions(sets: &PortSets, set: PortSetId) -> Vec<(Protocol, Option<u16>)> {
    let question = |it: Traffic| match it {
        Traffic::Ports { protocol, first, .. } => (Protocol::Port(protocol), Some(first)),
        Traffic::Rest => (Protocol::Icmp, None),
    };
    sets.parts(set).into_iter().map(question).collect()
}

/// Whether a line is about these two.
pub(crate) fn is_pair(between: Between, from: &Asked<'_>, to: &Asked<'_>) -> bool {
    let (Asked::Kind(a, from), Asked::Kind(b, to)) = (from, to) else { return true };
    let same = from.namespace == to.namespace;
    let apart = match between {
        Between::Any => true,
        Between::SameNamespace => same,
        Between::OtherNamespaces => !same,
    };
    apart && !(a == b && from.lone)
}

/// The ends of a connection in one version, of the wanted family or else of one they have in common.
pub(crate) fn ends(from: Asked<'_>, to: Asked<'_>, family: Option<Family>, slots: fn(&Kind) -> &[Slot]) -> Option<(End, End)> {
    let of = |asked: Asked<'_>| -> Vec<(Option<Family>, End)> {
        match asked {
            Asked::Kind(_, kind) => slots(kind).iter().map(|it| (it.family, it.end)).collect(),
            Asked::Range(address) => vec![(Some(Family::of(address)), outside(address))],
        }
    };
    let (from, to) = (of(from), of(to));
    let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (a, b)));
    let common: Vec<_> = pairs.filter(|(a, b)| a.0.is_none() || b.0.is_none() || a.0 == b.0).collect();
    let wanted = common.iter().find(|(a, b)| family.is_some() && a.0.or(b.0) == family);
    wanted.or(common.first()).map(|(a, b)| (a.1, b.1))
}

/// A model that is asked with the policies of one namespace at a time: those of others select nobody there.
#[derive(Debug)]
struct ByNamespace {
    model: Model,
    cluster: Vec<Arc<Policy>>,
    /// Those of each namespace that was not asked yet.
    own: BTreeMap<Box<str>, Vec<Arc<Policy>>>,
    /// All that can select in each namespace that was.
    ready: HashMap<Box<str>, SharedList<Policy>>,
    /// The namespace whose policies are in the model now.
    at: Option<Box<str>>,
    /// Pods that were set beside others: only a pod and itself are never parted, not a pod and its likes.
    twins: BTreeMap<EndpointId, EndpointId>,
}

impl ByNamespace {
    fn of(model: &Model) -> ByNamespace {
        let mut model = model.clone();
        let mut cluster: Vec<Arc<Policy>> = Vec::new();
        let mut own: BTreeMap<Box<str>, Vec<Arc<Policy>>> = BTreeMap::new();
        for policy in std::mem::take(&mut model.policies).iter_shared().cloned() {
            match &policy.subject {
                Subject::Pods { namespaces: NamespaceSet::Own(namespace), .. } => own.entry(namespace.clone()).or_default().push(policy),
                Subject::Pods { namespaces: NamespaceSet::Matching(_), .. } | Subject::Unknown => cluster.push(policy),
            }
        }
        ByNamespace { model, cluster, own, ready: HashMap::new(), at: None, twins: BTreeMap::new() }
    }

    fn decide(&mut self, flow: &Flow, direction: Direction) -> (Verdict, Reason) {
        let end = match direction {
            Direction::Egress => &flow.from,
            Direction::Ingress => &flow.to,
        };
        if let Place::Pod(id) = end.place
            && let Some(namespace) = self.model.endpoint(id).map(|it| it.name.namespace.clone())
            && self.at.as_ref() != Some(&namespace)
        {
            let of_namespace = match self.ready.remove(&namespace) {
                Some(known) => known,
                None => self.cluster.iter().cloned().chain(self.own.remove(&namespace).unwrap_or_default()).collect(),
            };
            let before = std::mem::replace(&mut self.model.policies, of_namespace);
            if let Some(left) = self.at.replace(namespace) {
                self.ready.insert(left, before);
            }
        }
        let flow = self.parted(flow);
        let walk = decide_direction(&self.model, &flow, direction);
        (walk.verdict, walk.reason)
    }

    /// The flow between two pods, where one stands for several at both ends.
    fn parted(&mut self, flow: &Flow) -> Flow {
        let (Place::Pod(id), true) = (flow.to.place, flow.from.place == flow.to.place) else { return flow.clone() };
        let Some(endpoint) = self.model.endpoint(id).cloned() else { return flow.clone() };
        let twin = *self.twins.entry(id).or_insert_with(|| self.model.endpoints.push(endpoint));
        Flow { to: End { place: Place::Pod(twin), ..flow.to }, ..flow.clone() }
    }
}
