//! What a lab that is up answers.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use palisade_agent::{Counter, Did};
use palisade_analysis::{Asked, Party, node_named};
use palisade_k8s::Snapshot;
use palisade_lab::control::{Frame, MetricsForm, Output, ProbeRequest, Request, Wanted};
use palisade_lab::{ClosedFor, Finding, Lab, NodeCounts, Options, PodNetwork, Speaker, Trial, WhileUnknown, everybody, trials};
use palisade_model::{ContainerPort, Model, NetworkId, NodeId};
use palisade_report::audited::{audit_report, audit_text};
use palisade_report::{decisive, lab_text, metrics_text, probed, prometheus, text, v1, verdict};

use crate::cli::{self, InputArgs};
use crate::lab::history::{Entry, History, Since};
use crate::lab::serve::{End, reread};
use crate::lab::{UpArgs, process};
use crate::verify::said;

/// Everybody to everybody is meant for people to read.
const MOST_PROBES: usize = 50_000;
/// Who calls from outside of the cluster, unless somebody of it has the address.
const OUTSIDE: [&str; 4] = ["203.0.113.7", "198.51.100.7", "2001:db8::7", "2001:db8:1::7"];

/// A part of an answer, to whoever asked.
type Say<'a> = &'a mut dyn FnMut(Frame) -> io::Result<()>;

#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    options: Options,
    watching: bool,
    input: InputArgs,
    since: Instant,
    lab: Mutex<Option<Lab>>,
    /// What it was built from.
    read: Mutex<Snapshot>,
    pub(crate) history: Arc<History>,
    end: Mutex<End>,
}

/// What came of reading the files again.
pub(crate) enum Told {
    Applied,
    Refused(String),
}

impl Server {
    pub(crate) fn new(args: &UpArgs, options: Options, (lab, read): (Lab, Snapshot), history: Arc<History>, end: End) -> Server {
        Server {
            name: args.lab.name.clone(),
            options,
            watching: args.watch,
            input: args.input.clone(),
            since: Instant::now(),
            lab: Mutex::new(Some(lab)),
            read: Mutex::new(read),
            history,
            end: Mutex::new(end),
        }
    }

    pub(crate) fn answer(&self, request: Request, say: Say<'_>) -> io::Result<()> {
        let answered = match request {
            Request::Status { output } => self.tell_status(output, say),
            Request::Probe { one, output } => self.probe(one.as_ref(), output, say),
            Request::Told { what, follow, output } => self.told(what, follow, output, say),
            Request::AuditReport { set, output } => self.audit_report(set.as_deref(), output, say),
            Request::Counted => self.counted(say),
            Request::Metrics { form } => self.metrics(form, say),
            Request::Where { of } => self.tell_where(&of, say),
            Request::Verify { node, repair, output } => self.verify(node.as_deref(), repair, output, say),
            Request::Down => self.down(say),
        };
        match answered {
            Ok(code) => say(Frame::Exit(code)),
            Err(error) => {
                say(Frame::Err(format!("error: {error:#}\n")))?;
                say(Frame::Exit(2))
            }
        }
    }

    /// Reads the files again and brings the lab to what they say. Files with errors change nothing.
    pub(crate) fn reread(&self) -> Result<Told> {
        let input = reread(&self.input)?;
        if input.refused() {
            return Ok(Told::Refused(text::diagnostics(&input.diagnostics()).trim_end().to_owned()));
        }
        let mut held = lock(&self.lab);
        let lab = held.as_mut().ok_or_else(ending)?;
        let plan = match lab.plan().next(&input.snapshot.model, &self.options) {
            Ok(plan) => plan,
            Err(error) => return Ok(Told::Refused(error.to_string())),
        };
        let known: Vec<ClosedFor> = lab.closed_for();
        for note in lab.apply(plan, |_| {})? {
            self.history.push(Entry::Note(format!("note: {note}")));
        }
        if let (WhileUnknown::Closed { .. }, Some(note)) = (&self.options.unknown, waited(&lab.closed_for(), &known)) {
            self.history.push(Entry::Note(note));
        }
        let noticed = text::diagnostics(&input.diagnostics());
        if !noticed.is_empty() {
            self.history.push(Entry::Note(noticed.trim_end().to_owned()));
        }
        *lock(&self.read) = input.snapshot;
        Ok(Told::Applied)
    }

    pub(crate) fn status(&self) -> v1::LabStatus {
        let held = lock(&self.lab);
        let mut status = v1::LabStatus {
            api_version: v1::API_VERSION.to_owned(),
            kind: "LabStatus".to_owned(),
            name: self.name.clone(),
            process: std::process::id(),
            seconds: self.since.elapsed().as_secs(),
            from: self.input.filename.clone(),
            watching: self.watching,
            network: match self.options.network {
                PodNetwork::Routed => "routed".to_owned(),
                PodNetwork::Bridged => "bridged".to_owned(),
            },
            nodes: Vec::new(),
            services: Vec::new(),
            policies: 0,
            denied_connections: 0,
            denied_packets: 0,
            lost_packets: 0,
            notes: self.notes(),
        };
        if let Some(lab) = held.as_ref() {
            let model = &lab.plan().model;
            status.nodes = nodes(model);
            status.services = services(model);
            status.policies = model.policies.len();
            let totals = lab.totals();
            status.denied_connections = totals.events + totals.suppressed;
            status.denied_packets = totals.packets;
            status.lost_packets = totals.lost;
        }
        status
    }

    fn notes(&self) -> Vec<String> {
        let entries = self.history.since(0, Duration::ZERO).entries.into_iter();
        entries.filter_map(|it| if let Entry::Note(note) = it { Some(note) } else { None }).collect()
    }

    fn tell_status(&self, output: Output, say: Say<'_>) -> Result<u8> {
        let status = self.status();
        say(Frame::Out(match output {
            Output::Text => lab_text::status(&status),
            Output::Json => serde_json::to_string_pretty(&status)? + "\n",
        }))?;
        Ok(0)
    }

    fn probe(&self, one: Option<&ProbeRequest>, output: Output, say: Say<'_>) -> Result<u8> {
        let mut held = lock(&self.lab);
        let lab = held.as_mut().ok_or_else(ending)?;
        let (trials, not_shown) = match one {
            Some(one) => trials(lab.plan(), &asked(one)?).map_err(|error| anyhow!(error))?,
            None => (everybody(lab.plan(), &outside(&lab.plan().model)), Vec::new()),
        };
        if trials.len() > MOST_PROBES {
            bail!("that is {} connections; name one with --from and --to", trials.len());
        }
        if let (true, Some(why)) = (trials.is_empty(), not_shown.first()) {
            bail!("no packet can show this: {why}");
        }
        let report = try_all(lab, &trials, one.map(|it| it.to.as_str()))?;
        drop(held);
        say(Frame::Out(match output {
            Output::Text => format!("{}\n{}", lab_text::probes(&report), count(&report)),
            Output::Json => serde_json::to_string_pretty(&report)? + "\n",
        }))?;
        Ok(code(&report, one.is_some()))
    }

    fn told(&self, what: Wanted, follow: bool, output: Output, say: Say<'_>) -> Result<u8> {
        let mut place = 0;
        loop {
            let patience = if follow { Duration::from_millis(500) } else { Duration::ZERO };
            let Since { entries, missed, next } = self.history.since(place, patience);
            place = next;
            if missed > 0 {
                say(Frame::Err(format!("{missed} earlier events are not kept any more\n")))?;
            }
            for entry in entries {
                match told(&entry, what, output)? {
                    Some(frame) => say(frame)?,
                    None => continue,
                }
            }
            if !follow {
                return Ok(0);
            }
            // Somebody who has left is noticed by saying something.
            say(Frame::Err(String::new()))?;
        }
    }

    fn audit_report(&self, set: Option<&str>, output: Output, say: Say<'_>) -> Result<u8> {
        let held = lock(&self.lab);
        let lab = held.as_ref().ok_or_else(ending)?;
        let snapshot = Snapshot { model: lab.plan().model.clone(), ..lock(&self.read).clone() };
        let known: Vec<&str> = snapshot.model.audited.keys().map(AsRef::as_ref).collect();
        if let Some(set) = set.filter(|it| !known.contains(it)) {
            bail!("no policy of a set `{set}` is audited; sets: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") });
        }
        let seen: Vec<_> = lab.watched()?.iter().map(palisade_agent::Watched::seen).collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let report = audit_report(&snapshot, &seen, set, now);
        say(Frame::Out(match output {
            Output::Text => audit_text(&report),
            Output::Json => serde_json::to_string_pretty(&report)? + "\n",
        }))?;
        Ok(report.outcome().code())
    }

    fn counted(&self, say: Say<'_>) -> Result<u8> {
        let held = lock(&self.lab);
        let lab = held.as_ref().ok_or_else(ending)?;
        let mut out = format!("{:>10} {:>12}\n", "packets", "bytes");
        for NodeCounts { node, rules } in lab.counted()? {
            for it in rules.into_iter().filter(|it| it.packets > 0) {
                let did = match it.did {
                    Did::Drop => "dropped",
                    Did::Pass => "passed",
                };
                out.push_str(&format!("{:>10} {:>12}  {did:<7}  {node}  {}\n", it.packets, it.bytes, it.origin));
            }
        }
        say(Frame::Out(out))?;
        Ok(0)
    }

    fn metrics(&self, form: MetricsForm, say: Say<'_>) -> Result<u8> {
        let held = lock(&self.lab);
        let lab = held.as_ref().ok_or_else(ending)?;
        let nodes = lab
            .counts()
            .into_iter()
            .map(|(name, counts)| v1::MetricsNode { name: name.into(), counters: counts.counters().into_iter().map(counter).collect() });
        let metrics = v1::Metrics { api_version: v1::API_VERSION.to_owned(), kind: "Metrics".to_owned(), nodes: nodes.collect() };
        drop(held);
        say(Frame::Out(match form {
            MetricsForm::Text => metrics_text(&metrics),
            MetricsForm::Json => serde_json::to_string_pretty(&metrics)? + "\n",
            MetricsForm::Prometheus => prometheus(&metrics),
        }))?;
        Ok(0)
    }

    fn verify(&self, node: Option<&str>, repair: bool, output: Output, say: Say<'_>) -> Result<u8> {
        let held = lock(&self.lab);
        let lab = held.as_ref().ok_or_else(ending)?;
        let model = &lab.plan().model;
        let nodes = match node {
            Some(name) => vec![node_named(model, name).map_err(|error| anyhow!(error))?],
            None => (0..model.nodes.len()).map(NodeId).collect(),
        };
        let mut code = 0;
        for node in nodes {
            let mut verified = lab.verify(node)?;
            if repair && !verified.holds {
                lab.repair(node)?;
                let sentence = "the agent brought our tables to what policy says, step by step".to_owned();
                verified.repaired = Some(v1::VerifyRepair { sentence, left: lab.verify(node)?.unresolved() });
            }
            code = code.max(verified.outcome().code());
            let output = match output {
                Output::Text => cli::Output::Text,
                Output::Json => cli::Output::Json,
            };
            say(Frame::Out(said(&verified, output)?))?;
        }
        Ok(code)
    }

    fn tell_where(&self, of: &str, say: Say<'_>) -> Result<u8> {
        let held = lock(&self.lab);
        let lab = held.as_ref().ok_or_else(ending)?;
        let speaker = speaker(&lab.plan().model, of)?;
        let namespace = lab.namespace(&speaker).ok_or_else(|| anyhow!("`{of}` is not in the lab"))?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd()));
        say(Frame::Namespace(path))?;
        Ok(0)
    }

    fn down(&self, say: Say<'_>) -> Result<u8> {
        let status = self.status();
        let ended = process::end_marked(&self.name)?;
        drop(lock(&self.lab).take());
        if !ended.is_empty() {
            say(Frame::Out(format!("ended {}\n", ended.join(", "))))?;
        }
        say(Frame::Out(format!("lab {} is down: {}\n", self.name, lab_text::summary(&status))))?;
        say(Frame::Exit(0))?;
        // Nobody is left to hear of it if this fails: the process is ending already.
        lock(&self.end).send(()).ok();
        Ok(0)
    }
}

fn counter(it: Counter) -> v1::MetricsCounter {
    v1::MetricsCounter {
        name: format!("palisade_{}_total", it.name),
        help: it.help.to_owned(),
        label: it.label.map(|(name, value)| v1::MetricsLabel { name: name.to_owned(), value }),
        value: it.value,
    }
}

/// How long pods that were not there before waited for their policy.
fn waited(now: &[ClosedFor], before: &[ClosedFor]) -> Option<String> {
    let new: Vec<&ClosedFor> = now.iter().filter(|it| !before.contains(it)).collect();
    let longest = new.iter().max_by_key(|it| it.time)?;
    let time = longest.time.as_secs_f64() * 1_000.0;
    Some(match new.as_slice() {
        [only] => format!("pod {} was closed for {time:.1} ms, until its policy was in force", only.pod),
        several => format!("{} new pods were closed until their policy was in force, {} longest: {time:.1} ms", several.len(), longest.pod),
    })
}

/// What somebody who follows connections is told of an entry.
fn told(entry: &Entry, what: Wanted, output: Output) -> Result<Option<Frame>> {
    let line = |text: String, json: serde_json::Result<String>| -> Result<Option<Frame>> {
        Ok(Some(Frame::Out(match output {
            Output::Text => text,
            Output::Json => json? + "\n",
        })))
    };
    match (entry, what) {
        (Entry::Denied(it), Wanted::Denied) => line(text::denial(it), serde_json::to_string(it)),
        (Entry::Cut(it), Wanted::Denied) => line(text::cut(it), serde_json::to_string(it)),
        (Entry::Accepted(it), Wanted::Accepted) => line(text::acceptance(it), serde_json::to_string(it)),
        (Entry::Would(it), Wanted::Would) => line(text::would(it), serde_json::to_string(it)),
        (Entry::Suppressed { .. }, Wanted::Denied)
        | (Entry::AcceptedMore { .. }, Wanted::Accepted)
        | (Entry::WouldMore { .. }, Wanted::Would)
        | (Entry::Lost { .. }, _) => Ok(entry.aside().map(Frame::Err)),
        (
            Entry::Denied(_)
            | Entry::Cut(_)
            | Entry::Accepted(_)
            | Entry::Would(_)
            | Entry::Suppressed { .. }
            | Entry::AcceptedMore { .. }
            | Entry::WouldMore { .. }
            | Entry::Note(_),
            _,
        ) => Ok(None),
    }
}

fn ending() -> anyhow::Error {
    anyhow!("the lab is ending")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole at any time, also when its holder panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries connections and holds each against what was decided.
pub(crate) fn try_all(lab: &mut Lab, trials: &[Trial], called: Option<&str>) -> Result<v1::ProbeReport> {
    let questions: Vec<_> = trials.iter().map(|it| it.question.clone()).collect();
    let findings = lab.probe(&questions)?;
    Ok(probed(trials.iter().zip(&findings).map(|(trial, finding)| probe_of(trial, finding, called)).collect()))
}

fn probe_of(trial: &Trial, finding: &Finding, called: Option<&str>) -> v1::Probe {
    let first = trial.cases.first();
    // Behind a Service the packet says which endpoint it was.
    let deciding = trial.cases.iter().find(|it| trial.agrees_in(it, finding)).or(first);
    let question = &trial.question;
    v1::Probe {
        from: first.map(|it| it.from.name.clone()).unwrap_or_default(),
        to: called.map(str::to_owned).or_else(|| first.map(|it| it.to.name.clone())).unwrap_or_default(),
        from_address: question.source.to_string(),
        to_address: question.to.to_string(),
        protocol: question.protocol.to_string(),
        port: question.port,
        decided: trial.decided().map_or(v1::Verdict::Mixed, verdict),
        found: match finding {
            Finding::Answered => v1::Found::Answered,
            Finding::Refused => v1::Found::Refused,
            Finding::Denied(_) => v1::Found::Denied,
            Finding::Leaked(_) => v1::Found::Leaked,
            Finding::Silent => v1::Found::Silent,
            Finding::Unsent(why) => v1::Found::Unsent(why.clone()),
        },
        sentence: deciding.map(|it| decisive(&it.decision)).unwrap_or_default(),
        agrees: trial.agrees_with(finding),
    }
}

fn code(report: &v1::ProbeReport, one: bool) -> u8 {
    let denied = report.probes.iter().any(|it| it.found == v1::Found::Denied);
    match (one, report.differ, report.unsent) {
        (true, 0, 0) => u8::from(denied),
        (false, 0, 0) => 0,
        (false, 1.., _) => 1,
        (true, ..) | (false, 0, 1..) => 2,
    }
}

pub(crate) fn count(report: &v1::ProbeReport) -> String {
    let denied = report.probes.iter().filter(|it| it.found == v1::Found::Denied).count();
    if report.probes.is_empty() {
        return "nothing to try: no pod of the pod network declares a port that another can call\n".to_owned();
    }
    let tried = report.agree + report.differ;
    let noun = if tried == 1 { "connection" } else { "connections" };
    let agreed = match (tried, report.differ) {
        (0, _) => None,
        (_, 0) => Some("all as policy says".to_owned()),
        (_, some) => Some(format!("{some} NOT as policy says")),
    };
    let unsent = (report.unsent > 0).then(|| format!("{} not sent", report.unsent));
    let rest: Vec<String> = agreed.into_iter().chain(unsent).collect();
    format!("{tried} {noun} tried with packets: {} reached, {denied} denied; {}\n", arrived(report), rest.join("; "))
}

fn arrived(report: &v1::ProbeReport) -> usize {
    report.probes.iter().filter(|it| [v1::Found::Answered, v1::Found::Refused].contains(&it.found)).count()
}

fn asked(one: &ProbeRequest) -> Result<Asked> {
    Asked::parse(&one.from, &one.to, &one.protocol, one.port.as_deref()).map_err(|error| anyhow!(error))
}

/// Addresses outside of the cluster, one of each family.
pub(crate) fn outside(model: &Model) -> Vec<IpAddr> {
    let free = OUTSIDE
        .iter()
        .filter_map(|it| it.parse::<IpAddr>().ok())
        .filter(|it| model.place_of(NetworkId::DEFAULT, *it) == palisade_model::Place::Outside);
    let all: Vec<IpAddr> = free.collect();
    [true, false].into_iter().filter_map(|ipv4| all.iter().copied().find(|it| it.is_ipv4() == ipv4)).collect()
}

fn speaker(model: &Model, of: &str) -> Result<Speaker> {
    if of == "outside" {
        return Ok(Speaker::Outside);
    }
    match Party::parse(of).map_err(|error| anyhow!(error))? {
        Party::Node(name) if model.nodes.iter().any(|it| *it.name == *name) => Ok(Speaker::Node(name.into())),
        Party::Pod { namespace, name } => {
            let named = model.endpoints.iter().find(|it| *it.name.namespace == *namespace && *it.name.name == *name);
            let host = || {
                let on = |node: &&palisade_model::Node| {
                    node.host_pods.iter().any(|it| *it.name.namespace == *namespace && *it.name.name == *name)
                };
                model.nodes.iter().find(on).map(|it| Speaker::Node(it.name.clone()))
            };
            named.map(|it| Speaker::Pod(it.name.clone())).or_else(host).ok_or_else(|| anyhow!("no pod `{of}` is in the lab"))
        }
        Party::Workload { namespace, kind, name } => {
            let owned = model
                .endpoints
                .iter()
                .find(|it| *it.name.namespace == *namespace && it.owners.iter().any(|owner| *owner.kind == *kind && *owner.name == *name));
            owned.map(|it| Speaker::Pod(it.name.clone())).ok_or_else(|| anyhow!("no pod of `{of}` is in the lab"))
        }
        Party::Node(_) | Party::Address(_) | Party::Labels { .. } | Party::Service { .. } => {
            bail!("`{of}` is nobody in the lab; name NAMESPACE/POD, node/NAME or outside")
        }
    }
}

fn services(model: &Model) -> Vec<v1::LabService> {
    let service = |it: &palisade_model::Service| v1::LabService {
        name: format!("{}/{}", it.namespace, it.name),
        addresses: it.addresses().iter().map(ToString::to_string).collect(),
        ports: it.ports.iter().map(|port| format!("{}/{}", port.protocol, port.port)).collect(),
    };
    model.services.iter().map(service).collect()
}

fn nodes(model: &Model) -> Vec<v1::LabNode> {
    let words = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    let listens = |ports: &[ContainerPort]| ports.iter().map(|it| format!("{}/{}", it.protocol, it.port)).collect();
    let of_node = |at: usize, node: &palisade_model::Node| {
        let own = model.endpoints.iter().filter(|it| it.node.map(|id| id.0) == Some(at)).map(|it| v1::LabPod {
            name: it.name.to_string(),
            addresses: words(&it.addresses),
            listens: listens(&it.ports),
            host_network: false,
        });
        let host = node.host_pods.iter().map(|it| v1::LabPod {
            name: it.name.to_string(),
            addresses: words(&node.addresses),
            listens: listens(&it.ports),
            host_network: true,
        });
        v1::LabNode { name: node.name.to_string(), addresses: words(&node.addresses), pods: own.chain(host).collect() }
    };
    model.nodes.iter().enumerate().map(|(at, node)| of_node(at, node)).collect()
}
