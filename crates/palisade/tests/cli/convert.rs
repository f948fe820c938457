//! `palisade convert`: policies in another shape, what that loses, and whether reach is the same.

use serde_json::Value;
use snapbox::file;

use crate::{folder, palisade};

const TENANTS: &str = "-f crates/palisade/tests/cli/tenants.yaml";

#[test]
fn tenants_in_every_shape() {
    let run = |to: &str, code: i32| palisade(&format!("convert --to {to} {TENANTS}")).assert().code(code);
    run("clusternetworkpolicy", 0).stdout_eq(file!["golden/convert-cnp.yaml"]).stderr_eq(file!["golden/convert-cnp.txt"]);
    run("kep2091", 1).stdout_eq(file!["golden/convert-kep2091.yaml"]).stderr_eq(file!["golden/convert-kep2091.txt"]);
    run("adminnetworkpolicy", 1).stdout_eq(file!["golden/convert-anp.yaml"]).stderr_eq(file!["golden/convert-anp.txt"]);
}

#[test]
fn the_shop_without_cluster_policies() {
    let run = |rest: &str, code: i32| palisade(&format!("convert --to networkpolicy -f examples/shop {rest}")).assert().code(code);
    run("--pod-cidr 10.0.0.0/8", 0).stdout_eq(file!["golden/convert-np.yaml"]).stderr_eq(file!["golden/convert-np.txt"]);
    // A block of all addresses would let in pods whose addresses nobody knows.
    run("", 1).stdout_eq(file!["golden/convert-np-closed.yaml"]);
}

#[test]
fn what_stays_is_what_cannot_be_said() {
    let run = palisade(&format!("convert --to kep2091 --keep {TENANTS} cnp/out")).assert().success().stdout_eq("");
    let told = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(told.contains("note: cnp/out: it stays what it is, since this shape cannot say all of it\n"), "{told}");
    assert!(told.ends_with("nothing to convert; reach is the same before and after\n"), "{told}");
}

#[test]
fn json_fits_its_schema() {
    let json = |line: &str| -> Value { serde_json::from_slice(&palisade(line).output().unwrap().stdout).unwrap() };
    let schema = json("schema conversion");
    for to in ["clusternetworkpolicy", "adminnetworkpolicy", "kep2091", "networkpolicy"] {
        let report = json(&format!("convert --to {to} {TENANTS} -o json"));
        jsonschema::validate(&schema, &report).unwrap_or_else(|error| panic!("{error}\n{report}"));
    }
    let report = json(&format!("convert --to kep2091 {TENANTS} -o json"));
    let at = |pointer: &str| report.pointer(pointer).and_then(Value::as_str);
    assert_eq!(at("/reach"), Some("changed"));
    assert_eq!(at("/losses/0/path"), Some("spec.egress[0].to[0].networks"));
    assert_eq!(at("/losses/0/weight"), Some("reach"));
    assert_eq!(at("/policies/0/apiVersion"), Some("kep2091.palisade.dev/v1alpha1"));
}

#[test]
fn policies_are_chosen_by_name() {
    let names = |line: &str| {
        let run = palisade(&format!("convert --to clusternetworkpolicy {TENANTS} {line}")).assert().success();
        let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
        text.lines().filter_map(|it| it.strip_prefix("  name: ")).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(names("kep2091/tenants"), ["tenants-blue", "tenants-red"]);
    assert_eq!(names("base"), ["base-blue", "base-none", "base-red1", "base-red2"]);
    assert_eq!(names("cnp/out"), Vec::<String>::new());
}

const DEVELOPERS: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {}}
";

#[test]
fn what_cannot_be_done_exits_2() {
    let fails = |line: &str, told: &str| palisade(&format!("convert {line}")).assert().code(2).stdout_eq("").stderr_eq(told.to_owned());
    let files = folder(&[("np.yaml", DEVELOPERS)]);
    let alone = files.path().display();
    fails(
        &format!("--to clusternetworkpolicy -f {alone}"),
        "error: no cluster policy was read; a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted\n",
    );
    fails(
        &format!("--to clusternetworkpolicy -f {alone} np/shop/closed"),
        "error: `np/shop/closed`: a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted\n",
    );
    fails(
        &format!("--to kep2091 {TENANTS} cnp/none"),
        "error: `cnp/none`: no such policy; there are `kep2091/tenants`, `cnp/out`, `kep2091/base`\n",
    );
    fails(
        &format!("--to networkpolicy {TENANTS} cnp/out"),
        "error: `--to networkpolicy` takes all cluster policies at once, since what each lets pass depends on the others: name none\n",
    );
    fails(&format!("--to kep2091 {TENANTS} --pod-cidr 10.0.0.0/8"), "error: `--pod-cidr` is for `--to networkpolicy`\n");
}

const LATE: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: first}
spec:
  priority: 7
  subject: {namespaces: {}}
  egress:
  - {action: Allow, to: [{networks: [10.0.0.0/8]}], ports: [{portRange: {start: 80, end: 90}}]}
";

#[test]
fn without_pods_nothing_is_compared() {
    let files = folder(&[("anp.yaml", LATE)]);
    let path = files.path().display();
    let whole = palisade(&format!("convert --to clusternetworkpolicy -f {path}")).assert().success();
    let told = "1 policy written for anp/first\nnote: no pod or workload was read, so reach before and after was not compared\n";
    whole.stderr_eq(told).stdout_eq(
        "\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata:
  name: first
spec:
  tier: Admin
  priority: 7
  subject:
    namespaces: {}
  egress:
  - action: Accept
    to:
    - networks:
      - \"10.0.0.0/8\"
    protocols:
    - tcp: {destinationPort: {range: {start: 80, end: 90}}}
",
    );
    palisade(&format!("convert --to kep2091 -f {path}")).assert().code(2);
}

/// Two tenants, and two policies about them.
const SHARED: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: a, labels: {tenant: red}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: a, labels: {app: web}}
spec: {containers: [{name: c, image: x}]}
status: {phase: Running, podIPs: [{ip: 10.1.0.1}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: b, labels: {tenant: blue}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: b, labels: {app: web}}
spec: {containers: [{name: c, image: x}]}
status: {phase: Running, podIPs: [{ip: 10.1.1.1}]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: tenants}
spec:
  priority: 50
  subject: {namespaceSelector: {matchExpressions: [{key: tenant, operator: Exists}]}}
  ingress:
  - {action: Deny, l4Selector: {allPorts: true}, from: [{namespaces: {notSameLabels: [tenant]}}]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: base}
spec: {tier: Baseline, priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
";

const FOREIGN: &str = "
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: tenants-red, labels: {networking.k8s.io/policy-controller-name: another}}
spec: {tier: Admin, priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: cluster-policies, namespace: a, labels: {networking.k8s.io/policy-controller-name: another}}
spec: {podSelector: {}, policyTypes: [Ingress]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default, labels: {networking.k8s.io/policy-controller-name: another}}
spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
";

/// The names of what is written, and what is said beside it.
fn told(line: &str, files: &[(&str, &str)], code: i32) -> (Vec<String>, String) {
    let files = folder(files);
    let run = palisade(&format!("convert {line} -f {}", files.path().display())).assert().code(code);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let names = text(&run.get_output().stdout).lines().filter_map(|it| it.strip_prefix("  name: ")).map(str::to_owned).collect();
    (names, text(&run.get_output().stderr))
}

#[test]
fn the_names_of_other_controllers_are_taken() {
    let files = [("shared.yaml", SHARED), ("foreign.yaml", FOREIGN)];
    assert_eq!(told("--to clusternetworkpolicy", &files, 0).0, ["tenants-blue", "tenants-red-kep2091"]);
    assert_eq!(told("--to networkpolicy", &files, 0).0, ["cluster-policies-2", "cluster-policies"]);
    let (names, said) = told("--to adminnetworkpolicy", &files, 0);
    assert_eq!(names, ["tenants-blue", "tenants-red"]);
    assert!(
        said.contains("cnp/base `metadata.name`: there can be one BaselineAdminNetworkPolicy only, and that is for another controller")
    );
    assert!(said.contains("note: cnp/base: it stays what it is"), "{said}");
}

/// Two Baseline policies of one subject, for different controllers.
const LABELLED: &str = "
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: b1, labels: {networking.k8s.io/policy-controller-name: palisade}}
spec: {tier: Baseline, priority: 1, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {matchLabels: {tenant: blue}}}]}]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: b2}
spec: {tier: Baseline, priority: 2, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
";

#[test]
fn policies_for_different_controllers_are_not_joined() {
    let cluster = SHARED.split("---\napiVersion: policy").next().unwrap();
    let files = [("cluster.yaml", cluster), ("labelled.yaml", LABELLED)];
    let (names, said) = told("--to adminnetworkpolicy", &files, 1);
    assert_eq!(names, ["default"]);
    assert!(said.contains("  cnp/b2 `metadata.labels`: there can be one BaselineAdminNetworkPolicy only"), "{said}");
    let (names, said) = told("--to networkpolicy", &files, 2);
    assert!(names.is_empty(), "{names:?}");
    assert!(said.contains("has no value on `cnp/b2`; `palisade` on `cnp/b1`;"), "{said}");
    let alike = LABELLED.replace("{name: b2}", "{name: b2, labels: {networking.k8s.io/policy-controller-name: palisade}}");
    let (names, _) = told("--to networkpolicy", &[("cluster.yaml", cluster), ("alike.yaml", &alike)], 0);
    assert_eq!(names, ["cluster-policies", "cluster-policies"]);
}

const VAULT: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: vault}
spec:
  priority: 1
  subject: {namespaceAndPodSelector: {namespaceSelector: {matchLabels: {tenant: red}}, podSelector: {matchLabels: {app: vault}}}}
  ingress:
  - {action: Deny, l4Selector: {allPorts: true}, from: [{namespaces: {notSelf: true}}, {namespaces: {self: true}}]}
";

#[test]
fn namespaces_without_a_subject_are_spoken_of() {
    let cluster = SHARED.split("---\napiVersion: policy").next().unwrap();
    let files = [("cluster.yaml", cluster), ("vault.yaml", VAULT)];
    assert_eq!(told("--to networkpolicy", &files, 0).0, ["cluster-policies-app-vault"]);
    assert_eq!(told("--to clusternetworkpolicy", &files, 0).0, ["vault-a"]);
    let of_pods = VAULT.replace(
        "[{namespaces: {notSelf: true}}, {namespaces: {self: true}}]",
        "[{namespacedPods: {namespaces: {self: true}, pods: {sameLabels: [app]}}}]",
    );
    let (names, said) = told("--to networkpolicy", &[("cluster.yaml", cluster), ("vault.yaml", &of_pods)], 0);
    assert!(names.is_empty(), "{names:?}");
    assert!(said.contains("written instead: nothing, since it selects no pod now; pods that come later are not covered"), "{said}");
}

#[test]
fn a_tenant_without_pods_has_its_policy() {
    let green = "apiVersion: v1\nkind: Namespace\nmetadata: {name: g, labels: {tenant: green}}\n";
    let files = [("shared.yaml", SHARED), ("green.yaml", green)];
    assert_eq!(told("--to clusternetworkpolicy", &files, 0).0, ["tenants-blue", "tenants-green", "tenants-red"]);
}

#[test]
fn kep_2091_leaves_its_original_group() {
    let (names, said) = told("--to kep2091", &[("vault.yaml", VAULT)], 0);
    assert_eq!(names, ["vault"]);
    assert!(said.starts_with("1 policy written for kep2091/vault\n"), "{said}");
    let ours = VAULT.replace("policy.networking.k8s.io", "kep2091.palisade.dev");
    assert!(told("--to kep2091", &[("vault.yaml", &ours)], 0).0.is_empty());
}

const REMARKED: &str = "
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: c}
spec:
  tier: Admin
  priority: 3
  subject: {namespaces: {}}
  # about egress
  egress:
  # ticket 4711: partner
  - action: Accept
    to: [{networks: [192.0.2.0/24]}, {nodes: {}}]
  # rest
  - action: Deny
    to: [{namespaces: {}}]
";

#[test]
fn a_rule_that_is_left_out_leaves_its_comments() {
    let files = folder(&[("c.yaml", REMARKED)]);
    let run = palisade(&format!("convert --to kep2091 -f {}", files.path().display())).assert().code(2);
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(text.starts_with("# about egress\n# ticket 4711: partner\napiVersion: "), "{text}");
    assert!(text.contains("  egress:\n  # rest\n  - action: Deny\n"), "{text}");
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert_eq!(said.matches("written instead: nothing: the rule is left out\n").count(), 2, "{said}");
}

#[test]
fn a_loss_gives_its_own_reason() {
    let early = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: early}
spec:
  priority: 50
  subject: {namespaces: {}}
  ingress:
  - {action: Deny, from: [{namespaces: {notSameLabels: [tenant]}}]}
";
    let cluster = SHARED.split("---\napiVersion: policy").next().unwrap();
    let (_, said) = told("--to kep2091", &[("cluster.yaml", cluster), ("early.yaml", early)], 0);
    assert!(said.contains("anp/early `spec`: `notSameLabels` of KEP-2091 means something else"), "{said}");
    let out = REMARKED.replace("metadata: {name: c}", "metadata: {name: out}").replace("priority: 3", "priority: 9");
    let (_, said) = told("--to networkpolicy", &[("cluster.yaml", cluster), ("vault.yaml", VAULT), ("out.yaml", &out)], 0);
    assert!(said.contains("cnp/out `spec`: egress: ") && !said.contains("kep2091/vault `spec`: egress"), "{said}");
}

#[test]
fn what_there_is_nothing_of_is_said() {
    let nothing = |to: &str, file: &str, reason: &str| {
        let (_, said) = told(&format!("--to {to}"), &[("file.yaml", file)], 2);
        assert!(said.ends_with(&format!("error: {reason}\n")), "{said}");
    };
    let cluster = SHARED.split("---\napiVersion: policy").next().unwrap();
    nothing("clusternetworkpolicy", cluster, "no cluster policy was read, so there is nothing to convert");
    nothing(
        "networkpolicy",
        DEVELOPERS,
        "no cluster policy was read, and NetworkPolicies stay what they are, so there is nothing to convert",
    );
    nothing("kep2091", FOREIGN, "every cluster policy that was read is for another controller, and is not converted");
    let (_, said) = told("--to clusternetworkpolicy", &[("labelled.yaml", LABELLED)], 0);
    assert!(said.starts_with("nothing to convert: every cluster policy has this shape already\n"), "{said}");
}
