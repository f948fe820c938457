//! `palisade exposure`.

use anyhow::{Result, anyhow, bail};
use palisade_analysis::exposure::{Exposures, Protection, expose};
use palisade_analysis::matrix::Selection;
use palisade_model::Direction;
use palisade_report::{exposure as form, exposure_text, v1};

use crate::cli::{ExposureArgs, ExposureDirection, ExposureFailOn, ExposureOnly, ExposureOutput};
use crate::input::{self, NOBODY};
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &ExposureArgs) -> Result<Outcome> {
    if args.input.namespace.is_some() {
        bail!("`-n`: exposure is about the whole cluster, and pods of other namespaces would not be read; `--focus` shows one namespace");
    }
    let input = input::read(&args.input)?;
    if input.refused() {
        let stderr = format!("{}error: objects were refused, so no exposure can be trusted\n", input.noticed());
        return Ok(Outcome::cannot_tell(stderr));
    }
    if input.is_about_nobody() {
        return Ok(Outcome::cannot_tell(format!("{}{NOBODY}", input.noticed())));
    }
    let model = &input.snapshot.model;
    let focus = args.focus.as_ref().map(|text| Selection::parse(model, text).map_err(|error| anyhow!("`--focus`: {error}"))).transpose()?;
    if let Some(Selection::Outside(address)) = focus {
        bail!("`--focus {address}`: exposure is told of workloads; `palisade matrix --from {address}` shows what an address may open");
    }
    let exposures = expose(model, focus.as_ref());
    // The order of the report, which is not that of a packet.
    let directions = match args.direction {
        None => &[Direction::Ingress, Direction::Egress][..],
        Some(ExposureDirection::Ingress) => &[Direction::Ingress],
        Some(ExposureDirection::Egress) => &[Direction::Egress],
    };
    let mut report = form::exposed(&exposures, directions, only(args.only), &input.limits());
    report.diagnostics = input.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect();
    let exit = if found(&exposures, directions, args.fail_on) { Exit::No } else { Exit::Yes };
    let notes = || report.qualifications.iter().map(|it| format!("note: {it}\n")).collect::<String>();
    Ok(match args.output {
        ExposureOutput::Text => Outcome { stdout: exposure_text(&report, &exposures), stderr: input.noticed(), exit },
        ExposureOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
        ExposureOutput::Csv => Outcome { stdout: form::csv(&report), stderr: input.noticed() + &notes(), exit },
        ExposureOutput::Md => Outcome { stdout: form::markdown(&report), stderr: input.noticed() + &notes(), exit },
    })
}

fn only(it: Option<ExposureOnly>) -> form::Only {
    match it {
        None => form::Only::Everything,
        Some(ExposureOnly::Open) => form::Only::Open,
        Some(ExposureOnly::Unprotected) => form::Only::Unprotected,
    }
}

/// Whether some workload is as it must not be.
fn found(exposures: &Exposures, directions: &[Direction], fail_on: ExposureFailOn) -> bool {
    let mut sides = exposures.workloads.iter().flat_map(|it| directions.iter().map(|direction| it.sides.of(*direction)));
    match fail_on {
        ExposureFailOn::Unprotected => sides.any(|it| it.protection != Protection::Policy),
        ExposureFailOn::Outside => sides.any(|it| it.is_open_outside()),
        ExposureFailOn::None => false,
    }
}
