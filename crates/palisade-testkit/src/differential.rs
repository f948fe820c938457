//! Random clusters through every judge, for as long as wanted. What they disagree about becomes a scenario.
//!
//! A seed is one cluster: whoever is given the seed of a find sees it again, however many threads found it.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use palisade_engine::compile_network;
use palisade_k8s::{CONTROLLER_LABEL, CONTROLLER_NAME};
use palisade_model::{Model, NetworkId, PolicyKind, Severity};

use crate::changes::{Incremental, World};
use crate::check::{snapshot, snapshot_with_networks};
use crate::compare::{Between, Difference, Found, Judges, Question};
use crate::generate::{Generated, generate};
use crate::objects::Objects;
use crate::pairs::Times;
use crate::random::Random;
use crate::shrink;

/// Where to start and when to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub seed: u64,
    pub time: Duration,
    pub threads: usize,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub clusters: u64,
    pub flows: usize,
    /// Where to go on.
    pub next_seed: u64,
    /// Of all threads together, but the work that is done once for each cluster.
    pub times: Times,
    pub elapsed: Duration,
}

/// Judges that disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    pub seed: u64,
    /// The smallest cluster with the same difference, as the files of a scenario.
    pub scenario: String,
}

/// How much traffic is asked about for each pair of ends.
const TRAFFIC: usize = 8;

/// Runs until the time is over or something is found; of several finds that of the lowest seed. At least one cluster is judged.
pub fn run(settings: Settings) -> Result<Tally, Find> {
    let start = Instant::now();
    let (next, stop) = (AtomicU64::new(settings.seed), AtomicBool::new(false));
    let (tally, finds) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let work = || {
        let mut own = Tally::default();
        while !stop.load(Ordering::Relaxed) && (own.clusters == 0 || start.elapsed() < settings.time) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            match one(seed, &mut own.times) {
                Ok(flows) => own.flows += flows,
                Err(find) => {
                    stop.store(true, Ordering::Relaxed);
                    finds.lock().unwrap_or_else(|it| it.into_inner()).push(find);
                }
            }
            own.clusters += 1;
        }
        tally.lock().unwrap_or_else(|it| it.into_inner()).add(&own);
    };
    std::thread::scope(|scope| {
        for _ in 0..settings.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut finds = finds.into_inner().unwrap_or_else(|it| it.into_inner());
    finds.sort_by_key(|find| find.seed);
    match finds.into_iter().next() {
        Some(find) => Err(find),
        None => {
            let tally = tally.into_inner().unwrap_or_else(|it| it.into_inner());
            Ok(Tally { next_seed: next.into_inner(), elapsed: start.elapsed(), ..tally })
        }
    }
}

/// The cluster of one seed: the number of flows, or a find.
pub fn one(seed: u64, times: &mut Times) -> Result<usize, Find> {
    let generated = generate(seed);
    match examine(&generated, seed, times) {
        Ok(flows) => Ok(flows),
        Err(found) => Err(Find { seed, scenario: scenario(&generated.objects, seed, &found) }),
    }
}

/// All questions about one cluster, and all pairs of its ends.
fn examine(generated: &Generated, seed: u64, times: &mut Times) -> Result<usize, Box<Found>> {
    let times = RefCell::new(times);
    with_judges(&generated.objects, seed, |judges| {
        let mut flows = 0;
        let asked = generated.questions.iter().filter(|it| it.network == judges.network_name()).cloned().collect::<Vec<_>>();
        for question in &asked {
            flows += judges.ask(question).map_err(|it| Found::by(question.clone(), it))?;
        }
        let pairs = judges.ask_pairs(&mut Random::new(seed), TRAFFIC, &mut times.borrow_mut());
        Ok(flows + pairs?)
    })
}

/// One question in every way it can be asked.
fn ask(objects: &Objects, seed: u64, question: Option<&Question>) -> Result<(), Difference> {
    let asked = with_judges(objects, seed, |judges| {
        let Some(question) = question.filter(|it| it.network == judges.network_name()) else { return Ok(0) };
        let same = judges.ask(question).and_then(|flows| Ok(flows + judges.ask_directly(question)?));
        same.map_err(Found::by_any)
    });
    asked.map(|_| ()).map_err(|found| found.difference)
}

/// A judge that panics differs from all others.
fn with_judges(objects: &Objects, seed: u64, ask: impl Fn(&mut Judges<'_>) -> Result<usize, Box<Found>>) -> Result<usize, Box<Found>> {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let model = snapshot_with_networks("cluster.json", &objects.to_json()).model;
        every_policy_counts(&model, objects).map_err(Found::by_any)?;
        let updated = updated(seed, &model);
        let mut flows = 0;
        for network in model.network_ids() {
            let compiled = compile_network(&model, network);
            let name = model.network(network).filter(|_| network != NetworkId::DEFAULT).map(|it| it.name.as_ref());
            let objects = objects.on_network(name);
            flows += ask(&mut Judges::of(&model, &compiled, Some(&objects)).and_updated(&updated))?;
        }
        Ok(flows)
    }));
    asked.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        Err(Found::by_any(Difference { between: Between::Panics, text: message.unwrap_or_default() }))
    })
}

/// Where the seeds of clusters are that become others.
const BEFORE: u64 = 1 << 40;

/// What was compiled of another cluster, lost some of its objects, and then took in all changes to this model, each time in random order.
fn updated(seed: u64, model: &Model) -> Incremental {
    let random = &mut Random::new(seed);
    let mut world = World::of(&snapshot_with_networks("before.json", &generate(seed.wrapping_add(BEFORE)).objects.to_json()).model);
    let mut incremental = Incremental::of(&world, seed);
    let (nothing, target) = (World::default(), World::of(model));
    let all = world.objects(&nothing, random);
    for object in all.iter().take(random.below(all.len() + 1)) {
        incremental.step(&mut world, object, &nothing);
    }
    for object in world.objects(&target, random) {
        incremental.step(&mut world, &object, &target);
    }
    incremental
}

/// What is generated is never refused; policies of other controllers do not count.
fn every_policy_counts(model: &Model, objects: &Objects) -> Result<(), Difference> {
    for object in &objects.0 {
        let text = |path: &str| object.pointer(path).and_then(|it| it.as_str());
        let kinds: &[PolicyKind] = match text("/kind") {
            Some("NetworkPolicy") => &[PolicyKind::NetworkPolicy],
            Some("ClusterNetworkPolicy") => &[PolicyKind::ClusterNetworkPolicy],
            // Only the fields say which.
            Some("AdminNetworkPolicy") => &[PolicyKind::AdminNetworkPolicy, PolicyKind::Kep2091],
            Some("BaselineAdminNetworkPolicy") => &[PolicyKind::BaselineAdminNetworkPolicy],
            Some(_) | None => continue,
        };
        let namespace = text("/metadata/namespace");
        let counts = model.policies.iter().any(|it| {
            kinds.contains(&it.origin.kind)
                && it.origin.namespace.as_deref() == namespace
                && Some(it.origin.name.as_ref()) == text("/metadata/name")
        });
        let controller = object.pointer("/metadata/labels").and_then(|it| it.get(CONTROLLER_LABEL)).and_then(|it| it.as_str());
        if counts != controller.is_none_or(|it| it == CONTROLLER_NAME) {
            let name = text("/metadata/name").unwrap_or_default();
            let all = snapshot("cluster.json", &objects.to_json()).diagnostics;
            let of_it = all.iter().filter(|it| it.severity == Severity::Error && it.object.ends_with(name));
            let refused: Vec<String> = of_it.map(ToString::to_string).collect();
            return Err(Difference { between: Between::Refused, text: refused.join("\n") });
        }
    }
    Ok(())
}

/// The smallest cluster with the same difference, as the files of a scenario.
fn scenario(objects: &Objects, seed: u64, found: &Found) -> String {
    let Found { question, difference } = found;
    let question = question.as_ref();
    // A policy can be refused for many reasons, and what is left of one would be refused for another.
    let reason = |it: &Difference| it.text.split(['[', ']']).nth(1).filter(|_| it.between == Between::Refused).map(str::to_owned);
    let same = |it: Difference| it.between == difference.between && reason(&it) == reason(difference);
    let smallest = shrink::objects(objects, |objects| ask(objects, seed, question).is_err_and(same));
    let text = ask(&smallest, seed, question).err().map_or_else(|| difference.text.clone(), |it| it.text);
    let documents: Vec<String> = smallest.0.iter().map(|it| format!("{it}\n")).collect();
    let line = question.map(|it| format!("{it}  accept")).unwrap_or_default();
    format!("# {:?}: {}\n# cluster.yaml\n{}# expect.txt\n{line}\n", difference.between, text.replace('\n', "\n# "), documents.join("---\n"))
}

impl Tally {
    /// Adds what was done after it.
    pub fn add(&mut self, other: &Tally) {
        self.clusters += other.clusters;
        self.flows += other.flows;
        self.next_seed = other.next_seed;
        self.times.add(&other.times);
        self.elapsed += other.elapsed;
    }
}

/// One line, and one for each judge.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate =
            |time: Duration| format!("{:.0}/s", f64::from(u32::try_from(self.flows).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9));
        let Tally { clusters, flows, next_seed, elapsed, times } = self;
        write!(
            f,
            "{flows} flows in {clusters} clusters in {:.1} s, {}; go on with seed {next_seed}",
            elapsed.as_secs_f64(),
            rate(*elapsed)
        )?;
        let judges = [("spec", times.spec), ("decide", times.decide), ("reach", times.reach), ("nft", times.nodes), ("raw", times.raw)];
        judges.iter().try_for_each(|(name, time)| write!(f, "\n  {name:<6} {:>10} on one thread", rate(*time)))
    }
}
