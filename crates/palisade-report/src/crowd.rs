//! Many workloads in few words.

use std::collections::{BTreeMap, BTreeSet};

use palisade_analysis::diff::{Diff, Group, Member, Part, Presence, Unit, Verb};

use crate::matrix_text::ranges;

/// Namespaces that are named as exceptions, at most.
const EXCEPTIONS: usize = 3;
/// Things that are named one by one, at most, where not all are wanted.
pub(crate) const NAMED: usize = 8;

/// Workloads of one name that are said together, at least.
const NAMESAKES: usize = 3;

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
    /// How many have each name, whatever their namespace; counted in the same way.
    namesakes: BTreeMap<&'d str, [usize; 3]>,
}

impl<'d> Everyone<'d> {
    pub(crate) fn of(diff: &'d Diff) -> Everyone<'d> {
        let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        let mut namesakes: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for unit in &diff.units {
            for [both, new, old] in [counts.entry(unit.namespace.as_str()).or_default(), namesakes.entry(bare(unit)).or_default()] {
                *both += usize::from(unit.presence == Presence::Both);
                *new += usize::from(unit.presence != Presence::Gone);
                *old += usize::from(unit.presence != Presence::New);
            }
        }
        Everyone { units: &diff.units, counts, namesakes }
    }

    /// A side of a change, opposite to another. A workload that stands there alone is not missed here.
    pub(crate) fn said(&self, group: &Group, opposite: &Group, verb: Verb, extent: Extent) -> String {
        let alone = match (opposite.units.as_slice(), opposite.ranges.is_empty()) {
            ([only], true) => self.units.get(only.unit).filter(|_| group.units.iter().all(|it| it.unit != only.unit)),
            (_, true | false) => None,
        };
        let mut said = self.workloads(&group.units, alone.map(|it| it.namespace.as_str()), verb);
        cut(&mut said, extent, "workloads");
        let mut addresses = ranges(&group.ranges);
        cut(&mut addresses, extent, "ranges");
        said.extend(addresses);
        said.join(", ")
    }

    fn count(&self, namespace: &str, verb: Verb) -> usize {
        number(self.counts.get(namespace), verb)
    }

    /// Names that are here from every namespace that has them, with how often.
    fn everywhere<'u>(&self, units: impl Iterator<Item = &'u (&'u Unit, Part)>, verb: Verb) -> BTreeMap<&'u str, usize> {
        let mut met: BTreeMap<&str, usize> = BTreeMap::new();
        for (unit, _) in units.filter(|it| it.1 == Part::AllPods) {
            *met.entry(bare(unit)).or_default() += 1;
        }
        met.retain(|name, count| *count >= NAMESAKES && *count == number(self.namesakes.get(name), verb));
        met
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
        let everywhere = if all { BTreeMap::new() } else { self.everywhere(by_namespace.values().flatten(), verb) };
        said.extend(everywhere.iter().map(|(name, count)| format!("*/{name} ({count})")));
        for (namespace, units) in &by_namespace {
            let rest = units.iter().filter(|it| !everywhere.contains_key(bare(it.0)));
            match (whole.contains(namespace), units.len()) {
                (true, _) if all => {}
                (true, count @ 2..) if rest.clone().count() > 0 => said.push(format!("{namespace}/* ({count})")),
                (true | false, _) => said.extend(rest.map(named)),
            }
        }
        said
    }
}

fn number(counts: Option<&[usize; 3]>, verb: Verb) -> usize {
    let [both, new, old] = counts.copied().unwrap_or_default();
    match verb {
        Verb::Opened | Verb::Changed | Verb::Closed => both,
        Verb::Added => new,
        Verb::Removed => old,
    }
}

/// `web[Deployment]` of `shop/web[Deployment]`.
fn bare(unit: &Unit) -> &str {
    unit.name.split_once('/').map_or(unit.name.as_str(), |it| it.1)
}

fn cut(said: &mut Vec<String>, extent: Extent, what: &str) {
    let more = said.len().saturating_sub(NAMED);
    if extent == Extent::Short && more > 1 {
        said.truncate(NAMED);
        said.push(format!("{more} more {what}"));
    }
}

fn named((unit, part): &(&Unit, Part)) -> String {
    match part {
        Part::AllPods => unit.name.clone(),
        Part::SomePods => format!("some pods of {}", unit.name),
    }
}
