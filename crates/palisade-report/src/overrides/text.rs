//! What cluster policies make of NetworkPolicies, for people.

use anstyle::{AnsiColor, Style};

use crate::crowd::NAMED;
use crate::diff::{connections_said, within_said};
use crate::diff_text::block;
use crate::text::{BOLD, DIM, painted};
use crate::v1::{
    DiffChange, OverriddenBy, OverriddenExtent, OverriddenPart, OverriddenPolicy, Override, OverrideComparison, OverrideReport,
    OverrideTie, OverrideTieKind, OverridingPolicy, Place, Policy,
};

const GREEN: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const RED: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
const YELLOW: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Everything, with colours.
pub fn overrides(it: &OverrideReport) -> String {
    let policies = it.cluster_policies.iter().map(overriding);
    let all: Vec<String> = policies.chain(it.network_policies.iter().map(overridden)).collect();
    if all.is_empty() { "no such policies\n".to_owned() } else { all.join("\n") }
}

fn place(it: Option<&Place>) -> String {
    it.map(|it| painted(DIM, &format!("   {}:{}", it.file, it.line))).unwrap_or_default()
}

fn title(reference: &str, policy: &Policy, tier: &str) -> String {
    let priority = policy.priority.map(|it| format!(", priority {it}")).unwrap_or_default();
    let shape = policy.shape.as_ref().map(|it| format!(", shape {it}")).unwrap_or_default();
    format!("{}  {tier}{priority}{shape}{}\n", painted(BOLD, reference), place(policy.place.as_ref()))
}

fn overriding(it: &OverridingPolicy) -> String {
    let mut out = title(&it.reference, &it.policy, &it.tier);
    match it.overrides.is_empty() {
        true if it.tier == "Baseline" => out.push_str("  overrides nothing: NetworkPolicies are asked before it\n"),
        true => out.push_str("  overrides nothing\n"),
        false => {
            out.push_str("  overrides\n");
            out.extend(it.overrides.iter().map(lines));
        }
    }
    if !it.ties.is_empty() {
        out.push_str("  same priority\n");
        out.extend(it.ties.iter().map(tie));
    }
    let (when, nothing) = match it.compared {
        OverrideComparison::Goes => ("  if it went\n", "  if it went, no connection would change\n"),
        OverrideComparison::Comes => ("  when it comes\n", "  when it comes, no connection changes\n"),
    };
    out.push_str(if it.changes.is_empty() { nothing } else { when });
    out.extend(it.changes.iter().map(|it| indented(&block(it), 4)));
    out
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
}

fn ends(it: &DiffChange) -> String {
    format!("{}  {}", painted(BOLD, &format!("{} → {}{}", it.from.name, it.to.name, within_said(it.within))), connections_said(it))
}

fn lines(it: &Override) -> String {
    let (style, verb) = if it.action == "Deny" { (RED, "denies ") } else { (GREEN, "accepts") };
    let mut out = format!("    {}  {}\n", painted(style, verb), ends(&it.connections));
    let shown = it.overridden.iter().take(NAMED);
    out.extend(shown.map(|pair| format!("      {} {}{}\n", it.direction, pair.sentence, place(pair.place.as_ref()))));
    let more = it.overridden.len().saturating_sub(NAMED);
    if more > 0 {
        out.push_str(&format!("      {}\n", painted(DIM, &format!("and {more} more; `-o json` has them all"))));
    }
    out
}

fn tie(it: &OverrideTie) -> String {
    let (style, word) = match it.kind {
        OverrideTieKind::Conflict => (RED, "conflict"),
        OverrideTieKind::Possible => (YELLOW, "possible"),
        OverrideTieKind::Harmless => (DIM, "harmless"),
        OverrideTieKind::Disjoint => (DIM, "disjoint"),
    };
    let mut out = format!("    {}  {}\n", painted(style, word), it.sentence);
    for [mine, theirs] in it.rules.iter().take(NAMED) {
        out.push_str(&format!("      {} {} and {} do not act alike\n", mine.direction, mine.rule, theirs.rule));
    }
    let more = it.rules.len().saturating_sub(NAMED);
    if more > 0 {
        out.push_str(&format!("      {}\n", painted(DIM, &format!("and {more} more; `-o json` has them all"))));
    }
    if it.kind == OverrideTieKind::Conflict {
        out.push_str("      the other way round\n");
        out.extend(it.changes.iter().map(|it| indented(&block(it), 8)));
    }
    out
}

fn overridden(it: &OverriddenPolicy) -> String {
    let mut out = title(&it.reference, &it.policy, "NetworkPolicy");
    if it.parts.is_empty() {
        out.push_str("  isolates in no direction, so there is nothing to override\n");
    }
    out.extend(it.parts.iter().map(part));
    out
}

fn part(it: &OverriddenPart) -> String {
    let style = match it.overridden {
        OverriddenExtent::Nothing => DIM,
        OverriddenExtent::Partly => YELLOW,
        OverriddenExtent::Wholly => RED,
    };
    let mut out = format!("  {}{}\n", painted(style, &it.sentence), place(it.place.as_ref()));
    out.extend(it.by.iter().map(by));
    out
}

fn by(it: &OverriddenBy) -> String {
    let rules: Vec<String> =
        it.rules.iter().map(|it| it.name.as_ref().map_or(it.rule.clone(), |name| format!("{} \"{name}\"", it.rule))).collect();
    let mut out = format!("    by {}{}\n", rules.join(", "), place(it.place.as_ref()));
    out.extend(it.connections.iter().map(|it| format!("      {}\n", ends(it))));
    out
}
