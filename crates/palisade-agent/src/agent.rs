//! Keeps the own table of one node, one call at a time: the machine of `core::own_table` with a kernel to work on.
//!
//! For repairs and tests. An agent at work runs the same machine in its loop.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use palisade_kernel::{Counted, Kernel, KernelError};
use palisade_model::{EndpointId, Gap, Model, NodeId, Shared};
use palisade_nft::{Layout, Lowering, NodeView, Origin, PodLinks, Ruleset, Statement, Unknown, Verdict};

use crate::core::own_table::{Ends, Finished, OwnTable};
use crate::core::work::{Outcome, Progress, perform};
use crate::counts::Counts;

/// Keeps the table of one node.
#[derive(Debug)]
pub struct Agent<K> {
    kernel: K,
    lowering: Lowering,
    own: OwnTable,
    unknown: Unknown,
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
    /// The table is what it was before, and the agent needs the whole model.
    #[error("the agent has missed changes of the model: {0}")]
    Gap(Gap),
}

impl<K: Kernel> Agent<K> {
    /// An agent for the namespace that the kernel handle belongs to. Nothing is changed yet: what is in force stays so.
    pub fn new(kernel: K) -> Agent<K> {
        Agent::of_layout(kernel, Layout::CURRENT)
    }

    /// An agent of a version that marks tables with another layout, and knows no other than that.
    pub fn of_layout(kernel: K, layout: Layout) -> Agent<K> {
        Agent { kernel, lowering: Lowering::new(layout), own: OwnTable::new(layout), unknown: Unknown::Closed(PodLinks::default()) }
    }

    /// Says what becomes of pods that are not known, from the next `apply` on. Before, it is closed to them on the links of usual CNIs.
    pub fn treat_unknown(&mut self, unknown: Unknown) {
        self.unknown = unknown;
    }

    /// What it has done and met.
    pub fn counts(&self) -> &Counts {
        self.own.counts()
    }

    /// Changes that failed since the last one that succeeded.
    pub fn in_vain(&self) -> u64 {
        self.own.in_vain()
    }

    /// Brings the table to what the model wants for a node. Links are the node's ends of its pods' links. No packet is left that met what was in force before.
    pub fn apply(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        self.bring(model, node, links, Ends::Settled)
    }

    fn bring(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>, ends: Ends) -> Result<Applied, AgentError> {
        let view = NodeView { node, links, unknown: self.unknown.clone() };
        let (wanted, _) = self.lowering.lower(model, &view);
        let first = self.own.apply(wanted, ends);
        match self.drive(first) {
            Finished::Applied(applied) => applied,
            Finished::Checked(checked) => checked.map(|_| Applied::Unchanged),
            Finished::Settled(settled) => settled.map(|()| Applied::Unchanged).map_err(AgentError::Kept),
        }
    }

    /// Compares the table with what was applied, and puts that back if it is not there.
    pub fn check(&mut self) -> Result<Checked, AgentError> {
        let first = self.own.check();
        match self.drive(first) {
            Finished::Checked(checked) => checked,
            Finished::Applied(applied) => applied.map(|_| Checked::Intact),
            Finished::Settled(settled) => settled.map(|()| Checked::Intact).map_err(AgentError::Kept),
        }
    }

    fn drive(&mut self, first: Progress<Finished>) -> Finished {
        let mut progress = Some(first);
        loop {
            let outcome: Outcome = match progress {
                Some(Progress::Finished(finished)) => return finished,
                Some(Progress::Do(work)) => perform(&mut self.kernel, &work)
                    .unwrap_or_else(|| Err(KernelError::Truncated("work that is not about tables".to_owned()))),
                None => return Finished::Settled(Ok(())),
            };
            progress = self.own.done(outcome);
        }
    }

    /// What was applied last.
    pub fn ruleset(&self) -> Option<&Arc<Ruleset>> {
        self.own.wanted()
    }

    /// What the numbers in log prefixes stand for.
    pub fn origins(&self) -> &Shared<BTreeMap<u32, Origin>> {
        static NONE: LazyLock<Shared<BTreeMap<u32, Origin>>> = LazyLock::new(Shared::default);
        self.own.wanted().map_or(&NONE, |it| &it.origins)
    }

    /// What the rules have counted, by what they come from: what drops first, then what counted most.
    pub fn counted(&mut self) -> Result<Vec<RuleCount>, KernelError> {
        Ok(RuleCount::of(self.kernel.counters()?, self.own.wanted().map(Arc::as_ref)))
    }

    /// The handle, for what else is to be read.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }
}

impl RuleCount {
    /// Sums of counters by origin. The ruleset says what the rules do.
    pub(crate) fn of(counters: Vec<Counted>, ruleset: Option<&Ruleset>) -> Vec<RuleCount> {
        let mut sums: BTreeMap<(Did, String), (u64, u64)> = BTreeMap::new();
        for counted in counters {
            let chain = ruleset.and_then(|it| it.chains.get(&counted.chain));
            let drops = chain
                .and_then(|it| it.rules.get(counted.index))
                .is_some_and(|it| it.statements.contains(&Statement::Verdict(Verdict::Drop)));
            let sum = sums.entry((if drops { Did::Drop } else { Did::Pass }, counted.comment.unwrap_or_default())).or_default();
            *sum = (sum.0 + counted.packets, sum.1 + counted.bytes);
        }
        let mut counts: Vec<RuleCount> =
            sums.into_iter().map(|((did, origin), (packets, bytes))| RuleCount { did, origin, packets, bytes }).collect();
        counts.sort_by_key(|it| (it.did, std::cmp::Reverse(it.packets)));
        counts
    }
}

#[cfg(test)]
mod tests;
