//! The manifests of the scenarios, broken at random. What goes wrong is printed as a scenario.
//!
//! `PALISADE_MUTATION_SECONDS` says how long, `PALISADE_MUTATION_SEED` where to start.

use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use palisade_k8s::Snapshot;
use palisade_model::{Model, Severity};
use palisade_testkit::check::snapshot;
use palisade_testkit::compare::{Judges, Question};
use palisade_testkit::generate::generate;
use palisade_testkit::mutate;
use palisade_testkit::objects::Objects;
use palisade_testkit::random::Random;
use palisade_testkit::scenario::{Party, RawProtocol, all};
use palisade_testkit::shrink;
use serde_json::Value;

/// What does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Panics,
    JudgesDisagree,
    UnknownFieldUnnoticed,
    PlaceOutsideOfText,
}

#[test]
fn mutated_manifests_never_panic_and_never_mislead() {
    let seconds: u64 = setting("PALISADE_MUTATION_SECONDS").unwrap_or(2);
    let first: u64 = setting("PALISADE_MUTATION_SEED").unwrap_or(0);
    let corpus = corpus();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = first;
    while Instant::now() < end || seed == first {
        let mutant = mutant(seed, &corpus);
        if let Err((broken, why)) = examine(&mutant) {
            panic!("seed {seed}: {broken:?}: {why}\n{}", scenario(&mutant, broken));
        }
        seed += 1;
    }
    if seconds > 2 {
        writeln!(std::io::stderr(), "{} mutants", seed - first).unwrap();
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Random clusters with the kinds of policy that few scenarios have.
const CLUSTERS: usize = 60;

/// Each manifest, as text and as objects.
fn corpus() -> Vec<(String, Objects)> {
    let scenarios = all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap();
    let texts = scenarios.iter().map(|it| fs::read_to_string(it.cluster()).unwrap());
    let written = texts.map(|text| (text.clone(), Objects::parse(&text).unwrap()));
    let of_admins = |it: &Objects| it.0.iter().any(|it| it["kind"].as_str().is_some_and(|it| it.ends_with("AdminNetworkPolicy")));
    let random = (0..).map(|seed| generate(seed).objects).filter(of_admins).take(CLUSTERS);
    written.chain(random.map(|it| (serde_saphyr::to_string_multiple(&it.0).unwrap(), it))).collect()
}

fn mutant(seed: u64, corpus: &[(String, Objects)]) -> String {
    let random = &mut Random::new(seed);
    let (text, objects) = random.pick(corpus).unwrap();
    if random.percent(50) {
        return mutate::text(random, text);
    }
    let objects = mutate::tree(random, objects);
    mutate::written(random, &objects)
}

/// The smallest text that breaks the same promise, as the files of a scenario.
fn scenario(text: &str, broken: Broken) -> String {
    let smallest = shrink::lines(text, |text| examine(text).is_err_and(|(it, _)| it == broken));
    let why = examine(&smallest).err().map(|(_, why)| why).unwrap_or_default();
    format!("# {why}\n# cluster.yaml\n{smallest}\n# as a string\n{smallest:?}\n")
}

fn examine(text: &str) -> Result<(), (Broken, String)> {
    match catch_unwind(AssertUnwindSafe(|| properties(text))) {
        Ok(result) => result,
        Err(payload) => {
            let message = payload.downcast_ref::<String>().cloned();
            let literal = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
            Err((Broken::Panics, message.or(literal).unwrap_or_default()))
        }
    }
}

fn properties(text: &str) -> Result<(), (Broken, String)> {
    let read = snapshot("cluster.yaml", text);
    places_exist(&read, text).map_err(|why| (Broken::PlaceOutsideOfText, why))?;
    // The other reader knows another YAML, and gives up on a text at its first mistake.
    let objects = Objects::parse(text).ok();
    if let Some(objects) = &objects {
        unknown_fields_are_noticed(&read, objects).map_err(|why| (Broken::UnknownFieldUnnoticed, why))?;
    }
    // What has no name is named by its place, which the raw judge does not know.
    let trusted = !read.diagnostics.iter().any(|it| it.severity == Severity::Error || it.code == "nameless");
    let compiled = palisade_engine::compile(&read.model);
    let mut judges = Judges::of(&read.model, &compiled, objects.as_ref().filter(|_| trusted));
    for question in questions(&read.model) {
        let same = judges.ask(&question);
        same.map_err(|it| (Broken::JudgesDisagree, format!("{question}: {:?}: {}", it.between, it.text)))?;
    }
    Ok(())
}

/// Every place that is quoted is one, or is right behind the end.
fn places_exist(read: &Snapshot, text: &str) -> Result<(), String> {
    let breaks = text.replace("\r\n", "\n").matches(['\n', '\r']).count();
    for diagnostic in &read.diagnostics {
        let Some(location) = &diagnostic.location else { continue };
        if location.line < 1 || location.column < 1 || location.line > breaks + 2 {
            return Err(diagnostic.to_string());
        }
    }
    Ok(())
}

/// A misspelt field of a policy is refused or closes its rule, and is spoken of in any case.
fn unknown_fields_are_noticed(read: &Snapshot, objects: &Objects) -> Result<(), String> {
    for object in &objects.0 {
        let strangers = mutate::strangers(object);
        let Some(name) = name_of(object).filter(|_| !strangers.is_empty()) else { continue };
        let noticed = read.diagnostics.iter().any(|it| it.severity != Severity::Note && *it.object == *name);
        if !noticed {
            return Err(format!("nothing is said about {} of {name}", strangers.join(", ")));
        }
    }
    Ok(())
}

/// As diagnostics name it; none for what has no name.
fn name_of(object: &Value) -> Option<String> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (kind, name) = (text("/kind")?, text("/metadata/name")?);
    match kind {
        "AdminNetworkPolicy" if text("/apiVersion")?.starts_with("kep2091.palisade.dev/") => {
            Some(format!("{kind}.kep2091.palisade.dev {name}"))
        }
        "ClusterNetworkPolicy" | "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy" => Some(format!("{kind} {name}")),
        _ => Some(format!("{kind} {}/{name}", text("/metadata/namespace").unwrap_or("default"))),
    }
}

/// A few connections between what is there.
fn questions(model: &Model) -> Vec<Question> {
    let pod = |it: &palisade_model::Endpoint| Party::Pod { namespace: it.name.namespace.to_string(), name: it.name.name.to_string() };
    let mut parties: Vec<Party> = model.endpoints.iter().take(3).map(pod).collect();
    // The node of a pod that nobody has placed has no name to ask for.
    let named = model.nodes.iter().filter(|it| !it.name.starts_with('('));
    parties.extend(named.take(1).map(|it| Party::Node(it.name.to_string())));
    parties.extend("203.0.113.5".parse().ok().map(Party::Address));
    let mut questions = Vec::new();
    for from in &parties {
        for to in &parties {
            for (protocol, port) in [(RawProtocol::Tcp, Some(80)), (RawProtocol::Udp, Some(53)), (RawProtocol::Icmp, None)] {
                questions.push(Question { network: None, from: from.clone(), to: to.clone(), protocol, port });
            }
        }
    }
    questions
}
