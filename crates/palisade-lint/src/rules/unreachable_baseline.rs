//! A Baseline policy that is never asked.

use palisade_model::{Direction, Severity, Tier};

use crate::context::{Context, listed};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "unreachable-baseline",
    severity: Severity::Note,
    summary: "NetworkPolicies isolate every pod that a Baseline policy is about.",
    why: "Baseline is only asked about pods that no NetworkPolicy isolates in that direction. At the moment there are none, so the policy decides nothing; whoever changes \
          it will see no effect.",
    fix: "Leave it if it is for pods to come. What must hold in spite of NetworkPolicies belongs into the Admin tier.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in context.model.policies.iter().filter(|it| it.tier == Tier::Baseline) {
        let subjects = context.subjects(policy);
        for direction in Direction::BOTH {
            let isolated = |crowd: &&crate::context::Crowd<'_>| context.tiers(crowd, direction).contains(&Tier::NetworkPolicy);
            if policy.rules.of(direction).is_empty() || subjects.is_empty() || !subjects.iter().all(isolated) {
                continue;
            }
            let field = match direction {
                Direction::Ingress => "ingress",
                Direction::Egress => "egress",
            };
            let who = listed(subjects.iter().flat_map(|it| &it.pods).map(|it| context.name(*it)));
            let message = format!("is never asked about {direction}: NetworkPolicies isolate all its subjects: {who}");
            findings.push(Finding::new(&RULE, Spot::of(&policy.origin, vec![paths::field(field)], "never asked"), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, cnp, found, np};

    fn lint(selector: &str) -> Vec<String> {
        let baseline = cnp(
            "b",
            "  tier: Baseline\n  priority: 1\n  subject: {namespaces: {matchLabels: {team: shop}}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {}}]}",
        );
        found("unreachable-baseline", &format!("{CLUSTER}{baseline}{}", np(&format!("  podSelector: {selector}"))))
    }

    #[test]
    fn all_subjects_are_isolated() {
        let expected = "note ClusterNetworkPolicy b spec.ingress: is never asked about ingress: NetworkPolicies isolate all its subjects: shop/db, shop/web";
        assert_eq!(lint("{}"), [expected]);
    }

    #[test]
    fn one_pod_that_is_not_isolated_is_enough() {
        assert_eq!(lint("{matchLabels: {app: web}}"), Vec::<String>::new());
    }
}
