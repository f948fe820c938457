//! Pods that nothing protects, in namespaces that have policies.

use std::collections::BTreeMap;

use palisade_k8s::{FieldPath, ObjectKey};
use palisade_model::{Direction, EndpointId, Severity, Tier};

use crate::context::Context;
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "no-default-deny",
    severity: Severity::Note,
    summary: "A namespace has NetworkPolicies for ingress, and some of its pods are covered by no policy of any tier.",
    why: "Where some pods are protected, the others are easily taken to be. Anybody may connect to them, and to whatever is deployed there next.",
    fix: "Add a NetworkPolicy that isolates all pods of the namespace: `podSelector: {}` and `policyTypes: [Ingress]`, without rules. Or a Baseline policy for all namespaces.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut pods: BTreeMap<&str, (bool, Vec<EndpointId>)> = BTreeMap::new();
    for crowd in context.all_pods() {
        let tiers = context.tiers(crowd, Direction::Ingress);
        let (protected, open) = pods.entry(crowd.namespace).or_default();
        *protected |= tiers.contains(&Tier::NetworkPolicy);
        if tiers.is_empty() {
            open.extend(&crowd.pods);
        }
    }
    let found = pods.into_iter().filter(|(_, (protected, open))| *protected && !open.is_empty());
    let finding = |(name, (_, mut open)): (&str, (bool, Vec<EndpointId>))| {
        open.sort();
        let key = ObjectKey { kind: "Namespace".into(), namespace: None, name: name.into() };
        let spot = Spot::new(key, vec![FieldPath::default().field("metadata").field("name")], "some pods only");
        let message = format!("its NetworkPolicies leave pods without any policy for ingress: {}", context.named(open));
        Finding::new(&RULE, spot, message).help("isolate all pods: `podSelector: {}`, `policyTypes: [Ingress]`, no rules")
    };
    found.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(selector: &str) -> Vec<String> {
        found("no-default-deny", &format!("{CLUSTER}{}", np(&format!("  podSelector: {selector}"))))
    }

    #[test]
    fn pods_beside_protected_ones() {
        let expected = "note Namespace shop metadata.name: its NetworkPolicies leave pods without any policy for ingress: shop/db";
        assert_eq!(lint("{matchLabels: {app: web}}"), [expected]);
    }

    #[test]
    fn a_default_deny_or_no_policy_at_all_is_fine() {
        assert_eq!(lint("{}"), Vec::<String>::new());
        assert_eq!(found("no-default-deny", CLUSTER), Vec::<String>::new());
    }
}
