//! A cluster of network namespaces on one machine: nodes, pods, Services, listeners, and probes with real packets.
//!
//! `plan` says what a lab will look like, `Lab` is one that is up. Policy is enforced by `palisade-agent`, as on a node of a cluster. A lab lives
//! in one process and goes with it: nothing has a name that could be left behind.
#![cfg(target_os = "linux")]
#![warn(clippy::as_conversions)]

pub mod control;
mod files;
mod lab;
mod listen;
mod packet;
mod plan;
mod probe;
mod question;
mod services;
mod soak;
mod topology;
mod trial;

pub use lab::{ClosedFor, Lab, LabError, NodeCounts, NodeEvent, Progress};
pub use plan::{Families, Nodes, Options, Plan, PlanError, PodNetwork, WhileUnknown, plan};
pub use question::{Finding, Question, Speaker};
pub use services::{ServicePort, ServiceRule, Services, ServicesError};
pub use soak::{Agents, Breach, Broken, Count, Kills, Kind, SoakError, SoakOptions, Soaked, Start, be_agent, soak};
pub use trial::{Answers, NotShown, Trial, everybody, trials};
