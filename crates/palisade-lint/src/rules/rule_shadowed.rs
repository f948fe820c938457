//! A rule that is never reached.

use palisade_model::{Direction, Policy, Rule as PolicyRule, Severity, Tier};
use palisade_report::locate::rule_path;

use crate::context::{Context, Placed, called};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};
use crate::within::{rule_within, subject_within};

pub(crate) const RULE: Rule = Rule {
    name: "rule-shadowed",
    severity: Severity::Warning,
    summary: "An earlier rule matches everything that a rule of a cluster policy matches.",
    why: "In the Admin and Baseline tiers the first rule that matches decides. A rule behind a wider one is never asked, whatever it says; often the exception was \
          written below the rule that it excepts from.",
    fix: "Put the narrower rule first, or remove it.",
    fixable: true,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tier in [Tier::Admin, Tier::Baseline] {
        // The model has policies in the order in which they are asked.
        let policies: Vec<&Policy> = context.model.policies.iter().filter(|it| it.tier == tier).collect();
        for (at, policy) in policies.iter().enumerate() {
            let before = policies.get(..at).unwrap_or(&[]);
            // Of the same priority which comes first is not for rules to rely on.
            let is_wider = |it: &&Policy| {
                it.rank < policy.rank && subject_within(&policy.subject, &it.subject) && context.is_enforced_with(policy, it)
            };
            let wider: Vec<&Policy> = before.iter().copied().filter(is_wider).collect();
            for direction in Direction::BOTH {
                for rule in policy.rules.of(direction) {
                    findings.extend(shadow(policy, &wider, direction, rule).map(|earlier| finding(policy, direction, rule, &earlier)));
                }
            }
        }
    }
    findings
}

/// The first rule that leaves nothing to another.
fn shadow<'a>(policy: &'a Policy, wider: &[&'a Policy], direction: Direction, rule: &PolicyRule) -> Option<Placed<'a>> {
    let placed = |policy: &'a Policy| policy.rules.of(direction).iter().map(move |rule| Placed { policy, direction, rule });
    let own = placed(policy).take_while(|it| it.rule.index < rule.index);
    wider.iter().flat_map(|it| placed(it)).chain(own).find(|it| rule_within(rule, it.rule))
}

fn finding(policy: &Policy, direction: Direction, rule: &PolicyRule, earlier: &Placed<'_>) -> Finding {
    let own = Placed { policy, direction, rule }.reference();
    let other = earlier.reference();
    let whose = if other.policy == own.policy { String::new() } else { format!(" of {}", called(&other.policy)) };
    let spot = Spot::of(&own.policy, paths::rule_name(&own), format!("{}: never asked", rule.action));
    let message = format!("{direction} rule {} is never asked: rule {}{whose} comes first and matches all of it", own.index, other.index);
    let first = Spot::of(&other.policy, paths::rule_name(&other), format!("{}: asked first", earlier.rule.action));
    let finding = Finding::new(&RULE, spot, message).further(first);
    // A rule that would decide otherwise was probably meant to come first.
    match (rule.action == earlier.rule.action, whose.is_empty()) {
        (true, true) => finding.superfluous(rule_path(&own)),
        (true, false) => finding,
        (false, _) => finding.help("put it first if it is meant to be an exception"),
    }
}

#[cfg(test)]
mod tests {
    use palisade_k8s::CONTROLLER_NAME;

    use crate::testing::{cnp, found, kep2091};

    fn policy(name: &str, priority: u32, rules: &str) -> String {
        cnp(name, &format!("  tier: Admin\n  priority: {priority}\n  subject: {{namespaces: {{}}}}\n  ingress:\n{rules}"))
    }

    const DENY_ALL: &str = "  - {name: all, action: Deny, from: [{namespaces: {}}]}\n";
    const ACCEPT_ONE: &str = "  - {name: one, action: Accept, from: [{namespaces: {matchLabels: {team: infra}}}]}\n";

    #[test]
    fn an_exception_below_the_rule_is_never_asked() {
        let expected =
            "warning ClusterNetworkPolicy c spec.ingress[1].name: ingress rule 1 is never asked: rule 0 comes first and matches all of it";
        assert_eq!(found("rule-shadowed", &policy("c", 1, &format!("{DENY_ALL}{ACCEPT_ONE}"))), [expected]);
    }

    #[test]
    fn a_policy_that_comes_first_shadows_too() {
        let text = policy("a", 1, DENY_ALL) + &policy("b", 2, ACCEPT_ONE);
        let expected = "warning ClusterNetworkPolicy b spec.ingress[0].name: ingress rule 0 is never asked: rule 0 of ClusterNetworkPolicy a comes first and matches all of it";
        assert_eq!(found("rule-shadowed", &text), [expected]);
    }

    #[test]
    fn a_policy_that_other_controllers_leave_out_shadows_none_that_they_enforce() {
        let label = format!("labels: {{networking.k8s.io/policy-controller-name: {CONTROLLER_NAME}}}");
        let (ours, theirs) = (policy(&format!("a, {label}"), 1, DENY_ALL), policy("b", 2, ACCEPT_ONE));
        assert_eq!(found("rule-shadowed", &(ours.clone() + &theirs)), Vec::<String>::new());
        assert_eq!(found("rule-shadowed", &(ours + &policy(&format!("b, {label}"), 2, ACCEPT_ONE))).len(), 1);
    }

    #[test]
    fn an_exception_that_comes_first_is_fine() {
        assert_eq!(found("rule-shadowed", &policy("c", 1, &format!("{ACCEPT_ONE}{DENY_ALL}"))), Vec::<String>::new());
        let text = policy("a", 2, DENY_ALL) + &policy("b", 1, ACCEPT_ONE);
        assert_eq!(found("rule-shadowed", &text), Vec::<String>::new());
    }

    #[test]
    fn policies_of_one_priority_have_no_order_to_rely_on() {
        let text = policy("a", 1, DENY_ALL) + &policy("b", 1, ACCEPT_ONE);
        assert_eq!(found("rule-shadowed", &text), Vec::<String>::new());
    }

    #[test]
    fn a_policy_of_fewer_subjects_shadows_nothing() {
        let narrow = policy("a", 1, DENY_ALL).replace("subject: {namespaces: {}}", "subject: {namespaces: {matchLabels: {team: shop}}}");
        assert_eq!(found("rule-shadowed", &(narrow + &policy("b", 2, ACCEPT_ONE))), Vec::<String>::new());
    }

    /// Which of two ingress rules in the shape of KEP-2091 are shadowed, by their peers.
    fn relative(earlier: &str, later: &str) -> usize {
        let rule = |action: &str, from: &str| format!("  - {{action: {action}, l4Selector: {{allPorts: true}}, from: [{from}]}}\n");
        found("rule-shadowed", &kep2091("k", 5, &(rule("Deny", earlier) + &rule("Allow", later)))).len()
    }

    const OWN: &str = "{namespaces: {self: true}}";
    const OTHERS: &str = "{namespaces: {notSelf: true}}";
    const TENANT: &str = "{namespaces: {sameLabels: [tenant]}}";
    const ALL: &str = "{namespaces: {namespaceSelector: {}}}";
    const SOME: &str = "{namespaces: {namespaceSelector: {matchLabels: {tenant: red}}}}";
    const OWN_WEB: &str = "{namespacedPods: {namespaces: {self: true}, pods: {podSelector: {matchLabels: {app: web}}}}}";

    #[test]
    fn all_pods_shadow_whatever_depends_on_the_subject() {
        for later in [OWN, OTHERS, TENANT, SOME, ALL, OWN_WEB] {
            assert_eq!(relative(ALL, later), 1, "{later}");
            assert_eq!(relative(&format!("{OWN}, {OTHERS}"), later), 1, "{later}");
        }
        assert_eq!(relative(OWN, OWN_WEB), 1);
        assert_eq!(relative(TENANT, TENANT), 1);
    }

    #[test]
    fn some_pods_shadow_no_others() {
        for (earlier, later) in [(OWN, ALL), (OWN, OTHERS), (OWN_WEB, OWN), (TENANT, OWN), (SOME, OWN), (OTHERS, SOME)] {
            assert_eq!(relative(earlier, later), 0, "{earlier} {later}");
        }
        assert_eq!(relative(&format!("{OWN_WEB}, {OTHERS}"), ALL), 0);
    }
}
