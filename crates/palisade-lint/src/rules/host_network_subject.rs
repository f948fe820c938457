//! Selectors that mean host-network pods.

use palisade_model::{HostPod, LabelSelector, NamespaceSet, Peer, Severity, Subject};
use palisade_report::locate::peer_path;

use crate::context::{Context, listed, peers};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "host-network-subject",
    severity: Severity::Warning,
    summary: "A selector means pods that run on the network of their node.",
    why: "Policy does not cover such pods: their traffic is the node's. As subjects they stay open, as peers they are not recognised.",
    fix: "Take the pods off the host network if they are to be protected. As peers, name the addresses of the nodes, or `nodes` in a ClusterNetworkPolicy.",
    fixable: false,
    needs: Needs::Policies,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &context.model.policies {
        let Subject::Pods { namespaces, pods } = &policy.subject else { continue };
        let Some(met) = met(context, namespaces, pods) else { continue };
        let spot = Spot::of(&policy.origin, paths::subject(&policy.origin), "host network");
        let who = listed(met.pods.iter().map(|it| it.name.to_string()));
        let (word, severity) = match met.others {
            Others::None => ("all that it selects are", Severity::Warning),
            Others::Some => ("it also selects", Severity::Note),
        };
        let message = match met.others {
            Others::None => format!("{word} on the network of their node, where no policy covers them: {who}"),
            Others::Some => format!("{word} pods on the network of their node, where no policy covers them: {who}"),
        };
        findings.push(Finding::new(&RULE, spot, message).severity(severity));
    }
    for placed in context.rules() {
        for (at, peer) in peers(placed.rule).iter().enumerate() {
            let Peer::Pods { namespaces, pods } = peer else { continue };
            let Some(met) = met(context, namespaces, pods).filter(|it| it.others == Others::None) else { continue };
            let rule = placed.reference();
            let spot = Spot::of(&rule.policy, vec![peer_path(&rule, at)], "host network");
            let who = listed(met.pods.iter().map(|it| it.name.to_string()));
            let message =
                format!("this peer of {} rule {} is nobody: its pods are on the network of their node: {who}", rule.direction, rule.index);
            findings.push(Finding::new(&RULE, spot, message));
        }
    }
    findings
}

/// Whether a selector means pods of the pod network besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    None,
    Some,
}

struct Met<'a> {
    pods: Vec<&'a HostPod>,
    others: Others,
}

/// The host-network pods of a selector. One for all pods of a namespace does not mean them in particular.
fn met<'a>(context: &Context<'a>, namespaces: &NamespaceSet, pods: &LabelSelector) -> Option<Met<'a>> {
    let met: Vec<&HostPod> = context.host_pods(namespaces, pods).collect();
    let others = if context.pods(namespaces, pods).next().is_some() { Others::Some } else { Others::None };
    let meant = !pods.selects_everything();
    (!met.is_empty() && meant).then_some(Met { pods: met, others })
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    const HOST: &str = "apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: proxy, labels: {app: proxy, tier: front}}
spec: {nodeName: n1, hostNetwork: true, containers: [{name: main, image: proxy}]}
---
";

    fn lint(spec: &str) -> Vec<String> {
        found("host-network-subject", &format!("{CLUSTER}{HOST}{}", np(spec)))
    }

    #[test]
    fn subjects_and_peers_on_the_host_network() {
        let expected = "warning NetworkPolicy shop/p spec.podSelector: all that it selects are on the network of their node, where no policy covers them: shop/proxy";
        assert_eq!(lint("  podSelector: {matchLabels: {app: proxy}}"), [expected]);
        let expected = "note NetworkPolicy shop/p spec.podSelector: it also selects pods on the network of their node, where no policy covers them: shop/proxy";
        assert_eq!(lint("  podSelector: {matchLabels: {tier: front}}"), [expected]);
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].from[0]: this peer of ingress rule 0 is nobody: its pods are on the network of their node: shop/proxy";
        assert_eq!(lint("  podSelector: {}\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: proxy}}}]"), [expected]);
    }

    #[test]
    fn all_pods_of_a_namespace_and_others_are_fine() {
        assert_eq!(lint("  podSelector: {}"), Vec::<String>::new());
        assert_eq!(lint("  podSelector: {matchLabels: {app: web}}"), Vec::<String>::new());
    }
}
