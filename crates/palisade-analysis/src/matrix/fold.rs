//! From the answers for kinds of pods to those for units: what some pair of pods may do, and what every pair may.

use palisade_engine::{PortSetId, PortSets, ReachEnd};
use palisade_model::Family;

/// What is known of all pairs of pods so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tally {
    /// What some pair may.
    pub(super) any: PortSetId,
    /// What every pair may.
    pub(super) every: PortSetId,
    /// What depends on a domain name for some pair.
    pub(super) dns: PortSetId,
}

/// Answers by family; those of pods without an address may be of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    unknown: Option<Tally>,
    v4: Option<Tally>,
    v6: Option<Tally>,
}

impl Tally {
    fn and_also(self, other: Tally, sets: &mut PortSets) -> Tally {
        Tally { any: sets.or(self.any, other.any), every: sets.and(self.every, other.every), dns: sets.or(self.dns, other.dns) }
    }

    /// Only what was asked about; what passes anyway does not depend on a name.
    fn within(self, wanted: PortSetId, sets: &mut PortSets) -> Tally {
        let (any, every, dns) = (sets.and(self.any, wanted), sets.and(self.every, wanted), sets.and(self.dns, wanted));
        Tally { any, every, dns: sets.without(dns, any) }
    }

    pub(super) fn is_denied(self) -> bool {
        self.any == PortSetId::NONE && self.dns == PortSetId::NONE
    }
}

impl Slots {
    pub(super) fn add(&mut self, family: Option<Family>, end: ReachEnd, sets: &mut PortSets) {
        let tally = Tally { any: end.allowed, every: end.allowed, dns: end.depends_on_dns };
        let slot = match family {
            None => &mut self.unknown,
            Some(Family::V4) => &mut self.v4,
            Some(Family::V6) => &mut self.v6,
        };
        merge(slot, Some(tally), sets);
    }

    pub(super) fn merge(&mut self, other: Slots, sets: &mut PortSets) {
        merge(&mut self.unknown, other.unknown, sets);
        merge(&mut self.v4, other.v4, sets);
        merge(&mut self.v6, other.v6, sets);
    }

    /// One answer, or one for each family if they differ. None at all where no pair of pods has a family in common.
    pub(super) fn settle(mut self, wanted: PortSetId, sets: &mut PortSets) -> [Option<(Option<Family>, Tally)>; 2] {
        for family in [&mut self.v4, &mut self.v6] {
            if family.is_some() {
                merge(family, self.unknown, sets);
            }
        }
        let mut within = |tally: Option<Tally>| tally.map(|it| it.within(wanted, sets));
        match (within(self.v4), within(self.v6)) {
            (Some(v4), Some(v6)) if v4 != v6 => [Some((Some(Family::V4), v4)), Some((Some(Family::V6), v6))],
            (Some(either), _) | (None, Some(either)) => [Some((None, either)), None],
            (None, None) => [within(self.unknown).map(|it| (None, it)), None],
        }
    }
}

fn merge(into: &mut Option<Tally>, other: Option<Tally>, sets: &mut PortSets) {
    *into = match (*into, other) {
        (Some(a), Some(b)) => Some(a.and_also(b, sets)),
        (a, b) => a.or(b),
    };
}
