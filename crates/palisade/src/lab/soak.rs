//! `palisade lab soak`: changes under traffic, and what leaked or was lost.

use std::io::{self, IsTerminal as _};
use std::process::Command;

use anyhow::{Result, anyhow};
use palisade_lab::{Agents, Kills, Progress, SoakOptions, Soaked, be_agent, soak};

use crate::command_output::CommandOutput;
use crate::lab::Bar;
use crate::lab::args::SoakArgs;
use crate::printer::Printer;
use palisade_report::Outcome;

/// So many changes for each line of a log: a minute or two.
const LINE: usize = 1_000;

pub(crate) fn run(args: &SoakArgs, printer: Printer) -> Result<CommandOutput> {
    if let Some(words) = &args.agent {
        be_agent(words)?;
        return Ok(CommandOutput::exited(Outcome::Yes));
    }
    let SoakArgs { changes, seed, kill, agent: _ } = *args;
    let agents = if kill { Agents::Die(again) } else { Agents::Live };
    printer.err(&format!("{changes} changes under traffic, seed {seed}\n"))?;
    let bar = Bar::new();
    // A bar is for terminals; a log is told now and then that it goes on.
    let (by_lines, mut said_so) = (!io::stderr().is_terminal(), Ok(()));
    let soaked = soak(&SoakOptions { changes, seed, agents }, |done| {
        bar.show(&Progress { done, total: changes, doing: "changes".to_owned() });
        if by_lines && done > 0 && done % LINE == 0 && said_so.is_ok() {
            said_so = printer.err(&format!("{done} of {changes} changes\n"));
        }
    });
    bar.clear();
    said_so?;
    let soaked = soaked.map_err(|error| anyhow!("seed {seed}: {error}"))?;
    Ok(CommandOutput { stdout: said(&soaked), stderr: String::new(), outcome: Outcome::found(!soaked.is_clean()) })
}

/// This program, as an agent that is going to be killed.
fn again(words: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["lab", "soak", "--agent", words]);
    Ok(command)
}

fn said(soaked: &Soaked) -> String {
    let total = soaked.total();
    let changes: usize = soaked.changes.values().sum();
    let breaches = soaked.breaches.iter().map(|it| format!("{it}\n")).collect::<String>();
    let incidents = soaked.incidents.iter().map(|it| format!("{it}\n")).collect::<String>();
    let rate = u128::try_from(changes).unwrap_or(u128::MAX).saturating_mul(1_000) / soaked.took.as_millis().max(1);
    let packets = total.denied + total.accepted + total.by_turns + total.either;
    let Kills { amid, after, beside } = soaked.kills;
    let kills = if amid + after == 0 {
        String::new()
    } else {
        format!("agents killed: {amid} in the middle of a change, {beside} of all with two tables in force, {after} right after it\n")
    };
    format!(
        "{breaches}{incidents}{}\nseed {}: {changes} changes in {:.1} s ({rate} a second), {packets} packets; {} denied delivered, {} allowed lost\n\
         {} found no way, {} met a full socket, {} came too late to be counted\n{kills}",
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
