//! The verdicts of one direction, each asked once.
//!
//! A connection passes where both directions accept, and each direction is judged by its own end's policies. So the work is one question
//! for each group of subjects and each way its policies see the other side, never one for each pair.

use std::collections::HashMap;

use palisade_engine::{Nodes, Signature, decide, signature};
use palisade_model::{Direction, End, EndpointId, Flow, Model, Path, Place, Verdict};

use super::classes::{Numbered, Side};
use super::ground::Ground;
use super::ports::Ask;

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
    let mut table = Vec::with_capacity(subjects.groups.len());
    for group in &subjects.groups {
        ground.ask(direction, group.policies.iter().copied());
        let mut known: HashMap<(Signature, &[Ask]), usize> = HashMap::new();
        let mut line = Vec::with_capacity(others.slots.len());
        for class in &others.classes {
            let asks = match direction {
                Direction::Egress => others.groups.get(class.group).map_or(&[][..], |it| &it.asks),
                Direction::Ingress => group.asks.as_slice(),
            };
            for slot in others.slots.get(class.slots.clone()).unwrap_or_default() {
                let key = (signature(&ground.stage, &slot.end, Nodes::Alike), asks);
                let row =
                    *known.entry(key).or_insert_with(|| rows.number(verdicts(&mut ground.stage, direction, group.end, slot.end, asks)));
                line.push(row);
            }
        }
        table.push(line);
    }
    Table(table)
}

fn verdicts(model: &mut Model, direction: Direction, subject: End, other: End, asks: &[Ask]) -> Vec<Verdict> {
    let read = model.endpoints.len();
    let other = apart(model, subject, other);
    let (from, to) = match direction {
        Direction::Egress => (subject, other),
        Direction::Ingress => (other, subject),
    };
    let flow = |(protocol, port): Ask| Flow { from, to, protocol, port, path: Path::Direct };
    let verdicts = asks.iter().map(|ask| decide(model, &flow(*ask)).verdict).collect();
    model.endpoints.truncate(read);
    verdicts
}

/// What is alike need not be the same: where one end is both, another one like it takes its place.
fn apart(model: &mut Model, subject: End, other: End) -> End {
    match other.place {
        Place::Pod(id) if other.place == subject.place => {
            let twin = model.endpoint(id).cloned();
            model.endpoints.extend(twin);
            End { place: Place::Pod(EndpointId(model.endpoints.len() - 1)), ..other }
        }
        Place::Pod(_) | Place::Node(_) | Place::Outside => other,
    }
}
