//! Work that the core asks its host to do, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_kernel::{Connection, Deleted, Environment, Kernel, KernelError, Tracking};
use palisade_model::{Model, NodeId};
use palisade_nft::{Audit, Auditing, Counted, Layout, Lowering, NodeView, Ruleset, Table, Transaction, UnknownPod};

use crate::sweep::Touched;

/// Identifies one piece of work, so that its answer finds the job that waits for it. The answer of an earlier job is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// One piece of work. The host answers each with `Input::Done`.
#[derive(Clone, Debug)]
pub enum Work {
    /// Commits a transaction.
    Commit(Arc<Transaction>),
    /// Waits until every packet that is on its way has left.
    Grace,
    /// Lists the tables of policies that exist.
    Standing,
    /// Reads the layout of the own table.
    Layout,
    /// Reads a table.
    Dump(Table),
    /// Reads the counters of a table.
    Counters(Table),
    /// Lists the interfaces of the node with their indexes.
    Links,
    /// Lists the host routes of the node.
    Routes,
    /// Reads the tracked connections that a change touches, and the addresses of the node.
    Connections(Arc<Touched>),
    /// Deletes tracked connections.
    Forget(Arc<Vec<Connection>>),
    /// Reads everything that can lead packets past the hooks.
    Environment,
    /// Reads the statistics of connection tracking.
    Tracking,
    /// Lowers a model from scratch.
    Recompute(Arc<Recompute>),
}

/// The thread of a host that does a piece of work. The work of one lane is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Tables, interfaces and routes: a job waits for these.
    Table,
    /// Work that may take long, and that no commit waits for.
    Slow,
}

impl Work {
    /// The lane that does this work.
    pub fn lane(&self) -> Lane {
        match self {
            Work::Commit(_) | Work::Grace | Work::Standing | Work::Layout | Work::Dump(_) | Work::Counters(_) => Lane::Table,
            Work::Links | Work::Routes => Lane::Table,
            Work::Connections(_) | Work::Forget(_) | Work::Environment | Work::Tracking | Work::Recompute(_) => Lane::Slow,
        }
    }

    /// The kind of this work, for counters.
    pub fn kind(&self) -> &'static str {
        match self {
            Work::Commit(_) => "commit",
            Work::Grace => "grace",
            Work::Standing => "standing",
            Work::Layout => "layout",
            Work::Dump(_) => "dump",
            Work::Counters(_) => "counters",
            Work::Links => "links",
            Work::Routes => "routes",
            Work::Connections(_) => "connections",
            Work::Forget(_) => "forget",
            Work::Environment => "environment",
            Work::Tracking => "tracking",
            Work::Recompute(_) => "recompute",
        }
    }
}

/// The answer to a piece of work that went well.
#[derive(Debug)]
pub enum Done {
    /// A commit or a grace.
    Done,
    Standing(Vec<Table>),
    Layout(Option<Layout>),
    Dump(Option<Ruleset>),
    Counters(Vec<Counted>),
    /// Indexes of interfaces by name.
    Links(BTreeMap<String, u32>),
    Routes(Vec<UnknownPod>),
    Connections(Box<Found>),
    Forgotten(Vec<Deleted>),
    Environment(Box<Environment>),
    Tracking(Tracking),
    Recomputed(Box<Recomputed>),
}

/// Tracked connections.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All addresses of the node itself.
    pub node: BTreeSet<IpAddr>,
    pub connections: Vec<Connection>,
}

/// The input of a recomputation.
#[derive(Clone, Debug)]
pub struct Recompute {
    pub model: Model,
    pub view: NodeView,
    pub layout: Layout,
}

/// The result of a recomputation, with the state that goes on from it.
#[derive(Debug)]
pub struct Recomputed {
    pub lowering: Lowering,
    pub auditing: Auditing,
    pub ruleset: Arc<Ruleset>,
    pub audit: Option<Arc<Audit>>,
}

impl Recompute {
    /// Lowers the model from scratch.
    pub fn run(&self) -> Recomputed {
        let NodeView { node, .. } = self.view;
        let (mut lowering, mut auditing) = (Lowering::new(self.layout), Auditing::default());
        let (ruleset, _) = lowering.lower(&self.model, &self.view);
        let audit = audited(&mut auditing, &self.model, node);
        Recomputed { lowering, auditing, ruleset, audit }
    }
}

fn audited(auditing: &mut Auditing, model: &Model, node: NodeId) -> Option<Arc<Audit>> {
    auditing.audit(model, node).map(|(audit, _)| audit)
}

/// The result of a piece of work.
pub type Outcome = Result<Done, KernelError>;

/// Does work on tables. None for work that is not about tables.
pub fn perform<K: Kernel>(kernel: &mut K, work: &Work) -> Option<Outcome> {
    Some(match work {
        Work::Commit(transaction) => kernel.commit(transaction).map(|()| Done::Done),
        Work::Grace => kernel.grace().map(|()| Done::Done),
        Work::Standing => kernel.standing().map(Done::Standing),
        Work::Layout => kernel.layout().map(Done::Layout),
        Work::Dump(table) => kernel.dump_of(*table).map(Done::Dump),
        Work::Counters(table) => kernel.counters_of(*table).map(Done::Counters),
        Work::Links | Work::Routes | Work::Connections(_) | Work::Forget(_) => return None,
        Work::Environment | Work::Tracking | Work::Recompute(_) => return None,
    })
}

/// How a machine of the core goes on.
#[derive(Debug)]
pub(crate) enum Progress<T> {
    /// It needs this work done, and waits for the outcome.
    Do(Work),
    Finished(T),
}
