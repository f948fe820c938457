//! `palisade matrix`: who reaches whom, in every form.

use snapbox::file;

use crate::{folder, palisade};

const SHOP: &str = "matrix -f examples/shop";

#[test]
fn the_shop_in_every_form() {
    palisade(SHOP).assert().success().stdout_eq(file!["golden/matrix.txt"]);
    palisade(&format!("{SHOP} -o csv")).assert().success().stdout_eq(file!["golden/matrix.csv"]);
    palisade(&format!("{SHOP} -o md")).assert().success().stdout_eq(file!["golden/matrix.md"]);
    palisade(&format!("{SHOP} -o dot")).assert().success().stdout_eq(file!["golden/matrix.dot"]);
    palisade(&format!("{SHOP} -o json --to shop/db")).assert().success().stdout_eq(file!["golden/matrix.json"]);
}

#[test]
fn the_pairs_that_cannot_talk() {
    palisade(&format!("{SHOP} --denied")).assert().success().stdout_eq(file!["golden/matrix-denied.txt"]);
}

#[test]
fn ends_and_ports_are_picked_out() {
    let csv = |rest: &str| palisade(&format!("{SHOP} -o csv {rest}")).assert().success();
    csv("--to shop/db").stdout_eq("src,dst,conn\nshop/api[Deployment],shop/db[StatefulSet],TCP 5432\n");
    csv("--focus shop/sts/db --port 80").stdout_eq("src,dst,conn\n");
    csv("--from monitoring --to shop --port 8080")
        .stdout_eq("src,dst,conn\nmonitoring/prometheus[Deployment],shop/web[Deployment],TCP 8080\n");
    csv("--from 203.0.113.7 --to shop").stdout_eq("src,dst,conn\n0.0.0.0-255.255.255.255[External],shop/web[Deployment],TCP 8080\n");
    csv("--by namespace --from shop --to shop").stdout_eq("src,dst,conn\nshop[Namespace],shop[Namespace],\"TCP 5432,8080\"\n");
    csv("--by class --to shop/app=db").stdout_eq("src,dst,conn\nshop/api[Deployment],shop/db[StatefulSet],TCP 5432\n");
}

#[test]
fn what_the_matrix_has_no_row_for_is_an_error() {
    let fails = |rest: &str| palisade(&format!("{SHOP} {rest}")).assert().code(2);
    fails("--from node/a").stderr_eq("error: `--from`: `node/a`: nodes are not in the matrix; ask `palisade explain`\n");
    fails("--to shop/app=none").stderr_eq("error: `--to`: `shop/app=none` has no pod on the pod network\n");
    fails("--port icmp/8").stderr_eq("error: `--port icmp/8`: `icmp` has no ports; write tcp, udp or sctp\n");
    fails("--port 0").stderr_eq("error: `--port 0`: ports are 1 to 65535\n");
}

#[test]
fn a_matrix_without_a_refused_object_is_none() {
    let run = palisade("matrix -f crates/palisade/tests/cli/slips.yaml -o csv").assert().code(2).stdout_eq("");
    assert!(String::from_utf8_lossy(&run.get_output().stderr).contains("error[unknown-field]"));
}

const FAMILIES: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"},
   "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "x", "labels": {"app": "b"}},
   "status": {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]}},
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "b", "namespace": "x"},
   "spec": {"podSelector": {"matchLabels": {"app": "b"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}], "ports": [{"port": 80}]}]}}
]}"#;

#[test]
fn families_are_told_apart_only_where_they_differ() {
    let folder = folder(&[("cluster.json", FAMILIES)]);
    let path = folder.path().display();
    let run = palisade(&format!("matrix -f {path} -o csv --to x/b")).assert().success();
    run.stdout_eq(
        "src,dst,conn\nx/a[Pod],x/b[Pod],TCP 80 (IPv4)\n10.0.0.0-10.8.255.255[External],x/b[Pod],TCP 80\n10.10.0.0-10.255.255.255[External],x/b[Pod],TCP 80\n",
    );
}
