//! The steps of a plan while they are done, and what a dump shows of them.

use std::sync::Arc;

use palisade_kernel::KernelError;
use palisade_nft::{Layout, Ruleset, Step, Table, Transaction, apply};

use crate::core::refusals::same;
use crate::core::work::{Done, Outcome};

/// Steps that are under way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) kind: RunKind,
    pub(super) before: Option<Arc<Ruleset>>,
    pub(super) steps: Vec<Planned>,
    pub(super) at: usize,
    pub(super) changes: usize,
}

/// A step of a plan. The host shares the transaction.
#[derive(Clone, Debug)]
pub(super) enum Planned {
    Commit(Arc<Transaction>),
    Grace,
}

impl From<Step> for Planned {
    fn from(step: Step) -> Planned {
        match step {
            Step::Commit(transaction) => Planned::Commit(Arc::new(transaction)),
            Step::Grace => Planned::Grace,
        }
    }
}

#[derive(Debug)]
pub(super) enum RunKind {
    /// From the ruleset that was applied last.
    Change,
    /// From the content that was found; the layout if that is another one.
    Bring(Option<Layout>),
    /// A new table in place of the one that is there.
    Renew,
}

impl Run {
    /// The own table after the step that is under way, if its content before the steps is known. A load says it by itself.
    pub(super) fn expected(&self) -> Option<Ruleset> {
        let mut table = self.before.as_deref().cloned();
        for step in self.steps.get(..=self.at).unwrap_or_default() {
            match step {
                Planned::Commit(transaction) if transaction.table == Table::Own => apply(&mut table, transaction).ok()?,
                Planned::Commit(_) | Planned::Grace => {}
            }
        }
        table
    }
}

pub(super) fn is_on_own_table(step: &Planned) -> bool {
    match step {
        Planned::Commit(transaction) => transaction.table == Table::Own,
        Planned::Grace => true,
    }
}

/// The content of a dump.
pub(super) enum Look {
    Same,
    Other,
    Nothing,
}

pub(super) fn looked(outcome: &Outcome, expected: &Ruleset) -> Result<Look, KernelError> {
    match outcome {
        Ok(Done::Dump(Some(found))) if same(found, expected) => Ok(Look::Same),
        Ok(Done::Dump(Some(_))) | Err(KernelError::Foreign { .. }) => Ok(Look::Other),
        Ok(Done::Dump(None)) => Ok(Look::Nothing),
        Ok(_) => Err(KernelError::Truncated("the answer to another question".to_owned())),
        Err(error) => Err(error.clone()),
    }
}

/// The state of the own table.
pub(super) enum There {
    Nothing,
    Readable(Ruleset),
    /// Of another version of Palisade, or without a mark.
    OfLayout(Layout),
    /// Not of our making, or no longer.
    Foreign,
}

/// The reason to look for tables beside the own one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Bring,
    Renew,
    Check,
}
