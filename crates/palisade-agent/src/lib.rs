//! What keeps a node's kernel as policy wants it, and says what was denied and by which rule.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod agent;
mod lock;

pub use agent::{Agent, AgentError, Applied, Checked};
pub use lock::{Holder, Lock, LockError};
