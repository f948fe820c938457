//! Decides one flow, with the whole trace of why.
//!
//! `decide` is where every verdict of the product comes from. Its answer carries each tier that was asked, each rule that was tried and what
//! made it miss, so that nobody has to work out a reason a second time.
#![warn(missing_docs, clippy::as_conversions)]

mod compile;
mod decide;
mod matching;
mod signature;
mod trace;

pub use compile::{Alike, AlikeApart, Change, Compiled, PortSetId, PortSets, Reach, ReachEnd, Traffic, compile};
pub use decide::{decide, decide_direction, selects};
pub use signature::{Nodes, Signature, signature};
pub use trace::{Decision, FailedRequirement, Match, Outcome, PeerMiss, PeerMisses, PortMiss, RuleStep, Scope, TierStep, Walk};
