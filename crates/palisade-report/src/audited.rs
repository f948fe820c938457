//! What audited policies would have done: one connection as a line, and all that was seen as a report.
//!
//! A node logs one direction at a time, with the policies of that moment. The report asks the engine again, about both directions and the policies of
//! today: only that says whether a connection would break or open.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use palisade_engine::{Decision, decide, selects};
use palisade_k8s::{Audited, FieldPath, ObjectKey, Snapshot, Sources, names};
use palisade_model::{
    Direction, End, Flow, Model, NetworkId, Path, Place, PodName, Policy, PolicyKind, PolicyRef, Protocol, Reason, RuleRef, Verdict,
};

use crate::denied::{side, traffic, written_policy, written_rule};
use crate::{explained, locate, v1, words};

/// A connection that a set would treat otherwise, and what is known about it.
#[derive(Clone, Debug)]
pub struct Foreseen<'a> {
    /// The set.
    pub set: &'a str,
    /// What it would become.
    pub becomes: v1::Becomes,
    /// The source.
    pub from: v1::DenialSide,
    /// The destination.
    pub to: v1::DenialSide,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The source's port.
    pub source_port: Option<u16>,
    /// The destination's port.
    pub port: Option<u16>,
    /// Type and code.
    pub icmp: Option<v1::DenialIcmp>,
    /// Which end would decide.
    pub direction: Direction,
    /// What would decide.
    pub reason: &'a Reason,
    /// What decides today.
    pub instead_of: &'a Reason,
    /// How many packets of this connection so far.
    pub packets: u64,
}

/// What one node has seen of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenOnNode {
    /// The set.
    pub set: Box<str>,
    /// Since when, from 1970 on.
    pub since: Duration,
    /// What was logged.
    pub flows: Vec<SeenFlow>,
    /// Connections of pods of the node, by the direction in which they are the subject.
    pub subjects: BTreeMap<(PodName, Direction), u64>,
    /// Connections in no flow.
    pub not_kept: u64,
    /// Packets that were never read.
    pub lost: u64,
}

/// Connections that were logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFlow {
    /// The source.
    pub from: IpAddr,
    /// The destination.
    pub to: IpAddr,
    /// Who had the source's address then: a pod, a node, or nobody that is known.
    pub from_name: String,
    /// The same of the destination.
    pub to_name: String,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The destination's port.
    pub port: Option<u16>,
    /// The direction that said so.
    pub direction: Direction,
    /// What it would have become then.
    pub becomes: v1::Becomes,
    /// What would have decided then.
    pub reason: Reason,
    /// What decided then.
    pub instead_of: Reason,
    /// How many.
    pub connections: u64,
    /// From 1970 on.
    pub first: Duration,
    /// From 1970 on.
    pub last: Duration,
}

/// Writes down what would become of a connection.
pub fn foreseen(it: Foreseen<'_>) -> v1::Would {
    let (rule, isolated_by) = match it.reason {
        Reason::Rule(rule) => (Some(written_rule(rule)), Vec::new()),
        Reason::Isolated(policies) => (None, policies.iter().map(written_policy).collect()),
        Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => (None, Vec::new()),
    };
    let (then, today) = verbs(it.becomes);
    v1::Would {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Would".to_owned(),
        set: it.set.to_owned(),
        becomes: it.becomes,
        from: it.from,
        to: it.to,
        protocol: it.protocol.to_string(),
        source_port: it.source_port,
        port: it.port,
        icmp: it.icmp,
        direction: it.direction.to_string(),
        reason: it.reason.to_string(),
        sentence: sentence(it.reason, it.direction, then),
        today: sentence(it.instead_of, it.direction, today),
        rule,
        isolated_by,
        packets: it.packets,
    }
}

/// The same in one line, after the word `would`.
pub(crate) fn told(it: &v1::Would) -> String {
    let traffic = traffic(&it.protocol, it.port, it.icmp);
    let v1::Would { set, direction, sentence, today, .. } = it;
    format!("{} → {} {traffic}  {set}: {direction}: {sentence} (today: {today})", side(&it.from), side(&it.to))
}

/// What is done then, and what is done today.
fn verbs(becomes: v1::Becomes) -> (&'static str, &'static str) {
    match becomes {
        v1::Becomes::Denied => ("denies", "accepts"),
        v1::Becomes::Allowed => ("accepts", "denies"),
    }
}

fn sentence(reason: &Reason, direction: Direction, verb: &str) -> String {
    match reason {
        Reason::Rule(rule) => format!("{} {} {verb}", words::policy(&rule.policy), words::rule(rule)),
        Reason::Isolated(policies) => {
            let policies: Vec<String> = policies.iter().map(words::policy).collect();
            format!("isolated by {}, no rule accepts", policies.join(", "))
        }
        reason @ (Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default) => explained::reason(reason, direction),
    }
}

/// All that nodes have seen, of one set or of each. `now` is the time from 1970 on.
pub fn audit_report(snapshot: &Snapshot, seen: &[SeenOnNode], set: Option<&str>, now: Duration) -> v1::AuditReport {
    let sets = snapshot.model.audited.iter().filter(|(name, _)| set.is_none_or(|it| it == name.as_ref()));
    let of = |(name, policies): (&str, &[Policy])| {
        let seen: Vec<&SeenOnNode> = seen.iter().filter(|it| *it.set == *name).collect();
        Asked { snapshot, with: snapshot.model.with_audited(name) }.report(name, policies, &seen, now)
    };
    v1::AuditReport {
        api_version: v1::API_VERSION.to_owned(),
        kind: "AuditReport".to_owned(),
        sets: sets.map(|(name, policies)| of((name, policies))).collect(),
    }
}

/// The cluster of today, and with a set.
struct Asked<'s> {
    snapshot: &'s Snapshot,
    with: Model,
}

/// Ends by the names that they had, the traffic, and their addresses: policy may treat both families of a pod differently.
type Key = (String, String, Protocol, Option<u16>, IpAddr, IpAddr);

impl Asked<'_> {
    fn report(&self, name: &str, policies: &[Policy], seen: &[&SeenOnNode], now: Duration) -> v1::AuditSet {
        let since = seen.iter().map(|it| it.since).max();
        let mut set = v1::AuditSet {
            name: name.to_owned(),
            since: since.map(|it| it.as_secs()),
            seconds: since.map_or(0, |it| now.saturating_sub(it).as_secs()),
            policies: policies.iter().map(|it| self.policy(&it.origin)).collect(),
            breaks: Vec::new(),
            opens: Vec::new(),
            stays_denied: Vec::new(),
            seen: Vec::new(),
            never_seen: Vec::new(),
            outdated: 0,
            not_kept: seen.iter().map(|it| it.not_kept).sum(),
            lost: seen.iter().map(|it| it.lost).sum(),
        };
        for (key, flows) in self.by_ends(seen) {
            self.sort_in(&mut set, key, &flows);
        }
        self.subjects(&mut set, policies, seen);
        set
    }

    /// What was seen by its ends: both directions of a connection together, whichever nodes saw them.
    fn by_ends<'f>(&self, seen: &[&'f SeenOnNode]) -> BTreeMap<Key, Vec<&'f SeenFlow>> {
        let mut found: BTreeMap<Key, Vec<&SeenFlow>> = BTreeMap::new();
        for flow in seen.iter().flat_map(|it| &it.flows) {
            let key = (flow.from_name.clone(), flow.to_name.clone(), flow.protocol, flow.port, flow.from, flow.to);
            found.entry(key).or_default().push(flow);
        }
        found
    }

    fn called(&self, address: IpAddr) -> String {
        let model = &self.snapshot.model;
        let name = match model.place_of(NetworkId::DEFAULT, address) {
            Place::Pod(id) => model.endpoint(id).map(|it| it.name.to_string()),
            Place::Node(id) => model.node(id).map(|it| format!("node {}", it.name)),
            Place::Outside => None,
        };
        name.unwrap_or_else(|| address.to_string())
    }

    /// Asks what would become of connections, and puts them where they belong.
    fn sort_in(&self, set: &mut v1::AuditSet, (from, to, protocol, port, source, destination): Key, flows: &[&SeenFlow]) {
        // Each direction counts every connection that gets that far.
        let each = Direction::BOTH.map(|it| flows.iter().filter(|flow| flow.direction == it).map(|flow| flow.connections).sum::<u64>());
        let [egress, ingress] = each;
        let told = |turns: Vec<v1::AuditTurn>| v1::AuditFlow {
            from: self.now_or_gone(&from, source),
            to: self.now_or_gone(&to, destination),
            protocol: protocol.to_string(),
            port,
            connections: egress.max(ingress),
            first: flows.iter().map(|it| it.first.as_secs()).min().unwrap_or(0),
            last: flows.iter().map(|it| it.last.as_secs()).max().unwrap_or(0),
            turns,
            still_denied: None,
        };
        if self.called(source) != from || self.called(destination) != to {
            // Of who had the address then nothing else is known.
            let turns: Vec<v1::AuditTurn> = Direction::BOTH.into_iter().filter_map(|it| self.turn_then(flows, it)).collect();
            let denied = turns.iter().any(|it| it.becomes == v1::Becomes::Denied);
            put(if denied { &mut set.breaks } else { &mut set.opens }, told(turns));
            return;
        }
        let end = |address| End { place: self.with.place_of(NetworkId::DEFAULT, address), address: Some(address) };
        let (source, destination) = (end(source), end(destination));
        // Its own address never leaves a pod: only a Service leads it back to itself.
        let path = if source.place == destination.place { Path::Service } else { Path::Direct };
        let flow = Flow { network: NetworkId::DEFAULT, from: source, to: destination, protocol, port, path };
        let [today, then] = [&self.snapshot.model, &self.with].map(|it| decide(it, &flow));
        let turns: Vec<v1::AuditTurn> = Direction::BOTH.into_iter().filter_map(|it| self.turn(&today, &then, it)).collect();
        if turns.is_empty() {
            set.outdated += 1;
            return;
        }
        let told = told(turns);
        match (today.verdict == Verdict::Accept, then.verdict == Verdict::Accept) {
            (true, _) => put(&mut set.breaks, told),
            (false, true) => put(&mut set.opens, told),
            (false, false) => {
                // A direction that would only begin to deny is among the turns.
                let denies = |decision: &Decision, it: Direction| decision.walks.of(it).verdict != Verdict::Accept;
                let by = Direction::BOTH.into_iter().find(|it| denies(&today, *it) && denies(&then, *it));
                let still_denied = by.map(|it| format!("{it}: {}", sentence(&then.walks.of(it).reason, it, "denies")));
                put(&mut set.stays_denied, v1::AuditFlow { still_denied, ..told });
            }
        }
    }

    fn now_or_gone(&self, name: &str, address: IpAddr) -> String {
        if self.called(address) == name { name.to_owned() } else { format!("{name} (gone)") }
    }

    fn turn(&self, today: &Decision, then: &Decision, direction: Direction) -> Option<v1::AuditTurn> {
        let (today, then) = (today.walks.of(direction), then.walks.of(direction));
        let becomes = match (today.verdict == Verdict::Accept, then.verdict == Verdict::Accept) {
            (true, false) => v1::Becomes::Denied,
            (false, true) => v1::Becomes::Allowed,
            (true, true) | (false, false) => return None,
        };
        Some(self.turned(direction, becomes, &then.reason, &today.reason))
    }

    /// What was logged last in a direction.
    fn turn_then(&self, flows: &[&SeenFlow], direction: Direction) -> Option<v1::AuditTurn> {
        let last = flows.iter().filter(|it| it.direction == direction).max_by_key(|it| it.last)?;
        Some(self.turned(direction, last.becomes, &last.reason, &last.instead_of))
    }

    fn turned(&self, direction: Direction, becomes: v1::Becomes, reason: &Reason, instead_of: &Reason) -> v1::AuditTurn {
        let (then, today) = verbs(becomes);
        v1::AuditTurn {
            direction: direction.to_string(),
            becomes,
            reason: reason.to_string(),
            sentence: sentence(reason, direction, then),
            today: sentence(instead_of, direction, today),
            place: self.place(reason),
        }
    }

    fn place(&self, reason: &Reason) -> Option<v1::Place> {
        let sources = &self.snapshot.sources;
        match reason {
            Reason::Rule(rule) => rule_place(sources, rule),
            Reason::Isolated(policies) => {
                policies.first().and_then(|it| sources.location(&ObjectKey::from(it))).as_ref().map(v1::Place::from)
            }
            Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => None,
        }
    }

    /// A pod is asked about in the directions that policies of the set speak of where they select it.
    fn subjects(&self, set: &mut v1::AuditSet, policies: &[Policy], seen: &[&SeenOnNode]) {
        for endpoint in &self.snapshot.model.endpoints {
            let selecting: Vec<&Policy> = policies.iter().filter(|it| selects(&self.with, it, endpoint)).collect();
            for direction in Direction::BOTH {
                let speaks = |it: &&Policy| *it.isolates.of(direction) || !it.rules.of(direction).is_empty();
                if !selecting.iter().any(speaks) {
                    continue;
                }
                let key = (endpoint.name.clone(), direction);
                let connections = seen.iter().filter_map(|it| it.subjects.get(&key)).sum();
                let subject = v1::AuditSubject { pod: endpoint.name.to_string(), direction: direction.to_string(), connections };
                let list = if connections > 0 { &mut set.seen } else { &mut set.never_seen };
                list.push(subject);
            }
        }
    }

    fn policy(&self, origin: &PolicyRef) -> v1::AuditPolicy {
        let read = self.snapshot.audited.iter().find(|it| it.policy == *origin);
        let mode = FieldPath::default().field("metadata").field("annotations").field(names::MODE);
        let mark = locate::mark_of(&self.snapshot.sources, &ObjectKey::from(origin), &[mode], String::new());
        v1::AuditPolicy {
            kind: origin.kind.as_str().to_owned(),
            namespace: origin.namespace.as_deref().map(str::to_owned),
            name: origin.name.to_string(),
            place: mark.map(|it| it.place),
            promote: promote(origin, read),
        }
    }
}

/// Adds a row, or to the one before where that says the same: of the other family, or of another address.
fn put(rows: &mut Vec<v1::AuditFlow>, row: v1::AuditFlow) {
    let (connections, first, last) = (row.connections, row.first, row.last);
    match rows.last_mut() {
        Some(before)
            if *before == (v1::AuditFlow { connections: before.connections, first: before.first, last: before.last, ..row.clone() }) =>
        {
            before.connections += connections;
            (before.first, before.last) = (before.first.min(first), before.last.max(last));
        }
        Some(_) | None => rows.push(row),
    }
}

fn rule_place(sources: &Sources, rule: &RuleRef) -> Option<v1::Place> {
    locate::mark(sources, rule, &[locate::rule_path(rule)], String::new()).map(|it| it.place)
}

/// What has a policy enforced. The label comes first: until the mode is gone it changes nothing.
fn promote(origin: &PolicyRef, read: Option<&Audited>) -> Vec<String> {
    let resource = match origin.kind {
        PolicyKind::NetworkPolicy => "networkpolicy",
        PolicyKind::ClusterNetworkPolicy => "clusternetworkpolicy.policy.networking.k8s.io",
        PolicyKind::AdminNetworkPolicy => "adminnetworkpolicy.policy.networking.k8s.io",
        PolicyKind::BaselineAdminNetworkPolicy => "baselineadminnetworkpolicy.policy.networking.k8s.io",
        PolicyKind::Kep2091 => "adminnetworkpolicy.kep2091.palisade.dev",
    };
    let namespace = origin.namespace.as_ref().map(|it| format!(" -n {it}")).unwrap_or_default();
    let object = format!("{resource} {}{namespace}", origin.name);
    let label = read.and_then(|it| it.promoted_as.as_deref());
    let label = label.map(|name| format!("kubectl label {object} {}={name} --overwrite", names::CONTROLLER_LABEL));
    let mode = format!("kubectl annotate {object} {}- {}-", names::MODE, names::AUDIT_SET);
    label.into_iter().chain([mode]).collect()
}

/// The report as text.
pub fn audit_text(it: &v1::AuditReport) -> String {
    if it.sets.is_empty() {
        return format!("no policy is audited; `{}: {}` has one watched and not enforced\n", names::MODE, names::MODE_AUDIT);
    }
    it.sets.iter().map(set_text).collect::<Vec<_>>().join("\n")
}

fn set_text(it: &v1::AuditSet) -> String {
    let mut out = match it.since {
        Some(_) => format!("set {}: watched for {}\n", it.name, lasting(it.seconds)),
        None => format!("set {}: not watched by any node\n", it.name),
    };
    for policy in &it.policies {
        let namespace = policy.namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
        let place = policy.place.as_ref().map(|it| format!("  {}:{}", it.file, it.line)).unwrap_or_default();
        out.push_str(&format!("  {} {namespace}{}{place}\n", policy.kind, policy.name));
    }
    for (title, flows) in [
        ("would break", &it.breaks),
        ("would open", &it.opens),
        ("would stay denied, although one direction would change its mind", &it.stays_denied),
    ] {
        out.push_str(&flows_text(title, flows));
    }
    let all = it.seen.len() + it.never_seen.len();
    out.push_str(&format!("\nsubjects seen: {} of {all}\n", it.seen.len()));
    if !it.never_seen.is_empty() {
        out.push_str("never seen, so nothing is known about them:\n");
        out.extend(it.never_seen.iter().map(|it| format!("  {} {}\n", it.pod, it.direction)));
    }
    for (count, what) in [
        (u64::try_from(it.outdated).unwrap_or(u64::MAX), "flows were seen that would no longer fare otherwise"),
        (it.not_kept, "connections were too many to be kept"),
        (it.lost, "logged packets were not read in time"),
    ] {
        out.push_str(&if count > 0 { format!("{count} {what}\n") } else { String::new() });
    }
    out.push_str("\nto enforce it\n");
    for policy in &it.policies {
        out.extend(policy.promote.iter().map(|it| format!("  {it}\n")));
        let label = if policy.promote.len() > 1 { ", and give it the label above" } else { "" };
        let at = policy.place.as_ref().map(|it| format!("  or remove `{}` at {}:{}{label}\n", names::MODE, it.file, it.line));
        out.push_str(&at.unwrap_or_default());
    }
    out
}

fn flows_text(title: &str, flows: &[v1::AuditFlow]) -> String {
    let mut out = match flows {
        [] if title == "would break" => "\nwould break: nothing that was seen\n".to_owned(),
        [] => String::new(),
        some => format!("\n{title}: {}\n", some.len()),
    };
    for flow in flows {
        let traffic = traffic(&flow.protocol, flow.port, None);
        let times = if flow.connections == 1 { "once".to_owned() } else { format!("{} times", flow.connections) };
        out.push_str(&format!("  {} → {} {traffic}  {times}\n", flow.from, flow.to));
        for turn in &flow.turns {
            let place = turn.place.as_ref().map(|it| format!("  {}:{}", it.file, it.line)).unwrap_or_default();
            out.push_str(&format!("    {}: {} (today: {}){place}\n", turn.direction, turn.sentence, turn.today));
        }
        out.extend(flow.still_denied.iter().map(|it| format!("    still {it}\n")));
    }
    out
}

fn lasting(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
