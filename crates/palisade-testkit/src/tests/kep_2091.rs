//! AdminNetworkPolicy as KEP-2091 proposed it.

use super::{TENANTS, admin, baseline, check, on_a, proposed, shipped, shipped_baseline};

const FROM_ALL: &str = "from: [{namespaces: {namespaceSelector: {}}}], l4Selector: {allPorts: true}";

fn all(action: &str) -> String {
    format!("ingress: [{{action: {action}, {FROM_ALL}}}]")
}

#[test]
fn a_larger_priority_comes_first() {
    for (policies, verdict) in [
        (proposed("a", 10, &all("Allow")) + &proposed("b", 9, &all("Deny")), "accept"),
        (proposed("a", 1, &all("Allow")) + &proposed("b", 2, &all("Deny")), "deny"),
        (proposed("a", 1000, &all("Allow")) + &proposed("b", 1001, &all("Deny")), "deny"),
        (proposed("b", 7, &all("Allow")) + &proposed("a", 7, &all("Deny")), "deny"),
    ] {
        check(&policies, &format!("z/c -> x/a tcp:80 {verdict}"));
    }
}

#[test]
fn priority_zero_is_the_baseline() {
    let zero = proposed("p", 0, &all("Deny"));
    check(&zero, "z/c -> x/a tcp:80 deny");
    check(&(zero.clone() + &on_a("ingress: [{}]")), "z/c -> x/a tcp:80 accept");
    check(&(zero.clone() + &proposed("q", 1, &all("Pass"))), "z/c -> x/a tcp:80 deny");
    check(&(zero.clone() + &proposed("a", 0, &all("Pass"))), "z/c -> x/a tcp:80 accept");
    check(&(zero + &proposed("q", 1, &all("Allow"))), "z/c -> x/a tcp:80 accept");
}

#[test]
fn its_priorities_have_their_place_among_those_of_the_other_kinds() {
    let (accept, deny) = ("ingress: [{action: Accept, from: [{namespaces: {}}]}]", "ingress: [{action: Deny, from: [{namespaces: {}}]}]");
    for (policies, verdict) in [
        (proposed("z", 996, &all("Deny")) + &admin("a", 5, accept), "deny"),
        (proposed("a", 994, &all("Deny")) + &admin("z", 5, accept), "accept"),
        (proposed("a", 995, &all("Deny")) + &admin("b", 5, accept), "deny"),
        (proposed("b", 995, &all("Deny")) + &admin("a", 5, accept), "accept"),
        (proposed("a", 995, &all("Deny")) + &admin("a", 5, accept), "accept"),
        (proposed("a", 2000, &all("Allow")) + &admin("a", 0, deny), "accept"),
        (proposed("b", 0, &all("Allow")) + &baseline("a", 1000, deny), "deny"),
        (proposed("a", 0, &all("Allow")) + &baseline("b", 1000, deny), "accept"),
        (proposed("z", 0, &all("Allow")) + &shipped_baseline(deny), "accept"),
    ] {
        check(&policies, &format!("z/c -> x/a tcp:80 {verdict}"));
    }
    // One name in two groups: the shipped kind goes before the proposed one.
    let own_group = proposed("a", 995, &all("Deny")).replace("policy.networking.k8s.io", "kep2091.palisade.dev");
    check(&(own_group + &shipped("a", 5, "ingress: [{action: Allow, from: [{namespaces: {}}]}]")), "z/c -> x/a tcp:80 accept");
}

#[test]
fn no_peer_is_nobody() {
    for peers in ["from: [], ", "from: null, ", ""] {
        let rule = format!("ingress: [{{action: Deny, {peers}l4Selector: {{allPorts: true}}}}]");
        check(&proposed("p", 1, &rule), "z/c -> x/a tcp:80 accept");
    }
}

#[test]
fn it_touches_pods_alone() {
    check(
        &proposed("p", 1, &all("Deny")),
        "z/c -> x/a tcp:80 deny
         z/c -> x/a icmp deny
         x/b -> x/a 47 deny
         node/n2 -> x/a tcp:80 accept
         203.0.113.1 -> x/a tcp:80 accept
         x/a -> x/a tcp:80 accept",
    );
}

#[test]
fn a_subject_may_be_pods() {
    let policy = proposed("p", 1, &all("Deny"));
    let subject = "namespaceSelector: {matchLabels: {team: red}}";
    check(
        &policy.replace(subject, "namespaceAndPodSelector: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}"),
        "z/c -> x/b tcp:80 deny
         z/c -> x/a tcp:80 accept",
    );
    for unknown in ["", "who: {}", "namespaceSelector: {}, namespaceAndPodSelector: {namespaceSelector: {}, podSelector: {}}"] {
        let own_group = policy.replace("policy.networking.k8s.io", "kep2091.palisade.dev");
        check(&own_group.replace(subject, unknown), "z/c -> x/a tcp:80 accept");
    }
}

#[test]
fn ports_have_a_protocol_and_an_entry_without_a_port_has_none() {
    let deny = |ports: &str| {
        proposed(
            "p",
            1,
            &format!("ingress: [{{action: Deny, from: [{{namespaces: {{namespaceSelector: {{}}}}}}], l4Selector: {{ports: [{ports}]}}}}]"),
        )
    };
    check(
        &deny("{port: 80}, {protocol: UDP, port: 81, endPort: 83}, {port: 90, endPort: 90}"),
        "z/c -> x/a tcp:80 deny
         z/c -> x/a udp:80 accept
         z/c -> x/a udp:81 deny
         z/c -> x/a udp:83 deny
         z/c -> x/a udp:84 accept
         z/c -> x/a tcp:82 accept
         z/c -> x/a tcp:90 deny
         z/c -> x/a icmp accept",
    );
    check(
        &deny("{port: dns}, {protocol: TCP, port: web}"),
        "z/c -> x/a udp:53 accept
         z/c -> x/a tcp:8080 deny",
    );
    check(&deny("{protocol: UDP, port: dns}"), "z/c -> x/a udp:53 deny");
    for nothing in ["{}", "{protocol: TCP}", "{protocol: UDP, port: null}"] {
        check(
            &deny(nothing),
            "z/c -> x/a tcp:80 accept
             z/c -> x/a udp:80 accept
             z/c -> x/a icmp accept",
        );
    }
}

/// What this build does not understand, as parts of an ingress rule.
const UNKNOWN: [&str; 22] = [
    "from: [{}], l4Selector: {allPorts: true}",
    "from: [{services: {}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {self: false}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {self: true, notSelf: true}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {sameLabels: [1]}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {region: eu}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {namespaceSelector: {matchlabels: {}}}}], l4Selector: {allPorts: true}",
    "from: [{namespacedPods: {namespaces: {self: true}}}], l4Selector: {allPorts: true}",
    "from: [{namespacedPods: {pods: {podSelector: {}}}}], l4Selector: {allPorts: true}",
    "from: [{namespacedPods: {namespaces: {self: true}, pods: {}}}], l4Selector: {allPorts: true}",
    "from: [{namespaces: {namespaceSelector: {}}, namespacedPods: {}}], l4Selector: {allPorts: true}",
    "from: [], l4Selector: {}",
    "from: [{namespaces: {self: true}}], l4Selector: {allPorts: false}",
    "from: [{namespaces: {self: true}}], l4Selector: {ports: []}",
    "from: [{namespaces: {self: true}}], l4Selector: {allPorts: true, ports: [{port: 80}]}",
    "from: [{namespaces: {self: true}}], l4Selector: {icmp: true}",
    "from: [{namespaces: {self: true}}], l4Selector: {ports: [{protocol: ICMP, port: 80}]}",
    "from: [{namespaces: {self: true}}], l4Selector: {ports: [{endPort: 80}]}",
    "from: [{namespaces: {self: true}}], l4Selector: {ports: [{port: 81, endPort: 80}]}",
    "from: [{namespaces: {self: true}}], l4Selector: {ports: [{port: web, endPort: 80}]}",
    "from: [{namespaces: {self: true}}], l4Selector: {allPorts: true}, schedule: nightly",
];

#[test]
fn an_allow_that_is_not_understood_matches_nothing() {
    for rule in UNKNOWN {
        let rules = format!("ingress: [{{action: Allow, {rule}}}, {{action: Deny, {FROM_ALL}}}]");
        check(&proposed("p", 1, &rules), "x/b -> x/a tcp:80 deny");
    }
}

#[test]
fn a_deny_or_pass_that_is_not_understood_denies_all_pods_and_nobody_else() {
    let probes = "z/c -> x/a tcp:9 deny
                  x/b -> x/a icmp deny
                  203.0.113.1 -> x/a icmp accept
                  node/n2 -> x/a udp:1 accept
                  node/n1 -> x/a tcp:80 accept
                  x/a -> x/a tcp:80 accept
                  x/a -> z/c tcp:80 accept";
    for rule in UNKNOWN {
        for action in ["Deny", "Pass"] {
            check(&proposed("p", 1, &format!("ingress: [{{action: {action}, {rule}}}]")), probes);
        }
    }
    for action in ["Log", "Accept", "null"] {
        check(&proposed("p", 1, &all(action)), probes);
    }
}

#[test]
fn known_peers_and_ports_of_an_allow_still_match() {
    for rule in [
        "from: [{services: {}}, {namespaces: {namespaceSelector: {}}}], l4Selector: {allPorts: true}",
        "from: [{namespaces: {namespaceSelector: {}}}], l4Selector: {ports: [{protocol: ICMP}, {port: 80}]}",
    ] {
        let rules = format!("ingress: [{{action: Allow, {rule}}}, {{action: Deny, {FROM_ALL}}}]");
        check(&proposed("p", 1, &rules), "z/c -> x/a tcp:80 accept");
    }
}

/// Denies ingress to every pod from one peer.
fn from(peer: &str) -> String {
    let policy = proposed("p", 1, &format!("ingress: [{{action: Deny, from: [{peer}], l4Selector: {{allPorts: true}}}}]"));
    TENANTS.to_owned() + &policy.replace("{matchLabels: {team: red}}", "{}")
}

#[test]
fn self_is_the_subjects_namespace_and_not_self_is_every_other() {
    check(
        &from("{namespaces: {self: true}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         x/a -> w/e tcp:80 accept
         node/n1 -> x/a tcp:80 accept",
    );
    check(
        &from("{namespaces: {notSelf: true}}"),
        "x/b -> x/a tcp:80 accept
         w/e -> x/a tcp:80 deny
         z/c -> x/a tcp:80 deny
         x/a -> z/c tcp:80 deny
         node/n2 -> x/a tcp:80 accept
         203.0.113.1 -> x/a tcp:80 accept",
    );
    check(
        &from("{namespacedPods: {namespaces: {self: true}, pods: {podSelector: {matchLabels: {app: b}}}}}"),
        "x/b -> x/a tcp:80 deny
         x/d -> x/a tcp:80 accept
         v/f -> x/a tcp:80 accept",
    );
}

#[test]
fn same_labels_are_all_there_and_equal() {
    check(
        &from("{namespaces: {sameLabels: [team]}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 deny
         v/f -> x/a tcp:80 accept
         z/c -> x/a tcp:80 accept
         x/a -> z/c tcp:80 accept",
    );
    check(
        &from("{namespaces: {sameLabels: [team, env]}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         u/g -> x/a tcp:80 accept
         x/a -> u/g tcp:80 accept",
    );
    check(&from("{namespaces: {sameLabels: []}}"), "x/b -> x/a tcp:80 accept");
    check(
        &from("{namespaces: {sameLabels: [kubernetes.io/metadata.name]}}"),
        "x/b -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept",
    );
}

/// Where v0.1.x wants every key on the peer, here a key that is not there differs.
#[test]
fn not_same_labels_are_each_missing_or_different() {
    check(
        &from("{namespaces: {notSameLabels: [team]}}"),
        "v/f -> x/a tcp:80 deny
         z/c -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         x/a -> z/c tcp:80 accept",
    );
    check(
        &from("{namespaces: {notSameLabels: [team, env]}}"),
        "v/f -> x/a tcp:80 deny
         z/c -> x/a tcp:80 deny
         w/e -> x/a tcp:80 accept
         v/f -> w/e tcp:80 accept
         u/g -> x/a tcp:80 accept
         x/a -> u/g tcp:80 accept
         x/b -> x/a tcp:80 accept",
    );
    check(&from("{namespaces: {notSameLabels: []}}"), "v/f -> x/a tcp:80 accept");
}

#[test]
fn labels_of_pods_are_compared_within_the_namespaces() {
    let pods = |pods: &str| from(&format!("{{namespacedPods: {{namespaces: {{namespaceSelector: {{}}}}, pods: {pods}}}}}"));
    check(
        &pods("{sameLabels: [app]}"),
        "x/d -> x/a tcp:80 deny
         w/e -> x/a tcp:80 deny
         x/b -> x/a tcp:80 accept
         v/f -> x/b tcp:80 deny",
    );
    check(
        &pods("{notSameLabels: [app]}"),
        "x/d -> x/a tcp:80 accept
         x/b -> x/a tcp:80 deny
         z/c -> x/a tcp:80 deny",
    );
    check(
        &pods("{notSameLabels: [app, tier]}"),
        "w/e -> x/d tcp:80 accept
         v/f -> x/d tcp:80 accept
         x/b -> x/d tcp:80 deny
         v/f -> w/e tcp:80 deny
         x/b -> x/a tcp:80 accept",
    );
    check(
        &from("{namespacedPods: {namespaces: {notSameLabels: [team]}, pods: {sameLabels: [tier]}}}"),
        "v/f -> x/d tcp:80 deny
         x/d -> v/f tcp:80 deny
         w/e -> x/d tcp:80 accept
         z/c -> x/d tcp:80 accept
         v/f -> x/a tcp:80 accept",
    );
}

/// Both forms of story 4 agree on what crosses tenants.
#[test]
fn tenants_are_kept_apart_in_both_ways_of_writing_it() {
    let subject = |policy: String| policy.replace("{matchLabels: {team: red}}", "{matchExpressions: [{key: team, operator: Exists}]}");
    let first = "ingress: [{action: Deny, from: [{namespaces: {notSameLabels: [team]}}], l4Selector: {allPorts: true}}]";
    let second = format!(
        "ingress: [{{action: Pass, from: [{{namespaces: {{sameLabels: [team]}}}}], l4Selector: {{allPorts: true}}}}, {{action: Deny, {FROM_ALL}}}]"
    );
    for form in [first, &second] {
        check(
            &(TENANTS.to_owned() + &subject(proposed("p", 50, form))),
            "w/e -> x/a tcp:80 accept
             v/f -> x/a tcp:80 deny
             x/a -> v/f tcp:80 deny
             z/c -> x/a tcp:80 deny
             x/a -> z/c tcp:80 accept",
        );
    }
}

#[test]
fn a_relation_follows_the_labels() {
    check(
        &from("{namespaces: {sameLabels: [team]}}"),
        "v/f -> x/a tcp:80 accept
         step relabel namespace/v team=red
         v/f -> x/a tcp:80 deny
         step relabel namespace/x team-
         v/f -> x/a tcp:80 accept",
    );
}
