//! From the compiled model to the ruleset of one node.

use std::collections::BTreeMap;

use palisade_engine::{Compiled, Meeting, NodeProgram, OnNode};
use palisade_model::{Direction, EndpointId, Model, NodeId};

use crate::ids::{Ids, Numbers};
use crate::leaves::{Leaves, origin_words};
use crate::naming::{self, class_map, leaves_map, programs_map, range_map, selves, subject_map};
use crate::ruleset::{
    self, Address, Chain, CtState, DataMap, Guard, Hook, IntervalMap, Match, Origin, PairSet, Rule, Ruleset, Statement, Value, Verdict,
    VerdictMap,
};
use crate::sources::bind_sources;
use crate::unknown::{Closing, Unknown, close};

/// The node whose ruleset is wanted. Only pods that run there are subjects of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub node: NodeId,
    /// The node's end of the link to each pod that runs there. Empty if the links are not known: no source is bound then.
    pub links: BTreeMap<EndpointId, String>,
    /// What becomes of pods that are not known yet.
    pub unknown: Unknown,
}

/// The ruleset of one node. `compiled` is what a network of `model` compiles to; the ruleset is about that network. Numbers come from `ids` and stay the same for what stays the same.
pub fn lower(model: &Model, compiled: &Compiled, view: &NodeView, ids: &mut Ids) -> Ruleset {
    let mut ruleset = Ruleset::default();
    ids.begin();
    let model = &*model.on_network(compiled.network());
    let node = compiled.on_node(model, view.node);
    add_selves(&node, &mut ruleset);
    let classes = add_classes(&node, ids, &mut ruleset);
    let mut leaves = Leaves::default();
    let [egress, ingress] = Direction::BOTH.map(|direction| {
        let programs = node.programs.of(direction).iter();
        programs.map(|it| leaves.grow(model, it, direction)).collect::<Vec<Grown>>()
    });
    let leaves = leaves.add(ids, &mut ruleset);
    for (direction, grown) in Direction::BOTH.into_iter().zip([egress, ingress]) {
        lower_direction(direction, &node, &grown, (&classes, &leaves), ids, &mut ruleset);
        ruleset.chains.insert(direction.to_string(), direction_chain(direction));
    }
    let closing = close(model, &node.known, view, ids, &mut ruleset);
    let forward = forward(&closing, ids, &mut ruleset);
    ruleset.chains.insert("forward".to_owned(), forward);
    let input = input(&closing, ids, &mut ruleset);
    ruleset.chains.insert("input".to_owned(), input);
    bind_sources(model, &node.known, &view.links, ids, &mut ruleset);
    ruleset
}

pub(crate) fn add_selves(node: &OnNode<'_>, ruleset: &mut Ruleset) {
    for family in Address::BOTH {
        let addresses = node.subjects.iter().map(|it| it.0).filter(|it| Address::of(*it) == family);
        ruleset.pairs.insert(selves(family), PairSet { family, elements: addresses.map(|it| (it, it)).collect() });
    }
}

/// Gives every address a class: known ones by themselves, all others by range. Returns the numbers of the classes by place.
pub(crate) fn add_classes(node: &OnNode<'_>, ids: &mut Ids, ruleset: &mut Ruleset) -> Vec<u32> {
    let numbers = numbers(node.classes.iter().map(String::as_str), &mut ids.classes);
    let of = |place: usize| numbers.get(place).copied().unwrap_or(0);
    for family in Address::BOTH {
        let known = node.known.iter().filter(|it| Address::of(it.address) == family).map(|it| (it.address, of(it.class)));
        ruleset.data.insert(class_map(family), DataMap { family, elements: known.collect() });
        let ranges = node.ranges.iter().filter(|it| Address::of(it.0) == family).map(|(first, last, class)| (*first, (*last, of(*class))));
        ruleset.intervals.insert(range_map(family), IntervalMap { family, elements: ranges.collect() });
    }
    for end in [ruleset::End::Source, ruleset::End::Destination] {
        ruleset.chains.insert(naming::class_chain(end).to_owned(), class_chain(end));
    }
    numbers
}

/// Sets the number to the class of one end. All programs share it: the kernel walks over all elements of a map for each chain that is new to it.
fn class_chain(end: ruleset::End) -> Chain {
    // The sender's TOS fills the number before the hook; a miss must not leave it there.
    let mut rules = vec![Rule::set(Value::Zero)];
    for family in Address::BOTH {
        rules.push(Rule::set(Value::From { end, family, map: class_map(family) }));
    }
    for family in Address::BOTH {
        let by_range = Rule::set(Value::From { end, family, map: range_map(family) });
        rules.push(by_range.when(Match::Number(0)));
    }
    Chain { hook: None, rules }
}

/// Numbers by place. They are asked for in the order of the words, which is the same in every process.
fn numbers<'a>(words: impl Iterator<Item = &'a str>, numbers: &mut Numbers) -> Vec<u32> {
    let mut by_words: Vec<(&str, usize)> = words.zip(0..).collect();
    by_words.sort_unstable();
    let mut by_place = vec![0; by_words.len()];
    for (words, place) in by_words {
        by_place.get_mut(place).into_iter().for_each(|it| *it = numbers.of(words));
    }
    by_place
}

/// A program whose meetings have come to leaves, by place.
pub(crate) struct Grown {
    pub(crate) itself: usize,
    pub(crate) meetings: Vec<usize>,
}

impl Grown {
    /// `leaf` gives each meeting the place of its leaf.
    pub(crate) fn of(program: &NodeProgram<'_>, mut leaf: impl FnMut(&Meeting<'_>) -> usize) -> Grown {
        Grown { itself: leaf(&program.itself), meetings: program.meetings.iter().map(leaf).collect() }
    }
}

pub(crate) fn lower_direction(
    direction: Direction,
    node: &OnNode<'_>,
    grown: &[Grown],
    (classes, leaves): (&[u32], &[String]),
    ids: &mut Ids,
    ruleset: &mut Ruleset,
) {
    let programs = node.programs.of(direction);
    let leaf = |place: Option<&usize>| place.and_then(|it| leaves.get(*it)).map_or("", String::as_str);
    // What a chain says is part of its name: it never says anything else.
    let words = programs.iter().zip(grown).map(|(program, grown)| {
        format!("{}; itself {}; rest {}", program.words, leaf(Some(&grown.itself)), leaf(grown.meetings.get(program.rest)))
    });
    let words: Vec<String> = words.collect();
    let numbers = numbers(words.iter().map(String::as_str), &mut ids.programs);
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for ((program, grown), number) in programs.iter().zip(grown).zip(&numbers) {
        let name = format!("{direction}-{number:08x}");
        let rest = leaf(grown.meetings.get(program.rest));
        let listed = program.classes.iter().map(|(class, meeting)| (classes.get(*class), leaf(grown.meetings.get(*meeting))));
        let listed = listed.filter(|(_, leaf)| *leaf != rest).map(|(class, leaf)| (class.copied().unwrap_or(0), leaf.to_owned()));
        let leaves = Programmed { itself: leaf(Some(&grown.itself)), leaves: listed.collect(), rest };
        add_program(&name, *number, direction, leaves, ruleset);
        names.insert(*number, name);
    }
    for family in Address::BOTH {
        let subjects = node.subjects.iter().filter(|it| Address::of(it.0) == family);
        let elements = subjects.filter_map(|(address, of)| Some((*address, *numbers.get(*of.of(direction))?))).collect();
        ruleset.data.insert(subject_map(direction, family), DataMap { family, elements });
    }
    ruleset.verdicts.insert(programs_map(direction), VerdictMap { elements: names });
}

/// A program by the names of its leaves.
struct Programmed<'a> {
    /// Where the subject is its own peer.
    itself: &'a str,
    /// Classes that have another leaf than the rest.
    leaves: BTreeMap<u32, String>,
    rest: &'a str,
}

/// A rule that drops for a reason other than policy, with everything that tells people so.
pub(crate) fn guard_rule(guard: Guard, ids: &mut Ids, ruleset: &mut Ruleset) -> Rule {
    let origin = Origin::Guard(guard);
    let number = ids.origins.of(&origin_words(&origin));
    let rule = fate_rule(false, number, &origin);
    ruleset.origins.insert(number, origin);
    rule
}

pub(crate) fn fate_rule(accepted: bool, number: u32, origin: &Origin) -> Rule {
    let statements = match accepted {
        true => vec![Statement::Counter, Statement::Verdict(Verdict::Return)],
        false => vec![Statement::Counter, Statement::Log(number), Statement::Verdict(Verdict::Drop)],
    };
    Rule { matches: Vec::new(), statements, comment: Some(origin.comment()) }
}

fn add_program(name: &str, number: u32, direction: Direction, program: Programmed<'_>, ruleset: &mut Ruleset) {
    ruleset.verdicts.insert(leaves_map(name), VerdictMap { elements: program.leaves });
    ruleset.chains.insert(name.to_owned(), program_chain(name, number, direction, program.itself, program.rest));
}

/// The chain of a program: where the subject is its own peer to one leaf, else by the peer's class, else to the leaf of the rest.
pub(crate) fn program_chain(name: &str, number: u32, direction: Direction, itself: &str, rest: &str) -> Chain {
    let peer = match direction {
        Direction::Egress => ruleset::End::Destination,
        Direction::Ingress => ruleset::End::Source,
    };
    let mut rules = Vec::new();
    for family in Address::BOTH {
        let itself = Rule::to(Verdict::Goto(itself.to_owned()));
        rules.push(itself.when(Match::Pair { family, set: selves(family) }));
    }
    rules.push(Rule::to(Verdict::Jump(naming::class_chain(peer).to_owned())));
    // It still is what led here where that chain has no rules any more: the table is being left, and another one decides.
    rules.push(Rule::to(Verdict::Return).when(Match::Number(number)));
    rules.push(Rule { statements: vec![Statement::Look(leaves_map(name))], ..Rule::default() });
    rules.push(Rule::to(Verdict::Goto(rest.to_owned())));
    Chain { hook: None, rules }
}

pub(crate) fn direction_chain(direction: Direction) -> Chain {
    let subject = match direction {
        Direction::Egress => ruleset::End::Source,
        Direction::Ingress => ruleset::End::Destination,
    };
    let mut rules = vec![Rule::set(Value::Zero)];
    for family in Address::BOTH {
        rules.push(Rule::set(Value::From { end: subject, family, map: subject_map(direction, family) }));
    }
    // Most packets have a subject at one end only.
    rules.push(Rule::to(Verdict::Return).when(Match::Number(0)));
    rules.push(Rule { statements: vec![Statement::Look(programs_map(direction))], ..Rule::default() });
    Chain { hook: None, rules }
}

/// What comes before any policy.
pub(crate) fn first_rules(ids: &mut Ids, ruleset: &mut Ruleset) -> Vec<Rule> {
    vec![
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Established)),
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Related)).when(Match::Protocol(vec![1, 58])),
        guard_rule(Guard::InvalidState, ids, ruleset).when(Match::Ct(CtState::Invalid)),
        Rule::to(Verdict::Accept).when(Match::NeighbourDiscovery),
    ]
}

fn forward(closing: &Closing, ids: &mut Ids, ruleset: &mut Ruleset) -> Chain {
    let mut rules = first_rules(ids, ruleset);
    rules.extend(closing.from.iter().chain(&closing.to).cloned());
    rules.push(guard_rule(Guard::ForgedNode, ids, ruleset).when(Match::SourceIsLocal));
    // Without this a connection that was cut comes back by the server's next segment.
    rules.push(guard_rule(Guard::NotABeginning, ids, ruleset).when(Match::Ct(CtState::New)).when(Match::NotSyn));
    rules.push(Rule::to(Verdict::Jump(Direction::Egress.to_string())));
    rules.push(Rule::to(Verdict::Jump(Direction::Ingress.to_string())));
    // The number must not reach a queueing discipline.
    rules.push(Rule::set(Value::Zero));
    Chain { hook: Some(Hook::Forward), rules }
}

fn input(closing: &Closing, ids: &mut Ids, ruleset: &mut Ruleset) -> Chain {
    let mut rules = first_rules(ids, ruleset);
    rules.extend(closing.from.iter().cloned());
    rules.push(Rule::to(Verdict::Jump(Direction::Egress.to_string())));
    rules.push(Rule::set(Value::Zero));
    Chain { hook: Some(Hook::Input), rules }
}
