//! Pods that may call others and not the DNS.

use std::collections::BTreeMap;

use palisade_model::{
    Action, Direction, EndpointId, LabelSelector, NamespaceSet, Operator, Peer, PeerSet, Policy, PortMatch, PortProtocol, Protocol,
    Requirement, Rule as PolicyRule, Severity, Tier,
};

use super::cluster_ip_in_ip_block::services_alone;
use crate::context::{Context, Crowd, called, listed, peers, ports};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};
use crate::within::namespaces_meet;

pub(crate) const RULE: Rule = Rule {
    name: "dns-blocked",
    severity: Severity::Warning,
    summary: "Pods may call others by policy, and cannot reach the DNS of the cluster on port 53.",
    why: "Whatever they call by name fails, usually after a timeout of seconds, and the message speaks of name resolution and not of policy.",
    fix: "Accept egress to port 53, UDP and TCP, of the pods with `k8s-app: kube-dns` in namespace `kube-system`.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

const DNS: u16 = 53;
const NAMESPACE: &str = "kube-system";

fn check(context: &Context<'_>) -> Vec<Finding> {
    let servers = servers(context);
    let mut blocked: BTreeMap<Vec<usize>, Vec<EndpointId>> = BTreeMap::new();
    let mut isolating: BTreeMap<(&str, &palisade_model::Labels), Vec<usize>> = BTreeMap::new();
    for (at, policy) in context.model.policies.iter().enumerate().filter(|it| it.1.tier == Tier::NetworkPolicy && it.1.isolates.egress) {
        for crowd in context.subjects(policy) {
            isolating.entry((crowd.namespace, crowd.labels)).or_default().push(at);
        }
    }
    for crowd in context.all_pods() {
        let Some(by) = isolating.get(&(crowd.namespace, crowd.labels)) else { continue };
        let policies: Vec<&Policy> = by.iter().filter_map(|it| context.model.policies.get(*it)).collect();
        if calls_by_name(&policies) && !is_node_local(context, &policies) && is_blocked(context, crowd, &servers, &policies) {
            blocked.entry(by.clone()).or_default().extend(&crowd.pods);
        }
    }
    blocked.into_iter().filter_map(|(by, pods)| finding(context, &by, pods)).collect()
}

/// The pods of the cluster's DNS, if they were read.
fn servers(context: &Context<'_>) -> Vec<EndpointId> {
    let labelled = |key: &str, values: &[&str]| {
        let operator = Operator::In(values.iter().map(|it| (*it).into()).collect());
        LabelSelector { requirements: vec![Requirement { key: key.into(), operator }] }
    };
    let own = NamespaceSet::Own(NAMESPACE.into());
    let known = [labelled("k8s-app", &["kube-dns", "coredns"]), labelled("app.kubernetes.io/name", &["coredns"])];
    known.iter().flat_map(|it| context.pods(&own, it).flat_map(|it| it.pods.iter().copied()).collect::<Vec<_>>()).collect()
}

/// Whether policies accept calls to somebody who is called by name. Who may call nobody, or addresses alone, needs no DNS.
fn calls_by_name(policies: &[&Policy]) -> bool {
    let by_name = |rule: &PolicyRule| match &rule.peers {
        PeerSet::Any | PeerSet::AnyButOwnNode => true,
        PeerSet::Of(peers) => peers.iter().any(|it| !matches!(it, Peer::Networks(_))),
    };
    policies.iter().flat_map(|it| &it.rules.egress).any(by_name)
}

/// Whether port 53 is open to addresses: a cache on each node answers at one. Those of Services are none that policy sees.
fn is_node_local(context: &Context<'_>, policies: &[&Policy]) -> bool {
    let is_address = |peer: &Peer| match peer {
        Peer::Networks(blocks) => blocks.iter().any(|it| services_alone(context, it).is_empty()),
        Peer::Nodes(_) => true,
        Peer::Pods { .. } | Peer::Relative(_) | Peer::Domains(_) | Peer::Unreadable => false,
    };
    let addresses = |rule: &PolicyRule| match &rule.peers {
        PeerSet::Any | PeerSet::AnyButOwnNode => true,
        PeerSet::Of(peers) => peers.iter().any(is_address),
    };
    policies.iter().flat_map(|it| &it.rules.egress).any(|it| means_dns(it) && addresses(it))
}

fn means_dns(rule: &PolicyRule) -> bool {
    let dns = |port: &PortMatch| match port {
        PortMatch::Numbers { protocol, ports } => *protocol == PortProtocol::Udp && ports.contains(DNS),
        PortMatch::Named { .. } => true,
        PortMatch::Unreadable => false,
    };
    rule.action == Action::Accept && (ports(rule).is_empty() || ports(rule).iter().any(dns))
}

/// Whether no server can be reached. Where none was read, whether no rule could mean one.
fn is_blocked(context: &Context<'_>, crowd: &Crowd<'_>, servers: &[EndpointId], policies: &[&Policy]) -> bool {
    if servers.is_empty() {
        let admin = context.tiers(crowd, Direction::Egress).contains(&Tier::Admin);
        let own = NamespaceSet::Own(NAMESPACE.into());
        let may_mean = |peer: &Peer| match peer {
            Peer::Pods { namespaces, .. } => namespaces_meet(namespaces, &own),
            Peer::Relative(_) | Peer::Domains(_) => true,
            Peer::Networks(_) | Peer::Nodes(_) | Peer::Unreadable => false,
        };
        let mut rules = policies.iter().flat_map(|it| &it.rules.egress);
        return !admin && crowd.namespace != NAMESPACE && !rules.any(|it| means_dns(it) && peers(it).iter().any(may_mean));
    }
    let Some(from) = context.end(crowd) else { return false };
    let mut reach = context.reach();
    servers.iter().all(|server| {
        let ends: Vec<_> = reach.ends(*server).collect();
        ends.iter().all(|to| {
            let passing = reach.between(&from, to);
            passing.is_some_and(|it| !reach.sets().contains(it.allowed, Protocol::UDP, Some(DNS)))
        })
    })
}

fn finding(context: &Context<'_>, by: &[usize], pods: Vec<EndpointId>) -> Option<Finding> {
    let policies: Vec<&Policy> = by.iter().filter_map(|it| context.model.policies.get(*it)).collect();
    // The one that opens something is the one to add to.
    let opens = |it: &&&Policy| !it.rules.egress.is_empty();
    let first = policies.iter().find(opens).or(policies.first())?;
    let spot = Spot::of(&first.origin, vec![paths::field("egress"), paths::field("policyTypes")], "no rule for port 53");
    let who = context.named(pods);
    let message = match policies.len() {
        1 => format!("{who} cannot reach the DNS of the cluster"),
        _ => format!("{who} cannot reach the DNS of the cluster by {}", listed(policies.iter().map(|it| called(&it.origin)))),
    };
    Some(Finding::new(&RULE, spot, message).help("accept UDP and TCP port 53 to pods with k8s-app=kube-dns of namespace kube-system"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    const DNS: &str = "apiVersion: v1
kind: Namespace
metadata: {name: kube-system}
---
apiVersion: v1
kind: Pod
metadata: {namespace: kube-system, name: coredns, labels: {k8s-app: kube-dns}}
spec: {containers: [{name: main, image: dns, ports: [{name: dns, containerPort: 53, protocol: UDP}]}]}
status: {podIPs: [{ip: 10.0.9.9}]}
---
";

    fn policy(more: &str) -> String {
        np(&format!(
            "  podSelector: {{matchLabels: {{app: web}}}}\n  policyTypes: [Egress]\n  egress:\n  - to: [{{podSelector: {{matchLabels: {{app: db}}}}}}]\n{more}"
        ))
    }

    const EXPECTED: &str = "warning NetworkPolicy shop/p spec.egress: shop/web cannot reach the DNS of the cluster";
    const TO_DNS: &str = "  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]\n    ports: [{port: 53, protocol: UDP}]";

    #[test]
    fn pods_that_may_call_others_only() {
        assert_eq!(found("dns-blocked", &format!("{CLUSTER}{DNS}{}", policy(""))), [EXPECTED]);
        assert_eq!(found("dns-blocked", &format!("{CLUSTER}{}", policy(""))), [EXPECTED], "nobody needs to have read the DNS");
        assert_eq!(found("dns-blocked", &format!("{CLUSTER}{DNS}{}", policy(&TO_DNS.replace("UDP", "TCP")))), [EXPECTED]);
    }

    #[test]
    fn who_reaches_it_or_a_cache_at_an_address_is_fine() {
        for text in [DNS, ""] {
            assert_eq!(found("dns-blocked", &format!("{CLUSTER}{text}{}", policy(TO_DNS))), Vec::<String>::new());
            let cache = "  - to: [{ipBlock: {cidr: 169.254.20.10/32}}]\n    ports: [{port: 53, protocol: UDP}]";
            assert_eq!(found("dns-blocked", &format!("{CLUSTER}{text}{}", policy(cache))), Vec::<String>::new());
        }
    }

    #[test]
    fn the_address_of_the_service_opens_nothing() {
        let service = "apiVersion: v1\nkind: Service\nmetadata: {namespace: kube-system, name: kube-dns}\n\
                       spec: {clusterIP: 10.96.0.10, selector: {k8s-app: kube-dns}, ports: [{port: 53, protocol: UDP}]}\n---\n";
        let by_address = policy("  - to: [{ipBlock: {cidr: 10.96.0.10/32}}]\n    ports: [{port: 53, protocol: UDP}]");
        for text in [DNS, ""] {
            assert_eq!(found("dns-blocked", &format!("{CLUSTER}{text}{service}{by_address}")), [EXPECTED]);
        }
    }

    #[test]
    fn who_may_call_nobody_needs_no_names() {
        let closed = np("  podSelector: {}\n  policyTypes: [Egress]");
        assert_eq!(found("dns-blocked", &format!("{CLUSTER}{DNS}{closed}")), Vec::<String>::new());
    }
}
