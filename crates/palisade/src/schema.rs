//! `palisade schema`: what the files in docs/ are made from.

use anyhow::Result;
use clap::CommandFactory;
use palisade_report::v1;

use crate::cli::{Cli, SchemaArgs, SchemaOf};
use crate::command_output::CommandOutput;
use crate::names::NAMES;

pub(crate) fn run(args: &SchemaArgs) -> Result<CommandOutput> {
    Ok(CommandOutput::text(match args.of {
        SchemaOf::Explanation => schema_of::<v1::Explanation>()?,
        SchemaOf::TestReport => schema_of::<v1::TestReport>()?,
        SchemaOf::Matrix => schema_of::<v1::Matrix>()?,
        SchemaOf::Diff => schema_of::<v1::Diff>()?,
        SchemaOf::Exposure => schema_of::<v1::Exposure>()?,
        SchemaOf::Allowance => schema_of::<v1::Allowance>()?,
        SchemaOf::Conversion => schema_of::<v1::Conversion>()?,
        SchemaOf::LintReport => schema_of::<v1::LintReport>()?,
        SchemaOf::Overrides => schema_of::<v1::OverrideReport>()?,
        SchemaOf::Status => schema_of::<v1::Status>()?,
        SchemaOf::ProbeReport => schema_of::<v1::ProbeReport>()?,
        SchemaOf::LabStatus => schema_of::<v1::LabStatus>()?,
        SchemaOf::Metrics => schema_of::<v1::Metrics>()?,
        SchemaOf::Denial => schema_of::<v1::Denial>()?,
        SchemaOf::Verification => schema_of::<v1::Verification>()?,
        SchemaOf::Cut => schema_of::<v1::Cut>()?,
        SchemaOf::Acceptance => schema_of::<v1::Acceptance>()?,
        SchemaOf::Would => schema_of::<v1::Would>()?,
        SchemaOf::AuditReport => schema_of::<v1::AuditReport>()?,
        SchemaOf::Names => names(),
        SchemaOf::Cli => commands(),
        SchemaOf::Lints => crate::lint::reference(),
    }))
}

/// The schema of what is written, in which a field that may be left out is not required.
fn schema_of<T: schemars::JsonSchema>() -> Result<String> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

fn names() -> String {
    let mut out =
        String::from("# Names\n\nEvery name that Palisade gives to something outside itself. Written by `palisade schema names`.\n\n");
    out.push_str("| name | is a | for |\n|---|---|---|\n");
    for (name, what, purpose) in NAMES {
        out.push_str(&format!("| `{name}` | {what} | {purpose} |\n"));
    }
    out
}

fn commands() -> String {
    let mut out = String::from("# Commands\n\nEvery command with its help. Written by `palisade schema cli`.\n");
    let mut root = Cli::command().term_width(100);
    root.build();
    sections(&mut out, &root, "palisade");
    out
}

/// A command and all below it.
fn sections(out: &mut String, command: &clap::Command, title: &str) {
    section(out, &mut command.clone().term_width(100), title);
    for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
        sections(out, below, &format!("{title} {}", below.get_name()));
    }
}

fn section(out: &mut String, command: &mut clap::Command, title: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    out.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
}
