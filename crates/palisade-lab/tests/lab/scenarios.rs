//! Every scenario in a lab: what the specification says is what packets do, by the rule that it names.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::mpsc::channel;

use palisade_lab::{Families, Finding, Lab, Nodes, NotShown, Options, Plan, PodNetwork, Question, Trial, plan, trials};
use palisade_model::{Direction, Family};
use palisade_testkit::check::{asked, snapshot};
use palisade_testkit::objects::Objects;
use palisade_testkit::scenario::{Line, Party, Probe, Scenario, all};

use crate::ground::{is_root, say};

/// How many tests share the scenarios, so that they run beside each other.
const SHARES: usize = 4;

#[test]
fn scenarios_of_the_first_share_hold_for_packets() {
    run_share(0);
}

#[test]
fn scenarios_of_the_second_share_hold_for_packets() {
    run_share(1);
}

#[test]
fn scenarios_of_the_third_share_hold_for_packets() {
    run_share(2);
}

#[test]
fn scenarios_of_the_fourth_share_hold_for_packets() {
    run_share(3);
}

#[test]
fn scenarios_hold_for_packets_on_bridges() {
    if is_root() {
        let scenarios = read();
        // Services meet the bridge itself; of the rest some will do.
        let some = scenarios.iter().enumerate().filter(|(at, it)| at.is_multiple_of(8) || it.name.contains("service"));
        let some: Vec<&Scenario> = some.map(|(_, it)| it).collect();
        run(&some, PodNetwork::Bridged);
    }
}

fn run_share(share: usize) {
    if is_root() {
        let scenarios = read();
        let mine: Vec<&Scenario> = scenarios.iter().skip(share).step_by(SHARES).collect();
        run(&mine, PodNetwork::Routed);
    }
}

/// All of them, or those whose names contain `PALISADE_SCENARIO`.
fn read() -> Vec<Scenario> {
    let root = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let only = std::env::var("PALISADE_SCENARIO").ok();
    all(&root).unwrap().into_iter().filter(|it| only.as_ref().is_none_or(|only| it.name.contains(only))).collect()
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
    /// By family, and whether it arrived.
    shown: BTreeMap<(Family, bool), usize>,
    not_shown: BTreeMap<NotShown, usize>,
    /// Probes of upstream's own suites, by suite and family.
    upstream: BTreeMap<(&'static str, Family), usize>,
    failures: Vec<String>,
}

impl Tally {
    fn words(&self) -> String {
        let word = |arrived| if arrived { "arrived" } else { "denied" };
        let shown = self.shown.iter().map(|((family, arrived), count)| format!("{count} {family} {}", word(*arrived)));
        let not_shown = self.not_shown.iter().map(|(why, count)| format!("{count} not shown ({why})"));
        let upstream = self.upstream.iter().map(|((suite, family), count)| format!("{count} {family} of {suite}"));
        shown.chain(not_shown).chain(upstream).collect::<Vec<_>>().join(", ")
    }

    /// Upstream's cases leave nothing out: each is shown in both families, unless it names an address of one.
    fn upstream(&mut self, scenario: &Scenario, probe: &Probe, trials: &[Trial], at: &str) {
        let Some(suite) = ["conformance", "e2e"].into_iter().find(|it| scenario.name.starts_with(it)) else { return };
        let shown: Vec<Family> =
            [Family::V4, Family::V6].into_iter().filter(|it| trials.iter().any(|trial| Family::of(trial.question.to) == *it)).collect();
        let addressed = [&probe.from, &probe.to].into_iter().any(|it| matches!(it, Party::Address(_)));
        let itself = probe.from == probe.to;
        if shown.len() < 2 && !itself && (!addressed || shown.is_empty()) {
            self.failures.push(format!("{at}: shown in {shown:?} only"));
        }
        for family in shown {
            *self.upstream.entry((suite, family)).or_default() += 1;
        }
    }
}

fn run_scenario(scenario: &Scenario, network: PodNetwork, tally: &mut Tally) {
    let options = Options { nodes: Nodes::Own(2), families: Families::Both, network, ..Options::default() };
    let text = std::fs::read_to_string(scenario.cluster()).unwrap();
    let mut objects = Objects::parse(&text).unwrap();
    // The lab has the pod network only.
    let on_pod_network = |objects: &Objects| snapshot("cluster.json", &objects.on_network(None).to_json()).model;
    let first = if scenario.has_networks() { on_pod_network(&objects) } else { snapshot("cluster.yaml", &text).model };
    let mut current = plan(&first, &options).unwrap();
    let (events, _heard) = channel();
    let (mut lab, notes) = Lab::up(current.clone(), events, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    tally.failures.extend(notes.into_iter().map(|it| format!("{}: {it}", scenario.name)));
    let mut waiting: Vec<(String, Trial)> = Vec::new();
    for (number, line) in &scenario.lines {
        let at = format!("{}/expect.txt:{number}", scenario.name);
        match line {
            Line::Probe(probe) if probe.network.is_some() => {}
            Line::Probe(probe) => {
                let trials = tried(&current, probe, tally);
                tally.upstream(scenario, probe, &trials, &at);
                waiting.extend(trials.into_iter().map(|it| (at.clone(), it)));
            }
            Line::Step(step) => {
                send(&mut lab, &mut waiting, tally);
                objects.take(step).unwrap();
                current = current.next(&on_pod_network(&objects), &options).unwrap();
                lab.apply(current.clone(), |_| {}).unwrap_or_else(|error| panic!("{at}: {error}"));
            }
            Line::Refused(_) | Line::Warned(_) => {}
        }
    }
    send(&mut lab, &mut waiting, tally);
}

/// What a probe comes to, with the specification's word that the decision is right.
fn tried(plan: &Plan, probe: &Probe, tally: &mut Tally) -> Vec<Trial> {
    let (trials, not_shown) = trials(plan, &asked(&probe.from, &probe.to, probe.protocol, probe.port)).unwrap();
    for why in not_shown {
        *tally.not_shown.entry(why).or_default() += 1;
    }
    for case in trials.iter().flat_map(|it| &it.cases) {
        let judgement = palisade_spec::judge(&plan.model, &case.flow);
        assert_eq!(judgement.verdict, case.decision.verdict);
        for direction in Direction::BOTH {
            assert_eq!(judgement.directions.of(direction).1, case.decision.walks.of(direction).reason);
        }
    }
    trials
}

fn send(lab: &mut Lab, waiting: &mut Vec<(String, Trial)>, tally: &mut Tally) {
    let questions: Vec<Question> = waiting.iter().map(|(_, it)| it.question.clone()).collect();
    let findings = lab.probe(&questions).unwrap();
    for ((at, trial), finding) in waiting.drain(..).zip(findings) {
        if !trial.agrees_with(&finding) {
            let reasons =
                trial.cases.iter().flat_map(|case| Direction::BOTH.map(|it| format!("{it} {}", case.decision.walks.of(it).reason)));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            tally.failures.push(format!("{at}: {:?}: wanted {:?} ({reasons}), found {}", trial.question, trial.decided(), words(&finding)));
            continue;
        }
        *tally.shown.entry((Family::of(trial.question.to), finding.arrived() == Some(true))).or_default() += 1;
    }
}

fn words(finding: &Finding) -> String {
    match finding {
        Finding::Denied(denial) => format!("denied by {:?}", denial.by),
        Finding::Leaked(denial) => format!("LEAKED past {:?}", denial.by),
        other @ (Finding::Answered | Finding::Refused | Finding::Silent | Finding::Unsent(_)) => format!("{other:?}"),
    }
}
