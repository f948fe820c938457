//! Brings the own table of a node to a ruleset, and back to it when another process has changed it.
//!
//! A state machine: each call returns the work that is needed next, or the result. It holds no kernel, clock or thread. A crash between any two pieces of work
//! leaves tables that the next agent can go on from, because every state on the way is safe and a new agent reads what it finds.

use std::sync::Arc;

use palisade_kernel::KernelError;
use palisade_nft::{Layout, Ruleset, Step, Table, load, plan, replace};

use crate::agent::{AgentError, Applied, Checked};
use crate::core::plan_run::{Look, Planned, Purpose, Run, RunKind, There, is_on_own_table, looked};
use crate::core::refusals::{is_about_the_table, is_full, is_lost, is_passing, is_stale};
use crate::core::work::{Done, Outcome, Progress, Work};
use crate::counts::Counts;

/// How often work is tried that may go well the next time.
pub(crate) const ATTEMPTS: usize = 5;

/// The own table of one node, and the work on it that is under way.
#[derive(Debug)]
pub(crate) struct OwnTable {
    layout: Layout,
    /// The ruleset that was applied last.
    wanted: Option<Arc<Ruleset>>,
    standing: Standing,
    built: Built,
    due: Due,
    counts: Counts,
    /// Changes that failed since the last one that succeeded.
    in_vain: u64,
    /// The difference that the last check found.
    found: Option<Checked>,
    work: Option<Underway>,
}

/// The content of the table, as far as it is known without a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The ruleset that was applied last.
    AsLeft,
    /// Anything, perhaps no table: no difference can be committed to it.
    Unknown,
}

/// The base of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Built {
    /// The ruleset of the change before it.
    OnKnown,
    /// Another ruleset was in force for a while: that of a change that failed, or of another process.
    OnUnknown,
}

/// Whether packets may be on their way that the next commit must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Packets may be on their way that met the ruleset before the last commit.
    Grace,
}

/// Whether an `apply` ends with the last commit, or after all packets have left that met the ruleset before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    InForce,
    Settled,
}

/// The result of work on the own table.
#[derive(Debug)]
pub(crate) enum Finished {
    Applied(Result<Applied, AgentError>),
    Checked(Result<Checked, AgentError>),
    Settled(Result<(), KernelError>),
}

#[derive(Debug)]
struct Underway {
    goal: Goal,
    wanted: Arc<Ruleset>,
    phase: Phase,
    /// The work that the host does now, and how often it was tried.
    doing: Work,
    tries: usize,
    /// How often the content that was found has been changed, where that is what the work does.
    brought: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    Apply(Ends),
    /// The result once the table is as it was applied.
    Check(Checked),
    Settle,
}

#[derive(Debug)]
enum Phase {
    /// Waits for packets before the first step.
    BeforeSteps(Run),
    /// Does a step.
    Stepping(Run),
    /// The answer to a commit was lost: the table tells whether the commit is in force.
    LookAfterLost {
        run: Run,
        expected: Box<Ruleset>,
        lost: KernelError,
    },
    /// A difference was refused: the table tells whether another process has changed it.
    LookAfterRefusal {
        before: Arc<Ruleset>,
        error: AgentError,
    },
    /// Looks at the own table for a check.
    LookForCheck,
    /// Finds out which tables stand beside the own one.
    Standing(Purpose),
    /// Finds out whether packets are judged in the last of two tables beside the own one.
    Silence(Purpose, Vec<Table>),
    /// Finds out what the own table is.
    Layout(Vec<Table>),
    Content(Vec<Table>),
    /// The change is in force, and packets that met the ruleset before it are waited for.
    Settling(Applied),
    /// The same without a change.
    OnlySettling,
}

impl OwnTable {
    /// For a table that this process has not written yet: what is in force stays so.
    pub(crate) fn new(layout: Layout) -> OwnTable {
        OwnTable {
            layout,
            wanted: None,
            standing: Standing::Unknown,
            built: Built::OnUnknown,
            // The process that had the table before may have ended right after a commit.
            due: Due::Grace,
            counts: Counts::default(),
            in_vain: 0,
            found: None,
            work: None,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn wanted(&self) -> Option<&Arc<Ruleset>> {
        self.wanted.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn is_as_left(&self) -> bool {
        self.standing == Standing::AsLeft
    }

    pub(crate) fn built(&self) -> Built {
        self.built
    }

    pub(crate) fn due(&self) -> Due {
        self.due
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The difference that the last check found, also if the check could not put the table back.
    pub(crate) fn found(&self) -> Option<Checked> {
        self.found
    }

    pub(crate) fn in_vain(&self) -> u64 {
        self.in_vain
    }

    /// Begins to bring the table to a ruleset.
    pub(crate) fn apply(&mut self, wanted: Arc<Ruleset>, ends: Ends) -> Progress<Finished> {
        self.built = Built::OnKnown;
        let before = self.wanted.clone().filter(|_| self.standing == Standing::AsLeft);
        self.begin(Goal::Apply(ends), Arc::clone(&wanted));
        match before {
            Some(before) if Arc::ptr_eq(&before, &wanted) => self.succeed(Applied::Unchanged),
            Some(before) => {
                let steps = plan(&before, &wanted);
                self.run(RunKind::Change, Some(before), steps)
            }
            None => self.bring(),
        }
    }

    /// Begins to compare the table with the ruleset that was applied, and to put that back if it is not there.
    pub(crate) fn check(&mut self) -> Progress<Finished> {
        let Some(wanted) = self.wanted.clone() else { return Progress::Finished(Finished::Checked(Ok(Checked::NothingWanted))) };
        self.found = None;
        self.begin(Goal::Check(Checked::Intact), wanted);
        self.ask(Phase::LookForCheck, Work::Dump(Table::Own))
    }

    /// Begins to wait until no packet is on its way that met the ruleset before the last commit.
    pub(crate) fn settle(&mut self) -> Progress<Finished> {
        if self.due == Due::Nothing {
            return Progress::Finished(Finished::Settled(Ok(())));
        }
        self.begin(Goal::Settle, self.wanted.clone().unwrap_or_default());
        self.ask(Phase::OnlySettling, Work::Grace)
    }

    /// Goes on with the outcome of the work that was asked for last. None if no work is under way.
    pub(crate) fn done(&mut self, outcome: Outcome) -> Option<Progress<Finished>> {
        let work = self.work.as_mut()?;
        if let Err(error) = &outcome {
            if is_passing(error) && work.tries < ATTEMPTS {
                work.tries += 1;
                self.counts.failed(error);
                self.counts.retries += 1;
                return Some(Progress::Do(work.doing.clone()));
            }
            // A table that is not of our making was read well.
            if !matches!(error, KernelError::Foreign { .. }) {
                self.counts.failed(error);
            }
        }
        let phase = std::mem::replace(&mut work.phase, Phase::OnlySettling);
        Some(self.went(phase, outcome))
    }

    fn begin(&mut self, goal: Goal, wanted: Arc<Ruleset>) {
        self.work = Some(Underway { goal, wanted, phase: Phase::OnlySettling, doing: Work::Grace, tries: 0, brought: None });
    }

    fn ask(&mut self, phase: Phase, doing: Work) -> Progress<Finished> {
        if let Some(work) = &mut self.work {
            (work.phase, work.tries, work.doing) = (phase, 1, doing.clone());
        }
        Progress::Do(doing)
    }

    fn went(&mut self, phase: Phase, outcome: Outcome) -> Progress<Finished> {
        match phase {
            Phase::BeforeSteps(run) => match outcome {
                Ok(_) => {
                    self.due = Due::Nothing;
                    self.step(run)
                }
                Err(error) => self.run_failed(run, AgentError::Kept(error)),
            },
            Phase::Stepping(run) => self.stepped(run, outcome),
            Phase::LookAfterLost { run, expected, lost } => match looked(&outcome, &expected) {
                Ok(Look::Same) => self.step_done(run),
                Ok(Look::Other | Look::Nothing) => self.step_failed(run, AgentError::Kept(lost)),
                Err(error) => {
                    let error = self.unknown(error);
                    self.step_failed(run, error)
                }
            },
            Phase::LookAfterRefusal { before, error } => match looked(&outcome, &before) {
                Ok(Look::Same) => self.fail(error),
                Ok(Look::Other | Look::Nothing) => {
                    self.standing = Standing::Unknown;
                    self.bring()
                }
                Err(error) => {
                    let error = self.unknown(error);
                    self.fail(error)
                }
            },
            Phase::LookForCheck => self.looked_for_check(&outcome),
            Phase::Standing(_) | Phase::Silence(..) | Phase::Layout(_) | Phase::Content(_) => self.surveyed(phase, outcome),
            Phase::Settling(applied) => match outcome {
                Ok(_) => {
                    self.due = Due::Nothing;
                    self.finish(Ok(applied))
                }
                Err(error) => {
                    let error = self.unknown(error);
                    self.finish(Err(error))
                }
            },
            Phase::OnlySettling => {
                self.work = None;
                if outcome.is_ok() {
                    self.due = Due::Nothing;
                }
                Progress::Finished(Finished::Settled(outcome.map(drop)))
            }
        }
    }

    /// Goes on when something is known of the tables that are there.
    fn surveyed(&mut self, phase: Phase, outcome: Outcome) -> Progress<Finished> {
        match phase {
            Phase::Standing(purpose) => match outcome {
                Ok(Done::Standing(standing)) => {
                    let beside: Vec<Table> = standing.into_iter().filter(|it| *it != Table::Own).collect();
                    match beside.as_slice() {
                        [_, last] => {
                            let last = *last;
                            self.ask(Phase::Silence(purpose, beside), Work::Dump(last))
                        }
                        [] | [_] | [_, _, _, ..] => self.beside(purpose, beside),
                    }
                }
                other => self.survey_failed(purpose, other),
            },
            Phase::Silence(purpose, mut beside) => match outcome {
                Ok(Done::Dump(found)) => {
                    if !found.is_none_or(|it| it.chains.values().all(|it| it.hook.is_none() || it.rules.is_empty())) {
                        beside.reverse();
                    }
                    self.beside(purpose, beside)
                }
                // A table that cannot be read may be anything.
                Err(KernelError::Foreign { .. }) => {
                    beside.reverse();
                    self.beside(purpose, beside)
                }
                other => self.survey_failed(purpose, other),
            },
            Phase::Layout(beside) => match outcome {
                Ok(Done::Layout(None)) => self.start_from(There::Nothing, &beside),
                // A table of another layout is not read: its content may mean something else there.
                Ok(Done::Layout(Some(layout))) if layout != self.layout => self.start_from(There::OfLayout(layout), &beside),
                Ok(Done::Layout(Some(_))) => self.ask(Phase::Content(beside), Work::Dump(Table::Own)),
                other => self.survey_failed(Purpose::Bring, other),
            },
            Phase::Content(beside) => match outcome {
                Ok(Done::Dump(Some(found))) if found.layout != self.layout => self.start_from(There::OfLayout(found.layout), &beside),
                Ok(Done::Dump(Some(found))) => self.start_from(There::Readable(found), &beside),
                Ok(Done::Dump(None)) => self.start_from(There::Nothing, &beside),
                Err(KernelError::Foreign { .. }) => self.start_from(There::Foreign, &beside),
                other => self.survey_failed(Purpose::Bring, other),
            },
            other @ (Phase::BeforeSteps(_) | Phase::Stepping(_) | Phase::LookAfterLost { .. } | Phase::LookAfterRefusal { .. }) => {
                self.went(other, outcome)
            }
            other @ (Phase::LookForCheck | Phase::Settling(_) | Phase::OnlySettling) => self.went(other, outcome),
        }
    }

    fn looked_for_check(&mut self, outcome: &Outcome) -> Progress<Finished> {
        let wanted = self.goal_ruleset();
        match looked(outcome, &wanted) {
            Ok(Look::Same) => self.ask(Phase::Standing(Purpose::Check), Work::Standing),
            Ok(Look::Other) => self.put_back(Checked::WasChanged),
            Ok(Look::Nothing) => self.put_back(Checked::WasRemoved),
            Err(error) => {
                let error = self.unknown(error);
                self.finish_check(Err(error))
            }
        }
    }

    /// Writes the table again. `checked` is the result once that is done.
    fn put_back(&mut self, checked: Checked) -> Progress<Finished> {
        self.found = Some(checked);
        self.standing = Standing::Unknown;
        if let Some(work) = &mut self.work {
            work.goal = Goal::Check(checked);
        }
        self.bring()
    }

    /// Changes the content that is there. Another process may change it meanwhile, but not for ever.
    fn bring(&mut self) -> Progress<Finished> {
        self.built = Built::OnUnknown;
        if let Some(work) = &mut self.work {
            work.brought = Some(work.brought.unwrap_or(0) + 1);
        }
        self.ask(Phase::Standing(Purpose::Bring), Work::Standing)
    }

    /// Goes on when the tables are known that another process, which died, left beside the own one: first the one that judges packets.
    fn beside(&mut self, purpose: Purpose, beside: Vec<Table>) -> Progress<Finished> {
        match purpose {
            Purpose::Bring => self.ask(Phase::Layout(beside), Work::Layout),
            Purpose::Renew => {
                let steps = replace(&self.goal_ruleset(), &beside);
                self.run(RunKind::Renew, None, steps)
            }
            Purpose::Check if beside.is_empty() => {
                self.standing = Standing::AsLeft;
                self.finish_check(Ok(Checked::Intact))
            }
            // A replacement that failed has left another table beside this one.
            Purpose::Check if self.standing == Standing::Unknown => self.bring(),
            // Another process has put a table beside this one.
            Purpose::Check => self.put_back(Checked::WasChanged),
        }
    }

    fn start_from(&mut self, found: There, beside: &[Table]) -> Progress<Finished> {
        let wanted = self.goal_ruleset();
        let other = match &found {
            There::OfLayout(layout) => Some(*layout),
            There::Nothing | There::Readable(_) | There::Foreign => None,
        };
        let (before, steps) = match (found, beside) {
            (There::Nothing, []) => (None, load(&wanted)),
            (There::Readable(found), []) => {
                let steps = plan(&found, &wanted);
                (Some(Arc::new(found)), steps)
            }
            (There::Nothing | There::Readable(_) | There::OfLayout(_) | There::Foreign, beside) => (None, replace(&wanted, beside)),
        };
        self.run(RunKind::Bring(other), before, steps)
    }

    fn run(&mut self, kind: RunKind, before: Option<Arc<Ruleset>>, steps: Vec<Step>) -> Progress<Finished> {
        let run = Run { kind, before, steps: steps.into_iter().map(Planned::from).collect(), at: 0, changes: 0 };
        if !run.steps.is_empty() && self.due == Due::Grace {
            return self.ask(Phase::BeforeSteps(run), Work::Grace);
        }
        self.step(run)
    }

    /// Does the next step. A grace at the end is due.
    fn step(&mut self, run: Run) -> Progress<Finished> {
        match run.steps.get(run.at) {
            None => self.run_succeeded(&run),
            Some(Planned::Commit(transaction)) => {
                let work = Work::Commit(Arc::clone(transaction));
                self.ask(Phase::Stepping(run), work)
            }
            Some(Planned::Grace) => {
                self.due = Due::Grace;
                if run.at + 1 < run.steps.len() {
                    return self.ask(Phase::Stepping(run), Work::Grace);
                }
                self.step_done(run)
            }
        }
    }

    fn stepped(&mut self, run: Run, outcome: Outcome) -> Progress<Finished> {
        let step = run.steps.get(run.at).cloned();
        match (step, outcome) {
            (Some(Planned::Grace), Ok(_)) => {
                self.due = Due::Nothing;
                self.step_done(run)
            }
            (_, Ok(_)) => self.step_done(run),
            (Some(Planned::Commit(transaction)), Err(lost)) if is_lost(&lost) => match run.expected() {
                Some(expected) if transaction.table == Table::Own => {
                    self.ask(Phase::LookAfterLost { run, expected: Box::new(expected), lost }, Work::Dump(Table::Own))
                }
                Some(_) | None => {
                    let error = self.unknown(lost);
                    self.step_failed(run, error)
                }
            },
            (_, Err(error)) => self.step_failed(run, AgentError::Kept(error)),
        }
    }

    fn step_done(&mut self, mut run: Run) -> Progress<Finished> {
        if let Some(Planned::Commit(transaction)) = run.steps.get(run.at) {
            self.counts.commits += u64::from(!transaction.is_empty());
            run.changes += transaction.changes.len();
        }
        run.at += 1;
        self.step(run)
    }

    /// Each state on the way is safe, and the next attempt starts from there.
    fn step_failed(&mut self, run: Run, error: AgentError) -> Progress<Finished> {
        // A commit of this run is, or may be, in force, and the grace behind it was not reached.
        if run.changes > 0 || matches!(&error, AgentError::NotKnown(_)) {
            self.due = Due::Grace;
        }
        let error = match error {
            AgentError::Kept(error) if run.changes > 0 => self.unknown(error),
            error @ (AgentError::Kept(_) | AgentError::NotKnown(_) | AgentError::Gap(_)) => error,
        };
        self.run_failed(run, error)
    }

    fn run_succeeded(&mut self, run: &Run) -> Progress<Finished> {
        let on_own_table = run.steps.iter().all(is_on_own_table);
        self.counts.replacements += u64::from(!on_own_table);
        let applied = match (&run.kind, &run.before, run.changes) {
            (RunKind::Bring(Some(layout)), _, _) => {
                self.counts.takeovers += 1;
                Applied::TakenOver(*layout)
            }
            (RunKind::Change | RunKind::Bring(None), Some(_), 0) => Applied::Unchanged,
            (RunKind::Change | RunKind::Bring(None), Some(_), changes) if on_own_table => Applied::Changed(changes),
            (RunKind::Change | RunKind::Bring(None) | RunKind::Renew, _, _) => Applied::Loaded,
        };
        if !matches!(run.kind, RunKind::Change) {
            self.standing = Standing::AsLeft;
        }
        self.succeed(applied)
    }

    /// Decides whether another attempt may go well.
    fn run_failed(&mut self, run: Run, error: AgentError) -> Progress<Finished> {
        match (&run.kind, &error) {
            (_, AgentError::Gap(_)) => self.fail(error),
            (RunKind::Change, AgentError::Kept(refused) | AgentError::NotKnown(refused)) if is_full(refused) => self.renew(),
            (RunKind::Change, AgentError::Kept(refused)) if is_about_the_table(refused) => {
                let before = run.before.unwrap_or_default();
                self.ask(Phase::LookAfterRefusal { before, error }, Work::Dump(Table::Own))
            }
            (RunKind::Change, AgentError::NotKnown(refused)) if is_stale(refused) => self.bring(),
            (RunKind::Change, AgentError::Kept(_) | AgentError::NotKnown(_)) => self.fail(error),
            (RunKind::Bring(_) | RunKind::Renew, _) => self.attempt_failed(error),
        }
    }

    /// Puts a new table in place of the one that is there: a map of that table has no room for more.
    fn renew(&mut self) -> Progress<Finished> {
        self.ask(Phase::Standing(Purpose::Renew), Work::Standing)
    }

    fn survey_failed(&mut self, purpose: Purpose, outcome: Outcome) -> Progress<Finished> {
        let error = match outcome {
            Err(error) => error,
            Ok(_) => KernelError::Truncated("the answer to another question".to_owned()),
        };
        match purpose {
            Purpose::Bring | Purpose::Renew => self.attempt_failed(AgentError::Kept(error)),
            Purpose::Check => self.finish_check(Err(AgentError::Kept(error))),
        }
    }

    /// An attempt to change the content that was found has failed: it is tried again if the table was not what it was when the steps were planned.
    fn attempt_failed(&mut self, error: AgentError) -> Progress<Finished> {
        let Some(brought) = self.work.as_ref().and_then(|it| it.brought).filter(|it| *it < ATTEMPTS) else { return self.fail(error) };
        match &error {
            AgentError::Kept(refused) | AgentError::NotKnown(refused) if is_stale(refused) => self.bring(),
            AgentError::Kept(refused) | AgentError::NotKnown(refused) if is_full(refused) => {
                if let Some(work) = &mut self.work {
                    work.brought = Some(brought + 1);
                }
                self.renew()
            }
            AgentError::Kept(_) | AgentError::NotKnown(_) | AgentError::Gap(_) => self.fail(error),
        }
    }

    fn succeed(&mut self, applied: Applied) -> Progress<Finished> {
        match self.work.as_ref().map(|it| it.goal) {
            Some(Goal::Check(checked)) => self.finish_check(Ok(checked)),
            Some(Goal::Apply(ends)) => {
                self.wanted = Some(self.goal_ruleset());
                match (ends, self.due) {
                    (Ends::Settled, Due::Grace) => self.ask(Phase::Settling(applied), Work::Grace),
                    (Ends::Settled, Due::Nothing) | (Ends::InForce, _) => self.finish(Ok(applied)),
                }
            }
            Some(Goal::Settle) | None => self.finish(Ok(applied)),
        }
    }

    fn fail(&mut self, error: AgentError) -> Progress<Finished> {
        match self.work.as_ref().map(|it| it.goal) {
            Some(Goal::Check(_)) => self.finish_check(Err(error)),
            Some(Goal::Apply(_) | Goal::Settle) | None => self.finish(Err(error)),
        }
    }

    fn finish(&mut self, applied: Result<Applied, AgentError>) -> Progress<Finished> {
        self.work = None;
        match applied {
            Ok(_) => self.in_vain = 0,
            Err(_) => {
                self.in_vain += 1;
                self.counts.unfulfilled += 1;
            }
        }
        Progress::Finished(Finished::Applied(applied))
    }

    fn finish_check(&mut self, checked: Result<Checked, AgentError>) -> Progress<Finished> {
        self.work = None;
        match checked {
            Ok(Checked::WasRemoved | Checked::WasChanged) => self.counts.restorations += 1,
            Ok(Checked::Intact | Checked::NothingWanted) => {}
            Err(_) => self.counts.unfulfilled += 1,
        }
        Progress::Finished(Finished::Checked(checked))
    }

    fn goal_ruleset(&self) -> Arc<Ruleset> {
        self.work.as_ref().map(|it| Arc::clone(&it.wanted)).unwrap_or_default()
    }

    fn unknown(&mut self, error: KernelError) -> AgentError {
        self.standing = Standing::Unknown;
        AgentError::NotKnown(error)
    }
}
