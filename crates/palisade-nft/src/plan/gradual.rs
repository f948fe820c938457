//! A change in steps within the table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::Direction;

use crate::ids::Space;
use crate::naming::{class_map, leaves_map, programs_map, range_map, subject_map};
use crate::plan::Step;
use crate::plan::links::Links;
use crate::plan::moves::{InForce, Moves, moves, time};
use crate::plan::reduce::reduce;
use crate::plan::tables::{Program, Tables, is_ingress};
use crate::plan::together::{Hurry, join, may_come_at_once};
use crate::plan::transitions::{Context, Meanwhile, Transition, may_mix, transitions};
use crate::ruleset::{Address, Chain, Ruleset, VerdictMap};

/// The steps from one ruleset to another, if there are any that are safe.
pub(super) fn plan(old: &Ruleset, new: &Ruleset) -> Option<Vec<Step>> {
    let (before, after) = reduce(old, new);
    if !only_grows_and_shrinks(&before, &after) {
        return None;
    }
    let (old, new) = (&Tables::read(old)?, &Tables::read(new)?);
    if !means_the_same(old, new) {
        return None;
    }
    let mut moves = moves(old, new, &before, &after)?;
    let listed =
        |it: &u32| Direction::BOTH.iter().any(|at| old.sides.of(*at).programs.values().any(|program| program.leaves.contains_key(it)));
    let mut classes = free_numbers(Space::Classes, |it| old.classes.contains(&it) || new.classes.contains(&it) || listed(&it));
    time(&mut moves, old, new, &InForce::of(old, new), &mut classes);
    let mut context = Context::new(old, new, &moves);
    let known = |it: u32| [old, new].iter().any(|of| Direction::BOTH.iter().any(|at| of.sides.of(*at).programs.contains_key(&it)));
    let transitions = transitions(&mut context, free_numbers(Space::Programs, known))?;
    if !may_mix(&mut context, &transitions)? {
        return None;
    }
    let hurry = may_come_at_once(&mut context, &transitions, &before)?;
    let change = Stages { context: &context, before: &before, after: &after, transitions: &transitions, hurry };
    let mut stages = change.all()?;
    join(&mut stages, hurry);
    Some(steps(&stages))
}

/// Numbers that are not taken, each once.
fn free_numbers(space: Space, taken: impl Fn(u32) -> bool) -> impl FnMut() -> u32 {
    let mut next = *space.numbers().start();
    move || {
        while taken(next) {
            next += 1;
        }
        next += 1;
        next - 1
    }
}

/// Whether chains are only added or taken away, and none is changed; but chains at links may get others.
fn only_grows_and_shrinks(before: &Ruleset, after: &Ruleset) -> bool {
    let chain = |name: &String, old: &Chain| match after.chains.get(name) {
        Some(new) => is_ingress(old) && is_ingress(new) && old.rules == new.rules,
        None => old.hook.is_none() || is_ingress(old),
    };
    let comes = |(name, new): (&String, &Chain)| before.chains.contains_key(name) || new.hook.is_none() || is_ingress(new);
    before.chains.iter().all(|(name, old)| chain(name, old)) && after.chains.iter().all(comes)
}

/// Whether each program has the same leaf for each class that it meets before and after.
fn means_the_same(old: &Tables<'_>, new: &Tables<'_>) -> bool {
    Direction::BOTH.iter().all(|direction| {
        let (before, after) = (old.sides.of(*direction), new.sides.of(*direction));
        let common = before.programs.iter().filter_map(|(number, old)| Some((*number, old, after.programs.get(number)?)));
        common.into_iter().all(|(number, one, other)| {
            if one.lists_as(other) {
                return one.itself == other.itself && one.rest == other.rest;
            }
            let both = one.with(other);
            // While the table changes, what either lists is listed.
            let says = |class: &u32| {
                let leaf = both.leaf(*class);
                (leaf == one.leaf(*class) || !old.classes.contains(class) || !before.meets(number, *class))
                    && (leaf == other.leaf(*class) || !new.classes.contains(class) || !after.meets(number, *class))
            };
            one.itself == other.itself && one.rest == other.rest && both.leaves.keys().all(says)
        })
    })
}

/// The states that the table goes through, without what stays the same.
struct Stages<'a> {
    context: &'a Context<'a>,
    before: &'a Ruleset,
    after: &'a Ruleset,
    transitions: &'a [Transition],
    hurry: Hurry,
}

/// Where in a change addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Refined,
    Moved,
    End,
}

impl Stages<'_> {
    /// Before, refined, narrowed, moved, widened, settled, swept.
    fn all(&self) -> Option<[Ruleset; 7]> {
        let mut refined = self.prepared()?;
        // Where nobody changes program, there is nothing that a class could be mixed with.
        let direct = self.transitions.is_empty() || self.hurry == Hurry::AtOnce;
        self.set_classes(&mut refined, if direct { At::Start } else { At::Refined });
        let links = Links { old: self.context.old.ruleset, new: self.context.new.ruleset, before: self.before, after: self.after };
        links.prepare(&mut refined);
        let mut narrowed = refined.clone();
        self.set_subjects(&mut narrowed, |transition| match &transition.meanwhile {
            Meanwhile::Old => transition.from,
            Meanwhile::New => transition.to,
            Meanwhile::Meet { number, .. } => Some(*number),
        });
        links.narrow(&mut narrowed);
        let mut moved = narrowed.clone();
        self.set_classes(&mut moved, if direct { At::End } else { At::Moved });
        let mut widened = moved.clone();
        self.set_subjects(&mut widened, |transition| transition.to);
        links.widen(&mut widened);
        let mut settled = widened.clone();
        self.set_classes(&mut settled, At::End);
        Some([self.before.clone(), refined, narrowed, moved, widened, settled, self.after.clone()])
    }

    /// With everything that nobody refers to yet.
    fn prepared(&self) -> Option<Ruleset> {
        let mut prepared = self.before.clone();
        for (name, chain) in self.after.chains.iter().filter(|(_, chain)| chain.hook.is_none()) {
            prepared.chains.entry(name.clone()).or_insert_with(|| chain.clone());
        }
        for (name, map) in &self.after.verdicts {
            prepared.verdicts.entry(name.clone()).or_default().elements.extend(map.elements.clone());
        }
        for (name, set) in &self.after.pairs {
            prepared.pairs.entry(name.clone()).or_insert_with(|| set.clone()).elements.extend(set.elements.iter().copied());
        }
        self.context.add_meets(&mut prepared);
        for transition in self.transitions {
            if let Meanwhile::Meet { number, program } = &transition.meanwhile {
                let direction = transition.direction;
                prepared.chains.insert(program.chain.clone(), program.as_chain(direction));
                prepared.verdicts.insert(leaves_map(&program.chain), VerdictMap { elements: program.leaves.clone().into_owned() });
                prepared.verdicts.entry(programs_map(direction)).or_default().elements.insert(*number, program.chain.clone());
            }
        }
        self.teach(&mut prepared)?;
        self.set_classes(&mut prepared, At::Start);
        Some(prepared)
    }

    /// Tells programs of classes that their own ruleset does not know, and that they may meet.
    fn teach(&self, prepared: &mut Ruleset) -> Option<()> {
        let (old, new) = (self.context.old, self.context.new);
        let on_the_way = self.context.on_the_way();
        for direction in Direction::BOTH {
            let (before, after) = (old.sides.of(direction), new.sides.of(direction));
            let used: BTreeSet<u32> = before.subjects().chain(after.subjects()).map(|it| it.1).collect();
            for number in used {
                let (was, is) = (before.programs.get(&number), after.programs.get(&number));
                let Some(program) = was.or(is) else { continue };
                let knows = |class: &u32| (was.is_some() && old.classes.contains(class)) || (is.is_some() && new.classes.contains(class));
                for class in on_the_way.iter().filter(|it| !knows(it)) {
                    let leaf = self.context.leaf_of(direction, number, *class)?;
                    let map = prepared.verdicts.entry(leaves_map(&program.chain)).or_default();
                    tell(map, program, *class, leaf);
                }
            }
        }
        Some(())
    }

    fn set_subjects(&self, stage: &mut Ruleset, program: impl Fn(&Transition) -> Option<u32>) {
        for transition in self.transitions {
            let number = program(transition);
            for address in &transition.subjects {
                let Some(map) = stage.data.get_mut(&subject_map(transition.direction, Address::of(*address))) else { continue };
                match number {
                    Some(number) => map.elements.insert(*address, number),
                    None => map.elements.remove(address),
                };
            }
        }
    }

    fn set_classes(&self, stage: &mut Ruleset, at: At) {
        let moves: &Moves = self.context.moves;
        let mut spans: BTreeMap<IpAddr, (IpAddr, u32)> = BTreeMap::new();
        for (pair, moving) in moves {
            let (refined, moved) = moving.way.classes(*pair);
            let class = match at {
                At::Start => pair.0,
                At::Refined => refined,
                At::Moved => moved,
                At::End => pair.1,
            };
            for address in &moving.addresses {
                let Some(map) = stage.data.get_mut(&class_map(Address::of(*address))) else { continue };
                if self.is_written(*address, *pair, class) {
                    map.elements.insert(*address, class);
                } else {
                    map.elements.remove(address);
                }
            }
            spans.extend(moving.spans.iter().map(|(first, last)| (*first, (*last, class))));
        }
        for family in Address::BOTH {
            let of = |ruleset: &Ruleset| ruleset.intervals.get(&range_map(family)).map(|it| it.elements.clone()).unwrap_or_default();
            let here = |first: &IpAddr| Address::of(*first) == family;
            let spans: BTreeMap<IpAddr, (IpAddr, u32)> =
                spans.iter().filter(|(first, _)| here(first)).map(|(first, it)| (*first, *it)).collect();
            // As they are written where all of them are as there.
            let written = [of(self.before), of(self.after)].into_iter().find(|it| says(it, &spans));
            if let Some(map) = stage.intervals.get_mut(&range_map(family)) {
                map.elements = written.unwrap_or(spans);
            }
        }
    }

    /// Whether an address that moves is an element while it has a class, or has that class by its range.
    fn is_written(&self, address: IpAddr, (from, to): (u32, u32), class: u32) -> bool {
        let (old, new) = (self.context.old, self.context.new);
        let map = class_map(Address::of(address));
        let in_map = |of: &Tables<'_>| of.ruleset.data.get(&map).is_some_and(|it| it.elements.contains_key(&address));
        let range_stays = old.range_class(address) == new.range_class(address);
        match (in_map(old), in_map(new)) {
            (true, true) => true,
            (false, _) => class != from || !range_stays,
            (true, false) => class != to || !range_stays,
        }
    }
}

/// Whether ranges give all parts of them the class that these have.
fn says(ranges: &BTreeMap<IpAddr, (IpAddr, u32)>, parts: &BTreeMap<IpAddr, (IpAddr, u32)>) -> bool {
    parts.iter().all(|(first, (_, class))| ranges.range(..=*first).next_back().is_some_and(|(_, (_, of))| of == class))
}

/// A change that ended early may have told it something else.
fn tell(map: &mut VerdictMap, program: &Program<'_>, class: u32, leaf: &str) {
    if leaf == program.rest {
        map.elements.remove(&class);
    } else {
        map.elements.insert(class, leaf.to_owned());
    }
}

/// Commits from stage to stage, with grace between those that must not be mixed.
fn steps(stages: &[Ruleset; 7]) -> Vec<Step> {
    let [before, refined, rest @ ..] = stages;
    // Nobody meets what was only prepared, and old programs do not tell the classes apart that are refined. But whoever comes to a new program
    // must find its chain and the new classes: rules are those of the commit before, and ranges are in force a moment late.
    let mut steps: Vec<Step> = commit(before, refined).into_iter().collect();
    let mut stage = refined;
    for next in rest {
        if let Some(commit) = commit(stage, next) {
            steps.extend([commit, Step::Grace]);
        }
        stage = next;
    }
    if matches!(steps.last(), Some(Step::Commit(_))) {
        steps.push(Step::Grace);
    }
    steps
}

fn commit(from: &Ruleset, to: &Ruleset) -> Option<Step> {
    // Most stages are as the one before.
    if from == to {
        return None;
    }
    let transaction = to.changes_since(from);
    (!transaction.is_empty()).then_some(Step::Commit(transaction))
}
