//! Brings one of the small tables of a node to a ruleset: frames, blocked replies, unknown pods, audit.
//!
//! A state machine like `own_table`, for tables that one commit can change safely, or that name the stages of a change themselves.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use palisade_kernel::KernelError;
use palisade_nft::{Frames, Ruleset, Table, Transaction};

use crate::agent::Checked;
use crate::core::refusals::same;
use crate::core::work::{Done, Outcome, Progress, Work};

/// One table, and the work on it that is under way. No ruleset is no table.
#[derive(Debug)]
pub(crate) struct SmallTable {
    table: Table,
    /// The ruleset that was asked for last, also when writing it failed.
    wanted: Option<Option<Ruleset>>,
    held: Held,
    /// Whether a stage was written, and the wait after it has not ended well.
    due: bool,
    /// The difference that the last check found.
    found: Option<Checked>,
    work: Option<Underway>,
}

/// The content of the table, as far as it is known without a dump.
#[derive(Clone, Debug)]
enum Held {
    /// Another process may have written it.
    Unknown,
    Known(Option<Ruleset>),
}

/// The content that a table is to have.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    Ruleset(Option<Ruleset>),
    /// Chains for the frames of these links, and of those that have a chain already if `and_held`.
    Frames {
        links: BTreeSet<String>,
        and_held: bool,
    },
}

/// An edit of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// Nothing, or a difference.
    Difference,
    /// All of it: counters begin anew.
    Whole,
}

/// The result of work on a table.
#[derive(Debug)]
pub(crate) enum Finished {
    Written(Result<Wrote, KernelError>),
    Restored(Result<Checked, KernelError>),
}

#[derive(Debug)]
struct Underway {
    goal: Goal,
    /// The result of a restoration once the table is written.
    restores: Option<Checked>,
    phase: Phase,
    /// Whether the content was read for this work, or is what an earlier one left.
    read: bool,
    wrote: Wrote,
}

#[derive(Debug)]
enum Phase {
    Reading,
    ReadingForCheck,
    /// Waits for packets, then writes the first stage.
    Waiting(VecDeque<Option<Ruleset>>),
    /// Writes this, then the stages.
    Writing(Option<Ruleset>, VecDeque<Option<Ruleset>>),
    /// Writes all of the table at once.
    Loading(Option<Ruleset>),
}

impl SmallTable {
    pub(crate) fn new(table: Table) -> SmallTable {
        SmallTable { table, wanted: None, held: Held::Unknown, due: false, found: None, work: None }
    }

    #[cfg(test)]
    pub(crate) fn wanted(&self) -> Option<Ruleset> {
        self.wanted.clone().flatten()
    }

    #[cfg(test)]
    pub(crate) fn is_applied(&self) -> bool {
        self.wanted.is_some()
    }

    /// Begins to bring the table to a goal. Objects that stay the same are not touched, also those that another process has left.
    pub(crate) fn bring(&mut self, goal: Goal) -> Progress<Finished> {
        self.work = Some(Underway { goal, restores: None, phase: Phase::Reading, read: false, wrote: Wrote::Difference });
        self.begin()
    }

    /// Begins to compare the table with the ruleset that was asked for last, and to put that back if it is not there.
    pub(crate) fn restore(&mut self) -> Progress<Finished> {
        let Some(wanted) = self.wanted.clone() else { return Progress::Finished(Finished::Restored(Ok(Checked::NothingWanted))) };
        (self.held, self.found) = (Held::Unknown, None);
        let (goal, phase) = (Goal::Ruleset(wanted), Phase::ReadingForCheck);
        self.work = Some(Underway { goal, restores: Some(Checked::Intact), phase, read: true, wrote: Wrote::Difference });
        Progress::Do(Work::Dump(self.table))
    }

    /// The difference that the last check found, also if the check could not put the table back.
    pub(crate) fn found(&self) -> Option<Checked> {
        self.found
    }

    /// Goes on with the outcome of the work that was asked for last. None if no work is under way.
    pub(crate) fn done(&mut self, outcome: Outcome) -> Option<Progress<Finished>> {
        let work = self.work.as_mut()?;
        let phase = std::mem::replace(&mut work.phase, Phase::Reading);
        Some(self.went(phase, outcome))
    }

    fn begin(&mut self) -> Progress<Finished> {
        match std::mem::replace(&mut self.held, Held::Unknown) {
            Held::Known(held) => self.begin_from(held),
            Held::Unknown => {
                if let Some(work) = &mut self.work {
                    (work.phase, work.read) = (Phase::Reading, true);
                }
                Progress::Do(Work::Dump(self.table))
            }
        }
    }

    fn begin_from(&mut self, held: Option<Ruleset>) -> Progress<Finished> {
        let stages = self.work.as_ref().map(|it| it.goal.stages(held.as_ref())).unwrap_or_default();
        self.wanted = stages.back().cloned();
        self.held = Held::Known(held);
        self.advance(stages)
    }

    fn went(&mut self, phase: Phase, outcome: Outcome) -> Progress<Finished> {
        match (phase, outcome) {
            (Phase::Reading, Ok(Done::Dump(found))) => self.begin_from(found),
            (Phase::Reading, Err(KernelError::Foreign { .. })) => self.load(),
            (Phase::ReadingForCheck, Ok(Done::Dump(found))) => {
                let wanted = self.wanted.clone().flatten();
                if is_same(found.as_ref(), wanted.as_ref()) {
                    self.held = Held::Known(wanted);
                    return self.finish(Ok(()));
                }
                self.changed_by_another(if found.is_some() { Checked::WasChanged } else { Checked::WasRemoved });
                self.begin_from(found)
            }
            (Phase::ReadingForCheck, Err(KernelError::Foreign { .. })) => {
                self.changed_by_another(Checked::WasChanged);
                self.load()
            }
            (Phase::Waiting(stages), Ok(_)) => {
                self.due = false;
                self.advance(stages)
            }
            (Phase::Writing(written, stages), Ok(_)) => {
                self.held = Held::Known(written);
                self.due = !stages.is_empty();
                self.advance(stages)
            }
            (Phase::Loading(written), Ok(_)) => {
                self.held = Held::Known(written);
                self.finish(Ok(()))
            }
            (Phase::Writing(..), Err(error @ KernelError::Refused(_))) => self.refused(error),
            (_, Err(error)) => self.finish(Err(error)),
            (Phase::Reading | Phase::ReadingForCheck, Ok(_)) => {
                self.finish(Err(KernelError::Truncated("the answer to another question".to_owned())))
            }
        }
    }

    /// Writes the first of some stages.
    fn advance(&mut self, mut stages: VecDeque<Option<Ruleset>>) -> Progress<Finished> {
        loop {
            if self.due {
                return self.ask(Phase::Waiting(stages), Work::Grace);
            }
            let Some(stage) = stages.pop_front() else { return self.finish(Ok(())) };
            let Held::Known(held) = &self.held else { return self.finish(Err(KernelError::Unsteady(1))) };
            match (held, &stage) {
                (held, stage) if held == stage => {}
                (Some(held), Some(wanted)) if held.layout == wanted.layout => {
                    let transaction = Transaction { table: self.table, ..wanted.changes_since(held) };
                    return self.ask(Phase::Writing(stage, stages), Work::Commit(Arc::new(transaction)));
                }
                (_, wanted) => {
                    let transaction = self.whole(wanted.as_ref());
                    self.wrote_whole();
                    return self.ask(Phase::Writing(stage, stages), Work::Commit(Arc::new(transaction)));
                }
            }
        }
    }

    /// Another process has changed the table, a set is full, or the kernel cannot change the links of a chain.
    fn refused(&mut self, error: KernelError) -> Progress<Finished> {
        self.held = Held::Unknown;
        match self.work.as_mut() {
            Some(work) if !work.read => {
                (work.phase, work.read) = (Phase::Reading, true);
                Progress::Do(Work::Dump(self.table))
            }
            // Frames pass while a chain is made anew.
            Some(Underway { goal: Goal::Frames { .. }, .. }) | None => self.finish(Err(error)),
            Some(_) => self.load(),
        }
    }

    /// Makes the table anew, whatever is there.
    fn load(&mut self) -> Progress<Finished> {
        let wanted = self.work.as_ref().and_then(|it| it.goal.stages(None).pop_back().flatten());
        self.wanted = Some(wanted.clone());
        let transaction = self.whole(wanted.as_ref());
        self.wrote_whole();
        self.ask(Phase::Loading(wanted), Work::Commit(Arc::new(transaction)))
    }

    fn whole(&self, wanted: Option<&Ruleset>) -> Transaction {
        wanted.map_or_else(|| Transaction::unload_of(self.table), |it| Transaction::load_into(self.table, it))
    }

    fn wrote_whole(&mut self) {
        self.work.iter_mut().for_each(|it| it.wrote = Wrote::Whole);
    }

    fn changed_by_another(&mut self, checked: Checked) {
        self.found = Some(checked);
        self.work.iter_mut().for_each(|it| it.restores = Some(checked));
    }

    fn ask(&mut self, phase: Phase, work: Work) -> Progress<Finished> {
        if let Some(underway) = &mut self.work {
            underway.phase = phase;
        }
        Progress::Do(work)
    }

    fn finish(&mut self, result: Result<(), KernelError>) -> Progress<Finished> {
        if result.is_err() {
            self.held = Held::Unknown;
        }
        let work = self.work.take();
        let wrote = work.as_ref().map_or(Wrote::Difference, |it| it.wrote);
        Progress::Finished(match work.and_then(|it| it.restores) {
            Some(checked) => Finished::Restored(result.map(|()| checked)),
            None => Finished::Written(result.map(|()| wrote)),
        })
    }
}

impl Goal {
    /// The rulesets that lead from the present one to the goal. A grace must pass after each but the last.
    fn stages(&self, held: Option<&Ruleset>) -> VecDeque<Option<Ruleset>> {
        match self {
            Goal::Ruleset(wanted) => [wanted.clone()].into(),
            Goal::Frames { links, and_held } => {
                let before = held.filter(|_| *and_held).map(|it| Frames::of(it).links).unwrap_or_default();
                Frames { links: links | &before }.stages(held).into()
            }
        }
    }
}

fn is_same(found: Option<&Ruleset>, wanted: Option<&Ruleset>) -> bool {
    match (found, wanted) {
        (Some(found), Some(wanted)) => same(found, wanted),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
