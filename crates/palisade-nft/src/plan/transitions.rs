//! Subjects that change their program, by way of what both the old and the new one allow.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use palisade_model::{Direction, PerDirection};

use crate::plan::leaf::{self, Leaf};
use crate::plan::moves::{Ends, Moves, Way};
use crate::plan::tables::{Program, Tables};
use crate::ruleset::{Address, Chain, Ruleset};

/// All pods of the node that go from one program to another. Without one, nothing is denied.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) direction: Direction,
    pub(super) from: Option<u32>,
    pub(super) to: Option<u32>,
    pub(super) subjects: BTreeSet<IpAddr>,
    pub(super) meanwhile: Meanwhile,
}

/// What subjects have between narrowing and widening.
#[derive(Clone, Debug)]
pub(super) enum Meanwhile {
    /// The old program: it allows no more than the new one.
    Old,
    /// The new program: it allows no more than the old one.
    New,
    /// A program of its own.
    Meet { number: u32, program: Program<'static> },
}

/// What is known of both rulesets while a change is planned.
pub(super) struct Context<'a> {
    pub(super) old: &'a Tables<'a>,
    pub(super) new: &'a Tables<'a>,
    pub(super) moves: &'a Moves,
    leaves: BTreeMap<String, Rc<Leaf<'a>>>,
    /// How many ranges of ports these tell apart.
    read: usize,
    /// Chains of leaves that let pass what two others both let pass, by these.
    meets: BTreeMap<(String, String), (String, Chain)>,
    /// The number of the next meet.
    next: usize,
    ends: Ends,
    through: BTreeMap<u32, (u32, u32)>,
}

/// The leaf of somebody who may have no program.
type Met<'a> = Option<Rc<Leaf<'a>>>;

/// Leaves that share ports may tell apart far more ranges than are written. Where all that a change looks at tell apart more than this, the whole table is
/// replaced instead: that costs what is written.
const MOST_RANGES: usize = 200_000;

impl<'a> Context<'a> {
    pub(super) fn new(old: &'a Tables<'a>, new: &'a Tables<'a>, moves: &'a Moves) -> Context<'a> {
        let through = moves.iter().filter_map(|(pair, moving)| match moving.way {
            Way::Through(number) => Some((number, *pair)),
            Way::First | Way::Between | Way::Last => None,
        });
        let (leaves, meets) = (BTreeMap::new(), BTreeMap::new());
        Context { old, new, moves, leaves, read: 0, meets, next: 0, ends: Ends::of(moves), through: through.collect() }
    }

    /// Classes that addresses which move have on their way.
    pub(super) fn on_the_way(&self) -> BTreeSet<u32> {
        self.moves.iter().flat_map(|(pair, moving)| <[u32; 2]>::from(moving.way.classes(*pair))).collect()
    }

    /// The name of the leaf that a program has for a class, also for one that its ruleset does not know: then for what moves there. Where it
    /// tells apart what moves there, nobody has that class before it is narrowed, and any leaf will do: what comes of it is checked. None if
    /// nothing moves there, or there is no such program.
    pub(super) fn leaf_of(&self, direction: Direction, number: u32, class: u32) -> Option<&'a str> {
        let before = self.old.sides.of(direction).programs.get(&number);
        let after = self.new.sides.of(direction).programs.get(&number);
        let known = [(before, self.old), (after, self.new)].into_iter().filter(|(_, of)| of.classes.contains(&class));
        let known: Vec<&Program<'_>> = known.filter_map(|(program, _)| program).collect();
        // What either lists is listed from the first step to the last.
        let listed = [before, after].into_iter().flatten().find_map(|it| it.leaves.get(&class));
        if let Some(program) = known.first() {
            return Some(listed.unwrap_or(&program.rest));
        }
        if let Some((from, to)) = self.through.get(&class) {
            return before.map(|it| it.leaf(*from)).or(after.map(|it| it.leaf(*to)));
        }
        let (program, others) = match (before, after) {
            (Some(program), _) => (program, self.ends.sources.get(&class)?),
            (None, Some(program)) => (program, self.ends.targets.get(&class)?),
            (None, None) => return None,
        };
        others.first().map(|it| program.leaf(*it))
    }

    fn met(&mut self, direction: Direction, number: Option<u32>, class: u32) -> Option<Met<'a>> {
        let Some(number) = number else { return Some(None) };
        let name = self.leaf_of(direction, number, class)?;
        self.leaf(name).map(Some)
    }

    fn leaf(&mut self, name: &str) -> Option<Rc<Leaf<'a>>> {
        if let Some(leaf) = self.leaves.get(name) {
            return Some(Rc::clone(leaf));
        }
        let (old, new) = (self.old.ruleset, self.new.ruleset);
        let chain_named = |name: &str| old.chains.get(name).or_else(|| new.chains.get(name));
        let leaf = Rc::new(Leaf::read(chain_named(name)?, chain_named)?);
        self.read += leaf.len();
        if self.read > MOST_RANGES {
            return None;
        }
        self.leaves.insert(name.to_owned(), Rc::clone(&leaf));
        Some(leaf)
    }

    /// Whether a program lets everything pass, whoever the peer is.
    pub(super) fn lets_all_pass(&mut self, direction: Direction, number: u32) -> Option<bool> {
        let (old, new) = (self.old, self.new);
        let programs = [old, new].into_iter().filter_map(|it| it.sides.of(direction).programs.get(&number));
        let leaves: BTreeSet<&String> = programs.flat_map(|it| it.leaves.values().chain([&it.itself, &it.rest])).collect();
        for name in leaves {
            let leaf = self.leaf(name)?;
            if !leaf::all([Some(&leaf)], |[passes]| passes) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The name of a leaf that lets pass what both let pass.
    fn meet(&mut self, one: &str, other: &str) -> Option<String> {
        if one == other {
            return Some(one.to_owned());
        }
        let key = (one.to_owned(), other.to_owned());
        if let Some((name, _)) = self.meets.get(&key) {
            return Some(name.clone());
        }
        let (one, other) = (self.leaf(one)?, self.leaf(other)?);
        let (number, name) =
            (self.next..).map(|it| (it, format!("meet-{it:08x}"))).find(|it| !self.old.ruleset.chains.contains_key(&it.1))?;
        self.next = number + 1;
        self.meets.insert(key, (name.clone(), one.meet(&other)));
        Some(name)
    }

    /// Adds the chains of all meets that were asked for.
    pub(super) fn add_meets(&self, ruleset: &mut Ruleset) {
        ruleset.chains.extend(self.meets.values().cloned());
    }
}

/// Everybody who changes program, with what they have meanwhile. None if a leaf cannot be read. `free` gives numbers that no program has.
pub(super) fn transitions(context: &mut Context<'_>, mut free: impl FnMut() -> u32) -> Option<Vec<Transition>> {
    let mut found = Vec::new();
    for direction in Direction::BOTH {
        let (before, after) = (context.old.sides.of(direction), context.new.sides.of(direction));
        let mut ways: BTreeMap<(Option<u32>, Option<u32>), BTreeSet<IpAddr>> = BTreeMap::new();
        for (address, from) in before.subjects() {
            let to = after.subject(address);
            if to != Some(from) {
                ways.entry((Some(from), to)).or_default().insert(address);
            }
        }
        for (address, to) in after.subjects().filter(|(address, _)| before.subject(*address).is_none()) {
            ways.entry((None, Some(to))).or_default().insert(address);
        }
        for ((from, to), subjects) in ways {
            let meanwhile = meanwhile(context, direction, from, to, &mut free)?;
            found.push(Transition { direction, from, to, subjects, meanwhile });
        }
    }
    Some(found)
}

fn meanwhile(
    context: &mut Context<'_>,
    direction: Direction,
    from: Option<u32>,
    to: Option<u32>,
    free: &mut impl FnMut() -> u32,
) -> Option<Meanwhile> {
    let (Some(from), Some(to)) = (from, to) else {
        return Some(if from.is_none() { Meanwhile::New } else { Meanwhile::Old });
    };
    let (old, new) = (context.old, context.new);
    let one = old.sides.of(direction).programs.get(&from)?;
    let other = new.sides.of(direction).programs.get(&to)?;
    let on_the_way = context.on_the_way();
    let known = one.leaves.keys().chain(other.leaves.keys()).filter(|it| old.classes.contains(it) && new.classes.contains(it));
    let classes: BTreeSet<u32> = known.copied().chain(on_the_way).collect();
    let mut leaves: BTreeMap<u32, (String, String)> = BTreeMap::new();
    for class in classes {
        let both = (context.leaf_of(direction, from, class)?.to_owned(), context.leaf_of(direction, to, class)?.to_owned());
        leaves.insert(class, both);
    }
    let pairs: BTreeSet<(&str, &str)> = leaves.values().map(|(one, other)| (one.as_str(), other.as_str())).collect();
    let pairs: Vec<(&str, &str)> =
        pairs.into_iter().chain([(one.rest.as_str(), other.rest.as_str()), (one.itself.as_str(), other.itself.as_str())]).collect();
    let (mut narrower, mut wider) = (true, true);
    for (one, other) in pairs.into_iter().filter(|(one, other)| one != other) {
        let (one, other) = (context.leaf(one)?, context.leaf(other)?);
        narrower &= leaf::all([Some(&one), Some(&other)], |[old, new]| old || !new);
        wider &= leaf::all([Some(&one), Some(&other)], |[old, new]| new || !old);
    }
    if wider {
        return Some(Meanwhile::Old);
    }
    if narrower {
        return Some(Meanwhile::New);
    }
    let number = free();
    let (itself, rest) = (context.meet(&one.itself, &other.itself)?, context.meet(&one.rest, &other.rest)?);
    let mut listed = BTreeMap::new();
    for (class, (one, other)) in leaves {
        let leaf = context.meet(&one, &other)?;
        if leaf != rest {
            listed.insert(class, leaf);
        }
    }
    let program = Program { number, chain: format!("{direction}-{number:08x}"), itself, rest, leaves: Cow::Owned(listed) };
    Some(Meanwhile::Meet { number, program })
}

impl Meanwhile {
    /// Whether it accepts what the old and the new program accept or not.
    fn accepts(&self, old: bool, new: bool) -> bool {
        match self {
            Meanwhile::Old => old,
            Meanwhile::New => new,
            Meanwhile::Meet { .. } => old && new,
        }
    }
}

/// Whether classes may change between narrowing and widening: nobody who changes program may meet a class under the number of another so that
/// something is lost, and no two pods of the node that change class may each be seen as what only one ruleset has them for.
pub(super) fn may_mix(context: &mut Context<'_>, transitions: &[Transition]) -> Option<bool> {
    let moves = context.moves;
    let between: Vec<_> = moves.iter().filter(|(_, moving)| moving.way == Way::Between).collect();
    for transition in transitions {
        for ((from, to), moving) in &between {
            let meets = |subject: &IpAddr| moving.touches(Address::of(*subject), *subject);
            if transition.subjects.iter().any(meets) && !loses_nothing(context, transition, (*from, *to))? {
                return Some(false);
            }
        }
    }
    let locals = locals(context);
    for (at, (one, members)) in locals.iter().enumerate() {
        for (place, (other, _)) in locals.iter().enumerate() {
            if (at != place || *members > 1) && one.family == other.family && !leaks_nothing(context, transitions, one, other)? {
                return Some(false);
            }
        }
    }
    Some(true)
}

fn loses_nothing(context: &mut Context<'_>, transition: &Transition, (from, to): (u32, u32)) -> Option<bool> {
    let direction = transition.direction;
    let mut met = |number, class| context.met(direction, number, class);
    let leaves = [met(transition.from, from)?, met(transition.to, from)?, met(transition.from, to)?, met(transition.to, to)?];
    let meanwhile = &transition.meanwhile;
    Some(leaf::all(leaves.each_ref().map(Option::as_deref), |[old, new_before, old_after, new]| {
        !(old && new) || (meanwhile.accepts(old, new_before) && meanwhile.accepts(old_after, new))
    }))
}

/// A pod of the node that changes class between narrowing and widening, and all like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Local {
    family: Address,
    pair: (u32, u32),
    /// Programs before and after it.
    egress: (Option<u32>, Option<u32>),
    ingress: (Option<u32>, Option<u32>),
}

fn locals(context: &Context<'_>) -> BTreeMap<Local, usize> {
    let mut locals = BTreeMap::new();
    for (pair, moving) in context.moves.iter().filter(|(_, moving)| moving.way == Way::Between) {
        for address in &moving.addresses {
            let programs =
                |direction| (context.old.sides.of(direction).subject(*address), context.new.sides.of(direction).subject(*address));
            let ways = PerDirection { egress: programs(Direction::Egress), ingress: programs(Direction::Ingress) };
            if ways.egress != (None, None) || ways.ingress != (None, None) {
                let local = Local { family: Address::of(*address), pair: *pair, egress: ways.egress, ingress: ways.ingress };
                *locals.entry(local).or_insert(0) += 1;
            }
        }
    }
    locals
}

/// Whether a packet from one to the other that leaves by the old class and arrives by the new one passes only if it may.
fn leaks_nothing(context: &mut Context<'_>, transitions: &[Transition], one: &Local, other: &Local) -> Option<bool> {
    let meanwhile = |direction: Direction, (from, to): (Option<u32>, Option<u32>)| {
        let found = transitions.iter().find(|it| (it.direction, it.from, it.to) == (direction, from, to));
        found.map_or(Meanwhile::Old, |it| it.meanwhile.clone())
    };
    let (leaving, arriving) = (meanwhile(Direction::Egress, one.egress), meanwhile(Direction::Ingress, other.ingress));
    let mut out = |number, class| context.met(Direction::Egress, number, class);
    let (peer_before, peer_after) = other.pair;
    let [out_old, out_new, out_final] = [out(one.egress.0, peer_before)?, out(one.egress.1, peer_before)?, out(one.egress.1, peer_after)?];
    let mut into = |number, class| context.met(Direction::Ingress, number, class);
    let (source_before, source_after) = one.pair;
    let [in_old, in_new, in_first] =
        [into(other.ingress.0, source_after)?, into(other.ingress.1, source_after)?, into(other.ingress.0, source_before)?];
    let leaves = [&out_old, &out_new, &out_final, &in_old, &in_new, &in_first].map(Option::as_deref);
    Some(leaf::all(leaves, |[out_old, out_new, out_final, in_old, in_new, in_first]| {
        !(leaving.accepts(out_old, out_new) && arriving.accepts(in_old, in_new)) || in_first || out_final
    }))
}
