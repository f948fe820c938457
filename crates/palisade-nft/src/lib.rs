//! Decided policy as a typed nftables ruleset.
//!
//! `lower` makes the ruleset of one node from the compiled model, `render` writes it as nft text, `trace` walks a packet through it. A
//! `Transaction` is a change of it; `apply` interprets one, `encode` writes it for netlink, `decode` reads a ruleset back. The ruleset is a value: it can be compared, printed and interpreted without a kernel, and
//! whoever loads it decides nothing.
//!
//! The shape: base chain → direction → (subject's address → program number) → program chain → (peer's address → class) → leaf → verdict with its
//! origin. Accept is `return`, never nft's `accept`: both directions must agree, and only base → direction is a `jump`.
//!
//! `audit` makes a table of its own of the policies that are watched and not enforced. Nothing in that decides. `UnknownPods`, `BlockedReplies` and `Frames`
//! are tables that only an agent at work fills. All tables of a node are rulesets: one encoder, one decoder, one `trace`, one `verify`.
//!
//! All of that believes the source of a packet. Where the links of the pods are known, the chain `sources` sees to it that it can.
#![warn(clippy::as_conversions)]

mod audit;
mod frames;
mod ids;
mod interleave;
mod layout;
mod leaf;
mod leaves;
mod lower;
mod lowering;
mod naming;
mod netlink;
mod object;
mod plan;
mod pod_space;
mod render;
mod replies;
mod ruleset;
mod shared_map;
mod sources;
mod trace;
mod transaction;
mod unknown;
mod unknown_pods;
mod verify;

pub use audit::{Audit, Becomes, Would, audit};
pub use frames::Frames;
pub use ids::Ids;
pub use interleave::{Fate, Standing, fates, states};
pub use layout::Layout;
pub use lower::{NodeView, lower};
pub use lowering::{Auditing, Lowering, Worked};
pub use netlink::batch::{Encoded, Expected, Messages};
pub use netlink::decode::{Counted, Dump, Kept, Listed, counters, decode, items, layout, listed};
pub use netlink::encode::encode;
pub use netlink::examine::{Examined, Force, Policy, Stance, examine};
pub use netlink::uapi;
pub use object::{Foreign, Object, Unwritable};
pub use palisade_model::Shared;
pub use plan::{Step, load, plan, plan_whole, replace};
pub use pod_space::{PodTables, Space, TableId, lower_pods};
pub use render::{render, render_table};
pub use replies::BlockedReplies;
pub use ruleset::{
    AUDIT_GROUP, AUDIT_PREFIX, Address, AddressSet, Chain, CtState, DataMap, End, Guard, Hook, IntervalMap, LOG_GROUP, LOG_PREFIX,
    LinkName, Match, Neighbour, Origin, PairSet, Rule, Ruleset, SourceSet, Statement, Tuple, TupleKey, TupleMap, Value, Verdict,
    VerdictMap,
};
pub use shared_map::SharedMap;
pub use trace::{At, Packet, Traced, trace};
pub use transaction::apply::{Cause, Refused, apply};
pub use transaction::map::{Map, MapKind};
pub use transaction::{Change, Table, Transaction};
pub use unknown::{PodLinks, Unknown};
pub use unknown_pods::{UnknownPod, UnknownPods};
pub use verify::{Compared, CounterExample, Difference, DifferenceKind, Effect, Fared, Verified, fare, verify};
