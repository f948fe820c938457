//! Whether a claim holds.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{Direction, NetworkId, Place, Verdict};

use super::classes::{Class, Side, Sides, sort};
use super::ground::Ground;
use super::ports::Ask;
use super::sets::{Found, Stop, destinations, sources};
use super::verdicts::{Rows, Table, judge};
use super::{Claim, Counterexample, Group, Held, Member, Outcome, Part, outside};
use crate::explain::{Asked, stands_for_workload};
use crate::party::Party;
use crate::resolve::PortAsked;

/// How many counterexamples are carried.
const SHOWN: usize = 5;

/// What was found so far.
#[derive(Debug, Default)]
struct Tally {
    checked: usize,
    pairs: u64,
    /// The first port that is wrong for each pair of classes, the first few.
    wrong: Vec<Counterexample>,
    /// Further ports of these pairs, the first few.
    further: Vec<Counterexample>,
    all_wrong: u64,
    /// The first question that depends on DNS.
    on_dns: Option<String>,
    all_on_dns: u64,
    /// Pairs without a family in common.
    parted: u64,
    /// Pairs of which neither end is a pod.
    podless: u64,
}

/// Holds one claim against the model.
pub(super) fn outcome(ground: &mut Ground<'_>, claim: &Claim) -> Outcome {
    let networks: BTreeSet<IpNet> = ground.networks.iter().copied().chain(named_networks(claim)).collect();
    let outside = outside::representatives(&networks, &ground.inside);
    let mut tally = Tally::default();
    let mut stopped = None;
    for part in &claim.parts {
        stopped = stopped.or(check(ground, &outside, part, &mut tally).err());
    }
    ground.clear();
    let result = match stopped {
        Some(Stop::Nothing(why)) => Held::MatchesNothing { why },
        Some(Stop::CannotTell(why)) => Held::CannotTell { why },
        None => tally.held(),
    };
    Outcome { result }
}

/// What the claim itself tells apart outside of the cluster.
fn named_networks(claim: &Claim) -> impl Iterator<Item = IpNet> + '_ {
    let groups = claim.parts.iter().flat_map(|part| [&part.from, &part.to]);
    let members = groups.flat_map(|group| match group {
        Group::Of(members) | Group::AllBut(members) => members,
    });
    members.filter_map(|member| match member {
        Member::Network(network) => Some(*network),
        Member::Party(Party::Address(address)) => Some(IpNet::from(*address)),
        Member::Party(_) | Member::Pods { .. } | Member::External => None,
    })
}

impl Tally {
    fn held(self) -> Held {
        let nothing = |why: &str| Held::MatchesNothing { why: why.to_owned() };
        let cannot_tell = |why: &str| Held::CannotTell { why: why.to_owned() };
        if self.all_wrong > 0 {
            let mut counterexamples = self.wrong;
            counterexamples.extend(self.further);
            counterexamples.truncate(SHOWN);
            let more = self.all_wrong.saturating_sub(count(counterexamples.len()));
            return Held::No { counterexamples, more };
        }
        if let Some(first) = self.on_dns {
            let more = if self.all_on_dns > 1 { format!(", and so do {} more", self.all_on_dns - 1) } else { String::new() };
            return Held::CannotTell { why: format!("{first} depends on what a domain name in a policy resolves to{more}") };
        }
        match (self.pairs, self.parted, self.podless) {
            (0, 0, 0) => nothing("nothing is left to test: a pod is not tested against itself"),
            (0, 0, _) => cannot_tell("no policy judges a connection between two ends that are not pods"),
            (0, _, _) => cannot_tell("the two ends have no IP family in common"),
            (pairs, _, _) => Held::Yes { checked: self.checked, pairs },
        }
    }
}

/// One part of a claim, with both sides found and judged.
struct Judged<'p> {
    part: &'p Part,
    from: Vec<Found>,
    to: Vec<Found>,
    sides: Sides,
    rows: Rows,
    egress: Table,
    ingress: Table,
    /// How many pods two classes share, by their numbers.
    shared: HashMap<(usize, usize), usize>,
}

fn check(ground: &mut Ground<'_>, outside: &[IpAddr], part: &Part, tally: &mut Tally) -> Result<(), Stop> {
    let from = sources(ground, outside, &part.from)?;
    let to = destinations(ground, outside, &part.to, &part.ports)?;
    let sides = sort(ground, &from, &to);
    let mut rows = Rows::default();
    let egress = judge(ground, Direction::Egress, &sides.from, &sides.to, &mut rows);
    let ingress = judge(ground, Direction::Ingress, &sides.to, &sides.from, &mut rows);
    let shared = shared(ground, &sides, &from, &to);
    let judged = Judged { part, from, to, sides, rows, egress, ingress, shared };
    let mut differences = Differences::new();
    for (from_at, from) in judged.sides.from.classes.iter().enumerate() {
        for (to_at, to) in judged.sides.to.classes.iter().enumerate() {
            let shared = judged.shared.get(&(from_at, to_at)).copied().unwrap_or(0);
            let pairs = (from.members.len() * to.members.len()).saturating_sub(shared);
            if pairs > 0 {
                judged.pair(from, to, count(pairs), &mut differences, tally);
            }
        }
    }
    Ok(())
}

/// How connections differ from what is wanted.
#[derive(Debug, Default)]
struct Difference {
    /// The number of the ask, and its verdict.
    asks: Vec<(usize, Verdict)>,
    wrong: u64,
    on_dns: u64,
}

/// The differences of all pairs of rows that occur: one pair for each way that two ends can meet.
type Differences = HashMap<Vec<(usize, usize)>, Difference>;

impl Judged<'_> {
    /// Counts one pair of classes.
    fn pair(&self, from: &Class, to: &Class, pairs: u64, differences: &mut Differences, tally: &mut Tally) {
        if !is_pod(&self.sides.from, from) && !is_pod(&self.sides.to, to) {
            tally.podless += pairs;
            return;
        }
        let mut ways = Vec::with_capacity(2);
        for from_slot in from.slots.clone() {
            for to_slot in to.slots.clone().filter(|to_slot| self.can_meet(from_slot, *to_slot)) {
                ways.extend(self.egress.row(from.group, to_slot).zip(self.ingress.row(to.group, from_slot)));
            }
        }
        if ways.is_empty() {
            tally.parted += pairs;
            return;
        }
        tally.checked += 1;
        tally.pairs += pairs;
        let difference = match differences.entry(ways) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let difference = self.difference(new.key());
                new.insert(difference)
            }
        };
        self.report(from, to, pairs, difference, tally);
    }

    fn can_meet(&self, from: usize, to: usize) -> bool {
        let family = |side: &Side, slot: usize| side.slots.get(slot).and_then(|it| it.family);
        match (family(&self.sides.from, from), family(&self.sides.to, to)) {
            (Some(from), Some(to)) => from == to,
            (None, _) | (_, None) => true,
        }
    }

    fn difference(&self, ways: &[(usize, usize)]) -> Difference {
        let mut asks: BTreeMap<usize, Verdict> = BTreeMap::new();
        for (egress, ingress) in ways {
            let both = self.rows.get(*egress).iter().zip(self.rows.get(*ingress)).map(|(egress, ingress)| egress.and(*ingress));
            for (ask, verdict) in both.enumerate().filter(|(_, verdict)| *verdict != self.part.wanted) {
                let known = asks.entry(ask).or_insert(verdict);
                // What is wrong in one family is wrong, whatever a name resolves to in the other.
                *known = if *known == Verdict::DependsOnDns { verdict } else { *known };
            }
        }
        let on_dns = asks.values().filter(|verdict| **verdict == Verdict::DependsOnDns).count();
        Difference { wrong: count(asks.len() - on_dns), on_dns: count(on_dns), asks: asks.into_iter().collect() }
    }

    fn report(&self, from: &Class, to: &Class, pairs: u64, difference: &Difference, tally: &mut Tally) {
        tally.all_wrong += difference.wrong * pairs;
        tally.all_on_dns += difference.on_dns * pairs;
        let asks = self.sides.to.groups.get(to.group).map_or(&[][..], |group| &group.asks);
        let example = |(at, verdict): &(usize, Verdict)| self.example(from, to, *asks.get(*at)?, *verdict);
        let mut wrong = difference.asks.iter().filter(|(_, verdict)| *verdict != Verdict::DependsOnDns);
        if tally.wrong.len() < SHOWN {
            tally.wrong.extend(wrong.next().and_then(example));
            tally.further.extend(wrong.take(SHOWN - tally.further.len().min(SHOWN)).filter_map(example));
        }
        if difference.on_dns > 0 && tally.on_dns.is_none() {
            let first = difference.asks.iter().find(|(_, verdict)| *verdict == Verdict::DependsOnDns).and_then(example);
            tally.on_dns = first.map(|it| format!("whether {} reaches {} on {}", it.from, it.to, spelt(&it.asked)));
        }
    }

    /// One pair of the two classes that is not a pod and itself.
    fn example(&self, from: &Class, to: &Class, (protocol, port): Ask, verdict: Verdict) -> Option<Counterexample> {
        let sources = || from.members.iter().filter_map(|at| self.from.get(*at));
        let destinations = || to.members.iter().filter_map(|at| self.to.get(*at));
        let two = sources().find_map(|from| Some((from, destinations().find(|to| to.place != from.place)?)));
        // Where the same one is alone on both sides, it stands for two pods of one workload.
        let (from, to) = two.or_else(|| sources().next().zip(destinations().next()))?;
        let port = port.map_or(PortAsked::None, PortAsked::Number);
        let asked = Asked { network: NetworkId::DEFAULT, from: from.party.clone(), to: to.party.clone(), protocol, port };
        Some(Counterexample { asked, from: from.name.clone(), to: to.name.clone(), verdict, wanted: self.part.wanted })
    }
}

fn is_pod(side: &Side, class: &Class) -> bool {
    side.slots.get(class.slots.start).is_some_and(|slot| matches!(slot.end.place, Place::Pod(_)))
}

/// Pods on both sides, which are not tested against themselves. What stands for a workload is: two of its pods can meet.
fn shared(ground: &Ground<'_>, sides: &Sides, from: &[Found], to: &[Found]) -> HashMap<(usize, usize), usize> {
    let mut class_of = HashMap::new();
    for (class, found) in in_classes(&sides.from, from) {
        if let Place::Pod(id) = found.place
            && ground.stage.endpoint(id).is_some_and(|it| !stands_for_workload(it))
        {
            class_of.insert(id, class);
        }
    }
    let mut shared = HashMap::new();
    for (class, found) in in_classes(&sides.to, to) {
        if let Place::Pod(id) = found.place
            && let Some(from) = class_of.get(&id)
        {
            *shared.entry((*from, class)).or_insert(0) += 1;
        }
    }
    shared
}

fn in_classes<'f>(side: &'f Side, found: &'f [Found]) -> impl Iterator<Item = (usize, &'f Found)> {
    let members = move |(at, class): (usize, &'f Class)| class.members.iter().filter_map(move |member| Some((at, found.get(*member)?)));
    side.classes.iter().enumerate().flat_map(members)
}

fn spelt(asked: &Asked) -> String {
    match &asked.port {
        PortAsked::Number(port) => format!("{}/{port}", asked.protocol),
        PortAsked::Name(name) => format!("{}/{name}", asked.protocol),
        PortAsked::None => asked.protocol.to_string(),
    }
}

/// More pairs than fit are not told from the most that fit.
fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
