//! One node's table: brought to what the model wants, and back to it when somebody else changed it.
//!
//! Nothing here decides a verdict, waits or starts a thread. Whoever holds the agent says when.

use std::collections::BTreeMap;

use nix::errno::Errno;
use palisade_kernel::{Kernel, KernelError};
use palisade_model::{EndpointId, Model, NodeId};
use palisade_nft::{Ids, NodeView, Origin, Ruleset, Transaction, lower};

/// How often something is tried that may go better the next time.
const ATTEMPTS: usize = 5;

/// Keeps the table of one node.
#[derive(Debug)]
pub struct Agent<K> {
    kernel: K,
    ids: Ids,
    wanted: Option<Ruleset>,
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

/// Why the table is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The table is what it was before.
    #[error("the table is as it was before: {0}")]
    Kept(KernelError),
    #[error("what the table holds is not known: {0}")]
    NotKnown(KernelError),
}

impl<K: Kernel> Agent<K> {
    /// An agent for the namespace that the kernel handle belongs to. Nothing is changed yet: what is in force stays so.
    pub fn new(kernel: K) -> Agent<K> {
        Agent { kernel, ids: Ids::default(), wanted: None }
    }

    /// Brings the table to what the model wants for a node. Links are the node's ends of its pods' links.
    pub fn apply(&mut self, model: &Model, node: NodeId, links: BTreeMap<EndpointId, String>) -> Result<Applied, AgentError> {
        let wanted = lower(model, &NodeView { node, links }, &mut self.ids);
        let applied = match &self.wanted {
            Some(before) => {
                let changes = wanted.changes_since(before);
                match changes.is_empty() {
                    true => Ok(Applied::Unchanged),
                    false => self.commit(&changes, &wanted).map(|()| Applied::Changed(changes.changes.len())),
                }
            }
            None => Err(AgentError::NotKnown(KernelError::Timeout(0))),
        };
        let applied = match applied {
            Ok(applied) => applied,
            // What was there was not what it should have been; all of it is written.
            Err(_) => self.commit(&Transaction::load(&wanted), &wanted).map(|()| Applied::Loaded)?,
        };
        self.wanted = Some(wanted);
        Ok(applied)
    }

    /// Holds the table against what was applied, and puts that back if it is not there.
    pub fn check(&mut self) -> Result<Checked, AgentError> {
        let Some(wanted) = self.wanted.clone() else { return Ok(Checked::NothingWanted) };
        let found = match self.attempt(Kernel::dump) {
            Ok(Some(found)) if same(&found, &wanted) => return Ok(Checked::Intact),
            Ok(Some(_)) | Err(KernelError::Foreign { .. }) => Checked::WasChanged,
            Ok(None) => Checked::WasRemoved,
            Err(error) => return Err(AgentError::NotKnown(error)),
        };
        self.commit(&Transaction::load(&wanted), &wanted)?;
        Ok(found)
    }

    /// What the numbers in log prefixes stand for.
    pub fn origins(&self) -> &BTreeMap<u32, Origin> {
        static NONE: BTreeMap<u32, Origin> = BTreeMap::new();
        self.wanted.as_ref().map_or(&NONE, |it| &it.origins)
    }

    /// The handle, for what else is to be read.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Commits, and finds out what came of it where the answer was lost.
    fn commit(&mut self, changes: &Transaction, wanted: &Ruleset) -> Result<(), AgentError> {
        match self.attempt(|kernel| kernel.commit(changes)) {
            Ok(()) => Ok(()),
            Err(lost @ (KernelError::Overrun | KernelError::Timeout(_) | KernelError::Truncated(_))) => match self.attempt(Kernel::dump) {
                Ok(Some(found)) if same(&found, wanted) => Ok(()),
                Ok(_) => Err(AgentError::Kept(lost)),
                Err(error) => Err(AgentError::NotKnown(error)),
            },
            Err(error) => Err(AgentError::Kept(error)),
        }
    }

    fn attempt<T>(&mut self, work: impl Fn(&mut K) -> Result<T, KernelError>) -> Result<T, KernelError> {
        let mut result = work(&mut self.kernel);
        for _ in 1..ATTEMPTS {
            match &result {
                Err(error) if is_passing(error) => result = work(&mut self.kernel),
                Ok(_) | Err(_) => break,
            }
        }
        result
    }
}

/// Whether the same may go well at once. Nothing of it is in force.
fn is_passing(error: &KernelError) -> bool {
    let passing = |errno: &Errno| [Errno::EBUSY, Errno::EINTR, Errno::EAGAIN, Errno::ENOBUFS].contains(errno);
    matches!(error, KernelError::Unsteady(_))
        || matches!(error, KernelError::Socket { errno, .. } if passing(errno))
        || matches!(error, KernelError::Refused(refusals) if refusals.iter().all(|it| passing(&it.errno)))
}

/// What the kernel keeps of a ruleset: all but the origins.
fn same(found: &Ruleset, wanted: &Ruleset) -> bool {
    let Ruleset { chains, data, intervals, verdicts, sets, origins: _ } = found;
    *chains == wanted.chains
        && *data == wanted.data
        && *intervals == wanted.intervals
        && *verdicts == wanted.verdicts
        && *sets == wanted.sets
}
