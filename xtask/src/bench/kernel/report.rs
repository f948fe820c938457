//! The numbers as text.

use anyhow::{Context as _, Result};

use super::super::{Line, Spread, Table};
use super::changes::{Pod, PodChange, amount, load, pod};
use super::cluster::{LOCAL, WORKLOADS};
use super::rows::{Measure, Rows};
use super::{Clusters, LOADS, Options, PODS};
use crate::bench::clock::Took;

/// Connections and packets.
pub(super) fn traffic(rows: &Rows) -> Result<()> {
    let per_second = |title| Table { title, unit: "/s", scale: 1.0, digits: 0 };
    let nanoseconds = |title| Table { title, unit: "ns", scale: 1e9, digits: 0 };
    print(rows, Measure::Exchanges, &per_second("new TCP connections per CPU second"))?;
    print(rows, Measure::Connections, &per_second("the same, ended by a reset"))?;
    print(rows, Measure::ConnectionsLogged, &per_second("reset, each logged to a reader"))?;
    print(rows, Measure::Established, &per_second("established UDP packets per CPU second"))?;
    print(rows, Measure::Answers, &per_second("the same, sent by called pods"))?;
    print(rows, Measure::Denied, &nanoseconds("denied UDP packet, CPU time, no reader"))?;
    print(rows, Measure::DeniedAndLogged, &nanoseconds("the same, logged to a reader"))?;
    print(rows, Measure::Reading, &nanoseconds("reading one such event, CPU time"))
}

fn print(rows: &Rows, measure: Measure, table: &Table<'_>) -> Result<()> {
    // Nothing is logged over the baseline, so a logged packet is compared with one that is not.
    let compared = match measure {
        Measure::DeniedAndLogged => Measure::Denied,
        Measure::ConnectionsLogged => Measure::Connections,
        measure @ (Measure::Exchanges | Measure::Connections | Measure::Established | Measure::Answers) => measure,
        measure @ (Measure::Denied | Measure::Reading) => measure,
    };
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in &rows.rows {
        let Some(values) = row.values.get(&measure) else { continue };
        let baseline = rows.rows.get(row.baseline).and_then(|it| it.values.get(&compared));
        lines.push((
            row.name.as_str(),
            Spread::of(values)?,
            baseline.map(|it| Spread::of(&ratios(values, it)).map(|it| it.median)).transpose()?,
        ));
    }
    print!("{}", table.text(&lines));
    Ok(())
}

/// Round by round, so that a round in which the machine was slow says as much as any other.
pub(super) fn ratios(values: &[f64], baseline: &[f64]) -> Vec<f64> {
    values.iter().zip(baseline).map(|(value, baseline)| value / baseline).collect()
}

/// What it took to change tables, by the name of the row.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) loads: Vec<(String, Vec<Took>)>,
    pub(super) pods: Vec<(String, Pod, PodChange)>,
}

/// Loading the table, and a pod more or less.
pub(super) fn changes(rows: &Rows, clusters: &Clusters) -> Result<Changes> {
    let (mut loads, mut loaded, mut pods) = (Vec::new(), Vec::new(), Vec::new());
    for lowered in &clusters.by_size {
        let name = format!("palisade, {} policies", lowered.size.policies);
        let took: Vec<Took> = (0..LOADS).map(|_| load(&lowered.ruleset)).collect::<Result<_>>()?;
        loads.push((format!("{name}, CPU time"), cpu(&took)?));
        loads.push((format!("{name}, elapsed"), elapsed(&took)?));
        loaded.push((name.clone(), took));
        let row = rows.rows.iter().position(|it| it.name == name).with_context(|| format!("no row `{name}`"))?;
        let router = rows.router(row).with_context(|| format!("no ground of `{name}`"))?;
        for (kind, grown) in &lowered.grown {
            pods.push((name.clone(), *kind, pod(router, &lowered.ruleset, grown, PODS)?));
        }
    }
    let table = Table { title: "loading the whole table", unit: "ms", scale: 1e3, digits: 1 };
    print!("{}", table.text(&plain(&loads)));
    for lowered in &clusters.by_size {
        let amount = amount(&lowered.ruleset);
        println!("  {} policies: {} chains, {} rules, {} elements", lowered.size.policies, amount.chains, amount.rules, amount.elements);
    }
    let mut lines = Vec::new();
    for (name, kind, changed) in &pods {
        lines.extend(of_pod(name, *kind, changed)?);
    }
    let table = Table { title: "one pod", unit: "µs", scale: 1e6, digits: 1 };
    print!("{}", table.text(&plain(&lines)));
    for (name, kind, changed) in &pods {
        println!("  {name}, {} pod: {} commits, one element of each of {}", word(*kind), changed.commits, changed.maps.join(", "));
    }
    Ok(Changes { loads: loaded, pods })
}

fn of_pod(name: &str, kind: Pod, changed: &PodChange) -> Result<[(String, Spread); 6]> {
    let line = |what: &str| format!("{name}: {} pod {what}", word(kind));
    Ok([
        (line("added, planning"), Spread::of(&changed.planning)?),
        (line("added, CPU time of its commits"), cpu(&changed.added)?),
        (line("added, the same right after other commits"), cpu(&changed.added_next)?),
        (line("added, elapsed in commits"), elapsed(&changed.added)?),
        (line("added, in force after"), Spread::of(&changed.in_force)?),
        (line("removed, CPU time"), cpu(&changed.removed)?),
    ])
}

pub(super) fn word(kind: Pod) -> &'static str {
    match kind {
        Pod::Remote => "remote",
        Pod::Local => "local",
    }
}

fn plain(lines: &[(String, Spread)]) -> Vec<Line<'_>> {
    lines.iter().map(|(name, spread)| (name.as_str(), *spread, None)).collect()
}

fn cpu(took: &[Took]) -> Result<Spread> {
    Spread::of(&took.iter().map(|it| it.cpu.as_secs_f64()).collect::<Vec<f64>>())
}

fn elapsed(took: &[Took]) -> Result<Spread> {
    Spread::of(&took.iter().map(|it| it.elapsed.as_secs_f64()).collect::<Vec<f64>>())
}

/// What was measured, and on what.
pub(super) fn conditions(options: &Options, clusters: &Clusters, rows: &Rows) -> Result<()> {
    println!("\n{LOCAL} pods on the node, of {WORKLOADS} workloads; lowering is not measured with the rest, and took:");
    for lowered in clusters.by_size.iter().chain([&clusters.dual]) {
        let size = lowered.size;
        println!(
            "  {} policies ({:?}, {:?}), {} pods elsewhere in {} groups: {:.1} s",
            size.policies,
            size.types,
            size.stack,
            size.remote,
            size.groups,
            lowered.lowering.as_secs_f64()
        );
    }
    for (name, program) in &rows.missing {
        println!("`{name}` is not measured; not installed: {program}");
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("no kernel release")?;
    let load = std::fs::read_to_string("/proc/loadavg").context("no load average")?;
    let load = load.split_whitespace().next().unwrap_or_default();
    let cores = std::fs::read_to_string("/proc/cpuinfo").context("no CPUs")?;
    let model = cores.lines().find_map(|it| it.strip_prefix("model name")).map_or("", |it| it.trim_start_matches(['\t', ' ', ':']));
    let cores = cores.lines().filter(|it| it.starts_with("processor")).count();
    println!("Linux {}, {cores} cores ({model}), load {load}, {} rounds", kernel.trim_end(), options.rounds);
    Ok(())
}
