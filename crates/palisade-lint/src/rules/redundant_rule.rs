//! A rule of a NetworkPolicy that adds nothing.

use palisade_model::{Direction, Policy, Rule as PolicyRule, Severity};
use palisade_report::locate::rule_path;

use super::redundant_policy::{covering, namespaces};
use crate::context::{Context, Placed, called};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};
use crate::within::{rule_within, subject_within};

pub(crate) const RULE: Rule = Rule {
    name: "redundant-rule",
    severity: Severity::Note,
    summary: "What a rule of a NetworkPolicy accepts, another rule accepts for the same pods.",
    why: "The rule can go without changing any verdict. Often the other one is wider than it should be: whoever wrote the narrow rule did not expect it.",
    fix: "Remove the narrower rule, or narrow the wider one.",
    fixable: true,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for own in namespaces(context) {
        // A policy that can go as a whole is another rule's finding.
        for policy in own.iter().filter(|it| covering(context, it, &own).is_none()) {
            let is_wider = |it: &&Policy| {
                it.origin != policy.origin && subject_within(&policy.subject, &it.subject) && context.is_enforced_with(policy, it)
            };
            let wider: Vec<&Policy> = own.iter().copied().filter(is_wider).collect();
            for direction in Direction::BOTH {
                for rule in policy.rules.of(direction) {
                    findings.extend(finding(context, policy, &wider, direction, rule));
                }
            }
        }
    }
    findings
}

fn finding(context: &Context<'_>, policy: &Policy, wider: &[&Policy], direction: Direction, rule: &PolicyRule) -> Option<Finding> {
    let own = Placed { policy, direction, rule }.reference();
    // Of two that are the same the first stays.
    let stays = |it: &&PolicyRule| it.index != rule.index && rule_within(rule, it) && (!rule_within(it, rule) || it.index < rule.index);
    if let Some(other) = policy.rules.of(direction).iter().find(stays) {
        let other = Placed { policy, direction, rule: other }.reference();
        let spot = Spot::of(&own.policy, vec![rule_path(&own)], "adds nothing");
        let message = format!("{direction} rule {} adds nothing to rule {}", own.index, other.index);
        let further = Spot::of(&own.policy, vec![rule_path(&other)], "accepts all of it");
        return Some(Finding::new(&RULE, spot, message).further(further).superfluous(rule_path(&own)));
    }
    let (wider, other) =
        wider.iter().find_map(|it| it.rules.of(direction).iter().find(|other| rule_within(rule, other)).map(|rule| (it, rule)))?;
    // Two policies with the same subjects would find fault with each other.
    let same = subject_within(&wider.subject, &policy.subject) && rule_within(other, rule) && context.is_enforced_with(wider, policy);
    if same && wider.origin > policy.origin {
        return None;
    }
    let other = Placed { policy: wider, direction, rule: other }.reference();
    let spot = Spot::of(&own.policy, vec![rule_path(&own)], "adds nothing");
    let message = format!("{direction} rule {} adds nothing to rule {} of {}", own.index, other.index, called(&other.policy));
    Some(Finding::new(&RULE, spot, message).further(Spot::of(&other.policy, vec![rule_path(&other)], "accepts all of it")))
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    const NARROW: &str = "  - from: [{podSelector: {matchLabels: {app: api}}}]\n    ports: [{port: 80}]\n";
    const WIDE: &str = "  - from: [{podSelector: {}}]\n";

    fn lint(rules: &str) -> Vec<String> {
        found("redundant-rule", &np(&format!("  podSelector: {{}}\n  ingress:\n{rules}")))
    }

    #[test]
    fn a_narrower_rule_adds_nothing_wherever_it_stands() {
        assert_eq!(lint(&format!("{NARROW}{WIDE}")), ["note NetworkPolicy shop/p spec.ingress[0]: ingress rule 0 adds nothing to rule 1"]);
        assert_eq!(lint(&format!("{WIDE}{NARROW}")), ["note NetworkPolicy shop/p spec.ingress[1]: ingress rule 1 adds nothing to rule 0"]);
        assert_eq!(lint(&format!("{WIDE}{WIDE}")), ["note NetworkPolicy shop/p spec.ingress[1]: ingress rule 1 adds nothing to rule 0"]);
    }

    #[test]
    fn a_rule_of_another_policy_for_the_same_pods_counts_too() {
        let web = np(&format!("  podSelector: {{matchLabels: {{app: web}}}}\n  policyTypes: [Ingress, Egress]\n  ingress:\n{NARROW}"));
        let all = np(&format!("  podSelector: {{}}\n  ingress:\n{WIDE}")).replace("name: p", "name: q");
        let expected = "note NetworkPolicy shop/p spec.ingress[0]: ingress rule 0 adds nothing to rule 0 of NetworkPolicy shop/q";
        assert_eq!(found("redundant-rule", &(web + &all)), [expected]);
    }

    #[test]
    fn rules_that_accept_different_traffic_are_fine() {
        assert_eq!(lint(&format!("{NARROW}{}", NARROW.replace("80", "81"))), Vec::<String>::new());
    }
}
