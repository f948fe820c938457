//! `palisade lint`.

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use palisade_app::Objects;
use palisade_app::lint::{LintOptions, Linted, REFUSED, Repaired, lint, repair};
use palisade_lint::{Fixed, RULES, Rule, described};
use palisade_model::Severity;
use palisade_report::{Beside, Outcome, lint_rule_text, lint_text, sarif, text};

use crate::cli::InputArgs;
use crate::command_output::CommandOutput;
use crate::input::{self, Scope};

/// What is probably wrong with policies that are valid
///
/// Each finding says what is wrong, where in the YAML, and what to do. What depends on verdicts is worked out from the objects, so the pods and namespaces
/// should be read along with the policies; rules that need them are left out where there are none.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  palisade lint -f manifests/
  palisade lint --context prod --fail-on error
  palisade lint -f manifests/ --only two-dashes --only dns-blocked
  palisade lint -f manifests/ -o sarif > lint.sarif
  palisade lint -f manifests/ --fix                      show the repairs that change no verdict, as a diff
  palisade lint -f manifests/ --fix=write                make them
  palisade lint --explain two-dashes

Exit codes: 0 nothing at or above `--fail-on`, 1 something, 2 could not tell. With `--fix`, what it repairs no longer counts.")]
pub(crate) struct LintArgs {
    /// Say what a rule is about, or `all` for a list of them
    #[arg(long, value_name = "RULE")]
    pub(crate) explain: Option<String>,
    /// Only this rule; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) only: Vec<String>,
    /// All but this rule; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) except: Vec<String>,
    /// Repair what can be repaired without changing any verdict; the rest is listed on standard error
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "diff", requires = "filename", conflicts_with = "output")]
    pub(crate) fix: Option<LintFix>,
    /// What to exit 1 for: this and worse
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    pub(crate) fail_on: LintFailOn,
    /// text for people, json for programs (`palisade schema lint-report`), sarif for code hosts
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "text")]
    pub(crate) output: LintOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFix {
    /// Print the changes
    Diff,
    /// Write the files
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFailOn {
    /// What is wrong for certain
    Error,
    /// What is probably wrong
    Warning,
    /// What is worth a look
    Note,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintOutput {
    Text,
    Json,
    Sarif,
}

pub(crate) fn run(args: &LintArgs) -> Result<CommandOutput> {
    if let Some(name) = &args.explain {
        return explain(name);
    }
    let fail_on = match args.fail_on {
        LintFailOn::Error => Severity::Error,
        LintFailOn::Warning => Severity::Warning,
        LintFailOn::Note => Severity::Note,
    };
    let options = LintOptions { only: args.only.clone(), except: args.except.clone(), fail_on };
    // A misspelt rule is an error before anything is read.
    options.choice()?;
    let objects = input::objects(&args.input, Scope::Any)?;
    if let Some(how) = args.fix {
        return repaired(how, &objects, &options);
    }
    let Linted { report, rules, outcome } = lint(&objects, &options)?;
    let refused = if outcome == Outcome::CouldNotTell { format!("error: {REFUSED}\n") } else { String::new() };
    let stderr = text::diagnostics(&report.diagnostics) + &refused;
    let stdout = match args.output {
        LintOutput::Text if outcome == Outcome::CouldNotTell => String::new(),
        LintOutput::Text => lint_text(&report, Beside::Nothing),
        LintOutput::Sarif => serde_json::to_string_pretty(&sarif(&report, &rules, env!("CARGO_PKG_VERSION")))? + "\n",
        LintOutput::Json if outcome == Outcome::CouldNotTell => serde_json::to_string_pretty(&report)? + "\n",
        LintOutput::Json => return CommandOutput::json(&report, outcome),
    };
    Ok(CommandOutput { stdout, stderr, outcome })
}

/// Shows or writes repairs.
fn repaired(how: LintFix, objects: &Objects, options: &LintOptions) -> Result<CommandOutput> {
    let Repaired { texts, left, diagnostics, outcome } = repair(objects, options)?;
    let stdout = match how {
        LintFix::Diff => texts.iter().map(|it| it.diff.as_str()).collect(),
        LintFix::Write => texts.iter().map(write).collect::<Result<String>>()?,
    };
    let beside = if texts.is_empty() { Beside::Nothing } else { Beside::Repairs };
    Ok(CommandOutput { stdout, stderr: text::diagnostics(&diagnostics) + &lint_text(&left, beside), outcome })
}

/// Writes a file that is still what was read.
fn write(fixed: &Fixed) -> Result<String> {
    let file = fixed.file.as_ref();
    if file == "-" {
        bail!("`--fix=write`: standard input cannot be written; `--fix` prints the changes");
    }
    let now = std::fs::read_to_string(file).with_context(|| format!("cannot read `{file}` again"))?;
    if now != *fixed.before {
        bail!("`{file}` has changed since it was read, and was not written");
    }
    std::fs::write(file, &fixed.after).with_context(|| format!("cannot write `{file}`"))?;
    let noun = if fixed.removed == 1 { "entry" } else { "entries" };
    Ok(format!("{file}: {} {noun} removed\n", fixed.removed))
}

fn explain(name: &str) -> Result<CommandOutput> {
    if name != "all" {
        return Ok(CommandOutput::text(lint_rule_text(&described(Rule::named(name)?))));
    }
    let width = RULES.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let line = |it: &Rule| format!("{:<width$}  {:<7}  {}\n", it.name, it.severity, it.summary);
    Ok(CommandOutput::text(RULES.iter().map(line).collect()))
}

/// docs/lints.md.
pub(crate) fn reference() -> String {
    let mut out = String::from(
        "# Lints\n\nWhat `palisade lint` finds, rule by rule. Written by `palisade schema lints`.\n\n\
         The severity is that of the worst that a rule finds. `--only` and `--except` choose rules, `--fail-on` says what makes the exit code 1.\n\n\
         | rule | severity | finds |\n|---|---|---|\n",
    );
    for rule in RULES {
        let fixable = if rule.fixable { ", `--fix`" } else { "" };
        out.push_str(&format!("| [`{0}`](#{0}) | {1}{fixable} | {2} |\n", rule.name, rule.severity, rule.summary));
    }
    for rule in RULES {
        out.push_str(&format!(
            "\n## {}\n\n{}\n\n**Why it hurts.** {}\n\n**What to do.** {}\n",
            rule.name, rule.summary, rule.why, rule.fix
        ));
    }
    out
}
