//! Random clusters through every judge. What they disagree about is printed as a scenario.
//!
//! `PALISADE_DIFFERENTIAL_SECONDS` says how long, `PALISADE_DIFFERENTIAL_SEED` where to start.

use std::io::Write as _;
use std::time::{Duration, Instant};

use palisade_analysis::{Answer, Asked, Case, Party, PortAsked, answer};
use palisade_engine::compile;
use palisade_model::{Direction, End, Model, Place, PolicyKind, Protocol, Reason, Verdict};
use palisade_nft::Origin;
use palisade_testkit::check::{asked, snapshot};
use palisade_testkit::compare::{Between, Difference, Question, every_judge};
use palisade_testkit::generate::{Generated, generate};
use palisade_testkit::nodes::{Nodes, Passed};
use palisade_testkit::objects::Objects;
use palisade_testkit::shrink;

#[test]
fn every_judge_gives_random_clusters_the_same_verdicts() {
    let seconds: u64 = setting("PALISADE_DIFFERENTIAL_SECONDS").unwrap_or(3);
    let first: u64 = setting("PALISADE_DIFFERENTIAL_SEED").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut flows) = (first, 0);
    while Instant::now() < end || seed == first {
        let generated = generate(seed);
        match judge(&generated) {
            Ok(judged) => flows += judged,
            Err((question, difference)) => panic!("seed {seed}\n{}", scenario(&generated.objects, question, &difference)),
        }
        seed += 1;
    }
    if seconds > 3 {
        writeln!(std::io::stderr(), "{flows} flows in {} clusters", seed - first).unwrap();
    }
}

#[test]
fn rulesets_do_with_random_clusters_what_is_decided_and_say_why() {
    let seconds: u64 = setting("PALISADE_DIFFERENTIAL_SECONDS").unwrap_or(3);
    let first: u64 = setting("PALISADE_DIFFERENTIAL_SEED").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut seed, mut packets) = (first, 0);
    while Instant::now() < end || packets == 0 {
        let generated = generate(seed);
        let model = snapshot("cluster.json", &generated.objects.to_json()).model;
        let nodes = Nodes::of(&model);
        for question in &generated.questions {
            let asked = asked(&question.from, &question.to, question.protocol, question.port);
            let Ok(explanation) = answer(&model, &asked) else { continue };
            // A pod that is only asked about runs nowhere.
            let cases = explanation.cases.iter().filter(|_| explanation.model.endpoints.len() == model.endpoints.len());
            // A packet goes to who has the address, and others may claim it.
            let has = |end: End| end.address.is_some_and(|it| model.place_of(it) == end.place);
            for case in cases.filter(|it| has(it.flow.from) && has(it.flow.to)) {
                let Some(passed) = nodes.pass(&case.flow).unwrap() else { continue };
                let expected = Passed { accepted: case.decision.verdict == Verdict::Accept, comments: comments(&model, case) };
                assert_eq!(passed, expected, "seed {seed}: {question}: {:?}\n{}", case.flow, generated.objects.to_json());
                packets += 1;
            }
        }
        seed += 1;
    }
}

/// What the rules say that a connection meets: those of its egress, and if they let it pass those of its ingress.
fn comments(model: &Model, case: &Case) -> Vec<String> {
    let on = match case.flow.to.place {
        Place::Pod(id) => model.endpoint(id).and_then(|it| it.node).map(Place::Node),
        Place::Node(_) | Place::Outside => None,
    };
    // A node reaches its own pods by no hook that is Palisade's.
    let met = |direction: Direction| direction == Direction::Egress || on.is_none_or(|it| it != case.flow.from.place);
    let mut comments = Vec::new();
    for direction in Direction::BOTH.into_iter().filter(|it| met(*it)) {
        let walk = case.decision.walks.of(direction);
        if walk.reason != Reason::NotAPod {
            let origin = Origin::Policy { direction, reason: walk.reason.clone() };
            comments.push(origin.to_string().chars().take(120).collect());
        }
        if walk.verdict != Verdict::Accept {
            break;
        }
    }
    comments
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// All questions about one cluster; the number of flows, or the first that is judged differently.
fn judge(generated: &Generated) -> Result<usize, (Option<&Question>, Difference)> {
    let model = snapshot("cluster.json", &generated.objects.to_json()).model;
    every_policy_counts(&model, &generated.objects).map_err(|it| (None, it))?;
    let compiled = compile(&model);
    let mut reach = compiled.reach();
    let mut flows = 0;
    for question in &generated.questions {
        flows += every_judge(&model, &mut reach, &generated.objects, question).map_err(|it| (Some(question), it))?;
    }
    Ok(flows)
}

/// What is generated is never refused.
fn every_policy_counts(model: &Model, objects: &Objects) -> Result<(), Difference> {
    for object in &objects.0 {
        let text = |path: &str| object.pointer(path).and_then(|it| it.as_str());
        let kind = match text("/kind") {
            Some("NetworkPolicy") => PolicyKind::NetworkPolicy,
            Some("ClusterNetworkPolicy") => PolicyKind::ClusterNetworkPolicy,
            Some(_) | None => continue,
        };
        let namespace = text("/metadata/namespace");
        let counts = model.policies.iter().any(|it| {
            it.origin.kind == kind && it.origin.namespace.as_deref() == namespace && Some(it.origin.name.as_ref()) == text("/metadata/name")
        });
        if !counts {
            let refused = snapshot("cluster.json", &objects.to_json()).diagnostics;
            let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
            return Err(Difference { between: Between::Refused, text: refused.join("\n") });
        }
    }
    Ok(())
}

/// The smallest cluster with the same difference, as the files of a scenario.
fn scenario(objects: &Objects, question: Option<&Question>, difference: &Difference) -> String {
    let again = |objects: &Objects| {
        let generated = Generated { objects: objects.clone(), questions: question.cloned().into_iter().collect() };
        judge(&generated).is_err_and(|(_, it)| it.between == difference.between)
    };
    let smallest = shrink::objects(objects, again);
    let generated = Generated { objects: smallest.clone(), questions: question.cloned().into_iter().collect() };
    let text = judge(&generated).err().map_or_else(|| difference.text.clone(), |(_, it)| it.text);
    let documents: Vec<String> = smallest.0.iter().map(|it| format!("{it}\n")).collect();
    let line = question.map(|it| format!("{it}  accept")).unwrap_or_default();
    format!("# {:?}: {text}\n# cluster.yaml\n{}# expect.txt\n{line}\n", difference.between, documents.join("---\n"))
}

#[test]
fn a_pod_among_its_likes_still_meets_itself() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: web}}, \
             ownerReferences: [{{kind: Deployment, name: web, controller: true}}]}}}}\n---\n"
        )
    };
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {selector: {app: web}, ports: [{port: 80}]}}\n---\n";
    let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}}}\n";
    let model = snapshot("cluster.yaml", &format!("{}{}{service}{policy}", pod("a"), pod("b"))).model;
    for (from, to) in [("x/a", "svc/x/web"), ("x/b", "svc/x/web"), ("x/deploy/web", "x/deploy/web"), ("x/a", "x/deploy/web")] {
        let (from, to) = (Party::parse(from).unwrap(), Party::parse(to).unwrap());
        let asked = Asked { from, to, protocol: Protocol::TCP, port: PortAsked::Number(80) };
        assert_eq!(answer(&model, &asked).unwrap().answer, Answer::Mixed, "{asked:?}");
    }
}
