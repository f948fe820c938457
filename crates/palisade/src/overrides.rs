//! `palisade overrides`.

use anyhow::{Result, bail};
use palisade_app::Versions;
use palisade_app::overrides::{OverridesOptions, WHOLE_CLUSTER, overrides};
use palisade_report::overrides::{Redaction, overrides_markdown, overrides_text};

use crate::cli::overrides::{OverridesArgs, OverridesOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &OverridesArgs) -> Result<CommandOutput> {
    if args.input.filename.iter().chain(&args.apply).filter(|it| *it == "-").count() > 1 {
        bail!("`-`: standard input can be read once");
    }
    let redaction = if args.redact { Redaction::ClusterPolicies } else { Redaction::None };
    let options = OverridesOptions { policies: args.policies.clone(), redaction };
    let objects = input::objects(&args.input, Scope::Whole(WHOLE_CLUSTER))?;
    let report = match args.apply.is_empty() {
        true => overrides(&objects.cluster(), None, &options)?,
        false => {
            let applied = input::read(input::files(&args.apply), None, objects.controller.clone());
            let Versions { old, new, .. } = objects.with_applied(applied);
            overrides(&new, Some(&old), &options)?
        }
    };
    let (outcome, diagnostics, limits) = (report.outcome(), &report.diagnostics, &report.qualifications);
    Ok(match args.output {
        OverridesOutput::Text => CommandOutput::report(overrides_text(&report), diagnostics, limits, outcome),
        OverridesOutput::Md => CommandOutput::report(overrides_markdown(&report), diagnostics, limits, outcome),
        OverridesOutput::Json => CommandOutput::json(&report, outcome)?,
    })
}
