//! Runs a scenario: every probe through the specification, the engine and the raw judge, all against `expect.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_analysis::{Asked, Case, Explanation, Party as Named, PortAsked, answer};
use palisade_engine::{Compiled, compile_network};
use palisade_k8s::{AttachmentSource, Index, Snapshot, Text};
use palisade_model::{Direction, Model, NetworkId, Place, PortProtocol, Protocol, Severity, Verdict};

use crate::compare::{Reasoned, by_engine, by_spec, same_by_reach, same_on_nodes};
use crate::coverage::Coverage;
use crate::nodes::Nodes;
use crate::objects::Objects;
use crate::raw_judge;
use crate::scenario::{Expect, Line, ObjectKey, Party, Probe, RawProtocol, Scenario};

/// What a run of one scenario found.
#[derive(Debug, Default)]
pub struct Outcome {
    pub probes: usize,
    /// Everything that disagrees, each with its line.
    pub failures: Vec<String>,
    /// The forms of rule that decided some probe.
    pub coverage: Coverage,
}

/// Runs one scenario to its end.
pub fn check(scenario: &Scenario) -> Outcome {
    let mut outcome = Outcome::default();
    if let Err(error) = run(scenario, &mut outcome) {
        outcome.failures.push(format!("{}: {error}", scenario.name));
    }
    outcome
}

/// Reads manifests the way the product does.
pub fn snapshot(name: &str, yaml: &str) -> Snapshot {
    let mut index = Index::default();
    index.read(Text { file: Arc::from(name), content: Arc::from(yaml) });
    index.snapshot()
}

/// The same with the networks that annotations of pods and policies name.
pub fn snapshot_with_networks(name: &str, yaml: &str) -> Snapshot {
    let mut index = Index::default().with_attachments(AttachmentSource::Annotations);
    index.read(Text { file: Arc::from(name), content: Arc::from(yaml) });
    index.snapshot()
}

/// A cluster with everything that is compiled and lowered of it, network by network.
struct Current {
    snapshot: Snapshot,
    networks: BTreeMap<NetworkId, (Compiled, Nodes)>,
}

impl Current {
    fn of(snapshot: Snapshot) -> Current {
        let model = &snapshot.model;
        let each = |id| (id, (compile_network(model, id), Nodes::of_network(model, id)));
        let networks = model.network_ids().map(each).collect();
        Current { snapshot, networks }
    }
}

fn run(scenario: &Scenario, outcome: &mut Outcome) -> Result<(), String> {
    let path = scenario.cluster();
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut objects = Objects::parse(&text)?;
    let mut current = Current::of(snapshot_with_networks("cluster.yaml", &text));
    let mut refused: Vec<&ObjectKey> = Vec::new();
    for (number, line) in &scenario.lines {
        let at = format!("{}/expect.txt:{number}", scenario.name);
        match line {
            Line::Probe(probe) => {
                outcome.probes += 1;
                let judged = without(&objects, &refused);
                outcome
                    .failures
                    .extend(check_probe(&current, &judged, probe, &mut outcome.coverage).into_iter().map(|it| format!("{at}: {it}")));
            }
            Line::Step(step) => {
                objects.take(step).map_err(|error| format!("{at}: {error}"))?;
                current = Current::of(snapshot_with_networks("cluster.json", &objects.to_json()));
            }
            Line::Refused(key) => {
                refused.push(key);
                if !noticed(&current.snapshot, key, Severity::Error) {
                    outcome.failures.push(format!("{at}: not refused; diagnostics:{}", listed(&current.snapshot)));
                }
            }
            Line::Warned(key) => {
                if !noticed(&current.snapshot, key, Severity::Warning) && !noticed(&current.snapshot, key, Severity::Error) {
                    outcome.failures.push(format!("{at}: no warning; diagnostics:{}", listed(&current.snapshot)));
                }
            }
        }
    }
    outcome.failures.extend(unannounced(scenario, &text));
    Ok(())
}

/// Errors that no line of the scenario announces: its manifests are not what its author thinks.
fn unannounced(scenario: &Scenario, text: &str) -> Vec<String> {
    let announced: Vec<String> = scenario.lines.iter().filter_map(|(_, line)| announced(line)).collect();
    let diagnostics = snapshot_with_networks("cluster.yaml", text).diagnostics;
    let surprising = diagnostics.iter().filter(|it| it.severity == Severity::Error && !announced.contains(&named(&it.object)));
    surprising.map(|it| format!("{}: unannounced: {it}", scenario.name)).collect()
}

fn announced(line: &Line) -> Option<String> {
    match line {
        Line::Refused(key) | Line::Warned(key) => Some(spelt(key)),
        Line::Probe(_) | Line::Step(_) => None,
    }
}

fn without(objects: &Objects, refused: &[&ObjectKey]) -> Objects {
    let mut left = objects.clone();
    for key in refused {
        // An object that a step has removed since is simply gone.
        if left.delete(key).is_err() {
            continue;
        }
    }
    left
}

fn noticed(snapshot: &Snapshot, key: &ObjectKey, severity: Severity) -> bool {
    snapshot.diagnostics.iter().any(|it| it.severity == severity && named(&it.object) == spelt(key))
}

/// `Kind ns/name` as `kind/ns/name`.
fn named(object: &str) -> String {
    match object.split_once(' ') {
        Some((kind, name)) => format!("{}/{name}", kind.to_ascii_lowercase()),
        None => object.to_owned(),
    }
}

fn spelt(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{}/{namespace}/{}", key.kind, key.name),
        None => format!("{}/{}", key.kind, key.name),
    }
}

fn listed(snapshot: &Snapshot) -> String {
    snapshot.diagnostics.iter().map(|it| format!("\n    {it}")).collect()
}

fn check_probe(current: &Current, objects: &Objects, probe: &Probe, coverage: &mut Coverage) -> Vec<String> {
    let mut failures = Vec::new();
    let model = &current.snapshot.model;
    let network = probe.network.as_deref().map_or(Some(NetworkId::DEFAULT), |it| model.network_named(it));
    let judges = network.and_then(|id| Some((id, current.networks.get(&id)?)));
    let Some((network, (compiled, nodes))) = judges else { return vec![format!("no network {:?}", probe.network)] };
    let objects = &objects.on_network(probe.network.as_deref());
    let raw = raw_judge::judge(objects, &probe.from, &probe.to, probe.protocol, probe.port);
    if raw.as_ref() != Ok(&probe.expect) {
        failures.push(format!("raw judge says {raw:?}, expected {:?}", probe.expect));
    }
    let asked = Asked { network, ..asked(&probe.from, &probe.to, probe.protocol, probe.port) };
    match answer(model, &asked) {
        Err(error) => failures.push(format!("cannot be asked: {error}")),
        Ok(explanation) => {
            let whole = model;
            let model = &explanation.model;
            let cases = primary(&explanation);
            let mut reach = compiled.reach();
            if cases.is_empty() != (probe.expect == Expect::None) {
                failures.push(format!("{} endpoints, expected {:?}", cases.len(), probe.expect));
            }
            for case in cases {
                failures.extend(check_case(model, probe, case));
                failures.extend(check_beside_others(whole, network, case));
                failures.extend(same_on_nodes(model, nodes, &case.flow, &Reasoned::of(&case.decision)).err().map(|it| it.text));
                // A pod that is only asked about was not compiled.
                let asked_only = model.endpoints.len() != compiled.pod_count();
                failures
                    .extend(same_by_reach(&mut reach, &case.flow, case.decision.verdict).err().filter(|_| !asked_only).map(|it| it.text));
                coverage.note(model, case);
            }
        }
    }
    failures
}

/// The case of the destination's primary address, for each pair of ends.
pub(crate) fn primary(explanation: &Explanation) -> Vec<&Case> {
    let mut first = BTreeMap::new();
    for case in &explanation.cases {
        first.entry((case.from.place, case.to.place, case.flow.port)).or_insert(case);
    }
    first.into_values().collect()
}

/// Endpoints and policies of other networks change nothing, whoever is asked.
fn check_beside_others(whole: &Model, network: NetworkId, case: &Case) -> Option<String> {
    let alone = Reasoned::of(&case.decision);
    // A pod that is only asked about has an id that the whole model does not know, or has given to another.
    let known = |place| match place {
        Place::Pod(id) => whole.endpoint(id).is_some_and(|it| it.network() == network),
        Place::Node(_) | Place::Outside => true,
    };
    let asked = known(case.flow.from.place) && known(case.flow.to.place);
    let others = [by_spec(whole, &case.flow), by_engine(whole, &case.flow)];
    (asked && others.iter().any(|it| *it != alone)).then(|| format!("{alone:?} on the network alone, {others:?} beside others"))
}

fn check_case(model: &Model, probe: &Probe, case: &Case) -> Vec<String> {
    let mut failures = Vec::new();
    let judgement = palisade_spec::judge(model, &case.flow);
    for (who, verdict) in [("spec", judgement.verdict), ("engine", case.decision.verdict)] {
        let got = expectation(verdict);
        if got != probe.expect {
            failures.push(format!("{who} says {got:?}, expected {:?}; {}", probe.expect, why(case)));
        }
    }
    for direction in Direction::BOTH {
        let (verdict, reason) = judgement.directions.of(direction);
        let walk = case.decision.walks.of(direction);
        if (*verdict, reason) != (walk.verdict, &walk.reason) {
            failures.push(format!("{direction}: spec says {verdict:?} by {reason}, engine {:?} by {}", walk.verdict, walk.reason));
        }
        let wanted = match direction {
            Direction::Egress => &probe.egress,
            Direction::Ingress => &probe.ingress,
        };
        if wanted.as_ref().is_some_and(|wanted| *wanted != reason.to_string()) {
            failures.push(format!("{direction} is decided by {reason}, expected {}", wanted.as_deref().unwrap_or_default()));
        }
    }
    failures
}

fn why(case: &Case) -> String {
    let side = |direction| format!("{direction} by {}", case.decision.walks.of(direction).reason);
    format!("{}, {}", side(Direction::Egress), side(Direction::Ingress))
}

pub(crate) fn expectation(verdict: Verdict) -> Expect {
    match verdict {
        Verdict::Accept => Expect::Accept,
        Verdict::Deny => Expect::Deny,
        Verdict::DependsOnDns => Expect::DependsOnDns,
    }
}

/// A probe as a question.
pub fn asked(from: &Party, to: &Party, protocol: RawProtocol, port: Option<u16>) -> Asked {
    let protocol = match protocol {
        RawProtocol::Tcp => Protocol::Port(PortProtocol::Tcp),
        RawProtocol::Udp => Protocol::Port(PortProtocol::Udp),
        RawProtocol::Sctp => Protocol::Port(PortProtocol::Sctp),
        RawProtocol::Icmp => Protocol::Icmp,
        RawProtocol::Other(number) => Protocol::Other(number),
    };
    let port = port.map_or(PortAsked::None, PortAsked::Number);
    Asked { network: NetworkId::DEFAULT, from: party(from), to: party(to), protocol, port }
}

fn party(party: &Party) -> Named {
    match party {
        Party::Pod { namespace, name } => Named::Pod { namespace: namespace.clone(), name: name.clone() },
        Party::Node(name) => Named::Node(name.clone()),
        Party::Address(address) => Named::Address(*address),
        Party::Service { namespace, name } => Named::Service { namespace: namespace.clone(), name: name.clone() },
    }
}
