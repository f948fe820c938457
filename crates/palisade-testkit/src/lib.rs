//! What the tests of the other crates share: the reader of scenarios, and a judge that never saw the model.
//!
//! - [`audits`] puts some policies of a cluster into audit mode, and judges what is said of them.
//! - [`changes`] takes a model apart, to compile it object by object.
//! - [`check`] runs a scenario through the specification, the engine and the raw judge.
//! - [`compare`] asks them the same question where nobody knows the answer.
//! - [`differential`] does so with random clusters, about [`pairs`] of ends and in words, for as long as wanted.
//! - [`coverage`] counts which forms of rule the scenarios decide by.
//! - [`features`] says what a cluster has that a judge can stumble over.
//! - [`generate`] makes random clusters and questions, [`shrink`] makes what they find small, [`random`] makes it happen again.
//! - [`interleaved`] runs a planned change of a ruleset with a packet at every moment of it, [`journeys`] are these packets.
//! - [`mutate`] breaks manifests, as text and as objects.
//! - [`networks`] are the raw objects of one network alone.
//! - [`nodes`] sends connections through the rulesets of the nodes, or of the pods, on their way.
//! - [`pods`] of a model, two by two, and what their workloads are called.
//! - [`scenario`] reads a folder of `scenarios/` into probes and steps; it does not read the cluster.
//! - [`objects`] is the raw cluster: JSON values that the steps of a scenario change, at their [`paths`].
//! - [`raw_judge`] gives the verdict of one connection from those values alone. It shares no code with the
//!   specification, the engine or the reader of objects, so a mistake has to be made twice to go unseen.

pub mod audits;
pub mod changes;
pub mod check;
pub mod compare;
pub mod coverage;
pub mod differential;
pub mod features;
pub mod generate;
pub mod interleaved;
pub mod journeys;
pub mod mutate;
pub mod networks;
pub mod nodes;
pub mod objects;
pub mod pairs;
pub mod paths;
pub mod pods;
pub mod random;
pub mod raw_judge;
pub mod scenario;
pub mod shrink;

#[cfg(test)]
mod tests;
