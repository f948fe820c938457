//! An empty list that restricts nothing.

use palisade_model::{Direction, Severity};
use palisade_report::locate::rule_path;

use crate::context::Context;
use crate::finding::{Finding, Spot};
use crate::paths::np_rule;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "empty-list-allows-all",
    severity: Severity::Warning,
    summary: "A rule of a NetworkPolicy has an empty `from`, `to` or `ports`.",
    why: "An empty list of peers or ports means all of them, as if it were not there. Whoever wrote it, or the template that left it empty, probably meant nobody.",
    fix: "Remove the whole rule if nobody is meant, or the empty list if everybody is.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, policy) in context.network_policies() {
        for direction in Direction::BOTH.into_iter().filter(|it| *policy.types.of(*it)) {
            let (peers, who) = match direction {
                Direction::Ingress => ("from", "from everybody"),
                Direction::Egress => ("to", "to everybody"),
            };
            for (index, rule) in policy.rules.of(direction).iter().enumerate() {
                let path = rule_path(&np_rule(key, direction, index));
                let lists = [(peers, who, rule.peers.is_empty()), ("ports", "on all ports", rule.ports.is_empty())];
                for (list, meaning, _) in lists.into_iter().filter(|it| it.2) {
                    let path = path.clone().field(list);
                    if context.is_written(key, &path) {
                        let message = format!("an empty `{list}` restricts nothing: {direction} rule {index} accepts {meaning}");
                        findings.push(Finding::new(&RULE, Spot::new(key.clone(), vec![path], "all of them"), message));
                    }
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    fn lint(rule: &str) -> Vec<String> {
        found("empty-list-allows-all", &np(&format!("  podSelector: {{}}\n  ingress:\n  - {rule}")))
    }

    #[test]
    fn an_empty_list_is_found() {
        let expected =
            "warning NetworkPolicy shop/p spec.ingress[0].from: an empty `from` restricts nothing: ingress rule 0 accepts from everybody";
        assert_eq!(lint("{from: [], ports: [{port: 80}]}"), [expected]);
        let expected =
            "warning NetworkPolicy shop/p spec.ingress[0].ports: an empty `ports` restricts nothing: ingress rule 0 accepts on all ports";
        assert_eq!(lint("{from: [{podSelector: {}}], ports: []}"), [expected]);
    }

    #[test]
    fn a_list_that_is_not_there_is_fine() {
        assert_eq!(lint("{ports: [{port: 80}]}"), Vec::<String>::new());
        assert_eq!(lint("{}"), Vec::<String>::new());
    }
}
