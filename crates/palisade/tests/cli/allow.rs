//! `palisade allow`: what to write, in every form, and what no NetworkPolicy can change.

use serde_json::{Value, json};
use snapbox::file;

use crate::mock_api::{MockApi, list};
use crate::{folder, palisade};

fn shop(rest: &str) -> snapbox::cmd::Command {
    palisade(&format!("allow -f examples/shop {rest}"))
}

#[test]
fn an_addition_to_a_policy_of_the_shop_in_every_form() {
    shop("shop/web shop/db 5432").assert().success().stdout_eq(file!["golden/allow.txt"]);
    shop("shop/web shop/db 5432 -o yaml").assert().success().stdout_eq(file!["golden/allow.yaml"]);
    shop("shop/web shop/db 5432 -o json").assert().success().stdout_eq(file!["golden/allow.json"]);
}

#[test]
fn each_side_that_denies_is_opened() {
    shop("shop/db shop/api http").assert().success().stdout_eq(file!["golden/allow-both-sides.txt"]);
    shop("shop/db shop/api http --new -o yaml").assert().success().stdout_eq(file!["golden/allow-both-sides.yaml"]);
}

#[test]
fn what_is_allowed_already_is_explained() {
    shop("shop/api shop/db 5432").assert().success().stdout_eq(file!["golden/allow-already.txt"]);
    let run = shop("shop/api shop/db 5432 -o yaml").assert().success();
    assert_eq!(run.get_output().stdout, b"", "nothing to apply");
}

#[test]
fn a_cluster_policy_makes_it_useless() {
    shop("blog/blog shop/web 8080").assert().code(1).stdout_eq(file!["golden/allow-useless.txt"]);
    let run = shop("blog/blog shop/web 8080 -o yaml").assert().code(1);
    assert_eq!(run.get_output().stdout, b"", "nothing to apply");
}

#[test]
fn nobody_is_isolated_unless_that_is_asked_for() {
    shop("shop/web blog/blog 8080").assert().code(1).stdout_eq(file!["golden/allow-baseline.txt"]);
    shop("shop/web blog/blog 8080 --isolate").assert().success().stdout_eq(file!["golden/allow-isolate.txt"]);
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema allowance").assert().success();
    let schema: Value = serde_json::from_slice(&schema.get_output().stdout).unwrap();
    for (question, code) in [("shop/db shop/api 8080", 0), ("blog/blog shop/web 8080", 1), ("shop/web blog/blog icmp --isolate", 0)] {
        let run = shop(&format!("{question} -o json")).assert().code(code);
        let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let errors: Vec<String> = jsonschema::validator_for(&schema).unwrap().iter_errors(&report).map(|it| it.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[test]
fn what_is_not_there_exits_2() {
    let said = |rest: &str, error: &str| shop(rest).assert().code(2).stderr_eq(error.to_owned());
    said("web shop/db 5432", &format!("error: FROM: `web`: a namespace is missing; write {}\n", palisade_forms()));
    said("shop/ shop/db 80", &format!("error: FROM: `shop/`: a name is missing after the slash; write {}\n", palisade_forms()));
    said("shop/web shop/db tpc/5432", "error: `tpc/5432`: `tpc` is not tcp, udp, sctp or icmp\n");
    said("shop/web shop/db 0", "error: `0`: ports are 1 to 65535\n");
    said("shop/web shop/db icmp/8", "error: `icmp/8`: icmp has no ports\n");
    said("shop/webb shop/db 80", "error: `shop/webb` is not among the pods and workloads that were read; did you mean `shop/web`?\n");
}

fn palisade_forms() -> &'static str {
    "namespace/pod, namespace/deploy/name, namespace/key=value[,key=value], svc/namespace/name, node/name, or an IP address"
}

const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: x, labels: {app: web, v: '1'}}, spec: {containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: job, namespace: x, labels: {app: web, v: '2'}}, spec: {containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: x, labels: {app: db}}, spec: {containers: [{name: a, image: a}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare, namespace: x}, spec: {containers: [{name: a, image: a}]}}
";

/// What is said about pods under one policy, without the first two lines and the last.
fn edit(policy: &str, question: &str, expected: &str) {
    let folder = folder(&[("pods.yaml", PODS), ("policy.yaml", policy)]);
    let run = palisade(&format!("allow {question} -o json -f pods.yaml -f policy.yaml")).current_dir(folder.path()).assert().code(0);
    let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let said = |it: &Value| it.get("diff").or(it.get("yaml")).and_then(Value::as_str).unwrap().to_owned();
    let changes: Vec<String> = report.get("changes").and_then(Value::as_array).unwrap().iter().map(said).collect();
    assert_eq!(changes.join("---\n"), expected);
    // What it says can be applied, and then it is allowed.
    let after = palisade(&format!("allow {question} -o yaml -f pods.yaml -f policy.yaml")).current_dir(folder.path()).assert().code(0);
    std::fs::write(folder.path().join("q.yaml"), &after.get_output().stdout).unwrap();
    let again =
        palisade(&format!("allow {question} -o json -f pods.yaml -f policy.yaml -f q.yaml")).current_dir(folder.path()).assert().code(0);
    let report: Value = serde_json::from_slice(&again.get_output().stdout).unwrap();
    assert_eq!(report.get("outcome"), Some(&json!("allowedAlready")));
}

const HEAD: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\n";

#[test]
fn comments_stay_where_they_are() {
    let policy = format!(
        "# Who may call the database.\n{HEAD}spec:\n  podSelector: {{matchLabels: {{app: db}}}}  # only it\n  ingress:\n    # The first.\n    - from:\n        - podSelector: {{matchLabels: {{app: x}}}}  # x\n        # and no other\n      ports: [{{port: 80}}]  # http\n    # The end.\n"
    );
    let expected = "--- policy.yaml
+++ policy.yaml
@@ -8,6 +8,8 @@
     # The first.
     - from:
         - podSelector: {matchLabels: {app: x}}  # x
+        - podSelector:
+            matchLabels: {app: web}
         # and no other
       ports: [{port: 80}]  # http
     # The end.
";
    edit(&policy, "x/web x/db 80", expected);
}

#[test]
fn a_port_is_added_where_the_peer_is_there() {
    let policy = format!(
        "{HEAD}spec:\n  podSelector: {{matchLabels: {{app: db}}}}\n  ingress:\n  - from: [{{podSelector: {{matchLabels: {{app: web}}}}}}]\n    ports: [{{port: 80}}] # http\n"
    );
    let expected = "--- policy.yaml
+++ policy.yaml
@@ -5,4 +5,4 @@
   podSelector: {matchLabels: {app: db}}
   ingress:
   - from: [{podSelector: {matchLabels: {app: web}}}]
-    ports: [{port: 80}] # http
+    ports: [{port: 80}, {protocol: TCP, port: 443}] # http
";
    edit(&policy, "x/web x/db 443", expected);
}

#[test]
fn lists_that_are_empty_or_missing_are_filled() {
    let spec = "spec:\n  podSelector: {matchLabels: {app: db}}\n  policyTypes: [Ingress]\n";
    let rule = "+  - from:\n+    - podSelector:\n+        matchLabels: {app: web}\n+    ports:\n+    - protocol: TCP\n+      port: 80\n";
    let head = "--- policy.yaml\n+++ policy.yaml\n";
    let missing = format!(
        "{head}@@ -4,3 +4,10 @@\n spec:\n   podSelector: {{matchLabels: {{app: db}}}}\n   policyTypes: [Ingress]\n+  ingress:\n{rule}"
    );
    edit(&format!("{HEAD}{spec}"), "x/web x/db 80 --edit", &missing);
    let empty = format!(
        "{head}@@ -4,4 +4,10 @@\n spec:\n   podSelector: {{matchLabels: {{app: db}}}}\n   policyTypes: [Ingress]\n-  ingress: [] # nobody\n+  ingress: # nobody\n{rule}"
    );
    edit(&format!("{HEAD}{spec}  ingress: [] # nobody\n"), "x/web x/db 80 --edit", &empty);
    let null =
        format!("{head}@@ -5,3 +5,9 @@\n   podSelector: {{matchLabels: {{app: db}}}}\n   policyTypes: [Ingress]\n   ingress:\n{rule}");
    edit(&format!("{HEAD}{spec}  ingress:\n"), "x/web x/db 80 --edit", &null);
}

#[test]
fn json_stays_json() {
    let policy = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "x"},
 "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"]}}
"#;
    let expected = r#"--- policy.yaml
+++ policy.yaml
@@ -1,2 +1,2 @@
 {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "x"},
- "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"]}}
+ "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"protocol": "TCP", "port": 80}]}]}}
"#;
    edit(policy, "x/web x/db 80 --edit", expected);
}

#[test]
fn a_new_policy_selects_nobody_who_was_not_isolated() {
    let policy = format!("{HEAD}spec: {{podSelector: {{matchLabels: {{v: '2'}}}}, policyTypes: [Ingress]}}\n");
    let expected = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: allow-db-to-job
  namespace: x
spec:
  podSelector:
    matchLabels: {app: web, v: \"2\"}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector:
        matchLabels: {app: db}
    ports:
    - protocol: UDP
      port: 53
";
    edit(&policy, "x/db x/job udp/53", expected);
}

#[test]
fn a_pod_without_labels_shares_what_it_gets() {
    let deny_all = format!("{HEAD}spec: {{podSelector: {{}}, policyTypes: [Ingress]}}\n");
    let folder = folder(&[("pods.yaml", PODS), ("policy.yaml", &deny_all)]);
    let run = palisade("allow x/db x/bare 80 -f pods.yaml -f policy.yaml").current_dir(folder.path()).assert().success();
    run.stdout_eq(file!["golden/allow-bare.txt"]);
}

#[test]
fn the_diff_of_a_file_with_carriage_returns_has_them() {
    let policy = format!(
        "{HEAD}spec:\n  podSelector: {{}}\n  ingress:\n  - ports: [{{port: 80}}]\n    from: []\n  - from:\n    - podSelector: {{}}\n"
    );
    let folder = folder(&[("pods.yaml", PODS), ("policy.yaml", &policy.replace('\n', "\r\n"))]);
    let ask = "allow 203.0.113.7 x/db 443 --edit -f pods.yaml -f policy.yaml";
    let run = palisade(ask).current_dir(folder.path()).assert().success();
    let said = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let (_, diff) = said.split_once("+++ policy.yaml\n").unwrap();
    let (_, diff) = diff.split_once("@@\n").unwrap();
    let (hunk, _) = diff.split_once("\n\n").unwrap();
    let lines: Vec<&str> = hunk.split('\n').collect();
    assert!(lines.iter().any(|it| it.starts_with('+')) && lines.iter().all(|it| it.ends_with('\r')), "{said:?}");
}

#[test]
fn a_text_that_cannot_be_edited_is_written_anew() {
    let policy = format!(
        "{HEAD}spec:\n  podSelector: {{matchLabels: {{app: db}}}}\n  policyTypes: [Ingress, Egress]\n  ingress: &both\n  - ports: [{{port: 81}}]\n  egress: *both\n"
    );
    let folder = folder(&[("pods.yaml", PODS), ("policy.yaml", &policy)]);
    let run = palisade("allow x/web x/db 80 --edit -f pods.yaml -f policy.yaml").current_dir(folder.path()).assert().success();
    run.stdout_eq(file!["golden/allow-anew.txt"]);
}

#[test]
fn a_service_without_pods_needs_no_policy() {
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: none, namespace: x}, spec: {selector: {app: none}, ports: [{port: 80}]}}";
    let folder = folder(&[("pods.yaml", PODS), ("service.yaml", service)]);
    let run = palisade("allow x/web svc/x/none 80 -f .").current_dir(folder.path()).assert().code(1);
    run.stdout_eq(
        "NO ENDPOINTS  x/web → svc/x/none  tcp/80    the Service has no ready pod behind this port, so no policy is asked\n\n\
         in the way: the Service has no ready pod behind this port, so no policy is asked\n",
    );
}

#[test]
fn a_cluster_is_asked_like_files() {
    let containers = json!([{ "name": "a", "image": "a" }]);
    let pod = |name: &str| json!({ "metadata": { "name": name, "namespace": "x", "labels": { "app": name } }, "spec": { "containers": containers } });
    let spec = json!({ "podSelector": { "matchLabels": { "app": "db" } }, "policyTypes": ["Ingress"], "ingress": [{ "ports": [{ "port": 81 }] }] });
    let policy = json!({ "metadata": { "name": "db", "namespace": "x" }, "spec": spec });
    let api = MockApi::start(
        list(&[]),
        &[
            ("/api/v1/namespaces", &[list(&[json!({ "metadata": { "name": "x" } })])]),
            ("/api/v1/pods", &[list(&[pod("db"), pod("web")])]),
            ("/apis/networking.k8s.io/v1/networkpolicies", &[list(&[policy])]),
        ],
    );
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "dev",
        "contexts": [{ "name": "dev", "context": { "cluster": "mock", "user": "someone" } }],
        "clusters": [{ "name": "mock", "cluster": { "server": format!("http://{}", api.address()) } }],
        "users": [{ "name": "someone", "user": {} }],
    });
    let folder = folder(&[("config", &config.to_string())]);
    let path = folder.path().display().to_string();
    let run = palisade(&format!("allow x/web x/db 80 --kubeconfig {path}/config")).assert().success();
    run.stdout_eq(file!["golden/allow-live.txt"]);
}

#[test]
fn a_policy_of_another_controller_is_not_written_over() {
    let closed = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: a, name: deny}\nspec: {podSelector: {}}\n";
    let theirs = closed.replace("name: deny", "name: allow-web-to-db, labels: {networking.k8s.io/policy-controller-name: other}");
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: a, name: {name}, labels: {{app: {name}}}}}\nspec: {{containers: [{{name: m, image: i}}]}}\n"
        )
    };
    let folder = folder(&[("a.yaml", &[closed.to_owned(), theirs, pod("web"), pod("db")].join("---\n"))]);
    let output = palisade(&format!("allow a/web a/db 5432 -o yaml -f {}", folder.path().display())).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("name: allow-web-to-db-2\n"), "{text}");
}

#[test]
fn the_address_of_a_node_is_that_of_everything_on_it() {
    let objects = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: a, name: deny}\nspec: {podSelector: {}}\n---\n\
        apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 192.168.0.1}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: db, labels: {app: db}}\nspec: {containers: [{name: m, image: i}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {namespace: u, name: agent}\nspec: {hostNetwork: true, nodeName: n1, containers: [{name: m, image: i}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {namespace: b, name: evil}\nspec: {hostNetwork: true, nodeName: n1, containers: [{name: m, image: i}]}\n";
    let folder = folder(&[("a.yaml", objects)]);
    let output = palisade(&format!("allow u/agent a/db 5432 -f {}", folder.path().display())).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("name: allow-node-to-db\n"), "{text}");
    assert!(
        text.contains("note: this is the address of node n1, so that it holds for everything on its network: b/evil, u/agent"),
        "{text}"
    );
}
