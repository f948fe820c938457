//! Namespaces selected by a label `name` that they do not have.

use palisade_model::{LabelSelector, NamespaceSet, Operator, Peer, Requirement, Severity, Subject};

use crate::context::{Context, peers};
use crate::finding::{Finding, Spot};
use crate::paths::{self, Of};
use crate::rule::{Needs, Rule};
use crate::within::NAME_LABEL;

pub(crate) const RULE: Rule = Rule {
    name: "namespace-name-label",
    severity: Severity::Warning,
    summary: "A selector asks namespaces for a label `name` that the namespace of that name does not have.",
    why: "Kubernetes gives every namespace the label `kubernetes.io/metadata.name`; `name` is there only if somebody set it. The selector selects nothing, or, what is worse, \
          whatever namespace gets that label later.",
    fix: "Write `kubernetes.io/metadata.name`, which cannot be forged.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &context.model.policies {
        if let Subject::Pods { namespaces, .. } = &policy.subject {
            for (requirement, name) in wrong(context, namespaces) {
                let holders = paths::subject_selector(&policy.origin, Of::Namespaces);
                findings.push(finding(requirement, name, |paths| Spot::of(&policy.origin, paths, "no such label"), holders, namespaces));
            }
        }
    }
    for placed in context.rules() {
        for (at, peer) in peers(placed.rule).iter().enumerate() {
            let Peer::Pods { namespaces, .. } = peer else { continue };
            for (requirement, name) in wrong(context, namespaces) {
                let rule = placed.reference();
                let holders = paths::peer_selector(&rule, at, Of::Namespaces);
                findings.push(finding(requirement, name, |paths| Spot::of(&rule.policy, paths, "no such label"), holders, namespaces));
            }
        }
    }
    findings
}

/// Requirements on `name` that the namespace of that name does not meet.
fn wrong<'s>(context: &Context<'_>, namespaces: &'s NamespaceSet) -> Vec<(&'s Requirement, &'s str)> {
    let NamespaceSet::Matching(selector) = namespaces else { return Vec::new() };
    let mut found = Vec::new();
    for requirement in selector.requirements.iter().filter(|it| *it.key == *"name") {
        let names: Vec<&str> = match &requirement.operator {
            Operator::Equals(name) => vec![name],
            Operator::In(names) => names.iter().map(AsRef::as_ref).collect(),
            Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => Vec::new(),
        };
        let lacks = |name: &&str| {
            let namespace = context.model.namespaces.get(*name);
            namespace.is_some_and(|it| !it.assumed && it.labels.get("name") != Some(name))
        };
        found.extend(names.into_iter().find(lacks).map(|name| (requirement, name)));
    }
    found
}

fn finding(
    requirement: &Requirement,
    name: &str,
    spot: impl FnOnce(Vec<palisade_k8s::FieldPath>) -> Spot,
    holders: Vec<palisade_k8s::FieldPath>,
    namespaces: &NamespaceSet,
) -> Finding {
    let none = LabelSelector::default();
    let selector = if let NamespaceSet::Matching(selector) = namespaces { selector } else { &none };
    let at = spot(paths::requirement(selector, holders, requirement));
    let message = format!("namespace {name} has no label name={name}");
    Finding::new(&RULE, at, message).help(format!("write `{NAME_LABEL}: {name}`"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(selector: &str) -> Vec<String> {
        let spec = format!("  podSelector: {{}}\n  ingress:\n  - from: [{{namespaceSelector: {{matchLabels: {{{selector}}}}}}}]");
        found("namespace-name-label", &(CLUSTER.to_owned() + &np(&spec)))
    }

    #[test]
    fn a_label_that_nobody_set() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0].namespaceSelector.matchLabels.name: namespace infra has no label name=infra";
        assert_eq!(lint("name: infra"), [expected]);
    }

    #[test]
    fn the_label_that_every_namespace_has() {
        assert_eq!(lint("kubernetes.io/metadata.name: infra"), Vec::<String>::new());
        assert_eq!(lint("name: elsewhere"), Vec::<String>::new());
    }
}
