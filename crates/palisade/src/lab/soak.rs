//! `palisade lab soak`: changes under traffic, and what leaked or was lost.

use anyhow::{Result, anyhow};
use palisade_lab::{Progress, SoakOptions, Soaked, soak};

use crate::lab::Bar;
use crate::lab::args::SoakArgs;
use crate::outcome::{Exit, Outcome};
use crate::printer::Printer;

pub(crate) fn run(args: &SoakArgs, printer: Printer) -> Result<Outcome> {
    let SoakArgs { changes, seed } = *args;
    printer.err(&format!("{changes} changes under traffic, seed {seed}\n"))?;
    let bar = Bar::new();
    let soaked = soak(&SoakOptions { changes, seed }, |done| bar.show(&Progress { done, total: changes, doing: "changes".to_owned() }));
    bar.clear();
    let soaked = soaked.map_err(|error| anyhow!("seed {seed}: {error}"))?;
    let exit = if soaked.is_clean() { Exit::Yes } else { Exit::No };
    Ok(Outcome { stdout: said(&soaked), stderr: String::new(), exit })
}

fn said(soaked: &Soaked) -> String {
    let total = soaked.total();
    let changes: usize = soaked.changes.values().sum();
    let breaches = soaked.breaches.iter().map(|it| format!("{it}\n")).collect::<String>();
    let incidents = soaked.incidents.iter().map(|it| format!("{it}\n")).collect::<String>();
    let rate = u128::try_from(changes).unwrap_or(u128::MAX).saturating_mul(1_000) / soaked.took.as_millis().max(1);
    let packets = total.denied + total.accepted + total.by_turns + total.either;
    format!(
        "{breaches}{incidents}{}\nseed {}: {changes} changes in {:.1} s ({rate} a second), {packets} packets; {} denied delivered, {} allowed lost\n\
         {} found no way, {} met a full socket, {} came too late to be counted\n",
        soaked.table(),
        soaked.seed,
        soaked.took.as_secs_f64(),
        total.leaked,
        total.lost,
        soaked.unsent,
        soaked.overruns,
        soaked.late,
    )
}
