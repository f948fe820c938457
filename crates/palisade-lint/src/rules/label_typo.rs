//! A label value that is one letter off.

use palisade_model::{LabelSelector, NamespaceSet, Operator, Requirement, Severity, Subject};

use crate::context::{Context, meant, peers};
use crate::finding::{Finding, Spot};
use crate::paths::{self, Of};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "label-typo",
    severity: Severity::Warning,
    summary: "A selector asks for a label value that nobody has and that differs by one letter from one that somebody has.",
    why: "Nothing checks labels: a policy with a misspelt one is valid and selects fewer than was meant, or nobody.",
    fix: "Spell the value as the pods or namespaces have it.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &context.model.policies {
        let Subject::Pods { namespaces, pods } = &policy.subject else { continue };
        for (of, selector) in selectors(namespaces, pods) {
            for slip in slips(context, namespaces, of, selector) {
                let holders = paths::subject_selector(&policy.origin, of);
                let spot = Spot::of(&policy.origin, paths::requirement(selector, holders, slip.requirement), "nobody has it");
                findings.push(slip.finding(spot, of));
            }
        }
    }
    for placed in context.rules() {
        for (at, peer) in peers(placed.rule).iter().enumerate() {
            let Some(meant) = meant(placed.policy, peer) else { continue };
            for (of, selector) in selectors(&meant.namespaces, &meant.pods).into_iter().filter(|it| meant.named.contains(&it.0)) {
                for slip in slips(context, &meant.namespaces, of, selector) {
                    let rule = placed.reference();
                    let holders = paths::peer_selector(&rule, at, of);
                    let spot = Spot::of(&rule.policy, paths::requirement(selector, holders, slip.requirement), "nobody has it");
                    findings.push(slip.finding(spot, of));
                }
            }
        }
    }
    findings
}

fn selectors<'s>(namespaces: &'s NamespaceSet, pods: &'s LabelSelector) -> Vec<(Of, &'s LabelSelector)> {
    match namespaces {
        NamespaceSet::Own(_) => vec![(Of::Pods, pods)],
        NamespaceSet::Matching(selector) => vec![(Of::Namespaces, selector), (Of::Pods, pods)],
    }
}

/// A value that was probably misspelt.
pub(super) struct Slip<'s> {
    requirement: &'s Requirement,
    value: &'s str,
    meant: String,
}

impl Slip<'_> {
    fn finding(&self, spot: Spot, of: Of) -> Finding {
        let whose = match of {
            Of::Pods => "pod",
            Of::Namespaces => "namespace",
        };
        let message =
            format!("no {whose} has {}={}, and some {whose} has {}={}", self.requirement.key, self.value, self.requirement.key, self.meant);
        Finding::new(&RULE, spot, message).help(format!("did you mean `{}`?", self.meant))
    }
}

/// The values of a selector that were probably misspelt. Of pods, those are meant that are in the namespaces.
pub(super) fn slips<'s>(context: &Context<'_>, namespaces: &NamespaceSet, of: Of, selector: &'s LabelSelector) -> Vec<Slip<'s>> {
    if of == Of::Namespaces && !context.knows_namespace_labels() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for requirement in &selector.requirements {
        let Some(known) = context.values(of).get(requirement.key.as_ref()) else { continue };
        let values: Vec<&str> = match &requirement.operator {
            Operator::Equals(value) => vec![value],
            Operator::In(values) | Operator::NotIn(values) => values.iter().map(AsRef::as_ref).collect(),
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
        };
        let asked = values.clone();
        for value in values.into_iter().filter(|it| !known.contains(it)) {
            // What the selector asks for besides was not meant here.
            let mut near = known.iter().filter(|it| is_slip(value, it) && !asked.contains(it));
            let meant = near.find(|it| of == Of::Namespaces || is_there(context, namespaces, &requirement.key, it));
            found.extend(meant.map(|meant| Slip { requirement, value, meant: (*meant).to_owned() }));
        }
    }
    found
}

fn is_there(context: &Context<'_>, namespaces: &NamespaceSet, key: &str, value: &str) -> bool {
    let selector = LabelSelector { requirements: vec![Requirement { key: key.into(), operator: Operator::Equals(value.into()) }] };
    context.pods(namespaces, &selector).count() > 0
}

/// One letter, where neither is short. Numbers are versions, shards and years, and differ on purpose.
fn is_slip(value: &str, known: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|it| !it.is_ascii_digit()).collect::<String>();
    let long = value.chars().count().min(known.chars().count()) >= 3;
    let close = strsim::osa_distance(value, known) == 1 || value.eq_ignore_ascii_case(known);
    long && close && letters(value) != letters(known)
}

#[cfg(test)]
mod tests {
    use super::is_slip;
    use crate::testing::{CLUSTER, found, kep2091, np};

    fn lint(spec: &str) -> Vec<String> {
        found("label-typo", &(CLUSTER.to_owned() + &np(spec)))
    }

    #[test]
    fn one_letter_off() {
        let expected = "warning NetworkPolicy shop/p spec.podSelector.matchLabels.app: no pod has app=wep, and some pod has app=web";
        assert_eq!(lint("  podSelector: {matchLabels: {app: wep}}"), [expected]);
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].namespaceSelector.matchLabels.team: \
                        no namespace has team=infa, and some namespace has team=infra";
        assert_eq!(lint("  podSelector: {}\n  ingress:\n  - from: [{namespaceSelector: {matchLabels: {team: infa}}}]"), [expected]);
        let expected =
            "warning NetworkPolicy shop/p spec.podSelector.matchExpressions[0]: no pod has tier=fromt, and some pod has tier=front";
        assert_eq!(lint("  podSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [fromt]}]}"), [expected]);
    }

    #[test]
    fn one_letter_off_beside_the_own_namespace() {
        let entry =
            |app: &str| format!("namespacedPods: {{namespaces: {{self: true}}, pods: {{podSelector: {{matchLabels: {{app: {app}}}}}}}}}");
        let rule = |app: &str| format!("  - {{action: Deny, l4Selector: {{allPorts: true}}, from: [{{{}}}]}}", entry(app));
        let expected = "warning AdminNetworkPolicy k spec.ingress[0].from[0].namespacedPods.pods.podSelector.matchLabels.app: \
                        no pod has app=wep, and some pod has app=web";
        assert_eq!(found("label-typo", &(CLUSTER.to_owned() + &kep2091("k", 5, &rule("wep")))), [expected]);
        assert_eq!(found("label-typo", &(CLUSTER.to_owned() + &kep2091("k", 5, &rule("web")))), Vec::<String>::new());
        let expected = "warning AdminNetworkPolicy k spec.ingress[0].from[0].namespacedPods.pods.podSelector.matchLabels.app: \
                        this peer of ingress rule 0 is nobody: no pod of 2 namespaces has app=cache";
        assert_eq!(found("selector-selects-nothing", &(CLUSTER.to_owned() + &kep2091("k", 5, &rule("cache")))), [expected]);
    }

    #[test]
    fn values_that_exist_or_are_far_from_all_that_do() {
        assert_eq!(lint("  podSelector: {matchLabels: {app: web}}"), Vec::<String>::new());
        assert_eq!(lint("  podSelector: {matchLabels: {app: cache}}"), Vec::<String>::new());
        assert_eq!(lint("  podSelector: {matchLabels: {app: agenz}}"), Vec::<String>::new(), "that pod is in another namespace");
        assert_eq!(
            lint("  podSelector: {matchExpressions: [{key: app, operator: In, values: [web, wep]}]}"),
            Vec::<String>::new(),
            "both were meant"
        );
    }

    #[test]
    fn numbers_differ_on_purpose() {
        assert!(
            !is_slip("web-1", "web-2")
                && !is_slip("v10", "v1")
                && !is_slip("a", "b")
                && is_slip("Web", "web")
                && is_slip("froont", "front")
        );
    }
}
