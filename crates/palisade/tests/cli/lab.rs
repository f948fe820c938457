//! `palisade lab` and the demo on real packets. Each test has a lab of its own name, and ends it whatever happens. Without root every test says
//! so and passes.

use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use snapbox::cmd::{Command, cargo_bin};
use snapbox::file;

use crate::{folder, palisade, root};

const PATIENCE: Duration = Duration::from_secs(20);

/// A lab of the test's own name.
pub(crate) struct Lab(&'static str);

impl Lab {
    /// None, and a word about it, without root.
    pub(crate) fn named(name: &'static str) -> Option<Lab> {
        if is_root() { Some(Lab(name)) } else { None }
    }

    fn run(&self, line: &str) -> Output {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        palisade(&format!("lab {command} --name {} {rest}", self.0)).output().unwrap()
    }

    /// What a command prints, if it exits as it should.
    pub(crate) fn says(&self, line: &str, code: i32) -> String {
        let output = self.run(line);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "lab {line}\n{stdout}\n{stderr}");
        stdout + &stderr
    }

    fn process(&self) -> i32 {
        let status: serde_json::Value = serde_json::from_str(&self.says("status -o json", 0)).unwrap();
        i32::try_from(status.get("process").and_then(serde_json::Value::as_i64).unwrap()).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run("down");
    }
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
fn is_root() -> bool {
    if !geteuid().is_root() {
        eprintln!("skipped: needs root");
    }
    geteuid().is_root()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for something that comes by itself.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} has not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_lab_goes_up_answers_and_goes_down() {
    let Some(lab) = Lab::named("cli-whole") else { return };
    let up = lab.says("up -f examples/shop --ipv6 --nodes 2", 0);
    assert!(up.contains("lab cli-whole is up: 2 nodes, 5 pods, 3 Services, 6 policies, routed"), "{up}");
    let probed = lab.says("probe", 0);
    assert!(probed.contains("80 connections tried with packets: 22 reached, 58 denied; all as policy says"), "{probed}");
    lab.says("probe --from shop/web --to svc/shop/api --port 80", 0);
    let refused = lab.says("probe --from shop/web --to svc/shop/api --port udp/53", 2);
    assert_eq!(refused, "error: `--port udp/53`: write `--protocol udp --port 53`\n");
    let denied = lab.says("probe --from shop/web --to shop/db --port 5432", 1);
    assert!(denied.contains("isolated for ingress by `db-from-api`"), "{denied}");
    let told = lab.says("denied", 0);
    assert!(
        told.contains("denied  shop/web (10.244.0.4) → shop/db (10.244.4.3) tcp/5432  ingress: isolated by NetworkPolicy shop/db-from-api"),
        "{told}"
    );
    let counted = lab.says("denied --by-rule", 0);
    let rule = counted.lines().find(|it| it.contains("dropped") && it.contains("lab-2  isolated np/shop/db-from-api"));
    assert!(rule.is_some_and(|it| it.split_whitespace().next().is_some_and(|packets| packets != "0")), "{counted}");
    let status = lab.says("status", 0);
    assert!(status.contains("shop/web") && status.contains("10.96.0."), "{status}");
    let metrics = lab.says("metrics -o prometheus", 0);
    for node in ["lab-1", "lab-2"] {
        let commits = metrics.lines().find_map(|it| it.strip_prefix(&format!("palisade_commits_total{{node=\"{node}\"}} ")));
        assert!(commits.is_some_and(|it| it.parse::<u64>().unwrap() > 0), "{metrics}");
    }
    assert!(lab.says("metrics", 0).contains("transactions that came into force"));
    // Somebody's change shows in the numbers of that node alone.
    lab.says("exec node/lab-1 -- nft flush chain inet palisade forward", 0);
    let restored = |node: &str, times: u64| format!("palisade_restorations_total{{node=\"{node}\"}} {times}\n");
    wait_until("the table that is put back", || lab.says("metrics -o prometheus", 0).contains(&restored("lab-1", 1)));
    assert!(lab.says("metrics -o prometheus", 0).contains(&restored("lab-2", 0)));
    let down = lab.says("down", 0);
    assert!(down.contains("lab cli-whole is down"), "{down}");
    assert!(lab.says("status", 2).contains("no lab `cli-whole` is up"));
}

/// A pod of the pod network and two host-network pods on each of two nodes; all but traffic of monitoring is denied to the first.
const HOSTS: &str = "\
apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---
apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {addresses: [{type: InternalIP, address: 10.88.0.1}]}\n---
apiVersion: v1\nkind: Node\nmetadata: {name: b}\nstatus: {addresses: [{type: InternalIP, address: 10.88.0.2}]}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: a, containers: [{name: c, image: i, ports: [{containerPort: 8080}]}]}\nstatus: {podIP: 10.244.0.5}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: exporter-a, namespace: shop}
spec: {nodeName: a, hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 9100}]}]}\nstatus: {podIP: 10.88.0.1}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: proxy-a, namespace: shop}
spec: {nodeName: a, hostNetwork: true, containers: [{name: c, image: i}]}\nstatus: {podIP: 10.88.0.1}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: exporter-b, namespace: shop}
spec: {nodeName: b, hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 9100}]}]}\nstatus: {podIP: 10.88.0.2}\n---
apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{ipBlock: {cidr: 10.88.0.2/32}}]}]}
";

#[test]
fn everybody_is_whoever_uses_the_network_of_a_node_too() {
    let Some(lab) = Lab::named("cli-hosts") else { return };
    let folder = folder(&[("all.yaml", HOSTS)]);
    lab.says(&format!("up -f {}", folder.path().display()), 0);
    let probed = lab.says("probe", 0);
    // To web: its own node by right, the other node and the outside not. To the exporters: web (by its egress rule to b alone), the other
    // node and the outside in both families.
    assert!(probed.contains("13 connections tried with packets: 10 reached, 3 denied; all as policy says"), "{probed}");
    for (end, became) in [("a", "reached"), ("b", "denied")] {
        let speaker = format!("shop/exporter-{end} (host network)");
        assert!(
            probed.lines().any(|it| it.trim_start().starts_with(&speaker) && it.contains(became)),
            "{speaker} {became}: not in\n{probed}"
        );
    }
}

/// A lab keeps nothing in files of its own, and what it was made from is read, not needed.
#[test]
fn a_lab_whose_files_are_lost_stays_as_it_was() {
    let Some(lab) = Lab::named("cli-lost") else { return };
    let folder = folder(&[("all.yaml", HOSTS)]);
    lab.says(&format!("up --watch -f {}", folder.path().display()), 0);
    let as_before = || {
        let probed = lab.says("probe", 0);
        assert!(probed.contains("13 connections tried with packets: 10 reached, 3 denied; all as policy says"), "{probed}");
    };
    let stays = || lab.says("status", 0).matches("the files changed, but the lab stays as it was").count();
    // First as a power cut may leave them, then not at all.
    std::fs::write(folder.path().join("all.yaml"), "").unwrap();
    wait_until("a look at the empty file", || stays() == 1);
    as_before();
    let path = folder.path().to_owned();
    drop(folder);
    wait_until("a look at the folder that is gone", || stays() == 2);
    assert!(!path.exists());
    as_before();
}

#[test]
fn a_probe_that_cannot_be_sent_counts_as_not_tried() {
    let Some(lab) = Lab::named("cli-unsent") else { return };
    lab.says("up -f examples/shop", 0);
    let said = lab.says("probe --from 203.0.113.7 --to svc/shop/web --port 80", 2);
    assert!(said.contains("NOT SENT") && !said.contains("policy says"), "{said}");
    assert!(said.ends_with("\n0 connections tried with packets: 0 reached, 0 denied; 1 not sent\n"), "{said}");
    let json: serde_json::Value =
        serde_json::from_str(&lab.says("probe --from 203.0.113.7 --to svc/shop/web --port 80 -o json", 2)).unwrap();
    assert_eq!((&json["agree"], &json["differ"], &json["unsent"]), (&0.into(), &0.into(), &1.into()), "{json:#}");
    // The example of the help.
    let said = lab.says("probe --from 203.0.113.7 --to shop/web --port 8080", 0);
    assert!(said.ends_with("1 connection tried with packets: 1 reached, 0 denied; all as policy says\n"), "{said}");
}

#[test]
fn json_of_a_lab_fits_its_schemas() {
    let Some(lab) = Lab::named("cli-json") else { return };
    lab.says("up -f examples/shop", 0);
    let probes = lab.says("probe -o json", 0);
    let denials = lab.says("denied -o json", 0);
    assert!(denials.lines().count() >= 20, "{denials}");
    for (schema, documents) in [
        ("probe-report", vec![probes]),
        ("lab-status", vec![lab.says("status -o json", 0)]),
        ("metrics", vec![lab.says("metrics -o json", 0)]),
        ("denial", denials.lines().map(str::to_owned).collect()),
    ] {
        let path = root().join(format!("docs/schema/{schema}.v1.json"));
        let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for document in documents {
            jsonschema::validate(&schema, &serde_json::from_str(&document).unwrap()).unwrap_or_else(|error| panic!("{error}\n{document}"));
        }
    }
}

#[test]
fn a_lab_that_is_not_up_is_named_in_what_starts_it() {
    let run = palisade("lab status --name cli-nobody").assert().code(2);
    run.stderr_eq("error: no lab `cli-nobody` is up; `palisade lab up --name cli-nobody -f DIR` starts one\n");
}

#[test]
fn a_second_lab_of_the_name_is_refused_and_the_first_is_named() {
    let Some(lab) = Lab::named("cli-twice") else { return };
    lab.says("up -f examples/shop", 0);
    let refused = lab.says("up -f examples/shop", 2);
    assert!(refused.contains(&format!("lab `cli-twice` is up already: process {}", lab.process())), "{refused}");
    assert!(refused.contains("palisade lab down"), "{refused}");
    lab.says("probe", 0);
}

#[test]
fn commands_run_in_the_network_of_a_pod() {
    let Some(lab) = Lab::named("cli-exec") else { return };
    lab.says("up -f examples/shop", 0);
    let own = lab.says("exec shop/web -- ip -br address show dev eth0", 0);
    assert!(own.contains("10.244.0.4"), "{own}");
    let table = lab.says("exec node/lab-1 -- nft list table inet palisade", 0);
    assert!(table.contains("np/shop/api-from-web#0"), "{table}");
    assert!(lab.says("exec shop/nobody -- true", 2).contains("no pod `shop/nobody` is in the lab"));
    assert!(lab.says("exec shop/web -- no-such-program", 2).contains("no-such-program"));
    assert_eq!(lab.run("exec outside -- sh -c exit").status.code(), Some(0));
}

#[test]
fn down_ends_what_runs_in_the_pods() {
    let Some(lab) = Lab::named("cli-left") else { return };
    lab.says("up -f examples/shop", 0);
    let mut left = std::process::Command::new(cargo_bin!("palisade"));
    let mut left = left.args(["lab", "exec", "--name", "cli-left", "shop/web", "--", "sleep", "600"]).spawn().unwrap();
    wait_until("sleep", || std::fs::read_to_string(format!("/proc/{}/comm", left.id())).is_ok_and(|it| it == "sleep\n"));
    let down = lab.says("down", 0);
    assert!(down.contains(&format!("ended sleep ({})", left.id())), "{down}");
    left.wait().unwrap();
}

#[test]
fn a_killed_lab_leaves_nothing_and_can_be_built_again() {
    let Some(lab) = Lab::named("cli-killed") else { return };
    lab.says("up -f examples/shop", 0);
    let namespace = std::fs::read_link(namespace_of(&lab, "shop/web")).unwrap();
    let mut left = std::process::Command::new(cargo_bin!("palisade"));
    let mut left = left.args(["lab", "exec", "--name", "cli-killed", "shop/web", "--", "sleep", "600"]).spawn().unwrap();
    wait_until("sleep", || std::fs::read_to_string(format!("/proc/{}/comm", left.id())).is_ok_and(|it| it == "sleep\n"));
    kill(Pid::from_raw(lab.process()), Signal::SIGKILL).unwrap();
    wait_until("the end of the lab", || lab.run("status").status.code() == Some(2));
    let down = lab.says("down", 0);
    assert!(down.contains(&format!("ended what was left of one: sleep ({})", left.id())), "{down}");
    left.wait().unwrap();
    wait_until("the end of the namespace", || !anybody_in(&namespace));
    lab.says("up -f examples/shop", 0);
    lab.says("probe", 0);
}

/// The file by which the lab holds a pod's namespace.
fn namespace_of(lab: &Lab, pod: &str) -> PathBuf {
    let output = lab.says(&format!("exec {pod} -- readlink /proc/self/ns/net"), 0);
    let own = output.trim().to_owned();
    let files = std::fs::read_dir(format!("/proc/{}/fd", lab.process())).unwrap();
    let found = files.map(|it| it.unwrap().path()).find(|it| std::fs::read_link(it).is_ok_and(|link| link == Path::new(&own)));
    found.unwrap_or_else(|| panic!("the lab does not hold {own}"))
}

/// Whether some process lives in a network namespace or holds it open.
fn anybody_in(namespace: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|it| it.path());
    let mut links = processes.flat_map(|it| {
        let open = std::fs::read_dir(it.join("fd")).into_iter().flatten().flatten().map(|it| it.path());
        open.chain([it.join("ns/net")]).collect::<Vec<_>>()
    });
    links.any(|it| std::fs::read_link(it).is_ok_and(|link| link == namespace))
}

#[test]
fn changed_files_are_followed_and_broken_ones_change_nothing() {
    let Some(lab) = Lab::named("cli-watch") else { return };
    let read = |name: &str| std::fs::read_to_string(root().join("examples").join(name)).unwrap();
    let names = ["shop/1-namespaces.yaml", "shop/2-workloads.yaml", "shop/3-developers.yaml", "shop/4-admins.yaml"];
    let files: Vec<(String, String)> = names.iter().map(|it| (it.replace("shop/", ""), read(it))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
    let folder = folder(&files);
    lab.says(&format!("up -f {} --watch", folder.path().display()), 0);
    let asks = "probe --from shop/web --to shop/db --port 5432";
    lab.says(asks, 1);
    std::fs::write(folder.path().join("3-developers.yaml"), read("shop.change.yaml")).unwrap();
    wait_until("the change", || lab.run(asks).status.code() == Some(0));
    // What is noticed of files that are followed is told as well.
    let misspelt = "metadata: {namespace: shop, name: later, annotations: {palisade.dev/mode: audit, palisade.dev/audit-sett: next}}";
    let later = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n{misspelt}\nspec: {{podSelector: {{}}}}\n");
    std::fs::write(folder.path().join("5-later.yaml"), later).unwrap();
    wait_until("the warning", || lab.says("status", 0).contains("palisade.dev/audit-sett"));
    // At once: a file that is empty for a moment says that there is nothing.
    std::fs::write(folder.path().join("broken"), "kind: [").unwrap();
    std::fs::rename(folder.path().join("broken"), folder.path().join("3-developers.yaml")).unwrap();
    wait_until("the refusal", || lab.says("status", 0).contains("the lab stays as it was"));
    lab.says(asks, 0);
    std::fs::remove_file(folder.path().join("3-developers.yaml")).unwrap();
    wait_until("the removal", || lab.run("probe --from 203.0.113.7 --to shop/db --port 5432").status.code() == Some(0));
}

#[test]
fn manifests_with_errors_build_no_lab() {
    let Some(lab) = Lab::named("cli-broken") else { return };
    let refused = lab.says("up -f crates/palisade/tests/cli/slips.yaml", 2);
    assert!(refused.contains("the lab was not built"), "{refused}");
    assert!(lab.says("status", 2).contains("no lab"));
    assert!(lab.says("up -f examples/shop --nodes 0", 2).contains("one node at least"));
}

#[test]
fn without_root_there_is_a_sentence_and_the_verdicts() {
    if !is_root() {
        return;
    }
    let as_nobody = |arguments: &[&str]| {
        // The user `nobody` may have no access to the target folder. Another process copies the binary: a file that this process has written
        // cannot be executed ("Text file busy") while a child that another thread has forked still holds it open for writing.
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("palisade");
        Command::new("cp").args([cargo_bin!("palisade").as_os_str(), binary.as_os_str()]).assert().success();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let shop = folder.path().join("shop.yaml");
        let files = ["1-namespaces", "2-workloads", "3-developers", "4-admins"];
        let all: Vec<String> =
            files.iter().map(|it| std::fs::read_to_string(root().join(format!("examples/shop/{it}.yaml"))).unwrap()).collect();
        std::fs::write(&shop, all.join("---\n")).unwrap();
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let run = Command::new("setpriv").args(nobody).arg(&binary).args(arguments).current_dir(folder.path()).env("NO_COLOR", "1");
        run.output().unwrap()
    };
    let up = as_nobody(&["lab", "up", "-f", "shop.yaml"]);
    assert_eq!(up.status.code(), Some(2), "{up:?}");
    assert!(text(&up.stderr).contains("a lab needs root"), "{up:?}");
    assert!(text(&up.stdout).contains("shop/api               allowed   rule 0 of NetworkPolicy shop/db-from-api"), "{up:?}");
    let demo = as_nobody(&["demo"]);
    assert_eq!(demo.status.code(), Some(0), "{demo:?}");
    snapbox::assert_data_eq!(text(&demo.stdout), file!["golden/demo-decided.txt"]);
}

/// Whoever has the name of a lab may end before it has said how to exit.
#[test]
fn a_lab_that_closes_the_connection_is_no_answer() {
    let check = |name: &str, told: &'static [u8]| {
        let address = SocketAddr::from_abstract_name(format!("palisade-lab-{name}")).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let server = std::thread::spawn(move || listener.accept().unwrap().0.write_all(told));
        let run = palisade(&format!("lab status --name {name}")).assert().code(2);
        run.stderr_eq("error: the lab closed the connection\n");
        server.join().unwrap().unwrap();
    };
    check("cli-closes", b"");
    check("cli-closes-early", b"{\"Out\":\"lab\\n\"}\n");
    check("cli-closes-within", b"{\"Exit\":");
}

#[test]
fn the_demo_shows_every_verdict_with_packets_and_a_change() {
    if is_root() {
        palisade("demo").assert().success().stdout_eq(file!["golden/demo.txt"]);
    }
}

#[test]
fn changes_under_traffic_leak_and_lose_nothing() {
    if !is_root() {
        return;
    }
    for line in ["lab soak --changes 10", "lab soak --changes 3 --seed 7 --kill"] {
        let output = palisade(line).output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
        assert!(stdout.contains("; 0 denied delivered, 0 allowed lost\n"), "{stdout}");
        assert_eq!(stdout.contains("agents killed: "), line.contains("--kill"), "{stdout}");
    }
}

#[test]
fn a_soak_without_changes_is_refused() {
    let run = palisade("lab soak --changes 0").assert().code(2);
    let said = text(&run.get_output().stderr);
    assert!(said.contains("invalid value '0' for '--changes <N>': 0 is not in 1.."), "{said}");
}

/// Two pods, and a policy that would part them.
const WATCHED: &str = "\
apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c, image: i, ports: [{containerPort: 8080}]}]}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: c, image: i, ports: [{containerPort: 5432}]}]}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: idle, namespace: shop, labels: {app: db}}
spec: {containers: [{name: c, image: i}]}\n---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: db-closed
  namespace: shop
  labels: {networking.k8s.io/policy-controller-name: none}
  annotations:
    palisade.dev/mode: audit
spec: {podSelector: {matchLabels: {app: db}}}
";

#[test]
fn an_audited_policy_is_told_reported_and_promoted() {
    let Some(lab) = Lab::named("cli-audit") else { return };
    let folder = folder(&[("all.yaml", WATCHED)]);
    lab.says(&format!("up -f {} --watch", folder.path().display()), 0);
    let call = "probe --from shop/web --to shop/db --port 5432";
    lab.says(call, 0);
    let line = "tcp/5432  audit: ingress: isolated by NetworkPolicy shop/db-closed, no rule accepts (today: no policy decides";
    wait_until("the word of the audit", || lab.says("denied --would", 0).contains(line));
    assert!(!lab.says("denied", 0).contains("5432"));
    let report = lab.says("audit-report", 1);
    for part in [
        "would break: 1\n  shop/web → shop/db tcp/5432  once\n",
        "subjects seen: 1 of 2\nnever seen, so nothing is known about them:\n  shop/idle ingress\n",
        "kubectl label networkpolicy db-closed -n shop networking.k8s.io/policy-controller-name=palisade --overwrite\n",
        "kubectl annotate networkpolicy db-closed -n shop palisade.dev/mode- palisade.dev/audit-set-\n",
        "all.yaml:23",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(lab.says("audit-report --set other", 2).contains("no policy of a set `other` is audited; sets: audit"));
    for (command, schema, code) in [("audit-report -o json", "audit-report", 1), ("denied --would -o json", "would", 0)] {
        let schema: serde_json::Value = serde_json::from_slice(&palisade(&format!("schema {schema}")).output().unwrap().stdout).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&lab.says(command, code)).unwrap();
        let errors: Vec<String> = jsonschema::validator_for(&schema).unwrap().iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{answer:#}");
    }
    let promoted = WATCHED
        .replace("    palisade.dev/mode: audit\n", "    example.com/note: promoted\n")
        .replace("policy-controller-name: none", "policy-controller-name: palisade");
    std::fs::write(folder.path().join("all.yaml"), promoted).unwrap();
    wait_until("the promoted policy", || lab.run(call).status.code() == Some(1));
    assert!(lab.says("audit-report", 0).contains("no policy is audited"));
}
