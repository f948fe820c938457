//! What it costs to work out the ruleset of one node, next to compiling the cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use palisade_engine::compile;
use palisade_model::{Direction, NodeId};
use palisade_nft::{Ids, NodeView, Ruleset, Unknown, lower};

use super::model::{Size, model, spread};
use crate::bench::clock::timed;
use crate::bench::{Line, Spread, Table};

/// A node of a cluster, with so many pods on each.
pub(super) fn measure(size: Size, pods: usize, runs: usize) -> Result<()> {
    let model = spread(model(size), pods);
    let [view, without] =
        [0, model.nodes.len() - 1].map(|it| NodeView { node: NodeId(it), links: BTreeMap::new(), unknown: Unknown::Open });
    let (mut compiling, mut parting, mut lowering, mut empty, mut each) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut counts = String::new();
    for _ in 0..runs {
        let (compiled, took) = timed(|| Ok(compile(&model)))?;
        compiling.push(took.cpu.as_secs_f64());
        let (node, took) = timed(|| Ok(compiled.on_node(&model, view.node)))?;
        parting.push(took.cpu.as_secs_f64());
        let programs = Direction::BOTH.into_iter().map(|it| node.programs.of(it).len()).sum();
        drop(node);
        let (ruleset, took) = timed(|| Ok(lower(&model, &compiled, &view, &mut Ids::default())))?;
        let ((), least) = timed(|| {
            drop(lower(&model, &compiled, &without, &mut Ids::default()));
            Ok(())
        })?;
        lowering.push(took.cpu.as_secs_f64());
        empty.push(least.cpu.as_secs_f64());
        each.push(took.cpu.saturating_sub(least.cpu).as_secs_f64() / f64::from(u32::try_from(programs)?));
        counts = counted(&ruleset, programs);
    }
    let baseline = Spread::of(&compiling)?;
    let line = |name, spread: Spread| -> Line<'_> { (name, spread, Some(spread.median / baseline.median)) };
    let lines = [
        line("compile", baseline),
        line("classes and programs of the node", Spread::of(&parting)?),
        line("lower, these included", Spread::of(&lowering)?),
        line("the same for a node without pods", Spread::of(&empty)?),
        line("the difference, for each program", Spread::of(&each)?),
    ];
    let title = format!("{}: one node of {}, {pods} pods on it, CPU time", size.name, model.nodes.len());
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 3 }.text(&lines));
    println!("  {counts}");
    Ok(())
}

fn counted(ruleset: &Ruleset, programs: usize) -> String {
    let addresses: usize = ["class4", "class6"].iter().filter_map(|it| ruleset.data.get(*it)).map(|it| it.elements.len()).sum();
    let known = ["class4", "class6"].iter().filter_map(|it| ruleset.data.get(*it)).flat_map(|it| it.elements.values());
    let ranges = ruleset.intervals.values().flat_map(|it| it.elements.values()).map(|(_, class)| class);
    let classes = known.chain(ranges).collect::<BTreeSet<_>>().len();
    let intervals: usize = ruleset.intervals.values().map(|it| it.elements.len()).sum();
    let verdicts: usize = ruleset.verdicts.values().map(|it| it.elements.len()).sum();
    let leaves = ruleset.chains.keys().filter(|it| it.starts_with("leaf-")).count();
    format!(
        "{programs} programs, {classes} classes, {leaves} leaves; elements: {addresses} addresses, {intervals} ranges, {verdicts} verdicts"
    )
}
