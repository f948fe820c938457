//! One node's table: brought to what the model wants, and back to it when somebody else changed it.
//!
//! Nothing here decides a verdict, waits or starts a thread. Whoever holds the agent says when.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use nix::errno::Errno;
use palisade_kernel::{Kernel, KernelError};
use palisade_model::{EndpointId, Model, NodeId, Shared};
use palisade_nft::{
    Layout, Lowering, NodeView, Origin, PodLinks, Ruleset, Statement, Step, Table, Transaction, Unknown, Verdict, apply, load, plan,
    replace,
};

use crate::counts::Counts;

/// How often something is tried that may go better the next time.
const ATTEMPTS: usize = 5;

/// Keeps the table of one node.
#[derive(Debug)]
pub struct Agent<K> {
    kernel: K,
    lowering: Lowering,
    layout: Layout,
    /// What was applied last.
    wanted: Option<Arc<Ruleset>>,
    standing: Standing,
    built: Built,
    due: Due,
    unknown: Unknown,
    uncovered: Vec<String>,
    counts: Counts,
    /// How many changes did not come true since the last that did.
    in_vain: u64,
}

/// What the table holds, as far as one can know without looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// What was applied last.
    AsLeft,
    /// Anything, and perhaps there is none: nothing can be built on it.
    Unknown,
}

/// What the last `apply` changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Built {
    /// What the one before had left.
    OnKnown,
    /// Something else was in force, for a while at least: a change that came to no end, or what somebody made of the table.
    OnUnknown,
}

/// What must be waited for before anything builds on the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Packets may be on their way that met what was in force before.
    Grace,
}

/// What an `apply` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The table was there and had to be told nothing.
    Unchanged,
    /// So many changes were made to it.
    Changed(usize),
    /// It was written whole: there was none, or not one that could be built on.
    Loaded,
    /// It was of another layout, and was replaced whole.
    TakenOver(Layout),
}

/// What a `check` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// As it was left.
    Intact,
    /// Somebody had removed it; it is back.
    WasRemoved,
    /// Somebody had changed it; it is as it was.
    WasChanged,
    /// Nothing has been applied yet, so there is nothing to hold it against.
    NothingWanted,
}

/// What all rules of one origin have counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleCount {
    pub did: Did,
    /// As the comment of the rule says it: `np/NAMESPACE/NAME#RULE`, `isolated np/…`, `default` and so on.
    pub origin: String,
    pub packets: u64,
    pub bytes: u64,
}

/// What a rule does with what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Did {
    Drop,
    Pass,
}

/// Why the table is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The table is what it was before.
    #[error("the table is as it was before: {0}")]
    Kept(KernelError),
    /// The next `apply` writes all of it.
    #[error("what the table holds is not known: {0}")]
    NotKnown(KernelError),
}

impl<K: Kernel> Agent<K> {
    /// An agent for the namespace that the kernel handle belongs to. Nothing is changed yet: what is in force stays so.
    pub fn new(kernel: K) -> Agent<K> {
        Agent::of_layout(kernel, Layout::CURRENT)
    }

    /// An agent of a version that marks tables with another layout, and knows no other than that.
    pub fn of_layout(kernel: K, layout: Layout) -> Agent<K> {
        let unknown = Unknown::Closed(PodLinks::default());
        Agent {
            kernel,
            lowering: Lowering::new(layout),
            layout,
            wanted: None,
            standing: Standing::Unknown,
            built: Built::OnUnknown,
            // Whoever had the table before may have ended right after a commit.
            due: Due::Grace,
            unknown,
            uncovered: Vec::new(),
            counts: Counts::default(),
            in_vain: 0,
        }
    }

    /// Says what becomes of pods that are not known, from the next `apply` on. Before, it is closed to them on the links of usual CNIs.
    pub fn treat_unknown(&mut self, unknown: Unknown) {
        self.unknown = unknown;
    }

    /// What becomes of pods that are not known.
    pub(crate) fn unknown_pods(&self) -> &Unknown {
        &self.unknown
    }

    /// Links of pods that look like no pod's, as of the last `apply`: others like them stay open while they are not known.
    pub fn uncovered(&self) -> &[String] {
        &self.uncovered
    }

    /// What it has done and met.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the last `apply` changed.
    pub(crate) fn built(&self) -> Built {
        self.built
    }

    /// How many changes did not come true since the last that did.
    pub fn in_vain(&self) -> u64 {
        self.in_vain
    }

    /// Brings the table to what the model wants for a node. Links are the node's ends of its pods' links. No packet is left that met what was in force before.
    pub fn apply(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let applied = self.make_true(model, node, links);
        let settled = applied.and_then(|applied| self.settle().map(|()| applied).map_err(|error| self.unknown(error)));
        self.counted_as(settled)
    }

    /// The same, but for packets that are on their way: `settle` waits for these.
    pub(crate) fn enforce(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let applied = self.make_true(model, node, links);
        self.counted_as(applied)
    }

    fn counted_as(&mut self, applied: Result<Applied, AgentError>) -> Result<Applied, AgentError> {
        match applied {
            Ok(_) => self.in_vain = 0,
            Err(_) => {
                self.in_vain += 1;
                self.counts.unfulfilled += 1;
            }
        }
        applied
    }

    /// Waits until no packet is on its way that met what was in force before the last change.
    pub(crate) fn settle(&mut self) -> Result<(), KernelError> {
        if self.due == Due::Grace {
            self.attempt(Kernel::grace)?;
            self.due = Due::Nothing;
        }
        Ok(())
    }

    fn make_true(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        self.uncovered = uncovered(&links, &self.unknown);
        let view = NodeView { node, links, unknown: self.unknown.clone() };
        let (wanted, _) = self.lowering.lower(model, &view);
        self.built = Built::OnKnown;
        let applied = match (self.wanted.take(), self.standing) {
            (Some(before), Standing::AsLeft) if Arc::ptr_eq(&before, &wanted) => Applied::Unchanged,
            (Some(before), Standing::AsLeft) => {
                let changed = self.change(&before, &wanted);
                self.wanted = Some(before);
                changed?
            }
            (before, _) => {
                self.wanted = before;
                self.bring(&wanted)?
            }
        };
        self.wanted = Some(wanted);
        Ok(applied)
    }

    /// Holds the table against what was applied, and puts that back if it is not there.
    pub fn check(&mut self) -> Result<Checked, AgentError> {
        let checked = self.hold();
        match checked {
            Ok(Checked::WasRemoved | Checked::WasChanged) => self.counts.restorations += 1,
            Ok(Checked::Intact | Checked::NothingWanted) => {}
            Err(_) => self.counts.unfulfilled += 1,
        }
        checked
    }

    fn hold(&mut self) -> Result<Checked, AgentError> {
        let Some(wanted) = self.wanted.clone() else { return Ok(Checked::NothingWanted) };
        let checked = match self.look(&wanted)? {
            Found::Same if self.standing == Standing::AsLeft || self.beside()?.is_empty() => {
                self.standing = Standing::AsLeft;
                return Ok(Checked::Intact);
            }
            // A replacement that failed has left another table in force.
            Found::Same => {
                self.bring(&wanted)?;
                return Ok(Checked::Intact);
            }
            Found::Other => Checked::WasChanged,
            Found::Nothing => Checked::WasRemoved,
        };
        self.standing = Standing::Unknown;
        self.bring(&wanted)?;
        Ok(checked)
    }

    /// What was applied last.
    pub fn ruleset(&self) -> Option<&Arc<Ruleset>> {
        self.wanted.as_ref()
    }

    /// What the numbers in log prefixes stand for.
    pub fn origins(&self) -> &Shared<BTreeMap<u32, Origin>> {
        static NONE: LazyLock<Shared<BTreeMap<u32, Origin>>> = LazyLock::new(Shared::default);
        self.wanted.as_ref().map_or(&NONE, |it| &it.origins)
    }

    /// What the rules have counted, by what they come from: what drops first, then what counted most.
    pub fn counted(&mut self) -> Result<Vec<RuleCount>, KernelError> {
        let mut sums: BTreeMap<(Did, String), (u64, u64)> = BTreeMap::new();
        for counted in self.kernel.counters()? {
            let chain = self.wanted.as_ref().and_then(|it| it.chains.get(&counted.chain));
            let drops = chain
                .and_then(|it| it.rules.get(counted.index))
                .is_some_and(|it| it.statements.contains(&Statement::Verdict(Verdict::Drop)));
            let sum = sums.entry((if drops { Did::Drop } else { Did::Pass }, counted.comment.unwrap_or_default())).or_default();
            *sum = (sum.0 + counted.packets, sum.1 + counted.bytes);
        }
        let mut counts: Vec<RuleCount> =
            sums.into_iter().map(|((did, origin), (packets, bytes))| RuleCount { did, origin, packets, bytes }).collect();
        counts.sort_by_key(|it| (it.did, std::cmp::Reverse(it.packets)));
        Ok(counts)
    }

    /// The handle, for what else is to be read.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Makes changes to what was left. If that is not there any more, whatever is there is changed.
    fn change(&mut self, before: &Ruleset, wanted: &Ruleset) -> Result<Applied, AgentError> {
        let steps = plan(before, wanted);
        let error = match self.run(Some(before), &steps) {
            Ok(0) => return Ok(Applied::Unchanged),
            Ok(changes) => return Ok(if steps.iter().all(is_on_own_table) { Applied::Changed(changes) } else { Applied::Loaded }),
            Err(error) => error,
        };
        match &error {
            AgentError::Kept(refused) | AgentError::NotKnown(refused) if is_full(refused) => self.renew(wanted),
            AgentError::Kept(refused) if is_about_the_table(refused) => match self.look(before)? {
                Found::Same => Err(error),
                Found::Other | Found::Nothing => {
                    self.standing = Standing::Unknown;
                    self.bring(wanted)
                }
            },
            AgentError::NotKnown(refused) if is_stale(refused) => self.bring(wanted),
            AgentError::Kept(_) | AgentError::NotKnown(_) => Err(error),
        }
    }

    /// Changes whatever is there. Somebody may change it meanwhile, but not for ever.
    fn bring(&mut self, wanted: &Ruleset) -> Result<Applied, AgentError> {
        self.built = Built::OnUnknown;
        let mut result = self.bring_once(wanted);
        for _ in 1..ATTEMPTS {
            match &result {
                Err(AgentError::Kept(error) | AgentError::NotKnown(error)) if is_stale(error) => result = self.bring_once(wanted),
                Err(AgentError::Kept(error) | AgentError::NotKnown(error)) if is_full(error) => result = self.renew(wanted),
                Ok(_) | Err(_) => break,
            }
        }
        result
    }

    /// Puts a new table in place of the one that is there: a map of that has no room for more.
    fn renew(&mut self, wanted: &Ruleset) -> Result<Applied, AgentError> {
        let beside = self.beside()?;
        self.run(None, &replace(wanted, &beside))?;
        self.standing = Standing::AsLeft;
        Ok(Applied::Loaded)
    }

    /// What somebody who died left beside the own table: first what packets are asked in.
    fn beside(&mut self) -> Result<Vec<Table>, AgentError> {
        let standing = self.attempt(Kernel::standing).map_err(AgentError::Kept)?;
        let mut beside: Vec<Table> = standing.into_iter().filter(|it| *it != Table::Own).collect();
        if let [_, last] = beside.as_slice()
            && !self.is_silent(*last).map_err(AgentError::Kept)?
        {
            beside.reverse();
        }
        Ok(beside)
    }

    /// Whether no packet is asked in a table. One that cannot be read may be anything.
    fn is_silent(&mut self, table: Table) -> Result<bool, KernelError> {
        match self.attempt(|kernel| kernel.dump_of(table)) {
            Ok(found) => Ok(found.is_none_or(|it| it.chains.values().all(|it| it.hook.is_none() || it.rules.is_empty()))),
            Err(KernelError::Foreign { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes what is there now, and what somebody who died left beside it.
    fn bring_once(&mut self, wanted: &Ruleset) -> Result<Applied, AgentError> {
        let beside = self.beside()?;
        let found = self.found().map_err(AgentError::Kept)?;
        let other = match &found {
            There::OfLayout(layout) => Some(*layout),
            There::Nothing | There::Readable(_) | There::Foreign => None,
        };
        let (before, steps) = match (found, beside.as_slice()) {
            (There::Nothing, []) => (None, load(wanted)),
            (There::Readable(found), []) => {
                let steps = plan(&found, wanted);
                (Some(found), steps)
            }
            (There::Nothing | There::Readable(_) | There::OfLayout(_) | There::Foreign, beside) => (None, replace(wanted, beside)),
        };
        let changes = self.run(before.as_ref(), &steps)?;
        self.standing = Standing::AsLeft;
        self.counts.takeovers += u64::from(other.is_some());
        if let Some(layout) = other {
            return Ok(Applied::TakenOver(layout));
        }
        Ok(match (before, changes) {
            (Some(_), 0) => Applied::Unchanged,
            (Some(_), changes) if steps.iter().all(is_on_own_table) => Applied::Changed(changes),
            (None | Some(_), _) => Applied::Loaded,
        })
    }

    /// What the own table is. One of another layout is not read: what it says may mean something else there.
    fn found(&mut self) -> Result<There, KernelError> {
        match self.attempt(Kernel::layout)? {
            None => return Ok(There::Nothing),
            Some(layout) if layout != self.layout => return Ok(There::OfLayout(layout)),
            Some(_) => {}
        }
        match self.attempt(Kernel::dump) {
            Ok(Some(found)) if found.layout != self.layout => Ok(There::OfLayout(found.layout)),
            Ok(Some(found)) => Ok(There::Readable(found)),
            Ok(None) => Ok(There::Nothing),
            Err(KernelError::Foreign { .. }) => Ok(There::Foreign),
            Err(error) => Err(error),
        }
    }

    /// Does one step after the other. Returns the number of changes. A grace at the end is due.
    fn run(&mut self, before: Option<&Ruleset>, steps: &[Step]) -> Result<usize, AgentError> {
        if !steps.is_empty() {
            self.settle().map_err(AgentError::Kept)?;
        }
        let mut changes = 0;
        for (at, step) in steps.iter().enumerate() {
            let done = match step {
                Step::Commit(transaction) => self.commit(transaction, || after(before, steps.get(..=at).unwrap_or_default())),
                Step::Grace => {
                    self.due = Due::Grace;
                    if at + 1 < steps.len() { self.settle().map_err(AgentError::Kept) } else { Ok(()) }
                }
            };
            // Each state on the way is safe, and the next one is found from there.
            done.map_err(|error| match error {
                AgentError::Kept(error) if changes > 0 => self.unknown(error),
                error @ (AgentError::Kept(_) | AgentError::NotKnown(_)) => error,
            })?;
            self.counts.commits += u64::from(matches!(step, Step::Commit(it) if !it.is_empty()));
            changes += match step {
                Step::Commit(transaction) => transaction.changes.len(),
                Step::Grace => 0,
            };
        }
        self.counts.replacements += u64::from(!steps.iter().all(is_on_own_table));
        Ok(changes)
    }

    /// Commits, and finds out what came of it where the answer was lost.
    fn commit(&mut self, changes: &Transaction, expected: impl FnOnce() -> Option<Ruleset>) -> Result<(), AgentError> {
        let lost = match self.attempt(|kernel| kernel.commit(changes)) {
            Ok(()) => return Ok(()),
            Err(lost) if is_lost(&lost) => lost,
            Err(error) => return Err(AgentError::Kept(error)),
        };
        match expected() {
            Some(expected) if changes.table == Table::Own => match self.look(&expected)? {
                Found::Same => Ok(()),
                Found::Other | Found::Nothing => Err(AgentError::Kept(lost)),
            },
            Some(_) | None => Err(self.unknown(lost)),
        }
    }

    fn unknown(&mut self, error: KernelError) -> AgentError {
        self.standing = Standing::Unknown;
        AgentError::NotKnown(error)
    }

    /// Holds the table against a ruleset.
    fn look(&mut self, expected: &Ruleset) -> Result<Found, AgentError> {
        match self.attempt(Kernel::dump) {
            Ok(Some(found)) if same(&found, expected) => Ok(Found::Same),
            Ok(Some(_)) | Err(KernelError::Foreign { .. }) => Ok(Found::Other),
            Ok(None) => Ok(Found::Nothing),
            Err(error) => Err(self.unknown(error)),
        }
    }

    fn attempt<T>(&mut self, work: impl Fn(&mut K) -> Result<T, KernelError>) -> Result<T, KernelError> {
        let mut result = work(&mut self.kernel);
        for _ in 1..ATTEMPTS {
            match &result {
                Err(error) if is_passing(error) => {
                    self.counts.failed(error);
                    self.counts.retries += 1;
                    result = work(&mut self.kernel);
                }
                Ok(_) | Err(_) => break,
            }
        }
        // A table that is not of our making was read well.
        result.as_ref().err().filter(|it| !matches!(it, KernelError::Foreign { .. })).into_iter().for_each(|it| self.counts.failed(it));
        result
    }
}

/// What the own table is.
enum There {
    Nothing,
    Readable(Ruleset),
    /// Of another version of ours, or of nobody's.
    OfLayout(Layout),
    /// Not of our making, or not any more.
    Foreign,
}

fn is_on_own_table(step: &Step) -> bool {
    match step {
        Step::Commit(transaction) => transaction.table == Table::Own,
        Step::Grace => true,
    }
}

/// What a table holds after some steps, if it is known before them. A load says it by itself.
fn after(before: Option<&Ruleset>, steps: &[Step]) -> Option<Ruleset> {
    let mut table = before.cloned();
    for step in steps {
        match step {
            Step::Commit(transaction) if transaction.table == Table::Own => apply(&mut table, transaction).ok()?,
            Step::Commit(_) | Step::Grace => {}
        }
    }
    table
}

fn uncovered(links: &BTreeMap<EndpointId, String>, unknown: &Unknown) -> Vec<String> {
    let Unknown::Closed(pods) = unknown else { return Vec::new() };
    // On a bridge it is the bridge that counts.
    let open = links.values().filter(|it| pods.bridges.is_empty() && !pods.covers(it));
    open.cloned().collect()
}

/// What a look at the table found.
enum Found {
    Same,
    Other,
    Nothing,
}

/// Whether the same may go well at once. Nothing of it is in force.
fn is_passing(error: &KernelError) -> bool {
    let passing = |errno: &Errno| [Errno::EBUSY, Errno::EINTR, Errno::EAGAIN, Errno::ENOBUFS].contains(errno);
    matches!(error, KernelError::Unsteady(_))
        || matches!(error, KernelError::Socket { errno, .. } if passing(errno))
        || matches!(error, KernelError::Refused(refusals) if refusals.iter().all(|it| passing(&it.errno)))
}

/// Whether a transaction may be in force all the same.
fn is_lost(error: &KernelError) -> bool {
    matches!(error, KernelError::Overrun | KernelError::Timeout(_) | KernelError::Truncated(_))
}

/// Whether something was not there, or was, when a step came to it: the table is not what it was when the steps were planned.
fn is_stale(error: &KernelError) -> bool {
    let stale = |errno: &Errno| [Errno::ENOENT, Errno::EEXIST, Errno::EBUSY].contains(errno);
    matches!(error, KernelError::Refused(refusals) if refusals.iter().any(|it| stale(&it.errno)))
}

/// Whether a map has no room for more.
fn is_full(error: &KernelError) -> bool {
    matches!(error, KernelError::Refused(refusals) if refusals.iter().any(|it| it.errno == Errno::ENFILE))
}

/// Whether the cause may be that the table is not what it was left as.
fn is_about_the_table(error: &KernelError) -> bool {
    is_lost(error) || matches!(error, KernelError::Refused(_))
}

/// What the kernel keeps of a ruleset: all but the origins.
pub(crate) fn same(found: &Ruleset, wanted: &Ruleset) -> bool {
    let Ruleset { layout, chains, data, intervals, verdicts, sets, pairs, addresses, origins: _ } = found;
    *layout == wanted.layout
        && *chains == wanted.chains
        && *data == wanted.data
        && *intervals == wanted.intervals
        && *verdicts == wanted.verdicts
        && *sets == wanted.sets
        && *pairs == wanted.pairs
        && *addresses == wanted.addresses
}

#[cfg(test)]
mod tests;
