//! Documents that can be read, and objects that cannot be meant.

use crate::check;

/// A NetworkPolicy, given its spec in one line, which is the fourth.
fn policy(spec: &str, said: &[&str]) {
    let said: Vec<String> = said.iter().map(|it| format!("f.yaml:{it}")).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    check(
        &format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: x}}\nspec: {spec}\n"),
        &[],
        &said,
    );
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    policy("[]", &["4:7: error[wrong-type]: NetworkPolicy x/p: `spec`: this is a list, but the API wants a map"]);
    policy(
        "{podSelector: web}",
        &["4:21: error[wrong-type]: NetworkPolicy x/p: `spec.podSelector`: this is a string, but the API wants a map"],
    );
    policy(
        "{podSelector: {matchLabels: {app: 1}}}",
        &[
            "4:41: error[wrong-type]: NetworkPolicy x/p: `spec.podSelector.matchLabels.app`: this is a number, but the API wants a string; quote it",
        ],
    );
    policy(
        "{podSelector: {matchLabels: {app: yes}}}",
        &[
            "4:41: error[wrong-type]: NetworkPolicy x/p: `spec.podSelector.matchLabels.app`: this is a boolean, but the API wants a string; quote it",
        ],
    );
    policy(
        "{podSelector: {}, ingress: {from: []}}",
        &[
            "4:34: error[wrong-type]: NetworkPolicy x/p: `spec.ingress`: this is a map, but the API wants a list; write it as: ingress: [{from: []}]",
        ],
    );
    policy(
        "{podSelector: {}, ingress: [{ports: [{port: [80]}]}]}",
        &["4:51: error[wrong-type]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: this is a list, but the API wants an integer"],
    );
    policy(
        "{podSelector: {}, ingress: [null]}",
        &[
            "4:35: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0]`: an empty item would be a rule that allows everything; write `{}` if that is meant, or remove it",
        ],
    );
    policy(
        "{podSelector: {}, ingress: [{ports: [null]}]}",
        &[
            "4:44: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0]`: an empty item would be all TCP ports; write `{protocol: TCP}` if that is meant",
        ],
    );
}

#[test]
fn unknown_fields_are_refused_and_what_was_meant_is_said() {
    policy(
        "{podSelector: {matchlabels: {app: web}}}",
        &[
            "4:22: error[unknown-field]: NetworkPolicy x/p: `spec.podSelector.matchlabels`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; did you mean `matchLabels`? write it as: matchLabels: {app: web}",
        ],
    );
    policy(
        "{podSelector: {}, ingress: [{form: []}]}",
        &[
            "4:36: error[unknown-field]: NetworkPolicy x/p: `spec.ingress[0].form`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; did you mean `from`? write it as: from: []",
        ],
    );
    policy(
        "{podSelector: {}, ingress: [{to: []}]}",
        &[
            "4:36: error[unknown-field]: NetworkPolicy x/p: `spec.ingress[0].to`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; `to` does not belong here; here belong from, ports",
        ],
    );
    policy(
        "{podSelector: {}, ingress: [{from: [{podSelector: {}, serviceAccounts: {}}]}]}",
        &[
            "4:61: error[unknown-field]: NetworkPolicy x/p: `spec.ingress[0].from[0].serviceAccounts`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; known here: podSelector, namespaceSelector, ipBlock",
        ],
    );
    policy(
        "{podSelector: {}, policytypes: [Ingress]}",
        &[
            "4:25: error[unknown-field]: NetworkPolicy x/p: `spec.policytypes`: the API does not know this field; an API server drops it, and what is left can be wider than what was meant; did you mean `policyTypes`? write it as: policyTypes: [Ingress]",
        ],
    );
}

#[test]
fn impossible_blocks_are_refused() {
    let block = |block: &str, said: &str| policy(&format!("{{podSelector: {{}}, ingress: [{{from: [{{ipBlock: {block}}}]}}]}}"), &[said]);
    block(
        "{cidr: 10.0.0.0}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `10.0.0.0` has no prefix length; a single address ends in /32 or /128",
    );
    block(
        "{cidr: 10.0.0.0/33}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `10.0.0.0/33`: the prefix length must be 0 to 32",
    );
    block(
        "{cidr: 10.0.0.256/24}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `10.0.0.256` in `10.0.0.256/24` is not an IP address",
    );
    block(
        "{cidr: '::/129'}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `::/129`: the prefix length must be 0 to 128",
    );
    block(
        "{cidr: 10.0.0.0/+8}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `10.0.0.0/+8`: the prefix length must be 0 to 32",
    );
    block(
        "{cidr: ''}",
        "4:60: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: `` has no prefix length; a single address ends in /32 or /128",
    );
    block(
        "{except: [10.0.0.0/8]}",
        "4:53: error[missing-field]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.cidr`: this field is required",
    );
    block(
        "{cidr: 10.0.0.0/8, except: [11.0.0.0/16]}",
        "4:81: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.except[0]`: `11.0.0.0/16` is not a part of `10.0.0.0/8`",
    );
    block(
        "{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}",
        "4:81: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.except[0]`: `10.0.0.0/8` is not a part of `10.0.0.0/8`",
    );
    block(
        "{cidr: 10.0.0.0/8, except: ['fd00::/8']}",
        "4:81: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].from[0].ipBlock.except[0]`: `fd00::/8` is not a part of `10.0.0.0/8`",
    );
}

#[test]
fn impossible_ports_are_refused() {
    let port = |port: &str, said: &str| policy(&format!("{{podSelector: {{}}, ingress: [{{ports: [{port}]}}]}}"), &[said]);
    port("{port: 0}", "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `0` is not between 1 and 65535");
    port(
        "{port: 65536}",
        "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `65536` is not between 1 and 65535",
    );
    port("{port: -1}", "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `-1` is not between 1 and 65535");
    port(
        "{port: 80.5}",
        "4:51: error[wrong-type]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: this is a number that is not an integer, but the API wants an integer",
    );
    port(
        "{port: 1e999}",
        "4:51: error[wrong-type]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: this is a number that is not an integer, but the API wants an integer",
    );
    port(
        "{port: 99999999999999999999}",
        "4:51: error[wrong-type]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: this is a number that is not an integer, but the API wants an integer",
    );
    port(
        "{port: '80'}",
        "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `80` is not a port name: at most 15 lower-case letters, digits and single `-`, with a letter; write the number without quotes",
    );
    port(
        "{port: ''}",
        "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `` is not a port name: at most 15 lower-case letters, digits and single `-`, with a letter",
    );
    port(
        "{port: no--where}",
        "4:51: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].port`: `no--where` is not a port name: at most 15 lower-case letters, digits and single `-`, with a letter",
    );
    port(
        "{port: 443, endPort: 80}",
        "4:65: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].endPort`: endPort `80` is below port `443`",
    );
    port(
        "{port: http, endPort: 80}",
        "4:66: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].endPort`: endPort cannot be combined with the named port `http`",
    );
    port(
        "{endPort: 80}",
        "4:54: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].endPort`: endPort needs a port to start from",
    );
    port(
        "{protocol: tcp, port: 80}",
        "4:55: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].protocol`: `tcp` is not a protocol: TCP, UDP or SCTP",
    );
    port(
        "{protocol: '', port: 80}",
        "4:55: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].protocol`: an empty protocol; write TCP, UDP or SCTP",
    );
    port(
        "{protocol: ICMP}",
        "4:55: error[invalid-value]: NetworkPolicy x/p: `spec.ingress[0].ports[0].protocol`: `ICMP` is not a protocol: TCP, UDP or SCTP",
    );
}

#[test]
fn impossible_selectors_are_refused() {
    let expression = |it: &str, said: &str| policy(&format!("{{podSelector: {{matchExpressions: [{it}]}}}}"), &[said]);
    expression(
        "{key: '', operator: Exists}",
        "4:47: error[invalid-value]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].key`: `` is not a label key: `[prefix/]name`, where the prefix is a DNS name",
    );
    expression(
        "{operator: Exists}",
        "4:41: error[missing-field]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].key`: this field is required",
    );
    expression(
        "{key: app, operator: Has}",
        "4:62: error[invalid-value]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].operator`: `Has` is not an operator: In, NotIn, Exists or DoesNotExist",
    );
    expression(
        "{key: app, operator: In, values: []}",
        "4:74: error[invalid-value]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].values`: `In` needs at least one value",
    );
    expression(
        "{key: app, operator: Exists, values: [web]}",
        "4:78: error[invalid-value]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].values`: `Exists` takes no values",
    );
    expression(
        "{key: app, operator: In, values: ['a b']}",
        "4:75: error[invalid-value]: NetworkPolicy x/p: `spec.podSelector.matchExpressions[0].values[0]`: `a b` is not a label value: at most 63 letters, digits, `-`, `_`, `.`, beginning and ending with a letter or digit",
    );
}

#[test]
fn kinds_that_are_not_read_matter_only_where_policies_are_meant() {
    let kind = |version: &str, kind: &str, said: &[&str]| {
        check(&format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: p, namespace: x}}\n"), &[], said);
    };
    kind("v1", "ConfigMap", &[]);
    kind("networking.k8s.io/v1", "Ingress", &[]);
    kind("example.com/v1", "NetworkPolicyy", &[]);
    kind(
        "networking.k8s.io/v1",
        "NetworkPolcy",
        &[
            "f.yaml:2:7: error[unknown-kind-of-object]: NetworkPolcy x/p: `NetworkPolcy` is not a kind of `networking.k8s.io/v1`; did you mean `NetworkPolicy`?",
        ],
    );
    kind(
        "networking.k8s.io/v1",
        "networkpolicy",
        &[
            "f.yaml:2:7: error[unknown-kind-of-object]: networkpolicy x/p: `networkpolicy` is not a kind of `networking.k8s.io/v1`; did you mean `NetworkPolicy`?",
        ],
    );
    kind(
        "networking.k8s.io/v1",
        "NetworkPolicies",
        &[
            "f.yaml:2:7: error[unknown-kind-of-object]: NetworkPolicies x/p: `NetworkPolicies` is not a kind of `networking.k8s.io/v1` that is read, so no verdict can be trusted",
        ],
    );
    kind(
        "networking.k8s.io/v1beta1",
        "NetworkPolicy",
        &[
            "f.yaml:2:7: error[unknown-version]: NetworkPolicy x/p: `networking.k8s.io/v1beta1` is not a version of NetworkPolicy that is read; write `apiVersion: networking.k8s.io/v1`",
        ],
    );
    kind(
        "apps/v1",
        "Deploymnt",
        &["f.yaml:2:7: error[unknown-kind-of-object]: Deploymnt x/p: `Deploymnt` is not a kind of `apps/v1`; did you mean `Deployment`?"],
    );
    kind(
        "cilium.io/v2",
        "CiliumNetworkPolicy",
        &[
            "f.yaml:2:7: warning[foreign-policy]: CiliumNetworkPolicy x/p: `cilium.io/v2` CiliumNetworkPolicy belongs to another policy engine and is no part of the verdict",
        ],
    );
    kind(
        "policy.networking.k8s.io/v1alpha2",
        "AdminNetworkPolicy",
        &[
            "f.yaml:2:7: error[unknown-version]: AdminNetworkPolicy p: `policy.networking.k8s.io/v1alpha2` is not a version of AdminNetworkPolicy that is read; write `apiVersion: policy.networking.k8s.io/v1alpha1`",
        ],
    );
    kind(
        "kep2091.palisade.dev/v1alpha1",
        "BaselineAdminNetworkPolicy",
        &[
            "f.yaml:2:7: error[unknown-version]: BaselineAdminNetworkPolicy p: `kep2091.palisade.dev/v1alpha1` is not a version of BaselineAdminNetworkPolicy that is read; write `apiVersion: policy.networking.k8s.io/v1alpha1`",
        ],
    );
    kind(
        "kep2091.palisade.dev/v1alpha1",
        "NewPolicy",
        &[
            "f.yaml:2:7: error[unknown-kind-of-object]: NewPolicy x/p: `NewPolicy` is not a kind of `kep2091.palisade.dev/v1alpha1` that is read, so no verdict can be trusted",
        ],
    );
    check("apiVersion: v1\nmetadata: {name: a}\n", &[], &["f.yaml:1:1: error[missing-field]: `kind`: an object needs `kind`"]);
    check(
        "kind: Pod\nmetadata: {name: a}\n",
        &[],
        &["f.yaml:1:1: error[missing-field]: Pod default/a: `apiVersion`: an object needs `apiVersion`"],
    );
}

#[test]
fn of_two_objects_with_one_name_the_later_counts() {
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}\n",
        &["default/a"],
        &[
            "f.yaml:3:1: warning[duplicate-object]: Pod default/a: the same object was read before at f.yaml:1:1; this one replaces it; keep one of them",
        ],
    );
    // What is refused takes the earlier one with it: it is not what the user has now.
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: 5}\n",
        &[],
        &["f.yaml:3:56: error[wrong-type]: Pod default/a: `spec`: this is a number, but the API wants a map"],
    );
}

#[test]
fn objects_without_a_name_are_named_by_their_place() {
    check(
        "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: x}\n",
        &["default/f.yaml:1", "x/f.yaml:4"],
        &[
            "f.yaml:1:1: warning[nameless]: Pod default/f.yaml:1: `metadata.name`: the object has no name, and is named by its place; give it a `metadata.name`; an API server refuses it without one",
            "f.yaml:4:1: warning[nameless]: Pod x/f.yaml:4: `metadata.name`: the object has no name, and is named by its place; give it a `metadata.name`; an API server refuses it without one",
        ],
    );
}

#[test]
fn one_bad_item_of_a_list_leaves_the_others() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- {apiVersion: v1, kind: Pod, metadata: {name: 5}}
- hello
- {apiVersion: v1, kind: Pod, metadata: {name: b}}
";
    check(
        text,
        &["default/a", "default/b"],
        &[
            "f.yaml:6:48: error[wrong-type]: Pod default/f.yaml:6: `metadata.name`: this is a number, but the API wants a string; quote it",
            "f.yaml:7:3: warning[not-an-object]: not a Kubernetes object (no apiVersion, no kind), and ignored",
        ],
    );
}

#[test]
fn lists_are_taken_apart_whatever_they_hold() {
    check("{apiVersion: v1, kind: List, items: null}\n", &[], &[]);
    check("{apiVersion: v1, kind: List}\n", &[], &[]);
    check(
        "{apiVersion: v1, kind: List, items: {a: b}}\n",
        &[],
        &[
            "f.yaml:1:37: error[wrong-type]: List default/f.yaml:1: `items`: this is a map, but the API wants a list; start each entry with `- `",
        ],
    );
    check("{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}]}\n", &["default/a"], &[]);
    check(
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}]}\n",
        &["default/a"],
        &[],
    );
}

#[test]
fn numbers_are_what_kubectl_takes_them_for() {
    let up_to = |end: &str| {
        let spec = format!("{{podSelector: {{}}, ingress: [{{ports: [{{port: 1, endPort: {end}}}]}}]}}");
        let text = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: x}}\nspec: {spec}\n");
        let policy = palisade_testkit::check::snapshot("f.yaml", &text).model.policies.pop()?;
        Some(policy.rules.ingress[0].ports.clone())
    };
    for eighty in ["0x50", "0o120", "0120", "0b1010000", "+80", "8_0"] {
        assert!(up_to(eighty).is_some() && up_to(eighty) == up_to("80"), "{eighty}");
    }
    for refused in ["0x-50", "0x+50", "-0x-8000000000000000", "--80", "+-80", "0x", "0b2", "0o8", "'80'"] {
        assert_eq!(up_to(refused), None, "{refused}");
    }
}
