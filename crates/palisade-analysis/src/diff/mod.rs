//! What changes between two versions of a cluster: connections opened and closed, and by which policies.
//!
//! Pods are held against each other by name or by workload and reduced to the kinds that neither version tells apart; a pair of kinds is compared
//! once, and only if it can differ. Who changes alike is one line. Nodes are not part of it, as in the matrix.

pub(crate) mod because;
pub(crate) mod compare;
pub(crate) mod members;
pub(crate) mod merge;
pub(crate) mod suspects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_engine::{PortSetId, PortSets, Reach};
use palisade_model::{Direction, End, Family, Model, Place, PortProtocol, Reason, Verdict};

use self::compare::{Comparison, Found};
use self::members::{Id, Members, place};
use self::merge::{Ends, Line};
use self::suspects::Affected;
use crate::matrix::Selection;
use crate::matrix::outside::KnownAddresses;

/// One version of a cluster.
#[derive(Debug)]
pub struct Version<'v, 'c> {
    pub model: &'v Model,
    /// Of the model.
    pub reach: &'v mut Reach<'c>,
}

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// On either side.
    pub focus: Option<Focus>,
    /// Only this traffic.
    pub port: Option<(PortProtocol, u16)>,
}

/// An end that changes are wanted of.
#[derive(Clone, Debug)]
pub struct Focus {
    old: Option<Selection>,
    new: Option<Selection>,
}

/// Which versions have a workload, or both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Presence {
    Both,
    /// Only the new one.
    New,
    /// Only the old one.
    Gone,
}

/// A workload, or a pod that nothing owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// `shop/web[Deployment]`.
    pub name: String,
    pub namespace: String,
    pub presence: Presence,
}

/// What has become of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Opened,
    /// Some opened, others closed.
    Changed,
    Closed,
    /// One of the ends is new.
    Added,
    /// One of the ends is gone.
    Removed,
}

/// Which of the pairs of a change it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Between {
    /// All of them.
    Any,
    /// Those of one namespace.
    SameNamespace,
    /// Those of two namespaces.
    OtherNamespaces,
}

/// Everybody on one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// By name.
    pub units: Vec<Member>,
    /// Addresses outside of the cluster, first and last; by address, IPv4 first.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// A workload on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place in `Diff::units`.
    pub unit: usize,
    /// Whether it is about some of its pods only.
    pub part: Part,
}

/// How much of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    AllPods,
    SomePods,
}

/// Connections that changed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub verb: Verb,
    pub from: Group,
    pub to: Group,
    pub between: Between,
    /// Only where the families differ.
    pub family: Option<Family>,
    /// Allowed now, and not before.
    pub opened: PortSetId,
    /// Denied before, and allowed now if a domain name in a policy resolves to the destination.
    pub opened_by_name: PortSetId,
    /// Denied now, and not before.
    pub closed: PortSetId,
    /// Allowed before, and now only if a domain name in a policy resolves to the destination.
    pub closed_but_by_name: PortSetId,
    /// Why: every end of either side was asked about with some end of the other, at one port of each stretch. The most frequent first.
    pub because: Vec<Because>,
}

/// What decided one direction before and what does now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Because {
    pub direction: Direction,
    /// None where an end is new.
    pub before: Option<(Verdict, Reason)>,
    /// None where an end is gone.
    pub after: Option<(Verdict, Reason)>,
}

/// All that differs.
#[derive(Debug)]
pub struct Diff {
    /// Every workload of either version, by name.
    pub units: Vec<Unit>,
    /// By verb, then destination, then source.
    pub changes: Vec<Change>,
    /// What the sets of traffic are in.
    pub sets: PortSets,
}

impl Focus {
    /// The same in both versions.
    pub(crate) fn of(selection: Selection) -> Focus {
        Focus { old: Some(selection.clone()), new: Some(selection) }
    }

    /// Reads an end as the matrix does. It has to be in one of the versions.
    pub fn parse(old: &Model, new: &Model, text: &str) -> Result<Focus, String> {
        match (Selection::parse(old, text), Selection::parse(new, text)) {
            (Err(_), Err(error)) => Err(error),
            (old, new) => Ok(Focus { old: old.ok(), new: new.ok() }),
        }
    }

    fn has_range(&self, first: IpAddr, last: IpAddr) -> bool {
        [&self.old, &self.new].into_iter().flatten().any(|it| it.has_range(first, last))
    }
}

impl Version<'_, '_> {
    /// What differs from an older version.
    pub fn changes_since(&mut self, old: &mut Version<'_, '_>, filter: &Filter) -> Diff {
        let compared = self.compared_with(old, filter);
        let mut because = because::Asking::new(old.model, self.model, &compared.members, &compared.ranges, &compared.affected);
        let because = |line: &Line| because.of(&compared.sets, line);
        let told = compared.told(because).into_iter().map(|(change, because)| Change { because, ..change });
        Diff { changes: told.collect(), units: compared.members.units, sets: compared.sets }
    }

    /// The same before anybody asks why.
    pub(crate) fn compared_with(&mut self, old: &mut Version<'_, '_>, filter: &Filter) -> Compared {
        let members = Members::of(old, self, filter);
        let ranges = ranges(old, self);
        let ends: Vec<End> = ranges.iter().map(|it| outside(it.0)).collect();
        let affected = suspects::affected(old, self, &members, &ends);
        let mut sets = PortSets::default();
        let wanted = match filter.port {
            Some((protocol, port)) => sets.port(protocol, port),
            None => sets.possible(),
        };
        let (known, found) = (HashMap::new(), Found::default());
        let mut comparison =
            Comparison { old: old.reach, new: self.reach, members: &members, ranges: &ranges, filter, sets, wanted, known, found };
        comparison.work_out(&affected);
        let Comparison { found, sets, .. } = comparison;
        let lines = merge::lines(&members, &found);
        Compared { members, ranges, affected, lines, sets }
    }
}

/// Two versions, compared.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) members: Members,
    /// Addresses outside, the first and the last of each range.
    pub(crate) ranges: Vec<(IpAddr, IpAddr)>,
    affected: Vec<Affected>,
    pub(crate) lines: Vec<Line>,
    pub(crate) sets: PortSets,
}

impl Compared {
    /// Lines as changes without a reason, by verb, then destination, then source; each with something that is worked out of its line.
    pub(crate) fn told<T>(&self, mut of: impl FnMut(&Line) -> T) -> Vec<(Change, T)> {
        let telling = Telling::of(&self.members, &self.ranges);
        let mut changes: Vec<(Change, T)> = self.lines.iter().map(|line| (telling.change(line, Vec::new()), of(line))).collect();
        let key = |group: &Group| (group.units.is_empty(), group.units.iter().map(|it| it.unit).collect::<Vec<_>>(), group.ranges.clone());
        changes.sort_by_cached_key(|(it, _)| (it.verb, key(&it.to), key(&it.from), it.family));
        changes
    }
}

fn outside(address: IpAddr) -> End {
    End { place: Place::Outside, address: Some(address) }
}

/// Ranges cut where either version cuts them, but those that somebody of the cluster has all addresses of.
fn ranges(old: &Version<'_, '_>, new: &Version<'_, '_>) -> Vec<(IpAddr, IpAddr)> {
    let both = || old.reach.outside().chain(new.reach.outside());
    let firsts: BTreeSet<IpAddr> = both().map(|it| it.0).collect();
    let lasts: BTreeSet<IpAddr> = both().map(|it| it.1).collect();
    let known = [old.model, new.model].map(KnownAddresses::of);
    // Where one range ends the next begins, so there are as many ends as beginnings, in the same order.
    let ranges = firsts.into_iter().zip(lasts);
    ranges.filter(|(first, last)| !known.iter().any(|it| it.fill(*first, *last))).collect()
}

/// From lines to what is told about them.
struct Telling<'m> {
    members: &'m Members,
    ranges: &'m [(IpAddr, IpAddr)],
    /// How many kinds each workload has.
    kinds: HashMap<Id, usize>,
}

impl<'m> Telling<'m> {
    fn of(members: &'m Members, ranges: &'m [(IpAddr, IpAddr)]) -> Telling<'m> {
        let mut kinds = HashMap::new();
        for unit in members.kinds.iter().flat_map(|it| &it.units) {
            *kinds.entry(*unit).or_default() += 1;
        }
        Telling { members, ranges, kinds }
    }

    fn change(&self, line: &Line, because: Vec<Because>) -> Change {
        let traffic = line.delta.traffic;
        let none = |sets: [PortSetId; 2]| sets == [PortSetId::NONE; 2];
        let opened = !none([traffic.opened, traffic.opened_by_name]);
        let closed = !none([traffic.closed, traffic.closed_but_by_name]);
        let verb = match (line.delta.presence, opened, closed) {
            (Presence::New, _, _) => Verb::Added,
            (Presence::Gone, _, _) => Verb::Removed,
            (Presence::Both, true, true) => Verb::Changed,
            (Presence::Both, true, false) => Verb::Opened,
            (Presence::Both, false, _) => Verb::Closed,
        };
        Change {
            verb,
            from: self.group(&line.from),
            to: self.group(&line.to),
            between: line.between,
            family: line.delta.family,
            opened: traffic.opened,
            opened_by_name: traffic.opened_by_name,
            closed: traffic.closed,
            closed_but_by_name: traffic.closed_but_by_name,
            because,
        }
    }

    fn group(&self, ends: &Ends) -> Group {
        let mut met: BTreeMap<Id, usize> = BTreeMap::new();
        for unit in ends.kinds.iter().filter_map(|it| self.members.kind(*it)).flat_map(|it| &it.units) {
            *met.entry(*unit).or_default() += 1;
        }
        let part = |unit: Id, count: usize| if self.kinds.get(&unit) == Some(&count) { Part::AllPods } else { Part::SomePods };
        let units = met.into_iter().map(|(unit, count)| Member { unit: place(unit), part: part(unit, count) }).collect();
        Group { units, ranges: self.runs(&ends.ranges) }
    }

    /// Neighbouring ranges are one.
    fn runs(&self, ranges: &[Id]) -> Vec<(IpAddr, IpAddr)> {
        let mut runs: Vec<(IpAddr, IpAddr)> = Vec::new();
        let mut before: Option<Id> = None;
        for at in ranges {
            let Some((first, last)) = self.ranges.get(place(*at)).copied() else { continue };
            let next = before.is_some_and(|it| it + 1 == *at);
            match runs.last_mut() {
                Some(run) if next && run.0.is_ipv4() == first.is_ipv4() => run.1 = last,
                Some(_) | None => runs.push((first, last)),
            }
            before = Some(*at);
        }
        runs
    }
}
