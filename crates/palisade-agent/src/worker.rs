//! The thread of an agent: reads what was denied, and puts tables back when somebody else touches them.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{Changed, Log, Monitor, Restored};

use crate::acceptance::Acceptance;
use crate::agent::{AgentError, Checked};
use crate::book::{self, Book, Noted, Taken};
use crate::notice::Notice;
use crate::room::Lookout;
use crate::running::{Attention, Event, Shared, lock, since_1970};
use crate::stranger::{By, Suspect, Suspects};
use crate::strays::Straying;
use crate::sweep::{Sweeper, Touched};

/// How long it waits before it looks whether it should end.
const TURN: u8 = 100;

/// What it has.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
    pub(crate) audit_log: Log,
    pub(crate) audits: Book,
    pub(crate) monitor: Monitor,
    /// The sockets by which this agent changes tables that are watched.
    pub(crate) ours: BTreeSet<u32>,
    /// Set when somebody else changes tables, whosever these are.
    pub(crate) strangers: Arc<AtomicBool>,
    pub(crate) lookout: Lookout,
    pub(crate) hearing: Hearing,
    pub(crate) book: Book,
    /// Those that were let pass.
    pub(crate) accepted: Book,
    pub(crate) attention: Attention,
    pub(crate) start: Instant,
    pub(crate) sweeper: Option<Arc<Sweeper>>,
    pub(crate) straying: Arc<Straying>,
    pub(crate) suspects: Suspects,
    /// What was said last about a check that did not.
    pub(crate) failure: Option<String>,
}

/// Whether every notification came that the kernel had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    All,
    NotAll,
}

/// Who has something to say.
struct Ready {
    log: bool,
    audit: bool,
    monitor: bool,
    lock: bool,
}

impl Worker {
    pub(crate) fn work(mut self, report: &dyn Fn(Event)) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let ready = self.wait();
            if ready.lock {
                self.shared.lock.let_go();
            }
            if ready.monitor {
                self.hear(report);
            }
            self.check(report);
            if ready.monitor {
                // Who needs that tries again, and says so.
                lock(&self.shared.agent).settle().ok();
            }
            if ready.log {
                self.read(report);
            }
            if ready.audit {
                self.read_audit(report);
            }
            self.settle(report, self.start.elapsed());
            self.lookout.look(&self.shared.counts, report);
        }
        self.settle(report, Duration::MAX);
    }

    /// Tells what was too much to be told one by one, second by second.
    fn settle(&mut self, report: &dyn Fn(Event), now: Duration) {
        let names = self.shared.names.read().unwrap_or_else(PoisonError::into_inner);
        for it in self.book.settle(now) {
            report(Event::Suppressed { by: names.origin(it.origin), connections: it.connections });
        }
        for it in self.accepted.settle(now) {
            // A rule of a policy that is gone has nobody left who wants to know.
            let by = names.accepting(it.origin).cloned();
            by.into_iter().for_each(|by| report(Event::AcceptedMore { by, connections: it.connections }));
        }
        let keeper = lock(&self.shared.audit);
        for it in self.audits.settle(now) {
            // Nor has an audit that has ended.
            let would = keeper.would(it.origin).cloned();
            would.into_iter().for_each(|would| report(Event::WouldMore { would: Box::new(would), connections: it.connections }));
        }
    }

    fn wait(&self) -> Ready {
        let fds = [self.log.as_fd(), self.audit_log.as_fd(), self.monitor.as_fd(), self.shared.lock.as_fd()];
        let mut polled = fds.map(|it| PollFd::new(it, PollFlags::POLLIN));
        // An interrupted wait is made up for by the next turn.
        if poll(&mut polled, PollTimeout::from(TURN)).is_err() {
            return Ready { log: false, audit: false, monitor: false, lock: false };
        }
        let [log, audit, monitor, lock] = polled.map(|it| it.any() == Some(true));
        Ready { log, audit, monitor, lock }
    }

    fn read(&mut self, report: &dyn Fn(Event)) {
        let (book, accepted, attention, start, shared) = (&mut self.book, &mut self.accepted, self.attention, self.start, &self.shared);
        let read = self.log.read(Duration::ZERO, |logged| {
            let names = shared.names.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(by) = book::origin(logged.prefix).and_then(|it| names.accepting(it)) {
                if let Taken::New(packet) = accepted.take(logged.payload, logged.prefix, &names, start.elapsed()) {
                    report(Event::Accepted(Box::new(Acceptance::of(*packet, by.clone()))));
                }
                return;
            }
            match (book.take(logged.payload, logged.prefix, &names, start.elapsed()), attention) {
                (Taken::New(denial), _) => report(Event::Denied(denial)),
                (Taken::Repeated | Taken::Suppressed, Attention::Packets) => {
                    // It was read a moment ago, and counted as what it is.
                    if let Ok(denial) = Book::read(logged.payload, logged.prefix, &names) {
                        report(Event::DeniedAgain(Box::new(denial)));
                    }
                }
                (Taken::Repeated | Taken::Suppressed, Attention::Connections) => {}
                // Counted; its prefix is not ours, or it is no packet.
                (Taken::Unreadable(_), _) => {}
            }
        });
        match read {
            Ok(read) if read.lost > 0 => {
                book.lost(read.lost);
                report(Event::Lost(read.lost));
            }
            Ok(_) => {}
            Err(error) => report(Event::Failed(error.to_string())),
        }
        *lock(&self.shared.totals) = self.book.totals();
    }

    fn read_audit(&mut self, report: &dyn Fn(Event)) {
        let names = self.shared.names.read().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = lock(&self.shared.audit);
        let (book, start) = (&mut self.audits, self.start);
        let read = self.audit_log.read(Duration::ZERO, |logged| {
            // What is repeated is counted, and so is what cannot be read.
            let now = start.elapsed();
            if let Noted::New(key, packets) = book.note(logged.payload, logged.prefix, now)
                && let Some(told) = keeper.take(key, packets, &names, since_1970())
                && book.tells(key.origin, now)
            {
                report(Event::Would(Box::new(told)));
            }
        });
        match read {
            Ok(read) if read.lost > 0 => keeper.lost(read.lost),
            Ok(_) => {}
            Err(error) => report(Event::Failed(error.to_string())),
        }
    }

    /// Finds out whether somebody else changed the table.
    fn hear(&mut self, report: &dyn Fn(Event)) {
        match self.monitor.wait(Duration::ZERO) {
            Ok(changes) => {
                let hearing = if changes.contains(&Changed::Unknown) { Hearing::NotAll } else { Hearing::All };
                lock(&self.shared.counts).resyncs += u64::from(hearing == Hearing::NotAll);
                // The kernel goes on dropping for a while, and once is enough to be told.
                if (self.hearing, hearing) == (Hearing::All, Hearing::NotAll) {
                    report(Event::Noticed(Notice::Missed));
                }
                self.hearing = hearing;
                changes.iter().for_each(|it| self.note(it));
            }
            Err(error) => {
                report(Event::Failed(error.to_string()));
                self.note(&Changed::Unknown);
            }
        }
    }

    fn note(&mut self, changed: &Changed) {
        if self.suspects.note(changed, &self.ours) == By::Somebody {
            self.strangers.store(true, Ordering::Relaxed);
        }
    }

    /// Checks our tables if somebody may have changed them; again in the next turn if that cannot be done now.
    fn check(&mut self, report: &dyn Fn(Event)) {
        lock(&self.shared.audit).failure().into_iter().for_each(|it| report(Event::Failed(it)));
        let suspects = std::mem::take(&mut self.suspects);
        let Some(by) = suspects.compared.as_ref().or(suspects.remade.as_ref()) else { return };
        let compared = suspects.compared.as_ref().map(|_| self.compare());
        let remade = suspects.remade.as_ref().map(|it| self.remake(it));
        // What could be put back is told, whatever became of the other.
        let (mut restored, mut failure) = (None, None);
        for checked in compared.into_iter().flatten().chain(remade.into_iter().flatten()) {
            match checked {
                Ok(Checked::Intact | Checked::NothingWanted) => {}
                Ok(checked @ (Checked::WasRemoved | Checked::WasChanged)) => restored = restored.or(Some(checked)),
                Err(error) => failure = failure.or(Some(error.to_string())),
            }
        }
        if let Some(checked) = restored {
            // Anybody may have opened anything meanwhile.
            self.shared.desk.add(Touched::all());
            report(Event::Restored { checked, by: by.to_string() });
        }
        if let Some(failure) = &failure {
            self.suspects = suspects;
            if self.failure.as_ref() != Some(failure) {
                report(Event::Failed(failure.clone()));
            }
        }
        self.failure = failure;
    }

    /// Holds tables against what they should be.
    fn compare(&self) -> Vec<Result<Checked, AgentError>> {
        let table = lock(&self.shared.agent).check();
        // The frames have no table to be told apart by: they are part of ours.
        let frames = self.shared.check_frames();
        let mut agent = lock(&self.shared.agent);
        let audit = lock(&self.shared.audit).check(agent.kernel()).map_err(AgentError::NotKnown);
        vec![table, frames, audit]
    }

    /// Makes the small tables anew: that is less than to read them.
    fn remake(&self, suspect: &Suspect) -> Vec<Result<Checked, AgentError>> {
        let answers = self.sweeper.iter().map(|it| it.restore_answers());
        let restored = answers.chain([self.straying.restore()]).map(|it| match (it, suspect) {
            // They were as they should be, for all that is known.
            (Ok(_), Suspect::Anybody) => Ok(Restored::No),
            (restored, Suspect::Known(_) | Suspect::Anybody) => restored,
        });
        restored.map(|it| self.shared.counted(it)).collect()
    }
}
