//! Labs that are large, empty or oddly filled, and what is left of a lab.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

use palisade_kernel::Namespace;
use palisade_lab::{Families, Finding, Lab, Nodes, Options, PodNetwork, Question, Speaker, WhileUnknown, plan};
use palisade_model::{PodName, PortProtocol, Protocol, Severity};
use palisade_testkit::check::snapshot;

use crate::ground::{is_root, say};
use crate::watch::Watch;

const ONE_NODE: Options =
    Options { nodes: Nodes::Own(1), families: Families::AsRead, network: PodNetwork::Routed, unknown: WhileUnknown::CLOSED };

/// A pod with addresses, perhaps on a node, that serves TCP port 80.
fn pod(name: &str, node: Option<&str>, addresses: &[&str]) -> String {
    let ips: Vec<String> = addresses.iter().map(|it| format!("{{ip: '{it}'}}")).collect();
    let home = node.map(|it| format!("nodeName: {it}, ")).unwrap_or_default();
    let tail = format!("spec: {{{home}containers: [{{name: m, image: i, ports: [{{containerPort: 80}}]}}]}}");
    let status = if ips.is_empty() { String::new() } else { format!("\nstatus: {{podIPs: [{}]}}", ips.join(", ")) };
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}\n{tail}{status}\n---\n")
}

fn node(name: &str, addresses: &[&str]) -> String {
    let list: Vec<String> = addresses.iter().map(|it| format!("{{type: InternalIP, address: '{it}'}}")).collect();
    format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nstatus: {{addresses: [{}]}}\n---\n", list.join(", "))
}

/// Only `from` may call `to`.
fn only(from: &str, to: &str) -> String {
    let head = format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: x, name: {to}}}\n");
    let peer = format!("{{podSelector: {{matchLabels: {{app: {from}}}}}}}");
    format!("{head}spec: {{podSelector: {{matchLabels: {{app: {to}}}}}, ingress: [{{from: [{peer}]}}]}}\n---\n")
}

fn up(text: &str, options: &Options) -> Lab {
    let snapshot = snapshot("cluster.yaml", text);
    let errors = snapshot.diagnostics.iter().filter(|it| it.severity == Severity::Error);
    assert_eq!(errors.map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    let (events, _heard) = channel();
    let (lab, notes) = Lab::up(plan(&snapshot.model, options).unwrap(), events, |_| {}).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(notes, Vec::<String>::new());
    lab
}

fn name(pod: &str) -> PodName {
    PodName { namespace: "x".into(), name: pod.into() }
}

/// A call of TCP port 80 from one pod to another, at the first address of each.
fn call(lab: &Lab, from: &str, to: &str) -> Question {
    let address = |pod: &str| -> IpAddr {
        let found = lab.plan().model.endpoints.iter().find(|it| it.name == name(pod)).unwrap_or_else(|| panic!("no pod {pod}"));
        *found.addresses.first().unwrap_or_else(|| panic!("no address of {pod}"))
    };
    let protocol = Protocol::Port(PortProtocol::Tcp);
    Question { from: Speaker::Pod(name(from)), source: address(from), to: address(to), protocol, port: Some(80) }
}

/// What becomes of calls: `a>b` and whether it is answered.
fn check(lab: &mut Lab, calls: &[(&str, &str, bool)]) {
    let questions: Vec<Question> = calls.iter().map(|(from, to, _)| call(lab, from, to)).collect();
    let findings = lab.probe(&questions).unwrap();
    for ((from, to, answered), finding) in calls.iter().zip(findings) {
        let right = match &finding {
            Finding::Answered => *answered,
            Finding::Denied(_) => !answered,
            Finding::Refused | Finding::Leaked(_) | Finding::Silent | Finding::Unsent(_) => false,
        };
        assert!(right, "{from} to {to}: {finding:?}");
    }
}

/// With the 1,024 open files that a process may have at first.
#[test]
fn five_hundred_pods_fit_one_node() {
    if !is_root() {
        return;
    }
    if std::env::var_os(CHILD).is_none() {
        let output = child("five_hundred_pods_fit_one_node", "ulimit -Sn 1024; exec \"$0\" \"$@\"").output().unwrap();
        let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        say(&text.lines().filter(|it| it.starts_with("500: ")).collect::<Vec<_>>().join("\n"));
        return;
    }
    let text: String = (0..500).map(|at| pod(&format!("p{at}"), None, &[])).chain((0..500).step_by(3).map(ring)).collect();
    let start = Instant::now();
    let mut lab = up(&text, &Options { families: Families::Both, ..ONE_NODE });
    say(&format!("500: up in {:?} with {} files", start.elapsed(), std::fs::read_dir("/proc/self/fd").unwrap().count()));
    // Those that are isolated, from whom they let in and from somebody else, and one that is not.
    let sample: Vec<(String, String, bool)> = (0..480_u16)
        .step_by(30)
        .flat_map(|at| [(at + 1, at, true), (at + 2, at, false), (at + 5, at + 1, true)])
        .map(|(from, to, answered)| (format!("p{from}"), format!("p{to}"), answered))
        .collect();
    let start = Instant::now();
    check(&mut lab, &sample.iter().map(|(from, to, answered)| (from.as_str(), to.as_str(), *answered)).collect::<Vec<_>>());
    say(&format!("500: {} probes in {:?}", sample.len(), start.elapsed()));
    let mut watch = Watch::create();
    let all = lab.namespaces();
    assert_eq!(all.len(), 502);
    all.iter().for_each(|(_, it)| watch.on(it));
    let start = Instant::now();
    drop(lab);
    say(&format!("500: down in {:?}", start.elapsed()));
    watch.await_end();
    say(&format!("500: nothing left after {:?}", start.elapsed()));
}

/// Every third pod lets in only the next.
fn ring(at: u16) -> String {
    only(&format!("p{}", at + 1), &format!("p{at}"))
}

/// Without CAP_SYS_RESOURCE the hard limit is the end.
#[test]
fn too_few_files_are_said_before_anything_is_built() {
    if !is_root() {
        return;
    }
    if std::env::var_os(CHILD).is_none() {
        let by = "command -v setpriv >/dev/null || exit 77; ulimit -n 1500; exec setpriv --bounding-set -sys_resource \"$0\" \"$@\"";
        let output = child("too_few_files_are_said_before_anything_is_built", by).output().unwrap();
        let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        match output.status.code() {
            Some(77) => say("skipped: setpriv is not installed"),
            _ => assert!(output.status.success() && text.contains("1 passed"), "{text}"),
        }
        return;
    }
    let text: String = (0..500).map(|at| pod(&format!("p{at}"), None, &[])).collect();
    let (events, _heard) = channel();
    let result = Lab::up(plan(&snapshot("cluster.yaml", &text).model, &ONE_NODE).unwrap(), events, |_| {});
    let error = result.map(|_| ()).unwrap_err().to_string();
    let (needed, rest) = error.strip_prefix("this lab needs ").unwrap().split_once(' ').unwrap();
    assert!(needed.parse::<u64>().unwrap() > 2_000, "{error}");
    assert_eq!(rest, "open files, and a process may have 1500 (`ulimit -Hn`)");
    // A small one fits, and the large one does not break it.
    let mut lab = up(&["a", "b"].map(|it| pod(it, None, &[])).concat(), &ONE_NODE);
    let large = lab.plan().next(&snapshot("cluster.yaml", &text).model, &ONE_NODE).unwrap();
    assert_eq!(lab.apply(large, |_| {}).unwrap_err().to_string().split(' ').next(), Some("this"));
    check(&mut lab, &[("a", "b", true)]);
}

#[test]
fn without_policies_everything_passes() {
    if is_root() {
        let mut lab = up(&["a", "b", "c"].map(|it| pod(it, None, &[])).concat(), &ONE_NODE);
        check(&mut lab, &[("a", "b", true), ("b", "a", true), ("c", "a", true)]);
    }
}

#[test]
fn a_lab_without_pods_is_a_lab() {
    if is_root() {
        for options in [Options::default(), ONE_NODE, Options { network: PodNetwork::Bridged, ..ONE_NODE }] {
            let mut lab = up("", &options);
            assert_eq!(lab.probe(&[]).unwrap(), Vec::new());
            // And it can become one with pods, and without again.
            let (empty, model) = (lab.plan().clone(), snapshot("cluster.yaml", &[pod("a", None, &[]), pod("b", None, &[])].concat()).model);
            assert_eq!(lab.apply(empty.next(&model, &options).unwrap(), |_| {}).unwrap(), Vec::<String>::new());
            check(&mut lab, &[("a", "b", true)]);
            lab.apply(empty, |_| {}).unwrap();
            assert_eq!(lab.namespaces().iter().filter(|(who, _)| matches!(who, Speaker::Pod(_))).count(), 0);
        }
    }
}

#[test]
fn nodes_without_pods_and_pods_without_nodes_have_their_place() {
    if is_root() {
        let text = [
            node("n1", &["192.0.2.1"]),
            node("n2", &[]),
            node("n3", &["192.0.2.3", "2001:db8::3"]),
            pod("on-one", Some("n1"), &["10.0.0.1"]),
            pod("anywhere", None, &["10.0.0.2"]),
            pod("on-unread", Some("n9"), &["10.0.0.3"]),
            only("anywhere", "on-one"),
        ];
        let mut lab = up(&text.concat(), &Options::default());
        check(&mut lab, &[("anywhere", "on-one", true), ("on-unread", "on-one", false), ("on-one", "on-unread", true)]);
    }
}

/// An address that two claim belongs to one of them, whatever the other is.
#[test]
fn addresses_that_two_claim_belong_to_one() {
    let twice = [pod("a", None, &["10.0.0.1"]), pod("b", None, &["10.0.0.1", "10.0.0.2"]), pod("c", None, &["10.0.0.3"])].concat();
    let of_node =
        [node("n1", &["10.0.0.1"]), pod("b", Some("n1"), &["10.0.0.1", "10.0.0.2"]), pod("c", Some("n1"), &["10.0.0.3"])].concat();
    let of_nodes =
        [node("n1", &["10.0.0.9"]), node("n2", &["10.0.0.9"]), pod("b", Some("n1"), &["10.0.0.2"]), pod("c", Some("n2"), &["10.0.0.3"])]
            .concat();
    let doubled = [pod("b", None, &["10.0.0.2", "10.0.0.2"]), pod("c", None, &["10.0.0.3"])].concat();
    if is_root() {
        for text in [twice, of_node, of_nodes, doubled] {
            for network in [PodNetwork::Routed, PodNetwork::Bridged] {
                let mut lab = up(&text, &Options { network, ..Options::default() });
                let address = |it: &str| it.parse::<IpAddr>().unwrap();
                let mut question = call(&lab, "c", "b");
                question.to = address("10.0.0.2");
                let back = Question { from: Speaker::Pod(name("b")), source: question.to, to: question.source, ..question.clone() };
                assert_eq!(lab.probe(&[question, back]).unwrap(), [Finding::Answered, Finding::Answered], "{network:?} {text}");
            }
        }
    }
}

#[test]
fn pods_of_one_family_speak_it() {
    if is_root() {
        let text = [pod("a", None, &["fd00::1"]), pod("b", None, &["fd00::2"]), pod("c", None, &["fd00::3"]), only("a", "b")].concat();
        for nodes in [Nodes::Own(1), Nodes::Own(2)] {
            for network in [PodNetwork::Routed, PodNetwork::Bridged] {
                let mut lab = up(&text, &Options { nodes, families: Families::AsRead, network, unknown: WhileUnknown::CLOSED });
                check(&mut lab, &[("a", "b", true), ("c", "b", false), ("b", "c", true)]);
            }
        }
    }
}

#[test]
fn a_lab_whose_process_was_killed_leaves_nothing() {
    let text = || [pod("a", None, &[]), pod("b", None, &[]), only("a", "b")].concat();
    if be_a_child(text) || !is_root() {
        return;
    }
    let mut process = child("a_lab_whose_process_was_killed_leaves_nothing", "exec \"$0\" \"$@\"").spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let told: Option<String> = lines.map_while(Result::ok).find(|it| it.starts_with(UP));
    let mut watch = Watch::create();
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().map(|it| it.unwrap().path());
    // Each once, however often it is held.
    let named = files.filter_map(|it| Some((std::fs::read_link(&it).ok().filter(|it| it.to_string_lossy().starts_with("net:["))?, it)));
    let held: BTreeMap<PathBuf, PathBuf> = named.collect();
    held.values().for_each(|it| watch.on(&Namespace::open(it).unwrap()));
    process.kill().unwrap();
    process.wait().unwrap();
    // Two pods, two nodes and what is between.
    assert_eq!((told.as_deref(), held.len()), (Some(UP), 5));
    watch.await_end();
}

/// Set for a process that is a test again.
const CHILD: &str = "PALISADE_LAB_CHILD";
/// What one says that holds a lab.
const UP: &str = "child: up";

/// A test of this file again, started by a line of shell.
fn child(test: &str, by: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", by]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("faults::{test}"), "--nocapture"]).env(CHILD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// In a child: a lab that lives until its input ends.
#[expect(clippy::print_stdout, reason = "this is how a child tells its parent")]
fn be_a_child(text: impl FnOnce() -> String) -> bool {
    if std::env::var_os(CHILD).is_none() {
        return false;
    }
    let _lab = up(&text(), &Options::default());
    println!("\n{UP}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    true
}
