//! Text and exit status of one command.

use anyhow::Result;
use palisade_report::{Outcome, text, v1};

/// The whole output of one command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) outcome: Outcome,
}

impl CommandOutput {
    /// Text, and success.
    pub(crate) fn text(stdout: String) -> CommandOutput {
        CommandOutput { stdout, stderr: String::new(), outcome: Outcome::Yes }
    }

    /// A report as JSON. Diagnostics and limits are part of the document.
    pub(crate) fn json(report: &impl serde::Serialize, outcome: Outcome) -> Result<CommandOutput> {
        Ok(CommandOutput { stdout: serde_json::to_string_pretty(report)? + "\n", stderr: String::new(), outcome })
    }

    /// Text of a report, with diagnostics and limits on standard error.
    pub(crate) fn report(stdout: String, diagnostics: &[v1::Diagnostic], limits: &[String], outcome: Outcome) -> CommandOutput {
        CommandOutput { stdout, stderr: text::diagnostics(diagnostics) + &text::notes(limits), outcome }
    }

    /// An exit status alone, after everything was printed.
    pub(crate) fn exited(outcome: Outcome) -> CommandOutput {
        CommandOutput { stdout: String::new(), stderr: String::new(), outcome }
    }

    /// No answer, and why.
    pub(crate) fn could_not_tell(stderr: String) -> CommandOutput {
        CommandOutput { stdout: String::new(), stderr, outcome: Outcome::CouldNotTell }
    }
}
