//! Cluster policies of every kind and shape. They differ in rank, in what a relation means and in what is left of a rule that fails closed.

use palisade_api::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, ClusterNetworkPolicy, ClusterPeer, ClusterRule, CnpTier, Entry, Kep2091Policy,
    PeerNamespaces, PeerPods, SubjectPods,
};
use palisade_model::{
    Action, Direction, FailClosed, LabelSelector, NamespaceSet, NetworkId, Peer, PeerSet, PerDirection, Policy, PolicyKind, PolicyRef,
    PortMatch, PortSet, RelativeNamespaces, RelativePods, RelativeSelector, Rule, Shape, Subject, Tier,
};

use crate::sources::ObjectKey;

/// The rank of KEP-2091's priority 0, the last of its own in the Baseline tier.
const LAST_RANK: i64 = 1000;

pub(super) fn from_cluster_network_policy(key: &ObjectKey, policy: &ClusterNetworkPolicy) -> Policy {
    let tier = match policy.tier {
        CnpTier::Admin => Tier::Admin,
        CnpTier::Baseline => Tier::Baseline,
    };
    let place = Place { kind: PolicyKind::ClusterNetworkPolicy, shape: Shape::Only, tier, rank: policy.priority };
    place.policy(key, &policy.subject, &policy.rules)
}

pub(super) fn from_admin_network_policy(key: &ObjectKey, policy: &AdminNetworkPolicy) -> Policy {
    let place = Place { kind: PolicyKind::AdminNetworkPolicy, shape: policy.shape, tier: Tier::Admin, rank: policy.priority };
    place.policy(key, &policy.subject, &policy.rules)
}

/// SPEC: semantics 3.5: it comes after every Baseline policy of another kind.
pub(super) fn from_baseline_admin_network_policy(key: &ObjectKey, policy: &BaselineAdminNetworkPolicy) -> Policy {
    let place = Place { kind: PolicyKind::BaselineAdminNetworkPolicy, shape: policy.shape, tier: Tier::Baseline, rank: LAST_RANK + 1 };
    place.policy(key, &policy.subject, &policy.rules)
}

/// SPEC: semantics 3.5: a larger priority comes first, and 0 comes after NetworkPolicies.
pub(super) fn from_kep2091(key: &ObjectKey, policy: &Kep2091Policy) -> Policy {
    let tier = match policy.priority {
        0 => Tier::Baseline,
        _ => Tier::Admin,
    };
    let place = Place { kind: PolicyKind::Kep2091, shape: Shape::Kep2091, tier, rank: LAST_RANK - i64::from(policy.priority) };
    place.policy(key, &policy.subject, &policy.rules)
}

/// What kind and priority make of a policy.
struct Place {
    kind: PolicyKind,
    shape: Shape,
    tier: Tier,
    rank: i64,
}

impl Place {
    fn policy(&self, key: &ObjectKey, subject: &Entry<SubjectPods>, written: &PerDirection<Vec<ClusterRule>>) -> Policy {
        let rules = |direction| written.of(direction).iter().enumerate().map(|(index, written)| rule(self.shape, index, written)).collect();
        Policy {
            network: NetworkId::DEFAULT,
            origin: PolicyRef { kind: self.kind, namespace: None, name: key.name.clone() },
            shape: self.shape,
            tier: self.tier,
            rank: self.rank,
            subject: match subject {
                Entry::Known(SubjectPods { namespaces, pods }) => {
                    Subject::Pods { namespaces: NamespaceSet::Matching(namespaces.clone()), pods: pods.clone() }
                }
                Entry::Unknown(_) => Subject::Unknown,
            },
            isolates: PerDirection::default(),
            rules: PerDirection { egress: rules(Direction::Egress), ingress: rules(Direction::Ingress) },
        }
    }
}

fn rule(shape: Shape, index: usize, rule: &ClusterRule) -> Rule {
    let name = rule.name.as_deref().map(Box::from);
    let peers = || rule.peers.iter().map(|entry| peer(shape, entry)).collect();
    match (&rule.action, first_unread(rule)) {
        (Entry::Known(action), None) => {
            Rule { index, name, action: *action, peers: PeerSet::Of(peers()), ports: ports(rule), fail_closed: None }
        }
        (Entry::Known(Action::Accept), Some(reason)) => {
            // SPEC: semantics 2.4: Accept matches nothing by what cannot be read; known peers beside it still match. A field of the
            // rule itself could narrow every peer, so then nothing is left.
            let peers = if rule.unknown.is_some() { Vec::new() } else { peers() };
            Rule { index, name, action: Action::Accept, peers: PeerSet::Of(peers), ports: ports(rule), fail_closed: Some(reason.clone()) }
        }
        (Entry::Known(Action::Deny | Action::Pass), Some(reason)) | (Entry::Unknown(_), Some(reason)) => {
            deny_all(shape, index, name, reason)
        }
        (Entry::Unknown(reason), None) => deny_all(shape, index, name, reason),
    }
}

/// What is left of a Deny or Pass that cannot be read.
fn deny_all(shape: Shape, index: usize, name: Option<Box<str>>, reason: &FailClosed) -> Rule {
    let peers = match shape {
        // SPEC: semantics 2.4: everything in its direction, ingress from the own node exempt.
        Shape::Only | Shape::Early | Shape::Late => PeerSet::AnyButOwnNode,
        // SPEC: semantics 3.5: this API never touches traffic with anything but pods (docs/decisions/0013).
        Shape::Kep2091 => {
            PeerSet::Of(vec![Peer::Pods { namespaces: NamespaceSet::Matching(LabelSelector::default()), pods: LabelSelector::default() }])
        }
    };
    Rule { index, name, action: Action::Deny, peers, ports: PortSet::Any, fail_closed: Some(reason.clone()) }
}

fn first_unread(rule: &ClusterRule) -> Option<&FailClosed> {
    let action = unread(&rule.action);
    let peer = || rule.peers.iter().find_map(unread);
    let port = || rule.ports.iter().flatten().find_map(unread);
    rule.unknown.as_ref().or(action).or_else(peer).or_else(port)
}

fn unread<T>(entry: &Entry<T>) -> Option<&FailClosed> {
    match entry {
        Entry::Known(_) => None,
        Entry::Unknown(reason) => Some(reason),
    }
}

fn peer(shape: Shape, entry: &Entry<ClusterPeer>) -> Peer {
    match entry {
        Entry::Known(ClusterPeer::Pods { namespaces: PeerNamespaces::Matching(namespaces), pods: PeerPods::Matching(pods) }) => {
            Peer::Pods { namespaces: NamespaceSet::Matching(namespaces.clone()), pods: pods.clone() }
        }
        Entry::Known(ClusterPeer::Pods { namespaces, pods }) => {
            Peer::Relative(RelativePods { namespaces: relative_namespaces(shape, namespaces), pods: relative_pods(shape, pods) })
        }
        Entry::Known(ClusterPeer::Networks(blocks)) => Peer::Networks(blocks.clone()),
        Entry::Known(ClusterPeer::Nodes(selector)) => Peer::Nodes(selector.clone()),
        Entry::Known(ClusterPeer::Domains(patterns)) => Peer::Domains(patterns.clone()),
        Entry::Unknown(_) => Peer::Unreadable,
    }
}

fn relative_namespaces(shape: Shape, namespaces: &PeerNamespaces) -> RelativeNamespaces {
    match namespaces {
        PeerNamespaces::Own => RelativeNamespaces::Own,
        PeerNamespaces::Others => RelativeNamespaces::Others,
        PeerNamespaces::Matching(selector) => RelativeNamespaces::Labelled(RelativeSelector::Matching(selector.clone())),
        PeerNamespaces::SameLabels(keys) => RelativeNamespaces::Labelled(RelativeSelector::Same(keys.clone())),
        PeerNamespaces::NotSameLabels(keys) => RelativeNamespaces::Labelled(not_same(shape, keys)),
    }
}

fn relative_pods(shape: Shape, pods: &PeerPods) -> RelativeSelector {
    match pods {
        PeerPods::Matching(selector) => RelativeSelector::Matching(selector.clone()),
        PeerPods::SameLabels(keys) => RelativeSelector::Same(keys.clone()),
        PeerPods::NotSameLabels(keys) => not_same(shape, keys),
    }
}

/// SPEC: semantics 3.5: KEP-2091 by its letter, the shipped API by its own.
fn not_same(shape: Shape, keys: &[Box<str>]) -> RelativeSelector {
    match shape {
        Shape::Kep2091 => RelativeSelector::NoneSame(keys.to_vec()),
        Shape::Only | Shape::Early | Shape::Late => RelativeSelector::SomeDiffer(keys.to_vec()),
    }
}

fn ports(rule: &ClusterRule) -> PortSet {
    let port = |entry: &Entry<PortMatch>| match entry {
        Entry::Known(port) => port.clone(),
        Entry::Unknown(_) => PortMatch::Unreadable,
    };
    match &rule.ports {
        None => PortSet::Any,
        Some(entries) => PortSet::Of(entries.iter().map(port).collect()),
    }
}
