//! `palisade diff`: what a change opens and closes, in every form, from files and from a cluster.

use serde_json::{Value, json};
use snapbox::file;

use crate::mock_api::{MockApi, list};
use crate::{folder, palisade, root};

const SHOP: &str = "diff examples/shop --apply examples/shop.change.yaml";

#[test]
fn a_change_to_the_shop_in_every_form() {
    palisade(SHOP).assert().code(1).stdout_eq(file!["golden/diff.txt"]);
    palisade(&format!("{SHOP} -o csv")).assert().code(1).stdout_eq(file!["golden/diff.csv"]);
    palisade(&format!("{SHOP} -o md")).assert().code(1).stdout_eq(file!["golden/diff.md"]);
    palisade(&format!("{SHOP} -o html")).assert().code(1).stdout_eq(file!["golden/diff.html"]);
    palisade(&format!("{SHOP} -o json")).assert().code(1).stdout_eq(file!["golden/diff.json"]);
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema diff").assert().success();
    let schema: Value = serde_json::from_slice(&schema.get_output().stdout).unwrap();
    let run = palisade(&format!("{SHOP} -o json")).assert().code(1);
    let report: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&schema).unwrap().iter_errors(&report).map(|it| it.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn exit_codes_are_for_what_is_looked_for() {
    for (fail_on, both, only_closed, nothing) in [("opened", 1, 0, 0), ("closed", 1, 1, 0), ("any", 1, 1, 0), ("none", 0, 0, 0)] {
        palisade(&format!("{SHOP} --fail-on {fail_on}")).assert().code(both);
        palisade(&format!("{SHOP} --fail-on {fail_on} --port 8080")).assert().code(only_closed);
        palisade(&format!("diff examples/shop examples/shop --fail-on {fail_on}"))
            .assert()
            .code(nothing)
            .stdout_eq("no connection changes\n");
    }
}

#[test]
fn ends_and_ports_are_picked_out() {
    let csv = |rest: &str| palisade(&format!("{SHOP} --fail-on none -o csv {rest}")).assert().success();
    let head = "change,src,dst,conn,before,after\n";
    let closed = "closed,any address,shop/web[Deployment],TCP 8080,ingress: rule 0 of NetworkPolicy shop/web-from-everywhere,\
                  ingress: isolated by NetworkPolicy shop/web-from-everywhere\n";
    csv("--focus 203.0.113.7").stdout_eq(format!("{head}{}", closed.replace("any address", "any IPv4 address")));
    csv("--port 8080").stdout_eq(format!("{head}{closed}"));
    csv("--focus blog").stdout_eq(head);
    let run = palisade(&format!("{SHOP} --focus nowhere/app=x")).assert().code(2);
    run.stderr_eq("error: `--focus`: `nowhere/app=x` has no pod on the pod network\n");
}

/// Twelve namespaces with two Deployments each.
fn many() -> String {
    let mut all = String::new();
    for namespace in 1..=12 {
        all.push_str(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: n{namespace:02}}}}}\n---\n"));
        for app in ["web", "db"] {
            let spec = format!(
                "{{selector: {{}}, template: {{metadata: {{labels: {{app: {app}}}}}, spec: {{containers: [{{name: a, image: a}}]}}}}}}"
            );
            let metadata = format!("{{name: {app}, namespace: n{namespace:02}}}");
            all.push_str(&format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {metadata}, spec: {spec}}}\n---\n"));
        }
    }
    all
}

const CLUSTER_WIDE: &str = "
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: databases}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}
  ingress:
    - {action: Accept, from: [{namespaces: {matchLabels: {kubernetes.io/metadata.name: n01}}}]}
    - {action: Deny, from: [{namespaces: {}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: quiet, namespace: n02}
spec: {podSelector: {}, policyTypes: [Egress]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cache, namespace: n03}
spec: {selector: {}, template: {metadata: {labels: {app: cache}}, spec: {containers: [{name: a, image: a}]}}}
";

#[test]
fn a_change_to_the_whole_cluster_is_a_few_lines() {
    let folder = folder(&[("old.yaml", &many()), ("over.yaml", CLUSTER_WIDE)]);
    let path = folder.path().display().to_string();
    let run = palisade(&format!("diff {path}/old.yaml --apply {path}/over.yaml --fail-on closed")).assert().code(1);
    let text = String::from_utf8_lossy(&run.get_output().stdout).replace(&path, "$");
    snapbox::assert_data_eq!(text, file!["golden/diff-cluster-wide.txt"]);
}

#[test]
fn versions_that_cannot_be_read_are_an_error_that_says_which() {
    let fails = |line: &str| {
        let run = palisade(line).assert().code(2).stdout_eq("");
        String::from_utf8_lossy(&run.get_output().stderr).into_owned()
    };
    let slips = "crates/palisade/tests/cli/slips.yaml";
    assert!(
        fails(&format!("diff {slips} examples/shop"))
            .ends_with("objects of the old version were refused, so there is no difference that can be trusted\n")
    );
    assert!(
        fails(&format!("diff examples/shop {slips}"))
            .ends_with("objects of the new version were refused, so there is no difference that can be trusted\n")
    );
    let over = fails(&format!("diff examples/shop --apply {slips}"));
    assert!(over.starts_with("new version:\n") && over.contains("error[unknown-field]"), "{over}");
    assert!(fails("diff examples/shop /nowhere.yaml").contains("the new version"));
    assert_eq!(fails("diff examples/shop"), "error: NEW is missing; or say with `--apply FILE` what would be put over OLD\n");
    assert_eq!(fails("diff - -"), "error: `-`: standard input can be read once\n");
    assert!(fails("diff").starts_with("error: OLD is missing"));
    assert!(fails("diff a b --apply c").starts_with("error: `--apply` is put over OLD"));
    assert!(fails("diff a --live --apply c").starts_with("error: with `--live` the cluster is the old version"));
    assert!(fails("diff --live").starts_with("error: `--live` is the old version"));
}

#[test]
fn one_version_may_come_from_standard_input() {
    let change = std::fs::read_to_string(root().join("examples/shop.change.yaml")).unwrap();
    let run = palisade("diff examples/shop --apply - --fail-on none").stdin(change).assert().success();
    let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(text.contains("isolated by NetworkPolicy shop/web-from-everywhere   -:2"), "{text}");
}

fn api() -> MockApi {
    let labels = json!({ "app": "db", "role": "leader", "pod-template-hash": "5d" });
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db-5d", "uid": "1", "controller": true }]);
    let containers = json!([{ "name": "a", "image": "a" }]);
    let db = json!({ "metadata": { "name": "db-5d-1", "namespace": "x", "labels": labels, "ownerReferences": owner },
                     "spec": { "containers": containers }, "status": { "podIPs": [{ "ip": "10.0.0.1" }] } });
    let web = json!({ "metadata": { "name": "web", "namespace": "x" }, "spec": { "containers": containers } });
    let template = json!({ "metadata": { "labels": { "app": "db", "role": "leader" } }, "spec": { "containers": containers } });
    let deployment = json!({ "metadata": { "name": "db", "namespace": "x" }, "spec": { "selector": {}, "template": template } });
    let selector = json!({ "podSelector": { "matchLabels": { "role": "leader" } }, "policyTypes": ["Ingress"] });
    let policy = json!({ "metadata": { "name": "leaders", "namespace": "x" }, "spec": selector });
    MockApi::start(
        list(&[]),
        &[
            ("/api/v1/namespaces", &[list(&[json!({ "metadata": { "name": "x" } })])]),
            ("/api/v1/pods", &[list(&[db, web])]),
            ("/apis/apps/v1/deployments", &[list(&[deployment])]),
            ("/apis/networking.k8s.io/v1/networkpolicies", &[list(&[policy])]),
        ],
    )
}

const FOLLOWER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: x}
spec: {selector: {}, template: {metadata: {labels: {app: db, role: follower}}, spec: {containers: [{name: a, image: a}]}}}
";

const LEADERS: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: leaders, namespace: x}
spec: {podSelector: {matchLabels: {role: leader}}, policyTypes: [Ingress], ingress: [{ports: [{port: 5432}]}]}
";

#[test]
fn a_cluster_is_compared_with_itself_after_a_change() {
    let api = api();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "dev",
        "contexts": [{ "name": "dev", "context": { "cluster": "mock", "user": "someone" } }],
        "clusters": [{ "name": "mock", "cluster": { "server": format!("http://{}", api.address()) } }],
        "users": [{ "name": "someone", "user": {} }],
    });
    let folder = folder(&[("config", &config.to_string()), ("follower.yaml", FOLLOWER), ("leaders.yaml", LEADERS)]);
    let path = folder.path().display().to_string();
    let live = |over: &str| {
        let run = palisade(&format!("diff --live --kubeconfig {path}/config --apply {path}/{over}")).assert().code(1);
        String::from_utf8_lossy(&run.get_output().stdout).replace(&path, "$")
    };
    snapbox::assert_data_eq!(live("leaders.yaml"), file!["golden/diff-live.txt"]);
    snapbox::assert_data_eq!(live("follower.yaml"), file!["golden/diff-live-labels.txt"]);
}
