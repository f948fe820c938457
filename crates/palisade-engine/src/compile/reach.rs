//! Who reaches whom, and with which traffic: every pair of ends answered from rows, none worked out by itself.

use std::net::IpAddr;

use palisade_model::{Direction, End, EndpointId, PerDirection, Place, Tier};
use rustc_hash::FxHashMap;

use crate::compile::evaluate::{Passing, Relation, Sets};
use crate::compile::intern::{index, number};
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
    /// What matters when it calls.
    pub calling: Role,
    /// What matters when it is called.
    pub called: Role,
}

/// One of two sides of a connection, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role {
    /// What its own policies do with others, as a row of one direction.
    row: u32,
    /// What policies of others do with it: the column of the rows of the other direction.
    column: u32,
}

/// Pods with the same of this fare alike with every other pod, and with every end outside of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alike {
    /// What matters to other namespaces.
    pub apart: AlikeApart,
    seen: u32,
    egress: u32,
    ingress: u32,
    namespace: u32,
    labels: u32,
}

/// What others see of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seen(u32);

/// What policy does with a pod's traffic of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Treated {
    direction: Direction,
    program: u32,
}

/// Traffic that one side lets pass, by who let it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LetPass {
    /// Accepted by a rule of the Admin tier.
    pub admin: PortSetId,
    /// Accepted by a NetworkPolicy.
    pub network_policy: PortSetId,
    /// Accepted by a rule of the Baseline tier.
    pub baseline: PortSetId,
    /// Decided by nobody.
    pub default: PortSetId,
}

impl Alike {
    /// What others see of it.
    pub fn seen(self) -> Seen {
        Seen(self.seen)
    }

    /// What policy does with its traffic of one direction.
    pub fn treated(self, direction: Direction) -> Treated {
        let program = match direction {
            Direction::Egress => self.egress,
            Direction::Ingress => self.ingress,
        };
        Treated { direction, program }
    }
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
            (Place::Node(id), address @ Some(_)) => {
                self.nodes.get(number(id.0))?.seen.iter().find(|it| it.address == address).map(|it| it.foreign)
            }
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
        let seen = self.compiled.seen(end)?;
        let PerDirection { egress, ingress } = pod.programs;
        let role = |own: &Rows, program: u32, others: &Rows| {
            let row = own.of_program.get(index(program)).copied()?;
            Some(Role { row, column: others.columns(self.compiled).of_view(seen)? })
        };
        let calling = role(&self.rows.egress, egress, &self.rows.ingress)?;
        let called = role(&self.rows.ingress, ingress, &self.rows.egress)?;
        Some(Alike { apart: AlikeApart { calling, called }, seen, egress, ingress, namespace: pod.namespace, labels: pod.labels })
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
        let (from, to) = (from.calling, to.called);
        let egress = self.rows.egress.at(self.compiled, from.row, to.column)?;
        let ingress = self.rows.ingress.at(self.compiled, to.row, from.column)?;
        Some(self.both(egress, ingress))
    }

    /// What any pod that is alike with the first may open towards any other that is alike with the second.
    pub fn between_alike(&mut self, from: Alike, to: Alike) -> Option<ReachEnd> {
        if from.namespace != to.namespace {
            return self.between_apart(from.apart, to.apart);
        }
        let own = |labels| Relation::SameNamespace { labels };
        let egress = self.passes(Direction::Egress, from.egress, to.seen, own(to.labels))?;
        let ingress = self.passes(Direction::Ingress, to.ingress, from.seen, own(from.labels))?;
        Some(self.both(egress, ingress))
    }

    /// What others see of an end. None for one that was not compiled.
    pub fn seen(&self, end: &End) -> Option<Seen> {
        self.compiled.seen(end).map(Seen)
    }

    /// What one side alone lets pass with an end that is in none of its namespaces.
    pub fn side(&mut self, subject: Treated, other: Seen) -> Option<ReachEnd> {
        let passing = self.passes(subject.direction, subject.program, other.0, Relation::Apart)?;
        Some(ReachEnd { allowed: passing.accepted, depends_on_dns: passing.perhaps })
    }

    /// The ends with which a pod fares otherwise than with most of their kind, as far as they are in none of its namespaces.
    pub fn exceptions(&self, subject: Treated) -> impl Iterator<Item = Seen> + '_ {
        let rows = self.rows.of(subject.direction);
        let row = usize::try_from(subject.program).ok().and_then(|it| rows.of_program.get(it)).and_then(|it| rows.rows.get(*it));
        row.into_iter().flat_map(|it| &it.exceptions).map(|it| Seen(it.0))
    }

    /// What one side alone lets pass with such an end, by the tier that let it.
    pub fn let_pass(&mut self, subject: Treated, other: Seen) -> Option<LetPass> {
        let context = self.compiled.context(subject.direction);
        let foreign = *self.compiled.foreign.get(other.0)?;
        let program = *self.compiled.programs.of(subject.direction).get(subject.program)?;
        let (lists, ports, sets) = (&context.parts.lists, program.ports, &mut self.sets);
        let admin = context.ordered(lists.get(program.admin), ports, foreign, Relation::Apart, sets);
        let network = context.network(program.network.map(|it| lists.get(it)), ports, foreign, Relation::Apart, sets);
        let baseline = context.ordered(lists.get(program.baseline), ports, foreign, Relation::Apart, sets);
        let sets = &mut sets.ports;
        let reached = sets.and(admin.open, network.open);
        Some(LetPass {
            admin: admin.accepted,
            network_policy: sets.and(admin.open, network.accepted),
            baseline: sets.and(reached, baseline.accepted),
            default: sets.and(reached, baseline.open),
        })
    }

    /// The tiers that have something to say about a pod's traffic of one direction, in their order.
    pub fn tiers(&self, subject: Treated) -> impl Iterator<Item = Tier> + use<> {
        let program = self.compiled.programs.of(subject.direction).get(subject.program);
        let has_rules = |list: u32| !self.compiled.parts.lists.get(list).is_empty();
        let speaks = program.map(|it| {
            [(Tier::Admin, has_rules(it.admin)), (Tier::NetworkPolicy, it.network.is_some()), (Tier::Baseline, has_rules(it.baseline))]
        });
        speaks.into_iter().flatten().filter(|it| it.1).map(|it| it.0)
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
