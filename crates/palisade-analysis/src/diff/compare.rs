//! What differs, pair of kinds by pair of kinds, for the pairs that can differ.

use std::collections::{BTreeMap, HashMap};

use palisade_engine::{PortSetId, PortSets, Reach, ReachEnd};
use palisade_model::{Direction, End, Family};

use super::members::{Both, Id, Members, id, place};
use super::suspects::{Affected, Peers};
use super::{Filter, Presence};
use crate::matrix::units::Slot;

/// What has become of the connections of a pair. The sets are apart from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Delta {
    pub(crate) presence: Presence,
    /// Only where the families differ.
    pub(crate) family: Option<Family>,
    pub(crate) traffic: Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Traffic {
    /// Allowed now, and not before.
    pub(crate) opened: PortSetId,
    /// Denied before, and now allowed if a name resolves.
    pub(crate) opened_by_name: PortSetId,
    /// Denied or dependent now, and not before.
    pub(crate) closed: PortSetId,
    /// Allowed before, and now only if a name resolves.
    pub(crate) closed_but_by_name: PortSetId,
}

const NOTHING: Traffic =
    Traffic { opened: PortSetId::NONE, opened_by_name: PortSetId::NONE, closed: PortSetId::NONE, closed_but_by_name: PortSetId::NONE };

/// Pairs that differ, each with what differs.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Kinds of different namespaces, by how those tell them apart: source, destination.
    pub(crate) far: BTreeMap<Delta, Vec<(Id, Id)>>,
    /// Kinds of one namespace: source, destination.
    pub(crate) near: BTreeMap<Delta, Vec<(Id, Id)>>,
    /// From kinds to ranges.
    pub(crate) outward: BTreeMap<Delta, Vec<(Id, Id)>>,
    /// To kinds from ranges: the kind first here, too.
    pub(crate) inward: BTreeMap<Delta, Vec<(Id, Id)>>,
}

/// Answers by family; those of pods without an address may be of either.
#[derive(Clone, Copy, Default)]
struct Answers {
    unknown: Option<ReachEnd>,
    v4: Option<ReachEnd>,
    v6: Option<ReachEnd>,
}

pub(crate) struct Comparison<'w, 'o, 'n> {
    pub(crate) old: &'w mut Reach<'o>,
    pub(crate) new: &'w mut Reach<'n>,
    pub(crate) members: &'w Members,
    /// Ranges of addresses outside, cut where either version cuts them.
    pub(crate) ranges: &'w [(std::net::IpAddr, std::net::IpAddr)],
    pub(crate) filter: &'w Filter,
    pub(crate) sets: PortSets,
    pub(crate) wanted: PortSetId,
    pub(crate) known: HashMap<Both<Option<ReachEnd>>, Traffic>,
    pub(crate) found: Found,
}

impl Comparison<'_, '_, '_> {
    /// Compares all pairs that can differ.
    pub(crate) fn work_out(&mut self, affected: &[Affected]) {
        self.near(affected);
        self.far(affected);
        self.outside(affected);
    }

    /// Every pair of each namespace in which something can differ.
    fn near(&mut self, affected: &[Affected]) {
        let members = self.members;
        let mut suspect = vec![false; members.namespaces.len()];
        let touched = members.kinds.iter().enumerate().filter(|(_, it)| it.touched).map(|(at, _)| id(at));
        for kind in affected.iter().flat_map(|it| it.subjects.iter().copied()).chain(touched) {
            if let Some(it) = suspect.get_mut(place(members.namespace_of(kind))) {
                *it = true;
            }
        }
        for (kinds, _) in members.namespaces.iter().zip(suspect).filter(|(_, suspect)| *suspect) {
            for from in kinds {
                for to in kinds {
                    let (Some(a), Some(b)) = (members.kind(*from), members.kind(*to)) else { continue };
                    if a.focus || b.focus {
                        let alike = |reach: &mut Reach<'_>, from: &Slot, to: &Slot| reach.between_alike(from.alike, to.alike);
                        for delta in self.deltas(&a.slots, &b.slots, alike).into_iter().flatten() {
                            self.found.near.entry(delta).or_default().push((*from, *to));
                        }
                    }
                }
            }
        }
    }

    fn far(&mut self, affected: &[Affected]) {
        let members = self.members;
        let suspects = Suspects::of(members, affected);
        let mut marked = vec![Id::MAX; members.aparts.len()];
        for from in 0..members.aparts.len() {
            let Some(a) = members.aparts.get(from) else { continue };
            for to in suspects.of_source(members, id(from), &mut marked) {
                let Some(b) = members.apart(to).filter(|b| a.focus || b.focus) else { continue };
                let apart = |reach: &mut Reach<'_>, from: &Slot, to: &Slot| reach.between_apart(from.alike.apart, to.alike.apart);
                for delta in self.deltas(&a.slots, &b.slots, apart).into_iter().flatten() {
                    self.found.far.entry(delta).or_default().push((id(from), to));
                }
            }
        }
    }

    /// Ends outside of the cluster, both ways.
    fn outside(&mut self, affected: &[Affected]) {
        let members = self.members;
        for direction in Direction::BOTH {
            let mut ranges: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
            let every = || (0..self.ranges.len()).map(id);
            for (at, _) in members.aparts.iter().enumerate().filter(|(_, it)| it.touched) {
                ranges.entry(id(at)).or_default().extend(every());
            }
            for it in affected.iter().filter(|it| it.direction == direction) {
                for apart in aparts(members, &it.subjects) {
                    match &it.peers {
                        Peers::All => ranges.entry(apart).or_default().extend(every()),
                        Peers::Some { ranges: some, .. } => ranges.entry(apart).or_default().extend(some),
                    }
                }
            }
            for (apart, mut some) in ranges {
                some.sort_unstable();
                some.dedup();
                self.with_ranges(direction, apart, &some);
            }
        }
    }

    fn with_ranges(&mut self, direction: Direction, apart: Id, ranges: &[Id]) {
        let Some(it) = self.members.apart(apart) else { return };
        for at in ranges {
            let Some((first, last)) = self.ranges.get(place(*at)).copied() else { continue };
            let in_focus = self.filter.focus.as_ref().is_some_and(|it| it.has_range(first, last));
            if !it.focus && !in_focus {
                continue;
            }
            let end = End { place: palisade_model::Place::Outside, address: Some(first) };
            let ask = |reach: &mut Reach<'_>, slots: &[Slot]| {
                let family = Family::of(first);
                let own = slots.iter().find(|it| it.family.is_none() || it.family == Some(family))?;
                match direction {
                    Direction::Egress => reach.between(&own.end, &end),
                    Direction::Ingress => reach.between(&end, &own.end),
                }
            };
            let answers = Both { old: ask(self.old, &it.slots.old), new: ask(self.new, &it.slots.new) };
            let traffic = self.traffic(answers);
            if traffic != NOTHING {
                let presence = match (it.slots.old.is_empty(), it.slots.new.is_empty()) {
                    (true, false) => Presence::New,
                    (false, true) => Presence::Gone,
                    (false, false) | (true, true) => Presence::Both,
                };
                let found = match direction {
                    Direction::Egress => &mut self.found.outward,
                    Direction::Ingress => &mut self.found.inward,
                };
                found.entry(Delta { presence, family: None, traffic }).or_default().push((apart, *at));
            }
        }
    }

    /// One difference, or one for each family if those differ.
    fn deltas(
        &mut self,
        from: &Both<Vec<Slot>>,
        to: &Both<Vec<Slot>>,
        between: impl Fn(&mut Reach<'_>, &Slot, &Slot) -> Option<ReachEnd>,
    ) -> [Option<Delta>; 2] {
        let there = |from: &[Slot], to: &[Slot]| !from.is_empty() && !to.is_empty();
        let (was, is) = (there(&from.old, &to.old), there(&from.new, &to.new));
        let presence = match (was, is) {
            (true, true) => Presence::Both,
            (true, false) => Presence::Gone,
            (false, true) => Presence::New,
            (false, false) => return [None, None],
        };
        let old = answers(self.old, &from.old, &to.old, &between);
        let new = answers(self.new, &from.new, &to.new, &between);
        let delta = |family, traffic| (traffic != NOTHING).then_some(Delta { presence, family, traffic });
        let mut of = |family: Family| {
            let there = old.of(family).is_some() || new.of(family).is_some();
            there.then(|| self.traffic(Both { old: old.nearest(family), new: new.nearest(family) }))
        };
        match (of(Family::V4), of(Family::V6)) {
            (Some(v4), Some(v6)) if v4 != v6 => [delta(Some(Family::V4), v4), delta(Some(Family::V6), v6)],
            (Some(either), _) | (None, Some(either)) => [delta(None, either), None],
            (None, None) => [delta(None, self.traffic(Both { old: old.unknown, new: new.unknown })), None],
        }
    }

    fn traffic(&mut self, answers: Both<Option<ReachEnd>>) -> Traffic {
        if let Some(known) = self.known.get(&answers) {
            return *known;
        }
        let Comparison { old, new, sets, wanted, .. } = self;
        let mut adopt = |of: &PortSets, answer: Option<ReachEnd>| {
            let mut set = |it| {
                let ours = sets.adopt(of, it);
                sets.and(ours, *wanted)
            };
            answer.map_or((PortSetId::NONE, PortSetId::NONE), |it| (set(it.allowed), set(it.depends_on_dns)))
        };
        let (before, before_by_name) = adopt(old.sets(), answers.old);
        let (after, after_by_name) = adopt(new.sets(), answers.new);
        let opened = sets.without(after, before);
        let closed_but_by_name = sets.and(before, after_by_name);
        let before_at_best = sets.or(before, before_by_name);
        let after_at_best = sets.or(after, after_by_name);
        let traffic = Traffic {
            opened,
            opened_by_name: sets.without(after_by_name, before_at_best),
            closed: sets.without(before_at_best, after_at_best),
            closed_but_by_name,
        };
        self.known.insert(answers, traffic);
        traffic
    }
}

fn answers(
    reach: &mut Reach<'_>,
    from: &[Slot],
    to: &[Slot],
    between: impl Fn(&mut Reach<'_>, &Slot, &Slot) -> Option<ReachEnd>,
) -> Answers {
    let mut answers = Answers::default();
    for from in from {
        for to in to {
            if from.family.is_some() && to.family.is_some() && from.family != to.family {
                continue;
            }
            let answer = between(reach, from, to);
            match from.family.or(to.family) {
                None => answers.unknown = answer,
                Some(Family::V4) => answers.v4 = answer,
                Some(Family::V6) => answers.v6 = answer,
            }
        }
    }
    answers
}

impl Answers {
    fn of(&self, family: Family) -> Option<ReachEnd> {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }

    /// The answer that a connection of a family is held against. Where pods had no such address, what they could do at another one.
    fn nearest(&self, family: Family) -> Option<ReachEnd> {
        self.of(family).or(self.unknown).or(self.v4).or(self.v6)
    }
}

fn aparts(members: &Members, kinds: &[Id]) -> Vec<Id> {
    let mut aparts: Vec<Id> = kinds.iter().filter_map(|it| members.kind(*it)).map(|it| it.apart).collect();
    aparts.sort_unstable();
    aparts.dedup();
    aparts
}

/// The same by how other namespaces tell kinds apart, ready to be asked by source.
struct Suspects {
    /// Destinations that can differ for every source.
    always: Vec<Id>,
    touched: Vec<bool>,
    /// By source: lists of destinations.
    lists: BTreeMap<Id, Vec<usize>>,
    destinations: Vec<Option<Vec<Id>>>,
}

impl Suspects {
    fn of(members: &Members, affected: &[Affected]) -> Suspects {
        let touched: Vec<bool> = members.aparts.iter().map(|it| it.touched).collect();
        let always = touched.iter().enumerate().filter(|(_, it)| **it).map(|(at, _)| id(at)).collect();
        let mut suspects = Suspects { always, touched, lists: BTreeMap::new(), destinations: Vec::new() };
        for it in affected {
            let subjects = aparts(members, &it.subjects);
            let peers = match &it.peers {
                Peers::All => None,
                Peers::Some { kinds, .. } => Some(aparts(members, kinds)),
            };
            let (sources, destinations) = match (it.direction, peers) {
                (Direction::Egress, peers) => (subjects, peers),
                (Direction::Ingress, Some(peers)) => (peers, Some(subjects)),
                (Direction::Ingress, None) => {
                    suspects.always.extend(subjects);
                    continue;
                }
            };
            suspects.destinations.push(destinations);
            for source in sources {
                suspects.lists.entry(source).or_default().push(suspects.destinations.len() - 1);
            }
        }
        suspects.always.sort_unstable();
        suspects.always.dedup();
        suspects
    }

    /// Each destination that can differ for a source, once.
    fn of_source(&self, members: &Members, source: Id, marked: &mut [Id]) -> Vec<Id> {
        let lists = self.lists.get(&source).into_iter().flatten().filter_map(|it| self.destinations.get(*it));
        let lists: Vec<Option<&Vec<Id>>> = lists.map(Option::as_ref).collect();
        if self.touched.get(place(source)) == Some(&true) || lists.contains(&None) {
            return (0..members.aparts.len()).map(id).collect();
        }
        let mut all = Vec::new();
        for to in lists.into_iter().flatten().flatten().chain(&self.always) {
            match marked.get_mut(place(*to)) {
                Some(mark) if *mark != source => {
                    *mark = source;
                    all.push(*to);
                }
                Some(_) | None => {}
            }
        }
        all
    }
}
