//! Who reaches whom, for the whole cluster at once.
//!
//! Rows are handed out one by one and never kept. What is worked out is worked out for kinds of pods that policy cannot tell apart; units (workloads,
//! namespaces) only spell it out. Nodes are not part of it. Pods of one unit may fare differently: a row says what some pair of them may open, and
//! what of it not every pair may.

mod fold;
pub(crate) mod outside;
mod select;
pub(crate) mod units;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use palisade_engine::{PortSetId, PortSets, Reach};
use palisade_model::{End, Family, Model, PortProtocol};

pub use select::Selection;
pub use units::on_host_networks;

use self::fold::{Slots, Tally};
use self::units::{Kinds, Slot, Unit, Units, units};

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The outermost owner of pods; a pod by itself if it has none.
    Workload,
    /// All pods of a namespace.
    Namespace,
    /// Pods of a namespace that policy cannot tell apart.
    Class,
}

/// Which side of the rows comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All rows of a source together.
    BySource,
    /// All rows of a destination together.
    ByDestination,
}

/// Which pairs are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Those that can talk, or may if a domain name resolves.
    Connections,
    /// Those that cannot talk at all.
    Denied,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Filter {
    pub shown: Shown,
    pub order: Order,
    /// On either side.
    pub focus: Option<Selection>,
    pub from: Option<Selection>,
    pub to: Option<Selection>,
    /// Only this traffic.
    pub port: Option<(PortProtocol, u16)>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { shown: Shown::Connections, order: Order::BySource, focus: None, from: None, to: None, port: None }
    }
}

/// One side of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name<'m> {
    /// A workload, a namespace or a class.
    Unit { name: &'m str, namespace: &'m str },
    /// Addresses outside of the cluster, both included.
    Range { first: IpAddr, last: IpAddr },
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Unit { name, .. } => f.write_str(name),
            Name::Range { first, last } => write!(f, "{first}-{last}[External]"),
        }
    }
}

/// What one side may open towards another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'m> {
    pub from: Name<'m>,
    pub to: Name<'m>,
    /// Only where the families differ.
    pub family: Option<Family>,
    /// What some pod of the source may open towards some pod of the destination.
    pub allowed: PortSetId,
    /// What of it not every pod of the one may open towards every pod of the other.
    pub only_some: PortSetId,
    /// What is not allowed and would be if a domain name in a policy resolved to the destination.
    pub depends_on_dns: PortSetId,
}

/// The units of a cluster, ready to be asked about.
#[derive(Debug)]
pub struct Matrix {
    by: By,
    /// Addresses outside of the cluster that policy tells apart.
    ranges: Vec<outside::Range>,
    units: Units,
}

/// What is said of two units: once, or once for each family if they differ.
type Said = [Option<Answer>; 2];

/// One answer, ready to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    family: Option<Family>,
    tally: Tally,
    only_some: PortSetId,
}

/// Two units that there is no row for.
const NOTHING_SAID: Said = [None, None];
/// Its place among all that is said.
const NOTHING: NonZeroU32 = NonZeroU32::MIN;

/// A unit on the inner side, as little of it as a pair of units takes.
struct Inner {
    at: usize,
    mixture: usize,
    space: usize,
}

/// What is said, for one mixture of kinds, of each mixture on the other side: its place among all that was said, if it is known.
type Answers = Vec<Option<NonZeroU32>>;

/// How many answers are kept at once: as many as fit 64 MiB or so.
const KEPT: usize = 1 << 24;
/// How many ranges are kept at once, likewise.
const KEPT_RANGES: usize = 1 << 20;

/// A run of ranges that a unit treats alike.
type Run = (IpAddr, IpAddr, Option<Tally>);

impl Matrix {
    /// Sorts pods into units.
    pub fn new(model: &Model, reach: &Reach<'_>, by: By) -> Matrix {
        Matrix { by, ranges: outside::outside(model, reach), units: units(model, reach, by) }
    }

    /// Names of units with their namespaces, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.units.units.iter().map(|it| (it.name.as_str(), it.namespace.as_ref()))
    }

    /// Names of the units that a selection is about.
    pub fn selected<'m>(&'m self, selection: &Selection) -> impl Iterator<Item = &'m str> {
        self.units.units.iter().filter(|it| selection.has_unit(it)).map(|it| it.name.as_str())
    }

    /// Hands out the rows: units by name, then ranges by address, IPv4 first. Ends early when `each` fails.
    pub fn rows<'m, E>(
        &'m self,
        reach: &mut Reach<'_>,
        filter: &Filter,
        each: impl FnMut(&PortSets, &Row<'m>) -> Result<(), E>,
    ) -> Result<(), E> {
        let possible = reach.sets_mut().possible();
        let wanted = filter.port.map_or(possible, |(protocol, port)| reach.sets_mut().port(protocol, port));
        let ranges = self.ranges.clone();
        let mut walk = Walk {
            matrix: self,
            reach,
            filter,
            wanted,
            ranges,
            inner: Vec::new(),
            known: HashMap::new(),
            said: vec![NOTHING_SAID],
            places: HashMap::from([(NOTHING_SAID, NOTHING)]),
            ran: HashMap::new(),
            each,
        };
        let admitted = self.units.units.iter().enumerate().filter(|(_, it)| walk.admits(Side::Inner, it));
        let inner = admitted.map(|(at, it)| Inner { at, mixture: walk.mixture(it, Side::Inner), space: it.space });
        walk.inner = inner.collect();
        let mut tail: BTreeMap<(IpAddr, IpAddr), Vec<(usize, Tally)>> = BTreeMap::new();
        for (at, unit) in self.units.units.iter().enumerate() {
            walk.unit(at, unit)?;
            for (first, last, tally) in walk.runs(unit, Side::Inner) {
                tail.entry((first, last)).or_default().extend(tally.map(|it| (at, it)));
            }
        }
        for ((first, last), reached) in tail {
            for (at, tally) in reached {
                let Some(unit) = self.units.units.get(at) else { continue };
                let answer = walk.answer(None, tally);
                walk.say(Name::Range { first, last }, named(unit), answer)?;
            }
        }
        Ok(())
    }

    /// Every row at once, for small clusters.
    pub fn all<'m>(&'m self, reach: &mut Reach<'_>, filter: &Filter) -> Vec<Row<'m>> {
        let mut all = Vec::new();
        let Ok(()) = self.rows(reach, filter, |_, row| {
            all.push(*row);
            Ok::<(), Infallible>(())
        });
        all
    }
}

fn named(unit: &Unit) -> Name<'_> {
    Name::Unit { name: &unit.name, namespace: &unit.namespace }
}

/// The side of a pair that the rows are gone through by, or the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Outer,
    Inner,
}

struct Walk<'w, 'm, 'c, F> {
    matrix: &'m Matrix,
    reach: &'w mut Reach<'c>,
    filter: &'w Filter,
    wanted: PortSetId,
    ranges: Vec<(IpAddr, IpAddr, End)>,
    /// The units that may stand on the inner side.
    inner: Vec<Inner>,
    /// By the mixture of the outer side.
    known: HashMap<usize, Answers>,
    /// Everything that was said of mixtures, each once.
    said: Vec<Said>,
    places: HashMap<Said, NonZeroU32>,
    /// What mixtures do with ranges.
    ran: HashMap<(usize, Side), Vec<Run>>,
    each: F,
}

impl<'m, E, F: FnMut(&PortSets, &Row<'m>) -> Result<(), E>> Walk<'_, 'm, '_, F> {
    /// All rows with a unit on the outer side.
    fn unit(&mut self, at: usize, outer: &'m Unit) -> Result<(), E> {
        if !self.admits(Side::Outer, outer) {
            return Ok(());
        }
        let units = &self.matrix.units;
        let mixture = self.mixture(outer, Side::Outer);
        let others = self.kinds(Side::Inner).mixtures.len();
        let mut known = self.known.remove(&mixture).unwrap_or_else(|| vec![None; others]);
        let inner = std::mem::take(&mut self.inner);
        for Inner { at: other, mixture, space } in &inner {
            let Some(inner) = units.units.get(*other) else { continue };
            let itself = *other == at && self.matrix.by == By::Workload;
            if itself || !self.in_focus(outer, inner) {
                continue;
            }
            let said = match known.get_mut(*mixture) {
                Some(known) if outer.space != *space => match *known {
                    Some(NOTHING) => continue,
                    Some(place) => self.said_at(place),
                    None => {
                        let said = self.far(outer, inner);
                        *known = self.keep(said);
                        said
                    }
                },
                Some(_) | None => self.near(at == *other, outer, inner),
            };
            for answer in said.into_iter().flatten() {
                self.say(named(outer), named(inner), answer)?;
            }
        }
        self.inner = inner;
        if (self.known.len() + 1).saturating_mul(known.len()) > KEPT {
            self.known.clear();
        }
        self.known.insert(mixture, known);
        for (first, last, tally) in self.runs(outer, Side::Outer) {
            if let Some(tally) = tally {
                let answer = self.answer(None, tally);
                self.say(named(outer), Name::Range { first, last }, answer)?;
            }
        }
        Ok(())
    }

    fn say(&mut self, outer: Name<'m>, inner: Name<'m>, answer: Answer) -> Result<(), E> {
        let (from, to) = match self.filter.order {
            Order::BySource => (outer, inner),
            Order::ByDestination => (inner, outer),
        };
        let Answer { family, tally, only_some } = answer;
        (self.each)(self.reach.sets(), &Row { from, to, family, allowed: tally.any, only_some, depends_on_dns: tally.dns })
    }

    /// What was said before.
    fn said_at(&self, place: NonZeroU32) -> Said {
        let place = usize::try_from(place.get()).ok().and_then(|it| self.said.get(it - 1));
        place.copied().unwrap_or(NOTHING_SAID)
    }

    /// Keeps what is said, each thing once.
    fn keep(&mut self, said: Said) -> Option<NonZeroU32> {
        let next = u32::try_from(self.said.len() + 1).ok().and_then(NonZeroU32::new)?;
        let place = *self.places.entry(said).or_insert(next);
        if place == next {
            self.said.push(said);
        }
        Some(place)
    }

    fn answer(&mut self, family: Option<Family>, tally: Tally) -> Answer {
        Answer { family, tally, only_some: self.reach.sets_mut().without(tally.any, tally.every) }
    }

    /// What is shown of the answers for all pairs of pods.
    fn said(&mut self, slots: Slots) -> Said {
        let settled = slots.settle(self.wanted, self.reach.sets_mut());
        let all_denied = settled.iter().flatten().all(|(_, tally)| tally.is_denied());
        let shown = |tally: Tally| match self.filter.shown {
            Shown::Connections => !tally.is_denied(),
            Shown::Denied => all_denied,
        };
        settled.map(|it| it.filter(|(_, tally)| shown(*tally))).map(|it| it.map(|(family, tally)| self.answer(family, tally)))
    }

    /// What `--from` and `--to` say about a side.
    fn selection(&self, side: Side) -> Option<&Selection> {
        match (self.filter.order, side) {
            (Order::BySource, Side::Outer) | (Order::ByDestination, Side::Inner) => self.filter.from.as_ref(),
            (Order::BySource, Side::Inner) | (Order::ByDestination, Side::Outer) => self.filter.to.as_ref(),
        }
    }

    fn admits(&self, side: Side, unit: &Unit) -> bool {
        self.selection(side).is_none_or(|it| it.has_unit(unit))
    }

    fn in_focus(&self, a: &Unit, b: &Unit) -> bool {
        self.filter.focus.as_ref().is_none_or(|it| it.has_unit(a) || it.has_unit(b))
    }

    /// Pods of one namespace.
    fn near(&mut self, itself: bool, outer: &Unit, inner: &Unit) -> Said {
        let own = &self.matrix.units.own;
        let mut slots = Slots::default();
        for (a, count) in &outer.own {
            for (b, _) in &inner.own {
                // A pod does not need the network to reach itself.
                if itself && a == b && *count < 2 {
                    continue;
                }
                if let (Some(a), Some(b)) = (own.get(*a), own.get(*b)) {
                    let (from, to) = self.directed(a, b);
                    let pair = pair(self.reach, from, to, |reach, from, to| reach.between_alike(from.alike, to.alike));
                    slots.merge(pair, self.reach.sets_mut());
                }
            }
        }
        self.said(slots)
    }

    /// Pods of different namespaces.
    fn far(&mut self, outer: &Unit, inner: &Unit) -> Said {
        let mut slots = Slots::default();
        for a in self.kinds(Side::Outer).of(self.mixture(outer, Side::Outer)) {
            for b in self.kinds(Side::Inner).of(self.mixture(inner, Side::Inner)) {
                let (from, to) = self.directed(a, b);
                let pair = pair(self.reach, from, to, |reach, from, to| reach.between_apart(from.alike.apart, to.alike.apart));
                slots.merge(pair, self.reach.sets_mut());
            }
        }
        self.said(slots)
    }

    /// Whether a side calls.
    fn calls(&self, side: Side) -> bool {
        matches!((self.filter.order, side), (Order::BySource, Side::Outer) | (Order::ByDestination, Side::Inner))
    }

    /// The kinds of pods that other namespaces tell apart on a side.
    fn kinds(&self, side: Side) -> &'m Kinds {
        let apart = &self.matrix.units.apart;
        if self.calls(side) { &apart.calling } else { &apart.called }
    }

    /// Which of its mixtures matters on a side.
    fn mixture(&self, unit: &Unit, side: Side) -> usize {
        if self.calls(side) { unit.apart.calling } else { unit.apart.called }
    }

    fn directed<T>(&self, outer: T, inner: T) -> (T, T) {
        match self.filter.order {
            Order::BySource => (outer, inner),
            Order::ByDestination => (inner, outer),
        }
    }

    /// What a unit, standing on one side, does with ranges of addresses on the other; neighbours with the same answer are one.
    fn runs(&mut self, unit: &Unit, side: Side) -> Vec<Run> {
        let other = match side {
            Side::Outer => Side::Inner,
            Side::Inner => Side::Outer,
        };
        if !self.admits(side, unit) || matches!(self.selection(other), Some(Selection::Pods(_))) {
            return Vec::new();
        }
        let mut runs = self.all_runs(self.mixture(unit, side), side);
        let wanted = |selection: Option<&Selection>, run: &Run| selection.is_none_or(|it| it.has_range(run.0, run.1));
        let in_focus = |run: &Run| self.filter.focus.as_ref().is_none_or(|it| it.has_unit(unit) || it.has_range(run.0, run.1));
        runs.retain(|run| {
            let denied = run.2.map(Tally::is_denied);
            denied == Some(self.filter.shown == Shown::Denied) && wanted(self.selection(other), run) && in_focus(run)
        });
        runs
    }

    /// The same for a mixture of kinds, whatever is asked for.
    fn all_runs(&mut self, mixture: usize, side: Side) -> Vec<Run> {
        if let Some(known) = self.ran.get(&(mixture, side)) {
            return known.clone();
        }
        let mut runs: Vec<Run> = Vec::new();
        for at in 0..self.ranges.len() {
            let Some((first, last, end)) = self.ranges.get(at).copied() else { continue };
            let tally = self.with_range(mixture, side, end);
            match runs.last_mut() {
                Some(run) if run.2 == tally && run.0.is_ipv4() == first.is_ipv4() => run.1 = last,
                Some(_) | None => runs.push((first, last, tally)),
            }
        }
        if (self.ran.len() + 1).saturating_mul(self.ranges.len()) > KEPT_RANGES {
            self.ran.clear();
        }
        self.ran.insert((mixture, side), runs.clone());
        runs
    }

    /// None if the mixture has no address of the range's family.
    fn with_range(&mut self, mixture: usize, side: Side, range: End) -> Option<Tally> {
        let family = range.address.map(Family::of);
        let outbound = self.calls(side);
        let mut slots = Slots::default();
        for slot in self.kinds(side).of(mixture).flatten() {
            if slot.family.is_some() && slot.family != family {
                continue;
            }
            let answer = if outbound { self.reach.between(&slot.end, &range) } else { self.reach.between(&range, &slot.end) };
            if let Some(answer) = answer {
                slots.add(family, answer, self.reach.sets_mut());
            }
        }
        let [settled, _] = slots.settle(self.wanted, self.reach.sets_mut());
        settled.map(|it| it.1)
    }
}

/// The answers of two kinds for each family that both have; a kind without an address goes with either.
fn pair(
    reach: &mut Reach<'_>,
    from: &[Slot],
    to: &[Slot],
    between: impl Fn(&mut Reach<'_>, &Slot, &Slot) -> Option<palisade_engine::ReachEnd>,
) -> Slots {
    let mut slots = Slots::default();
    for from in from {
        for to in to {
            if from.family.is_some() && to.family.is_some() && from.family != to.family {
                continue;
            }
            if let Some(answer) = between(reach, from, to) {
                slots.add(from.family.or(to.family), answer, reach.sets_mut());
            }
        }
    }
    slots
}
