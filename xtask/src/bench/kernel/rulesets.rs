//! What is compared with Palisade's ruleset, with the same verdicts for what is measured: nothing but conntrack, a rule for each policy,
//! and iptables with ipset in the layout that a chain for each pod and each policy makes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use palisade_kernel::Namespace;
use palisade_model::Family;
use palisade_nft::{Chain, CtState, Hook, Match, Rule, Ruleset, Verdict};

use super::cluster::{CLOSED, LOCAL, OPEN, Size, WORKLOADS, local, remote};

/// What any design with conntrack pays. One more rule drops what is to be denied.
pub(super) fn conntrack_only() -> Ruleset {
    const UDP: u8 = 17;
    let closed = Match::Port { first: CLOSED, last: CLOSED };
    let rules = vec![
        Rule::to(Verdict::Accept).when(Match::Ct(CtState::Established)),
        Rule::to(Verdict::Drop).when(Match::Protocol(vec![UDP])).when(closed),
    ];
    let forward = Chain { hook: Some(Hook::Forward), rules };
    Ruleset { chains: [("forward".to_owned(), forward)].into(), ..Ruleset::default() }
}

/// A ruleset of somebody else: the programs that load it, with what they read.
#[derive(Debug)]
pub(super) struct Foreign {
    pub(super) name: &'static str,
    programs: Vec<(&'static [&'static str], String)>,
}

impl Foreign {
    /// The first program that is not installed.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let programs = self.programs.iter().filter_map(|(words, _)| words.first().copied());
        programs.into_iter().find(|it| Command::new(it).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err())
    }

    pub(super) fn load(&self, namespace: &Namespace) -> Result<()> {
        self.programs.iter().try_for_each(|(words, input)| namespace.run(|| feed(words, input))?)
    }
}

fn feed(words: &[&str], input: &str) -> Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{program}`"))?;
    let written = child.stdin.take().context("no input")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`{program}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    written.with_context(|| format!("`{program}` did not read all"))
}

/// One rule for each policy, in one chain, with a set for each group and each workload.
pub(super) fn linear(size: Size) -> Foreign {
    let mut text = String::from("table ip linear {\n");
    for (name, addresses) in groups(size).chain(workloads()) {
        text.push_str(&format!("set {name} {{ type ipv4_addr; elements = {{ {} }}; }}\n", addresses.join(", ")));
    }
    text.push_str("chain forward { type filter hook forward priority 0; policy accept;\nct state established accept\n");
    let mut line = |rule: String| {
        text.push_str(&rule);
        text.push('\n');
    };
    for grant in size.grants() {
        let (first, last) = grant.ports;
        line(format!("ip daddr @w{} ip saddr @g{} tcp dport {first}-{last} counter accept", grant.workload, grant.group));
    }
    let (first, last) = OPEN;
    for protocol in ["tcp", "udp"] {
        line(format!("ip daddr @local ip saddr @pods {protocol} dport {first}-{last} counter accept"));
    }
    line("ip daddr @local counter drop\n}\n}".to_owned());
    Foreign { name: "linear nft", programs: vec![(&["nft", "-f", "-"], text)] }
}

/// The least that maps can do: the class of the source, a chain for that and the destination, ports in it. No reasons, no guards, no egress, no IPv6,
/// and a pod more is as many verdicts more as there are classes: what is above this is what all of that costs.
pub(super) fn bare(size: Size) -> Foreign {
    // Groups, and after them the pods of the node.
    let class = |number: usize| format!("0:{:x}", number + 1);
    let mut shapes: BTreeMap<(usize, usize), BTreeSet<(u16, u16)>> = BTreeMap::new();
    for grant in size.grants() {
        shapes.entry((grant.group, grant.workload)).or_default().insert(grant.ports);
    }
    // Whom no policy names may come by what is open to all.
    let plain = BTreeSet::new();
    let shape = |group, workload| shapes.get(&(group, workload)).unwrap_or(&plain);
    let name = |shape: &BTreeSet<(u16, u16)>| shape.iter().fold("shape".to_owned(), |name, (first, _)| format!("{name}-{first}"));
    let known = (0..size.remote).map(|it| (remote(it, Family::V4), it % size.groups));
    let classes = known.chain((0..LOCAL).map(|it| (local(it, Family::V4), size.groups)));
    let classes: Vec<String> = classes.map(|(address, number)| format!("{address} : {}", class(number))).collect();
    let pairs = (0..=size.groups).flat_map(|group| (0..LOCAL).map(move |pod| (group, pod)));
    let pairs =
        pairs.map(|(group, pod)| format!("{} . {} : goto {}", class(group), local(pod, Family::V4), name(shape(group, pod % WORKLOADS))));
    let mut text = String::from("table ip bare {\n");
    for shape in shapes.values().chain([&plain]).collect::<BTreeSet<_>>() {
        let tcp = shape.iter().chain([&OPEN]).map(|(first, last)| format!("tcp dport {first}-{last} accept\n"));
        let rules: String = tcp.chain([format!("udp dport {}-{} accept\ndrop\n", OPEN.0, OPEN.1)]).collect();
        text.push_str(&format!("chain {} {{\n{rules}}}\n", name(shape)));
    }
    text.push_str(&format!("map class {{ type ipv4_addr : classid; elements = {{ {} }}; }}\n", classes.join(", ")));
    let pairs = pairs.collect::<Vec<String>>().join(", ");
    text.push_str(&format!("map pairs {{ type classid . ipv4_addr : verdict; elements = {{ {pairs} }}; }}\n"));
    let own: Vec<String> = (0..LOCAL).map(|it| local(it, Family::V4).to_string()).collect();
    text.push_str(&format!("set local {{ type ipv4_addr; elements = {{ {} }}; }}\n", own.join(", ")));
    text.push_str("chain forward { type filter hook forward priority 0; policy accept;\nct state established accept\n");
    text.push_str("meta priority set 0:0\nmeta priority set ip saddr map @class\nmeta priority . ip daddr vmap @pairs\n");
    text.push_str("ip daddr @local drop\n}\n}\n");
    Foreign { name: "bare maps", programs: vec![(&["nft", "-f", "-"], text)] }
}

/// A chain for each pod, which jumps to one for each policy that selects it; a mark says that one has accepted.
pub(super) fn iptables(size: Size) -> Foreign {
    let mut sets = String::new();
    for (name, addresses) in groups(size).chain(workloads()) {
        let lines = std::iter::once(format!("create {name} hash:ip maxelem 131072\n"));
        sets.extend(lines.chain(addresses.iter().map(|it| format!("add {name} {it}\n"))));
    }
    let mut chains = String::from("*filter\n:FORWARD ACCEPT [0:0]\n");
    let mut rules = String::from("-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n");
    for (number, grant) in size.grants().enumerate() {
        let (first, last) = grant.ports;
        chains.push_str(&format!(":POLICY-{number} - [0:0]\n"));
        rules.push_str(&format!(
            "-A POLICY-{number} -m set --match-set g{} src -m set --match-set w{} dst -p tcp -m tcp --dport {first}:{last} -j MARK --set-xmark 0x10000/0x10000\n",
            grant.group, grant.workload
        ));
    }
    chains.push_str(":POLICY-open - [0:0]\n");
    for protocol in ["tcp", "udp"] {
        rules.push_str(&format!(
            "-A POLICY-open -m set --match-set pods src -m set --match-set local dst -p {protocol} -m {protocol} --dport {}:{} -j MARK --set-xmark 0x10000/0x10000\n",
            OPEN.0, OPEN.1
        ));
    }
    for pod in 0..LOCAL {
        chains.push_str(&format!(":POD-{pod} - [0:0]\n"));
        rules.push_str(&format!("-A FORWARD -d {}/32 -j POD-{pod}\n", local(pod, Family::V4)));
        for (number, _) in size.grants().enumerate().filter(|(_, grant)| grant.workload == pod % WORKLOADS) {
            rules.push_str(&format!("-A POD-{pod} -j POLICY-{number}\n"));
        }
        rules.push_str(&format!("-A POD-{pod} -j POLICY-open\n-A POD-{pod} -m mark ! --mark 0x10000/0x10000 -j DROP\n"));
        rules.push_str(&format!("-A POD-{pod} -j MARK --set-xmark 0x0/0x10000\n-A POD-{pod} -j ACCEPT\n"));
    }
    let filter = format!("{chains}{rules}COMMIT\n");
    Foreign { name: "iptables + ipset", programs: vec![(&["ipset", "restore"], sets), (&["iptables-restore"], filter)] }
}

/// Sets of addresses by name: each group of pods elsewhere, and all pods.
fn groups(size: Size) -> impl Iterator<Item = (String, Vec<String>)> {
    let address = |it: usize| remote(it, Family::V4).to_string();
    let groups = (0..size.groups).map(move |group| (format!("g{group}"), (group..size.remote).step_by(size.groups).map(address).collect()));
    let all = (0..size.remote).map(address).chain((0..LOCAL).map(|it| local(it, Family::V4).to_string())).collect();
    groups.chain([("pods".to_owned(), all)])
}

/// The same of the node's own pods: each workload, and all.
fn workloads() -> impl Iterator<Item = (String, Vec<String>)> {
    let address = |it: usize| local(it, Family::V4).to_string();
    let workloads = (0..WORKLOADS).map(move |it| (format!("w{it}"), (it..LOCAL).step_by(WORKLOADS).map(address).collect()));
    workloads.chain([("local".to_owned(), (0..LOCAL).map(address).collect())])
}
