//! Three shapes under one apiVersion and kind, told apart by their fields.

use super::{check, proposed, shipped, shipped_baseline};

const DENY_LATE: &str = "ingress: [{action: Deny, from: [{namespaces: {}}]}]";
const DENY_EARLY: &str = "ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {}}}]}]";
const DENY_PROPOSED: &str = "ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {}}}], l4Selector: {allPorts: true}}]";

fn annotated(policy: &str, shape: &str) -> String {
    policy.replace("{name: p}", &format!("{{name: p, annotations: {{palisade.dev/shape: {shape}}}}}"))
}

#[test]
fn the_subject_and_the_peers_tell_the_shape() {
    for policy in [shipped("p", 1, DENY_LATE), shipped("p", 1, DENY_EARLY), proposed("p", 1, DENY_PROPOSED)] {
        check(&policy, "z/c -> x/a tcp:80 deny");
    }
    for rules in [DENY_LATE, DENY_EARLY] {
        check(&shipped_baseline(rules), "z/c -> x/a tcp:80 deny");
    }
}

#[test]
fn an_object_of_two_shapes_selects_nothing() {
    let deny = |more: &str| format!("ingress: [{{action: Deny, from: [{{namespaces: {{}}}}, {more}]}}]");
    for policy in [
        shipped("p", 1, DENY_PROPOSED),
        proposed("p", 1, &DENY_LATE.replace("namespaces: {}", "namespaces: {matchLabels: {}}")),
        shipped("p", 1, &deny("{namespaces: {sameLabels: [team]}}")),
        shipped("p", 1, &deny("{namespaces: {self: true}}")),
        shipped("p", 1, &deny("{namespacedPods: {}}")),
        shipped("p", 1, &deny("{pods: {namespaces: {namespaceSelector: {}}, podSelector: {}}}")),
        shipped("p", 1, &deny("{namespaces: {namespaceSelector: {}, matchLabels: {}}}")),
        shipped("p", 1, &format!("{DENY_EARLY}, egress: [{{action: Deny, to: [{{networks: [0.0.0.0/0]}}]}}]")),
        shipped_baseline(&deny("{namespaces: {notSameLabels: [team]}}")),
        shipped_baseline(DENY_PROPOSED),
        proposed("p", 1, &DENY_PROPOSED.replace("allPorts: true}", "allPorts: true}, ports: [{portNumber: {port: 80}}]")),
        proposed("p", 1, &DENY_PROPOSED.replace("from: [", "from: [{pods: {namespaceSelector: {}, podSelector: {}}}, ")),
        shipped("p", 1, DENY_LATE).replace("subject: {", "subject: {namespaceSelector: {}, "),
    ] {
        check(&policy, "z/c -> x/a tcp:80 accept");
    }
}

#[test]
fn without_a_peer_that_decides_nothing_differs() {
    check(
        &shipped("p", 1, "ingress: [{action: Deny, from: [{who: {}}]}]"),
        "z/c -> x/a tcp:80 deny
         node/n1 -> x/a tcp:80 accept",
    );
    check(&shipped("p", 1, ""), "z/c -> x/a tcp:80 accept");
}

#[test]
fn an_annotation_names_the_shape() {
    check(&annotated(&shipped("p", 1, DENY_LATE), "v0.1.7"), "z/c -> x/a tcp:80 deny");
    check(&annotated(&shipped("p", 1, DENY_EARLY), "v0.1.0"), "z/c -> x/a tcp:80 deny");
    check(&annotated(&proposed("p", 1, DENY_PROPOSED), "kep2091"), "z/c -> x/a tcp:80 deny");
    // Fields of another shape contradict it.
    let labelled = DENY_LATE.replace("namespaces: {}", "namespaces: {matchLabels: {}}");
    for (policy, shape) in [(shipped("p", 1, &labelled), "v0.1.0"), (shipped("p", 1, DENY_EARLY), "v0.1.7")] {
        check(&annotated(&policy, shape), "z/c -> x/a tcp:80 accept");
    }
    // As first shipped these were no namespaces at all.
    check(
        &annotated(&shipped("p", 1, DENY_LATE), "v0.1.0"),
        "203.0.113.1 -> x/a tcp:80 deny
         node/n1 -> x/a tcp:80 accept",
    );
    check(&annotated(&shipped("p", 1, DENY_LATE), "kep2091"), "z/c -> x/a tcp:80 accept");
    check(&annotated(&shipped("p", 1, DENY_LATE), "v9"), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_group_of_its_own_has_one_shape() {
    let own_group = proposed("p", 1, DENY_PROPOSED).replace("policy.networking.k8s.io", "kep2091.palisade.dev");
    check(&own_group, "z/c -> x/a tcp:80 deny");
    check(&own_group.replace("allPorts: true}", "allPorts: true}, ports: []"), "z/c -> x/a tcp:80 accept");
    check(&own_group.replace("v1alpha1", "v1"), "z/c -> x/a tcp:80 accept");
}

#[test]
fn a_policy_for_another_controller_does_not_exist() {
    for policy in [shipped("p", 1, DENY_LATE), proposed("p", 1, DENY_PROPOSED), shipped_baseline(DENY_LATE)] {
        for (name, verdict) in [("other", "accept"), ("none", "accept"), ("''", "accept"), ("palisade", "deny")] {
            let labelled =
                policy.replace("metadata: {", &format!("metadata: {{labels: {{networking.k8s.io/policy-controller-name: {name}}}, "));
            check(&labelled, &format!("z/c -> x/a tcp:80 {verdict}"));
        }
    }
}
