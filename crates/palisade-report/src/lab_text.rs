//! What a lab says, as text for people.

use crate::text::{BOLD, DIM, colour, painted, plain};
use crate::v1::{Found, LabNode, LabStatus, Probe, ProbeReport, Verdict};

/// Connections that were tried, under one heading for each destination and port. Both families stand in one line where they fare alike.
pub fn probes(it: &ProbeReport) -> String {
    let width = it.probes.iter().map(|probe| probe.from.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut heading = None;
    let mut said: Vec<(&str, &Found, &str)> = Vec::new();
    for probe in &it.probes {
        let traffic = probe.port.map_or(probe.protocol.clone(), |port| format!("{}/{port}", probe.protocol));
        if heading.as_ref() != Some(&(&probe.to, traffic.clone())) {
            out.push_str(&format!("\n{}\n", painted(BOLD, &format!("to {}  {traffic}", probe.to))));
            said.clear();
        }
        heading = Some((&probe.to, traffic));
        let line = (probe.from.as_str(), &probe.found, probe.sentence.as_str());
        if probe.agrees && said.contains(&line) {
            continue;
        }
        said.push(line);
        out.push_str(&format!("  {:<width$}  {}\n", probe.from, fared(probe)));
    }
    out
}

/// The connections that fare otherwise than before, those that opened first.
pub fn changes(before: &ProbeReport, after: &ProbeReport) -> String {
    let same = |a: &Probe, b: &Probe| {
        (&a.from_address, &a.to_address, &a.protocol, a.port) == (&b.from_address, &b.to_address, &b.protocol, b.port)
    };
    let earlier = |probe: &Probe| before.probes.iter().find(|it| same(it, probe));
    let (mut opened, mut closed) = (String::new(), String::new());
    for probe in &after.probes {
        let Some(before) = earlier(probe).filter(|it| it.found != probe.found) else { continue };
        let (word, style, to) = match (&before.found, &probe.found) {
            (_, Found::Answered | Found::Refused) => ("opened", colour(Verdict::Allowed), &mut opened),
            (_, Found::Denied) => ("closed", colour(Verdict::Denied), &mut closed),
            (_, Found::Leaked | Found::Silent | Found::Unsent(_)) => ("broken", colour(Verdict::Mixed), &mut closed),
        };
        let traffic = probe.port.map_or(probe.protocol.clone(), |port| format!("{}/{port}", probe.protocol));
        let line = format!("  {}  {} → {} {traffic}  {}\n", painted(style, word), probe.from, probe.to, painted(DIM, &probe.sentence));
        to.push_str(&line);
    }
    if opened.is_empty() && closed.is_empty() { "  nothing changed\n".to_owned() } else { opened + &closed }
}

/// What became of a probe, and why.
fn fared(probe: &Probe) -> String {
    let style = match probe.found {
        Found::Answered | Found::Refused => colour(Verdict::Allowed),
        Found::Denied => colour(Verdict::Denied),
        Found::Leaked | Found::Silent | Found::Unsent(_) => colour(Verdict::Mixed),
    };
    let found = painted(style, &format!("{:<8}", probe.found.word()));
    let why = match &probe.found {
        // Nothing was tried, so there is nothing to hold against what policy says.
        Found::Unsent(why) => return format!("{found}  {why}"),
        Found::Answered | Found::Refused | Found::Denied | Found::Leaked | Found::Silent => &probe.sentence,
    };
    match probe.agrees {
        true => format!("{found}  {}", painted(DIM, why)),
        false => format!("{found}  {}", painted(colour(Verdict::Mixed), &format!("but policy says {}: {why}", plain(probe.decided)))),
    }
}

/// A lab that is up: what it is, its nodes with their pods, what was denied, what happened to it.
pub fn status(it: &LabStatus) -> String {
    let mut out = format!("lab {}  {}\n", painted(BOLD, &it.name), summary(it));
    let watching = if it.watching { ", followed" } else { "" };
    out.push_str(&format!("from {}{watching}; up for {}; process {}\n", it.from.join(" "), lasted(it.seconds), it.process));
    for node in &it.nodes {
        out.push_str(&self::node(node));
    }
    let width = it.services.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    if !it.services.is_empty() {
        out.push_str(&format!("\n{}\n", painted(BOLD, "Services")));
    }
    for service in &it.services {
        let addresses = if service.addresses.is_empty() { "headless".to_owned() } else { service.addresses.join(" ") };
        out.push_str(&format!("  {:<width$}  {addresses}  {}\n", service.name, service.ports.join(" ")));
    }
    let lost =
        if it.lost_packets == 0 { String::new() } else { format!(", and {} packets more that were not read in time", it.lost_packets) };
    out.push_str(&format!("\ndenied so far: {} connections, {} packets{lost}\n", it.denied_connections, it.denied_packets));
    for note in &it.notes {
        out.push_str(&format!("{note}\n"));
    }
    out
}

/// `2 nodes, 6 pods, 3 Services, 7 policies, routed`.
pub fn summary(it: &LabStatus) -> String {
    let pods: usize = it.nodes.iter().map(|node| node.pods.len()).sum();
    let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    [
        count(it.nodes.len(), "node", "nodes"),
        count(pods, "pod", "pods"),
        count(it.services.len(), "Service", "Services"),
        count(it.policies, "policy", "policies"),
        it.network.clone(),
    ]
    .join(", ")
}

fn node(it: &LabNode) -> String {
    let mut out = format!("\n{}  {}\n", painted(BOLD, &format!("node {}", it.name)), painted(DIM, &it.addresses.join(" ")));
    let width = it.pods.iter().map(|pod| pod.name.chars().count()).max().unwrap_or(0);
    let addresses = it.pods.iter().map(|pod| pod.addresses.join(" ").chars().count()).max().unwrap_or(0);
    for pod in &it.pods {
        let host = if pod.host_network { "  (host network)" } else { "" };
        let listens = if pod.listens.is_empty() { "listens on nothing".to_owned() } else { pod.listens.join(" ") };
        out.push_str(&format!("  {:<width$}  {:<addresses$}  {listens}{host}\n", pod.name, pod.addresses.join(" ")));
    }
    out
}

fn lasted(seconds: u64) -> String {
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
