//! `palisade exposure`: to whom workloads are exposed, in every form.

use snapbox::file;

use crate::{folder, palisade};

const SHOP: &str = "exposure -f examples/shop";

#[test]
fn the_shop_in_every_form() {
    palisade(SHOP).assert().success().stdout_eq(file!["golden/exposure.txt"]);
    palisade(&format!("{SHOP} -o csv")).assert().success().stdout_eq(file!["golden/exposure.csv"]);
    palisade(&format!("{SHOP} -o md")).assert().success().stdout_eq(file!["golden/exposure.md"]);
    palisade(&format!("{SHOP} -o json --focus shop/web")).assert().success().stdout_eq(file!["golden/exposure.json"]);
}

#[test]
fn json_fits_its_schema() {
    let schema = palisade("schema exposure").output().unwrap().stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    let report = palisade(&format!("{SHOP} -o json")).output().unwrap().stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    jsonschema::validate(&schema, &report).unwrap_or_else(|error| panic!("{error}\n{report}"));
    assert_eq!(report.pointer("/rows").and_then(|it| it.as_array()).map(Vec::len), Some(10));
}

#[test]
fn what_must_not_be_makes_it_exit_1() {
    let exits = |rest: &str, code: i32| palisade(&format!("{SHOP} {rest}")).assert().code(code);
    exits("--fail-on none", 0);
    exits("--fail-on unprotected", 1);
    exits("--fail-on unprotected --direction ingress", 0);
    exits("--fail-on outside --direction ingress", 1);
    exits("--fail-on outside --direction ingress --focus shop/db", 0);
    // What is asked for is not what is shown.
    exits("--fail-on outside --direction ingress --only unprotected", 1).stdout_eq("no such workloads\n");
}

#[test]
fn only_the_worst_is_shown() {
    let csv = |rest: &str| palisade(&format!("{SHOP} -o csv {rest}")).assert().success();
    let only = |rest: &str| {
        let run = csv(rest);
        let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
        text.lines().skip(1).map(|it| it.split(',').take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<String>>()
    };
    assert_eq!(
        only("--only unprotected"),
        [
            "blog/blog[Deployment] egress",
            "monitoring/prometheus[Deployment] egress",
            "shop/api[Deployment] egress",
            "shop/web[Deployment] egress"
        ]
    );
    assert_eq!(only("--only open --direction ingress --focus shop"), ["shop/web[Deployment] ingress"]);
}

#[test]
fn a_namespace_is_whole_only_with_all_its_workloads() {
    let check = |rest: &str, expected: &str| {
        let run = palisade(&format!("{SHOP} {rest}")).assert().success();
        let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
        assert_eq!(text.lines().nth(2), Some(expected), "{text}");
    };
    check("--direction egress", "blog/blog, monitoring/prometheus, shop/api, shop/web (4)");
    check("--direction egress --only unprotected", "blog/blog, monitoring/prometheus, shop/api, shop/web (4)");
    check("--direction egress --only open", "blog/blog, monitoring/prometheus, shop/api, shop/web (4)");
    check("--direction ingress --only open", "monitoring/prometheus");
    check("--direction egress --focus shop --only unprotected", "shop/api, shop/web (2)");
}

#[test]
fn what_cannot_be_told_exits_2() {
    let fails = |rest: &str| palisade(&format!("{SHOP} {rest}")).assert().code(2);
    fails("--focus node/a").stderr_eq("error: `--focus`: `node/a`: nodes are not in the matrix; ask `palisade explain`\n");
    fails("--focus 203.0.113.7").stderr_eq(
        "error: `--focus 203.0.113.7`: exposure is told of workloads; `palisade matrix --from 203.0.113.7` shows what an address may open\n",
    );
    palisade("exposure -f crates/palisade/tests/cli/slips.yaml").assert().code(2).stdout_eq("");
}

const YET_TO_COME: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "y"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x", "labels": {"app": "a"}}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "y"}},
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a", "namespace": "x"},
   "spec": {"podSelector": {"matchLabels": {"app": "a"}}, "ingress": [
     {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "y"}}}], "ports": [{"port": 1}]},
     {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "later"}}}], "ports": [{"port": 2}]},
     {"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "spy"}}}], "ports": [{"port": 3}]},
     {"from": [{"namespaceSelector": {}}], "ports": [{"port": 4}]}]}}
]}"#;

#[test]
fn namespaces_yet_to_come_are_let_in_by_name_and_by_labels() {
    let folder = folder(&[("cluster.json", YET_TO_COME)]);
    let run = palisade(&format!("exposure -f {} --focus x --direction ingress", folder.path().display())).assert().success();
    run.stdout_eq(
        "ingress: who may reach them\n\nx/a\n  tiers           NetworkPolicy\n  whole cluster   TCP 1,4 by NetworkPolicy\n  \
         new namespaces  any: TCP 4 by NetworkPolicy\n                  pods with role=spy: TCP 3-4 by NetworkPolicy\n                  \
         namespace with name later: TCP 2,4 by NetworkPolicy\n",
    );
}
