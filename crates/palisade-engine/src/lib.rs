//! Decides one flow, with the whole trace of why.
//!
//! `decide` is where every verdict of the product comes from. Its answer carries each tier that was asked, each rule that was tried and what
//! made it miss, so that nobody has to work out a reason a second time.
#![warn(missing_docs, clippy::as_conversions)]

mod applying;
mod by_port;
mod cells;
mod compile;
mod decide;
mod judge;
mod matching;
mod relative;
mod signature;
mod trace;
mod unknown;

pub use applying::{Applies, applying};
pub use by_port::ByPort;
pub use cells::{CellChanges, CellId, CellsAre, LocalPods, NodeCells, Reduced};
pub use compile::{
    Alike, AlikeApart, Compiled, Known, LetPass, Meeting, NodeProgram, OnNode, PortSetId, PortSets, Reach, ReachEnd, Role, Seen, Traffic,
    Treated, compile, compile_network,
};
pub use decide::{Selecting, decide, decide_direction, decide_direction_among, is_about, selects};
pub use judge::{Cause, Judge, Judged};
pub use relative::{Compared, Values, without_relations};
pub use signature::{Nodes, Signature, signature};
pub use trace::{Decision, FailedRequirement, Match, Outcome, PeerMiss, PeerMisses, PortMiss, RuleStep, Scope, TierStep, Walk};
