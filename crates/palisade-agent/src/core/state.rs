//! The state of an agent, the inputs that change it, and the effects that it asks for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use palisade_kernel::{Changed, KernelError};
use palisade_model::{Changes, PodName};
use palisade_nft::{Layout, Lowering, NodeView, PodLinks, Ruleset, Table, Unknown, UnknownPod};

use crate::agent::{AgentError, Applied, Checked, RuleCount};
use crate::audit::{Keeper, Watched};
use crate::book::{Key, Limits, Rates, Totals};
use crate::cluster::Here;
use crate::core::environment::EnvironmentWatch;
use crate::core::job::Job;
use crate::core::own_table::OwnTable;
use crate::core::pending::Pending;
use crate::core::small_table::SmallTable;
use crate::core::sweeping::SweepQueue;
use crate::core::work::{Outcome, Token, Work};
use crate::counts::Counts;
use crate::names::Names;
use crate::room::Room;
use crate::running::{Attention, Event};
use crate::stranger::Suspects;
use crate::sweep::{Established, Replies};

/// A time as the host tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since the host started. Only differences count.
    pub since_start: Duration,
    /// Since 1970, by a clock that may be set.
    pub since_1970: Duration,
}

/// Identifies a request, so that its answer finds the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Something that the agent hears of.
#[derive(Debug)]
pub enum Input {
    /// The model changed. Here is the node after that.
    Changed(Box<(Changes, Here)>),
    /// A producer of the model has listed all objects again: the rulesets are compared with fresh ones.
    Relisted,
    /// A piece of work is done.
    Done(Token, Outcome),
    /// Tables changed.
    Heard(Result<Vec<Changed>, KernelError>),
    /// Interfaces changed, or filters on them.
    LinksChanged,
    /// Routes changed.
    RoutesChanged,
    /// Packets were logged.
    Logged(Logged),
    Asked(RequestId, Request),
    /// The time of `Effect::WakeAt` has come.
    Woken,
    /// The agent is to end.
    Stop,
}

/// Something that the host does.
#[derive(Debug)]
pub enum Effect {
    /// Does a piece of work, and answers with `Input::Done`.
    Work(Token, Work),
    Report(Event),
    Answer(RequestId, Response),
    /// Gives `Input::Woken` at this time at the latest. Replaces the time before.
    WakeAt(Duration),
    /// Ends the loop. The tables stay in force.
    Exit,
}

/// A request of a caller that waits.
#[derive(Debug)]
pub enum Request {
    Apply(Box<(Changes, Here)>),
    TreatUnknown(Unknown),
    Check,
    Counted,
    Watched,
    AwaitSweep,
    Counts,
    Totals,
    Uncovered,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Response {
    Applied(Result<Applied, AgentError>),
    Checked(Result<Checked, AgentError>),
    Counted(Result<Vec<RuleCount>, KernelError>),
    Watched(Result<Vec<Watched>, KernelError>),
    Counts(Box<Counts>),
    Totals(Totals),
    Uncovered(Vec<String>),
    /// The request is fulfilled.
    Done,
}

/// Packets that rules logged, without those that only repeat others.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    pub log: LogKind,
    pub packets: Vec<LoggedPacket>,
    /// Packets of connections that were met before, by origin.
    pub repeated: BTreeMap<u32, u64>,
    pub unreadable: u64,
    /// Connections that made room for others.
    pub forgotten: u64,
    /// Packets that were logged and never came.
    pub lost: u64,
    /// Why the log could not be read.
    pub failure: Option<String>,
}

/// A log of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// Of policies in force.
    #[default]
    Policies,
    /// Of audited policies.
    Audits,
}

/// A packet that is told.
#[derive(Clone, Copy, Debug)]
pub struct LoggedPacket {
    pub(crate) key: Key,
    /// Packets of the connection so far.
    pub(crate) packets: u64,
    pub(crate) repeats: Repeats,
}

/// Whether a packet is of a connection that was met before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    No,
    /// For callers that want to be told of each packet.
    Yes,
}

/// How an agent works, as far as its core is concerned.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    pub attention: Attention,
    pub established: Established,
    /// The netlink ports by which the host changes tables: changes by others are checked.
    pub ports: BTreeSet<u32>,
}

/// Everything that the agent of one node knows.
#[derive(Debug)]
pub struct State {
    pub(crate) settings: CoreSettings,
    /// The cluster, and the names of origins.
    pub(crate) names: Names,
    pub(crate) unknown: Unknown,
    pub(crate) lowering: Lowering,
    /// The ruleset of the cluster as it is known. It is in force if `own` has applied it.
    pub(crate) lowered: Option<Arc<Ruleset>>,
    pub(crate) own: OwnTable,
    pub(crate) frames: SmallTable,
    pub(crate) replies_table: SmallTable,
    pub(crate) unknown_table: SmallTable,
    pub(crate) audit_table: SmallTable,
    pub(crate) replies: Replies,
    pub(crate) audit: Keeper,
    pub(crate) job: Option<Job>,
    pub(crate) pending: Pending,
    pub(crate) requests: VecDeque<(RequestId, Request)>,
    pub(crate) suspects: Suspects,
    /// A table that another process changed and that could not be put back yet, with that process.
    pub(crate) unreported: Option<(Checked, String)>,
    /// When a check that failed is tried again.
    pub(crate) check_at: Duration,
    pub(crate) hearing: Hearing,
    /// The link of each pod with its index when links were last listed, and the addresses behind it.
    pub(crate) present: BTreeMap<String, (u32, BTreeMap<IpAddr, PodName>)>,
    pub(crate) links: Seen,
    pub(crate) routes: Seen,
    /// The host routes of the node when they were last listed.
    pub(crate) host_routes: Option<Vec<UnknownPod>>,
    /// The unknown pods that the table drops packets of. None before it is written, and after a write that failed: then nothing is opened without a grace.
    pub(crate) closed: Option<BTreeSet<UnknownPod>>,
    pub(crate) sweep: SweepQueue,
    pub(crate) environment: EnvironmentWatch,
    pub(crate) room: Room,
    pub(crate) tracking: Periodic,
    pub(crate) recompute: Periodic,
    /// Counts changes of the cluster, so that a recomputation of an earlier one is recognised.
    pub(crate) version: u64,
    pub(crate) rates: [Rates; 3],
    pub(crate) totals: Totals,
    /// But for those of the own table.
    pub(crate) counts: Counts,
    /// The last failure of each kind that was reported, so that each is reported once.
    pub(crate) failures: BTreeMap<Source, String>,
    pub(crate) last_token: u64,
    pub(crate) stopping: bool,
    #[cfg(test)]
    pub(crate) mistake: Option<crate::core::simulation::Mistake>,
}

/// The subject of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Check,
    Sweep,
    Links,
    Routes,
    Environment,
    Tracking,
    Log,
}

/// Whether every notification came that the kernel had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    All,
    NotAll,
}

/// Whether something of the node changed since it was last listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Yes,
    /// It is listed at this time.
    NotBefore(Duration),
}

/// Work that is repeated after a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periodic {
    pub(crate) due: Duration,
    pub(crate) waiting: Option<(Token, u64)>,
}

impl State {
    /// An agent that knows nothing yet. The active ruleset stays in the kernel until the first change.
    pub fn new(settings: CoreSettings, now: Now) -> State {
        let start = now.since_start;
        let limits = Limits::default();
        State {
            settings,
            names: Names::default(),
            unknown: Unknown::Closed(PodLinks::default()),
            lowering: Lowering::new(Layout::CURRENT),
            lowered: None,
            own: OwnTable::new(Layout::CURRENT),
            frames: SmallTable::new(Table::Frames),
            replies_table: SmallTable::new(Table::Replies),
            unknown_table: SmallTable::new(Table::UnknownPods),
            audit_table: SmallTable::new(Table::Audit),
            replies: Replies::default(),
            audit: Keeper::default(),
            job: None,
            pending: Pending::default(),
            requests: VecDeque::new(),
            suspects: Suspects::default(),
            unreported: None,
            check_at: start,
            hearing: Hearing::All,
            present: BTreeMap::new(),
            links: Seen::Yes,
            routes: Seen::Yes,
            host_routes: None,
            closed: None,
            sweep: SweepQueue::default(),
            environment: EnvironmentWatch::new(start),
            room: Room::default(),
            tracking: Periodic { due: start, waiting: None },
            recompute: Periodic { due: start + RECOMPUTE, waiting: None },
            version: 0,
            rates: [Rates::new(limits), Rates::new(limits), Rates::new(limits)],
            totals: Totals::default(),
            counts: Counts::default(),
            failures: BTreeMap::new(),
            last_token: 0,
            stopping: false,
            #[cfg(test)]
            mistake: None,
        }
    }

    /// A token that no work has yet.
    pub(crate) fn token(&mut self) -> Token {
        self.last_token += 1;
        Token(self.last_token)
    }

    /// The node as the lowering sees it. None before the first change.
    pub(crate) fn view(&self) -> Option<NodeView> {
        let cluster = &self.names.cluster;
        Some(NodeView { node: cluster.node()?, links: cluster.links().clone(), unknown: self.unknown.clone() })
    }

    /// Reports a failure unless it is the same as the last one of its kind, and counts it.
    pub(crate) fn failed(&mut self, source: Source, failure: String) -> Option<Effect> {
        let is_new = self.failures.get(&source) != Some(&failure);
        self.failures.insert(source, failure.clone());
        is_new.then_some(Effect::Report(Event::Failed(failure)))
    }
}

/// The rulesets are lowered from scratch this often.
pub(crate) const RECOMPUTE: Duration = Duration::from_secs(3600);
