//! AdminNetworkPolicy and BaselineAdminNetworkPolicy, in both shapes that were shipped.

use super::{TENANTS, admin, baseline, check, check_error, on_a, shipped, shipped_baseline};

const FROM_ALL: &str = "from: [{namespaces: {}}]";

#[test]
fn a_smaller_priority_comes_first_and_zero_is_the_strongest() {
    let allow = format!("ingress: [{{action: Allow, {FROM_ALL}}}]");
    let deny = format!("ingress: [{{action: Deny, {FROM_ALL}}}]");
    let probe = "z/c -> x/a tcp:80";
    check(&(shipped("a", 10, &allow) + &shipped("b", 9, &deny)), &format!("{probe} deny"));
    check(&(shipped("b", 0, &deny) + &shipped("a", 1, &allow)), &format!("{probe} deny"));
    check(&(shipped("b", 10, &deny) + &shipped("a", 10, &allow)), &format!("{probe} accept"));
    check_error(&shipped("p", 1, &deny).replace("priority: 1", "priority: null"), "z/c -> x/a tcp:80 deny", "`p`: no priority");
}

#[test]
fn kinds_share_one_scale_and_ties_go_by_name_and_then_by_kind() {
    let accept = "ingress: [{action: Accept, from: [{namespaces: {}}]}]";
    let allow = "ingress: [{action: Allow, from: [{namespaces: {}}]}]";
    let deny = "ingress: [{action: Deny, from: [{namespaces: {}}]}]";
    for (policies, verdict) in [
        (admin("b", 5, accept) + &shipped("a", 6, deny), "accept"),
        (admin("a", 6, accept) + &shipped("b", 5, deny), "deny"),
        (admin("b", 5, accept) + &shipped("a", 5, deny), "deny"),
        (admin("a", 5, accept) + &shipped("b", 5, deny), "accept"),
        (shipped("a", 5, deny) + &admin("a", 5, accept), "accept"),
        (shipped("a-b", 5, deny) + &shipped("a.b", 5, allow) + &admin("ab", 5, accept), "deny"),
    ] {
        check(&policies, &format!("z/c -> x/a tcp:80 {verdict}"));
    }
}

#[test]
fn the_baseline_comes_after_every_other_baseline() {
    let accept = format!("ingress: [{{action: Accept, {FROM_ALL}}}]");
    let deny = format!("ingress: [{{action: Deny, {FROM_ALL}}}]");
    check(&(shipped_baseline(&deny) + &baseline("z", 1000, &accept)), "z/c -> x/a tcp:80 accept");
    check(&shipped_baseline(&deny), "z/c -> x/a tcp:80 deny");
    check(&(shipped_baseline(&deny) + &on_a("ingress: [{}]")), "z/c -> x/a tcp:80 accept");
    check(&(shipped_baseline(&deny) + &on_a("policyTypes: [Egress]")), "z/c -> x/a tcp:80 deny");
    check(&shipped_baseline(&deny).replace("name: default", "name: other"), "z/c -> x/a tcp:80 accept");
}

#[test]
fn pass_leads_to_network_policies_and_then_to_the_baseline() {
    let rules = format!("ingress: [{{action: Pass, {FROM_ALL}}}, {{action: Deny, {FROM_ALL}}}]");
    let deny = shipped_baseline(&format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    check(&shipped("p", 1, &rules), "z/c -> x/a tcp:80 accept");
    check(&(shipped("p", 1, &rules) + &deny), "z/c -> x/a tcp:80 deny");
    check(&(shipped("p", 1, &rules) + &deny + &on_a("ingress: [{}]")), "z/c -> x/a tcp:80 accept");
    check(&(shipped("p", 1, &rules) + &on_a("")), "z/c -> x/a tcp:80 deny");
}

#[test]
fn the_pods_peer_needs_both_selectors() {
    let deny = |peer: &str| shipped("p", 1, &format!("egress: [{{action: Deny, to: [{{pods: {peer}}}]}}]"));
    check(
        &deny("{namespaceSelector: {}, podSelector: {matchLabels: {app: c}}}"),
        "x/a -> z/c tcp:80 deny
         x/a -> x/b tcp:80 accept",
    );
    check(&deny("{podSelector: {matchLabels: {app: c}}}"), "x/a -> x/b tcp:80 deny");
    check(&deny("{namespaceSelector: {matchLabels: {team: none}}}"), "x/a -> x/b tcp:80 deny");
}

#[test]
fn a_pods_subject_needs_both_selectors() {
    let policy = shipped("p", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}}}]"));
    let subject = "namespaces: {matchLabels: {team: red}}";
    check(
        &policy.replace(subject, "pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}"),
        "z/c -> x/b tcp:80 deny
         z/c -> x/a tcp:80 accept",
    );
    for unknown in ["pods: {podSelector: {}}", "", "who: {}", "namespaces: {}, pods: {namespaceSelector: {}, podSelector: {}}"] {
        check(&policy.replace(subject, unknown), "z/c -> x/a tcp:80 accept");
    }
}

#[test]
fn late_egress_reaches_networks_nodes_and_names() {
    check(
        &shipped("p", 1, "egress: [{action: Deny, to: [{networks: [203.0.113.0/24, 10.0.0.3/32]}, {nodes: {matchLabels: {zone: one}}}]}]"),
        "x/a -> 203.0.113.9 icmp deny
         x/a -> z/c tcp:80 deny
         x/a -> node/n1 tcp:80 deny
         x/a -> node/n2 tcp:80 accept",
    );
    let named = "egress: [{action: Allow, to: [{domainNames: ['*.example.com']}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]";
    check(&shipped("p", 1, named), "x/a -> 203.0.113.9 tcp:443 depends-on-dns");
    check(&shipped_baseline(named), "x/a -> 203.0.113.9 tcp:443 deny");
    check(&shipped("p", 1, &named.replace("Allow", "Pass")), "x/a -> 203.0.113.9 tcp:443 deny");
}

#[test]
fn ports_are_numbers_of_tcp_by_default_ranges_and_names_of_any_protocol() {
    let deny = |ports: &str| shipped("p", 1, &format!("ingress: [{{action: Deny, {FROM_ALL}, ports: [{ports}]}}]"));
    check(
        &deny("{portNumber: {port: 80}}, {portNumber: {protocol: UDP, port: 81}}"),
        "z/c -> x/a tcp:80 deny
         z/c -> x/a udp:80 accept
         z/c -> x/a udp:81 deny
         z/c -> x/a tcp:81 accept
         z/c -> x/a icmp accept",
    );
    check(
        &deny("{portRange: {start: 5, end: 7}}, {portRange: {protocol: SCTP, start: 9, end: 9}}"),
        "z/c -> x/a tcp:4 accept
         z/c -> x/a tcp:5 deny
         z/c -> x/a tcp:7 deny
         z/c -> x/a tcp:8 accept
         z/c -> x/a sctp:9 deny",
    );
    check(
        &deny("{namedPort: dns}"),
        "z/c -> x/a udp:53 deny
         z/c -> x/a tcp:53 accept",
    );
}

/// What this build does not understand, as parts of an ingress rule.
const UNKNOWN: [&str; 15] = [
    "from: [{serviceAccounts: {}}]",
    "from: [{}]",
    "from: [{namespaces: null}]",
    "from: []",
    "from: [{namespaces: {}, pods: {namespaceSelector: {}, podSelector: {}}}]",
    "from: [{namespaces: {matchlabels: {team: red}}}]",
    "from: [{namespaces: {matchLabels: {}, more: {}}}]",
    "from: [{namespaces: {}}], ports: []",
    "from: [{namespaces: {}}], ports: [{}]",
    "from: [{namespaces: {}}], ports: [{icmp: {}}]",
    "from: [{namespaces: {}}], ports: [{portRange: {start: 81, end: 79}}]",
    "from: [{namespaces: {}}], ports: [{portNumber: {port: 80, protocol: ICMP}}]",
    "from: [{namespaces: {}}], ports: [{portNumber: {port: 80}, namedPort: web}]",
    "from: [{namespaces: {}}], ports: [{portNumber: {port: 80, flags: syn}}]",
    "from: [{namespaces: {}}], schedule: nightly",
];

#[test]
fn an_allow_that_is_not_understood_matches_nothing() {
    for rule in UNKNOWN {
        check(&shipped("p", 1, &format!("ingress: [{{action: Allow, {rule}}}, {{action: Deny, {FROM_ALL}}}]")), "z/c -> x/a tcp:80 deny");
    }
}

#[test]
fn a_deny_or_pass_that_is_not_understood_denies_all_but_the_own_node() {
    let probes = "z/c -> x/a tcp:9 deny
                  203.0.113.1 -> x/a icmp deny
                  node/n2 -> x/a udp:1 deny
                  node/n1 -> x/a tcp:80 accept
                  x/a -> z/c tcp:80 accept";
    for rule in UNKNOWN {
        for action in ["Deny", "Pass"] {
            check(&shipped("p", 1, &format!("ingress: [{{action: {action}, {rule}}}]")), probes);
        }
        check(&shipped_baseline(&format!("ingress: [{{action: Deny, {rule}}}]")), probes);
    }
    for action in ["Log", "Accept", "null"] {
        check(&shipped("p", 1, &format!("ingress: [{{action: {action}, {FROM_ALL}}}]")), probes);
    }
    check(&shipped_baseline(&format!("ingress: [{{action: Pass, {FROM_ALL}}}]")), probes);
}

#[test]
fn known_peers_and_ports_of_an_allow_still_match() {
    let deny = format!("{{action: Deny, {FROM_ALL}}}");
    for rule in ["from: [{who: {}}, {namespaces: {}}]", "from: [{namespaces: {}}], ports: [{icmp: {}}, {portNumber: {port: 80}}]"] {
        check(&shipped("p", 1, &format!("ingress: [{{action: Allow, {rule}}}, {deny}]")), "z/c -> x/a tcp:80 accept");
    }
}

/// Denies ingress to the pods of `x` from one early peer.
fn early(peer: &str) -> String {
    TENANTS.to_owned()
        + &shipped("p", 1, &format!("ingress: [{{action: Deny, from: [{peer}]}}]")).replace("{matchLabels: {team: red}}", "{}")
}

#[test]
fn early_peers_select_namespaces_one_step_further_down() {
    check(
        &early("{namespaces: {namespaceSelector: {matchLabels: {team: blue}}}}"),
        "v/f -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept",
    );
    check(
        &early("{pods: {namespaces: {namespaceSelector: {}}, podSelector: {matchLabels: {app: a}}}}"),
        "w/e -> x/a tcp:80 deny
         v/f -> x/a tcp:80 accept",
    );
}

#[test]
fn early_same_labels_are_all_there_and_equal() {
    check(
        &early("{namespaces: {sameLabels: [team]}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 deny
         u/g -> x/a tcp:80 deny
         v/f -> x/a tcp:80 accept
         z/c -> x/a tcp:80 accept
         z/c -> z/c tcp:80 accept
         node/n2 -> x/a tcp:80 accept",
    );
    check(
        &early("{namespaces: {sameLabels: [team, env]}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         u/g -> x/a tcp:80 accept
         x/a -> u/g tcp:80 accept",
    );
    check(&early("{namespaces: {sameLabels: []}}"), "x/b -> x/a tcp:80 accept");
    check(
        &early("{pods: {namespaces: {sameLabels: [team]}, podSelector: {matchLabels: {tier: db}}}}"),
        "w/e -> x/a tcp:80 deny
         u/g -> x/a tcp:80 accept
         x/b -> x/a tcp:80 accept",
    );
}

#[test]
fn early_not_same_labels_are_all_there_and_one_differs() {
    check(
        &early("{namespaces: {notSameLabels: [team]}}"),
        "v/f -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         z/c -> x/a tcp:80 accept
         x/a -> z/c tcp:80 accept",
    );
    check(
        &early("{namespaces: {notSameLabels: [team, env]}}"),
        "w/e -> x/a tcp:80 deny
         v/f -> x/a tcp:80 deny
         v/f -> w/e tcp:80 deny
         x/b -> x/a tcp:80 accept
         u/g -> x/a tcp:80 accept
         x/a -> u/g tcp:80 accept
         z/c -> x/a tcp:80 accept",
    );
    check(&early("{namespaces: {notSameLabels: []}}"), "v/f -> x/a tcp:80 accept");
}

#[test]
fn an_early_peer_that_is_not_understood_denies_all() {
    for unknown in [
        "{namespaces: {sameLabels: [team], notSameLabels: [env]}}",
        "{namespaces: {sameLabels: team}}",
        "{namespaces: {sameLabels: [1]}}",
        "{pods: {namespaces: {}, podSelector: {}}}",
        "{pods: {namespaces: {sameLabels: [team]}}}",
        "{namespaces: {namespaceSelector: {matchlabels: {team: red}}}}",
    ] {
        check(
            &early(unknown),
            "203.0.113.1 -> x/a tcp:80 deny
             node/n1 -> x/a tcp:80 accept",
        );
    }
}
