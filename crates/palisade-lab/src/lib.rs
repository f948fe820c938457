//! A cluster of network namespaces on one machine.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

mod plan;

pub use plan::{Families, Nodes, Options, Plan, PlanError, PodNetwork, plan};
