//! Every scenario in a lab: what the specification says is what packets do, by the rule that it names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::mpsc::channel;

use palisade_analysis::{Case, answer};
use palisade_lab::{Families, Finding, Lab, Nodes, Options, Plan, PodNetwork, Question, Speaker, plan};
use palisade_model::{Direction, End, Family, Model, Path, Place, Reached, Verdict};
use palisade_testkit::check::{asked, snapshot};
use palisade_testkit::objects::Objects;
use palisade_testkit::scenario::{Expect, Line, Party, Probe, Scenario, all};

use crate::ground::{is_root, say};

/// How many tests share the scenarios, so that they run beside each other.
const SHARES: usize = 4;

#[test]
fn scenarios_of_the_first_share_hold_for_packets() {
    run_share(0, PodNetwork::Routed);
}

#[test]
fn scenarios_of_the_second_share_hold_for_packets() {
    run_share(1, PodNetwork::Routed);
}

#[test]
fn scenarios_of_the_third_share_hold_for_packets() {
    run_share(2, PodNetwork::Routed);
}

#[test]
fn scenarios_of_the_fourth_share_hold_for_packets() {
    run_share(3, PodNetwork::Routed);
}

#[test]
fn scenarios_hold_for_packets_on_bridges() {
    if is_root() {
        let scenarios = read();
        let some: Vec<&Scenario> = scenarios.iter().step_by(8).collect();
        run(&some, PodNetwork::Bridged);
    }
}

fn read() -> Vec<Scenario> {
    let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let only = std::env::var("PALISADE_SCENARIO").ok();
    all(&root).unwrap().into_iter().filter(|it| only.as_ref().is_none_or(|only| it.name.contains(only))).collect()
}

fn run_share(share: usize, network: PodNetwork) {
    if is_root() {
        let scenarios = read();
        let mine: Vec<&Scenario> = scenarios.iter().skip(share).step_by(SHARES).collect();
        run(&mine, network);
    }
}

fn run(scenarios: &[&Scenario], network: PodNetwork) {
    let mut tally = Tally::default();
    for scenario in scenarios {
        run_scenario(scenario, network, &mut tally);
    }
    for line in &tally.failures {
        say(line);
    }
    say(&format!("{} scenarios: {}", scenarios.len(), tally.words()));
    assert!(tally.failures.is_empty(), "{} differ", tally.failures.len());
    assert!(scenarios.is_empty() || tally.shown.values().sum::<usize>() > 0, "nothing was shown");
}

/// What was tried and what was not.
#[derive(Default)]
struct Tally {
    /// By family, and whether it passed.
    shown: BTreeMap<(Family, bool), usize>,
    /// Why a kernel cannot show it.
    not_shown: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
}

impl Tally {
    fn words(&self) -> String {
        let word = |passed| if passed { "passed" } else { "denied" };
        let shown = self.shown.iter().map(|((family, passed), count)| format!("{count} {family} {}", word(*passed)));
        let not_shown = self.not_shown.iter().map(|(why, count)| format!("{count} not shown ({why})"));
        shown.chain(not_shown).collect::<Vec<_>>().join(", ")
    }
}

/// One packet to send, and what must become of it.
struct Wanted {
    at: String,
    question: Question,
    verdict: Verdict,
    /// What drops it.
    reason: String,
}

fn run_scenario(scenario: &Scenario, network: PodNetwork, tally: &mut Tally) {
    let options = Options { nodes: Nodes::Own(2), families: Families::Both, network };
    let text = std::fs::read_to_string(scenario.cluster()).unwrap();
    let mut objects = Objects::parse(&text).unwrap();
    let mut current = plan(&snapshot("cluster.yaml", &text).model, &options).unwrap();
    let (events, heard) = channel();
    let (mut lab, notes) = Lab::up(current.clone(), events, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    tally.failures.extend(notes.into_iter().map(|it| format!("{}: {it}", scenario.name)));
    let mut waiting: Vec<Wanted> = Vec::new();
    for (number, line) in &scenario.lines {
        match line {
            Line::Probe(probe) => waiting.extend(wanted(&format!("{}/expect.txt:{number}", scenario.name), &current, probe, tally)),
            Line::Step(step) => {
                send(&mut lab, &mut waiting, tally);
                objects.take(step).unwrap();
                current = current.next(&snapshot("cluster.json", &objects.to_json()).model, &options).unwrap();
                lab.apply(current.clone(), |_| {}).unwrap_or_else(|error| panic!("{}:{number}: {error}", scenario.name));
            }
            Line::Refused(_) | Line::Warned(_) => {}
        }
    }
    send(&mut lab, &mut waiting, tally);
    drop(heard);
}

fn send(lab: &mut Lab, waiting: &mut Vec<Wanted>, tally: &mut Tally) {
    let waiting = std::mem::take(waiting);
    let questions: Vec<Question> = waiting.iter().map(|it| it.question.clone()).collect();
    let findings = lab.probe(&questions).unwrap();
    for (wanted, finding) in waiting.into_iter().zip(findings) {
        let passes = wanted.verdict == Verdict::Accept;
        match &finding {
            Finding::Answered | Finding::Refused if passes => {}
            Finding::Denied(denial) if !passes && spelt(denial) == wanted.reason => {}
            _ => {
                tally.failures.push(format!(
                    "{}: {:?} {} -> {} {} {:?}: wanted {:?} by {}, found {}",
                    wanted.at,
                    wanted.question.from,
                    wanted.question.source,
                    wanted.question.to,
                    wanted.question.protocol,
                    wanted.question.port,
                    wanted.verdict,
                    wanted.reason,
                    found(&finding)
                ));
                continue;
            }
        }
        *tally.shown.entry((Family::of(wanted.question.to), passes)).or_default() += 1;
    }
}

fn found(finding: &Finding) -> String {
    match finding {
        Finding::Denied(denial) => format!("denied by {}", spelt(denial)),
        Finding::Leaked(denial) => format!("LEAKED past {}", spelt(denial)),
        other => format!("{other:?}"),
    }
}

fn wanted(at: &str, plan: &Plan, probe: &Probe, tally: &mut Tally) -> Vec<Wanted> {
    let mut skip = |why| {
        *tally.not_shown.entry(why).or_default() += 1;
        Vec::new()
    };
    if probe.expect == Expect::None {
        return skip("a Service without endpoints");
    }
    let explanation = answer(&plan.model, &asked(&probe.from, &probe.to, probe.protocol, probe.port)).unwrap();
    let virtual_addresses = service_addresses(&plan.model, &probe.to);
    let mut wanted: Vec<Wanted> = Vec::new();
    for case in &explanation.cases {
        if case.flow.path == Path::Service && !agree(&explanation.cases, case) {
            skip("a Service whose endpoints fare unlike each other");
            continue;
        }
        match question(plan, case, &virtual_addresses, probe.port) {
            Err(why) => drop(skip(why)),
            Ok(question) => {
                let judgement = palisade_spec::judge(&plan.model, &case.flow);
                let denies = Direction::BOTH.into_iter().find(|it| judgement.directions.of(*it).0 != Verdict::Accept);
                let reason = denies.map(|it| format!("{it} {}", judgement.directions.of(it).1)).unwrap_or_default();
                wanted.push(Wanted { at: at.to_owned(), question, verdict: judgement.verdict, reason });
            }
        }
    }
    wanted.dedup_by(|a, b| a.question == b.question);
    wanted
}

/// Whether all endpoints of a Service fare like this one, in its family.
fn agree(cases: &[Case], case: &Case) -> bool {
    let same = |it: &&Case| it.family == case.family && it.from == case.from;
    cases.iter().filter(same).all(|it| {
        let deciding = |it: &Case| Direction::BOTH.map(|direction| it.decision.walks.of(direction).reason.clone());
        it.decision.verdict == case.decision.verdict && deciding(it) == deciding(case)
    })
}

fn question(plan: &Plan, case: &Case, virtual_addresses: &[IpAddr], port: Option<u16>) -> Result<Question, &'static str> {
    let flow = &case.flow;
    let (Some(source), Some(address)) = (flow.from.address, flow.to.address) else { return Err("an end without an address") };
    if source.is_ipv4() != address.is_ipv4() {
        return Err("ends of two families");
    }
    if flow.path == Path::Direct && flow.from.place == flow.to.place {
        return Err("an end that speaks to itself");
    }
    if [source, address].into_iter().any(|it| it.is_loopback() || it.is_multicast() || it.is_unspecified()) {
        return Err("an address that no host can have");
    }
    for end in [&flow.from, &flow.to] {
        if !owns(plan, end) {
            return Err("an address that belongs to another");
        }
    }
    let from = match flow.from.place {
        Place::Pod(id) => Speaker::Pod(plan.model.endpoint(id).unwrap().name.clone()),
        Place::Node(id) => Speaker::Node(plan.model.node(id).unwrap().name.clone()),
        Place::Outside => Speaker::Outside,
    };
    let (to, port) = match flow.path {
        Path::Direct => (address, flow.port),
        Path::Service => {
            let family = virtual_addresses.iter().find(|it| it.is_ipv4() == address.is_ipv4());
            (*family.ok_or("a Service without an address of the family")?, port)
        }
    };
    Ok(Question { from, source, to, protocol: flow.protocol, port })
}

fn owns(plan: &Plan, end: &End) -> bool {
    end.address.is_some_and(|it| plan.model.place_of(it) == end.place)
}

fn service_addresses(model: &Model, to: &Party) -> Vec<IpAddr> {
    let found = model.services.iter().find(|service| match to {
        Party::Service { namespace, name } => *service.namespace == **namespace && *service.name == **name,
        Party::Address(address) => matches!(&service.reached, Reached::Virtual(all) if all.contains(address)),
        Party::Pod { .. } | Party::Node(_) => false,
    });
    match found.map(|it| &it.reached) {
        Some(Reached::Virtual(addresses)) => addresses.clone(),
        Some(Reached::Headless) | None => Vec::new(),
    }
}

fn spelt(denial: &palisade_agent::Denial) -> String {
    format!("{} {}", denial.origin.direction, denial.origin.reason)
}
