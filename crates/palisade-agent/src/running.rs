//! An agent at work: a thread that reads what was denied, and puts the table back when somebody else touches it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, io};

use palisade_kernel::{Answers, Conntrack, Frames, KernelError, Log, LogOptions, Monitor, Namespace, Nftables, Restored};
use palisade_model::{EndpointId, Model, NodeId};
use palisade_nft::{AUDIT_GROUP, LOG_GROUP, Unknown, Would};
use palisade_report::v1;

use crate::acceptance::{Acceptance, AcceptedBy};
use crate::agent::{Agent, AgentError, Applied, Checked, RuleCount};
use crate::audit::{Keeper, Told, Watched};
use crate::book::{Book, Limits, Totals};
use crate::counts::Counts;
use crate::denial::{Denial, DeniedBy};
use crate::lock::{Lock, LockError};
use crate::names::Names;
use crate::notice::Notice;
use crate::room::Lookout;
use crate::stranger::Suspects;
use crate::strays::{About, Straying};
use crate::sweep::{Cuts, Desk, Established, Shut, Sweeper, Swept, Tools, Touched, View};
use crate::verify::{Seen, Watching};
use crate::worker::{Hearing, Worker};

/// An agent in a network namespace. Dropped, it ends; the table stays in force.
pub struct Running {
    shared: Arc<Shared>,
    /// None where connections are kept.
    sweeper: Option<Arc<Sweeper>>,
    report: Arc<dyn Fn(Event) + Send + Sync>,
    threads: Vec<JoinHandle<()>>,
    watching: Watching,
    straying: Arc<Straying>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Running { shared, sweeper, threads, watching: _, straying: _, report: _ } = self;
        f.debug_struct("Running").field("shared", shared).field("sweeper", sweeper).field("threads", threads).finish_non_exhaustive()
    }
}

/// Something that happened on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet of a 5-tuple that a rule dropped.
    Denied(Box<Denial>),
    /// Another packet of a 5-tuple, or one of too many, for who pays attention to each.
    DeniedAgain(Box<Denial>),
    /// First packets that the same dropped within a second, beyond those that were told.
    Suppressed { by: DeniedBy, connections: u64 },
    /// The first packet of a 5-tuple that a rule accepted whose policy wants to hear of it.
    Accepted(Box<Acceptance>),
    /// First packets that such a rule accepted within a second, beyond those that were told.
    AcceptedMore { by: AcceptedBy, connections: u64 },
    /// The first packet of a 5-tuple that audited policies would treat otherwise, in one direction.
    Would(Box<Told>),
    /// First packets that they would treat so within a second, beyond those that were told.
    WouldMore { would: Box<Would>, connections: u64 },
    /// So many logged packets never came.
    Lost(u64),
    /// Somebody removed or changed the table, and it was put back.
    Restored { checked: Checked, by: String },
    /// Connections that a change denies, or whose pod it removes, were ended.
    Cut(Box<Cuts>),
    /// Packets can go where our hooks do not see them.
    Bypassed(Box<v1::VerifyFinding>),
    /// The agent met something that it has seen to.
    Noticed(Notice),
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

/// How an agent works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub attention: Attention,
    /// How denied packets are kept until they are read.
    pub log: LogOptions,
    pub established: Established,
    /// Bytes of notifications of changes that may wait until they are read.
    pub notifications: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            attention: Attention::Connections,
            log: LogOptions::default(),
            established: Established::default(),
            notifications: Monitor::RECEIVE_BUFFER,
        }
    }
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

/// What the threads share. Who takes more than one of these takes them in this order.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) agent: Mutex<Agent<Nftables>>,
    pub(crate) frames: Mutex<Frames>,
    /// Who changes it goes before those who read: under a flood of denials these would leave no gap.
    pub(crate) names: RwLock<Names>,
    pub(crate) desk: Desk,
    pub(crate) audit: Mutex<Keeper>,
    pub(crate) totals: Mutex<Totals>,
    /// But for those of the agent itself.
    pub(crate) counts: Mutex<Counts>,
    pub(crate) stop: AtomicBool,
    pub(crate) lock: Lock,
}

impl Shared {
    /// Holds the table of frames against what was applied, puts that back if it is not there, and counts what came of it.
    pub(crate) fn check_frames(&self) -> Result<Checked, AgentError> {
        let checked = lock(&self.frames).check();
        self.counted(checked)
    }

    /// Counts what came of putting a table back.
    pub(crate) fn counted(&self, restored: Result<Restored, KernelError>) -> Result<Checked, AgentError> {
        let mut counts = lock(&self.counts);
        match restored {
            Ok(Restored::No) => Ok(Checked::Intact),
            Ok(Restored::Yes) => {
                counts.restorations += 1;
                Ok(Checked::WasChanged)
            }
            Err(error) => {
                counts.failed(&error);
                counts.unfulfilled += 1;
                Err(AgentError::NotKnown(error))
            }
        }
    }
}

impl Running {
    /// Starts an agent in a namespace. What is in force there stays so until something is applied.
    pub fn start(
        namespace: &Namespace,
        attention: Attention,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Running, StartError> {
        Running::start_as(namespace, Settings { attention, ..Settings::default() }, report)
    }

    /// Starts an agent that keeps denied packets in its own way until they are read.
    pub fn start_with(
        namespace: &Namespace,
        attention: Attention,
        log: LogOptions,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Running, StartError> {
        Running::start_as(namespace, Settings { attention, log, ..Settings::default() }, report)
    }

    /// Starts an agent that works in its own way.
    pub fn start_as(
        namespace: &Namespace,
        settings: Settings,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Running, StartError> {
        let Settings { attention, log, established, notifications } = settings;
        let opened = namespace.run(|| -> Result<_, StartError> {
            let lock = Lock::take()?;
            let tools = match established {
                Established::Cut => Some((Tools::open()?, Shut::open()?)),
                Established::Keep => {
                    Answers::open()?.replace(&BTreeMap::new())?;
                    None
                }
            };
            let logs = (Log::open(LOG_GROUP, log)?, Log::open(AUDIT_GROUP, log)?);
            Ok((lock, Nftables::open()?, Frames::open()?, logs, Monitor::open_with(notifications)?, tools, Conntrack::open()?))
        })??;
        let (lock, nftables, frames, (log, audit_log), monitor, tools, conntrack) = opened;
        let mut ours = BTreeSet::from([nftables.port(), frames.port()]);
        let shared = Arc::new(Shared {
            agent: Mutex::new(Agent::new(nftables)),
            frames: Mutex::new(frames),
            names: RwLock::default(),
            desk: Desk::default(),
            audit: Mutex::default(),
            totals: Mutex::default(),
            counts: Mutex::default(),
            stop: AtomicBool::new(false),
            lock,
        });
        let report: Arc<dyn Fn(Event) + Send + Sync> = Arc::new(report);
        let sweeper = tools.map(|(tools, shut)| {
            ours.insert(shut.port());
            let (tools, shut) = (Mutex::new(tools), Mutex::new(shut));
            Arc::new(Sweeper { shared: Arc::clone(&shared), tools, shut })
        });
        let told = Arc::clone(&report);
        let straying = Arc::new(Straying::start(namespace, move |error| told(Event::Failed(error.to_string())))?);
        ours.insert(straying.port());
        let strangers = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            shared: Arc::clone(&shared),
            log,
            audit_log,
            audits: Book::of_audits(Limits::default()),
            monitor,
            ours,
            strangers: Arc::clone(&strangers),
            lookout: Lookout::new(conntrack),
            hearing: Hearing::All,
            book: Book::new(Limits::default()),
            accepted: Book::new(Limits::default()),
            attention,
            start: Instant::now(),
            sweeper: sweeper.clone(),
            straying: Arc::clone(&straying),
            suspects: Suspects::default(),
            failure: None,
        };
        let (told, sweeping) = (Arc::clone(&report), sweeper.clone());
        let watching = Watching::start(namespace, strangers, move |seen| match seen {
            Seen::New(finding) => told(Event::Bypassed(finding)),
            Seen::Left(left) => sweeping.iter().for_each(|it| it.shared.desk.add(Touched { left: left.clone(), ..Touched::default() })),
            Seen::Failed(error) => told(Event::Failed(error.to_string())),
        })?;
        let mut running = Running { shared, sweeper, report, threads: Vec::new(), watching, straying };
        let report = Arc::clone(&running.report);
        running.spawn("agent", move || worker.work(&*report))?;
        if let Some(sweeper) = running.sweeper.clone() {
            let report = Arc::clone(&running.report);
            running.spawn("sweeper", move || sweeper.work(&*report))?;
        }
        Ok(running)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), io::Error> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// Says what becomes of pods that are not known, from the next `apply` on. Before, it is closed to them on the links of usual CNIs.
    pub fn treat_unknown(&self, unknown: Unknown) {
        lock(&self.shared.agent).treat_unknown(unknown);
    }

    /// Links of pods that look like no pod's, as of the last `apply`: others like them stay open while they are not known.
    pub fn uncovered(&self) -> Vec<String> {
        lock(&self.shared.agent).uncovered().to_vec()
    }

    /// Brings the node's table to what the model wants. Connections that it denies end soon after: `await_sweep` waits for that.
    pub fn apply(&self, model: &Arc<Model>, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let left = self.watching.about(model, node, &links).unwrap_or_else(|error| {
            // The next list of links tells.
            (self.report)(Event::Failed(error.to_string()));
            BTreeMap::new()
        });
        let known = Arc::clone(self.shared.names.read().unwrap_or_else(PoisonError::into_inner).view());
        let view = Arc::new(View::after(&known, model, node, &links));
        drop(known);
        if let Some(sweeper) = &self.sweeper {
            self.shared.desk.add(Touched { left, ..Touched::default() });
            sweeper.make_way(&view, &*self.report);
        }
        let mut agent = lock(&self.shared.agent);
        // What the other table cannot see must not come in before it is in force, and not while it still counts.
        let devices: BTreeSet<String> = links.values().cloned().collect();
        let framed = lock(&self.shared.frames).add(&devices);
        framed.map_err(|error| {
            let mut counts = lock(&self.shared.counts);
            counts.failed(&error);
            counts.unfulfilled += 1;
            AgentError::Kept(error)
        })?;
        // Nobody reads what was denied between the change and its names.
        let mut names = self.shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let before = agent.origins().clone();
        let in_vain = agent.in_vain();
        let applied = agent.enforce(model, node, links.clone())?;
        names.follow(Arc::clone(&view), &before, agent.origins());
        drop(names);
        if let Err(error) = lock(&self.shared.frames).replace(&devices) {
            lock(&self.shared.counts).failed(&error);
            (self.report)(Event::Failed(error.to_string()));
        }
        if let Applied::TakenOver(layout) = applied {
            (self.report)(Event::Noticed(Notice::TookOver(layout)));
        }
        if in_vain > 0 {
            (self.report)(Event::Noticed(Notice::Fulfilled { attempts: in_vain }));
        }
        if self.sweeper.is_some() {
            self.shared.desk.in_force(Arc::clone(&view), applied, agent.built());
        }
        lock(&self.shared.audit).apply(agent.kernel(), model, node, since_1970());
        let about = About::of(view, &links, agent.unknown_pods(), agent.origins());
        drop(agent);
        if let Err(error) = self.straying.know(about, || lock(&self.shared.agent).settle()) {
            (self.report)(Event::Failed(error.to_string()));
        }
        if let Some(sweeper) = &self.sweeper {
            sweeper.settle_answers(&*self.report);
        }
        Ok(applied)
    }

    /// Waits until no connection is left that was denied by what was applied; whether that came to be in time.
    pub fn await_sweep(&self, patience: Duration) -> Swept {
        match self.sweeper {
            Some(_) => self.shared.desk.await_idle(patience),
            None => Swept::All,
        }
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

    /// Holds the tables against what was applied, and puts that back if it is not there.
    pub fn check(&self) -> Result<Checked, AgentError> {
        let checked = lock(&self.shared.agent).check()?;
        match checked {
            Checked::Intact | Checked::NothingWanted => {}
            // Anybody may have opened anything meanwhile.
            Checked::WasRemoved | Checked::WasChanged => self.shared.desk.add(Touched::all()),
        }
        let frames = self.shared.check_frames()?;
        Ok(if checked == Checked::Intact { frames } else { checked })
    }

    /// What the agent has done and met, in numbers.
    pub fn counts(&self) -> Counts {
        let of_agent = lock(&self.shared.agent).counts().clone();
        let (others, events_lost) = (lock(&self.shared.counts).clone(), lock(&self.shared.totals).lost);
        Counts { events_lost, ..of_agent.and(&others) }
    }

    /// What was denied so far, in numbers.
    pub fn totals(&self) -> Totals {
        *lock(&self.shared.totals)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.desk.end();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed by then, and nothing depends on it any more.
            drop(thread.join());
        }
        if let Err(error) = lock(&self.shared.agent).settle() {
            (self.report)(Event::Failed(error.to_string()));
        }
    }
}

pub(crate) fn since_1970() -> Duration {
    // A clock before that is set wrong, and nothing is measured by it.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole at any time, also when its holder panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
