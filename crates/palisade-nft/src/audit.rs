//! What audited policies would do, as a ruleset that says it and decides nothing.
//!
//! It is lowered like the own one, from the model in which all audited policies count. Leaves differ: a port interval has a rule only where the
//! verdict of the direction is another with the policies of some set than without, and that rule logs and returns. Only pods that an audited
//! policy selects are looked up, each in a chain of its own that counts, so that one can tell a pod that was never seen from one that would
//! fare as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use palisade_engine::{ByPort, Judge, Judged, Meeting, OnNode, Selecting, compile, selects};
use palisade_model::{Direction, EndpointId, Model, NetworkId, NodeId, Place, PodName, Policy, PolicyRef, Reason};

use crate::ids::Ids;
use crate::leaf::{Leaf, by_port, is_open, leaf_of};
use crate::leaves::reason_words;
use crate::lower::{Grown, add_classes, add_selves, direction_chain, lower_direction};
use crate::naming::{programs_map, subject_map};
use crate::ruleset::{Address, Chain, CtState, Hook, Match, Rule, Ruleset, Statement, Value, Verdict, VerdictMap};
use crate::shared_map::SharedMap;
use crate::transaction::apply::chains_of;

/// The audit of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// What the table `inet palisade-audit` holds.
    pub ruleset: Ruleset,
    /// What the numbers in log prefixes stand for.
    pub woulds: BTreeMap<u32, Would>,
    /// The pods that audited policies select, by the chains that count the connections that each is the subject of.
    pub subjects: BTreeMap<String, (PodName, Direction)>,
}

/// What would become of connections in one direction if the policies of a set were enforced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Would {
    /// The name of the set.
    pub set: Box<str>,
    pub direction: Direction,
    pub becomes: Becomes,
    /// What would decide.
    pub reason: Reason,
    /// What decides today.
    pub instead_of: Reason,
}

/// What a direction would say that says the opposite today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Becomes {
    Denied,
    /// In this direction; the other one may still deny.
    Allowed,
}

/// `NAME would deny: np/NAMESPACE/NAME#RULE` and so on, as comments say it.
impl fmt::Display for Would {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.becomes {
            Becomes::Denied => "deny",
            Becomes::Allowed => "allow",
        };
        let origin = crate::ruleset::Origin::Policy { direction: self.direction, reason: self.reason.clone() };
        write!(f, "{} would {verb}: {origin}", self.set)
    }
}

/// The audit of a node, or nothing if no audited policy selects a pod of it. Numbers come from `ids`, which are not those of the own table.
pub fn audit(model: &Model, node: NodeId, ids: &mut Ids) -> Option<Audit> {
    let model = &*model.on_network(NetworkId::DEFAULT);
    if model.audited.is_empty() {
        return None;
    }
    let all = model.with_all_audited();
    let compiled = compile(&all);
    let on_node = compiled.on_node_for_any(&all, node);
    let subjects = subjects(model, &on_node);
    if subjects.is_empty() {
        return None;
    }
    let sets = Sets::of(model);
    let mut audit = Audit::default();
    ids.begin();
    add_selves(&on_node, &mut audit.ruleset);
    let classes = add_classes(&on_node, ids, &mut audit.ruleset);
    let mut leaves = Leaves::default();
    let [egress, ingress] = Direction::BOTH.map(|direction| {
        let programs = on_node.programs.of(direction).iter();
        programs.map(|it| Grown::of(it, |meeting| leaves.of(&all, &sets, meeting, direction))).collect::<Vec<Grown>>()
    });
    let leaves = leaves.add(ids, &mut audit);
    for (direction, grown) in Direction::BOTH.into_iter().zip([egress, ingress]) {
        lower_direction(direction, &on_node, &grown, (&classes, &leaves), ids, &mut audit.ruleset);
        audit.ruleset.chains.insert(direction.to_string(), direction_chain(direction));
        count_subjects(model, direction, &subjects, ids, &mut audit);
    }
    audit.ruleset.chains.insert("forward".to_owned(), base(Hook::Forward, &Direction::BOTH));
    audit.ruleset.chains.insert("input".to_owned(), base(Hook::Input, &[Direction::Egress]));
    prune(&mut audit.ruleset);
    Some(audit)
}

/// Which policies are asked for each set.
struct Sets<'m> {
    /// The sets of each audited policy: one.
    of: BTreeMap<&'m PolicyRef, &'m str>,
    names: Vec<&'m str>,
}

impl<'m> Sets<'m> {
    fn of(model: &'m Model) -> Sets<'m> {
        let policies = model.audited.iter().flat_map(|(set, policies)| policies.iter().map(move |it| (&it.origin, set.as_ref())));
        Sets { of: policies.collect(), names: model.audited.keys().map(AsRef::as_ref).collect() }
    }

    /// Those of a meeting's policies that are enforced, or would be with a set.
    fn among<'p>(&self, meeting: &Meeting<'p>, with: Option<&str>) -> Asked<'p> {
        let counts = |it: &Policy| self.of.get(&it.origin).is_none_or(|set| Some(*set) == with);
        let among = meeting.among.iter().filter(|it| counts(it.policy)).cloned().collect();
        Asked { among, isolating: meeting.isolating.iter().copied().filter(|it| counts(it)).collect() }
    }
}

/// Policies that are asked about a meeting.
struct Asked<'m> {
    among: Vec<Selecting<'m>>,
    isolating: Vec<&'m Policy>,
}

impl<'m> Asked<'m> {
    fn count(&self) -> (usize, usize) {
        (self.among.len(), self.isolating.len())
    }

    fn judge<'s>(&'s self, model: &'s Model, direction: Direction) -> Judge<'s, 'm> {
        Judge::new(model, &self.among, &self.isolating, direction)
    }
}

/// Leaves and what they tell, by place.
#[derive(Default)]
struct Leaves {
    leaves: BTreeMap<Leaf<Vec<usize>>, usize>,
    woulds: BTreeMap<Would, usize>,
}

impl Leaves {
    /// The place of the leaf that a meeting comes to.
    fn of(&mut self, model: &Model, sets: &Sets<'_>, meeting: &Meeting<'_>, direction: Direction) -> usize {
        let today = sets.among(meeting, None);
        // Where nobody of a set has something to say, that set changes nothing.
        let with = sets.names.iter().map(|set| (*set, sets.among(meeting, Some(set))));
        let with: Vec<(&str, Asked<'_>)> = with.filter(|(_, it)| it.count() != today.count()).collect();
        let (today, with) = (today.judge(model, direction), with.iter().map(|(set, it)| (*set, it.judge(model, direction))));
        let with: Vec<(&str, Judge<'_, '_>)> = with.collect();
        let mut today_by_port = by_port(&today, meeting, direction);
        let mut with_by_port: Vec<ByPort<'_, '_>> = with.iter().map(|(_, it)| by_port(it, meeting, direction)).collect();
        let woulds = &mut self.woulds;
        let leaf = leaf_of(model, meeting, direction, |protocol, port| {
            let now = today_by_port.decide(protocol, port);
            let each = with.iter().zip(&mut with_by_port);
            let differing = each.filter_map(|((set, with), by_port)| {
                let then = by_port.decide(protocol, port);
                let (reason, instead_of) = (|| with.reason(then.cause), || today.reason(now.cause));
                becomes(now, then).map(|it| Would {
                    set: (*set).into(),
                    direction,
                    becomes: it,
                    reason: reason(),
                    instead_of: instead_of(),
                })
            });
            let places = differing.map(|would| {
                let next = woulds.len();
                *woulds.entry(would).or_insert(next)
            });
            places.collect::<Vec<usize>>()
        });
        let next = self.leaves.len();
        *self.leaves.entry(leaf).or_insert(next)
    }

    /// Adds the chain of each leaf. Returns the names of these by place.
    fn add(self, ids: &mut Ids, audit: &mut Audit) -> Vec<String> {
        let mut by_words: Vec<(String, Would, usize)> = self.woulds.into_iter().map(|(it, place)| (would_words(&it), it, place)).collect();
        by_words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let numbered = by_words.into_iter().map(|(words, would, place)| (place, (ids.origins.of(&words), would)));
        let woulds: BTreeMap<usize, (u32, Would)> = numbered.collect();
        let mut by_words: Vec<(String, Leaf<Vec<usize>>, usize)> =
            self.leaves.into_iter().map(|(it, place)| (leaf_words(&it, &woulds), it, place)).collect();
        by_words.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut names = vec![String::new(); by_words.len()];
        for (words, leaf, place) in by_words {
            let name = format!("leaf-{:08x}", ids.leaves.of(&words));
            audit.ruleset.chains.insert(name.clone(), chain(&leaf, &woulds));
            names.get_mut(place).into_iter().for_each(|it| it.clone_from(&name));
        }
        audit.woulds = woulds.into_values().collect();
        names
    }
}

/// What would become of a flow, if that is not what becomes of it today.
fn becomes(now: Judged<'_>, then: Judged<'_>) -> Option<Becomes> {
    match (is_open(now), is_open(then)) {
        (true, false) => Some(Becomes::Denied),
        (false, true) => Some(Becomes::Allowed),
        (true, true) | (false, false) => None,
    }
}

fn chain(leaf: &Leaf<Vec<usize>>, woulds: &BTreeMap<usize, (u32, Would)>) -> Chain {
    let rule = |places: &[usize]| {
        let told: Vec<&(u32, Would)> = places.iter().filter_map(|it| woulds.get(it)).collect();
        let back = Rule::to(Verdict::Return);
        if told.is_empty() {
            return back;
        }
        let comments: Vec<String> = told.iter().map(|(_, would)| would.to_string()).collect();
        let logs = told.iter().map(|(number, _)| Statement::Would(*number));
        let statements = [Statement::Counter].into_iter().chain(logs).chain(back.statements).collect();
        Rule { matches: Vec::new(), statements, comment: Some(comments.join("; ").chars().take(120).collect()) }
    };
    let mut rules = Vec::with_capacity(leaf.ranges.len() + 1);
    for (protocol, first, last, places) in &leaf.ranges {
        let ports = Match::Port { first: *first, last: *last };
        rules.push(rule(places).when(Match::Protocol(vec![protocol.number()])).when(ports));
    }
    rules.push(rule(&leaf.rest));
    Chain { hook: None, rules }
}

fn leaf_words(leaf: &Leaf<Vec<usize>>, woulds: &BTreeMap<usize, (u32, Would)>) -> String {
    let told = |places: &[usize]| {
        let numbers: Vec<String> = places.iter().filter_map(|it| woulds.get(it)).map(|(number, _)| format!("{number:08x}")).collect();
        format!("[{}]", numbers.join(" "))
    };
    let ranges = leaf.ranges.iter().map(|(protocol, first, last, it)| format!("{protocol} {first}-{last} {}, ", told(it)));
    format!("{}rest {}", ranges.collect::<String>(), told(&leaf.rest))
}

fn would_words(would: &Would) -> String {
    let Would { set, direction, becomes, reason, instead_of } = would;
    format!("{set:?} {becomes:?} {}; today {}", reason_words(*direction, reason), reason_words(*direction, instead_of))
}

/// The addresses of the pods of the node that some audited policy selects.
fn subjects(model: &Model, node: &OnNode<'_>) -> BTreeMap<IpAddr, EndpointId> {
    let local: BTreeSet<IpAddr> = node.subjects.iter().map(|it| it.0).collect();
    let mut known: BTreeMap<EndpointId, bool> = BTreeMap::new();
    let mut subjects = BTreeMap::new();
    for owner in node.known.iter().filter(|it| local.contains(&it.address)) {
        let Place::Pod(id) = owner.place else { continue };
        let Some(endpoint) = model.endpoint(id) else { continue };
        let is_audited = || model.audited.values().flatten().any(|policy| selects(model, policy, endpoint));
        if *known.entry(id).or_insert_with(is_audited) {
            subjects.insert(owner.address, id);
        }
    }
    subjects
}

/// Puts a chain that counts before the program of each subject, and takes all other pods out.
fn count_subjects(model: &Model, direction: Direction, subjects: &BTreeMap<IpAddr, EndpointId>, ids: &mut Ids, audit: &mut Audit) {
    let ruleset = &mut audit.ruleset;
    let Some(programs) = ruleset.verdicts.get(&programs_map(direction)).map(|it| it.elements.clone()) else { return };
    let mut chains = BTreeMap::new();
    for family in Address::BOTH {
        let Some(map) = ruleset.data.get_mut(&subject_map(direction, family)) else { continue };
        let mut elements = SharedMap::new();
        for (address, program) in &map.elements {
            let Some((id, program)) = subjects.get(address).zip(programs.get(program)) else { continue };
            let Some(endpoint) = model.endpoint(*id) else { continue };
            let number = ids.programs.of(&format!("{direction} of {} in {program}", endpoint.name));
            let name = format!("{direction}-of-{number:08x}");
            let comment: String = format!("{direction} of {}", endpoint.name).chars().take(120).collect();
            let count = Rule { matches: Vec::new(), statements: vec![Statement::Counter], comment: Some(comment) };
            let rules = vec![count, Rule::to(Verdict::Goto(program.clone()))];
            ruleset.chains.insert(name.clone(), Chain { hook: None, rules });
            audit.subjects.insert(name.clone(), (endpoint.name.clone(), direction));
            elements.insert(*address, number);
            chains.insert(number, name);
        }
        map.elements = elements;
    }
    ruleset.verdicts.insert(programs_map(direction), VerdictMap { elements: chains });
}

/// Whatever the own table does not ask policy about is not looked at.
fn base(hook: Hook, directions: &[Direction]) -> Chain {
    let back = || Rule::to(Verdict::Return);
    let mut rules: Vec<Rule> = [CtState::Established, CtState::Related, CtState::Invalid].map(|it| back().when(Match::Ct(it))).to_vec();
    rules.push(back().when(Match::NeighbourDiscovery));
    if hook == Hook::Forward {
        rules.push(back().when(Match::SourceIsLocal));
        rules.push(back().when(Match::Ct(CtState::New)).when(Match::NotSyn));
    }
    rules.extend(directions.iter().map(|it| Rule::to(Verdict::Jump(it.to_string()))));
    rules.push(Rule::set(Value::Zero));
    Chain { hook: Some(hook), rules }
}

/// Takes out the chains that nobody comes to, and their maps.
fn prune(ruleset: &mut Ruleset) {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut next: Vec<String> = ruleset.chains.iter().filter(|(_, it)| it.hook.is_some()).map(|(name, _)| name.clone()).collect();
    // Ends: a chain is looked at once.
    while let Some(name) = next.pop() {
        let Some(chain) = ruleset.chains.get(&name).filter(|_| reached.insert(name.clone())) else { continue };
        for rule in &chain.rules {
            next.extend(chains_of(rule).map(str::to_owned));
            for statement in &rule.statements {
                if let Statement::Look(map) = statement
                    && asked.insert(map.clone())
                {
                    next.extend(ruleset.verdicts.get(map).into_iter().flat_map(|it| it.elements.values().cloned()));
                }
            }
        }
    }
    ruleset.chains.retain(|name, _| reached.contains(name));
    ruleset.verdicts.retain(|name, _| asked.contains(name));
}
