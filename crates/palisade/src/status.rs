//! `palisade status`.

use anyhow::Result;
use palisade_report::{controllers_text, status, status_text};

use crate::cli::{StatusArgs, StatusOutput};
use crate::input;
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &StatusArgs) -> Result<Outcome> {
    let controller = input::controller(&args.input.controller_name, &args.input.disabled_name)?;
    let input = input::read(&args.input)?;
    // What was refused is missing from the counts, and that is said; the rest is still worth counting.
    let exit = if input.refused() { Exit::CannotTell } else { Exit::Yes };
    let report = status(&input.snapshot, controller.names(), input.unavailable.clone());
    Ok(match args.output {
        StatusOutput::Text => {
            let text = if args.controllers { controllers_text(&report) } else { status_text(&report) };
            let limits: String = report.qualifications.iter().map(|it| format!("note: {it}\n")).collect();
            Outcome { stdout: text, stderr: input.noticed() + &limits, exit }
        }
        StatusOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
    })
}
