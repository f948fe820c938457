//! Two rules of one list with the same name.

use std::collections::BTreeMap;

use palisade_model::{Direction, RuleRef, Severity};

use crate::context::{Context, Placed};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "duplicate-rule-name",
    severity: Severity::Warning,
    summary: "Two rules of one list have the same name.",
    why: "Explanations, logs and counters name rules. With two of the same name nobody can tell which one decided.",
    fix: "Give each rule of a list its own name.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &context.model.policies {
        for direction in Direction::BOTH {
            let mut first: BTreeMap<&str, RuleRef> = BTreeMap::new();
            for rule in policy.rules.of(direction) {
                let reference = Placed { policy, direction, rule }.reference();
                let Some(name) = rule.name.as_deref().filter(|it| !it.is_empty()) else { continue };
                let Some(earlier) = first.get(name) else {
                    first.insert(name, reference);
                    continue;
                };
                let spot = Spot::of(&policy.origin, paths::rule_name(&reference), "the second");
                let message = format!("`{name}` is also the name of {direction} rule {}", earlier.index);
                findings.push(Finding::new(&RULE, spot, message).further(Spot::of(&policy.origin, paths::rule_name(earlier), "the first")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{cnp, found};

    const RULES: &str = "  tier: Admin
  priority: 1
  subject: {namespaces: {}}
  ingress:
  - {name: a, action: Deny, from: [{namespaces: {}}]}
  - {name: SECOND, action: Accept, from: [{namespaces: {matchLabels: {team: shop}}}]}
  egress:
  - {name: a, action: Deny, to: [{namespaces: {}}]}";

    #[test]
    fn the_second_of_a_name_is_found() {
        let text = cnp("c", &RULES.replace("SECOND", "a"));
        let expected = "warning ClusterNetworkPolicy c spec.ingress[1].name: `a` is also the name of ingress rule 0";
        assert_eq!(found("duplicate-rule-name", &text), [expected]);
    }

    #[test]
    fn directions_have_names_of_their_own() {
        assert_eq!(found("duplicate-rule-name", &cnp("c", &RULES.replace("SECOND", "b"))), Vec::<String>::new());
    }
}
