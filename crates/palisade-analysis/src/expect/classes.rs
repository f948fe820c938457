//! Ends that no policy of the question can tell apart, as one.
//!
//! Ends are grouped twice. A group has the same policies judging it, so it is judged alike as a subject. A class of a group also looks the
//! same to every policy that judges the other side, so any two of its members get the same verdicts.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Range;

use palisade_engine::{Nodes, Signature, Values, signature};
use palisade_model::{ContainerPort, Direction, End, Family, NodeId, Place};

use super::ground::Ground;
use super::ports::{Ask, Mentioned, Wish, asks};
use super::sets::Found;

/// One side of a question, sorted.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) groups: Vec<Subjects>,
    pub(super) classes: Vec<Class>,
    /// The ends of the first member of each class.
    pub(super) slots: Vec<Slot>,
}

/// Ends that the same policies judge.
#[derive(Debug)]
pub(super) struct Subjects {
    pub(super) policies: Vec<usize>,
    /// One of them.
    pub(super) end: End,
    /// What is asked of them, as destinations.
    pub(super) asks: Vec<Ask>,
}

/// Ends that are alike.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) group: usize,
    /// Their places in what was found.
    pub(super) members: Vec<usize>,
    pub(super) slots: Range<usize>,
}

/// One end with one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) end: End,
    pub(super) family: Option<Family>,
}

/// Everything that both sides of a question need.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) from: Side,
    pub(super) to: Side,
}

/// Whether the node of a destination matters: only where nodes call.
fn nodes(from: &[Found]) -> Nodes {
    if from.iter().any(|it| matches!(it.place, Place::Node(_))) { Nodes::Apart } else { Nodes::Alike }
}

/// Sorts both sides of a question.
pub(super) fn sort(ground: &mut Ground<'_>, from: &[Found], to: &[Found]) -> Sides {
    let judging = |ground: &mut Ground<'_>, found: &[Found], direction| -> Vec<Vec<usize>> {
        found.iter().map(|it| ground.selecting(it.place, direction)).collect()
    };
    let egress = judging(ground, from, Direction::Egress);
    let ingress = judging(ground, to, Direction::Ingress);
    let all = |policies: &[Vec<usize>]| policies.iter().flatten().copied().collect::<BTreeSet<usize>>();
    let (of_egress, of_ingress) = (all(&egress), all(&ingress));
    let sources = egress.into_iter().zip(from);
    let source =
        |(policies, it): (Vec<usize>, &Found)| GroupKey { compared: compared(ground, &policies, it), policies, ..GroupKey::default() };
    let sources = sources.map(source).collect();
    let destinations = called(ground, to, ingress, &of_egress, nodes(from));
    let from = side(ground, from, sources, Direction::Ingress, &of_ingress);
    let to = side(ground, to, destinations, Direction::Egress, &of_egress);
    Sides { from, to }
}

/// What policies compare others with of an end that they judge.
fn compared(ground: &Ground<'_>, policies: &[usize], found: &Found) -> Vec<Values> {
    let Place::Pod(id) = found.place else { return Vec::new() };
    let relations = policies.iter().filter_map(|it| ground.relations.get(it));
    relations.filter_map(|it| Some(it.of(&ground.stage, ground.stage.endpoint(id)?))).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct GroupKey {
    policies: Vec<usize>,
    /// What relations of these compare with.
    compared: Vec<Values>,
    /// The ports of a destination that its policies name.
    named: Vec<ContainerPort>,
    node: Option<NodeId>,
    asks: Vec<Ask>,
}

/// What decides which ports of a destination are worth asking: its policies, its ports, and what the sentence wants to know.
type Worth<'f> = (Vec<usize>, &'f [ContainerPort], &'f [Wish]);

/// The groups of destinations. Policies of the sources, and each one's own, say which of its ports are worth asking.
fn called(ground: &Ground<'_>, to: &[Found], ingress: Vec<Vec<usize>>, egress: &BTreeSet<usize>, nodes: Nodes) -> Vec<GroupKey> {
    let by_sources = Mentioned::by(egress.iter().filter_map(|at| ground.half(Direction::Egress, *at)));
    let mut known: HashMap<Worth<'_>, Vec<Ask>> = HashMap::new();
    let mut keys = Vec::with_capacity(to.len());
    for (found, policies) in to.iter().zip(ingress) {
        let pod = match found.place {
            Place::Pod(id) => ground.stage.endpoint(id),
            Place::Node(_) | Place::Outside => None,
        };
        let ports = pod.map_or(&[][..], |pod| &pod.ports);
        let own = Mentioned::by(policies.iter().filter_map(|at| ground.half(Direction::Ingress, *at)));
        let wanted = (policies.clone(), ports, found.wishes.as_slice());
        let asks = known.entry(wanted).or_insert_with(|| asks(&found.wishes, &[&by_sources, &own], ports)).clone();
        let node = match nodes {
            Nodes::Alike => None,
            Nodes::Apart => pod.and_then(|pod| pod.node),
        };
        keys.push(GroupKey { compared: compared(ground, &policies, found), policies, named: own.named(ports), node, asks });
    }
    keys
}

/// What the policies of the other side see of an end, by each of its addresses.
type Seen = Vec<(Option<Family>, Signature)>;

/// `facing` are the policies that judge the other side, in their `direction`.
fn side(ground: &mut Ground<'_>, found: &[Found], keys: Vec<GroupKey>, direction: Direction, facing: &BTreeSet<usize>) -> Side {
    ground.ask(direction, facing.iter().copied());
    let mut side = Side::default();
    let mut groups: Numbered<GroupKey> = Numbered::default();
    let mut classes: Numbered<(usize, Seen)> = Numbered::default();
    for (at, (it, key)) in found.iter().zip(keys).enumerate() {
        let (Some(end), policies, asks) = (it.ends.first().copied(), key.policies.clone(), key.asks.clone()) else { continue };
        let group = groups.number(key);
        if group == side.groups.len() {
            side.groups.push(Subjects { policies, end, asks });
        }
        let family = |end: &End| end.address.map(Family::of);
        let seen: Seen = it.ends.iter().map(|end| (family(end), signature(&ground.stage, end, Nodes::Alike))).collect();
        let class = classes.number((group, seen));
        match side.classes.get_mut(class) {
            Some(class) => class.members.push(at),
            None => {
                let first = side.slots.len();
                side.slots.extend(it.ends.iter().map(|end| Slot { end: *end, family: family(end) }));
                side.classes.push(Class { group, members: vec![at], slots: first..side.slots.len() });
            }
        }
    }
    side
}

/// Numbers values in the order in which they are first met.
#[derive(Debug)]
pub(super) struct Numbered<T>(HashMap<T, usize>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered(HashMap::new())
    }
}

impl<T: Eq + Hash> Numbered<T> {
    pub(super) fn number(&mut self, value: T) -> usize {
        let next = self.0.len();
        *self.0.entry(value).or_insert(next)
    }
}
