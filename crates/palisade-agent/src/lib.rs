//! What keeps a node's kernel as policy wants it, and says what was denied and by which rule.
//!
//! [`Agent`] brings the table of one node to what a model wants, and back to it. [`Book`] makes denials of logged packets: pure, the clock is an
//! argument. [`Running`] is both at work in a network namespace, with a thread of its own.
//! [`verification`] says whether a kernel does what a model wants.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod acceptance;
mod agent;
mod audit;
mod book;
mod changes;
mod counts;
mod denial;
mod lock;
mod names;
mod notice;
mod packet;
mod queue;
mod room;
mod running;
mod stranger;
mod strays;
mod sweep;
mod verify;

pub use acceptance::{Acceptance, AcceptedBy};
pub use agent::{Agent, AgentError, Applied, Checked, Did, RuleCount};
pub use audit::{Told, Watched, WatchedFlow};
pub use book::{Book, Limits, Suppressed, Taken, Totals, Unreadable};
pub use changes::{Changes, Outcome, Wanted, Words};
pub use counts::{Counter, Counts};
pub use denial::{Denial, DeniedBy, Name, Side};
pub use lock::{Holder, Lock, LockError, bind, holder};
pub use names::Names;
pub use notice::Notice;
pub use queue::{Due, Matter, Pace, Queue};
pub use running::{Attention, Event, Running, Settings, StartError};
pub use sweep::{Cut, CutBy, Cuts, Established, Swept};
pub use verify::{EnvironmentKind, FileError, Held, Ways, links_of, verification};
