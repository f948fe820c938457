//! Policy APIs that were given up.

use palisade_api::names::KEP2091_KIND;
use palisade_k8s::FieldPath;
use palisade_model::{Peer, Policy, PolicyKind, Severity, Shape};

use crate::context::{Context, peers};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "deprecated-shape",
    severity: Severity::Warning,
    summary: "A policy is an AdminNetworkPolicy or a BaselineAdminNetworkPolicy, in any of the shapes that these had.",
    why: "ClusterNetworkPolicy has replaced them, and controllers stop reading them. Their shapes also differ from each other: in KEP-2091's a larger priority wins, in \
          those that were shipped a smaller one.",
    fix: "`palisade convert --to clusternetworkpolicy` writes the policy in the API of today. That has no peers that depend on the subject: what cannot be said is \
          listed.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    // Under our own group KEP-2091's shape is in use.
    let is_given_up = |it: &&Policy| *context.sources().key_of(&it.origin).kind != *KEP2091_KIND;
    context.model.policies.iter().filter(is_given_up).filter_map(finding).collect()
}

fn finding(policy: &Policy) -> Option<Finding> {
    let what = match (policy.origin.kind, policy.shape) {
        (PolicyKind::NetworkPolicy | PolicyKind::ClusterNetworkPolicy, _) => return None,
        (PolicyKind::Kep2091, _) | (_, Shape::Kep2091) => {
            "the shape that KEP-2091 proposed, where a larger priority wins and which no release of the API has had"
        }
        (PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy, Shape::Early) => {
            "a shape that later versions of its API do not take"
        }
        (PolicyKind::AdminNetworkPolicy | PolicyKind::BaselineAdminNetworkPolicy, Shape::Late | Shape::Only) => {
            "an API that ClusterNetworkPolicy has replaced"
        }
    };
    let spot = Spot::of(&policy.origin, vec![FieldPath::default().field("apiVersion")], "given up");
    let mut rules = policy.rules.ingress.iter().chain(&policy.rules.egress);
    let help = match rules.any(|it| peers(it).iter().any(|it| matches!(it, Peer::Relative(_)))) {
        true => "`palisade convert --to clusternetworkpolicy` writes what the API of today can say, and lists what it cannot",
        false => "`palisade convert --to clusternetworkpolicy` writes it in the API of today",
    };
    Some(Finding::new(&RULE, spot, format!("is written in {what}")).help(help))
}

#[cfg(test)]
mod tests {
    use crate::testing::{cnp, found, index, kep2091};
    use crate::{Choice, lint as lint_all};

    fn lint(name: &str, kind: &str, spec: &str) -> Vec<String> {
        let text = cnp(name, spec).replace("v1alpha2", "v1alpha1").replace("ClusterNetworkPolicy", kind);
        found("deprecated-shape", &text)
    }

    #[test]
    fn every_old_shape_is_found() {
        let late = "  priority: 1\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {}}]}";
        let expected = "warning AdminNetworkPolicy a apiVersion: is written in an API that ClusterNetworkPolicy has replaced";
        assert_eq!(lint("a", "AdminNetworkPolicy", late), [expected]);
        let expected = "warning BaselineAdminNetworkPolicy default apiVersion: is written in an API that ClusterNetworkPolicy has replaced";
        assert_eq!(lint("default", "BaselineAdminNetworkPolicy", &late.replace("  priority: 1\n", "")), [expected]);
        let early = late.replace("from: [{namespaces: {}}]", "from: [{namespaces: {sameLabels: [team]}}]");
        let expected = "warning AdminNetworkPolicy a apiVersion: is written in a shape that later versions of its API do not take";
        assert_eq!(lint("a", "AdminNetworkPolicy", &early), [expected]);
        let proposed = "  priority: 1\n  subject: {namespaceSelector: {}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {self: true}}], l4Selector: {allPorts: true}}";
        let expected = "warning AdminNetworkPolicy a apiVersion: is written in the shape that KEP-2091 proposed, where a larger priority wins and which no \
                        release of the API has had";
        assert_eq!(lint("a", "AdminNetworkPolicy", proposed), [expected]);
    }

    #[test]
    fn no_promise_where_peers_depend_on_the_subject() {
        let help = |from: &str| {
            let text =
                kep2091("k", 5, &format!("  - {{action: Deny, l4Selector: {{allPorts: true}}, from: [{{namespaces: {{{from}}}}}]}}"));
            let lints = lint_all(&index(&text), &Choice::of(&["deprecated-shape".to_owned()], &[]).unwrap());
            lints.findings[0].help.clone().unwrap()
        };
        assert!(help("sameLabels: [team]").ends_with("and lists what it cannot"));
        assert!(help("namespaceSelector: {}").ends_with("writes it in the API of today"));
    }

    #[test]
    fn our_own_group_is_in_use() {
        let text = kep2091("k", 5, "  - {action: Deny, l4Selector: {allPorts: true}, from: [{namespaces: {self: true}}]}");
        assert_eq!(found("deprecated-shape", &text).len(), 1);
        assert_eq!(found("deprecated-shape", &text.replace("policy.networking.k8s.io", "kep2091.palisade.dev")), Vec::<String>::new());
    }

    #[test]
    fn the_api_of_today_is_fine() {
        assert_eq!(found("deprecated-shape", &cnp("c", "  tier: Admin\n  priority: 1\n  subject: {namespaces: {}}")), Vec::<String>::new());
    }
}
