//! Programs, and whom each meets. Only classes that some rule of a program picks out are looked at; all others of a group fare alike.

use std::rc::Rc;

use palisade_model::{ContainerPort, Direction, End, Family, Model, Path, PerDirection, Place, Policy, Tier};
use rustc_hash::FxHashMap;

use crate::applying::isolates;
use crate::compile::intern::{index, number};
use crate::compile::node::asked::{Asked, Asking};
use crate::compile::node::classes::{ClassKind, Classes};
use crate::compile::node::hits::{Group, Hit, Matching, Picked};
use crate::compile::node::selected::{Local, Selected};
use crate::compile::node::{Meeting, NodeProgram, OnNode, words};
use crate::compile::rules::{Everyone, Names};
use crate::decide::Selecting;

pub(super) fn meet<'m>(model: &'m Model, asked: &Asked<'m>, classes: Classes, selected: &Selected<'m>) -> OnNode<'m> {
    let matching = Matching::of(asked, &classes);
    let [egress, ingress] = Direction::BOTH.map(|direction| Programs::of(model, &matching, asked, &classes, selected, direction));
    let subjects = selected.locals.iter().zip(egress.of_local.iter().zip(&ingress.of_local));
    OnNode {
        classes: classes.all_words(asked),
        known: classes.known,
        ranges: classes.ranges.iter().map(|(first, last, class)| (*first, *last, index(*class))).collect(),
        subjects: subjects.map(|(local, (egress, ingress))| (local.address, PerDirection { egress: *egress, ingress: *ingress })).collect(),
        programs: PerDirection { egress: egress.programs, ingress: ingress.programs },
    }
}

/// What a meeting depends on: the rules of the program whose peers match, by place, and what these ask of the other end besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Hits {
    rules: Vec<(u32, Hit)>,
    ports: Vec<u32>,
    caller: Caller,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Caller {
    #[default]
    Anyone,
    /// Where that calls, NetworkPolicies have no say.
    OwnNode,
    /// The same rules may do something else to it.
    UnknownPod,
}

impl Caller {
    fn of(kind: ClassKind) -> Caller {
        if kind == ClassKind::UnknownPod { Caller::UnknownPod } else { Caller::Anyone }
    }
}

/// The programs of a direction.
struct Programs<'m> {
    programs: Vec<NodeProgram<'m>>,
    /// By local.
    of_local: Vec<usize>,
}

/// What makes a program: the list of policies, what they do to a pod that meets itself, and its own named ports if they ask for them.
type Key = (u32, Hits, Vec<ContainerPort>);

impl<'m> Programs<'m> {
    fn of(
        model: &'m Model,
        matching: &Matching<'_, 'm>,
        asked: &Asked<'m>,
        classes: &Classes,
        selected: &Selected<'m>,
        direction: Direction,
    ) -> Programs<'m> {
        let mut known: FxHashMap<Key, usize> = FxHashMap::default();
        let mut found: Vec<(Key, Vec<End>)> = Vec::new();
        let mut of_local = Vec::with_capacity(selected.locals.len());
        let mut policies: FxHashMap<u32, Vec<Ruling<'_, 'm>>> = FxHashMap::default();
        for local in &selected.locals {
            let list = *local.lists.of(direction);
            let rulings = policies.entry(list).or_insert_with(|| rulings(asked, selected, direction, list));
            let key = (list, itself(matching, classes, rulings, local, direction), own_ports(model, rulings, local, direction));
            let at = *known.entry(key.clone()).or_insert_with(|| {
                found.push((key, Vec::new()));
                found.len() - 1
            });
            if let Some((_, subjects)) = found.get_mut(at).filter(|(_, it)| it.len() < 2) {
                let end = End { place: Place::Pod(local.pod), address: Some(local.address) };
                if subjects.iter().all(|it| it.place != end.place) {
                    subjects.push(end);
                }
            }
            of_local.push(at);
        }
        let main = main_family(selected);
        let contents = contents(policies.values().flatten(), direction);
        let programs = found.into_iter().filter_map(|((list, itself, ports), subjects)| {
            let rulings = policies.get(&list)?;
            let isolating = isolating(rulings, direction);
            Programmer { matching, rulings, contents: &contents, isolating, direction, subjects: &subjects, main }.program(&itself, &ports)
        });
        Programs { programs: programs.collect(), of_local }
    }
}

/// A policy that selects a subject, with its rules and the place of the first of them in the program.
struct Ruling<'a, 'm> {
    policy: &'m Policy,
    /// What its subjects have in common, if it is a part of a policy.
    part: Option<&'m str>,
    first: u32,
    rules: &'a [Asking<'m>],
}

impl<'a, 'm> Ruling<'a, 'm> {
    /// The rules that are among some, which are sorted.
    fn matching(&self, hits: &[(u32, Hit)]) -> Vec<(&'a Asking<'m>, Hit)> {
        let (first, rules) = (self.first, self.rules);
        let from = hits.partition_point(|it| it.0 < first);
        let here = hits.iter().skip(from).map_while(move |(at, hit)| Some((rules.get(index(at.checked_sub(first)?))?, *hit)));
        here.collect()
    }
}

fn rulings<'a, 'm>(asked: &'a Asked<'m>, selected: &Selected<'m>, direction: Direction, list: u32) -> Vec<Ruling<'a, 'm>> {
    let mut first = 0;
    let each = selected.list(direction, list).map(|(at, policy)| {
        let ruling = Ruling { policy, part: selected.words(at), first, rules: asked.rules(direction, at) };
        first += number(ruling.rules.len());
        ruling
    });
    each.collect()
}

/// The rules of a program with their places.
fn rules<'s, 'm>(rulings: &'s [Ruling<'_, 'm>]) -> impl Iterator<Item = (u32, &'s Asking<'m>)> {
    rulings.iter().flat_map(|it| (it.first..).zip(it.rules))
}

/// What policies say, in words. Many programs may share a policy, and that may be long.
type Contents = FxHashMap<*const Policy, String>;

fn contents<'s, 'm: 's>(rulings: impl Iterator<Item = &'s Ruling<'s, 'm>>, direction: Direction) -> Contents {
    let mut contents = Contents::default();
    for policy in rulings.map(|it| it.policy) {
        contents.entry(std::ptr::from_ref(policy)).or_insert_with(|| words::content(policy, direction));
    }
    contents
}

/// The NetworkPolicies among some.
fn isolating<'m>(rulings: &[Ruling<'_, 'm>], direction: Direction) -> Rc<[&'m Policy]> {
    rulings.iter().map(|it| it.policy).filter(|it| isolates(it, direction)).collect()
}

/// What cluster policy does to a pod that meets itself. NetworkPolicies do nothing.
fn itself(matching: &Matching<'_, '_>, classes: &Classes, rulings: &[Ruling<'_, '_>], local: &Local, direction: Direction) -> Hits {
    let known = classes.known.binary_search_by_key(&local.address, |it| it.address).ok();
    let class = known.and_then(|at| matching.class(number(classes.known.get(at)?.class)));
    let Some(class) = class else { return Hits::default() };
    let mut hits = Hits::default();
    for ruling in rulings.iter().filter(|it| it.policy.tier != Tier::NetworkPolicy) {
        for (at, rule) in (ruling.first..).zip(ruling.rules) {
            let hit = matching.hit(rule, class, direction);
            if hit != Hit::No {
                hits.rules.push((at, hit));
                hits.ports.extend(matching.ports(rule, class).filter(|_| direction == Direction::Egress));
            }
        }
    }
    hits.ports.sort_unstable();
    hits.ports.dedup();
    hits
}

/// The named ports of a pod that the rules of its ingress ask for.
fn own_ports(model: &Model, rulings: &[Ruling<'_, '_>], local: &Local, direction: Direction) -> Vec<ContainerPort> {
    let pod = model.endpoint(local.pod).filter(|_| direction == Direction::Ingress);
    let asks = |it: &&ContainerPort| {
        let name = it.name.as_deref();
        name.is_some_and(|name| rules(rulings).any(|(_, rule)| rule.ports.binary_search(&name).is_ok()))
    };
    let mut ports: Vec<ContainerPort> = pod.iter().flat_map(|it| &it.ports).filter(asks).cloned().collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The family that most addresses of the node's pods have.
fn main_family(selected: &Selected<'_>) -> Family {
    let six = selected.locals.iter().filter(|it| it.address.is_ipv6()).count();
    if six * 2 > selected.locals.len() { Family::V6 } else { Family::V4 }
}

/// What one program is worked out from.
struct Programmer<'s, 'a, 'm> {
    matching: &'s Matching<'a, 'm>,
    rulings: &'s [Ruling<'a, 'm>],
    contents: &'s Contents,
    isolating: Rc<[&'m Policy]>,
    direction: Direction,
    /// Two pods that have it, or the only one.
    subjects: &'s [End],
    main: Family,
}

/// Meetings of a program so far.
#[derive(Default)]
struct Met<'m> {
    meetings: Vec<Meeting<'m>>,
    known: FxHashMap<Hits, usize>,
    classes: Vec<(usize, usize)>,
}

impl<'m> Programmer<'_, '_, 'm> {
    fn program(&self, itself: &Hits, ports: &[ContainerPort]) -> Option<NodeProgram<'m>> {
        let subject = *self.subjects.first()?;
        let mut met = Met::default();
        let mut picked: Vec<Picked> = Vec::new();
        for (at, rule) in rules(self.rulings) {
            self.matching.pick_out(rule, at, self.direction, &mut picked);
        }
        picked.retain(|(class, ..)| self.caller(*class) == Caller::Anyone);
        picked.sort_unstable();
        picked.dedup();
        let defaults: FxHashMap<Group, Vec<(u32, Hit)>> = self.matching.groups.keys().map(|it| (*it, self.unless_picked(*it))).collect();
        for of_class in picked.chunk_by(|a, b| a.0 == b.0) {
            self.picked_out(of_class, &defaults, &mut met);
        }
        let own_nodes = self.matching.groups.iter().filter(|((kind, _), _)| *kind == ClassKind::OwnNode).flat_map(|(_, it)| it);
        for class in own_nodes.filter(|it| self.caller(**it) == Caller::OwnNode) {
            self.own_node(*class, &mut met);
        }
        let rest = self.others(&picked, &defaults, &mut met, subject);
        let wider = self.wider(&met, rest);
        let words = self.words(itself, ports);
        let itself = self.between(subject, subject, Path::Service, itself);
        Some(NodeProgram { words, itself, meetings: met.meetings, rest, classes: met.classes, wider })
    }

    /// Of each meeting the one around it: the next wider one of the widest of its classes.
    fn wider(&self, met: &Met<'m>, rest: usize) -> Vec<Option<usize>> {
        let of_class: FxHashMap<usize, usize> = met.classes.iter().copied().collect();
        let of_class = |class: u32| of_class.get(&index(class)).copied().unwrap_or(rest);
        // The length of the widest prefix of each, the class that has it, and the meeting around it.
        let mut widest: Vec<Option<(u16, u32, Option<usize>)>> = vec![None; met.meetings.len()];
        for (class, meeting) in met.classes.iter().map(|(class, meeting)| (number(*class), *meeting)) {
            let Some(mut lying) = self.matching.lying(class) else { continue };
            // Classes that only other programs tell apart may lie between.
            while let Some(around) = lying.wider.filter(|it| of_class(*it) == meeting).and_then(|it| self.matching.lying(it)) {
                lying = around;
            }
            let found = (lying.length, class, lying.wider.map(of_class));
            if let Some(known) = widest.get_mut(meeting).filter(|it| it.is_none_or(|it| (found.0, found.1) < (it.0, it.1))) {
                *known = Some(found);
            }
        }
        widest.into_iter().map(|it| it?.2).collect()
    }

    /// SPEC: semantics 1.8.
    fn caller(&self, class: u32) -> Caller {
        let own = self.matching.class(class).is_some_and(|it| it.kind == ClassKind::OwnNode);
        if own && self.direction == Direction::Ingress { Caller::OwnNode } else { Caller::Anyone }
    }

    /// What matches those of a group whom no rule picks out.
    fn unless_picked(&self, group: Group) -> Vec<(u32, Hit)> {
        let hits = rules(self.rulings).map(|(at, rule)| (at, self.matching.unless_picked(rule, group)));
        hits.filter(|(_, hit)| *hit != Hit::No).collect()
    }

    fn picked_out(&self, picked: &[Picked], defaults: &FxHashMap<Group, Vec<(u32, Hit)>>, met: &mut Met<'m>) {
        let Some((id, ..)) = picked.first() else { return };
        let Some(class) = self.matching.class(*id) else { return };
        let defaults = defaults.get(&(class.kind, class.family)).map_or(&[][..], Vec::as_slice);
        let mut hits: Vec<(u32, Hit)> = Vec::with_capacity(defaults.len() + picked.len());
        let mut left = defaults.iter().copied().peekable();
        // Of several answers for one rule the last and surest counts.
        for of_rule in picked.chunk_by(|a, b| a.1 == b.1) {
            let Some((_, at, hit)) = of_rule.last() else { continue };
            hits.extend(std::iter::from_fn(|| left.next_if(|it| it.0 < *at)));
            left.next_if(|it| it.0 == *at);
            hits.push((*at, *hit));
        }
        hits.extend(left);
        hits.retain(|(_, hit)| *hit != Hit::No);
        self.listed(*id, Hits { ports: self.ports(&hits, *id), rules: hits, caller: Caller::of(class.kind) }, met);
    }

    fn own_node(&self, id: u32, met: &mut Met<'m>) {
        let Some(class) = self.matching.class(id) else { return };
        let hits = rules(self.rulings).map(|(at, rule)| (at, self.matching.hit(rule, class, self.direction)));
        let rules = hits.filter(|(_, hit)| *hit != Hit::No).collect();
        self.listed(id, Hits { rules, ports: Vec::new(), caller: Caller::OwnNode }, met);
    }

    /// Named ports of a class that matter where these rules match.
    fn ports(&self, hits: &[(u32, Hit)], class: u32) -> Vec<u32> {
        let Some(class) = self.matching.class(class).filter(|it| self.direction == Direction::Egress && it.ports != 0) else {
            return Vec::new();
        };
        let matching = self.rulings.iter().flat_map(|it| it.matching(hits));
        let mut ports: Vec<u32> = matching.flat_map(|(rule, _)| self.matching.ports(rule, class)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn listed(&self, class: u32, hits: Hits, met: &mut Met<'m>) {
        // A class of the subject alone is never met: a pod and itself are told apart by the pair of addresses.
        if let Some((subject, peer)) = self.pair(class) {
            let meeting = self.meeting(hits, subject, peer, met);
            met.classes.push((index(class), meeting));
        }
    }

    /// Two ends in different places that stand for the program and the class.
    fn pair(&self, class: u32) -> Option<(End, End)> {
        let peers = self.matching.members(class);
        let pairs = self.subjects.iter().flat_map(|subject| peers.iter().map(move |peer| (*subject, *peer)));
        pairs.into_iter().find(|(subject, peer)| subject.place != peer.place)
    }

    fn meeting(&self, hits: Hits, subject: End, peer: End, met: &mut Met<'m>) -> usize {
        if let Some(known) = met.known.get(&hits) {
            return *known;
        }
        met.meetings.push(self.between(subject, peer, Path::Direct, &hits));
        met.known.insert(hits, met.meetings.len() - 1);
        met.meetings.len() - 1
    }

    /// Everybody whom no rule picks out. Returns the meeting of most of them, who need not be listed: pods of the main family.
    fn others(&self, picked: &[Picked], defaults: &FxHashMap<Group, Vec<(u32, Hit)>>, met: &mut Met<'m>, subject: End) -> usize {
        let is_picked = |class: &u32| picked.binary_search_by_key(class, |it| it.0).is_ok();
        let left = |group: &Group| {
            let classes = self.matching.groups.get(group).into_iter().flatten().copied();
            classes.filter(|it| !is_picked(it) && self.caller(*it) == Caller::Anyone)
        };
        let hits = |group: &Group| {
            let rules = defaults.get(group).cloned().unwrap_or_default();
            Hits { rules, ports: Vec::new(), caller: Caller::of(group.0) }
        };
        let most = (ClassKind::Pod, self.main);
        let rest = match left(&most).find_map(|it| self.pair(it)) {
            Some((subject, peer)) => self.meeting(hits(&most), subject, peer, met),
            // Somebody of whom nothing is known stands for nobody.
            None => {
                let speaks = |rule: &Asking<'_>| match (rule.everyone, rule.names) {
                    (Everyone::Yes | Everyone::ButOwnNode, _) => Hit::Yes,
                    (Everyone::No, Names::Outside | Names::Anywhere) => Hit::Perhaps,
                    (Everyone::No, Names::None) => Hit::No,
                };
                let hits = rules(self.rulings).map(|(at, rule)| (at, speaks(rule))).filter(|(_, hit)| *hit != Hit::No).collect();
                let nobody = End { place: Place::Outside, address: None };
                self.meeting(Hits { rules: hits, ..Hits::default() }, subject, nobody, met)
            }
        };
        for group in defaults.keys() {
            let hits = hits(group);
            if met.known.get(&hits) == Some(&rest) {
                continue;
            }
            for class in left(group) {
                self.listed(class, hits.clone(), met);
            }
        }
        rest
    }

    fn between(&self, subject: End, peer: End, path: Path, hits: &Hits) -> Meeting<'m> {
        let mut among: Vec<Selecting<'m>> = Vec::new();
        let mut rulings = self.rulings;
        for (at, _) in &hits.rules {
            // Both are in order, so that no policy is looked at twice.
            let passed = rulings.partition_point(|it| it.first + number(it.rules.len()) <= *at);
            rulings = rulings.get(passed..).unwrap_or(&[]);
            let Some(ruling) = rulings.first() else { break };
            let Some(rule) = at.checked_sub(ruling.first).and_then(|it| ruling.rules.get(index(it))) else { continue };
            match among.last_mut().filter(|it| std::ptr::eq(it.policy, ruling.policy)) {
                Some(selecting) => selecting.rules.push(rule.rule),
                None => among.push(Selecting { policy: ruling.policy, rules: vec![rule.rule] }),
            }
        }
        Meeting { subject, peer, path, among, isolating: Rc::clone(&self.isolating) }
    }

    fn words(&self, itself: &Hits, ports: &[ContainerPort]) -> String {
        let mut policies = Vec::with_capacity(self.rulings.len());
        let mut rules: Vec<String> = Vec::new();
        for ruling in self.rulings {
            let policy = words::policy(&ruling.policy.origin, ruling.part);
            rules.extend(ruling.matching(&itself.rules).into_iter().map(|(it, hit)| format!("{policy} {} {}", it.rule.index, hit.word())));
            let content = self.contents.get(&std::ptr::from_ref(ruling.policy)).map_or("", String::as_str);
            policies.push(format!("{policy} {content}"));
        }
        let ports = words::listed(ports.iter().map(words::port).collect());
        let of_itself = words::listed(itself.ports.iter().filter_map(|it| self.matching.port(*it)).map(words::port).collect());
        format!("{}: {}; ports {ports}; itself {}; its ports {of_itself}", self.direction, policies.join(", "), rules.join(", "))
    }
}
