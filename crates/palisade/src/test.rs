//! `palisade test`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use palisade_app::test;
use palisade_k8s::Text;
use palisade_report::{junit, text, v1};

use crate::cli::{TestArgs, TestOutput};
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

pub(crate) fn run(args: &TestArgs) -> Result<CommandOutput> {
    let whole = Scope::Whole(test::WHOLE_CLUSTER);
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("`{name}` cannot be read"))?;
        Ok(Text { file: name.into(), content: text.into() })
    };
    let expectations = args.expectations.iter().map(read).collect::<Result<Vec<Text>>>()?;
    let report = test::test(&input::cluster(&args.input, whole)?, &expectations)?;
    let outcome = report.outcome();
    Ok(match args.output {
        TestOutput::Text => CommandOutput::report(text::test_report(&report), &report.diagnostics, &[], outcome),
        TestOutput::Json => CommandOutput::json(&report, outcome)?,
        TestOutput::Junit => CommandOutput::report(junit(&report), &warnings(&report), &[], outcome),
    })
}

/// Diagnostics that spoil the results, for a pipeline that keeps only the file.
fn warnings(report: &v1::TestReport) -> Vec<v1::Diagnostic> {
    report.diagnostics.iter().filter(|it| it.severity != "note").cloned().collect()
}
