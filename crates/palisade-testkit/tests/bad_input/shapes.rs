//! AdminNetworkPolicies whose shape cannot be told, or is not what they say.

use crate::check;

/// An AdminNetworkPolicy of one line each for metadata and spec.
fn admin(metadata: &str, spec: &str, counts: &[&str], said: &[&str]) {
    let text = format!("apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {metadata}\nspec: {spec}\n");
    let said: Vec<String> = said.iter().map(|it| format!("f.yaml:{it}")).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    check(&text, counts, &said);
}

#[test]
fn two_shapes_in_one_object_are_refused_with_both_readings() {
    admin(
        "{name: p}",
        "{priority: 10, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {notSelf: true}}], l4Selector: {allPorts: true}}]}",
        &[],
        &[
            "4:113: error[mixed-shapes]: AdminNetworkPolicy p: `spec`: written in two shapes at once: `spec.subject.namespaces` is of v0.1.0 and v0.1.7, `spec.ingress[0].l4Selector` is of KEP-2091; as v0.1.7: priority 10 is strong, the smaller one wins; as KEP-2091: priority 10 is weak, the larger one wins; nothing of it counts; keep the fields of one shape",
        ],
    );
    admin(
        "{name: p}",
        "{priority: 0, subject: {namespaceSelector: {}}, ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {}}}], ports: [{portNumber: {port: 80}}]}]}",
        &[],
        &[
            "4:127: error[mixed-shapes]: AdminNetworkPolicy p: `spec`: written in two shapes at once: `spec.subject.namespaceSelector` is of KEP-2091, `spec.ingress[0].ports` is of v0.1.0 and v0.1.7; as KEP-2091: priority 0 is Baseline, asked after every NetworkPolicy; as v0.1.0: priority 0 is strong, the smaller one wins; nothing of it counts; keep the fields of one shape",
        ],
    );
    admin(
        "{name: p}",
        "{priority: 10, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {sameLabels: [a]}}, {namespaces: {}}]}]}",
        &[],
        &[
            "4:95: error[mixed-shapes]: AdminNetworkPolicy p: `spec`: written in two shapes at once: `spec.ingress[0].from[1].namespaces` is of v0.1.7 and KEP-2091, `spec.ingress[0].from[0].namespaces.sameLabels` is of v0.1.0 and KEP-2091; as v0.1.7: `namespaces` is a selector itself, and selects all when it is empty; as v0.1.0: `namespaces` holds namespaceSelector, sameLabels or notSameLabels, and selects nothing without them; nothing of it counts; keep the fields of one shape",
        ],
    );
}

#[test]
fn fields_that_the_named_shape_does_not_have_are_refused() {
    let kep2091 = "{priority: 10, subject: {namespaceSelector: {}}, ingress: [{action: Deny, from: [], l4Selector: {allPorts: true}}]}";
    admin("{name: p, annotations: {palisade.dev/shape: kep2091}}", kep2091, &["kep2091/p"], &[]);
    admin(
        "{name: p, annotations: {palisade.dev/shape: v0.1.7}}",
        kep2091,
        &[],
        &[
            "4:32: error[other-shape]: AdminNetworkPolicy p: `spec.subject.namespaceSelector`: a field of KEP-2091, but line 3 says that the object is written as v0.1.7",
            "4:91: error[other-shape]: AdminNetworkPolicy p: `spec.ingress[0].l4Selector`: a field of KEP-2091, but line 3 says that the object is written as v0.1.7",
        ],
    );
    admin(
        "{name: p, annotations: {palisade.dev/shape: v0.1.6}}",
        kep2091,
        &[],
        &[
            "3:55: error[invalid-value]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/shape\"]`: `v0.1.6` is not a shape; did you mean `v0.1.0`?",
        ],
    );
    admin(
        "{name: p, annotations: {palisade.dev/shape: seed}}",
        kep2091,
        &[],
        &[
            "3:55: error[invalid-value]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/shape\"]`: `seed` is not a shape; known here: kep2091, v0.1.0, v0.1.7",
        ],
    );
}

#[test]
fn our_own_group_and_the_baseline_have_fewer_shapes() {
    check(
        "apiVersion: kep2091.palisade.dev/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: p}\nspec: {priority: 1, subject: {namespaces: {}}}\n",
        &[],
        &[
            "f.yaml:4:31: error[other-shape]: AdminNetworkPolicy.kep2091.palisade.dev p: `spec.subject.namespaces`: a field of v0.1.0 and v0.1.7, but under this apiVersion an object is always KEP-2091",
        ],
    );
    check(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\nmetadata: {name: default}\nspec: {subject: {namespaceSelector: {}}}\n",
        &[],
        &[
            "f.yaml:4:18: error[other-shape]: BaselineAdminNetworkPolicy default: `spec.subject.namespaceSelector`: a field of KEP-2091, but this kind never had that shape; KEP-2091 writes an AdminNetworkPolicy with `priority: 0`",
        ],
    );
    check(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\nmetadata: {name: default, annotations: {palisade.dev/shape: kep2091}}\nspec: {subject: {namespaces: {}}}\n",
        &[],
        &[
            "f.yaml:3:61: error[invalid-value]: BaselineAdminNetworkPolicy default: `metadata.annotations[\"palisade.dev/shape\"]`: this apiVersion and kind have no shape of KEP-2091; known here: v0.1.7, v0.1.0",
        ],
    );
}

#[test]
fn two_of_kep2091_with_one_name_in_two_groups_cannot_be_told_apart() {
    let policy = |version: &str| {
        format!(
            "{{apiVersion: {version}, kind: AdminNetworkPolicy, metadata: {{name: p}}, spec: {{priority: 1, subject: {{namespaceSelector: {{}}}}}}}}\n"
        )
    };
    check(
        &format!("{}---\n{}", policy("policy.networking.k8s.io/v1alpha1"), policy("kep2091.palisade.dev/v1alpha1")),
        &["kep2091/p"],
        &[
            "f.yaml:3:1: error[same-name-in-two-groups]: AdminNetworkPolicy.kep2091.palisade.dev p: `metadata.name`: an AdminNetworkPolicy of KEP-2091 has this name in another API group, and both would be called the same; this one is left out; rename or remove one of them",
        ],
    );
}

#[test]
fn annotations_without_effect_are_named() {
    let late = "{priority: 10, subject: {namespaces: {}}}";
    admin(
        "{name: p, annotations: {palisade.dev/network: a/b}}",
        late,
        &["anp/p"],
        &[
            "3:35: warning[annotation-without-effect]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/network\"]`: reserved (the network of its pods that the policy is about) and without effect in this version; the policy counts in full",
        ],
    );
    admin(
        "{name: p, annotations: {palisade.dev/log: all}}",
        late,
        &["anp/p"],
        &[
            "3:35: warning[annotation-without-effect]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/log\"]`: `all` is neither `accepted` nor `none`, and no rule (`ingress#N` or `egress#N`, N from 0); no accepted connection is logged",
        ],
    );
    // Enforced in full, since nobody knows what else was meant.
    admin(
        "{name: p, annotations: {palisade.dev/mode: aduit}}",
        late,
        &["anp/p"],
        &[
            "3:35: error[invalid-value]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/mode\"]`: nobody knows this mode; the policy counts in full; write `audit`, or leave the annotation out",
        ],
    );
    // Refused by what it is, and then nothing counts.
    admin(
        "{name: p, annotations: {palisade.dev/mode: [audit]}}",
        late,
        &[],
        &[
            "3:54: error[wrong-type]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/mode\"]`: this is a list, but the API wants a string",
        ],
    );
    admin(
        "{name: p, annotations: {palisade.dev/audit-set: new}}",
        late,
        &["anp/p"],
        &[
            "3:35: warning[annotation-without-effect]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/audit-set\"]`: means nothing without the mode; the policy counts in full; add `palisade.dev/mode: audit`, or remove it",
        ],
    );
    admin(
        "{name: p, annotations: {palisade.dev/shpe: v0.1.7, example.com/shape: x}}",
        late,
        &["anp/p"],
        &[
            "3:35: warning[annotation-without-effect]: AdminNetworkPolicy p: `metadata.annotations[\"palisade.dev/shpe\"]`: nobody knows this annotation; it has no effect; did you mean `palisade.dev/shape`?",
        ],
    );
}
