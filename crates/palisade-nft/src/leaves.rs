//! All leaves of a ruleset, each once, and their numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade_engine::{Cause, Judge, Judged, Meeting, NodeProgram};
use palisade_model::{Direction, Model, PolicyKind, PolicyRef, PortProtocol, Reason, RuleRef};

use crate::ids::Ids;
use crate::leaf::{Fate, Leaf, is_open, leaf};
use crate::lower::{Grown, fate_rule};
use crate::ruleset::{Chain, Match, Origin, Rule, Ruleset, Statement, Verdict};

/// Leaves and origins by place.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    leaves: BTreeMap<Written, usize>,
    origins: BTreeMap<Origin, usize>,
    known: HashMap<Known, usize>,
}

/// A leaf as its chain says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    /// How many leaves follow each other from here on.
    followers: usize,
    ranges: Vec<(PortProtocol, u16, u16, Fate)>,
    then: Then,
}

/// What becomes of all that the ranges of a leaf do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Then {
    Fate(Fate),
    /// What another leaf says, by place.
    Leaf(usize),
}

/// A leaf of no more ranges is always written by itself.
const SHORT: usize = 16;

/// An origin by whether it accepts and what it points at. Two of these may be one origin. Pointers tell apart only what is there as
/// long as the compiled model that the meetings come from: no longer than a `Leaves` is filled.
type Known = (Direction, bool, Pointer);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pointer {
    Rule(*const palisade_model::Rule),
    Isolating(*const ()),
    NotAPod,
    Itself,
    OwnNode,
    Default,
}

impl Leaves {
    /// The leaves of a program. Nested ranges of addresses, each with some ports more than the one around, or all addresses but some, would come to
    /// long leaves that hardly differ. Such a leaf is written as what it says otherwise than the leaf of a range around it, and goes on to that one.
    pub(crate) fn grow(&mut self, model: &Model, program: &NodeProgram<'_>, direction: Direction) -> Grown {
        let itself = self.leaf(model, &program.itself, direction);
        let itself = self.place(Written { followers: 0, ranges: itself.ranges, then: Then::Fate(itself.rest) });
        let bases = bases(program);
        let mut order: Vec<usize> = (0..program.meetings.len()).collect();
        order.sort_by_key(|at| bases.get(*at).map_or(0, |it| it.depth));
        let used: BTreeSet<usize> = bases.iter().filter_map(|it| it.base).collect();
        let mut meetings = vec![0; program.meetings.len()];
        let mut grown: BTreeMap<usize, (Leaf<Fate>, usize, usize)> = BTreeMap::new();
        for at in order {
            let Some(meeting) = program.meetings.get(at) else { continue };
            let leaf = self.leaf(model, meeting, direction);
            let base = bases.get(at).and_then(|it| grown.get(&it.base?)).filter(|_| leaf.ranges.len() > SHORT);
            let shared = base.and_then(|(base, place, followers)| Some((leaf.before(base)?, *place, *followers)));
            let written = match shared.filter(|(ranges, ..)| ranges.len() * 2 <= leaf.ranges.len()) {
                Some((ranges, base, followers)) => Written { followers: followers + 1, ranges, then: Then::Leaf(base) },
                None => Written { followers: 0, ranges: leaf.ranges.clone(), then: Then::Fate(leaf.rest) },
            };
            let followers = written.followers;
            let place = self.place(written);
            meetings.get_mut(at).into_iter().for_each(|it| *it = place);
            if used.contains(&at) {
                grown.insert(at, (leaf, place, followers));
            }
        }
        Grown { itself, meetings }
    }

    /// What becomes of a meeting.
    fn leaf(&mut self, model: &Model, meeting: &Meeting<'_>, direction: Direction) -> Leaf<Fate> {
        let (origins, known) = (&mut self.origins, &mut self.known);
        leaf(model, meeting, direction, |judge, judged| {
            *known.entry((direction, is_open(judged), pointer(meeting, judged.cause))).or_insert_with(|| {
                let next = origins.len();
                *origins.entry(origin(model, judge, judged, direction)).or_insert(next)
            })
        })
    }

    fn place(&mut self, leaf: Written) -> usize {
        let next = self.leaves.len();
        *self.leaves.entry(leaf).or_insert(next)
    }

    /// Adds the chain of each leaf. Returns the names of these by place.
    pub(crate) fn add(self, ids: &mut Ids, ruleset: &mut Ruleset) -> Vec<String> {
        let mut by_words: Vec<(String, Origin, usize)> =
            self.origins.into_iter().map(|(it, place)| (origin_words(&it), it, place)).collect();
        by_words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let numbered = by_words.into_iter().map(|(words, origin, place)| (place, (ids.origins.of(&words), origin)));
        let origins: BTreeMap<usize, (u32, Origin)> = numbered.collect();
        let number = |fate: &Fate| origins.get(&fate.origin).map_or(0, |(number, _)| *number);
        let mut names = vec![String::new(); self.leaves.len()];
        let leaves: Vec<(Written, usize)> = self.leaves.into_iter().collect();
        // Those that others go on to come first: their names are among the words of the others.
        for leaves in leaves.chunk_by(|a, b| a.0.followers == b.0.followers) {
            let mut by_words: Vec<(String, &Written, usize)> =
                leaves.iter().map(|(leaf, place)| (leaf_words(leaf, number, &names), leaf, *place)).collect();
            by_words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            for (words, leaf, place) in by_words {
                let name = format!("leaf-{:08x}", ids.leaves.of(&words));
                ruleset.chains.insert(name.clone(), chain(leaf, &origins, &names));
                names.get_mut(place).into_iter().for_each(|it| it.clone_from(&name));
            }
        }
        for (number, origin) in origins.into_values() {
            ruleset.origins.insert(number, origin);
        }
        names
    }
}

fn pointer(meeting: &Meeting<'_>, cause: Cause<'_>) -> Pointer {
    match cause {
        Cause::Rule { rule, .. } => Pointer::Rule(rule),
        Cause::Isolated => Pointer::Isolating(meeting.isolating.as_ptr().cast::<()>()),
        Cause::NotAPod => Pointer::NotAPod,
        Cause::Itself => Pointer::Itself,
        Cause::OwnNode => Pointer::OwnNode,
        Cause::Default => Pointer::Default,
    }
}

fn origin(model: &Model, judge: &Judge<'_, '_>, judged: Judged<'_>, direction: Direction) -> Origin {
    match judge.reason(judged.cause) {
        Reason::Rule(rule) if is_open(judged) && model.logged.contains(&rule) => Origin::Accepted { direction, rule },
        reason @ (Reason::Rule(_) | Reason::Isolated(_) | Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default) => {
            Origin::Policy { direction, reason }
        }
    }
}

fn chain(leaf: &Written, origins: &BTreeMap<usize, (u32, Origin)>, names: &[String]) -> Chain {
    let rule = |fate: Fate| {
        origins.get(&fate.origin).map(|(number, origin)| {
            let mut rule = fate_rule(fate.accepted, *number, origin);
            if let Origin::Accepted { .. } = origin {
                // Only the beginning of a connection comes here.
                rule.statements.insert(0, Statement::Log(*number));
            }
            rule
        })
    };
    let mut rules = Vec::with_capacity(leaf.ranges.len() + 1);
    for (protocol, first, last, fate) in &leaf.ranges {
        let ports = Match::Port { first: *first, last: *last };
        rules.extend(rule(*fate).map(|it| it.when(Match::Protocol(vec![protocol.number()])).when(ports)));
    }
    match leaf.then {
        Then::Fate(fate) => rules.extend(rule(fate)),
        Then::Leaf(place) => rules.extend(names.get(place).map(|it| Rule::to(Verdict::Goto(it.clone())))),
    }
    Chain { hook: None, rules }
}

fn leaf_words(leaf: &Written, number: impl Fn(&Fate) -> u32, names: &[String]) -> String {
    let fate = |it: &Fate| format!("{} {:08x}", if it.accepted { "accept" } else { "drop" }, number(it));
    let ranges = leaf.ranges.iter().map(|(protocol, first, last, it)| format!("{protocol} {first}-{last} {}, ", fate(it)));
    let then = match &leaf.then {
        Then::Fate(it) => format!("rest {}", fate(it)),
        Then::Leaf(place) => format!("then {}", names.get(*place).map_or("", String::as_str)),
    };
    format!("{}{then}", ranges.collect::<String>())
}

/// The leaf that another may be written as a difference from.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    /// How many meetings are around it.
    depth: usize,
    base: Option<usize>,
}

/// A base for each meeting: one of those around it, so that no leaf is more than a few away from one that stands for itself and yet most are compared with
/// one near by. The distance is the lowest bit of the depth. Those without a range around them are compared with the rest.
fn bases(program: &NodeProgram<'_>) -> Vec<Base> {
    let around = |at: usize| match program.wider.get(at).copied().flatten() {
        _ if at == program.rest => None,
        None => Some(program.rest),
        wider => wider,
    };
    let base = |at: usize| {
        let path: Vec<usize> = std::iter::successors(around(at), |it| around(*it)).collect();
        let distance = path.len() & path.len().wrapping_neg();
        Base { depth: path.len(), base: distance.checked_sub(1).and_then(|it| path.get(it)).copied() }
    };
    (0..program.meetings.len()).map(base).collect()
}

/// What makes an origin. Names are quoted, so that none can pass for something else.
pub(crate) fn origin_words(origin: &Origin) -> String {
    match origin {
        Origin::Policy { direction, reason } => reason_words(*direction, reason),
        Origin::Accepted { direction, rule } => format!("{direction} logged {}", rule_words(rule)),
        Origin::Guard(guard) => format!("guard {guard}"),
    }
}

/// What makes a reason.
pub(crate) fn reason_words(direction: Direction, reason: &Reason) -> String {
    match reason {
        Reason::Rule(rule) => format!("{direction} rule {}", rule_words(rule)),
        Reason::Isolated(policies) => {
            let policies: Vec<String> = policies.iter().map(policy_words).collect();
            format!("{direction} isolated {}", policies.join(", "))
        }
        reason @ (Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default) => format!("{direction} {reason}"),
    }
}

fn rule_words(rule: &RuleRef) -> String {
    format!("{} {} {:?}", policy_words(&rule.policy), rule.index, rule.name)
}

fn policy_words(policy: &PolicyRef) -> String {
    // Two kinds are spelt the same, and may have one name.
    let kind = if policy.kind == PolicyKind::Kep2091 { "KEP-2091" } else { policy.kind.as_str() };
    format!("{kind} {:?} {:?}", policy.namespace, policy.name)
}
