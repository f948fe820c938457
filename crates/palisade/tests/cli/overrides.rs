//! `palisade overrides`: what cluster policies make of NetworkPolicies and of each other, in every form.

use serde_json::{Value, json};
use snapbox::file;

use crate::{folder, palisade};

const SHOP: &str = "overrides -f examples/shop";

#[test]
fn the_shop_in_every_form() {
    palisade(SHOP).assert().code(1).stdout_eq(file!["golden/overrides.txt"]);
    palisade(&format!("{SHOP} -o md")).assert().code(1).stdout_eq(file!["golden/overrides.md"]);
    palisade(&format!("{SHOP} cnp/tenants -o json")).assert().code(1).stdout_eq(file!["golden/overrides.json"]);
}

#[test]
fn what_is_left_of_a_network_policy() {
    let both = "np/shop/web-from-everywhere np/shop/db-from-api";
    palisade(&format!("{SHOP} {both}")).assert().code(1).stdout_eq(file!["golden/overrides-np.txt"]);
    palisade(&format!("{SHOP} {both} -o md")).assert().code(1).stdout_eq(file!["golden/overrides-np.md"]);
    palisade(&format!("{SHOP} np/shop/db-from-api")).assert().code(0);
}

#[test]
fn who_may_not_see_cluster_policies_does_not() {
    let run = palisade(&format!("{SHOP} --redact")).assert().code(1).stdout_eq(file!["golden/overrides-redacted.txt"]);
    let mut all = run.get_output().stdout.clone();
    for form in ["json", "md"] {
        let run = palisade(&format!("{SHOP} --redact -o {form}")).assert().code(1);
        all.extend_from_slice(&run.get_output().stdout);
        all.extend_from_slice(&run.get_output().stderr);
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    for word in ["tenants", "monitoring", "scrape", "closed-by-default", "4-admins", "cnp/", "ClusterNetworkPolicy"] {
        assert!(!text.contains(word), "`{word}` is told:\n{text}");
    }
    let run = palisade(&format!("{SHOP} --redact cnp/tenants")).assert().code(2);
    run.stderr_eq("error: `cnp/tenants`: with `--redact` only NetworkPolicies can be asked about, as in np/NAMESPACE/NAME\n");
    let run = palisade(&format!("{SHOP} --redact np/shop/none")).assert().code(2);
    run.stderr_eq("error: `np/shop/none` was not read, or is for another controller; write one of np/shop/api-from-web, np/shop/db-from-api, np/shop/web-from-everywhere, …\n");
}

#[test]
fn what_is_noticed_of_cluster_policies_is_not_told_either() {
    let secret = "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: secret-one}\nspec: {priority: 5, subject: {namespaces: {}}}\n\
        ---\napiVersion: kep2091.palisade.dev/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: secret-two}\nspec: {priority: 5000, subject: {namespaceSelector: {}}}\n\
        ---\napiVersion: kep2091.palisade.dev/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: secret-three}\nspec: {priority: 5, subjet: {}}\n";
    let folder = folder(&[("secret.yaml", secret)]);
    for form in ["text", "json", "md"] {
        let output = palisade(&format!("{SHOP} -f {} --redact -o {form}", folder.path().display())).output().unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!told.contains("secret") && !told.contains("AdminNetworkPolicy"), "{told}");
        assert!(told.contains("a cluster policy was refused"), "{told}");
    }
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema overrides").assert().success();
    let schema: Value = serde_json::from_slice(&schema.get_output().stdout).unwrap();
    for rest in ["", "np/shop/web-from-everywhere cnp/tenants", "--redact"] {
        let run = palisade(&format!("{SHOP} {rest} -o json")).assert().code(1);
        let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let errors: Vec<String> = jsonschema::validator_for(&schema).unwrap().iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

fn cluster_policy(name: &str, priority: usize, subject: &str, action: &str, from: &str, port: u16) -> String {
    format!(
        "---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: {name}}}\nspec:\n  tier: Admin\n  priority: {priority}\n  \
         subject: {{pods: {{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app: {subject}}}}}}}}}\n  ingress:\n  - action: {action}\n    \
         from: [{{pods: {{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app: {from}}}}}}}}}]\n    protocols: [{{tcp: {{destinationPort: {{number: {port}}}}}}}]\n"
    )
}

#[test]
fn a_proposed_policy_is_held_against_the_cluster() {
    let folder = folder(&[("new.yaml", &cluster_policy("no-db", 50, "db", "Deny", "api", 5432))]);
    let path = folder.path().display().to_string();
    let run = palisade(&format!("{SHOP} --apply {path}/new.yaml")).assert().code(1);
    let text = String::from_utf8_lossy(&run.get_output().stdout).replace(&path, "$");
    snapbox::assert_data_eq!(text, file!["golden/overrides-apply.txt"]);
    let run = palisade(&format!("{SHOP} --apply examples/shop/4-admins.yaml")).assert().code(2);
    run.stderr_eq("error: `--apply`: no cluster policy in it is new or different; name the policies to ask about\n");
}

const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: x, labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: x, labels: {app: db}}, spec: {containers: [{name: a, image: a}]}}
";

/// How the first of two policies of one priority gets on with the second.
fn tie(second: &str, expected: &str, code: i32) {
    let policies = cluster_policy("first", 7, "db", "Deny", "web", 80) + second;
    let folder = folder(&[("pods.yaml", PODS), ("policies.yaml", &policies)]);
    let run = palisade("overrides cnp/first -o json -f .").current_dir(folder.path()).assert().code(code);
    let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let kind = report.pointer("/clusterPolicies/0/ties/0/kind").cloned();
    assert_eq!(kind, (!expected.is_empty()).then(|| json!(expected)), "{report:#}");
}

#[test]
fn equal_priorities_matter_where_they_can_be_seen_or_could() {
    tie(&cluster_policy("second", 7, "db", "Accept", "web", 80), "conflict", 1);
    // Nobody has both labels now, but a pod could be of any name.
    tie(&cluster_policy("second", 7, "db", "Accept", "other", 80).replace("app: other", "tier: other"), "possible", 0);
    tie(&cluster_policy("second", 7, "db", "Deny", "web", 80), "harmless", 0);
    tie(&cluster_policy("second", 7, "db", "Accept", "web", 81), "disjoint", 0);
    tie(&cluster_policy("second", 7, "web", "Accept", "web", 80), "disjoint", 0);
    tie(&cluster_policy("second", 8, "db", "Accept", "web", 80), "", 0);
}

#[test]
fn what_cannot_be_told_exits_2() {
    let said = |rest: &str, error: &str| palisade(&format!("overrides {rest}")).assert().code(2).stderr_eq(error.to_owned());
    said("-n shop", "error: `-n`: overrides are about the whole cluster, and policies and pods of other namespaces would not be read\n");
    said(
        "-f examples/shop cnp/none",
        "error: `cnp/none` was not read, or is for another controller; write one of cnp/monitoring, cnp/tenants, cnp/closed-by-default, \
         np/shop/api-from-web, np/shop/db-from-api, np/shop/web-from-everywhere, …\n",
    );
}
