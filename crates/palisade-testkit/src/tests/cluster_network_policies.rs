//! ClusterNetworkPolicy: tiers, order, peers, protocols, and what fails closed.

use super::{admin, baseline, check, check_error, on_a};

const FROM_ALL: &str = "from: [{namespaces: {}}]";
const TO_ALL: &str = "to: [{networks: [0.0.0.0/0, '::/0']}]";

#[test]
fn an_egress_only_network_policy_does_not_lift_a_baseline_deny_of_ingress() {
    let deny = baseline("deny", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    check(&(deny.clone() + &on_a("policyTypes: [Egress]")), "z/c -> x/a tcp:80 deny");
    check(&(deny + &on_a("ingress: [{}]")), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_smaller_priority_comes_first_and_ties_go_by_name() {
    let accept = format!("ingress: [{{action: Accept, {FROM_ALL}}}]");
    let deny = format!("ingress: [{{action: Deny, {FROM_ALL}}}]");
    let probe = "z/c -> x/a tcp:80";
    check(&(admin("a", 10, &accept) + &admin("b", 9, &deny)), &format!("{probe} deny"));
    check(&(admin("b", 10, &deny) + &admin("a", 10, &accept)), &format!("{probe} accept"));
    check(&(admin("a", 0, &deny) + &admin("b", 1, &accept)), &format!("{probe} deny"));
}

#[test]
fn the_first_matching_rule_of_a_policy_wins() {
    let rules = "ingress: [
        {action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}]},
        {action: Deny, from: [{namespaces: {}}]}]";
    check(
        &admin("p", 1, rules),
        "z/c -> x/a tcp:80 accept
         z/c -> x/a tcp:81 deny
         z/c -> x/a icmp deny",
    );
}

#[test]
fn pass_leaves_the_tier_only() {
    let rules = format!("ingress: [{{action: Pass, {FROM_ALL}}}, {{action: Deny, {FROM_ALL}}}]");
    let pass = admin("pass", 1, &rules) + &admin("later", 2, &rules);
    let deny = baseline("deny", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    check(&pass, "z/c -> x/a tcp:80 accept");
    check(&(pass.clone() + &deny), "z/c -> x/a tcp:80 deny");
    check(&(pass.clone() + &on_a("")), "z/c -> x/a tcp:80 deny");
    check(&(pass + &deny + &on_a("ingress: [{}]")), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_baseline_pass_is_the_default_accept() {
    let rules = format!("ingress: [{{action: Pass, {FROM_ALL}}}, {{action: Deny, {FROM_ALL}}}]");
    check(&(baseline("p", 1, &rules) + &baseline("q", 2, &rules)), "z/c -> x/a tcp:80 accept");
}

#[test]
fn an_accept_on_egress_does_not_open_the_peers_ingress() {
    check(
        &(admin("p", 1, &format!("egress: [{{action: Accept, {TO_ALL}}}]")) + &on_a("")),
        "x/b -> x/a tcp:80 deny
         x/b -> z/c tcp:80 accept",
    );
}

#[test]
fn an_admin_accept_goes_over_network_policies() {
    check(
        &(admin("p", 1, &format!("ingress: [{{action: Accept, {FROM_ALL}}}]")) + &on_a("")),
        "z/c -> x/a tcp:80 accept
         node/n2 -> x/a tcp:80 deny",
    );
}

#[test]
fn ipv4_networks_cover_pods_nodes_and_icmp_and_no_ipv6() {
    check(
        &admin("p", 1, "egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}]}]"),
        "x/a -> z/c tcp:80 deny
         x/a -> node/n2 tcp:80 deny
         x/a -> 203.0.113.1 icmp deny
         x/a -> fd00::3 tcp:80 accept
         x/a -> 2001:db8::1 icmp accept",
    );
}

#[test]
fn ingress_rules_never_touch_nodes_or_the_outside() {
    check(
        &admin("p", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]")),
        "z/c -> x/a tcp:80 deny
         node/n2 -> x/a tcp:80 accept
         203.0.113.1 -> x/a tcp:80 accept",
    );
}

#[test]
fn the_pods_peer_takes_all_namespaces_unless_it_names_some() {
    let deny = |peer: &str| admin("p", 1, &format!("egress: [{{action: Deny, to: [{{pods: {peer}}}]}}]"));
    check(
        &deny("{podSelector: {matchLabels: {app: c}}}"),
        "x/a -> z/c tcp:80 deny
         x/a -> x/b tcp:80 accept",
    );
    check(
        &deny("{namespaceSelector: {matchLabels: {team: red}}, podSelector: {}}"),
        "x/a -> z/c tcp:80 accept
         x/a -> x/b tcp:80 deny",
    );
}

#[test]
fn the_nodes_peer_covers_every_address_and_host_network_pod_of_the_node() {
    let host = "{apiVersion: v1, kind: Pod, metadata: {name: h, namespace: z}, spec: {hostNetwork: true, nodeName: n1}}\n---\n";
    check(
        &(host.to_owned() + &admin("p", 1, "egress: [{action: Deny, to: [{nodes: {matchLabels: {zone: one}}}]}]")),
        "x/a -> node/n1 tcp:80 deny
         x/a -> 198.51.100.1 tcp:80 deny
         x/a -> z/h tcp:80 deny
         x/a -> node/n2 tcp:80 accept
         x/a -> x/b tcp:80 accept",
    );
}

#[test]
fn a_named_port_has_the_protocol_of_the_container_port() {
    check(
        &admin("p", 1, "ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{destinationNamedPort: dns}]}]"),
        "z/c -> x/a udp:53 deny
         z/c -> x/a tcp:53 accept",
    );
    check(
        &admin("p", 1, "egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}], protocols: [{destinationNamedPort: web}]}]"),
        "x/a -> z/c tcp:80 deny
         x/a -> z/c tcp:8080 accept
         x/a -> 203.0.113.1 tcp:80 accept",
    );
}

#[test]
fn protocols_match_inclusive_ranges_and_nothing_else() {
    check(
        &admin(
            "p",
            1,
            "ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{udp: {destinationPort: {range: {start: 5, end: 7}}}}]}]",
        ),
        "z/c -> x/a udp:4 accept
         z/c -> x/a udp:5 deny
         z/c -> x/a udp:7 deny
         z/c -> x/a tcp:5 accept
         z/c -> x/a icmp accept",
    );
}

/// Peers and protocols that this build does not understand, as parts of an ingress rule.
const UNKNOWN: [&str; 12] = [
    "from: [{serviceAccounts: {}}]",
    "from: [{}]",
    "from: [{namespaces: null}]",
    "from: [{networks: [10.0.0.0/8]}]",
    "from: [{namespaces: {}, pods: {podSelector: {}}}]",
    "from: [{namespaces: {namespaceSelector: {}}}]",
    "from: []",
    "from: [{namespaces: {}}], protocols: [{icmp: {}}]",
    "from: [{namespaces: {}}], protocols: [{tcp: {}}]",
    "from: [{namespaces: {}}], protocols: [{tcp: {sourcePort: {number: 80}}}]",
    "from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {name: web}}}]",
    "from: [{namespaces: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]",
];

#[test]
fn an_accept_that_is_not_understood_matches_nothing() {
    for rule in UNKNOWN {
        check(&admin("p", 1, &format!("ingress: [{{action: Accept, {rule}}}, {{action: Deny, {FROM_ALL}}}]")), "z/c -> x/a tcp:80 deny");
    }
}

#[test]
fn a_deny_or_pass_that_is_not_understood_denies_all_but_the_own_node() {
    for rule in UNKNOWN {
        for action in ["Deny", "Pass"] {
            check(
                &admin("p", 1, &format!("ingress: [{{action: {action}, {rule}}}]")),
                "z/c -> x/a tcp:9 deny
                 203.0.113.1 -> x/a icmp deny
                 node/n2 -> x/a udp:1 deny
                 node/n1 -> x/a tcp:80 accept
                 x/a -> z/c tcp:80 accept",
            );
        }
    }
}

#[test]
fn known_peers_and_entries_of_an_accept_still_match() {
    let deny = format!("{{action: Deny, {FROM_ALL}}}");
    for rule in
        ["from: [{who: {}}, {namespaces: {}}]", "from: [{namespaces: {}}], protocols: [{icmp: {}}, {tcp: {destinationPort: {number: 80}}}]"]
    {
        check(&admin("p", 1, &format!("ingress: [{{action: Accept, {rule}}}, {deny}]")), "z/c -> x/a tcp:80 accept");
    }
    check(&admin("p", 1, "ingress: [{action: Pass, from: [{namespaces: {}}, {who: {}}]}]"), "z/c -> x/a tcp:80 deny");
}

#[test]
fn an_unknown_action_denies_all() {
    for action in ["Log", "accept", "null"] {
        check(
            &admin("p", 1, &format!("egress: [{{action: {action}, to: [{{pods: {{podSelector: {{matchLabels: {{app: z}}}}}}}}]}}]")),
            "x/a -> z/c tcp:80 deny
             x/a -> 203.0.113.1 tcp:80 deny
             x/a -> node/n1 tcp:80 deny
             z/c -> x/a tcp:80 accept",
        );
    }
}

#[test]
fn an_unknown_subject_selects_nothing_and_an_unknown_tier_is_ignored() {
    let policy = admin("p", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    let subject = "namespaces: {matchLabels: {team: red}}";
    for unknown in ["", "nodes: {}", "namespaces: {}, pods: {podSelector: {}}", "namespaces: {match: {}}"] {
        check(&policy.replace(subject, unknown), "z/c -> x/a tcp:80 accept");
    }
    check(&policy.replace("Admin", "Middle"), "z/c -> x/a tcp:80 accept");
    check(&policy.replace("v1alpha2", "v1alpha1"), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_policy_without_a_priority_has_no_place() {
    let policy = admin("p", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    check_error(&policy.replace("priority: 1", "priority: null"), "z/c -> x/a tcp:80 deny", "`p`: no priority");
}

#[test]
fn an_accept_by_domain_name_depends_on_dns_where_the_rest_denies() {
    let rules = |name: &str, rest: &str| {
        admin(
            "p",
            1,
            &format!(
                "egress: [{{action: Accept, to: [{{domainNames: ['{name}']}}], protocols: [{{tcp: {{destinationPort: {{number: 443}}}}}}]}}, {rest}]"
            ),
        )
    };
    let deny = format!("{{action: Deny, {TO_ALL}}}");
    check(
        &rules("*.example.com", &deny),
        "x/a -> 203.0.113.1 tcp:443 depends-on-dns
         x/a -> node/n2 tcp:443 depends-on-dns
         x/a -> 203.0.113.1 tcp:80 deny
         x/a -> z/c tcp:443 deny",
    );
    check(&rules("*.example.com", ""), "x/a -> 203.0.113.1 tcp:443 accept");
    for name in ["c.y.svc.cluster.local.", "*.Cluster.Local", "*.local"] {
        check(&rules(name, &deny), "x/b -> x/a tcp:443 depends-on-dns");
        check(&(rules(name, &deny) + &on_a("")), "x/b -> x/a tcp:443 deny");
    }
}

#[test]
fn a_domain_name_works_in_the_baseline_tier() {
    let rules = format!("egress: [{{action: Accept, to: [{{domainNames: [example.com]}}]}}, {{action: Deny, {TO_ALL}}}]");
    check(
        &baseline("p", 1, &rules),
        "x/a -> 203.0.113.1 icmp depends-on-dns
         x/a -> z/c tcp:80 deny",
    );
}

#[test]
fn a_domain_name_in_deny_or_pass_denies_all() {
    for action in ["Deny", "Pass"] {
        check(
            &baseline("p", 1, &format!("egress: [{{action: {action}, to: [{{domainNames: [example.com]}}]}}]")),
            "x/a -> z/c tcp:80 deny
             x/a -> 203.0.113.1 icmp deny",
        );
    }
}
