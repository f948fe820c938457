//! What it costs to work out the whole cluster at once, next to copying it; to change one object of it; and what clusters that are made to be
//! hard do to that.

mod diff;
mod events;
mod following;
mod model;
mod node;
mod policy;
mod updates;
mod worst;

use anyhow::{Context as _, Result, bail};
use palisade_engine::compile;
use palisade_model::Direction;

use self::diff::Changed;
use self::model::{Size, model};
use crate::bench::clock::timed;
use crate::bench::{Line, Spread, Table, optimized, resident};

const RUNS: usize = 9;
const MOST_RUNS: usize = 99;

const SIZES: [Size; 3] = [
    Size { name: "M", namespaces: 50, workloads: 20, policies: 500, cluster_policies: 0 },
    Size { name: "L", namespaces: 200, workloads: 25, policies: 2_000, cluster_policies: 20 },
    Size { name: "XL", namespaces: 25_000, workloads: 4, policies: 75_000, cluster_policies: 20 },
];

/// At which of the sizes hard clusters are compiled, and asked who reaches whom.
const HARD: [usize; 2] = [1, 2];

pub(crate) fn engine(arguments: &[&str]) -> Result<()> {
    if let ["--only", events::MEMORY] = arguments {
        return events::memory();
    }
    let (mut runs, mut only) = (RUNS, None);
    let mut rest = arguments;
    while let [flag, value, after @ ..] = rest {
        match *flag {
            "--runs" => runs = value.parse().ok().filter(|it| (1..=MOST_RUNS).contains(it)).context("--runs takes 1 to 99")?,
            "--only" => {
                only = Some(
                    PARTS
                        .into_iter()
                        .find(|it| it.0 == *value)
                        .context("--only takes memory, sizes, updates, nodes, following, events, worst or policy")?
                        .0,
                )
            }
            other => {
                bail!("`{other}` is no option; there are --runs N and --only memory|sizes|updates|nodes|following|events|worst|policy")
            }
        }
        rest = after;
    }
    if let [other] = rest {
        bail!("`{other}` needs a value; there are --runs N and --only memory|sizes|updates|nodes|following|events|worst|policy");
    }
    if cfg!(debug_assertions) {
        return optimized("engine", arguments);
    }
    for (_, part) in PARTS.into_iter().filter(|it| only.is_none_or(|only| only == it.0)) {
        part(runs)?;
    }
    Ok(())
}

/// What is measured, by the name it is asked for.
type Part = (&'static str, fn(usize) -> Result<()>);

/// Memory first, while nothing else has been in it.
const PARTS: [Part; 8] = [
    ("memory", memory),
    ("sizes", sizes),
    ("updates", updates),
    ("nodes", nodes),
    ("following", following::measure),
    ("events", events::measure),
    ("worst", hard),
    ("policy", policy::measure),
];

/// What a process has had in memory at most, smaller clusters first.
fn memory(_: usize) -> Result<()> {
    println!("\nMemory: the model and what was compiled of it, at most");
    for size in SIZES {
        let model = model(size);
        let before = resident("VmRSS:")?;
        let compiled = compile(&model);
        let after = resident("VmHWM:")?;
        println!("{:<4} {after:>6} MiB, {before:>4} of them the model; {} pods", size.name, compiled.pod_count());
    }
    Ok(())
}

fn sizes(runs: usize) -> Result<()> {
    let measured = SIZES.into_iter().map(|size| Ok((size, measure(size, runs)?))).collect::<Result<Vec<_>>>()?;
    println!("\nGrowth from one size to the next");
    for ((small, before), (large, after)) in measured.iter().zip(measured.iter().skip(1)) {
        let times = |of: fn(&Size) -> usize| ratio(of(large), of(small));
        let pods = times(|it| it.namespaces * it.workloads);
        let reach = match (before.reach, after.reach) {
            (Some(before), Some(after)) => format!(", reach {:.1}", after / before),
            (None, _) | (_, None) => String::new(),
        };
        println!(
            "{} to {}: pods times {pods:.1}, policies {:.1}, pairs of pods {:.0}; compile {:.1}{reach}",
            small.name,
            large.name,
            times(|it| it.policies),
            pods * pods,
            after.compile / before.compile,
        );
    }
    Ok(())
}

/// Medians, in seconds.
struct Measured {
    compile: f64,
    reach: Option<f64>,
}

fn ratio(a: usize, b: usize) -> f64 {
    let number = |it: usize| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
    number(a) / number(b).max(1.0)
}

/// One object changes.
fn updates(_: usize) -> Result<()> {
    for size in SIZES {
        let model = model(size);
        let (mut compiled, took) = timed(|| Ok(compile(&model)))?;
        let whole = took.cpu.as_secs_f64();
        let clock =
            |change: &mut dyn FnMut() -> usize| timed(|| Ok(change())).map_or((f64::NAN, 0), |(pods, took)| (took.cpu.as_secs_f64(), pods));
        println!("\n{}: one object changes, CPU time in µs; compiled at once in {:.0} ms", size.name, whole * 1e3);
        println!("{:<60} {:>9} {:>9} {:>9} {:>7}", "", "median", "p99", "most", "pods");
        for kind in updates::measure(&model, &mut compiled, CHANGES, &clock).into_iter().filter(|it| !it.took.is_empty()) {
            let mut took = kind.took;
            took.sort_by(f64::total_cmp);
            let at = |share: usize| took.get((took.len() * share / 100).min(took.len().saturating_sub(1))).map_or(f64::NAN, |it| it * 1e6);
            println!("{:<60} {:>9.1} {:>9.1} {:>9.1} {:>7}", kind.name, at(50), at(99), at(100), kind.most_pods);
        }
    }
    Ok(())
}

/// How many changes of a kind are measured, and undone.
const CHANGES: usize = 100;

/// What clusters that are made to be hard cost: to compile, and where that is bearable, to ask who reaches whom.
fn hard(_: usize) -> Result<()> {
    for size in HARD.into_iter().filter_map(|at| SIZES.get(at)) {
        println!("\n{}: hard cases, CPU time in ms", size.name);
        println!("{:<60} {:>9} {:>9} {:>9} {:>9}", "", "compile", "reach", "views", "programs");
        for case in &worst::WORST {
            let model = worst::worst(*size, case);
            let (compiled, took) = timed(|| Ok(compile(&model)))?;
            let reach = match size.namespaces <= 1_000 {
                true => format!("{:.1}", timed(|| Ok(compiled.reach()))?.1.cpu.as_secs_f64() * 1e3),
                false => "-".to_owned(),
            };
            let programs = Direction::BOTH.map(|it| compiled.program_count(it)).into_iter().sum::<usize>();
            println!("{:<60} {:>9.1} {reach:>9} {:>9} {programs:>9}", case.name, took.cpu.as_secs_f64() * 1e3, compiled.view_count());
        }
    }
    Ok(())
}

/// What the ruleset of one node costs.
fn nodes(runs: usize) -> Result<()> {
    for size in SIZES.into_iter().filter(|it| it.cluster_policies > 0) {
        for pods in [30, 110] {
            node::measure(size, pods, runs)?;
        }
    }
    Ok(())
}

fn measure(size: Size, runs: usize) -> Result<Measured> {
    let model = model(size);
    let (mut copied, mut compiled, mut reached) = (Vec::new(), Vec::new(), Vec::new());
    let (mut one_policy, mut one_cluster_policy) = (Vec::new(), Vec::new());
    let (mut counts, mut told) = (String::new(), String::new());
    for _ in 0..runs {
        // Copies of a model share its pods.
        let copy = || Ok((model.clone(), model.endpoints.iter().cloned().collect::<Vec<_>>()));
        copied.push(timed(copy)?.1.cpu.as_secs_f64());
        let (result, took) = timed(|| Ok(compile(&model)))?;
        compiled.push(took.cpu.as_secs_f64());
        counts = format!(
            "{} views, {} egress and {} ingress programs",
            result.view_count(),
            result.program_count(Direction::Egress),
            result.program_count(Direction::Ingress)
        );
        // Rows for every program of the largest cluster are more than any node or any question needs.
        if size.namespaces <= 1_000 {
            let (mut reach, took) = timed(|| Ok(result.reach()))?;
            reached.push(took.cpu.as_secs_f64());
            let (took, lines) = diff::measure(&model, &mut reach, Changed::NetworkPolicy)?;
            one_policy.push(took);
            told = format!("; a NetworkPolicy changed: {lines} lines");
            if size.cluster_policies > 0 {
                let (took, lines) = diff::measure(&model, &mut reach, Changed::ClusterPolicy)?;
                one_cluster_policy.push(took);
                told.push_str(&format!("; a cluster policy changed: {lines} lines"));
            }
        }
    }
    let baseline = Spread::of(&copied)?;
    let line = |name, spread: Spread| -> Line<'_> { (name, spread, Some(spread.median / baseline.median)) };
    let mut lines = vec![line("copying the model", baseline), line("compile", Spread::of(&compiled)?)];
    let others = [("reach", reached), ("diff of one NetworkPolicy", one_policy), ("diff of one cluster policy", one_cluster_policy)];
    for (name, times) in others.iter().filter(|it| !it.1.is_empty()) {
        lines.push(line(name, Spread::of(times)?));
    }
    let title = format!("{}: {} namespaces × {} workloads, CPU time", size.name, size.namespaces, size.workloads);
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 2 }.text(&lines));
    println!("  {} NetworkPolicies, {} cluster policies; {counts}{told}", size.policies, size.cluster_policies);
    let median = |name: &str| lines.iter().find(|it| it.0 == name).map(|it| it.1.median);
    Ok(Measured { compile: median("compile").context("nothing was compiled")?, reach: median("reach") })
}
