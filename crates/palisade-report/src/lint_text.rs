//! Findings of lint for people.

use anstyle::{AnsiColor, Style};

use crate::matrix_text::filled;
use crate::text::{BOLD, DIM, excerpt, painted};
use crate::v1::{LintFinding, LintReport, LintRule};

/// What findings are shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// They are all there is.
    Nothing,
    /// They are what repairs leave.
    Repairs,
}

/// The findings with the lines that they are about; the count last.
pub fn lint(report: &LintReport, beside: Beside) -> String {
    let mut out: String = report.findings.iter().map(finding).collect();
    for qualification in &report.qualifications {
        out.push_str(&format!("{} {qualification}\n", painted(BOLD, "note:")));
    }
    out.push_str(&counted(report, beside));
    out
}

fn finding(it: &LintFinding) -> String {
    let head = painted(style(&it.severity), &format!("{}[{}]:", it.severity, it.rule));
    let mut out = format!("{head} {}: {}\n", painted(BOLD, &it.at.object), it.message);
    match &it.at.mark {
        Some(mark) => out.push_str(&excerpt(mark)),
        None if !it.at.path.is_empty() => out.push_str(&format!("      at `{}`\n", it.at.path)),
        None => {}
    }
    for further in &it.further {
        match &further.mark {
            Some(mark) => out.push_str(&excerpt(mark)),
            None => out.push_str(&format!("      and {}\n", further.object)),
        }
    }
    if let Some(help) = &it.help {
        out.push_str(&format!("  {} {help}\n", painted(BOLD, "help:")));
    }
    if it.fixable {
        out.push_str(&format!("  {}\n", painted(DIM, "`--fix` shows the change")));
    }
    out.push('\n');
    out
}

fn style(severity: &str) -> Style {
    let colour = match severity {
        "error" => AnsiColor::Red,
        "warning" => AnsiColor::Yellow,
        _ => AnsiColor::Cyan,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

fn counted(report: &LintReport, beside: Beside) -> String {
    let count = |severity: &str| report.findings.iter().filter(|it| it.severity == severity).count();
    let said = |count: usize, word: &str| (count > 0).then(|| format!("{count} {word}{}", if count == 1 { "" } else { "s" }));
    let parts: Vec<String> = ["error", "warning", "note"].into_iter().filter_map(|it| said(count(it), it)).collect();
    match (parts.is_empty(), beside) {
        (true, Beside::Nothing) => "nothing found\n".to_owned(),
        (true, Beside::Repairs) => "nothing else found\n".to_owned(),
        (false, Beside::Nothing | Beside::Repairs) => format!("{}\n", parts.join(", ")),
    }
}

/// What a rule is about.
pub fn lint_rule(it: &LintRule) -> String {
    let fixable = if it.fixable { "`--fix` can do it where no verdict changes.\n" } else { "" };
    format!(
        "{} ({})\n\n{}\n{}\n{}\n{}\n{}{fixable}",
        painted(BOLD, &it.name),
        it.severity,
        filled(&it.summary, 0, WIDTH),
        painted(BOLD, "Why it hurts"),
        filled(&it.why, 0, WIDTH),
        painted(BOLD, "What to do"),
        filled(&it.fix, 0, WIDTH)
    )
}

/// As wide as people read.
const WIDTH: usize = 100;
