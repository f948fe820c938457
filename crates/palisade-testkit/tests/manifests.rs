//! What is written as a manifest is read back as the policy that was written.

use std::collections::BTreeSet;

use palisade_k8s::Beside;
use palisade_model::{Peer, PeerSet, Policy, PolicyKind, PortMatch, PortSet, Rule, Severity, Shape, Subject};
use palisade_report::manifest::manifest;
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;

const SEEDS: u64 = 200;

#[test]
fn what_is_written_is_read_back() {
    let mut kinds = BTreeSet::new();
    for seed in 0..SEEDS {
        let model = snapshot("cluster", &generate(seed).objects.to_json()).model;
        for policy in model.policies.iter().filter(|it| was_read_whole(it)) {
            // What was written early is written as it was last shipped.
            let shape = if policy.shape == Shape::Early { Shape::Late } else { policy.shape };
            check(&Policy { shape, ..policy.clone() });
            kinds.insert(policy.origin.kind);
        }
    }
    let all = [
        PolicyKind::NetworkPolicy,
        PolicyKind::ClusterNetworkPolicy,
        PolicyKind::AdminNetworkPolicy,
        PolicyKind::BaselineAdminNetworkPolicy,
        PolicyKind::Kep2091,
    ];
    assert_eq!(kinds, BTreeSet::from(all));
}

fn check(policy: &Policy) {
    let written = manifest(policy, &Beside::default());
    for text in [written.yaml(), written.json().to_string()] {
        let read = snapshot("written", &text);
        let errors: Vec<_> = read.diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{text}\n{errors:#?}");
        assert_eq!(read.model.policies.iter().collect::<Vec<_>>(), [policy], "{text}");
    }
}

/// What could not be read cannot be written either, nor what only the early shapes can say.
fn was_read_whole(policy: &Policy) -> bool {
    let rules = policy.rules.egress.iter().chain(&policy.rules.ingress);
    let whole = |rule: &Rule| {
        let peers = match &rule.peers {
            PeerSet::Any => true,
            PeerSet::AnyButOwnNode => false,
            PeerSet::Of(peers) => peers.iter().all(|it| match it {
                Peer::Relative(_) => policy.shape != Shape::Early,
                Peer::Unreadable => false,
                Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) => true,
            }),
        };
        let ports = match &rule.ports {
            PortSet::Any => true,
            PortSet::Of(ports) => ports.iter().all(|it| *it != PortMatch::Unreadable),
        };
        peers && ports && rule.fail_closed.is_none()
    };
    policy.subject != Subject::Unknown && rules.into_iter().all(whole)
}
