//! Where things come from and where they stand: tiers, actions, directions, and the references that explain, logs and counters
//! quote. Nobody derives an origin again.

use std::fmt;

/// The order in which policies are asked: Admin, NetworkPolicy, Baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Cluster policy that developers cannot override.
    Admin,
    /// The developers' own policies; final for the pods they isolate.
    NetworkPolicy,
    /// Cluster policy for pods that no NetworkPolicy isolates in that direction.
    Baseline,
}

/// What a rule does with a connection that matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Accepted in this direction, finally.
    Accept,
    /// Dropped, finally.
    Deny,
    /// Leave the tier.
    Pass,
}

/// The side of a connection that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// At the source pod.
    Egress,
    /// At the destination pod.
    Ingress,
}

impl Direction {
    /// Both, in the order a packet meets them.
    pub const BOTH: [Direction; 2] = [Direction::Egress, Direction::Ingress];
}

/// One value for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PerDirection<T> {
    /// The value at the source.
    pub egress: T,
    /// The value at the destination.
    pub ingress: T,
}

impl<T> PerDirection<T> {
    /// The value of one direction.
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Egress => &self.egress,
            Direction::Ingress => &self.ingress,
        }
    }

    /// The value of one direction, to change it.
    pub fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Egress => &mut self.egress,
            Direction::Ingress => &mut self.ingress,
        }
    }
}

/// The kind of object a policy was written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// networking.k8s.io/v1 NetworkPolicy.
    NetworkPolicy,
    /// policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy, in a shape that was shipped.
    AdminNetworkPolicy,
    /// policy.networking.k8s.io/v1alpha1 BaselineAdminNetworkPolicy.
    BaselineAdminNetworkPolicy,
    /// AdminNetworkPolicy as KEP-2091 proposed it.
    Kep2091,
}

/// Names one policy object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyRef {
    /// Its kind.
    pub kind: PolicyKind,
    /// Its namespace; none for cluster policies.
    pub namespace: Option<Box<str>>,
    /// Its name.
    pub name: Box<str>,
}

/// Names one rule of one policy object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleRef {
    /// The policy that holds the rule.
    pub policy: PolicyRef,
    /// The list that holds it.
    pub direction: Direction,
    /// Its place in that list, from 0.
    pub index: usize,
    /// The name the author gave it.
    pub name: Option<Box<str>>,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Admin => "Admin",
            Tier::NetworkPolicy => "NetworkPolicy",
            Tier::Baseline => "Baseline",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Action::Accept => "Accept",
            Action::Deny => "Deny",
            Action::Pass => "Pass",
        })
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        })
    }
}

impl PolicyKind {
    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyKind::NetworkPolicy => "NetworkPolicy",
            PolicyKind::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            PolicyKind::AdminNetworkPolicy | PolicyKind::Kep2091 => "AdminNetworkPolicy",
            PolicyKind::BaselineAdminNetworkPolicy => "BaselineAdminNetworkPolicy",
        }
    }

    /// How references name it.
    pub fn short(self) -> &'static str {
        match self {
            PolicyKind::NetworkPolicy => "np",
            PolicyKind::ClusterNetworkPolicy => "cnp",
            PolicyKind::AdminNetworkPolicy => "anp",
            PolicyKind::BaselineAdminNetworkPolicy => "banp",
            PolicyKind::Kep2091 => "kep2091",
        }
    }
}

/// `np/NAMESPACE/NAME`, `cnp/NAME` and so on.
impl fmt::Display for PolicyRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.kind.short();
        match &self.namespace {
            Some(namespace) => write!(f, "{short}/{namespace}/{}", self.name),
            None => write!(f, "{short}/{}", self.name),
        }
    }
}

/// The policy and `#INDEX`.
impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.policy, self.index)
    }
}
