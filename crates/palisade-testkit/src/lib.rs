//! What the tests of the other crates share: the reader of scenarios.
//!
//! - [`scenario`] reads a folder of `scenarios/` into probes and steps; it does not read the cluster.
//! - [`objects`] is the raw cluster: JSON values that the steps of a scenario change.

pub mod objects;
pub mod scenario;
