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
    let larger = if kep2091 { "; of kep2091 the larger number comes first" } else { "" };
    several.then(|| Diagnostic {
        severity: Severity::Note,
        code: "several-policy-kinds",
        location: None,
        object: Box::default(),
        path: Box::default(),
        message: format!("cluster policies of several kinds are asked in this order: {}{larger}", tiers.join("; ")).into(),
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
        (_, Shape::Kep2091) => format!("{origin} ({})", 1000 - rank),
        (
            PolicyKind::NetworkPolicy | PolicyKind::ClusterNetworkPolicy | PolicyKind::AdminNetworkPolicy | PolicyKind::Kep2091,
            Shape::Only | Shape::Early | Shape::Late,
        ) => {
            format!("{origin} ({rank})")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Index, Text};

    fn said(policies: &[(&str, &str)]) -> Vec<String> {
        let mut index = Index::default();
        let object = |(head, spec): &(&str, &str)| format!("{{{head}, spec: {{{spec}}}}}\n---\n");
        index.read(Text { file: "f".into(), content: policies.iter().map(object).collect::<String>().into() });
        index.snapshot().diagnostics.iter().map(|it| it.message.to_string()).collect()
    }

    const ANP: (&str, &str) = (
        "apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: late}",
        "priority: 900, subject: {namespaces: {}}",
    );
    const BANP: (&str, &str) = (
        "apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}",
        "subject: {namespaces: {}}",
    );
    const CNP: (&str, &str) = (
        "apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: cnp}",
        "tier: Baseline, priority: 7, subject: {namespaces: {}}",
    );

    #[test]
    fn kinds_that_belong_together_need_no_words() {
        assert_eq!(said(&[ANP, BANP]), [""; 0]);
        assert_eq!(said(&[CNP]), [""; 0]);
    }

    #[test]
    fn the_order_of_several_kinds_is_printed_once_and_not_in_full() {
        let head = |name: &str| format!("apiVersion: kep2091.palisade.dev/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}");
        let many: Vec<(String, String)> =
            (1..=9).map(|at| (head(&format!("k{at}")), format!("priority: {at}00, subject: {{namespaceSelector: {{}}}}"))).collect();
        let all: Vec<(&str, &str)> = many.iter().map(|(head, spec)| (head.as_str(), spec.as_str())).chain([ANP, BANP, CNP]).collect();
        assert_eq!(
            said(&all),
            [
                "cluster policies of several kinds are asked in this order: Admin: kep2091/k9 (900), kep2091/k8 (800), kep2091/k7 (700), kep2091/k6 (600), kep2091/k5 (500), kep2091/k4 (400), kep2091/k3 (300), kep2091/k2 (200), 2 more; Baseline: cnp/cnp (7), banp/default; of kep2091 the larger number comes first"
            ]
        );
    }
}
