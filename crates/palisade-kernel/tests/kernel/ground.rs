//! What the tests stand on: namespaces, nft, and a word about what was not done.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};
use palisade_kernel::{KernelError, in_fresh_netns};
use palisade_model::{Model, Severity};
use palisade_nft::{Hook, Ruleset};

/// A network namespace, alive as long as this is.
pub(crate) struct Namespace(File);

/// A node and pods on links of their own, each with an address of both families and no network in common.
pub(crate) struct Cluster {
    pub(crate) node: Namespace,
    pub(crate) pods: Vec<Pod>,
}

pub(crate) struct Pod {
    pub(crate) namespace: Namespace,
    pub(crate) addresses: [IpAddr; 2],
}

/// Whether a pod finds out if somebody else has its IPv6 addresses before it uses them, which takes a second.
#[derive(Clone, Copy)]
pub(crate) enum Detection {
    On,
    Off,
}

impl Namespace {
    /// None, and a word about it, without permission.
    pub(crate) fn create() -> Option<Namespace> {
        in_netns(|| Namespace(File::open("/proc/thread-self/ns/net").unwrap()))
    }

    /// Runs something in a thread of its own inside. Processes that it starts live there too.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        std::thread::scope(|scope| match scope.spawn(entered).join() {
            Ok(it) => it,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs lines of the `ip` command inside.
    pub(crate) fn ip(&self, lines: &str) {
        self.run(|| command("ip", &["-batch", "-"], lines)).unwrap_or_else(|| panic!("ip is not installed"));
    }
}

impl Cluster {
    /// None, and a word about it, without permission.
    pub(crate) fn create(pods: u8) -> Option<Cluster> {
        let node = Namespace::create()?;
        node.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        node.ip("link set lo up\n");
        let mut cluster = Cluster { node, pods: Vec::new() };
        for number in 1..=pods {
            let pod = Pod::create(&cluster.node, number, Detection::Off);
            cluster.pods.push(pod);
        }
        Some(cluster)
    }
}

impl Pod {
    /// The pod at the other end of the link `podNUMBER`.
    pub(crate) fn create(node: &Namespace, number: u8, detection: Detection) -> Pod {
        let namespace = Namespace::create().unwrap();
        let (four, six) = (format!("10.1.0.{number}"), format!("fd00::{number}"));
        let inside = format!("/proc/{}/fd/{}", std::process::id(), namespace.0.as_raw_fd());
        node.ip(&format!(
            "link add pod{number} type veth peer name eth0 netns {inside}
             link set pod{number} addrgenmode none
             link set pod{number} up
             addr add 169.254.1.1/32 dev pod{number}
             addr add fe80::1/64 dev pod{number} nodad
             route add {four}/32 dev pod{number}
             route add {six}/128 dev pod{number}
"
        ));
        let (link_local, option) = match detection {
            Detection::On => (String::new(), ""),
            Detection::Off => (format!("link set eth0 addrgenmode none\naddr add fe80::10{number}/64 dev eth0 nodad\n"), "nodad"),
        };
        namespace.ip(&format!(
            "{link_local}
             link set lo up
             link set eth0 up
             addr add {four}/32 dev eth0
             addr add {six}/128 dev eth0 {option}
             route add default via 169.254.1.1 dev eth0 onlink
             route add default via fe80::1 dev eth0
"
        ));
        Pod { namespace, addresses: [four, six].map(|it| it.parse().unwrap()) }
    }
}

/// The manifest of a pod of the one node, labelled with its name.
pub(crate) fn pod(name: &str, addresses: &[&str]) -> String {
    let addresses: Vec<String> = addresses.iter().map(|it| format!("{{ip: \"{it}\"}}")).collect();
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{namespace: x, name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: node-1
  containers: [{{name: main, image: registry.k8s.io/pause:3.10}}]
status: {{podIPs: [{}]}}
---
",
        addresses.join(", ")
    )
}

/// The model of manifests that nothing is wrong with.
pub(crate) fn model(manifests: &str) -> Model {
    let snapshot = palisade_testkit::check::snapshot("cluster.yaml", manifests);
    assert!(snapshot.diagnostics.iter().all(|it| it.severity == Severity::Note), "{:?}", snapshot.diagnostics);
    snapshot.model
}

/// Makes the links that rulesets bind sources to, in the namespace of the caller: not every kernel takes names that are of no link.
pub(crate) fn add_links<'a>(rulesets: impl IntoIterator<Item = &'a Ruleset>) {
    let hooks = rulesets.into_iter().flat_map(|it| it.chains.values()).filter_map(|it| it.hook.as_ref());
    let devices: BTreeSet<&String> = hooks
        .flat_map(|it| match it {
            Hook::Ingress { devices } => devices.iter().collect(),
            Hook::Forward | Hook::Input => Vec::new(),
        })
        .collect();
    let lines: String = devices.into_iter().map(|it| format!("link add {it} type bridge\n")).collect();
    if !lines.is_empty() {
        command("ip", &["-batch", "-"], &lines);
    }
}

/// What nft prints. None, and a word about it, if there is no nft.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Option<String> {
    command("nft", arguments, input)
}

/// What a command prints. None, and a word about it, if it is not there.
fn command(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        say(&format!("skipped: {program} is not installed"));
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Runs something in a fresh network namespace. None, and a word about it, without permission.
pub(crate) fn in_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    match in_fresh_netns(work) {
        Ok(it) => Some(it),
        Err(KernelError::NoPermission) => {
            say("skipped: needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
