//! What it costs to work out the whole cluster at once, next to copying it.

mod model;
mod node;

use anyhow::{Context as _, Result, bail};
use palisade_engine::compile;
use palisade_model::Direction;

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
    for size in SIZES.into_iter().filter(|it| it.cluster_policies > 0) {
        for pods in [30, 110] {
            node::measure(size, pods, runs)?;
        }
    }
    Ok(())
}

fn measure(size: Size, runs: usize) -> Result<()> {
    let model = model(size);
    let (mut copied, mut compiled, mut reached) = (Vec::new(), Vec::new(), Vec::new());
    let mut counts = String::new();
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
            reached.push(timed(|| Ok(result.reach()))?.1.cpu.as_secs_f64());
        }
    }
    let baseline = Spread::of(&copied)?;
    let line = |name, spread: Spread| -> Line<'_> { (name, spread, Some(spread.median / baseline.median)) };
    let mut lines = vec![line("copying the model", baseline), line("compile", Spread::of(&compiled)?)];
    if !reached.is_empty() {
        lines.push(line("reach", Spread::of(&reached)?));
    }
    let title = format!("{}: {} namespaces × {} workloads, CPU time", size.name, size.namespaces, size.workloads);
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 2 }.text(&lines));
    println!("  {} NetworkPolicies, {} cluster policies; {counts}", size.policies, size.cluster_policies);
    Ok(())
}
