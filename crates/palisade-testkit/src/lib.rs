//! What the tests of the other crates share: the reader of scenarios, and a judge that never saw the model.
//!
//! - [`check`] runs a scenario through the specification, the engine and the raw judge.
//! - [`coverage`] counts which forms of rule the scenarios decide by.
//! - [`scenario`] reads a folder of `scenarios/` into probes and steps; it does not read the cluster.
//! - [`objects`] is the raw cluster: JSON values that the steps of a scenario change.
//! - [`raw_judge`] gives the verdict of one connection from those values alone. It shares no code with the
//!   specification, the engine or the reader of objects, so a mistake has to be made twice to go unseen.

pub mod check;
pub mod coverage;
pub mod objects;
pub mod raw_judge;
pub mod scenario;

#[cfg(test)]
mod tests;
