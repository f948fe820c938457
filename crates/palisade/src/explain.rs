//! `palisade explain`.

use anyhow::Result;
use palisade_report::{text, v1};

use crate::cli::{ExplainArgs, Output};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &ExplainArgs) -> Result<CommandOutput> {
    let question = v1::Question { from: args.from.clone(), to: args.to.clone(), protocol: args.protocol.clone(), port: args.port.clone() };
    let report = palisade_app::explain(&input::cluster(&args.input, Scope::Any)?, &question)?;
    let detail = if args.verbose { text::Detail::Everything } else { text::Detail::Decisive };
    match args.output {
        Output::Text => Ok(CommandOutput::report(text::explanation(&report, detail), &report.diagnostics, &[], report.outcome())),
        Output::Json => CommandOutput::json(&report, report.outcome()),
    }
}
