//! `palisade exposure`.

use anyhow::Result;
use palisade_app::exposure::{Exposed, ExposureOptions, FailOn, WHOLE_CLUSTER, exposure};
use palisade_model::Direction;
use palisade_report::{exposure as form, exposure_text};

use crate::cli::{ExposureArgs, ExposureDirection, ExposureFailOn, ExposureOnly, ExposureOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &ExposureArgs) -> Result<CommandOutput> {
    let Exposed { report, exposures, outcome } = exposure(&input::cluster(&args.input, Scope::Whole(WHOLE_CLUSTER))?, &options(args))?;
    let (diagnostics, limits) = (&report.diagnostics, &report.qualifications);
    Ok(match args.output {
        ExposureOutput::Text => CommandOutput::report(exposure_text(&report, &exposures), diagnostics, &[], outcome),
        ExposureOutput::Json => CommandOutput::json(&report, outcome)?,
        ExposureOutput::Csv => CommandOutput::report(form::csv(&report), diagnostics, limits, outcome),
        ExposureOutput::Md => CommandOutput::report(form::markdown(&report), diagnostics, limits, outcome),
    })
}

fn options(args: &ExposureArgs) -> ExposureOptions {
    ExposureOptions {
        focus: args.focus.clone(),
        direction: args.direction.map(|it| match it {
            ExposureDirection::Ingress => Direction::Ingress,
            ExposureDirection::Egress => Direction::Egress,
        }),
        only: match args.only {
            None => form::Only::Everything,
            Some(ExposureOnly::Open) => form::Only::Open,
            Some(ExposureOnly::Unprotected) => form::Only::Unprotected,
        },
        fail_on: match args.fail_on {
            ExposureFailOn::Unprotected => FailOn::Unprotected,
            ExposureFailOn::Outside => FailOn::Outside,
            ExposureFailOn::None => FailOn::None,
        },
    }
}
