//! An agent at work: a thread that reads what was denied, and puts the table back when somebody else touches it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_kernel::{Changed, Frames, KernelError, Log, LogOptions, Monitor, Namespace, Nftables, Restored};
use palisade_model::{EndpointId, Model, NodeId};
use palisade_nft::{AUDIT_GROUP, LOG_GROUP, Table};

use crate::agent::{Agent, AgentError, Applied, Checked, RuleCount};
use crate::audit::{Keeper, Told, Watched};
use crate::book::{Book, Limits, Noted, Taken, Totals};
use crate::denial::Denial;
use crate::lock::{Lock, LockError};
use crate::names::Names;

const TABLE: &str = "palisade";
/// How long the thread waits before it looks whether it should end.
const TURN: u8 = 100;

/// An agent in a network namespace. Dropped, it ends; the table stays in force.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Something that happened on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet of a 5-tuple that a rule dropped.
    Denied(Box<Denial>),
    /// Another packet of a 5-tuple, for who pays attention to each.
    DeniedAgain(Box<Denial>),
    /// The first packet of a 5-tuple that audited policies would treat otherwise, in one direction.
    Would(Box<Told>),
    /// So many logged packets never came.
    Lost(u64),
    /// Somebody removed or changed the table, and it was put back.
    Restored { checked: Checked, by: String },
    /// Something went wrong that the next change may mend.
    Failed(String),
}

/// Which denied packets are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The first of a 5-tuple.
    Connections,
    /// Each.
    Packets,
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("no thread: {0}")]
    Thread(#[from] io::Error),
}

#[derive(Debug)]
struct Shared {
    agent: Mutex<Agent<Nftables>>,
    frames: Mutex<Frames>,
    names: Mutex<Names>,
    audit: Mutex<Keeper>,
    totals: Mutex<Totals>,
    stop: AtomicBool,
    lock: Lock,
}

impl Running {
    /// Starts an agent in a namespace. What is in force there stays so until something is applied.
    pub fn start(namespace: &Namespace, attention: Attention, report: impl Fn(Event) + Send + 'static) -> Result<Running, StartError> {
        Running::start_with(namespace, attention, LogOptions::default(), report)
    }

    /// Starts an agent that keeps denied packets in its own way until they are read.
    pub fn start_with(
        namespace: &Namespace,
        attention: Attention,
        options: LogOptions,
        report: impl Fn(Event) + Send + 'static,
    ) -> Result<Running, StartError> {
        let opened = namespace.run(|| -> Result<_, StartError> {
            let lock = Lock::take()?;
            let logs = (Log::open(LOG_GROUP, options)?, Log::open(AUDIT_GROUP, options)?);
            Ok((lock, Nftables::open()?, Frames::open()?, logs, Monitor::open()?))
        })??;
        let (lock, nftables, frames, (log, audit_log), monitor) = opened;
        let shared = Arc::new(Shared {
            agent: Mutex::new(Agent::new(nftables)),
            frames: Mutex::new(frames),
            names: Mutex::new(Names::of(&Model::default(), &BTreeMap::new())),
            audit: Mutex::default(),
            totals: Mutex::default(),
            stop: AtomicBool::new(false),
            lock,
        });
        let worker = Worker {
            shared: Arc::clone(&shared),
            log,
            audit_log,
            audits: Book::of_audits(Limits::default()),
            monitor,
            book: Book::new(Limits::default()),
            attention,
            start: Instant::now(),
            suspect: None,
            failure: None,
        };
        let thread = std::thread::Builder::new().name("agent".to_owned()).spawn(move || worker.work(report))?;
        Ok(Running { shared, thread: Some(thread) })
    }

    /// Brings the node's table to what the model wants.
    pub fn apply(&self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let mut agent = lock(&self.shared.agent);
        // What the other table cannot see must not come in before it is in force.
        lock(&self.shared.frames).replace(&links.values().cloned().collect()).map_err(AgentError::Kept)?;
        // Nobody reads what was denied between the change and its names.
        let mut names = lock(&self.shared.names);
        let mut origins = agent.origins().clone();
        let applied = agent.apply(model, node, links)?;
        // What the table before denied may still be on its way.
        origins.extend(agent.origins().iter().map(|(number, origin)| (*number, origin.clone())));
        *names = Names::of(model, &origins);
        lock(&self.shared.audit).apply(agent.kernel(), model, node, since_1970());
        Ok(applied)
    }

    /// What audited policies would have done, set by set.
    pub fn watched(&self) -> Result<Vec<Watched>, KernelError> {
        let mut agent = lock(&self.shared.agent);
        lock(&self.shared.audit).watched(agent.kernel())
    }

    /// What the rules have counted, by what they come from.
    pub fn counted(&self) -> Result<Vec<RuleCount>, KernelError> {
        lock(&self.shared.agent).counted()
    }

    /// What was denied so far, in numbers.
    pub fn totals(&self) -> Totals {
        *lock(&self.shared.totals)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// What the thread has.
struct Worker {
    shared: Arc<Shared>,
    log: Log,
    audit_log: Log,
    audits: Book,
    monitor: Monitor,
    book: Book,
    attention: Attention,
    start: Instant,
    /// Who may have changed the table, until a check has gone well.
    suspect: Option<String>,
    /// What was said last about a check that did not.
    failure: Option<String>,
}

/// Who has something to say.
struct Ready {
    log: bool,
    audit: bool,
    monitor: bool,
    lock: bool,
}

impl Worker {
    fn work(mut self, report: impl Fn(Event)) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let ready = self.wait();
            if ready.lock {
                self.shared.lock.let_go();
            }
            if ready.monitor {
                self.hear(&report);
            }
            self.check(&report);
            if ready.log {
                self.read(&report);
            }
            if ready.audit {
                self.read_audit(&report);
            }
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

    fn read(&mut self, report: &impl Fn(Event)) {
        let names = lock(&self.shared.names);
        let (book, attention, start) = (&mut self.book, self.attention, self.start);
        let read = self.log.read(Duration::ZERO, |logged| {
            match (book.take(logged.payload, logged.prefix, &names, start.elapsed()), attention) {
                (Taken::New(denial), _) => report(Event::Denied(denial)),
                (Taken::Repeated, Attention::Packets) => {
                    // It was read a moment ago, and counted as what it is.
                    if let Ok(denial) = Book::read(logged.payload, logged.prefix, &names) {
                        report(Event::DeniedAgain(Box::new(denial)));
                    }
                }
                (Taken::Repeated, Attention::Connections) => {}
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
        drop(names);
        *lock(&self.shared.totals) = self.book.totals();
    }

    fn read_audit(&mut self, report: &impl Fn(Event)) {
        let (names, mut keeper) = (lock(&self.shared.names), lock(&self.shared.audit));
        let (book, start) = (&mut self.audits, self.start);
        let read = self.audit_log.read(Duration::ZERO, |logged| {
            // What is repeated is counted, and so is what cannot be read.
            if let Noted::New(key, packets) = book.note(logged.payload, logged.prefix, start.elapsed()) {
                keeper.take(key, packets, &names, since_1970()).into_iter().for_each(|it| report(Event::Would(Box::new(it))));
            }
        });
        match read {
            Ok(read) if read.lost > 0 => keeper.lost(read.lost),
            Ok(_) => {}
            Err(error) => report(Event::Failed(error.to_string())),
        }
    }

    /// Finds out whether somebody else changed the table.
    fn hear(&mut self, report: &impl Fn(Event)) {
        let heard = match self.monitor.wait(Duration::ZERO) {
            Ok(changes) => changes.iter().find_map(stranger),
            Err(error) => {
                report(Event::Failed(error.to_string()));
                stranger(&Changed::Unknown)
            }
        };
        self.suspect = self.suspect.take().or(heard);
    }

    /// Checks the table if somebody may have changed it; again in the next turn if that cannot be done now.
    fn check(&mut self, report: &impl Fn(Event)) {
        lock(&self.shared.audit).failure().into_iter().for_each(|it| report(Event::Failed(it)));
        let Some(by) = self.suspect.take() else { return };
        let table = lock(&self.shared.agent).check();
        // The frames have no table to be told apart by: they are part of ours.
        let frames = lock(&self.shared.frames).check().map_err(AgentError::NotKnown).map(|it| match it {
            Restored::Yes => Checked::WasChanged,
            Restored::No => Checked::Intact,
        });
        let audit = {
            let mut agent = lock(&self.shared.agent);
            lock(&self.shared.audit).check(agent.kernel()).map_err(AgentError::NotKnown)
        };
        // What could be put back is told, whatever became of the other.
        let (mut restored, mut failure) = (None, None);
        for checked in [table, frames, audit] {
            match checked {
                Ok(Checked::Intact | Checked::NothingWanted) => {}
                Ok(checked @ (Checked::WasRemoved | Checked::WasChanged)) => restored = restored.or(Some(checked)),
                Err(error) => failure = failure.or(Some(error.to_string())),
            }
        }
        if let Some(checked) = restored {
            report(Event::Restored { checked, by: by.clone() });
        }
        if let Some(failure) = &failure {
            self.suspect = Some(by);
            if self.failure.as_ref() != Some(failure) {
                report(Event::Failed(failure.clone()));
            }
        }
        self.failure = failure;
    }
}

/// Who made a change of our table, unless it was this process.
fn stranger(changed: &Changed) -> Option<String> {
    match changed {
        Changed::Transaction { by, process, tables, .. } => {
            // The kernel names the thread, by its number in the first process namespace. Elsewhere somebody else may have that number here.
            let ours = in_first_process_namespace() && Path::new("/proc/self/task").join(by.to_string()).exists();
            let touched = tables.iter().any(|it| it.name == TABLE || it.name == Table::Audit.name());
            (touched && !ours).then(|| format!("{process} (process {by})"))
        }
        Changed::Unknown => Some("an unknown process".to_owned()),
    }
}

/// The first process namespace has a fixed number.
fn in_first_process_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|it| it.as_os_str() == "pid:[4026531836]")
}

fn since_1970() -> Duration {
    // A clock before that is set wrong, and nothing is measured by it.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole at any time, also when its holder panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
