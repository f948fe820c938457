//! What it costs to work out the whole cluster at once, next to copying it.

mod diff;
mod model;

use anyhow::{Context as _, Result, bail};
use palisade_engine::compile;
use palisade_model::Direction;

use self::diff::Changed;
use self::model::{Size, model};
use crate::bench::clock::timed;
use crate::bench::{Line, Spread, Table, optimized};

const RUNS: usize = 9;
const MOST_RUNS: usize = 99;

const SIZES: [Size; 3] = [
    Size { name: "M", namespaces: 50, workloads: 20, policies: 500, cluster_policies: 0 },
    Size { name: "L", namespaces: 200, workloads: 25, policies: 2_000, cluster_policies: 20 },
    Size { name: "XL", namespaces: 25_000, workloads: 4, policies: 75_000, cluster_policies: 20 },
];

pub(crate) fn engine(arguments: &[&str]) -> Result<()> {
    let runs = match arguments {
        [] => RUNS,
        ["--runs", number] => number.parse().ok().filter(|it| (1..=MOST_RUNS).contains(it)).context("--runs takes 1 to 99")?,
        other => bail!("`{}` is no option; there is --runs N", other.join(" ")),
    };
    if cfg!(debug_assertions) {
        return optimized("engine", arguments);
    }
    for size in SIZES {
        measure(size, runs)?;
    }
    Ok(())
}

fn measure(size: Size, runs: usize) -> Result<()> {
    let model = model(size);
    let (mut copied, mut compiled, mut reached) = (Vec::new(), Vec::new(), Vec::new());
    let (mut one_policy, mut one_cluster_policy) = (Vec::new(), Vec::new());
    let (mut counts, mut told) = (String::new(), String::new());
    for _ in 0..runs {
        copied.push(timed(|| Ok(model.clone()))?.1.cpu.as_secs_f64());
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
    Ok(())
}
