//! Policies of other controllers that would close pods if their label were not understood.

use std::collections::{BTreeMap, BTreeSet};

use palisade_k8s::{CONTROLLER_LABEL, FieldPath, ObjectKey};
use palisade_model::{Action, Direction, EndpointId, NamespaceSet, Peer, PeerSet, Policy, PortSet, Severity, Tier};

use crate::context::{Context, Crowd};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "foreign-deny-all",
    severity: Severity::Warning,
    summary: "A policy denies everything, is labelled for another controller or for none, and would close pods that are open now.",
    why: "`networking.k8s.io/policy-controller-name` is young. A controller that does not know it enforces the policy for all: pods that rely on the label to stay open are cut \
          off the day such a controller runs in the cluster, or runs again after a rollback.",
    fix: "Remove the policy if nobody enforces it. If another controller does, give it rules that do no harm where they are enforced twice.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let ours: BTreeSet<&palisade_model::PolicyRef> = context.model.policies.iter().map(|it| &it.origin).collect();
    let mut findings = Vec::new();
    for policy in context.blind.policies.iter().filter(|it| !ours.contains(&it.origin)) {
        let subjects = context.subjects(policy);
        let mut closed: BTreeMap<BTreeSet<EndpointId>, Vec<Direction>> = BTreeMap::new();
        for direction in Direction::BOTH.into_iter().filter(|it| denies_all(policy, *it)) {
            let open = subjects.iter().filter(|it| is_open(context, it, direction));
            closed.entry(open.flat_map(|it| it.pods.iter().copied()).collect()).or_default().push(direction);
        }
        let some = closed.into_iter().filter(|it| !it.0.is_empty());
        findings.extend(some.map(|(pods, directions)| finding(context, policy, &directions, &pods)));
    }
    findings
}

/// Whether a policy leaves nothing open in a direction.
fn denies_all(policy: &Policy, direction: Direction) -> bool {
    let everyone = |peer: &Peer| match peer {
        Peer::Pods { namespaces: NamespaceSet::Matching(namespaces), pods } => namespaces.selects_everything() && pods.selects_everything(),
        Peer::Networks(blocks) => blocks.iter().any(|it| it.cidr.prefix_len() == 0 && it.except.is_empty()),
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => false,
    };
    let rules = policy.rules.of(direction);
    match policy.tier {
        Tier::NetworkPolicy => *policy.isolates.of(direction) && rules.is_empty(),
        Tier::Admin | Tier::Baseline => rules.first().is_some_and(|it| {
            let all = match &it.peers {
                PeerSet::Any | PeerSet::AnyButOwnNode => true,
                PeerSet::Of(peers) => peers.iter().any(everyone),
            };
            it.action == Action::Deny && it.ports == PortSet::Any && all
        }),
    }
}

/// Whether nothing isolates pods now.
fn is_open(context: &Context<'_>, crowd: &Crowd<'_>, direction: Direction) -> bool {
    !context.tiers(crowd, direction).contains(&Tier::NetworkPolicy)
}

fn finding(context: &Context<'_>, policy: &Policy, directions: &[Direction], closed: &BTreeSet<EndpointId>) -> Finding {
    let what = match directions {
        [Direction::Ingress] => "all ingress",
        [Direction::Egress] => "all egress",
        _ => "all ingress and egress",
    };
    let path = FieldPath::default().field("metadata").field("labels");
    let spot = Spot::new(ObjectKey::from(&policy.origin), vec![path.clone().field(CONTROLLER_LABEL), path], "not ours by this label");
    let who = context.named(closed.iter().copied());
    let message = format!("a controller that does not know the label would block {what} of {who}: nothing isolates them otherwise");
    Finding::new(&RULE, spot, message)
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(labels: &str, spec: &str, more: &str) -> Vec<String> {
        let foreign = np(spec).replace("name: p", &format!("name: f, labels: {{{labels}}}"));
        found("foreign-deny-all", &format!("{CLUSTER}{foreign}{more}"))
    }

    const LABEL: &str = "networking.k8s.io/policy-controller-name: none";

    #[test]
    fn a_deny_all_that_is_switched_off() {
        let expected = "warning NetworkPolicy shop/f metadata.labels[\"networking.k8s.io/policy-controller-name\"]: \
                        a controller that does not know the label would block all ingress of shop/db, shop/web: nothing isolates them otherwise";
        assert_eq!(lint(LABEL, "  podSelector: {}", ""), [expected]);
    }

    #[test]
    fn ours_policies_with_rules_and_pods_that_are_isolated_anyway_are_fine() {
        assert_eq!(lint("app: x", "  podSelector: {}", ""), Vec::<String>::new());
        assert_eq!(lint(LABEL, "  podSelector: {}\n  ingress:\n  - {}", ""), Vec::<String>::new());
        assert_eq!(lint(LABEL, "  podSelector: {}", &np("  podSelector: {}")), Vec::<String>::new());
    }
}
