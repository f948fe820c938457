//! The nouns of Palisade.
//!
//! What a cluster is, as far as policy is concerned: namespaces, endpoints, nodes, services, policies, and the flows that are
//! judged against them. Values only: nothing here reads, decides, logs or knows a Kubernetes type. Every value was checked at
//! the edge, so inside the house it cannot be wrong.
#![warn(missing_docs, clippy::as_conversions)]

mod blocks;
mod change;
mod cluster;
mod diagnostic;
mod flow;
mod labels;
mod network;
mod networks;
mod origin;
mod policy;
mod relative;
mod replica;
mod shared;
mod shared_list;
mod slots;

pub use blocks::Items;
pub use change::{AuditedPolicy, Changes, Delta, Revision, ServiceName, SetChange};
pub use cluster::{
    ContainerPort, Endpoint, EndpointId, HostPod, Model, Namespace, Node, NodeId, Owner, PodName, Reached, Readiness, Running, Service,
    ServiceKind, ServicePort, TargetPort,
};
pub use diagnostic::{Diagnostic, Location, Severity};
pub use flow::{End, Flow, Path, Place, Protocol, Reason, Verdict};
pub use labels::{LabelSelector, Labels, Operator, Requirement};
pub use network::{DomainPattern, Family, IpBlock};
pub use networks::{Attachment, EndpointName, Enforcement, Network, NetworkId, NodeAddresses};
pub use origin::{Action, Direction, PerDirection, PolicyKind, PolicyRef, RuleRef, Tier};
pub use policy::{
    FailClosed, NamespaceSet, Peer, PeerSet, Policy, PolicyKey, PortMatch, PortProtocol, PortSet, Ports, Rule, Shape, Subject,
};
pub use relative::{RelativeNamespaces, RelativePods, RelativeSelector};
pub use replica::{Gap, Replica};
pub use shared::Shared;
pub use shared_list::{ListIter, SharedList};
pub use slots::{SlotChange, SlotId, SlotIter, SlotIterMut, Slots};
