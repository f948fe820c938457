//! A difference for people: what opened first, then what closed, then what came and went with workloads.

use anstyle::{AnsiColor, Style};

use crate::crowd::NAMED;
use crate::diff::{CAUSES, connections_said, verb_said, within_said};
use crate::text::{BOLD, DIM, painted, plain};
use crate::v1::{Diff, DiffBecause, DiffCause, DiffChange, DiffVerb};

/// All that differs, with colours.
pub fn diff_text(it: &Diff) -> String {
    let of = |verbs: &[DiffVerb]| it.changes.iter().filter(|it| verbs.contains(&it.change)).collect::<Vec<_>>();
    let mut out = String::new();
    for change in of(&[DiffVerb::Opened, DiffVerb::Changed, DiffVerb::Closed]) {
        out.push_str(&block(change));
    }
    let ends = [
        ("new workloads", &it.new_workloads, of(&[DiffVerb::Added])),
        ("removed workloads", &it.removed_workloads, of(&[DiffVerb::Removed])),
    ];
    for (title, names, changes) in ends {
        if !names.is_empty() {
            let gap = if out.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{gap}{} {}\n", painted(BOLD, &format!("{title} ({}):", names.len())), few(names)));
            out.extend(changes.into_iter().map(block));
        }
    }
    let gap = if out.is_empty() { "" } else { "\n" };
    format!("{out}{gap}{}\n", summary(&it.changes))
}

/// Changes between two versions with the same workloads.
pub(crate) fn changes_text(changes: &[DiffChange]) -> String {
    format!("{}\n{}\n", changes.iter().map(block).collect::<String>(), summary(changes))
}

fn few(names: &[String]) -> String {
    match names.len().saturating_sub(NAMED) {
        0 | 1 => names.join(", "),
        more => format!("{} and {more} more", names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")),
    }
}

/// `2 changes opened, 1 closed`.
fn summary(changes: &[DiffChange]) -> String {
    let count = |verb: DiffVerb| changes.iter().filter(|it| it.change == verb).count();
    let counts: Vec<String> = [DiffVerb::Opened, DiffVerb::Changed, DiffVerb::Closed, DiffVerb::Added, DiffVerb::Removed]
        .into_iter()
        .filter(|it| count(*it) > 0)
        .map(|it| format!("{} {}", count(it), verb_said(it)))
        .collect();
    if counts.is_empty() { "no connection changes".to_owned() } else { counts.join(", ") }
}

fn style(verb: DiffVerb) -> Style {
    let colour = match verb {
        DiffVerb::Opened => AnsiColor::Green,
        DiffVerb::Closed => AnsiColor::Red,
        DiffVerb::Changed => AnsiColor::Yellow,
        DiffVerb::Added | DiffVerb::Removed => AnsiColor::Cyan,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

/// A change with its reasons.
pub(crate) fn block(it: &DiffChange) -> String {
    let verb = painted(style(it.change), &format!("{:<8}", verb_said(it.change)));
    let ends = format!("{} → {}{}", it.from.name, it.to.name, within_said(it.within));
    let mut out = format!("{verb} {}  {}\n", painted(BOLD, &ends), connections_said(it));
    for because in it.because.iter().take(CAUSES) {
        out.push_str(&cause_lines(because));
    }
    let more = it.because.len().saturating_sub(CAUSES);
    if more > 0 {
        let noun = if more == 1 { "reason" } else { "reasons" };
        out.push_str(&format!("  {}\n", painted(DIM, &format!("and {more} more {noun}; `-o json` has them all"))));
    }
    out
}

fn cause_lines(it: &DiffBecause) -> String {
    let said = |when: &str, cause: &DiffCause| {
        let place = cause.place.as_ref().map(|it| painted(DIM, &format!("   {}:{}", it.file, it.line))).unwrap_or_default();
        format!("{when} {}: {}{place}\n", plain(cause.verdict), cause.sentence)
    };
    let before = it.before.as_ref().map(|cause| said("was", cause));
    let after = it.after.as_ref().map(|cause| said(if it.before.is_some() { "now" } else { "is" }, cause));
    let mut out = String::new();
    for (at, line) in before.into_iter().chain(after).enumerate() {
        out.push_str(&format!("  {:<7} {line}", if at == 0 { it.direction.as_str() } else { "" }));
    }
    out
}
