//! The one order that policies of several kinds are asked in. SPEC: semantics 3.5.

use palisade_model::{Diagnostic, Model, Policy, PolicyKind, Severity, Shape, Tier};

/// How many policies of a tier are printed.
const SHOWN: usize = 8;

/// Says in which order policies are asked, if they are of kinds that no API puts in an order. An AdminNetworkPolicy and its Baseline belong together.
pub(crate) fn merged_order(model: &Model) -> Option<Diagnostic> {
    let has = |kinds: &[PolicyKind]| model.policies.iter().any(|it| kinds.contains(&it.origin.kind));
    let cluster = has(&[PolicyKind::ClusterNetworkPolicy]);
    let admin = has(&[PolicyKind::AdminNetworkPolicy, PolicyKind::BaselineAdminNetworkPolicy]);
    let kep2091 = has(&[PolicyKind::Kep2091]);
    let several = [cluster, admin, kep2091].into_iter().filter(|it| *it).count() > 1;
    let tiers: Vec<String> = [Tier::Admin, Tier::Baseline].into_iter().filter_map(|tier| in_order(model, tier)).collect();
    several.then(|| Diagnostic {
        severity: Severity::Note,
        code: "several-policy-kinds",
        location: None,
        object: Box::default(),
        path: Box::default(),
        message: format!("cluster policies of several kinds, which are asked in this order: {}", tiers.join("; ")).into(),
        help: Some("no API says how priorities of different kinds compare; convert them to one kind".into()),
    })
}

fn in_order(model: &Model, tier: Tier) -> Option<String> {
    let policies: Vec<&Policy> = model.policies.iter().filter(|it| it.tier == tier).collect();
    let mut shown: Vec<String> = policies.iter().take(SHOWN).map(|it| named(it)).collect();
    if let Some(more) = policies.len().checked_sub(SHOWN).filter(|it| *it > 0) {
        shown.push(format!("{more} more"));
    }
    (!shown.is_empty()).then(|| format!("{tier}: {}", shown.join(", ")))
}

/// The policy with its priority as it was written.
fn named(policy: &Policy) -> String {
    let Policy { origin, rank, .. } = policy;
    match (origin.kind, policy.shape) {
        (PolicyKind::BaselineAdminNetworkPolicy, _) => origin.to_string(),
        (_, Shape::Kep2091) => format!("{origin} ({}, larger first)", 1000 - rank),
        (
            PolicyKind::NetworkPolicy | PolicyKind::ClusterNetworkPolicy | PolicyKind::AdminNetworkPolicy | PolicyKind::Kep2091,
            Shape::Only | Shape::Early | Shape::Late,
        ) => {
            format!("{origin} ({rank})")
        }
    }
}
