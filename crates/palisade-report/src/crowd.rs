//! Many workloads in few words.

use std::collections::{BTreeMap, BTreeSet};

use palisade_analysis::diff::{Diff, Group, Member, Part, Presence, Unit, Verb};

use crate::matrix_text::ranges;

/// Namespaces that are named as exceptions, at most.
const EXCEPTIONS: usize = 3;
/// Things that are named one by one, at most, where not all are wanted.
pub(crate) const NAMED: usize = 8;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Short,
    Whole,
}

/// All workloads of both versions.
#[derive(Debug)]
pub(crate) struct Everyone<'d> {
    units: &'d [Unit],
    /// How many each namespace has: of both versions, of the new one, of the old one.
    counts: BTreeMap<&'d str, [usize; 3]>,
}

impl<'d> Everyone<'d> {
    pub(crate) fn of(diff: &'d Diff) -> Everyone<'d> {
        let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for unit in &diff.units {
            let [both, new, old] = counts.entry(&unit.namespace).or_default();
            *both += usize::from(unit.presence == Presence::Both);
            *new += usize::from(unit.presence != Presence::Gone);
            *old += usize::from(unit.presence != Presence::New);
        }
        Everyone { units: &diff.units, counts }
    }

    /// A side of a change, opposite to another. A workload that stands there alone is not missed here.
    pub(crate) fn said(&self, group: &Group, opposite: &Group, verb: Verb, extent: Extent) -> String {
        let alone = match (opposite.units.as_slice(), opposite.ranges.is_empty()) {
            ([only], true) => self.units.get(only.unit).filter(|_| group.units.iter().all(|it| it.unit != only.unit)),
            (_, true | false) => None,
        };
        let mut said = self.workloads(&group.units, alone.map(|it| it.namespace.as_str()), verb);
        said.extend(ranges(&group.ranges));
        let more = said.len().saturating_sub(NAMED);
        match (extent, more) {
            (Extent::Short, 2..) => {
                said.truncate(NAMED);
                format!("{} and {more} more", said.join(", "))
            }
            (Extent::Short | Extent::Whole, _) => said.join(", "),
        }
    }

    fn count(&self, namespace: &str, verb: Verb) -> usize {
        let [both, new, old] = self.counts.get(namespace).copied().unwrap_or_default();
        match verb {
            Verb::Opened | Verb::Changed | Verb::Closed => both,
            Verb::Added => new,
            Verb::Removed => old,
        }
    }

    fn workloads(&self, members: &[Member], short_of_one: Option<&str>, verb: Verb) -> Vec<String> {
        let count = |namespace: &str| self.count(namespace, verb).saturating_sub(usize::from(short_of_one == Some(namespace)));
        let mut by_namespace: BTreeMap<&str, Vec<(&Unit, Part)>> = BTreeMap::new();
        for member in members {
            if let Some(unit) = self.units.get(member.unit) {
                by_namespace.entry(&unit.namespace).or_default().push((unit, member.part));
            }
        }
        let whole: BTreeSet<&str> = by_namespace
            .iter()
            .filter(|(namespace, units)| units.len() == count(namespace) && units.iter().all(|it| it.1 == Part::AllPods))
            .map(|(namespace, _)| *namespace)
            .collect();
        let inhabited: BTreeSet<&str> = self.counts.keys().copied().filter(|it| count(it) > 0).collect();
        let covered: usize = whole.iter().map(|it| count(it)).sum();
        let without: Vec<&str> = inhabited.difference(&whole).copied().collect();
        let mut said = Vec::new();
        let together = match without.as_slice() {
            [] => (covered > 1).then(|| format!("everyone ({covered})")),
            few if few.len() <= EXCEPTIONS && whole.len() > few.len() + 1 => {
                Some(format!("every namespace but {} ({covered})", without.join(", ")))
            }
            _ => None,
        };
        let all = together.is_some();
        said.extend(together);
        for (namespace, units) in by_namespace {
            match (whole.contains(namespace), units.len()) {
                (true, _) if all => {}
                (true, count @ 2..) => said.push(format!("{namespace}/* ({count})")),
                (true | false, _) => said.extend(units.into_iter().map(named)),
            }
        }
        said
    }
}

fn named((unit, part): (&Unit, Part)) -> String {
    match part {
        Part::AllPods => unit.name.clone(),
        Part::SomePods => format!("some pods of {}", unit.name),
    }
}
