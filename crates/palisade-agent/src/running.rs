//! A handle to an agent at work in a network namespace.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use palisade_kernel::{KernelError, LogOptions, Monitor, Namespace};
use palisade_model::{Changes, EndpointId, Model, NodeId, Revision};
use palisade_nft::{Unknown, Would};
use palisade_report::v1;

use crate::acceptance::{Acceptance, AcceptedBy};
use crate::agent::{AgentError, Applied, Checked, RuleCount};
use crate::audit::{Told, Watched};
use crate::book::Totals;
use crate::cluster::Here;
use crate::core::{Host as _, Input, Request, Response, State, run};
use crate::counts::Counts;
use crate::denial::{Denial, DeniedBy};
use crate::host::{Linux, Mailbox, Message};
use crate::lock::LockError;
use crate::notice::Notice;
use crate::sweep::{Cuts, Established, Swept};

/// An agent in a network namespace. Dropped, it ends; the table stays in force.
pub struct Running {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
    /// The model that `apply` was called with last, for callers that make whole models.
    told: Mutex<(Arc<Model>, Revision)>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("thread", &self.thread).finish_non_exhaustive()
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

    /// Starts an agent that works in its own way. `report` is called by the agent's loop, so it must not wait for the agent.
    pub fn start_as(
        namespace: &Namespace,
        settings: Settings,
        report: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Running, StartError> {
        let (mut host, mailbox) = Linux::open(namespace, &settings, Arc::new(report))?;
        let work = move || {
            let mut state = State::new(host.core_settings(&settings), host.now());
            run(&mut state, &mut host);
            host.close();
        };
        let thread = std::thread::Builder::new().name("agent".to_owned()).spawn(work)?;
        Ok(Running { mailbox, thread: Some(thread), told: Mutex::default() })
    }

    /// Says what becomes of pods that are not known, from the next `apply` on. Before, it is closed to them on the links of usual CNIs.
    pub fn treat_unknown(&self, unknown: Unknown) {
        self.ask(Request::TreatUnknown(unknown));
    }

    /// Links of pods that look like no pod's, as of the last `apply`: others like them stay open while they are not known.
    pub fn uncovered(&self) -> Vec<String> {
        match self.ask(Request::Uncovered) {
            Some(Response::Uncovered(links)) => links,
            _ => Vec::new(),
        }
    }

    /// Brings the node's tables to what the model wants. Connections that it denies end soon after: `await_sweep` waits for that.
    ///
    /// For callers that make whole models. `change` is for those that follow changes; an agent has one kind of caller.
    pub fn apply(&self, model: &Arc<Model>, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let here = Here { node, links, pod_ranges: model.pod_ranges.clone() };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = Changes::between(&told.0, model).starting(told.1);
        *told = (Arc::clone(model), changes.to);
        let (asker, answer) = channel();
        self.mailbox.send(Message::Ask(Request::Apply(Box::new((changes, here))), asker));
        drop(told);
        match answer.recv() {
            Ok(Response::Applied(applied)) => applied,
            Ok(_) | Err(_) => Err(AgentError::NotKnown(ended())),
        }
    }

    /// Follows changes of the model, soon. A change that cannot be applied is reported and tried again.
    pub fn change(&self, changes: Changes, here: Here) {
        self.mailbox.send(Message::Input(Input::Changed(Box::new((changes, here)))));
    }

    /// Compares the rulesets with fresh ones, because the producer of the model has listed all objects again.
    pub fn relisted(&self) {
        self.mailbox.send(Message::Input(Input::Relisted));
    }

    /// Waits until no connection is left that was denied by what was applied; whether that came to be in time.
    pub fn await_sweep(&self, patience: Duration) -> Swept {
        let (asker, answer) = channel();
        self.mailbox.send(Message::Ask(Request::AwaitSweep, asker));
        if answer.recv_timeout(patience).is_ok() { Swept::All } else { Swept::NotAll }
    }

    /// What audited policies would have done, set by set.
    pub fn watched(&self) -> Result<Vec<Watched>, KernelError> {
        match self.ask(Request::Watched) {
            Some(Response::Watched(watched)) => watched,
            _ => Err(ended()),
        }
    }

    /// What the rules have counted, by what they come from.
    pub fn counted(&self) -> Result<Vec<RuleCount>, KernelError> {
        match self.ask(Request::Counted) {
            Some(Response::Counted(counted)) => counted,
            _ => Err(ended()),
        }
    }

    /// Compares all tables with what was applied, and puts that back if it is not there. Answers for the first table that was not as applied.
    pub fn check(&self) -> Result<Checked, AgentError> {
        match self.ask(Request::Check) {
            Some(Response::Checked(checked)) => checked,
            _ => Err(AgentError::NotKnown(ended())),
        }
    }

    /// What the agent has done and met, in numbers.
    pub fn counts(&self) -> Counts {
        match self.ask(Request::Counts) {
            Some(Response::Counts(counts)) => *counts,
            _ => Counts::default(),
        }
    }

    /// What was denied so far, in numbers.
    pub fn totals(&self) -> Totals {
        match self.ask(Request::Totals) {
            Some(Response::Totals(totals)) => totals,
            _ => Totals::default(),
        }
    }

    /// Waits for an answer. None if the loop has ended, which only a panic makes it do.
    fn ask(&self, request: Request) -> Option<Response> {
        let (asker, answer): (Sender<Response>, _) = channel();
        self.mailbox.send(Message::Ask(request, asker));
        answer.recv().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.mailbox.send(Message::Input(Input::Stop));
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn ended() -> KernelError {
    KernelError::Truncated("the agent has ended".to_owned())
}
