//! The only crate that changes a host: the ruleset of a node in its kernel, and networks of namespaces.
//!
//! It speaks netlink itself, starts no process and decides nothing.
//!
//! [`Kernel`] is whatever commits transactions of `palisade_nft` and shows what came of them: [`Nftables`] is the real one, [`Fake`] one in
//! memory. No table but Palisade's own is touched. [`TableKeeper`] keeps one table at what its caller asks for. [`Namespace`] and [`Links`] make networks that stand
//! apart from the host's. [`Log`] reads what
//! the rules log, [`Monitor`] hears of what others change, [`Conntrack`] reads tracked connections and deletes those that it is told to.
//!
//! All of a transaction is in force afterwards, or none. That alone does not make a *change* safe: a packet on its way may meet the old
//! chains and the new maps. Changing a table in force step by step, so that no packet slips through between, is for whoever makes the
//! transactions; `Nftables::load` replaces the table at once.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod channel;
mod conntrack;
mod dump;
mod environment;
mod error;
mod fake;
mod grace;
mod kernel;
mod links;
mod log;
mod monitor;
mod namespace;
mod nftables;
mod socket;
mod sysctl;
mod table_keeper;

pub use conntrack::{Connection, Conntrack, Deleted, Status, Tracking, Transport, Tuple};
pub use environment::{BaseChain, Environment, Filter, FilterSide, Flowtable, LinkFacts, Stirred, StrayRule, TableOf, Watch, Way, Xdp};
pub use error::{Attempt, KernelError, NetworkObject, Refusal};
pub use fake::{Fake, Fault};
pub use grace::grace;
pub use kernel::Kernel;
pub use links::{Link, LinkAddress, LinkState, Links, NextHop, Route};
pub use log::{Log, LogOptions, Logged, Read};
pub use monitor::{Changed, Monitor, TableName};
pub use namespace::{Namespace, NamespaceId, in_fresh_netns};
pub use nftables::Nftables;
pub use palisade_nft::{Counted, Object};
pub use sysctl::{set_sysctl, sysctl};
pub use table_keeper::{Restored, TableKeeper};
