//! `palisade test`.

use anyhow::{Context, Result, bail};
use palisade_analysis::expect;
use palisade_model::Diagnostic;
use palisade_report::{junit, tested, text, v1};

use crate::cli::{TestArgs, TestOutput};
use crate::input::{self, Input};
use crate::outcome::{Exit, Outcome};

pub(crate) fn run(args: &TestArgs) -> Result<Outcome> {
    if args.input.namespace.is_some() {
        bail!("`-n`: expectations are about the whole cluster, and policies of other namespaces would not be read");
    }
    let (expectations, unread) = read(args)?;
    let Input { snapshot, unavailable } = input::read(&args.input)?;
    let outcomes = expect::run_all(&snapshot.model, &expectations);
    let report = tested(&expectations, &outcomes, &snapshot, &unread, &unavailable);
    let exit = match (report.trusted, report.unknown, report.failed) {
        (false, _, _) => Exit::CannotTell,
        (true, _, 1..) => Exit::No,
        (true, 1.., 0) => Exit::CannotTell,
        (true, 0, 0) => Exit::Yes,
    };
    Ok(match args.output {
        TestOutput::Text => Outcome { stdout: text::test_report(&report), stderr: text::diagnostics(&report.diagnostics), exit },
        TestOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
        TestOutput::Junit => Outcome { stdout: junit(&report), stderr: text::diagnostics(&warnings(&report)), exit },
    })
}

/// In a pipeline that keeps only the file, what spoils the results is also said aloud.
fn warnings(report: &v1::TestReport) -> Vec<v1::Diagnostic> {
    report.diagnostics.iter().filter(|it| it.severity != "note").cloned().collect()
}

fn read(args: &TestArgs) -> Result<(Vec<expect::Expectation>, Vec<Diagnostic>)> {
    let mut expectations = Vec::new();
    let mut unread = Vec::new();
    for path in &args.expectations {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| format!("`{name}` cannot be read"))?;
        let (some, problems) = expect::parse(&name, &text);
        expectations.extend(some);
        unread.extend(problems);
    }
    Ok((expectations, unread))
}
