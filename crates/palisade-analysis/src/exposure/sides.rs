//! The exposure of one workload in one direction, from answers for kinds of pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::{PortSetId, Reach, ReachEnd, Seen, Treated};
use palisade_model::{Direction, EndpointId, Family, Tier};

use super::hostile::Hostile;
use super::newcomers::Newcomer;
use super::{Labelled, LetBy, Open, Protection, Range, Side};
use crate::matrix::outside;
use crate::matrix::units::{Unit, Units, slots};

/// What others see of a pod, at the first address of each family.
type Looks = Vec<(Option<Family>, Seen)>;

/// Pods that are seen alike.
struct Other<'u> {
    looks: Looks,
    lives: Lives<'u>,
}

/// Where such pods are.
#[derive(Clone, Copy)]
enum Lives<'u> {
    In(&'u str),
    InSeveral,
}

/// Pods that are treated alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Subject {
    treated: Treated,
    /// The same where newcomers are seen at their worst.
    at_worst: Vec<Treated>,
    families: Vec<Option<Family>>,
}

/// Where newcomers are seen at their worst.
struct Worst<'h> {
    reach: Reach<'h>,
    looks: Looks,
}

/// Everyone that workloads may be exposed to.
pub(super) struct Asking<'r, 'c, 'u> {
    reach: &'r mut Reach<'c>,
    units: &'u Units,
    possible: PortSetId,
    others: Vec<Other<'u>>,
    /// The shortest wish first, which is none.
    newcomers: Vec<(Arc<Newcomer>, Looks)>,
    /// Which newcomers are seen so.
    by_looks: HashMap<Seen, Vec<usize>>,
    worst: Vec<Worst<'c>>,
    ranges: Vec<(IpAddr, IpAddr, Looks)>,
    /// Without the cluster, whose answer depends on the namespace.
    known: HashMap<Vec<Subject>, Side>,
    whole: HashMap<(Vec<Subject>, &'u str), Arc<Side>>,
}

impl<'r, 'c, 'u> Asking<'r, 'c, 'u> {
    pub(super) fn new(
        reach: &'r mut Reach<'c>,
        units: &'u Units,
        newcomers: Vec<(Newcomer, EndpointId)>,
        hostile: &'c [Hostile],
        outside: &[outside::Range],
    ) -> Asking<'r, 'c, 'u> {
        let worst = |it: &'c Hostile| {
            let reach = it.compiled.reach();
            Worst { looks: looks(&reach, it.newcomer), reach }
        };
        let worst = hostile.iter().map(worst).collect();
        let mut seen = BTreeSet::new();
        let looks = newcomers.into_iter().map(|(newcomer, id)| (newcomer, looks(reach, id)));
        // Newcomers that are seen alike fare alike; the shortest wish stands for them.
        let newcomers: Vec<(Arc<Newcomer>, Looks)> =
            looks.filter(|(_, looks)| seen.insert(looks.clone())).map(|(newcomer, looks)| (Arc::new(newcomer), looks)).collect();
        let mut by_looks: HashMap<Seen, Vec<usize>> = HashMap::new();
        for (at, (_, looks)) in newcomers.iter().enumerate() {
            looks.iter().for_each(|it| by_looks.entry(it.1).or_default().push(at));
        }
        let ranges =
            outside.iter().filter_map(|(first, last, end)| Some((*first, *last, vec![(Some(Family::of(*first)), reach.seen(end)?)])));
        let ranges = ranges.collect();
        let possible = reach.sets_mut().possible();
        Asking {
            possible,
            others: others(units),
            newcomers,
            by_looks,
            worst,
            ranges,
            known: HashMap::new(),
            whole: HashMap::new(),
            units,
            reach,
        }
    }

    pub(super) fn side(&mut self, unit: &'u Unit, direction: Direction) -> Arc<Side> {
        let subjects = self.subjects(unit, direction);
        let key = (subjects, unit.namespace.as_ref());
        if let Some(known) = self.whole.get(&key) {
            return Arc::clone(known);
        }
        let mut side = match self.known.get(&key.0) {
            Some(known) => known.clone(),
            None => {
                let side = self.beyond(&key.0);
                self.known.insert(key.0.clone(), side.clone());
                side
            }
        };
        side.cluster = self.cluster(&key.0, key.1);
        let side = Arc::new(side);
        self.whole.insert(key, Arc::clone(&side));
        side
    }

    fn subjects(&self, unit: &Unit, direction: Direction) -> Vec<Subject> {
        let kinds = unit.own.iter().filter_map(|(it, _)| self.units.own.get(*it));
        let subject = |slots: &Vec<crate::matrix::units::Slot>| {
            let slot = slots.first()?;
            let treated = slot.alike.treated(direction);
            let at_worst = self.worst.iter().filter_map(|it| Some(it.reach.alike(&slot.end)?.treated(direction))).collect();
            Some(Subject { treated, at_worst, families: slots.iter().map(|it| it.family).collect() })
        };
        let all: BTreeSet<Subject> = kinds.filter_map(subject).collect();
        all.into_iter().collect()
    }

    /// What every pod of other namespaces may.
    fn cluster(&mut self, subjects: &[Subject], namespace: &str) -> Option<Open> {
        let mut first = None;
        let mut traffic = self.possible;
        for at in 0..self.others.len() {
            let Some(other) = self.others.get(at).filter(|it| !matches!(it.lives, Lives::In(own) if own == namespace)) else { continue };
            let Some(passes) = passes(self.reach, subjects, &other.looks) else { continue };
            first = first.or(Some(at));
            traffic = self.reach.sets_mut().and(traffic, passes.allowed);
            if traffic == PortSetId::NONE {
                break;
            }
        }
        let looks = first.and_then(|it| self.others.get(it)).map(|it| it.looks.clone())?;
        Some(self.open(subjects, &looks, traffic))
    }

    /// What does not depend on the namespace.
    fn beyond(&mut self, subjects: &[Subject]) -> Side {
        let tiers: Vec<BTreeSet<Tier>> = subjects.iter().map(|it| self.reach.tiers(it.treated).collect()).collect();
        let protection = match (tiers.iter().all(BTreeSet::is_empty), tiers.iter().any(BTreeSet::is_empty)) {
            (true, _) => Protection::Nothing,
            (false, true) => Protection::SomePods,
            (false, false) => Protection::Policy,
        };
        let (any_new, unlabelled, labelled) = self.newcomers(subjects);
        let (outside, depends_on_dns) = self.outside(subjects);
        let tiers = tiers.into_iter().flatten().collect();
        Side { tiers, protection, cluster: None, any_new, unlabelled, labelled, outside, depends_on_dns }
    }

    fn newcomers(&mut self, subjects: &[Subject]) -> (Open, Open, Vec<Labelled>) {
        let mut unlabelled = PortSetId::NONE;
        // By their place: what passes, and nothing that a shorter wish has.
        let mut kept: Vec<(usize, PortSetId)> = Vec::new();
        for at in self.remarkable(subjects) {
            let Some((newcomer, looks)) = self.newcomers.get(at) else { continue };
            let allowed = passes(self.reach, subjects, looks).map_or(PortSetId::NONE, |it| it.allowed);
            let sets = self.reach.sets_mut();
            let allowed = sets.and(allowed, self.possible);
            if at == 0 {
                unlabelled = allowed;
            }
            let mut more = sets.without(allowed, unlabelled);
            for (shorter, had) in &kept {
                let shorter = self.newcomers.get(*shorter);
                if more != PortSetId::NONE && shorter.is_some_and(|it| newcomer.wish.asks_all_of(&it.0.wish)) {
                    more = self.reach.sets_mut().without(more, *had);
                }
            }
            if more != PortSetId::NONE {
                kept.push((at, allowed));
            }
        }
        let plain = self.newcomers.first().map(|it| it.1.clone()).unwrap_or_default();
        let mut labelled = Vec::with_capacity(kept.len());
        for (at, allowed) in kept {
            if let Some((newcomer, looks)) = self.newcomers.get(at).cloned() {
                labelled.push(Labelled { newcomer, open: self.open(subjects, &looks, allowed) });
            }
        }
        let every = self.every(subjects);
        (self.open(subjects, &plain, every), self.open(subjects, &plain, unlabelled), labelled)
    }

    /// The newcomer without labels, and all who may fare otherwise.
    fn remarkable(&self, subjects: &[Subject]) -> BTreeSet<usize> {
        let exceptions = subjects.iter().flat_map(|it| self.reach.exceptions(it.treated));
        let mut found: BTreeSet<usize> = exceptions.filter_map(|it| self.by_looks.get(&it)).flatten().copied().collect();
        match found.insert(0) {
            true => found,
            // If it is the exception, everyone else may be the rule.
            false => (0..self.newcomers.len()).collect(),
        }
    }

    /// What some of the subjects lets every newcomer do.
    fn every(&mut self, subjects: &[Subject]) -> PortSetId {
        let mut sum = PortSetId::NONE;
        for subject in subjects {
            let mut every = self.possible;
            for (worst, treated) in self.worst.iter_mut().zip(&subject.at_worst) {
                let mut allowed = PortSetId::NONE;
                for (_, seen) in worst.looks.iter().filter(|it| meets(subject, it.0)) {
                    let one = worst.reach.side(*treated, *seen).map_or(PortSetId::NONE, |it| it.allowed);
                    let one = self.reach.sets_mut().adopt(worst.reach.sets(), one);
                    allowed = self.reach.sets_mut().or(allowed, one);
                }
                every = self.reach.sets_mut().and(every, allowed);
            }
            sum = self.reach.sets_mut().or(sum, every);
        }
        sum
    }

    /// Neighbours with the same answer are one.
    fn outside(&mut self, subjects: &[Subject]) -> (Vec<Range>, PortSetId) {
        let mut runs: Vec<Range> = Vec::new();
        let mut dns = PortSetId::NONE;
        // The last range is of a run, or of none.
        let mut before: Option<(PortSetId, bool)> = None;
        for at in 0..self.ranges.len() {
            let Some((first, last, looks)) = self.ranges.get(at) else { continue };
            let (first, last) = (*first, *last);
            let Some(passes) = passes(self.reach, subjects, looks) else { continue };
            let looks = looks.clone();
            let sets = self.reach.sets_mut();
            let allowed = sets.and(passes.allowed, self.possible);
            let perhaps = sets.and(passes.depends_on_dns, self.possible);
            dns = sets.or(dns, perhaps);
            let joins = before == Some((allowed, first.is_ipv4()));
            before = Some((allowed, first.is_ipv4()));
            match runs.last_mut() {
                Some(run) if joins && allowed != PortSetId::NONE => run.last = last,
                Some(_) | None if allowed != PortSetId::NONE => {
                    let open = self.open(subjects, &looks, allowed);
                    runs.push(Range { first, last, open });
                }
                Some(_) | None => {}
            }
        }
        (runs, dns)
    }

    /// Some traffic with somebody who is seen so, and who lets it pass.
    fn open(&mut self, subjects: &[Subject], looks: &Looks, traffic: PortSetId) -> Open {
        let traffic = self.reach.sets_mut().and(traffic, self.possible);
        let mut by = BTreeSet::new();
        for subject in subjects.iter().filter(|_| traffic != PortSetId::NONE) {
            for (_, seen) in looks.iter().filter(|it| meets(subject, it.0)) {
                let Some(let_pass) = self.reach.let_pass(subject.treated, *seen) else { continue };
                let all = [
                    (LetBy::Tier(Tier::Admin), let_pass.admin),
                    (LetBy::Tier(Tier::NetworkPolicy), let_pass.network_policy),
                    (LetBy::Tier(Tier::Baseline), let_pass.baseline),
                    (LetBy::Default, let_pass.default),
                ];
                by.extend(all.into_iter().filter(|it| self.reach.sets_mut().and(it.1, traffic) != PortSetId::NONE).map(|it| it.0));
            }
        }
        Open { traffic, by }
    }
}

/// What some of the subjects let pass, in some family that both have. None if there is no such family.
fn passes(reach: &mut Reach<'_>, subjects: &[Subject], looks: &Looks) -> Option<ReachEnd> {
    let mut sum: Option<ReachEnd> = None;
    for subject in subjects {
        for (_, seen) in looks.iter().filter(|it| meets(subject, it.0)) {
            let one = reach.side(subject.treated, *seen)?;
            let sets = reach.sets_mut();
            sum = Some(sum.map_or(one, |it| ReachEnd {
                allowed: sets.or(it.allowed, one.allowed),
                depends_on_dns: sets.or(it.depends_on_dns, one.depends_on_dns),
            }));
        }
    }
    sum
}

/// A pod without an address may be of either family.
fn meets(subject: &Subject, family: Option<Family>) -> bool {
    family.is_none() || subject.families.iter().any(|it| it.is_none() || *it == family)
}

fn looks(reach: &Reach<'_>, id: EndpointId) -> Looks {
    slots(reach, id).into_iter().map(|it| (it.family, it.alike.seen())).collect()
}

/// Pods as other namespaces see them.
fn others(units: &Units) -> Vec<Other<'_>> {
    let mut found: BTreeMap<Looks, Lives<'_>> = BTreeMap::new();
    for unit in &units.units {
        for slots in unit.own.iter().filter_map(|(it, _)| units.own.get(*it)) {
            let looks: Looks = slots.iter().map(|it| (it.family, it.alike.seen())).collect();
            let here = Lives::In(&unit.namespace);
            let merge = |it: &mut Lives<'_>| match *it {
                Lives::In(namespace) if *namespace == *unit.namespace => {}
                Lives::In(_) | Lives::InSeveral => *it = Lives::InSeveral,
            };
            found.entry(looks).and_modify(merge).or_insert(here);
        }
    }
    found.into_iter().map(|(looks, lives)| Other { looks, lives }).collect()
}
