//! A block of which nothing is left.

use ipnet::IpNet;
use palisade_model::Severity;

use crate::context::Context;
use crate::finding::Finding;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "except-covers-everything",
    severity: Severity::Warning,
    summary: "The exceptions of a block leave nothing of it.",
    why: "The entry matches nobody, so the rule does nothing by it.",
    fix: "Remove the entry, or the exception that is too wide.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in context.blocks() {
        let together = IpNet::aggregate(&block.block.except);
        if together.iter().any(|it| it.contains(&block.block.cidr)) {
            let message = format!("the exceptions of {} leave nothing of it", block.block.cidr);
            findings.push(Finding::new(&RULE, block.spot("nobody"), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::testing::{found, np};

    fn lint(except: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  ingress:\n  - from: [{{ipBlock: {{cidr: 10.0.0.0/8, except: [{except}]}}}}]");
        found("except-covers-everything", &np(&spec))
    }

    #[test]
    fn two_halves_are_the_whole() {
        let expected =
            "warning NetworkPolicy shop/p spec.ingress[0].from[0].ipBlock.cidr: the exceptions of 10.0.0.0/8 leave nothing of it";
        assert_eq!(lint("10.0.0.0/9, 10.128.0.0/9"), [expected]);
    }

    #[test]
    fn a_rest_is_enough() {
        assert_eq!(lint("10.0.0.0/9, 10.128.0.0/10"), Vec::<String>::new());
    }
}
