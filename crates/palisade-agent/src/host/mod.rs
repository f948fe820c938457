//! Where an agent runs for real: a Linux network namespace.
//!
//! Threads are only where reading a socket blocks. Each sends what it read to the loop; nothing is shared.

mod linux;
mod reader;

pub(crate) use linux::{Linux, Mailbox, Message};
