//! `palisade verify` and `palisade lab verify`. Without root only what needs none is tried.

use crate::lab::Lab;
use crate::{folder, palisade, root};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(line: &str, code: i32) -> String {
    let output = palisade(line).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}\n{said}");
    said
}

/// The node has addresses of both families, so that a lab gives it none.
const PODS: &str = "
apiVersion: v1\nkind: Node\nmetadata: {name: one}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: InternalIP, address: 'fd00:11::1'}]}
---
apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: one, containers: [{name: m, image: i, ports: [{containerPort: 80}]}]}\nstatus: {podIPs: [{ip: 10.88.0.2}]}
---
apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: one, containers: [{name: m, image: i, ports: [{containerPort: 5432}]}]}\nstatus: {podIPs: [{ip: 10.88.0.3}]}
---
apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
";

/// What the agents of a lab are told.
const TOLD: &str = "--pod-link pod* --pod-cidr 10.88.0.0/16";

#[test]
fn a_node_of_a_lab_is_verified_saved_and_verified_again_from_the_file() {
    let Some(lab) = Lab::named("cli-verify") else { return };
    let folder = folder(&[("all.yaml", PODS)]);
    let manifests = folder.path().display();
    lab.says(&format!("up -f {manifests} --pod-cidr 10.88.0.0/16"), 0);
    let said = lab.says("verify", 0);
    assert!(said.contains("node one: the kernel does what policy says"), "{said}");
    let dump = folder.path().join("dump.json");
    let binary = snapbox::cmd::cargo_bin!("palisade").display().to_string();
    let inside = |rest: &str, code| lab.says(&format!("exec node/one -- {binary} verify -f {manifests} --node one {TOLD} {rest}"), code);
    inside(&format!("--save-dump {}", dump.display()), 0);
    let said = run(&format!("verify -f {manifests} {TOLD} --dump {}", dump.display()), 0);
    assert!(said.contains("node one: the kernel does what policy says"), "{said}");
    let other = run(&format!("verify -f {manifests} {TOLD} --node two --dump {}", dump.display()), 2);
    assert_eq!(other, "error: `--node two`: this dump is of node `one`\n");
    // Policies that the kernel was never told of.
    let open = crate::folder(&[("all.yaml", PODS.rsplit_once("---").unwrap().0)]);
    let said = run(&format!("verify -f {} {TOLD} --dump {}", open.path().display(), dump.display()), 1);
    assert!(said.contains("shop/web (10.88.0.2) → shop/db (10.88.0.3)") && said.contains("should be accepted"), "{said}");
    // The agent of the lab has the table.
    assert!(inside("--repair", 0).contains("the kernel does what policy says"));
    lab.says("exec node/one -- tc qdisc add dev pod1 clsact", 0);
    lab.says("exec node/one -- tc filter add dev pod1 ingress u32 match u32 0 0 action mirred egress redirect dev pod2", 0);
    let said = inside("", 1);
    assert!(said.contains("unenforceable[tc-filter]") && said.contains("`mirred redirect pod2`"), "{said}");
    assert!(inside("--repair", 2).contains("puts its tables back itself"));
    let json = lab.says("verify one -o json", 1);
    let schema = std::fs::read_to_string(root().join("docs/schema/verification.v1.json")).unwrap();
    let (schema, json) = (serde_json::from_str(&schema).unwrap(), serde_json::from_str(&json).unwrap());
    jsonschema::validate(&schema, &json).unwrap_or_else(|error| panic!("{error}\n{json:#}"));
    assert!(lab.says("verify nowhere", 2).contains("no node `nowhere`; there are one"));
}

#[test]
fn what_is_no_dump_is_refused_with_its_name() {
    let folder = folder(&[("all.yaml", PODS), ("other.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}")]);
    let verify = |rest: &str| run(&format!("verify -f {}/all.yaml {rest}", folder.path().display()), 2);
    assert!(verify("--dump /nowhere/dump.json").contains("`/nowhere/dump.json`"));
    let other = verify(&format!("--dump {}/other.json", folder.path().display()));
    assert!(other.contains("this is `v1` `Pod`, and a dump is `palisade.dev/v1` `KernelDump`"), "{other}");
    assert!(verify("").contains("--node"));
}
