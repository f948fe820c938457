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
    palisade(&format!("{SHOP} -o svg")).assert().success().stdout_eq(file!["golden/matrix.svg"].raw());
    palisade(&format!("{SHOP} -o html")).assert().success().stdout_eq(file!["golden/matrix.html"].raw());
    palisade(&format!("{SHOP} -o json --to shop/db")).assert().success().stdout_eq(file!["golden/matrix.json"]);
}

#[test]
fn json_fits_its_schema_with_and_without_rows() {
    let schema = palisade("schema matrix").output().unwrap().stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    for rest in ["", "--to shop/db --port 80", "--to shop/db", "--by namespace --denied"] {
        let csv = palisade(&format!("{SHOP} -o csv {rest}")).output().unwrap().stdout;
        let rows = String::from_utf8(csv).unwrap().lines().count() - 1;
        let text = palisade(&format!("{SHOP} -o json {rest}")).output().unwrap().stdout;
        let report: serde_json::Value = serde_json::from_slice(&text).unwrap();
        jsonschema::validate(&schema, &report).unwrap_or_else(|error| panic!("{error}\n{report}"));
        assert_eq!(report.pointer("/rows").and_then(|it| it.as_array()).map(Vec::len), Some(rows), "{rest}");
        // Written row by row, and as if it were written at once: up to the order of fields, which a value does not keep.
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<String>>();
        let commas = |text: &str| text.replace(",\n", "\n");
        let again = serde_json::to_string_pretty(&report).unwrap();
        assert_eq!(lines(&commas(&String::from_utf8(text).unwrap())), lines(&commas(&again)), "{rest}");
    }
}

/// A namespace of many pods that nothing protects.
fn crowd(count: usize) -> String {
    let pod = |at| format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}, namespace: x}}}}\n---\n");
    (0..count).map(pod).collect()
}

#[test]
fn a_picture_that_nobody_could_read_is_refused() {
    let many = folder(&[("cluster.yaml", &crowd(401))]);
    let path = many.path().display().to_string();
    palisade(&format!("matrix -f {path} -o svg")).assert().code(2).stdout_eq("").stderr_eq(
        "[..]error: `-o svg`: nobody can read a picture with 401 lines or columns (400 are the most); `--by namespace` or `--focus` make it \
         smaller, and so does `-o html`\n",
    );
    palisade(&format!("matrix -f {path} -o svg --by namespace")).assert().success();
    palisade(&format!("matrix -f {path} -o svg --from x/p1 --to x/p2")).assert().success();
}

#[test]
fn what_was_not_asked_about_is_grey() {
    let run = palisade(&format!("{SHOP} -o svg --focus shop/db")).assert().success();
    let svg = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(svg.contains("<title>shop/api[Deployment] → shop/db[StatefulSet]: TCP 5432</title>"), "{svg}");
    assert!(!svg.contains("blog"), "who has no row has no line:\n{svg}");
}

const PARTLY: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-0", "namespace": "x", "labels": {"n": "0"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "1", "controller": true}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-1", "namespace": "x", "labels": {"n": "1"},
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "1", "controller": true}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "namespace": "x", "labels": {"app": "db"}}},
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "first-only", "namespace": "x"},
   "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"n": "0"}}}, {"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 80}]}]}}
]}"#;

#[test]
fn what_holds_only_for_some_is_told_in_picture_and_page() {
    let folder = folder(&[("cluster.json", PARTLY)]);
    let form = |form: &str| {
        let run = palisade(&format!("matrix -f {} --to x/db -o {form}", folder.path().display())).assert().success();
        String::from_utf8_lossy(&run.get_output().stdout).into_owned()
    };
    let svg = form("svg");
    assert!(svg.contains("<title>x/w[StatefulSet] → x/db[Pod]: TCP 80 (some pods)</title>"), "{svg}");
    assert!(svg.contains("<title>x/db[Pod] ← outside: 192.0.2.0-192.0.2.255: TCP 80</title>"), "{svg}");
    assert_eq!(svg.matches("<rect class=\"s\"").count(), 3, "with the legend:\n{svg}");
    let html = form("html");
    assert!(html.contains("<td class=\"s\" title=\"x/w[StatefulSet] → x/db[Pod]: TCP 80 (some pods)\"></td>"), "{html}");
    assert!(html.contains("<th>192.0.2.0-192.0.2.255</th><td><ul><li><b>TCP 80</b> to x/db</li></ul></td>"), "{html}");
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

const TWO_PODS: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---
apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {addresses: [{type: InternalIP, address: 192.168.0.1}]}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a, labels: {app: p}}\nspec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {phase: Running, podIP: 10.0.0.1}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: q, namespace: a, labels: {app: q}}\nspec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {phase: Running, podIP: 10.0.0.2}\n---
apiVersion: v1\nkind: Service\nmetadata: {name: q, namespace: a}\nspec: {clusterIP: 10.96.0.1, selector: {app: q}, ports: [{port: 80}]}\n---
apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: x, namespace: a}
spec: {podSelector: {matchLabels: {app: p}}, policyTypes: [Egress], egress: [{to: [
  {ipBlock: {cidr: 10.0.0.2/32}}, {ipBlock: {cidr: 192.168.0.1/32}}, {ipBlock: {cidr: 10.96.0.1/32}}, {ipBlock: {cidr: 203.0.113.7/32}}]}]}
";

#[test]
fn addresses_of_the_cluster_are_not_outside_of_it() {
    let folder = folder(&[("all.yaml", TWO_PODS)]);
    let output = palisade(&format!("matrix -f {} --from a/p -o csv", folder.path().display())).output().unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    assert_eq!(rows, "src,dst,conn\na/p[Pod],a/q[Pod],All Connections\na/p[Pod],203.0.113.7-203.0.113.7[External],All Connections\n");
    let exposed = palisade(&format!("exposure -f {} --focus a/p --direction egress -o csv", folder.path().display())).output().unwrap();
    let rows = String::from_utf8(exposed.stdout).unwrap();
    assert!(rows.contains("203.0.113.7: All Connections") && !rows.contains("10.0.0.2") && !rows.contains("192.168"), "{rows}");
}

#[test]
fn policies_without_pods_are_no_answer() {
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db, namespace: shop}\nspec: {podSelector: {}}\n";
    let folder = folder(&[("policy.yaml", policy)]);
    let path = folder.path().display();
    for line in [format!("matrix -f {path}"), format!("exposure -f {path}"), format!("diff {path} {path}")] {
        let output = palisade(&line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}\n{said}");
        assert!(said.contains("nobody to answer about"), "{line}\n{said}");
    }
}

#[test]
fn a_workload_that_takes_the_network_of_its_node_is_told() {
    let deployment = |host: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: s}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: s}}
spec: {{selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{host} containers: [{{name: c, image: x}}]}}}}}}\n---
apiVersion: v1\nkind: Pod\nmetadata: {{name: db, namespace: s}}\n"
        )
    };
    let folder = folder(&[("old.yaml", &deployment("")), ("new.yaml", &deployment("hostNetwork: true,"))]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |line: String| {
        let output = palisade(&line).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(format!("diff {} {}", at("old.yaml"), at("new.yaml")));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("s/web[Deployment] uses the network of its node now"), "{said}");
    assert_eq!(run(format!("diff {} {} --fail-on closed", at("old.yaml"), at("new.yaml"))).0, Some(0));
    assert_eq!(run(format!("diff {} {} --fail-on closed", at("new.yaml"), at("old.yaml"))).0, Some(1));
    assert_eq!(run(format!("diff {} {} --fail-on any", at("old.yaml"), at("new.yaml"))).0, Some(1));
    let (code, said) = run(format!("matrix -f {}", at("new.yaml")));
    assert!(code == Some(0) && said.contains("where no policy selects them; left out here"), "{said}");
}

#[test]
fn an_owner_cannot_write_rows_of_its_own() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: a\n  ownerReferences:
    - {apiVersion: x/v1, kind: \"X]\\nto shop/db[StatefulSet]\", name: z, controller: true, uid: u}\n";
    let folder = folder(&[("pod.yaml", pod)]);
    let output = palisade(&format!("matrix -f {}", folder.path().display())).output().unwrap();
    let (rows, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(!rows.contains("shop/db"), "{rows}");
    assert!(said.contains("warning[odd-owner]"), "{said}");
}
