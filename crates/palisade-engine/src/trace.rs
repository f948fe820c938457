//! What happened on the way to a verdict.

use palisade_model::{Action, PerDirection, PolicyRef, PortProtocol, Ports, Reason, RuleRef, Tier, Verdict};

/// The answer for one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Accepted only if both directions accept.
    pub verdict: Verdict,
    /// How each direction came to its answer. Both are always walked, so that both can be shown.
    pub walks: PerDirection<Walk>,
}

/// One direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Its answer.
    pub verdict: Verdict,
    /// What gave it.
    pub reason: Reason,
    /// The tiers that were asked, in order; none when no policy can apply.
    pub tiers: Vec<TierStep>,
}

/// One tier that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStep {
    /// Which.
    pub tier: Tier,
    /// The policies that select the subject, in the order they are asked.
    pub policies: Vec<PolicyRef>,
    /// The rules that were tried, in order, each with what came of it.
    pub rules: Vec<RuleStep>,
    /// What the tier said.
    pub outcome: Outcome,
}

/// What a tier said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The last rule in the list matched, with this action.
    Matched(Action),
    /// No rule matched: on to the next tier.
    NoMatch,
    /// NetworkPolicy tier: no policy isolates the subject in this direction, so the tier has nothing to say.
    NotIsolated,
    /// NetworkPolicy tier: isolated, and no rule accepts.
    Isolated,
    /// NetworkPolicy tier: isolated, and the source is the subject's own node.
    OwnNode,
    /// NetworkPolicy tier: isolated, and a Service led the pod back to itself.
    Itself,
}

/// One rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStep {
    /// Which.
    pub rule: RuleRef,
    /// What it would do.
    pub action: Action,
    /// What came of it.
    pub result: Match,
}

/// What came of trying a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// It matches, by these entries; `None` where the rule does not restrict.
    Yes {
        /// Index into `from` or `to`.
        peer: Option<usize>,
        /// Index into `ports` or `protocols`.
        port: Option<usize>,
    },
    /// It matches if a name resolves to the destination.
    DependsOnDns {
        /// Index into `to`.
        peer: usize,
    },
    /// It does not match.
    No {
        /// Why no peer entry matches; none if one does.
        peers: Option<PeerMisses>,
        /// Why no port entry matches, entry by entry; none if one does.
        ports: Option<Vec<PortMiss>>,
    },
}

/// Why no peer entry matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMisses {
    /// Entry by entry.
    Entries(Vec<PeerMiss>),
    /// The rule was closed because part of it could not be read, and spares the subject's own node.
    SparesOwnNode,
}

/// Why one peer entry did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMiss {
    /// It selects pods, and the other end is none.
    NotAPod,
    /// It selects pods of the policy's own namespace.
    OtherNamespace {
        /// That namespace.
        own: Box<str>,
        /// The requirements on the pod that also fail.
        pod: Vec<FailedRequirement>,
    },
    /// Some requirements fail.
    Labels(Vec<FailedRequirement>),
    /// It compares with labels of the subject, which has none for this key; none if no key is named.
    NothingToCompare {
        /// Whose labels.
        scope: Scope,
        /// The key.
        key: Option<Box<str>>,
    },
    /// It names addresses, and none is known for the other end.
    NoAddress,
    /// The address is in none of its blocks.
    NotInBlocks,
    /// The address is in a block but excepted from it.
    Excepted(ipnet::IpNet),
    /// It selects nodes, and the other end is none.
    NotANode,
    /// It does not cover every pod, and of the one at the other end only the address is known.
    NotKnown,
    /// It names domains, and these cannot be names of the other end.
    NoName,
    /// It could not be read.
    Unreadable,
}

/// A selector requirement that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequirement {
    /// Whose labels.
    pub scope: Scope,
    /// The requirement.
    pub requirement: palisade_model::Requirement,
    /// The value that the object has for that key.
    pub found: Option<Box<str>>,
}

/// Whose labels a requirement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The namespace's.
    Namespace,
    /// The pod's.
    Pod,
    /// The node's.
    Node,
}

/// Why one port entry did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortMiss {
    /// It is about another protocol.
    Protocol(PortProtocol),
    /// It is about these ports.
    Number(Ports),
    /// It names a port, and the destination is no pod.
    NameOfNoPod(Box<str>),
    /// It names a port that the destination pod does not have (with that protocol).
    NoSuchName(Box<str>),
    /// It names a port of the destination pod that has another number or protocol.
    NameIs {
        /// The name.
        name: Box<str>,
        /// What it stands for on that pod.
        protocol: PortProtocol,
        /// Its number there.
        port: u16,
    },
    /// It could not be read.
    Unreadable,
}
