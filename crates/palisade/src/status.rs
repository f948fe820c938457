//! `palisade status`.

use anyhow::Result;
use palisade_report::{controllers_text, status_text};

use crate::cli::{StatusArgs, StatusOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &StatusArgs) -> Result<CommandOutput> {
    let report = palisade_app::status(&input::cluster(&args.input, Scope::Any)?);
    match args.output {
        StatusOutput::Text => {
            let text = if args.controllers { controllers_text(&report) } else { status_text(&report) };
            Ok(CommandOutput::report(text, &report.diagnostics, &report.qualifications, report.outcome()))
        }
        StatusOutput::Json => CommandOutput::json(&report, report.outcome()),
    }
}
