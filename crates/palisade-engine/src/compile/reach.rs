//! Who reaches whom, and with which traffic: every pair of ends answered from rows, none worked out by itself.

use std::net::IpAddr;

use palisade_model::{Direction, End, EndpointId, PerDirection, Place};
use rustc_hash::FxHashMap;

use crate::compile::evaluate::{Passing, Relation, Sets};
use crate::compile::ports::{PortSetId, PortSets};
use crate::compile::rows::{Postings, Rows};
use crate::compile::{Compiled, Foreign, Kind, Placed};

/// Answers about pairs of ends.
#[derive(Debug)]
pub struct Reach<'c> {
    compiled: &'c Compiled,
    sets: Sets,
    rows: PerDirection<Rows>,
    /// What a program does with a pod of the same namespace: by program, view and labels.
    own: PerDirection<FxHashMap<(u32, u32, u32), Passing>>,
}

/// What passes between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReachEnd {
    /// Traffic that passes.
    pub allowed: PortSetId,
    /// Traffic that passes if a domain name in a policy resolves to the destination, and is dropped otherwise.
    pub depends_on_dns: PortSetId,
}

/// Pods with the same of this fare alike with every end that is in none of their namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlikeApart {
    seen: u32,
    egress: u32,
    ingress: u32,
}

/// Pods with the same of this fare alike with every other pod, and with every end outside of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alike {
    /// What matters to other namespaces.
    pub apart: AlikeApart,
    namespace: u32,
    labels: u32,
}

impl Compiled {
    /// Works out who reaches whom.
    pub fn reach(&self) -> Reach<'_> {
        let postings = Postings::of(self);
        let mut sets = Sets::of(self.parts.ports.clone());
        let egress = Rows::work_out(self, Direction::Egress, &postings, &mut sets);
        let ingress = Rows::work_out(self, Direction::Ingress, &postings, &mut sets);
        Reach { compiled: self, sets, rows: PerDirection { egress, ingress }, own: PerDirection::default() }
    }

    /// What is seen of an end; None for a pod that is not at that address.
    fn seen(&self, end: &End) -> Option<u32> {
        match (end.place, end.address) {
            (Place::Pod(id), address) => self.pod(id)?.seen.iter().find(|it| it.address == address).map(|it| it.foreign),
            (Place::Node(id), address @ Some(_)) => self.nodes.get(id.0)?.seen.iter().find(|it| it.address == address).map(|it| it.foreign),
            (Place::Outside, Some(address)) => {
                let prefix = self.parts.prefixes.locate(address);
                self.foreign.id_of(&Foreign { kind: Kind::Outside, view: 0, prefix, ports: 0 })
            }
            (Place::Node(_) | Place::Outside, None) => None,
        }
    }
}

impl Reach<'_> {
    /// The sets that answers speak of.
    pub fn sets(&self) -> &PortSets {
        &self.sets.ports
    }

    /// The sets that answers speak of, to work out others with.
    pub fn sets_mut(&mut self) -> &mut PortSets {
        &mut self.sets.ports
    }

    /// What a pod at one of its addresses has in common with those that fare as it does. None for an end that is no pod, or was not compiled.
    pub fn alike(&self, end: &End) -> Option<Alike> {
        let Place::Pod(id) = end.place else { return None };
        let pod = self.compiled.pod(id)?;
        let apart = AlikeApart { seen: self.compiled.seen(end)?, egress: pod.programs.egress, ingress: pod.programs.ingress };
        Some(Alike { apart, namespace: pod.namespace, labels: pod.labels })
    }

    /// What `from` may open towards `to`, straight and not by way of a Service. None for an end that was not compiled.
    pub fn between(&mut self, from: &End, to: &End) -> Option<ReachEnd> {
        if from.place == to.place && matches!(from.place, Place::Pod(_)) {
            return Some(ReachEnd { allowed: PortSetId::ALL, depends_on_dns: PortSetId::NONE });
        }
        let egress = self.passing(Direction::Egress, from, to)?;
        let ingress = self.passing(Direction::Ingress, to, from)?;
        Some(self.both(egress, ingress))
    }

    /// What any pod that is alike with the first may open towards any that is alike with the second, if their namespaces differ.
    pub fn between_apart(&mut self, from: AlikeApart, to: AlikeApart) -> Option<ReachEnd> {
        let egress = self.passes(Direction::Egress, from.egress, to.seen, Relation::Apart)?;
        let ingress = self.passes(Direction::Ingress, to.ingress, from.seen, Relation::Apart)?;
        Some(self.both(egress, ingress))
    }

    /// What any pod that is alike with the first may open towards any other that is alike with the second.
    pub fn between_alike(&mut self, from: Alike, to: Alike) -> Option<ReachEnd> {
        if from.namespace != to.namespace {
            return self.between_apart(from.apart, to.apart);
        }
        let own = |labels| Relation::SameNamespace { labels };
        let egress = self.passes(Direction::Egress, from.apart.egress, to.apart.seen, own(to.labels))?;
        let ingress = self.passes(Direction::Ingress, to.apart.ingress, from.apart.seen, own(from.labels))?;
        Some(self.both(egress, ingress))
    }

    /// What both directions let pass.
    fn both(&mut self, egress: Passing, ingress: Passing) -> ReachEnd {
        let allowed = self.sets.ports.and(egress.accepted, ingress.accepted);
        let (a, b) = (self.sets.ports.or(egress.accepted, egress.perhaps), self.sets.ports.or(ingress.accepted, ingress.perhaps));
        let perhaps = self.sets.ports.and(a, b);
        ReachEnd { allowed, depends_on_dns: self.sets.ports.without(perhaps, allowed) }
    }

    /// What the subject's program lets pass with another end.
    fn passing(&mut self, direction: Direction, subject: &End, other: &End) -> Option<Passing> {
        let Place::Pod(id) = subject.place else {
            return Some(Passing { accepted: PortSetId::ALL, perhaps: PortSetId::NONE });
        };
        let pod = self.compiled.pod(id)?;
        let view = self.compiled.seen(other)?;
        let relation = self.relation(direction, pod, other);
        self.passes(direction, *pod.programs.of(direction), view, relation)
    }

    /// What a program lets pass with an end that looks like this.
    fn passes(&mut self, direction: Direction, program: u32, view: u32, relation: Relation) -> Option<Passing> {
        if relation == Relation::Apart {
            let rows = self.rows.of(direction);
            let kind = self.compiled.foreign.get(view)?.kind;
            let row = rows.rows.get(*rows.of_program.get(usize::try_from(program).ok()?)?)?;
            return rows.passing.get(row.at(view, kind)).copied();
        }
        let labels = if let Relation::SameNamespace { labels } = relation { labels } else { u32::MAX };
        if let Some(known) = self.own.of(direction).get(&(program, view, labels)) {
            return Some(*known);
        }
        let foreign = *self.compiled.foreign.get(view)?;
        let of = *self.compiled.programs.of(direction).get(program)?;
        let passing = self.compiled.context(direction).passing(of, foreign, relation, &mut self.sets);
        self.own.of_mut(direction).insert((program, view, labels), passing);
        Some(passing)
    }

    fn relation(&self, direction: Direction, subject: &Placed, other: &End) -> Relation {
        match other.place {
            Place::Pod(id) => match self.compiled.pod(id) {
                Some(pod) if pod.namespace == subject.namespace => Relation::SameNamespace { labels: pod.labels },
                Some(_) | None => Relation::Apart,
            },
            Place::Node(id) if direction == Direction::Ingress && subject.node == Some(id) => Relation::OwnNode,
            Place::Node(_) | Place::Outside => Relation::Apart,
        }
    }

    /// Ranges of addresses outside of the cluster that policy tells apart, with an end that stands for each.
    pub fn outside(&self) -> impl Iterator<Item = (IpAddr, IpAddr, End)> + '_ {
        let ranges = self.compiled.parts.prefixes.ranges().into_iter();
        ranges.map(|(first, last, _)| (first, last, End { place: Place::Outside, address: Some(first) }))
    }

    /// The ends of a pod, one for each address.
    pub fn ends(&self, id: EndpointId) -> impl Iterator<Item = End> + '_ {
        let seen = self.compiled.pod(id).map(|it| it.seen.as_slice()).unwrap_or_default();
        seen.iter().map(move |it| End { place: Place::Pod(id), address: it.address })
    }
}
