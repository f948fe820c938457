//! What a node does about policy.
//!
//! Logged packets become denials: read, named, told apart from repetitions and counted, so that nothing is lost without a number. None
//! of that reads a clock or a file.
#![warn(clippy::as_conversions)]

mod book;
mod denial;
mod names;
mod packet;

pub use book::{Book, Limits, Taken, Totals, Unreadable};
pub use denial::{Denial, DeniedBy, Name, Side};
pub use names::Names;
