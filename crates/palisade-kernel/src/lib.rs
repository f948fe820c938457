//! The ruleset of a node in its kernel: the only crate that changes a host.
//!
//! It speaks `nf_tables` over netlink itself, starts no process and decides nothing: what `palisade_nft` made is written, read back and
//! removed. Its one object is the table `inet palisade`; no other table is touched. Next to it, it reads what the rules log, hears of
//! what others change, and reads tracked connections and deletes those that it is told to.
//!
//! A ruleset is loaded as one transaction: all of it is in force afterwards, or none. That alone does not make a *change* safe: a
//! packet on its way may meet the old chains and the new maps. Changing a table in force step by step, so that no packet slips through
//! between, is not here yet; `Nftables::load` replaces the table at once.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod conntrack;
mod dump;
mod error;
mod log;
mod monitor;
mod netns;
mod nftables;
mod socket;

pub use conntrack::{Connection, Conntrack, Deleted, Status, Transport, Tuple};
pub use error::{KernelError, Refusal};
pub use log::{Log, LogOptions, Logged, Read};
pub use monitor::{Changed, Monitor, TableName};
pub use netns::in_fresh_netns;
pub use nftables::Nftables;
pub use palisade_nft::Object;
