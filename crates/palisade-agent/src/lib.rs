//! What keeps a node's kernel as policy wants it, and says what was denied and by which rule.
//!
//! [`core`] is the agent as a pure function from inputs to effects. [`Running`] is a handle to one at work in a network namespace. [`Agent`] brings the own table
//! of one node to what a model wants, one call at a time. [`Book`] makes denials of logged packets.
//! [`verification`] says whether a kernel does what a model wants.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod acceptance;
mod agent;
mod audit;
mod book;
mod cluster;
pub mod core;
mod counts;
mod denial;
mod host;
mod lock;
mod names;
mod notice;
mod packet;
mod room;
mod running;
mod stranger;
mod sweep;
mod verify;

pub use acceptance::{Acceptance, AcceptedBy};
pub use agent::{Agent, AgentError, Applied, Checked, Did, RuleCount};
pub use audit::{Told, Watched, WatchedFlow};
pub use book::{Book, Limits, Suppressed, Taken, Totals, Unreadable};
pub use cluster::Here;
pub use counts::{Counter, Counts};
pub use denial::{Denial, DeniedBy, Name, Side};
pub use lock::{Holder, Lock, LockError, bind, holder};
pub use names::Names;
pub use notice::Notice;
pub use running::{Attention, Event, Running, Settings, StartError};
pub use sweep::{Cut, CutBy, Cuts, Established, Judged, Swept, Touched};
pub use verify::{EnvironmentKind, FileError, Held, RepairError, Untraceable, Ways, links_of, repair, verification};
