//! What to write, for people: the verdict as it is, what stands in the way, what to write, what else that opens.

use anstyle::{AnsiColor, Style};

use crate::diff_text::block as other;
use crate::text::{BOLD, DIM, Detail, excerpt, explanation, headline, painted};
use crate::v1::{AllowBlock, AllowChange, AllowOutcome, Allowance};

const HELP: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));

/// The whole answer, with colours.
pub fn allowance(it: &Allowance) -> String {
    if it.outcome == AllowOutcome::AllowedAlready {
        return format!("{}\nnothing has to be written: it is allowed already\n", explanation(&it.explanation, Detail::Decisive));
    }
    let mut out = headline(&it.explanation);
    for qualification in &it.explanation.qualifications {
        out.push_str(&format!("qualified: {qualification}\n"));
    }
    it.blocks.iter().for_each(|it| out.push_str(&block(it)));
    let lead = match it.outcome {
        AllowOutcome::AllowedAlready | AllowOutcome::Proposed => "to allow it,",
        AllowOutcome::Useless => "besides, once that is out of the way,",
    };
    for (at, it) in it.changes.iter().enumerate() {
        out.push_str(&change(if at == 0 { lead } else { "and" }, it));
    }
    if it.outcome == AllowOutcome::Proposed {
        out.push_str(&others(it));
    }
    out
}

fn block(it: &AllowBlock) -> String {
    let mut out = format!("\n{} {}\n", painted(Style::new().bold().fg_color(Some(AnsiColor::Red.into())), "in the way:"), it.sentence);
    out.extend(it.mark.iter().map(excerpt));
    out.extend(it.help.iter().map(|help| format!("{} {help}\n", painted(HELP, "help:"))));
    if let Some(edit) = &it.edit {
        out.push_str(&format!("      for example {}:\n", edit.sentence));
        out.extend(edit.yaml.iter().flat_map(|it| it.lines()).map(|line| format!("        {line}\n")));
    }
    out
}

fn change(lead: &str, it: &AllowChange) -> String {
    let text = it.diff.as_ref().unwrap_or(&it.yaml);
    // A carriage return is part of what `patch` compares.
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') if it.diff.is_some() => format!("{}\n", painted(Style::new().fg_color(Some(AnsiColor::Green.into())), line)),
        Some(b'-') if it.diff.is_some() => format!("{}\n", painted(Style::new().fg_color(Some(AnsiColor::Red.into())), line)),
        Some(_) | None => format!("{line}\n"),
    };
    format!("\n{} {}:\n{}", painted(HELP, lead), it.sentence, text.split_terminator('\n').map(line).collect::<String>())
}

fn others(it: &Allowance) -> String {
    let noun = if it.changes.len() == 1 { "this" } else { "all of this" };
    let notes: String = it.notes.iter().map(|it| format!("{} {it}\n", painted(BOLD, "note:"))).collect();
    if it.others.is_empty() {
        let pods = if notes.is_empty() { "between what was read" } else { "between pods that were read" };
        let tried = painted(DIM, &format!("tried out: with {noun} it is allowed, and nothing else opens or closes {pods}"));
        return format!("\n{tried}\n{notes}");
    }
    let mut out = format!("\n{}\n", painted(BOLD, &format!("tried out: with {noun} it is allowed, and this changes, too:")));
    out.extend(it.others.iter().map(other));
    out + &notes
}
