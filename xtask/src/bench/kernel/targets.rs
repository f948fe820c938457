//! What is promised, next to what was measured.

use anyhow::{Context as _, Result};

use super::Clusters;
use super::changes::Pod;
use super::report::{Changes, ratios, word};
use super::rows::{FEW_CALLERS, Measure, Row, Rows};
use crate::bench::{Judged, Middle};

/// Of what conntrack alone does.
const CONNECTIONS: f64 = 0.97;
const ESTABLISHED: f64 = 0.98;
/// Seconds of CPU time.
const LOAD: f64 = 0.4;
const POD: f64 = 100e-6;

/// Prints each target with its measurement, and whether the one can be told from the other.
pub(super) fn print(rows: &Rows, clusters: &Clusters, changes: &Changes) -> Result<()> {
    let (Some(small), Some(large)) = (clusters.by_size.first(), clusters.by_size.last()) else { return Ok(()) };
    let name = |policies| format!("palisade, {policies} policies");
    let (small, large, remote) = (name(small.size.policies), name(large.size.policies), large.size.remote);
    println!("\ntargets: {large}, {remote} addresses of other nodes; the median, and between what it is in 95 of 100 such runs");
    let [first, last] = [row(rows, &small)?, row(rows, &large)?];
    let [few_first, few_last] = [row(rows, &format!("{small}{FEW_CALLERS}"))?, row(rows, &format!("{large}{FEW_CALLERS}"))?];
    for (what, row, measure, wanted) in [
        ("new connections, of conntrack only", last, Measure::Exchanges, CONNECTIONS),
        ("the same, 64 callers", few_last, Measure::Exchanges, CONNECTIONS),
        ("established packets, of conntrack only", last, Measure::Established, ESTABLISHED),
        ("the same, sent by called pods", last, Measure::Answers, ESTABLISHED),
    ] {
        let middle = compared(row, rows.rows.get(row.baseline).context("no baseline")?, measure)?;
        line(what, &format!("at least {wanted}"), &shown(middle, 1.0, "", 3), middle.at_least(wanted));
    }
    for (what, one, other) in
        [(format!("new connections, of {small}"), first, last), ("the same, 64 callers".to_owned(), few_first, few_last)]
    {
        let grown = compared(other, one, Measure::Exchanges)?;
        // Flat is what noise cannot be told from.
        let flat = if grown.low <= 1.0 && grown.high >= 1.0 { Judged::Met } else { grown.at_least(1.0) };
        line(&what, "flat within noise", &shown(grown, 1.0, "", 3), flat);
    }
    for (_, took) in changes.loads.iter().filter(|it| it.0 == large) {
        let middle = Middle::of(&took.iter().map(|it| it.cpu.as_secs_f64()).collect::<Vec<f64>>())?;
        line("loading the whole table, CPU time", "at most 0.4 s", &shown(middle, 1.0, " s", 3), middle.at_most(LOAD));
    }
    for (_, kind, changed) in changes.pods.iter().filter(|it| it.0 == large) {
        let commits = match (kind, changed.commits) {
            (Pod::Remote, _) | (Pod::Local, 1) => String::new(),
            (Pod::Local, several) => format!(" of {several} commits"),
        };
        let pod = format!("a {} pod added, CPU time{commits}", word(*kind));
        for (what, took) in [(pod.as_str(), &changed.added), ("the same, right after other commits", &changed.added_next)] {
            let middle = Middle::of(&took.iter().map(|it| it.cpu.as_secs_f64()).collect::<Vec<f64>>())?;
            line(what, "at most 100 µs", &shown(middle, 1e6, " µs", 1), middle.at_most(POD));
        }
    }
    Ok(())
}

fn row<'a>(rows: &'a Rows, name: &str) -> Result<&'a Row> {
    rows.rows.iter().find(|it| it.name == name).with_context(|| format!("no row `{name}`"))
}

fn compared(one: &Row, other: &Row, measure: Measure) -> Result<Middle> {
    let values = |row: &Row| row.values.get(&measure).cloned().with_context(|| format!("`{}` was not measured for this", row.name));
    Middle::of(&ratios(&values(one)?, &values(other)?))
}

fn shown(middle: Middle, scale: f64, unit: &str, digits: usize) -> String {
    let [median, low, high] = [middle.median, middle.low, middle.high].map(|it| it * scale);
    format!("{median:.digits$}{unit} ({low:.digits$} .. {high:.digits$})")
}

pub(super) fn line(what: &str, wanted: &str, measured: &str, judged: Judged) {
    println!("{what:<52} {wanted:<18} {measured:>30}  {judged}");
}
