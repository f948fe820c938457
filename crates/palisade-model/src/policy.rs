//! The middle form: every policy API becomes this, and nothing after it knows a Kubernetes type.

use std::cmp::Ordering;

use crate::labels::LabelSelector;
use crate::network::{DomainPattern, IpBlock};
use crate::networks::NetworkId;
use crate::origin::{Action, PerDirection, PolicyRef, Tier};
use crate::relative::RelativePods;

/// One policy, whatever API it was written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Which object it is.
    pub origin: PolicyRef,
    /// The network whose endpoints it is about. One object that is for several networks is a policy for each of them.
    pub network: NetworkId,
    /// The way in which it was written.
    pub shape: Shape,
    /// When it is asked.
    pub tier: Tier,
    /// Order inside the tier, smaller first; ties by name. Not used by the NetworkPolicy tier, which has no order.
    pub rank: i64,
    /// The pods it speaks about.
    pub subject: Subject,
    /// The directions in which it isolates its subjects. Only policies of the NetworkPolicy tier isolate.
    pub isolates: PerDirection<bool>,
    /// Its rules, in the order written. In the NetworkPolicy tier all of them are Accept and order means nothing; rules of a
    /// direction that the policy does not list are not here.
    pub rules: PerDirection<Vec<Rule>>,
}

/// Names one policy of a model: the object and the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyKey {
    /// The object.
    pub origin: PolicyRef,
    /// The network that the policy is about.
    pub network: NetworkId,
}

impl Policy {
    /// The order of `Model::policies`: by tier, rank, name and network.
    pub fn in_order(&self, other: &Policy) -> Ordering {
        let key = |it: &Policy| (it.tier, it.rank);
        let names = self.origin.name.cmp(&other.origin.name).then_with(|| self.origin.cmp(&other.origin));
        key(self).cmp(&key(other)).then(names).then_with(|| self.network.cmp(&other.network))
    }

    /// The name of the policy in a model.
    pub fn key(&self) -> PolicyKey {
        PolicyKey { origin: self.origin.clone(), network: self.network }
    }
}

/// The ways in which one kind of policy was written over the years. They differ in peers, ports and in what a priority means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// The only one that the kind has.
    #[default]
    Only,
    /// AdminNetworkPolicy and its Baseline up to v0.1.2: a smaller priority wins, peers may be relative to the subject.
    Early,
    /// The same as last shipped, v0.1.7: a smaller priority wins.
    Late,
    /// AdminNetworkPolicy as KEP-2091 proposed it: a larger priority wins, and 0 is Baseline.
    Kep2091,
}

/// Which pods a policy speaks about. Never host-network pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// These pods.
    Pods {
        /// In these namespaces.
        namespaces: NamespaceSet,
        /// With these labels.
        pods: LabelSelector,
    },
    /// The subject could not be read, so its reach is unknown: it selects nothing, and a diagnostic says so (semantics 2.4).
    Unknown,
}

/// A set of namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NamespaceSet {
    /// This one: the policy's own.
    Own(Box<str>),
    /// Those with these labels.
    Matching(LabelSelector),
}

/// One rule: a connection matches when any peer and any port entry match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Its place in the list it was written in, from 0.
    pub index: usize,
    /// The name the author gave it.
    pub name: Option<Box<str>>,
    /// What it does.
    pub action: Action,
    /// Whom it speaks of.
    pub peers: PeerSet,
    /// Which traffic.
    pub ports: PortSet,
    /// Set when part of the rule could not be read and the rest was narrowed by the API's rule.
    pub fail_closed: Option<FailClosed>,
}

/// Why a rule is narrower than what was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FailClosed {
    /// The field that could not be read, as a path from the object.
    pub path: Box<str>,
    /// What was found there, in words.
    pub found: Box<str>,
}

/// Whom a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerSet {
    /// Everyone, pods or not: an absent or empty `from`/`to` of a NetworkPolicy.
    Any,
    /// Everyone but the subject's own node, so that probes survive: what a Deny or Pass that could not be read becomes.
    AnyButOwnNode,
    /// Any of these. An empty list is nobody.
    Of(Vec<Peer>),
}

/// One entry of `from` or `to`; its index in the list is its index in the API object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Pods of the pod network. Never host-network pods.
    Pods {
        /// In these namespaces.
        namespaces: NamespaceSet,
        /// With these labels.
        pods: LabelSelector,
    },
    /// Pods described by what they have in common with the subject.
    Relative(RelativePods),
    /// Addresses, whoever owns them.
    Networks(Vec<IpBlock>),
    /// Nodes with these labels, by any of their addresses.
    Nodes(LabelSelector),
    /// Addresses that these names resolve to.
    Domains(Vec<DomainPattern>),
    /// An entry that could not be read and matches nobody.
    Unreadable,
}

/// Which traffic a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortSet {
    /// All of it, every IP protocol.
    Any,
    /// Any of these. An empty list is no traffic at all.
    Of(Vec<PortMatch>),
}

/// One entry of `ports` or `protocols`; its index in the list is its index in the API object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortMatch {
    /// Ports of one protocol, by number.
    Numbers {
        /// TCP, UDP or SCTP.
        protocol: PortProtocol,
        /// Which ports.
        ports: Ports,
    },
    /// A named container port of the destination pod.
    Named {
        /// The protocol the port must have; none when the API takes the container port's own.
        protocol: Option<PortProtocol>,
        /// The name.
        name: Box<str>,
    },
    /// An entry that matches no traffic: it could not be read, or is one of KEP-2091 that names no port.
    Unreadable,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Port numbers, inclusive on both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port.
    pub const ALL: Ports = Ports { first: 0, last: u16::MAX };

    /// One port.
    pub fn one(port: u16) -> Ports {
        Ports { first: port, last: port }
    }

    /// `first..=last`; none if that is empty.
    pub fn range(first: u16, last: u16) -> Option<Ports> {
        (first <= last).then_some(Ports { first, last })
    }

    /// The lowest port.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The highest port.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Whether `port` is among them.
    pub fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}
