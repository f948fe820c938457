//! From the model to the ruleset of one node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::{Nodes, Signature, signature};
use palisade_model::{Direction, End, EndpointId, Model, NodeId, Path, Place};

use crate::ids::{Ids, Program};
use crate::leaf::{Fate, Leaf, leaf};
use crate::regions::regions;
use crate::ruleset::{
    self, Address, Chain, CtState, DataMap, Guard, Hook, IntervalMap, Match, Origin, PairSet, Rule, Ruleset, Statement, Value, Verdict,
    VerdictMap,
};
use crate::sources::bind_sources;

/// The node whose ruleset is wanted. Only pods that run there are subjects of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub node: NodeId,
    /// The node's end of the link to each pod that runs there. Empty if the links are not known: no source is bound then.
    pub links: BTreeMap<EndpointId, String>,
}

/// The ruleset of one node. Numbers come from `ids` and stay the same for what stays the same.
pub fn lower(model: &Model, view: &NodeView, ids: &mut Ids) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let classes = classes(model, ids, &mut ruleset);
    let local = local_pods(model, view.node);
    add_selves(&local, &mut ruleset);
    for direction in Direction::BOTH {
        lower_direction(model, direction, &local, &classes, ids, &mut ruleset);
        ruleset.chains.insert(direction.to_string(), direction_chain(direction));
    }
    let forward = forward(ids, &mut ruleset);
    ruleset.chains.insert("forward".to_owned(), forward);
    let input = input(ids, &mut ruleset);
    ruleset.chains.insert("input".to_owned(), input);
    bind_sources(model, &view.links, ids, &mut ruleset);
    ruleset
}

fn local_pods(model: &Model, node: NodeId) -> Vec<End> {
    let here = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(node));
    let ends = here.flat_map(|(at, it)| it.addresses.iter().map(move |address| (Place::Pod(EndpointId(at)), *address)));
    // An address that two pods claim belongs to one of them.
    let owned = ends.filter(|(place, address)| model.place_of(*address) == *place);
    owned.map(|(place, address)| End { place, address: Some(address) }).collect()
}

/// The name of the set of local pods, each with itself.
fn selves(family: Address) -> String {
    format!("self{}", family.digit())
}

fn add_selves(local: &[End], ruleset: &mut Ruleset) {
    for family in Address::BOTH {
        let addresses = local.iter().filter_map(|it| it.address).filter(|it| Address::of(*it) == family);
        ruleset.pairs.insert(selves(family), PairSet { family, elements: addresses.map(|it| (it, it)).collect() });
    }
}

/// Who stands for each class: one end, and a second one that is not the first, if the class has more than one.
type Classes = BTreeMap<u32, Vec<End>>;

/// Gives every address a class: known ones by themselves, all others by range.
fn classes(model: &Model, ids: &mut Ids, ruleset: &mut Ruleset) -> Classes {
    let mut classes = Classes::new();
    let mut class_of = |end: End| {
        let class = ids.class(signature(model, &end, Nodes::Apart));
        let members: &mut Vec<End> = classes.entry(class).or_default();
        if members.len() < 2 && members.iter().all(|it| it.place != end.place) {
            members.push(end);
        }
        class
    };
    for family in Address::BOTH {
        let digit = family.digit();
        let known =
            known_addresses(model, family).map(|(address, place)| (address, class_of(End { place, address: Some(address) }))).collect();
        ruleset.data.insert(format!("class{digit}"), DataMap { family, elements: known });
        let mut elements: BTreeMap<IpAddr, (IpAddr, u32)> = BTreeMap::new();
        for (first, last) in regions(model, family) {
            elements.insert(first, (last, class_of(End { place: Place::Outside, address: Some(first) })));
        }
        ruleset.intervals.insert(format!("net{digit}"), IntervalMap { family, elements });
    }
    classes
}

/// Addresses of pods and nodes; a pod wins where both claim one.
fn known_addresses(model: &Model, family: Address) -> impl Iterator<Item = (IpAddr, Place)> + '_ {
    let pods = model.endpoints.iter().flat_map(|it| &it.addresses);
    let nodes = model.nodes.iter().flat_map(|it| &it.addresses);
    pods.chain(nodes).filter(move |it| Address::of(**it) == family).map(|it| (*it, model.place_of(*it)))
}

fn lower_direction(model: &Model, direction: Direction, local: &[End], classes: &Classes, ids: &mut Ids, ruleset: &mut Ruleset) {
    let mut subjects = [(); 2].map(|()| BTreeMap::new());
    let mut programs: BTreeMap<u32, String> = BTreeMap::new();
    let mut known: BTreeMap<Signature, u32> = BTreeMap::new();
    for subject in local {
        let Some(address) = subject.address else { continue };
        let number = *known.entry(signature(model, subject, Nodes::Apart)).or_insert_with(|| {
            let program = program(model, *subject, direction, classes, ids, ruleset);
            let number = ids.program(program.clone());
            let name = format!("{direction}-{number}");
            add_program(&name, direction, program, ruleset);
            programs.insert(number, name);
            number
        });
        let [four, six] = &mut subjects;
        let subjects = match Address::of(address) {
            Address::V4 => four,
            Address::V6 => six,
        };
        subjects.insert(address, number);
    }
    for (family, elements) in Address::BOTH.into_iter().zip(subjects) {
        ruleset.data.insert(format!("{direction}{}", family.digit()), DataMap { family, elements });
    }
    ruleset.verdicts.insert(format!("{direction}-programs"), VerdictMap { elements: programs });
}

/// The leaf of each class, and the one that most classes have as the rest. Pods of one signature share them.
fn program(model: &Model, subject: End, direction: Direction, classes: &Classes, ids: &mut Ids, ruleset: &mut Ruleset) -> Program {
    // Only a Service leads a pod back to itself through its node.
    let itself = add_leaf(leaf(model, subject, subject, direction, Path::Service), ids, ruleset);
    let mut leaves: BTreeMap<u32, u32> = BTreeMap::new();
    for (class, members) in classes {
        // Replicas share class and program; a pod and itself are told apart by the pair of addresses. A class of the subject alone is
        // never met here.
        let Some(peer) = members.iter().find(|it| it.place != subject.place) else { continue };
        let leaf = leaf(model, subject, *peer, direction, Path::Direct);
        leaves.insert(*class, add_leaf(leaf, ids, ruleset));
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    leaves.values().for_each(|leaf| *counts.entry(*leaf).or_default() += 1);
    let rest = counts.into_iter().max_by_key(|(leaf, count)| (*count, std::cmp::Reverse(*leaf))).map_or(0, |(leaf, _)| leaf);
    leaves.retain(|_, leaf| *leaf != rest);
    Program { itself, leaves, rest }
}

fn leaf_name(number: u32) -> String {
    format!("leaf-{number}")
}

fn add_leaf(leaf: Leaf, ids: &mut Ids, ruleset: &mut Ruleset) -> u32 {
    let number = ids.leaf(leaf.clone());
    if ruleset.chains.contains_key(&leaf_name(number)) {
        return number;
    }
    let mut rules = Vec::with_capacity(leaf.ranges.len() + 1);
    for (protocol, first, last, fate) in leaf.ranges {
        let rule = fate_rule(fate, ids, ruleset);
        rules.push(rule.when(Match::Protocol(vec![protocol.number()])).when(Match::Port { first, last }));
    }
    rules.push(fate_rule(leaf.rest, ids, ruleset));
    ruleset.chains.insert(leaf_name(number), Chain { hook: None, rules });
    number
}

/// A rule that drops for a reason other than policy, with everything that tells people so.
pub(crate) fn guard_rule(guard: Guard, ids: &mut Ids, ruleset: &mut Ruleset) -> Rule {
    fate_rule(Fate { accepted: false, origin: Origin::Guard(guard) }, ids, ruleset)
}

fn fate_rule(fate: Fate, ids: &mut Ids, ruleset: &mut Ruleset) -> Rule {
    let number = ids.origin(fate.origin.clone());
    let comment: String = fate.origin.to_string().chars().take(120).collect();
    ruleset.origins.insert(number, fate.origin);
    let statements = match fate.accepted {
        true => vec![Statement::Counter, Statement::Verdict(Verdict::Return)],
        false => vec![Statement::Counter, Statement::Log(number), Statement::Verdict(Verdict::Drop)],
    };
    Rule { matches: Vec::new(), statements, comment: Some(comment) }
}

fn add_program(name: &str, direction: Direction, program: Program, ruleset: &mut Ruleset) {
    let peer = match direction {
        Direction::Egress => ruleset::End::Destination,
        Direction::Ingress => ruleset::End::Source,
    };
    // The sender's TOS fills the number before the hook; a miss must not leave it there.
    let mut rules = vec![Rule::set(Value::Zero)];
    for family in Address::BOTH {
        let itself = Rule::to(Verdict::Goto(leaf_name(program.itself)));
        rules.push(itself.when(Match::Pair { family, set: selves(family) }));
    }
    for family in Address::BOTH {
        rules.push(Rule::set(Value::From { end: peer, family, map: format!("class{}", family.digit()) }));
    }
    for family in Address::BOTH {
        let by_range = Rule::set(Value::From { end: peer, family, map: format!("net{}", family.digit()) });
        rules.push(by_range.when(Match::Number(0)));
    }
    let map = format!("{name}-leaves");
    rules.push(Rule { statements: vec![Statement::Look(map.clone())], ..Rule::default() });
    rules.push(Rule::to(Verdict::Goto(leaf_name(program.rest))));
    let elements = program.leaves.into_iter().map(|(class, leaf)| (class, leaf_name(leaf))).collect();
    ruleset.verdicts.insert(map, VerdictMap { elements });
    ruleset.chains.insert(name.to_owned(), Chain { hook: None, rules });
}

fn direction_chain(direction: Direction) -> Chain {
    let subject = match direction {
        Direction::Egress => ruleset::End::Source,
        Direction::Ingress => ruleset::End::Destination,
    };
    let mut rules = vec![Rule::set(Value::Zero)];
    for family in Address::BOTH {
        rules.push(Rule::set(Value::From { end: subject, family, map: format!("{direction}{}", family.digit()) }));
    }
    rules.push(Rule { statements: vec![Statement::Look(format!("{direction}-programs"))], ..Rule::default() });
    Chain { hook: None, rules }
}

/// What comes before any policy.
fn first_rules(ids: &mut Ids, ruleset: &mut Ruleset) -> Vec<Rule> {
    vec![
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Established)),
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Related)).when(Match::Protocol(vec![1, 58])),
        guard_rule(Guard::InvalidState, ids, ruleset).when(Match::Ct(CtState::Invalid)),
        Rule::to(Verdict::Accept).when(Match::NeighbourDiscovery),
    ]
}

fn forward(ids: &mut Ids, ruleset: &mut Ruleset) -> Chain {
    let mut rules = first_rules(ids, ruleset);
    rules.push(guard_rule(Guard::ForgedNode, ids, ruleset).when(Match::SourceIsLocal));
    // Without this a connection that was cut comes back by the server's next segment.
    rules.push(guard_rule(Guard::NotABeginning, ids, ruleset).when(Match::Ct(CtState::New)).when(Match::NotSyn));
    rules.push(Rule::to(Verdict::Jump(Direction::Egress.to_string())));
    rules.push(Rule::to(Verdict::Jump(Direction::Ingress.to_string())));
    // The number must not reach a queueing discipline.
    rules.push(Rule::set(Value::Zero));
    Chain { hook: Some(Hook::Forward), rules }
}

fn input(ids: &mut Ids, ruleset: &mut Ruleset) -> Chain {
    let mut rules = first_rules(ids, ruleset);
    rules.push(Rule::to(Verdict::Jump(Direction::Egress.to_string())));
    rules.push(Rule::set(Value::Zero));
    Chain { hook: Some(Hook::Input), rules }
}
