//! What each shape can say, and how much of it.

use palisade_model::{PolicyKind, RelativeNamespaces, RelativePods, RelativeSelector, Shape, Tier};

use super::Target;

/// A shape that policies are brought into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) target: Target,
    /// How many rules one policy has.
    pub(super) rules: RuleLimit,
    /// How many entries `from` and `to` have, and `ports`; none if that is not limited.
    pub(super) entries: Option<usize>,
    /// How many characters a rule's name has.
    pub(super) name: Option<usize>,
    pub(super) outside: Outside,
    pub(super) named_ports: NamedPorts,
}

/// How rules are counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleLimit {
    EachDirection(usize),
    Total(usize),
}

/// Whether peers may be other than pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// In egress.
    Sayable,
    Never,
}

/// What a named port of a rule says about the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedPorts {
    AnyProtocol,
    OneProtocol,
}

impl Form {
    pub(super) fn of(target: Target) -> Form {
        match target {
            Target::ClusterNetworkPolicy => Form {
                target,
                rules: RuleLimit::EachDirection(25),
                entries: Some(25),
                name: Some(100),
                outside: Outside::Sayable,
                named_ports: NamedPorts::AnyProtocol,
            },
            Target::AdminNetworkPolicy => Form {
                target,
                rules: RuleLimit::EachDirection(100),
                entries: Some(100),
                name: Some(100),
                outside: Outside::Sayable,
                named_ports: NamedPorts::AnyProtocol,
            },
            Target::Kep2091 => Form {
                target,
                rules: RuleLimit::Total(100),
                entries: None,
                name: None,
                outside: Outside::Never,
                named_ports: NamedPorts::OneProtocol,
            },
        }
    }

    /// The kind that policies of a tier become.
    pub(super) fn kind(&self, tier: Tier) -> (PolicyKind, Shape) {
        match (self.target, tier) {
            (Target::ClusterNetworkPolicy, _) => (PolicyKind::ClusterNetworkPolicy, Shape::Only),
            (Target::AdminNetworkPolicy, Tier::Baseline) => (PolicyKind::BaselineAdminNetworkPolicy, Shape::Late),
            (Target::AdminNetworkPolicy, Tier::Admin | Tier::NetworkPolicy) => (PolicyKind::AdminNetworkPolicy, Shape::Late),
            (Target::Kep2091, _) => (PolicyKind::Kep2091, Shape::Kep2091),
        }
    }

    /// The first and the last rank that a policy of a tier can have.
    pub(super) fn ranks(&self, tier: Tier) -> (i64, i64) {
        match (self.target, tier) {
            (Target::ClusterNetworkPolicy, _) | (Target::AdminNetworkPolicy, Tier::Admin | Tier::NetworkPolicy) => (0, 1000),
            // SPEC: semantics 3.5: the one Baseline of this API is asked after all others.
            (Target::AdminNetworkPolicy, Tier::Baseline) => (1001, 1001),
            // SPEC: semantics 3.1: priorities 1000 to 1, and 0 for Baseline.
            (Target::Kep2091, Tier::Admin | Tier::NetworkPolicy) => (0, 999),
            (Target::Kep2091, Tier::Baseline) => (1000, 1000),
        }
    }

    /// What the priority of a rank is called.
    pub(super) fn priority(&self, rank: i64) -> i64 {
        match self.target {
            Target::ClusterNetworkPolicy | Target::AdminNetworkPolicy => rank,
            Target::Kep2091 => 1000 - rank,
        }
    }

    /// Whether peers that are relative to the subject in this way can be written.
    pub(super) fn says(&self, relative: &RelativePods) -> bool {
        let known = |selector: &RelativeSelector| match selector {
            RelativeSelector::Matching(_) | RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) => true,
            // Only the early AdminNetworkPolicy compares like this.
            RelativeSelector::SomeDiffer(_) => false,
        };
        let namespaces = match &relative.namespaces {
            RelativeNamespaces::Own | RelativeNamespaces::Others => true,
            RelativeNamespaces::Labelled(selector) => known(selector),
        };
        self.target == Target::Kep2091 && namespaces && known(&relative.pods)
    }

    /// The shape as people call it.
    pub(super) fn called(&self, tier: Tier) -> &'static str {
        match (self.target, tier) {
            (Target::ClusterNetworkPolicy, _) => "a ClusterNetworkPolicy",
            (Target::AdminNetworkPolicy, Tier::Baseline) => "a BaselineAdminNetworkPolicy",
            (Target::AdminNetworkPolicy, Tier::Admin | Tier::NetworkPolicy) => "an AdminNetworkPolicy",
            (Target::Kep2091, _) => "an AdminNetworkPolicy of KEP-2091",
        }
    }
}
