//! `palisade allow`.

use anyhow::Result;
use palisade_analysis::allow::{Form, Isolation, Wish};
use palisade_app::AllowOptions;
use palisade_report::allow::{allowance_text, yaml};
use palisade_report::{text, v1};

use crate::cli::allow::{AllowArgs, AllowOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &AllowArgs) -> Result<CommandOutput> {
    let form = match (args.new, args.edit) {
        (true, _) => Form::New,
        (false, true) => Form::Addition,
        (false, false) => Form::Fitting,
    };
    let wish = Wish { form, isolation: if args.isolate { Isolation::MayCome } else { Isolation::AsItIs } };
    let options = AllowOptions { from: args.from.clone(), to: args.to.clone(), port: args.port.clone(), wish };
    let report = palisade_app::allow(&input::cluster(&args.input, Scope::Any)?, &options)?;
    let (outcome, diagnostics) = (report.outcome(), &report.explanation.diagnostics);
    Ok(match (args.output, report.outcome) {
        (AllowOutput::Text, _) => CommandOutput::report(allowance_text(&report), diagnostics, &[], outcome),
        (AllowOutput::Yaml, v1::AllowOutcome::Proposed) => CommandOutput::report(yaml(&report), diagnostics, &[], outcome),
        // Half an answer must not be piped into `kubectl apply`.
        (AllowOutput::Yaml, v1::AllowOutcome::AllowedAlready | v1::AllowOutcome::Useless) => {
            CommandOutput { stdout: String::new(), stderr: text::diagnostics(diagnostics) + &allowance_text(&report), outcome }
        }
        (AllowOutput::Json, _) => CommandOutput::json(&report, outcome)?,
    })
}
