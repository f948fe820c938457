//! What was changed when, and what policy said then: written by who changes, read by who judges packets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use palisade_model::Model;

use crate::soak::change::Kind;
use crate::soak::classes::Line;

/// How many models are kept for what is said about a leak. Packets are judged some seconds after they were sent.
const MODELS: usize = 4_096;

/// Shared between the two.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Twice the number of the model in force; one more on the way to the next.
    moment: AtomicU64,
    stop: AtomicBool,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    /// What each model says of each class.
    lines: Vec<Arc<[Line]>>,
    /// What led from each model to the next.
    made: Vec<Made>,
    /// The last ones.
    models: VecDeque<Arc<Model>>,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) kind: Kind,
    pub(crate) words: String,
}

/// From one moment to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Window {
    /// The models that were in force, or half so, in it: by number.
    pub(crate) fn models(self) -> std::ops::RangeInclusive<usize> {
        let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
        number(self.first / 2)..=number(self.last.div_ceil(2))
    }

    /// Whether nothing changed in it.
    pub(crate) fn is_at_rest(self) -> bool {
        let models = self.models();
        models.start() == models.end()
    }
}

/// What a packet met on its way.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) window: Window,
    pub(crate) kind: Option<Kind>,
    pub(crate) lines: Vec<Arc<[Line]>>,
}

/// Whether something is being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Rest,
    Change,
}

impl Ledger {
    /// The first model.
    pub(crate) fn begin(&self, model: Arc<Model>, lines: Arc<[Line]>) {
        let mut pages = self.pages();
        pages.models.push_back(model);
        pages.lines.push(lines);
    }

    /// From now on the next model may be in force.
    pub(crate) fn announce(&self, made: Made, model: Arc<Model>, lines: Arc<[Line]>) {
        let mut pages = self.pages();
        pages.made.push(made);
        pages.lines.push(lines);
        pages.models.push_back(model);
        if pages.models.len() > MODELS {
            pages.models.pop_front();
        }
        drop(pages);
        self.moment.fetch_add(1, Ordering::SeqCst);
    }

    /// Only the next model is in force.
    pub(crate) fn done(&self) {
        self.moment.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(crate) fn moment(&self) -> u64 {
        self.moment.load(Ordering::SeqCst)
    }

    pub(crate) fn pace(&self) -> Pace {
        if self.moment().is_multiple_of(2) { Pace::Rest } else { Pace::Change }
    }

    /// What the models of a window say, and what its first change is.
    pub(crate) fn met(&self, window: Window) -> Met {
        let pages = self.pages();
        let models = window.models();
        let kind = if window.is_at_rest() { None } else { pages.made.get(*models.start()).map(|it| it.kind) };
        Met { window, kind, lines: models.map_while(|it| pages.lines.get(it).cloned()).collect() }
    }

    /// The first change of a window.
    pub(crate) fn made(&self, window: Window) -> Option<Made> {
        if window.is_at_rest() { None } else { self.pages().made.get(*window.models().start()).cloned() }
    }

    /// A model by its number, if it is one of the last.
    pub(crate) fn model(&self, number: usize) -> Option<Arc<Model>> {
        let pages = self.pages();
        let gone = pages.lines.len().saturating_sub(pages.models.len());
        pages.models.get(number.checked_sub(gone)?).cloned()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // What it guards is whole at any time, also when its holder panicked.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_models_on_both_sides_of_a_change() {
        let check = |first, last, expected| assert_eq!(Window { first, last }.models(), expected);
        check(0, 0, 0..=0);
        check(0, 1, 0..=1);
        check(1, 1, 0..=1);
        check(1, 2, 0..=1);
        check(2, 2, 1..=1);
        check(1, 4, 0..=2);
    }
}
