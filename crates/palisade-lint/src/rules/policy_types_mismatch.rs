//! Rules of a direction that `policyTypes` does not list, and an empty list of rules that isolates nobody.

use palisade_k8s::ObjectKey;
use palisade_model::{Direction, Severity};

use crate::context::Context;
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "policy-types-mismatch",
    severity: Severity::Warning,
    summary: "A NetworkPolicy has `ingress` or `egress`, and `policyTypes` does not list that direction.",
    why: "Rules of a direction that is not listed are ignored, and pods are not isolated in it: what looks like a restriction restricts nothing. The same goes for \
          an empty `egress` without `policyTypes`, which does not mean that nothing may leave.",
    fix: "Add the direction to `policyTypes` if pods are to be isolated in it. Otherwise remove its rules.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, policy) in context.network_policies() {
        for direction in Direction::BOTH {
            if *policy.types.of(direction) {
                continue;
            }
            let (list, word) = match direction {
                Direction::Ingress => ("ingress", "Ingress"),
                Direction::Egress => ("egress", "Egress"),
            };
            let rules = policy.rules.of(direction).len();
            if rules > 0 {
                findings.push(ignored(key, list, word, rules));
            } else if direction == Direction::Egress && is_empty_default(context, key) {
                let spot = Spot::new(key.clone(), vec![paths::field(list)], "isolates nobody");
                let message = "an empty `egress` without `policyTypes` restricts nothing";
                let help = "write `policyTypes: [Ingress, Egress]` if nothing may leave, else remove `egress`";
                findings.push(Finding::new(&RULE, spot, message).help(help));
            }
        }
    }
    findings
}

fn ignored(key: &ObjectKey, list: &'static str, word: &str, rules: usize) -> Finding {
    let spot = Spot::new(key.clone(), vec![paths::field(list)], "ignored");
    let types = Spot::new(key.clone(), vec![paths::field("policyTypes")], format!("does not list {word}"));
    let (noun, verb) = if rules == 1 { ("rule", "is") } else { ("rules", "are") };
    let message = format!("its {list} {noun} {verb} ignored, and pods are not isolated for {list}: `policyTypes` does not list {word}");
    Finding::new(&RULE, spot, message).further(types).help(format!("add {word} to `policyTypes`, or remove `{list}`"))
}

/// Whether `egress` was written as an empty list, and `policyTypes` was not written.
fn is_empty_default(context: &Context<'_>, key: &ObjectKey) -> bool {
    context.is_written(key, &paths::field("egress")) && !context.is_written(key, &paths::field("policyTypes"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    #[test]
    fn rules_of_a_direction_that_is_not_listed_are_ignored() {
        let text = np("  podSelector: {}\n  policyTypes: [Ingress]\n  egress:\n  - to: [{podSelector: {}}]");
        let expected = "warning NetworkPolicy shop/p spec.egress: its egress rule is ignored, and pods are not isolated for egress: `policyTypes` does not list Egress";
        assert_eq!(found("policy-types-mismatch", &text), [expected]);
    }

    #[test]
    fn an_empty_egress_without_types_isolates_nobody() {
        let text = np("  podSelector: {}\n  egress: []");
        let expected = "warning NetworkPolicy shop/p spec.egress: an empty `egress` without `policyTypes` restricts nothing";
        assert_eq!(found("policy-types-mismatch", &text), [expected]);
    }

    #[test]
    fn listed_and_defaulted_directions_are_fine() {
        for spec in [
            "  podSelector: {}",
            "  podSelector: {}\n  policyTypes: [Egress]\n  egress: []",
            "  podSelector: {}\n  egress:\n  - {}",
            "  podSelector: {}\n  policyTypes: [Ingress]\n  egress: []",
        ] {
            assert_eq!(found("policy-types-mismatch", &np(spec)), Vec::<String>::new(), "{spec}");
        }
    }
}
