//! All leaves of a ruleset, each once, and their numbers.

use std::collections::BTreeMap;

use palisade_engine::{Cause, Judge, Judged, Meeting};
use palisade_model::{Direction, Model, PolicyKind, PolicyRef, Reason, Rule, RuleRef};

use crate::ids::Ids;
use crate::leaf::{Fate, Leaf, is_open, leaf};
use crate::lower::fate_rule;
use crate::ruleset::{Chain, Match, Origin, Ruleset, Statement};

/// Leaves and origins by place.
#[derive(Debug, Default)]
pub(crate) struct Leaves {
    leaves: BTreeMap<Leaf<Fate>, usize>,
    origins: BTreeMap<Origin, usize>,
    known: BTreeMap<Known, usize>,
}

/// An origin by whether it accepts and what it points at. Two of these may be one origin. Pointers tell apart only what is there as
/// long as the compiled model that the meetings come from: no longer than a `Leaves` is filled.
type Known = (Direction, bool, Pointer);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pointer {
    Rule(*const Rule),
    Isolating(*const ()),
    NotAPod,
    Itself,
    OwnNode,
    Default,
}

impl Leaves {
    /// The place of the leaf that a meeting comes to.
    pub(crate) fn of(&mut self, model: &Model, meeting: &Meeting<'_>, direction: Direction) -> usize {
        let (origins, known) = (&mut self.origins, &mut self.known);
        let leaf = leaf(model, meeting, direction, |judge, judged| {
            *known.entry((direction, is_open(judged), pointer(meeting, judged.cause))).or_insert_with(|| {
                let next = origins.len();
                *origins.entry(origin(model, judge, judged, direction)).or_insert(next)
            })
        });
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
        let words = |leaf: &Leaf<Fate>| leaf_words(leaf, |fate| origins.get(&fate.origin).map_or(0, |(number, _)| *number));
        let mut by_words: Vec<(String, Leaf<Fate>, usize)> = self.leaves.into_iter().map(|(it, place)| (words(&it), it, place)).collect();
        by_words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut names = vec![String::new(); by_words.len()];
        for (words, leaf, place) in by_words {
            let name = format!("leaf-{:08x}", ids.leaves.of(&words));
            ruleset.chains.insert(name.clone(), chain(&leaf, &origins));
            names.get_mut(place).into_iter().for_each(|it| it.clone_from(&name));
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

fn chain(leaf: &Leaf<Fate>, origins: &BTreeMap<usize, (u32, Origin)>) -> Chain {
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
    rules.extend(rule(leaf.rest));
    Chain { hook: None, rules }
}

fn leaf_words(leaf: &Leaf<Fate>, number: impl Fn(&Fate) -> u32) -> String {
    let fate = |it: &Fate| format!("{} {:08x}", if it.accepted { "accept" } else { "drop" }, number(it));
    let ranges = leaf.ranges.iter().map(|(protocol, first, last, it)| format!("{protocol} {first}-{last} {}, ", fate(it)));
    format!("{}rest {}", ranges.collect::<String>(), fate(&leaf.rest))
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
