//! The verdicts of one direction, each asked once.
//!
//! A connection passes where both directions accept, and each direction is judged by its own end's policies. So the work is one question
//! for each group of subjects and each way its policies see the other side, never one for each pair.

use std::collections::{BTreeSet, HashMap};

use palisade_engine::{Nodes, decide, signature};
use palisade_model::{ContainerPort, Direction, End, Flow, Model, NetworkId, Path, Place, Verdict};

use super::classes::{Numbered, Side};
use super::ground::Ground;
use super::ports::{Ask, Intervals, Mentioned};

/// All rows of verdicts that occur, one verdict for each ask.
#[derive(Debug, Default)]
pub(super) struct Rows {
    numbers: Numbered<Vec<Verdict>>,
    rows: Vec<Vec<Verdict>>,
}

impl Rows {
    pub(super) fn get(&self, row: usize) -> &[Verdict] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }

    fn number(&mut self, row: Vec<Verdict>) -> usize {
        let number = self.numbers.number(row.clone());
        if number == self.rows.len() {
            self.rows.push(row);
        }
        number
    }
}

/// The row of each group of subjects against each slot of the other side.
#[derive(Debug)]
pub(super) struct Table(Vec<Vec<usize>>);

impl Table {
    pub(super) fn row(&self, group: usize, slot: usize) -> Option<usize> {
        self.0.get(group)?.get(slot).copied()
    }
}

/// Judges one direction.
pub(super) fn judge(ground: &mut Ground<'_>, direction: Direction, subjects: &Side, others: &Side, rows: &mut Rows) -> Table {
    let views = views(ground, direction, subjects, others);
    let mut numbers: Numbered<&[Ask]> = Numbered::default();
    let asked: Vec<(usize, &[Ask])> = others.groups.iter().map(|it| (numbers.number(&it.asks), it.asks.as_slice())).collect();
    let mut table = Vec::with_capacity(subjects.groups.len());
    for group in &subjects.groups {
        ground.ask(direction, group.policies.iter().copied());
        let columns: Vec<&Vec<usize>> = group.policies.iter().filter_map(|at| views.get(at)).collect();
        let mut bench = Bench::new(&ground.stage, direction, group.end);
        let mut looks: Numbered<Vec<usize>> = Numbered::default();
        let mut known: HashMap<(usize, usize), usize> = HashMap::new();
        let mut line = Vec::with_capacity(others.slots.len());
        for class in &others.classes {
            let (number, asks) = match direction {
                Direction::Egress => asked.get(class.group).copied().unwrap_or_default(),
                Direction::Ingress => (0, group.asks.as_slice()),
            };
            for (at, slot) in class.slots.clone().zip(others.slots.get(class.slots.clone()).unwrap_or_default()) {
                let look = looks.number(columns.iter().filter_map(|column| column.get(at).copied()).collect());
                let row = known.entry((look, number)).or_insert_with(|| rows.number(bench.row(&mut ground.stage, look, slot.end, asks)));
                line.push(*row);
            }
        }
        table.push(line);
    }
    Table(table)
}

/// What each policy of the subjects sees of each slot: slots with the same number look the same to it.
fn views(ground: &mut Ground<'_>, direction: Direction, subjects: &Side, others: &Side) -> HashMap<usize, Vec<usize>> {
    let policies: BTreeSet<usize> = subjects.groups.iter().flat_map(|group| &group.policies).copied().collect();
    let mut views = HashMap::new();
    for at in policies {
        ground.ask(direction, [at]);
        let mut numbers = Numbered::default();
        let view = others.slots.iter().map(|slot| numbers.number(signature(&ground.stage, &slot.end, Nodes::Alike)));
        views.insert(at, view.collect());
    }
    views
}

/// What the policies on the stage have said so far about one group of subjects.
struct Bench {
    direction: Direction,
    subject: End,
    mentioned: Mentioned,
    /// By the ports of the destination that the policies name.
    intervals: HashMap<Vec<ContainerPort>, Intervals>,
    /// By how the other end looks to the policies, and the first port of an interval.
    verdicts: HashMap<(usize, Ask), Verdict>,
}

impl Bench {
    fn new(model: &Model, direction: Direction, subject: End) -> Bench {
        let mentioned = Mentioned::by(model.policies.iter());
        Bench { direction, subject, mentioned, intervals: HashMap::new(), verdicts: HashMap::new() }
    }

    /// The verdicts against an end that looks like this.
    fn row(&mut self, model: &mut Model, look: usize, other: End, asks: &[Ask]) -> Vec<Verdict> {
        let read = model.endpoints.slot_count();
        let other = apart(model, self.subject, other);
        let (from, to) = match self.direction {
            Direction::Egress => (self.subject, other),
            Direction::Ingress => (other, self.subject),
        };
        let ports = match to.place {
            Place::Pod(id) => model.endpoint(id).map_or(&[][..], |pod| &pod.ports),
            Place::Node(_) | Place::Outside => &[],
        };
        let mentioned = &self.mentioned;
        let intervals = self.intervals.entry(mentioned.named(ports)).or_insert_with(|| Intervals::of(mentioned, ports));
        let mut row = Vec::with_capacity(asks.len());
        for ask in asks {
            let (protocol, port) = intervals.first(*ask);
            let flow = Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct };
            row.push(*self.verdicts.entry((look, (protocol, port))).or_insert_with(|| decide(model, &flow).verdict));
        }
        model.endpoints.truncate(read);
        row
    }
}

/// What is alike need not be the same: where one end is both, another one like it takes its place.
fn apart(model: &mut Model, subject: End, other: End) -> End {
    match other.place {
        Place::Pod(id) if other.place == subject.place => match model.endpoints.shared(id).cloned() {
            Some(twin) => End { place: Place::Pod(model.endpoints.push_shared(twin)), ..other },
            None => other,
        },
        Place::Pod(_) | Place::Node(_) | Place::Outside => other,
    }
}
