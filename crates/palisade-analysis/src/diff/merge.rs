//! From pairs to lines: everybody on one side whose connections with the same others changed in the same way is one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Between;
use super::compare::{Delta, Found};
use super::members::{Id, Members};

/// Everybody on one side against everybody on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) delta: Delta,
    pub(crate) between: Between,
    pub(crate) from: Ends,
    pub(crate) to: Ends,
}

/// Kinds and ranges, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) kinds: Vec<Id>,
    pub(crate) ranges: Vec<Id>,
}

/// Which side the lines are gathered under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Source,
    Destination,
}

/// Whom one end has something in common with.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Others {
    /// As other namespaces tell kinds apart.
    Apart(Vec<Id>),
    /// Some of its own namespace.
    Own(Vec<Id>),
    /// All of its own namespace.
    WholeOwn,
}

pub(crate) fn lines(members: &Members, found: &Found) -> Vec<Line> {
    let deltas: BTreeSet<&Delta> = found.far.keys().chain(found.near.keys()).collect();
    let mut lines = Vec::new();
    for delta in deltas {
        let pairs = |of: &BTreeMap<Delta, Vec<(Id, Id)>>| of.get(delta).cloned().unwrap_or_default();
        let (far, near) = (pairs(&found.far), pairs(&found.near));
        let by_destination = gathered(members, delta, &far, &near, Under::Destination);
        let by_source = gathered(members, delta, &far, &near, Under::Source);
        lines.extend(if by_source.len() < by_destination.len() { by_source } else { by_destination });
    }
    for (delta, pairs) in &found.outward {
        let out = |(kinds, ranges)| (Ends { kinds, ranges: Vec::new() }, Ends { kinds: Vec::new(), ranges });
        lines.extend(with_ranges(members, pairs).into_iter().map(out).map(|(from, to)| Line {
            delta: *delta,
            between: Between::Any,
            from,
            to,
        }));
    }
    for (delta, pairs) in &found.inward {
        let back = |(kinds, ranges)| (Ends { kinds: Vec::new(), ranges }, Ends { kinds, ranges: Vec::new() });
        lines.extend(with_ranges(members, pairs).into_iter().map(back).map(|(from, to)| Line {
            delta: *delta,
            between: Between::Any,
            from,
            to,
        }));
    }
    let lines = joined(lines, |it| &it.to, |it| &mut it.from);
    let lines = joined(lines, |it| &it.from, |it| &mut it.to);
    lines.into_iter().map(|it| trimmed(members, it)).filter(|it| it.from != Ends::default() && it.to != Ends::default()).collect()
}

/// The line without those who have nobody on the other side. A pod that nobody stands beside is no pair with itself.
fn trimmed(members: &Members, line: Line) -> Line {
    let count = |kinds: &[Id]| {
        let mut by: HashMap<Id, usize> = HashMap::new();
        for kind in kinds {
            *by.entry(members.namespace_of(*kind)).or_default() += 1;
        }
        by
    };
    let between = line.between;
    let trim = |ends: &Ends, others: &Ends| {
        let by_namespace = count(&others.kinds);
        let has_other = |it: &&Id| {
            let near = by_namespace.get(&members.namespace_of(**it)).copied().unwrap_or(0);
            let all = others.kinds.len() + others.ranges.len();
            let itself = usize::from(others.kinds.binary_search(it).is_ok() && members.kind(**it).is_some_and(|kind| kind.lone));
            match between {
                Between::Any => all > itself,
                Between::SameNamespace => near > itself,
                Between::OtherNamespaces => all > near,
            }
        };
        Ends { kinds: ends.kinds.iter().filter(has_other).copied().collect(), ranges: ends.ranges.clone() }
    };
    let (from, to) = (trim(&line.from, &line.to), trim(&line.to, &line.from));
    Line { from, to, ..line }
}

/// Kinds by the ranges that they have something in common with.
fn with_ranges(members: &Members, pairs: &[(Id, Id)]) -> Vec<(Vec<Id>, Vec<Id>)> {
    let mut ranges: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
    for (apart, range) in pairs {
        ranges.entry(*apart).or_default().push(*range);
    }
    let mut kinds: BTreeMap<Vec<Id>, Vec<Id>> = BTreeMap::new();
    for (apart, ranges) in ranges {
        kinds.entry(ranges).or_default().extend(members.apart(apart).into_iter().flat_map(|it| &it.kinds));
    }
    kinds.into_iter().map(|(ranges, kinds)| (sorted(kinds), ranges)).collect()
}

/// Lines with one side the same are one line with both other sides.
fn joined(lines: Vec<Line>, same: impl Fn(&Line) -> &Ends, other: impl Fn(&mut Line) -> &mut Ends) -> Vec<Line> {
    let mut known: HashMap<(Delta, Between, Ends), usize> = HashMap::new();
    let mut all: Vec<Line> = Vec::new();
    for mut line in lines {
        let key = (line.delta, line.between, same(&line).clone());
        match known.get(&key).and_then(|at| all.get_mut(*at)) {
            Some(before) => {
                let more = std::mem::take(other(&mut line));
                let ends = other(before);
                ends.kinds = sorted(std::mem::take(&mut ends.kinds).into_iter().chain(more.kinds).collect());
                ends.ranges = sorted(std::mem::take(&mut ends.ranges).into_iter().chain(more.ranges).collect());
            }
            None => {
                known.insert(key, all.len());
                all.push(line);
            }
        }
    }
    all
}

fn sorted(mut all: Vec<Id>) -> Vec<Id> {
    all.sort_unstable();
    all.dedup();
    all
}

/// Pairs with the same difference as lines, gathered under one side.
fn gathered(members: &Members, delta: &Delta, far: &[(Id, Id)], near: &[(Id, Id)], under: Under) -> Vec<Line> {
    let turned = |(from, to): &(Id, Id)| match under {
        Under::Destination => (*to, *from),
        Under::Source => (*from, *to),
    };
    let by_outer = |pairs: &[(Id, Id)]| {
        let mut by: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        for (outer, inner) in pairs.iter().map(turned) {
            by.entry(outer).or_default().push(inner);
        }
        by.into_iter().map(|(outer, inner)| (outer, sorted(inner))).collect::<BTreeMap<Id, Vec<Id>>>()
    };
    let (far, near) = (by_outer(far), by_outer(near));
    let of_far = far.keys().filter_map(|it| members.apart(*it)).flat_map(|it| it.kinds.iter().copied());
    let outers: BTreeSet<Id> = of_far.chain(near.keys().copied()).collect();
    let mut groups: BTreeMap<(Between, Others), Vec<Id>> = BTreeMap::new();
    for outer in outers {
        let Some(kind) = members.kind(outer) else { continue };
        let apart = far.get(&kind.apart).map_or(&[][..], Vec::as_slice);
        let own = near.get(&outer).map_or(&[][..], Vec::as_slice);
        for key in keys(members, delta, kind.namespace, apart, own) {
            groups.entry(key).or_default().push(outer);
        }
    }
    groups.into_iter().filter_map(|((between, others), outers)| line(members, delta, between, &others, outers, under)).collect()
}

/// Under which keys an end goes.
fn keys(members: &Members, delta: &Delta, namespace: Id, apart: &[Id], own: &[Id]) -> Vec<(Between, Others)> {
    let neighbours = members.of_namespace(namespace);
    let as_others = |it: &&Id| members.kind(**it).is_some_and(|kind| apart.binary_search(&kind.apart).is_ok());
    if neighbours.iter().filter(as_others).eq(own) {
        return vec![(Between::Any, Others::Apart(apart.to_vec()))];
    }
    let everyone = neighbours.iter().filter(|it| members.kind(**it).is_some_and(|kind| kind.is_of(delta.presence)));
    let whole = everyone.eq(own);
    let near = (!own.is_empty()).then(|| (Between::SameNamespace, if whole { Others::WholeOwn } else { Others::Own(own.to_vec()) }));
    let far = (!apart.is_empty()).then(|| (Between::OtherNamespaces, Others::Apart(apart.to_vec())));
    near.into_iter().chain(far).collect()
}

fn line(members: &Members, delta: &Delta, between: Between, others: &Others, outers: Vec<Id>, under: Under) -> Option<Line> {
    let inner = match others {
        Others::Apart(aparts) => {
            sorted(aparts.iter().filter_map(|it| members.apart(*it)).flat_map(|it| it.kinds.iter().copied()).collect())
        }
        Others::Own(kinds) => kinds.clone(),
        Others::WholeOwn => {
            let own: BTreeSet<Id> = outers.iter().map(|it| members.namespace_of(*it)).collect();
            let kinds = own.into_iter().flat_map(|it| members.of_namespace(it).iter().copied());
            sorted(kinds.filter(|it| members.kind(*it).is_some_and(|it| it.is_of(delta.presence))).collect())
        }
    };
    let (mut from, mut to) = match under {
        Under::Destination => (inner, outers),
        Under::Source => (outers, inner),
    };
    let between = narrowed(members, between, &mut from, &mut to);
    let ends = |kinds| Ends { kinds, ranges: Vec::new() };
    (!from.is_empty() && !to.is_empty()).then(|| Line { delta: *delta, between, from: ends(from), to: ends(to) })
}

/// Takes out who has no pair, and says the rest in the simplest way.
fn narrowed(members: &Members, between: Between, from: &mut Vec<Id>, to: &mut Vec<Id>) -> Between {
    let of = |kinds: &[Id]| kinds.iter().map(|it| members.namespace_of(*it)).collect::<BTreeSet<Id>>();
    let (sources, destinations) = (of(from), of(to));
    match between {
        Between::Any => Between::Any,
        Between::SameNamespace => {
            from.retain(|it| destinations.contains(&members.namespace_of(*it)));
            to.retain(|it| sources.contains(&members.namespace_of(*it)));
            if destinations.len() == 1 { Between::Any } else { Between::SameNamespace }
        }
        Between::OtherNamespaces => {
            if destinations.len() == 1 {
                from.retain(|it| !destinations.contains(&members.namespace_of(*it)));
            } else if sources.len() == 1 {
                to.retain(|it| !sources.contains(&members.namespace_of(*it)));
            }
            if of(from).is_disjoint(&of(to)) { Between::Any } else { Between::OtherNamespaces }
        }
    }
}
