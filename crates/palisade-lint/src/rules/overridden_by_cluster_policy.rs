//! A rule of a NetworkPolicy that a cluster policy denies in advance.

use palisade_model::{Severity, Tier};
use palisade_report::locate::rule_path;

use super::other_side_denies::{places, said};
use crate::asking::Blocked;
use crate::context::{Context, listed};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "overridden-by-cluster-policy",
    severity: Severity::Warning,
    summary: "A cluster policy of the Admin tier denies everything that a rule of a NetworkPolicy accepts.",
    why: "The Admin tier is asked first and a Deny there is final. The NetworkPolicy looks as if it allowed something and cannot.",
    fix: "Ask whoever is responsible for the cluster policy for an exception above it, or remove the rule. `palisade overrides` tells all that a cluster policy overrides.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    if context.model.policies.iter().all(|it| it.tier != Tier::Admin) {
        return Vec::new();
    }
    let found = context.blocked().iter().filter(|it| it.placed.policy.tier == Tier::NetworkPolicy && !it.own.is_empty());
    found.map(finding).collect()
}

fn finding(it: &Blocked<'_>) -> Finding {
    let rule = it.placed.reference();
    let spot = Spot::of(&rule.policy, vec![rule_path(&rule)], "cannot accept anything");
    let why = listed(it.own.iter().map(said));
    let message = match it.other.is_empty() {
        true => format!("{} rule {} is overridden: {why} first", rule.direction, rule.index),
        false => {
            format!("{} rule {} is overridden for a part of its peers, and denied at the others: {why} first", rule.direction, rule.index)
        }
    };
    let mut finding = Finding::new(&RULE, spot, message);
    finding.further = it.own.iter().flat_map(places).collect();
    finding
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, cnp, found, np};

    fn lint(protocols: &str) -> Vec<String> {
        let accept = np(
            "  podSelector: {matchLabels: {app: db}}\n  ingress:\n  - from: [{namespaceSelector: {matchLabels: {team: infra}}}]\n    ports: [{port: 5432}]",
        );
        let deny = cnp(
            "no-infra",
            &format!(
                "  tier: Admin\n  priority: 1\n  subject: {{namespaces: {{}}}}\n  ingress:\n  - action: Deny\n    from: [{{namespaces: {{matchLabels: {{team: infra}}}}}}]\n{protocols}"
            ),
        );
        found("overridden-by-cluster-policy", &format!("{CLUSTER}{accept}{deny}"))
    }

    #[test]
    fn a_deny_above_leaves_nothing() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0]: ingress rule 0 is overridden: rule 0 of ClusterNetworkPolicy no-infra denies first";
        assert_eq!(lint(""), [expected]);
    }

    #[test]
    fn a_deny_of_other_traffic_is_fine() {
        assert_eq!(lint("    protocols: [{tcp: {destinationPort: {number: 22}}}]"), Vec::<String>::new());
    }
}
