//! From one ruleset to another without a packet that neither of them lets through, and without one lost that both let through.
//!
//! A commit is atomic for one lookup and no more: a packet on its way may ask one map before it and the next one after it. So a change is
//! made in steps, and between steps that must not be mixed every packet that is on its way leaves first (*grace*):
//!
//! 1. *refine*: whatever nobody refers to yet comes: leaves, programs, elements for numbers that no address has. Addresses go to classes that
//!    the old programs do not tell apart from the ones before.
//! 2. *narrow*: subjects go to programs that allow what both the old and the new one allow (*meet*); where one of these is that, to it.
//! 3. *move*: addresses go to classes that somebody does tell apart;
//! 4. *widen*: subjects go to the new programs;
//! 5. *settle*: addresses go to classes that the new programs do not tell apart from the ones before;
//! 6. *sweep*: whatever nobody refers to any more goes.
//!
//! Steps with nothing to do are left out, and some are made together (`together`): a pod is one commit, on the node only if it may send whatever it wants. What is first asked of an object must have been prepared in an
//! earlier commit: the rules of a new chain are empty for packets that came before it.
//!
//! Where that cannot be done (`gradual` says nothing, or the old ruleset is of another layout), the new ruleset is loaded into a table beside the old one. A packet must pass both:
//! that is the meet. Then the old one is replaced while nothing asks it (`beside`).

mod beside;
mod elements;
mod gradual;
mod leaf;
mod links;
mod moves;
mod reduce;
mod tables;
mod together;
mod transitions;

pub use beside::{load, replace};

use crate::ruleset::Ruleset;
use crate::transaction::Transaction;

/// One step of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Commit(Transaction),
    /// Every packet that is on its way leaves.
    Grace,
}

/// What turns the table that holds `old` into one that holds `new`. Nothing if they are the same; else it ends with a grace, so that one plan
/// can follow another.
pub fn plan(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    elements::plan(old, new).unwrap_or_else(|| plan_whole(old, new))
}

/// The same steps by the planner for all changes, without the shortcut for addresses alone. Tests compare both.
pub fn plan_whole(old: &Ruleset, new: &Ruleset) -> Vec<Step> {
    let gradual = if old.layout == new.layout { gradual::plan(old, new) } else { None };
    gradual.unwrap_or_else(|| replace(new, &[]))
}
