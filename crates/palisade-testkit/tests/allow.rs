//! Proposals for random connections of random clusters: what is printed is read over the cluster, and `decide` is asked about the connection, and about every pair of
//! pods before and after.
//!
//! `PALISADE_ALLOW_SECONDS` says how long, `PALISADE_ALLOW_SEED` where to start.
#![expect(clippy::unwrap_used, reason = "a test that cannot build its clusters has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use palisade_analysis::allow::{Allowance, Change, Form, Isolation, Outcome, Wish, allow};
use palisade_analysis::diff::Group;
use palisade_analysis::{Asked, Party, PortAsked, answer_by_family};
use palisade_engine::{PortSetId, decide, selects};
use palisade_k8s::{Controller, Index, ObjectKey, Snapshot, Text};
use palisade_model::{Direction, Endpoint, Flow, Model, NetworkId, Path, Place, PolicyRef, Protocol, Tier, Verdict};
use palisade_report::allow::{allowed, yaml};
use palisade_report::{explained, v1};
use palisade_testkit::generate::generate;
use palisade_testkit::pods::{pairs, pod, workload};
use palisade_testkit::random::Random;

type Traffic = (Protocol, Option<u16>);

const TRAFFIC: [Traffic; 7] = [
    (Protocol::TCP, Some(80)),
    (Protocol::TCP, Some(443)),
    (Protocol::TCP, Some(8080)),
    (Protocol::UDP, Some(53)),
    (Protocol::UDP, Some(80)),
    (Protocol::SCTP, Some(9003)),
    (Protocol::Icmp, None),
];

fn read(texts: &[&str]) -> Snapshot {
    let mut index = Index::default();
    for (at, text) in texts.iter().enumerate() {
        index.read(Text { file: Arc::from(format!("{at}.yaml")), content: Arc::from(*text) });
    }
    index.snapshot()
}

fn party(random: &mut Random, model: &Model) -> Party {
    if random.percent(15) {
        return Party::Address(random.of(["203.0.113.7", "10.0.0.9", "2001:db8::7"]).parse().unwrap());
    }
    let endpoint = model.endpoints.iter().nth(random.below(model.endpoints.len())).unwrap();
    let namespace = endpoint.name.namespace.to_string();
    match random.percent(25) {
        true => Party::Labels { namespace, labels: endpoint.labels.clone() },
        false => Party::Pod { namespace, name: endpoint.name.name.to_string() },
    }
}

fn question(random: &mut Random, model: &Model) -> Asked {
    let (protocol, port) = random.of(TRAFFIC);
    Asked {
        network: NetworkId::DEFAULT,
        from: party(random, model),
        to: party(random, model),
        protocol,
        port: port.map_or(PortAsked::None, PortAsked::Number),
    }
}

fn has(allowance: &Allowance, group: &Group, endpoint: &Endpoint) -> bool {
    let name = workload(endpoint);
    group.units.iter().any(|it| allowance.others.units.get(it.unit).is_some_and(|it| it.name == name))
}

/// Nothing closes, and what opens is what was asked about or is told.
fn check_others(seed: u64, allowance: &Allowance, after: &Model, isolation: Isolation) {
    let before = &allowance.before.model;
    let mut changed = before.clone();
    changed.policies = after.policies.clone();
    for (from, to) in pairs(before) {
        for (protocol, port) in TRAFFIC {
            let flow = Flow { network: NetworkId::DEFAULT, from, to, protocol, port, path: Path::Direct };
            let (was, is) = (decide(before, &flow).verdict, decide(&changed, &flow).verdict);
            let (a, b) = (pod(before, &from).unwrap(), pod(before, &to).unwrap());
            let same =
                |place: Place, it: &Endpoint| matches!(place, Place::Pod(id) if workload(before.endpoint(id).unwrap()) == workload(it));
            let asked = allowance.before.cases.iter().any(|case| {
                same(case.flow.from.place, a) && same(case.flow.to.place, b) && case.flow.protocol == protocol && case.flow.port == port
            });
            let told = |opens: bool| {
                allowance.others.changes.iter().any(|it| {
                    let sets = if opens { [it.opened, it.opened_by_name] } else { [it.closed, it.closed_but_by_name] };
                    let traffic = sets.into_iter().any(|set: PortSetId| allowance.others.sets.contains(set, protocol, port));
                    has(allowance, &it.from, a) && has(allowance, &it.to, b) && traffic
                })
            };
            let said =
                format!("seed {seed}: {} -> {} {protocol} {port:?} was {was:?}, is {is:?}: {:#?}", a.name, b.name, allowance.changes);
            match (was, is) {
                (was, is) if was == is => {}
                (Verdict::Accept, _) => assert!(isolation == Isolation::MayCome && told(false), "{said}"),
                (_, Verdict::Accept) => assert!(asked || told(true), "{said}"),
                (Verdict::Deny | Verdict::DependsOnDns, _) => assert!(told(true) || told(false), "{said}"),
            }
        }
    }
}

fn has_spec(snapshot: &Snapshot, policy: &PolicyRef) -> bool {
    let written = snapshot.sources.written(&ObjectKey::from(policy)).unwrap();
    written.text.content.get(written.span.start..written.span.end).unwrap().contains("spec")
}

/// What is printed is read over what was read before: then the connection is allowed.
fn check_text(seed: u64, text: &str, asked: &Asked, snapshot: &Snapshot, allowance: &Allowance) -> (Model, usize) {
    let question = v1::Question { from: String::new(), to: String::new(), protocol: String::new(), port: None };
    let explanation = explained(question, &allowance.before, &snapshot.sources, &[], &[]);
    let report = allowed(allowance, explanation, &snapshot.sources, &Controller::default());
    let printed = yaml(&report);
    let after = read(&[text, &printed]).model;
    let answer = answer_by_family(&after, asked).unwrap();
    let open = answer.cases.iter().all(|it| it.decision.verdict == Verdict::Accept);
    assert!(open, "seed {seed}: {asked:?} is not allowed after\n{printed}\n{text}");
    let edited = report.changes.iter().filter(|it| it.diff.is_some()).count();
    // A policy without a spec has no place for a rule, and is written anew.
    let is_edit = |it: &&Change| matches!(it, Change::Extend { policy, .. } if has_spec(snapshot, policy));
    let extended = allowance.changes.iter().filter(is_edit).count();
    assert_eq!(edited, extended, "seed {seed}: every addition is an edit of the text\n{printed}\n{text}");
    (after, edited)
}

/// A cluster policy is in the way, or no policy is to blame.
fn check_useless(seed: u64, asked: &Asked, allowance: &Allowance) {
    assert!(!allowance.blocks.is_empty(), "seed {seed}: {asked:?} is useless without a reason");
    for block in allowance.blocks.iter().filter_map(|it| it.side) {
        let case = allowance.before.cases.get(block.case).unwrap();
        let denied = decide(&allowance.model, &case.flow).walks.of(block.direction).verdict;
        assert_ne!(denied, Verdict::Accept, "seed {seed}: {asked:?}: {:?} is no reason", allowance.blocks);
    }
}

/// A new policy selects only pods that another one isolates already.
fn check_isolation(seed: u64, allowance: &Allowance) {
    let before = &allowance.before.model;
    for change in &allowance.changes {
        let Change::Create { policy, .. } = change else { continue };
        for direction in Direction::BOTH.into_iter().filter(|it| *policy.isolates.of(*it)) {
            for pod in before.endpoints.iter().filter(|it| selects(before, policy, it)) {
                let isolated = before.policies.iter().any(|it| *it.isolates.of(direction) && selects(before, it, pod));
                assert!(isolated, "seed {seed}: {} would isolate {} for {direction}", policy.origin, pod.name);
            }
        }
    }
}

fn tiers(allowance: &Allowance) -> Vec<(Tier, Direction)> {
    let denied = allowance.before.cases.iter().flat_map(|case| Direction::BOTH.map(|it| (it, case.decision.walks.of(it))));
    denied
        .filter(|it| it.1.verdict != Verdict::Accept)
        .filter_map(|(direction, walk)| walk.tiers.last().map(|it| (it.tier, direction)))
        .collect()
}

#[test]
fn proposals_do_what_they_say() {
    let seconds = std::env::var("PALISADE_ALLOW_SECONDS").map_or(3, |it| it.parse().unwrap());
    let start = std::env::var("PALISADE_ALLOW_SEED").map_or(0, |it| it.parse().unwrap());
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for seed in start.. {
        if Instant::now() > deadline && seed > start + 40 {
            break;
        }
        let random = &mut Random::new(seed);
        let objects = generate(seed).objects;
        let text = match random.percent(50) {
            true => objects.to_json(),
            false => objects.0.iter().map(|it| format!("---\n{}", serde_saphyr::to_string(it).unwrap())).collect(),
        };
        let snapshot = read(&[&text]);
        if snapshot.model.endpoints.is_empty() {
            continue;
        }
        for _ in 0..8 {
            let asked = question(random, &snapshot.model);
            let wish = Wish {
                form: random.of([Form::Fitting, Form::New, Form::Addition]),
                isolation: random.of([Isolation::AsItIs, Isolation::AsItIs, Isolation::MayCome]),
            };
            let Ok(allowance) = allow(&snapshot.model, &asked, wish) else { continue };
            *met.entry(format!("{:?}", allowance.outcome)).or_default() += 1;
            match allowance.outcome {
                Outcome::AllowedAlready => assert_eq!(tiers(&allowance), []),
                Outcome::Useless => check_useless(seed, &asked, &allowance),
                Outcome::Proposed => {
                    let (after, edited) = check_text(seed, &text, &asked, &snapshot, &allowance);
                    check_others(seed, &allowance, &after, wish.isolation);
                    if wish.isolation == Isolation::AsItIs {
                        check_isolation(seed, &allowance);
                    }
                    *met.entry("edits".to_owned()).or_default() += edited;
                    *met.entry(format!("{:?}", wish.form)).or_default() += 1;
                    for (tier, direction) in tiers(&allowance) {
                        *met.entry(format!("{tier} {direction}")).or_default() += 1;
                    }
                }
            }
        }
    }
    let forms = ["Fitting", "New", "Addition", "edits", "AllowedAlready", "Proposed", "Useless"];
    let sides = ["NetworkPolicy egress", "NetworkPolicy ingress", "Baseline egress", "Baseline ingress"];
    let missing: Vec<&str> = forms.into_iter().chain(sides).filter(|it| met.get(*it).copied().unwrap_or(0) == 0).collect();
    assert!(missing.is_empty(), "nothing of {missing:?} among {met:?}");
}
