//! Pass in the last tier.

use palisade_model::{Action, Severity, Tier};
use palisade_report::locate::rule_path;

use crate::context::Context;
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "pass-in-baseline",
    severity: Severity::Warning,
    summary: "A rule of the Baseline tier passes.",
    why: "Pass leaves the tier, and nothing comes after Baseline but the default, which accepts. The rule accepts without saying so.",
    fix: "Write Accept, or Deny if that was meant.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let passes = context.rules().filter(|it| it.policy.tier == Tier::Baseline && it.rule.action == Action::Pass);
    let finding = |it: crate::context::Placed<'_>| {
        let rule = it.reference();
        let spot = Spot::of(&rule.policy, vec![rule_path(&rule).field("action")], "accepts, in the end");
        Finding::new(&RULE, spot, format!("{} rule {} passes, and nothing comes after Baseline: it accepts", rule.direction, rule.index))
    };
    passes.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{cnp, found};

    fn lint(tier: &str) -> Vec<String> {
        let spec = format!(
            "  tier: {tier}\n  priority: 1\n  subject: {{namespaces: {{}}}}\n  ingress:\n  - {{action: Pass, from: [{{namespaces: {{}}}}]}}"
        );
        found("pass-in-baseline", &cnp("c", &spec))
    }

    #[test]
    fn pass_in_baseline_accepts() {
        let expected =
            "warning ClusterNetworkPolicy c spec.ingress[0].action: ingress rule 0 passes, and nothing comes after Baseline: it accepts";
        assert_eq!(lint("Baseline"), [expected]);
    }

    #[test]
    fn pass_in_admin_is_what_it_is_for() {
        assert_eq!(lint("Admin"), Vec::<String>::new());
    }
}
