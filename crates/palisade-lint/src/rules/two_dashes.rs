//! A namespaceSelector and a podSelector as two entries where one was probably meant.

use palisade_api::NpPeer;
use palisade_k8s::ObjectKey;
use palisade_model::{Direction, LabelSelector, NamespaceSet, Severity};
use palisade_report::locate::peer_path;

use crate::context::Context;
use crate::finding::{Finding, Spot};
use crate::paths::np_rule;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "two-dashes",
    severity: Severity::Warning,
    summary: "A namespaceSelector and a podSelector stand as two entries of `from` or `to`, where one entry with both was probably meant.",
    why: "Entries are alternatives: two of them let in every pod of the selected namespaces and, besides, pods of the policy's own namespace. One dash too many \
          opens a policy to whole namespaces, and nothing refuses it.",
    fix: "Remove the second dash, so that both selectors are in one entry. If both were meant, put them into two rules, which says so.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, policy) in context.network_policies() {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        for direction in Direction::BOTH {
            if !policy.types.of(direction) {
                continue;
            }
            for (index, rule) in policy.rules.of(direction).iter().enumerate() {
                for (at, pair) in rule.peers.windows(2).enumerate() {
                    let Some((namespaces, pods)) = split(pair) else { continue };
                    let Some(severity) = suspicion(context, namespace, namespaces, pods) else { continue };
                    findings.push(finding(key, direction, index, at).severity(severity));
                }
            }
        }
    }
    findings
}

/// The two halves of one entry, in either order.
fn split(pair: &[NpPeer]) -> Option<(&LabelSelector, &LabelSelector)> {
    match pair {
        [NpPeer::Pods { namespaces: Some(namespaces), pods: None }, NpPeer::Pods { namespaces: None, pods: Some(pods) }]
        | [NpPeer::Pods { namespaces: None, pods: Some(pods) }, NpPeer::Pods { namespaces: Some(namespaces), pods: None }] => {
            (!pods.selects_everything()).then_some((namespaces, pods))
        }
        _ => None,
    }
}

/// How probable it is that one entry was meant. Pods that are only in the other namespaces give it away; pods that are only here tell that it was not.
pub(super) fn suspicion(context: &Context<'_>, own: &str, namespaces: &LabelSelector, pods: &LabelSelector) -> Option<Severity> {
    let there = NamespaceSet::Matching(namespaces.clone());
    let here = NamespaceSet::Own(own.into());
    let is_here = context.pods(&here, pods).next().is_some();
    let is_there = context.pods(&there, pods).any(|it| it.namespace != own);
    match (is_here, is_there) {
        (false, true) => Some(Severity::Warning),
        (true, false) => None,
        (true, true) | (false, false) => Some(Severity::Note),
    }
}

fn finding(key: &ObjectKey, direction: Direction, index: usize, at: usize) -> Finding {
    let reference = np_rule(key, direction, index);
    let first = Spot::new(key.clone(), vec![peer_path(&reference, at)], "the other entry");
    let second =
        Spot::new(key.clone(), vec![peer_path(&reference, at + 1)], "an entry of its own: a pod needs to match only one of the two");
    let message = "a namespaceSelector and a podSelector are two entries, so that each of them lets in pods on its own";
    Finding::new(&RULE, second, message).further(first).help("remove this dash if pods with these labels in those namespaces are meant")
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn policy(app: &str, team: &str) -> String {
        np(&format!(
            "  podSelector: {{}}
  ingress:
  - from:
    - namespaceSelector: {{matchLabels: {{team: {team}}}}}
    - podSelector: {{matchLabels: {{app: {app}}}}}"
        ))
    }

    #[test]
    fn pods_that_are_only_in_the_other_namespaces_give_it_away() {
        let message = "a namespaceSelector and a podSelector are two entries, so that each of them lets in pods on its own";
        let expected = format!("warning NetworkPolicy shop/p spec.ingress[0].from[1]: {message}");
        assert_eq!(found("two-dashes", &(CLUSTER.to_owned() + &policy("agent", "infra"))), [expected]);
        let expected = format!("note NetworkPolicy shop/p spec.ingress[0].from[1]: {message}");
        assert_eq!(found("two-dashes", &policy("agent", "infra")), [expected], "nothing else is known");
    }

    #[test]
    fn pods_that_are_only_here_tell_that_two_entries_were_meant() {
        assert_eq!(found("two-dashes", &(CLUSTER.to_owned() + &policy("web", "infra"))), Vec::<String>::new());
    }

    #[test]
    fn one_entry_is_fine_and_so_are_two_namespaces() {
        let one = np("  podSelector: {}
  ingress:
  - from:
    - namespaceSelector: {matchLabels: {team: infra}}
      podSelector: {matchLabels: {app: agent}}
    - namespaceSelector: {matchLabels: {team: shop}}");
        assert_eq!(found("two-dashes", &(CLUSTER.to_owned() + &one)), Vec::<String>::new());
    }
}
