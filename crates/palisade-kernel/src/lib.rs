//! The only crate that changes a host: the ruleset of a node in its kernel, and networks of namespaces.
//!
//! It speaks netlink itself, starts no process and decides nothing.
//!
//! [`Kernel`] is whatever commits transactions of `palisade_nft` and shows what came of them: [`Nftables`] is the real one, [`Fake`] one in
//! memory. Its one object is the table `inet palisade`; no other table is touched. [`Frames`], [`Answers`] and [`Strays`] have a small table each. [`Namespace`] and [`Links`] make networks that stand
//! apart from the host's, and [`Services`] does there what kube-proxy does, in the table `inet palisade-lab-services`. [`Log`] reads what
//! the rules log, [`Monitor`] hears of what others change, [`Conntrack`] reads tracked connections and deletes those that it is told to.
//!
//! All of a transaction is in force afterwards, or none. That alone does not make a *change* safe: a packet on its way may meet the old
//! chains and the new maps. Changing a table in force step by step, so that no packet slips through between, is for whoever makes the
//! transactions; `Nftables::load` replaces the table at once.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod answers;
mod channel;
mod conntrack;
mod dump;
mod environment;
mod error;
mod fake;
mod frames;
mod grace;
mod kernel;
mod links;
mod log;
mod monitor;
mod namespace;
mod nftables;
mod part;
mod services;
mod socket;
mod strays;
mod sysctl;
mod transaction;

pub use answers::{Answer, Answers};
pub use conntrack::{Connection, Conntrack, Deleted, Status, Tracking, Transport, Tuple};
pub use environment::{BaseChain, Environment, Filter, FilterSide, Flowtable, LinkFacts, Stirred, StrayRule, TableOf, Watch, Way, Xdp};
pub use error::{Attempt, KernelError, NetworkObject, Refusal};
pub use fake::{Fake, Fault};
pub use frames::{Frames, FramesDump, Restored};
pub use grace::grace;
pub use kernel::Kernel;
pub use links::{Link, LinkAddress, LinkState, Links, NextHop, Route};
pub use log::{Log, LogOptions, Logged, Read};
pub use monitor::{Changed, Monitor, TableName};
pub use namespace::{Namespace, NamespaceId, in_fresh_netns};
pub use nftables::Nftables;
pub use palisade_nft::{Counted, Object};
pub use services::{ServicePort, ServiceRule, Services};
pub use strays::{Stray, Strays};
pub use sysctl::{set_sysctl, sysctl};
