//! A NetworkPolicy that adds nothing to another.

use std::collections::BTreeMap;

use palisade_k8s::FieldPath;
use palisade_model::{Direction, Policy, Severity, Tier};

use crate::context::{Context, called};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::{rule_within, subject_within};

pub(crate) const RULE: Rule = Rule {
    name: "redundant-policy",
    severity: Severity::Note,
    summary: "Everything that a NetworkPolicy isolates and accepts, another one isolates and accepts too.",
    why: "It can go without changing any verdict. Until then whoever reads it believes that it matters, and whoever tightens the other one wonders why nothing changes.",
    fix: "Remove the narrower policy, unless it is there for the day when the other one goes.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for own in namespaces(context) {
        for policy in &own {
            let Some(wider) = covering(context, policy, &own) else { continue };
            let name = || vec![FieldPath::default().field("metadata").field("name")];
            let spot = Spot::of(&policy.origin, name(), "adds nothing");
            let message = format!("adds nothing to {}, which isolates the same pods and accepts the same traffic", called(&wider.origin));
            findings.push(Finding::new(&RULE, spot, message).further(Spot::of(&wider.origin, name(), "does it all")));
        }
    }
    findings
}

/// The NetworkPolicies of each namespace.
pub(super) fn namespaces<'a>(context: &Context<'a>) -> Vec<Vec<&'a Policy>> {
    let mut all: BTreeMap<Option<&str>, Vec<&Policy>> = BTreeMap::new();
    for policy in context.model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy) {
        all.entry(policy.origin.namespace.as_deref()).or_default().push(policy);
    }
    all.into_values().collect()
}

/// A policy to which another adds nothing. Of two that are the same the first stays.
pub(super) fn covering<'a>(context: &Context<'_>, policy: &Policy, among: &[&'a Policy]) -> Option<&'a Policy> {
    let covers = |part: &Policy, whole: &Policy| {
        let direction = |direction: Direction| {
            let rules = whole.rules.of(direction);
            let isolated = !part.isolates.of(direction) || *whole.isolates.of(direction);
            isolated && part.rules.of(direction).iter().all(|rule| rules.iter().any(|it| rule_within(rule, it)))
        };
        context.is_enforced_with(part, whole) && subject_within(&part.subject, &whole.subject) && Direction::BOTH.into_iter().all(direction)
    };
    let stays = |other: &&Policy| !covers(other, policy) || other.origin < policy.origin;
    among.iter().copied().filter(|it| it.origin != policy.origin && covers(policy, it)).find(stays)
}

#[cfg(test)]
mod tests {
    use palisade_k8s::CONTROLLER_NAME;

    use crate::testing::{found, np};

    fn two(first: &str, second: &str) -> Vec<String> {
        found("redundant-policy", &(np(first) + &np(second).replace("name: p", "name: q")))
    }

    const ALL: &str = "  podSelector: {}\n  ingress:\n  - from: [{podSelector: {}}]";
    const WEB: &str = "  podSelector: {matchLabels: {app: web}}\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: api}}}]\n    ports: [{port: 80}]";

    #[test]
    fn a_narrower_policy_adds_nothing() {
        let expected = "note NetworkPolicy shop/q metadata.name: adds nothing to NetworkPolicy shop/p, which isolates the same pods and accepts the same traffic";
        assert_eq!(two(ALL, WEB), [expected]);
        assert_eq!(two(WEB, WEB), [expected]);
    }

    #[test]
    fn policies_of_other_namespaces_between_them_do_not_matter() {
        let between = np(ALL).replace("name: p", "name: pp").replace("namespace: shop", "namespace: infra");
        assert_eq!(found("redundant-policy", &(np(ALL) + &between + &np(WEB).replace("name: p", "name: q"))).len(), 1);
    }

    #[test]
    fn one_that_other_controllers_leave_out_covers_none_that_they_enforce() {
        let labelled = |spec: &str, name: &str| {
            let ours = format!("name: {name}, labels: {{networking.k8s.io/policy-controller-name: {CONTROLLER_NAME}}}");
            np(spec).replace("name: p", &ours)
        };
        assert_eq!(found("redundant-policy", &(labelled(ALL, "a") + &np(WEB))), Vec::<String>::new());
        assert_eq!(found("redundant-rule", &(labelled(ALL, "a") + &np(WEB))), Vec::<String>::new());
        assert_eq!(found("redundant-policy", &(labelled(ALL, "a") + &labelled(WEB, "b"))).len(), 1);
        assert_eq!(found("redundant-policy", &(np(ALL) + &labelled(WEB, "b"))).len(), 1);
        let same = "note NetworkPolicy shop/a metadata.name: adds nothing to NetworkPolicy shop/p, which isolates the same pods and accepts the same traffic";
        assert_eq!(found("redundant-policy", &(labelled(WEB, "a") + &np(WEB))), [same], "the one that all enforce stays");
    }

    #[test]
    fn one_that_isolates_or_accepts_more_adds_something() {
        assert_eq!(two(ALL, &format!("{WEB}\n  policyTypes: [Ingress, Egress]")), Vec::<String>::new());
        assert_eq!(two("  podSelector: {}", WEB), Vec::<String>::new());
    }
}
