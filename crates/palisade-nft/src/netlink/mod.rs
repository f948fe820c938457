//! The netlink form of a ruleset: a transaction as the bytes that `nf_tables` takes, and what it answers as a ruleset again.
//!
//! Nothing here opens a socket: whoever has one sends the bytes, and whoever has the answers, from a kernel or from a file, decodes them.

pub(crate) mod accept;
pub(crate) mod batch;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod examine;
mod expression;
pub(crate) mod map;
mod rule;
pub(crate) mod strange;
#[cfg(test)]
mod tests;
mod tuple;
pub mod uapi;
