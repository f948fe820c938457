//! NetworkPolicy: types, empty lists, selectors, ports, ipBlock.

use super::{check, check_error, from_peer, on_a};

#[test]
fn isolation_is_per_direction() {
    check(
        &on_a("policyTypes: [Egress]"),
        "x/a -> z/c tcp:80 deny
         z/c -> x/a tcp:80 accept
         x/b -> z/c tcp:80 accept",
    );
}

#[test]
fn missing_policy_types_isolate_ingress_and_egress_only_with_egress_rules() {
    let ingress_only = "z/c -> x/a tcp:80 deny
                        x/a -> z/c tcp:80 accept
                        x/a -> z/c tcp:81 accept";
    for rest in ["", "policyTypes: []", "policyTypes: null", "egress: []", "egress: null"] {
        check(&on_a(rest), ingress_only);
    }
    check(
        &on_a("egress: [{ports: [{port: 80}]}]"),
        "z/c -> x/a tcp:80 deny
         x/a -> z/c tcp:80 accept
         x/a -> z/c tcp:81 deny",
    );
}

#[test]
fn rules_of_a_direction_that_is_not_listed_are_ignored() {
    check(
        &on_a("policyTypes: [Ingress], ingress: [{}], egress: [{ports: [{port: 80}]}]"),
        "x/a -> z/c tcp:81 accept
         z/c -> x/a tcp:81 accept",
    );
}

#[test]
fn missing_null_and_empty_rule_lists_all_deny() {
    for rest in ["", "ingress: null", "ingress: []"] {
        let rest = format!("policyTypes: [Ingress, Egress], {rest}");
        check(
            &on_a(&rest),
            "z/c -> x/a tcp:80 deny
             203.0.113.1 -> x/a icmp deny
             x/a -> z/c tcp:80 deny",
        );
    }
}

#[test]
fn an_empty_rule_or_empty_lists_in_it_allow_everything() {
    for rule in ["{}", "null", "{from: [], ports: []}", "{from: null, ports: null}"] {
        check(
            &on_a(&format!("ingress: [{rule}]")),
            "z/c -> x/a sctp:80 accept
             203.0.113.1 -> x/a icmp accept
             node/n2 -> x/a 47 accept",
        );
    }
}

#[test]
fn a_missing_pod_selector_selects_the_whole_namespace_and_no_other() {
    check(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {}}",
        "z/c -> x/a tcp:80 deny
         z/c -> x/b tcp:80 deny
         x/a -> z/c tcp:80 accept",
    );
}

#[test]
fn an_object_without_a_namespace_is_in_default() {
    check(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p}, spec: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d}}",
        "x/a -> default/d tcp:80 deny",
    );
}

#[test]
fn not_in_and_does_not_exist_match_a_missing_key() {
    for expression in ["{key: team, operator: NotIn, values: [blue]}", "{key: team, operator: DoesNotExist}"] {
        check(&from_peer(&format!("{{podSelector: {{matchExpressions: [{expression}]}}}}")), "x/b -> x/a tcp:80 accept");
    }
    check(&from_peer("{podSelector: {matchExpressions: [{key: team, operator: In, values: [blue]}]}}"), "x/b -> x/a tcp:80 deny");
}

#[test]
fn a_match_label_with_an_empty_value_needs_the_key() {
    let policy = |value: &str| {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: x}},
              spec: {{podSelector: {{matchLabels: {{blank: {value}}}}}}}}}"
        )
    };
    for value in ["''", "null"] {
        check(
            &policy(value),
            "z/c -> x/a tcp:80 deny
             z/c -> x/b tcp:80 accept",
        );
    }
}

#[test]
fn selectors_of_one_peer_are_anded_and_peers_are_ored() {
    let namespace = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: z}}";
    let pods = "podSelector: {matchLabels: {app: b}}";
    check(
        &from_peer(&format!("{{{namespace}, {pods}}}")),
        "x/b -> x/a tcp:80 deny
         z/c -> x/a tcp:80 deny",
    );
    check(
        &from_peer(&format!("{{{namespace}}}, {{{pods}}}")),
        "x/b -> x/a tcp:80 accept
         z/c -> x/a tcp:80 accept",
    );
}

#[test]
fn an_empty_namespace_selector_is_every_pod_and_no_address_outside() {
    check(
        &from_peer("{namespaceSelector: {}}"),
        "z/c -> x/a tcp:80 accept
         203.0.113.1 -> x/a tcp:80 deny
         node/n2 -> x/a tcp:80 deny",
    );
}

#[test]
fn an_empty_pod_selector_is_the_own_namespace_only() {
    check(
        &from_peer("{podSelector: {}}"),
        "x/b -> x/a tcp:80 accept
         z/c -> x/a tcp:80 deny",
    );
}

#[test]
fn every_namespace_has_its_name_as_a_label_whatever_its_object_says() {
    check(
        &from_peer("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: x}}}"),
        "x/b -> x/a tcp:80 accept
         step relabel namespace/x kubernetes.io/metadata.name-
         x/b -> x/a tcp:80 accept
         step relabel namespace/x kubernetes.io/metadata.name=other
         x/b -> x/a tcp:80 accept
         step delete namespace/x
         x/b -> x/a tcp:80 accept
         z/c -> x/a tcp:80 deny",
    );
}

#[test]
fn a_peer_that_is_empty_mixed_or_unknown_matches_nothing() {
    for peer in [
        "{}",
        "null",
        "{serviceAccount: {}}",
        "{podSelector: null}",
        "{ipBlock: {cidr: 0.0.0.0/0}, podSelector: {}}",
        "{podSelector: {matchLabel: {app: b}}}",
        "{podSelector: {matchExpressions: [{key: app, operator: Like, values: [b]}]}}",
    ] {
        check(&from_peer(peer), "x/b -> x/a tcp:80 deny");
    }
}

#[test]
fn an_ip_block_matches_pods_nodes_and_outside_but_only_its_family() {
    check(
        &from_peer("{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.3/32]}}"),
        "x/b -> x/a tcp:80 accept
         node/n2 -> x/a tcp:80 accept
         203.0.113.1 -> x/a icmp accept
         z/c -> x/a tcp:80 deny
         fd00::2 -> fd00::1 tcp:80 deny",
    );
}

#[test]
fn an_ip_block_is_read_leniently_but_never_widened() {
    for block in ["{cidr: 010.0.0.002/32}", "{cidr: 10.0.0.9/24}", "{cidr: 10.0.0.0/8, except: []}"] {
        check(&from_peer(&format!("{{ipBlock: {block}}}")), "x/b -> x/a tcp:80 accept");
    }
    for block in [
        "{}",
        "{cidr: 10.0.0.2}",
        "{cidr: 10.0.0.0/33}",
        "{cidr: all}",
        "{cidr: 10.0.0.0/8, except: [10.0.0.x/32]}",
        "{cidr: 10.0.0.0/8, except: 10.1.0.0/16}",
    ] {
        check(&from_peer(&format!("{{ipBlock: {block}}}")), "x/b -> x/a tcp:80 deny");
    }
}

#[test]
fn a_hole_in_one_peer_does_not_bind_another() {
    check(&from_peer("{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.3/32]}}, {ipBlock: {cidr: 10.0.0.3/32}}"), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_port_entry_without_a_port_is_all_ports_of_its_protocol() {
    check(
        &on_a("ingress: [{ports: [{protocol: UDP}]}]"),
        "z/c -> x/a udp:1 accept
         z/c -> x/a tcp:1 deny
         z/c -> x/a icmp deny",
    );
    check(
        &on_a("ingress: [{ports: [{}]}]"),
        "z/c -> x/a tcp:1 accept
         z/c -> x/a 6 accept
         z/c -> x/a udp:1 deny
         z/c -> x/a sctp:1 deny",
    );
}

#[test]
fn a_port_range_includes_both_ends() {
    check(
        &on_a("ingress: [{ports: [{port: 80, endPort: 82}]}]"),
        "z/c -> x/a tcp:79 deny
         z/c -> x/a tcp:80 accept
         z/c -> x/a tcp:82 accept
         z/c -> x/a tcp:83 deny",
    );
}

#[test]
fn a_port_that_is_not_understood_matches_nothing() {
    for port in [
        "{endPort: 9000}",
        "{port: 9000, endPort: 80}",
        "{port: web, endPort: 9000}",
        "{port: 0}",
        "{port: '8080'}",
        "{port: ''}",
        "{port: 8080, protocol: tcp}",
    ] {
        check(&on_a(&format!("ingress: [{{ports: [{port}]}}]")), "z/c -> x/a tcp:8080 deny");
    }
}

#[test]
fn a_named_port_is_the_destination_pods_with_the_rules_protocol() {
    check(
        &on_a("ingress: [{ports: [{port: web}]}], egress: [{ports: [{port: web}]}]"),
        "z/c -> x/a tcp:8080 accept
         z/c -> x/a tcp:80 deny
         x/a -> z/c tcp:80 accept
         x/a -> z/c tcp:8080 deny
         x/a -> x/b tcp:80 deny
         x/a -> 203.0.113.1 tcp:80 deny
         x/a -> 10.0.0.3 tcp:80 accept",
    );
    check(&on_a("ingress: [{ports: [{port: dns}]}]"), "z/c -> x/a udp:53 deny");
    check(&on_a("ingress: [{ports: [{port: dns, protocol: UDP}]}]"), "z/c -> x/a udp:53 accept");
    check(&on_a("ingress: [{ports: [{port: absent}]}]"), "z/c -> x/a tcp:8080 deny");
}

#[test]
fn sidecars_name_ports_and_ordinary_init_containers_do_not() {
    let pod = |policy: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: s, namespace: x, labels: {{app: a}}}},
              spec: {{initContainers: [{{{policy} ports: [{{name: web, containerPort: 7}}]}}]}}}}\n---\n"
        )
    };
    let policy = on_a("ingress: [{ports: [{port: web}]}]");
    check(&(pod("restartPolicy: Always,") + &policy), "z/c -> x/s tcp:7 accept");
    check(&(pod("") + &policy), "z/c -> x/s tcp:7 deny");
}

#[test]
fn two_policies_allow_the_union() {
    let second = on_a("ingress: [{ports: [{port: 81}]}]").replace("name: np", "name: other");
    check(
        &(on_a("ingress: [{ports: [{port: 80}]}]") + &second),
        "z/c -> x/a tcp:80 accept
         z/c -> x/a tcp:81 accept
         z/c -> x/a tcp:82 deny",
    );
}

#[test]
fn the_own_node_reaches_an_isolated_pod_and_is_not_reached_by_it() {
    check(
        &on_a("policyTypes: [Ingress, Egress]"),
        "node/n1 -> x/a tcp:80 accept
         192.0.2.1 -> x/a tcp:80 accept
         198.51.100.1 -> x/a tcp:80 accept
         node/n2 -> x/a tcp:80 deny
         x/a -> node/n1 tcp:80 deny",
    );
}

#[test]
fn a_missing_party_is_an_error() {
    check_error("", "x/a -> x/gone tcp:80 deny", "`x/gone`: no such pod");
    check_error("", "x/a -> node/n9 tcp:80 deny", "`node/n9`: no such node");
    check_error("", "x/a -> svc/x/gone tcp:80 deny", "`svc/x/gone`: no such Service");
}
