//! Kubernetes objects as texts and types.
//!
//! `yaml` turns text into trees with places, `json` what an API server sends into trees without; `read` walks a tree into a typed object the way the API server would take it: its defaults, its
//! limits, its validation, and every field it does not know. What an object *means* is not decided here.
#![warn(clippy::as_conversions)]

mod admin_network_policy;
mod annotations;
mod choice;
pub mod closed;
mod cluster_network_policy;
mod cluster_rule;
pub mod json;
mod kep2091;
mod logging;
mod mend;
mod meta;
pub mod names;
mod network_policy;
pub mod networks;
mod object;
mod part;
mod pod;
mod problem;
mod pruned;
mod read;
mod selector;
mod service;
mod shape;
pub mod syntax;
pub mod tree;
pub mod yaml;

pub use admin_network_policy::{AdminNetworkPolicy, BaselineAdminNetworkPolicy};
pub use choice::Entry;
pub use cluster_network_policy::{ClusterNetworkPolicy, CnpTier};
pub use cluster_rule::{ClusterPeer, ClusterRule, PeerNamespaces, PeerPods, SubjectPods};
pub use kep2091::Kep2091Policy;
pub use logging::Logging;
pub use meta::{Meta, Mode, OwnerReference};
pub use network_policy::{NetworkPolicy, NpPeer, NpRule};
pub use object::{Body, Object, Skipped, read_object};
pub use pod::{Namespace, Node, Phase, Pod, PodTemplate, Workload};
pub use problem::{Consequence, Problem};
pub use service::Service;
