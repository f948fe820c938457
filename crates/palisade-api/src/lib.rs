//! Kubernetes objects as texts and types.
//!
//! `yaml` turns text into trees with places, `read` walks a tree into a typed object the way the API server would take it: its defaults, its
//! limits, its validation, and every field it does not know. What an object *means* is not decided here.
#![warn(clippy::as_conversions)]

mod cluster_network_policy;
mod meta;
mod network_policy;
mod object;
mod pod;
mod problem;
mod read;
mod selector;
mod service;
pub mod syntax;
pub mod tree;
pub mod yaml;

pub use cluster_network_policy::{ClusterNetworkPolicy, CnpPeer, CnpPods, CnpRule, CnpTier, Entry};
pub use meta::{Meta, OwnerReference};
pub use network_policy::{NetworkPolicy, NpPeer, NpRule};
pub use object::{Body, Object, Skipped, read_object};
pub use pod::{Namespace, Node, Phase, Pod, PodTemplate, Workload};
pub use problem::{Consequence, Problem};
pub use service::Service;
