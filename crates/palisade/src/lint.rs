//! `palisade lint`.

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use palisade_k8s::{Index, Text};
use palisade_lint::{Choice, Fixed, Lints, RULES, Rule, described, fix, lint, reported};
use palisade_model::Severity;
use palisade_report::{Beside, lint_rule_text, lint_text, sarif, text, v1};

use crate::cli::InputArgs;
use crate::input;
use crate::outcome::{Exit, Outcome};

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

pub(crate) fn run(args: &LintArgs) -> Result<Outcome> {
    if let Some(name) = &args.explain {
        return explain(name);
    }
    let choice = Choice::of(&args.only, &args.except)?;
    if choice.rules().next().is_none() {
        bail!("no rule is left to look for");
    }
    let (index, unavailable) = input::read_objects(&args.input)?;
    let diagnostics: Vec<v1::Diagnostic> = index.snapshot().diagnostics.iter().map(v1::Diagnostic::from).collect();
    let noticed = text::diagnostics(&diagnostics);
    if diagnostics.iter().any(|it| it.severity == "error") {
        return refused(args, &index, &choice, diagnostics, &noticed);
    }
    if let Some(how) = args.fix {
        return repair(args, how, &index, &choice, noticed);
    }
    let lints = lint(&index, &choice);
    let exit = exit(args.fail_on, &lints);
    let mut report = reported(&lints, index.sources());
    report.qualifications.extend(unavailable);
    report.diagnostics = diagnostics;
    Ok(match args.output {
        LintOutput::Text => Outcome { stdout: lint_text(&report, Beside::Nothing), stderr: noticed, exit },
        LintOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
        LintOutput::Sarif => {
            let rules: Vec<v1::LintRule> = choice.rules().map(described).collect();
            let log = sarif(&report, &rules, env!("CARGO_PKG_VERSION"));
            Outcome { stdout: serde_json::to_string_pretty(&log)? + "\n", stderr: noticed, exit }
        }
    })
}

const REFUSED: &str = "objects were refused, so that nothing can be said about the others";

/// What was refused, in the form that was asked for.
fn refused(args: &LintArgs, index: &Index, choice: &Choice, diagnostics: Vec<v1::Diagnostic>, noticed: &str) -> Result<Outcome> {
    let stderr = format!("{noticed}error: {REFUSED}\n");
    let mut report = reported(&Lints::default(), index.sources());
    report.qualifications.push(REFUSED.to_owned());
    report.diagnostics = diagnostics;
    let stdout = match (args.fix, args.output) {
        (Some(LintFix::Diff | LintFix::Write), _) | (None, LintOutput::Text) => String::new(),
        (None, LintOutput::Json) => serde_json::to_string_pretty(&report)? + "\n",
        (None, LintOutput::Sarif) => serde_json::to_string_pretty(&sarif_of_refused(report, choice))? + "\n",
    };
    Ok(Outcome { stdout, stderr, exit: Exit::CannotTell })
}

/// Diagnostics as results, by their codes.
fn sarif_of_refused(mut report: v1::LintReport, choice: &Choice) -> serde_json::Value {
    report.findings = report.diagnostics.iter().map(as_finding).collect();
    let rules: Vec<v1::LintRule> = choice.rules().map(described).collect();
    let mut log = sarif(&report, &rules, env!("CARGO_PKG_VERSION"));
    let results = log.pointer_mut("/runs/0/results").and_then(serde_json::Value::as_array_mut);
    for result in results.into_iter().flatten() {
        // Of a diagnostic the place is known, not the text.
        if let Some(region) = result.pointer_mut("/locations/0/physicalLocation/region").and_then(serde_json::Value::as_object_mut) {
            region.remove("snippet");
            region.remove("endColumn");
        }
    }
    log
}

fn as_finding(it: &v1::Diagnostic) -> v1::LintFinding {
    let mark = |place: &v1::Place| v1::Mark {
        place: place.clone(),
        path: it.path.clone(),
        line: String::new(),
        start: 0,
        end: 0,
        label: it.message.clone(),
    };
    let file = || it.place.as_ref().map(|it| it.file.clone()).unwrap_or_default();
    let object = if it.object.is_empty() { file() } else { it.object.clone() };
    v1::LintFinding {
        rule: it.code.clone(),
        severity: it.severity.clone(),
        message: it.message.clone(),
        at: v1::LintPlace { object, path: it.path.clone(), mark: it.place.as_ref().map(mark) },
        help: it.help.clone(),
        further: Vec::new(),
        fixable: false,
    }
}

fn exit(fail_on: LintFailOn, lints: &Lints) -> Exit {
    let least = match fail_on {
        LintFailOn::Error => Severity::Error,
        LintFailOn::Warning => Severity::Warning,
        LintFailOn::Note => Severity::Note,
    };
    // The worst severity is the smallest.
    if lints.findings.iter().any(|it| it.severity <= least) { Exit::No } else { Exit::Yes }
}

/// Shows or writes repairs. What is left is found in the repaired texts.
fn repair(args: &LintArgs, how: LintFix, index: &Index, choice: &Choice, noticed: String) -> Result<Outcome> {
    let fixed = fix(index, &lint(index, choice).findings)?;
    let texts: Vec<Text> = fixed.iter().map(|it| Text { file: it.file.clone(), content: it.after.as_str().into() }).collect();
    let repaired = index.with_texts(&texts);
    let left = lint(&repaired, choice);
    let stdout = match how {
        LintFix::Diff => fixed.iter().map(|it| it.diff.as_str()).collect(),
        LintFix::Write => fixed.iter().map(write).collect::<Result<String>>()?,
    };
    let beside = if fixed.is_empty() { Beside::Nothing } else { Beside::Repairs };
    let report = lint_text(&reported(&left, repaired.sources()), beside);
    Ok(Outcome { stdout, stderr: format!("{noticed}{report}"), exit: exit(args.fail_on, &left) })
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

fn explain(name: &str) -> Result<Outcome> {
    if name != "all" {
        return Ok(Outcome::said(lint_rule_text(&described(Rule::named(name)?))));
    }
    let width = RULES.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let line = |it: &Rule| format!("{:<width$}  {:<7}  {}\n", it.name, it.severity, it.summary);
    Ok(Outcome::said(RULES.iter().map(line).collect()))
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
