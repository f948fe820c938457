//! Answers as text for people: verdict first, place second, reason third, next step last. Colours only repeat what words say.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};

use crate::accepted;
use crate::audited::told as foretold;
use crate::cut;
use crate::denied::told;
use crate::v1::{
    Acceptance, Becomes, Case, Cut, Denial, Diagnostic, Edit, Explanation, Mark, Outcome, Rule, SideKind, TestReport, TestResult, Tier,
    Tried, Verdict, Walk, Would,
};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

pub(crate) fn colour(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Allowed => AnsiColor::Green,
        Verdict::Denied => AnsiColor::Red,
        Verdict::DependsOnDns | Verdict::Mixed | Verdict::NoEndpoints | Verdict::Unknown => AnsiColor::Yellow,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

pub(crate) fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// How much of the walk to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What decided.
    Decisive,
    /// Every rule that was tried, and why it missed.
    Everything,
}

/// An explanation, with colours; whoever prints it strips them where they are not wanted.
pub fn explanation(it: &Explanation, detail: Detail) -> String {
    let mut out = String::new();
    let single = it.cases.len() == 1;
    out.push_str(&headline(it));
    for qualification in &it.qualifications {
        out.push_str(&format!("{} {qualification}\n", painted(Style::new().bold().fg_color(Some(AnsiColor::Yellow.into())), "qualified:")));
    }
    for case in &it.cases {
        if !single {
            out.push_str(&format!("\n{}\n", case_line(case)));
        }
        out.push_str(&case_body(case, detail));
    }
    out
}

/// The verdict and the question.
pub(crate) fn headline(it: &Explanation) -> String {
    let (word, style) = match (it.trusted, it.verdict) {
        (false, _) | (true, Verdict::Unknown) => ("UNKNOWN", colour(Verdict::Unknown)),
        (true, Verdict::Allowed) => ("ALLOWED", colour(Verdict::Allowed)),
        (true, Verdict::Denied) => ("DENIED", colour(Verdict::Denied)),
        (true, Verdict::DependsOnDns) => ("DEPENDS ON DNS", colour(Verdict::DependsOnDns)),
        (true, Verdict::Mixed) => ("MIXED", colour(Verdict::Mixed)),
        (true, Verdict::NoEndpoints) => ("NO ENDPOINTS", colour(Verdict::NoEndpoints)),
    };
    let question = match it.cases.as_slice() {
        [only] if only.through_service => format!("{} → {}{}", only.from.name, called(it), ends(only).trim_start_matches(&only.from.name)),
        [only] => ends(only),
        _ => format!("{} → {}", it.question.from, called(it)),
    };
    let place = match (it.trusted, it.cases.as_slice(), it.verdict) {
        (false, _, _) => it.would_be.map(|it| format!("would be {} by what could be read", plain(it))).unwrap_or_default(),
        (true, [only], Verdict::Denied) => match (only.egress.verdict, only.ingress.verdict) {
            (Verdict::Denied, Verdict::Denied) => "at the source's egress and at the destination's ingress".to_owned(),
            (Verdict::Denied, _) => "at the source's egress".to_owned(),
            (_, _) => "at the destination's ingress".to_owned(),
        },
        (true, _, Verdict::Mixed) => "it depends on which pods or addresses are used".to_owned(),
        (true, _, Verdict::NoEndpoints) => "the Service has no ready pod behind this port, so no policy is asked".to_owned(),
        (true, _, _) => String::new(),
    };
    let place = if place.is_empty() { place } else { format!("    {place}") };
    format!("{}  {}{place}\n", painted(style, word), painted(BOLD, &question))
}

/// The destination and traffic as they were asked about.
fn called(it: &Explanation) -> String {
    let port = it.question.port.as_deref().map(|port| format!("/{port}")).unwrap_or_default();
    format!("{}  {}{port}", it.question.to, it.question.protocol)
}

/// A verdict as a word in a sentence.
pub fn plain(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allowed => "allowed",
        Verdict::Denied => "denied",
        Verdict::DependsOnDns => "dependent on DNS",
        Verdict::Mixed => "mixed",
        Verdict::NoEndpoints => "without endpoints",
        Verdict::Unknown => "unknown",
    }
}

fn ends(case: &Case) -> String {
    let port = case.port.map(|port| format!("/{port}")).unwrap_or_default();
    format!("{} → {}  {}{port}", case.from.name, case.to.name, case.protocol)
}

fn case_line(case: &Case) -> String {
    let family = case.family.as_deref().map(|it| format!(" over {it}")).unwrap_or_default();
    let alike = |names: &[String]| if names.is_empty() { String::new() } else { format!(" and {} alike", names.len()) };
    let who = format!("{}{} → {}{}", case.from.name, alike(&case.from.alike), case.to.name, alike(&case.to.alike));
    format!("{}  {}{family}", painted(colour(case.verdict), &plain(case.verdict).to_uppercase()), painted(BOLD, &who))
}

fn case_body(case: &Case, detail: Detail) -> String {
    let mut out = String::new();
    let same = case.egress.reason == "itself" && case.ingress.reason == "itself";
    if same {
        out.push_str(&format!("\n  {}\n", case.egress.sentence));
    } else {
        out.push_str(&walk("egress", &case.from.name, case.from.kind, &case.egress, detail));
        out.push_str(&walk("ingress", &case.to.name, case.to.kind, &case.ingress, detail));
    }
    for note in &case.notes {
        out.push_str(&format!("\n{} {note}", painted(BOLD, "note:")));
    }
    if !case.notes.is_empty() {
        out.push('\n');
    }
    out.push_str(&flips(case));
    out
}

fn walk(direction: &str, name: &str, kind: SideKind, walk: &Walk, detail: Detail) -> String {
    if kind != SideKind::Pod {
        return format!("\n{}  {}\n", painted(BOLD, &format!("{direction} of {name}")), painted(DIM, &walk.sentence));
    }
    let verdict = match walk.verdict {
        Verdict::Allowed => "accepted",
        Verdict::Denied => "denied",
        Verdict::DependsOnDns => "depends on DNS",
        Verdict::Mixed | Verdict::NoEndpoints | Verdict::Unknown => plain(walk.verdict),
    };
    let title = format!("{direction} of {name}");
    let mut out = format!("\n{}  {}\n", painted(BOLD, &format!("{title:<32}")), painted(colour(walk.verdict), verdict));
    for tier in &walk.tiers {
        out.push_str(&tier_lines(tier, detail));
    }
    if walk.reason == "default" {
        out.push_str("  default        accept\n");
    }
    out
}

fn tier_lines(tier: &Tier, detail: Detail) -> String {
    let tried = match (tier.outcome, tier.policies.len(), tier.rules.len()) {
        (Outcome::NoMatch, policies, rules) if rules > 0 => {
            painted(DIM, &format!("   {} of {} tried", count(rules, "rule", "rules"), count(policies, "policy", "policies")))
        }
        _ => String::new(),
    };
    let place = tier.mark.as_ref().map(|it| painted(DIM, &format!("   {}:{}", it.place.file, it.place.line))).unwrap_or_default();
    let (head, rest) = tier.sentence.split_once("; nearest: ").map_or((tier.sentence.as_str(), None), |(head, rest)| (head, Some(rest)));
    let mut out = format!("  {:<13}  {head}{tried}{place}\n", tier.tier);
    if let Some(rest) = rest {
        out.push_str(&format!("  {:<13}  nearest: {rest}\n", ""));
    }
    if tier.outcome == Outcome::Isolated && tier.mark.is_none() {
        for policy in &tier.policies {
            let place = policy.place.as_ref().map(|it| format!("{}:{}", it.file, it.line)).unwrap_or_default();
            out.push_str(&format!("  {:<13}  {}\n", "", painted(DIM, &format!("`{}` {place}", policy.name))));
        }
    }
    if detail == Detail::Everything {
        tier.rules.iter().for_each(|rule| out.push_str(&rule_line(rule)));
    }
    if let Some(mark) = &tier.mark {
        out.push_str(&excerpt(mark));
    }
    out
}

fn rule_line(it: &Rule) -> String {
    let name = it.name.as_deref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let result = match it.result {
        Tried::Matched => "matches".to_owned(),
        Tried::DependsOnDns => "matches if a name resolves to the destination".to_owned(),
        Tried::Missed => format!("missed: {}", it.missed.join("; ")),
    };
    format!("  {:<13}    {}{name} {} {}\n", "", it.rule, it.action, painted(DIM, &result))
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A line of the user's YAML, marked as rustc would.
pub(crate) fn excerpt(mark: &Mark) -> String {
    let span = mark.start.min(mark.line.len())..mark.end.min(mark.line.len());
    let snippet = Snippet::source(mark.line.as_str())
        .line_start(mark.place.line)
        .path(mark.place.file.as_str())
        .annotation(AnnotationKind::Primary.span(span).label(mark.label.as_str()));
    let group = Group::with_level(Level::NOTE).element(snippet);
    let rendered = Renderer::styled().decor_style(DecorStyle::Unicode).render(&[group]);
    rendered.lines().map(|line| format!("      {line}\n")).collect()
}

fn flips(case: &Case) -> String {
    let mut out = String::new();
    let goal = match case.verdict {
        Verdict::Allowed => "to deny it",
        Verdict::Denied | Verdict::DependsOnDns | Verdict::Mixed | Verdict::NoEndpoints | Verdict::Unknown => "to allow it",
    };
    for (at, flip) in case.flips.iter().enumerate() {
        let lead = if at == 0 {
            format!("\n{} {goal}, ", painted(Style::new().bold().fg_color(Some(AnsiColor::Cyan.into())), "help:"))
        } else {
            "      or ".to_owned()
        };
        for (number, it) in flip.edits.iter().enumerate() {
            let lead = if number == 0 { lead.clone() } else { "      and ".to_owned() };
            out.push_str(&edit(&lead, it));
        }
    }
    out
}

fn edit(lead: &str, it: &Edit) -> String {
    let mut out = format!("{lead}{}{}\n", it.sentence, if it.yaml.is_some() { ":" } else { "" });
    for line in it.yaml.iter().flat_map(|yaml| yaml.lines()) {
        out.push_str(&format!("        {line}\n"));
    }
    out
}

/// What was noticed while reading: errors and warnings in the order of the input, notes after them.
pub fn diagnostics(all: &[Diagnostic]) -> String {
    let (notes, others): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.severity == "note");
    others.into_iter().chain(notes).map(diagnostic).collect()
}

/// Limits of an answer, one line each.
pub fn notes(qualifications: &[String]) -> String {
    qualifications.iter().map(|it| format!("note: {it}\n")).collect()
}

fn diagnostic(it: &Diagnostic) -> String {
    let style = match it.severity.as_str() {
        "error" => Style::new().bold().fg_color(Some(AnsiColor::Red.into())),
        "warning" => Style::new().bold().fg_color(Some(AnsiColor::Yellow.into())),
        _ => BOLD,
    };
    let place = it.place.as_ref().map(|at| format!("{}:{}:{}: ", at.file, at.line, at.column)).unwrap_or_default();
    let object = if it.object.is_empty() { String::new() } else { format!("{}: ", it.object) };
    let path = if it.path.is_empty() { String::new() } else { format!("`{}`: ", it.path) };
    let help = it.help.as_deref().map(|help| format!("\n  {} {help}", painted(BOLD, "help:"))).unwrap_or_default();
    let head = painted(style, &format!("{}[{}]:", it.severity, it.code));
    format!("{place}{head} {object}{path}{}{help}\n", it.message)
}

/// One line of a verdict table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// The traffic, as in `tcp/80`.
    pub traffic: String,
    /// The answer.
    pub explanation: Explanation,
}

/// Verdicts with the reason of each, under one heading for each destination and port.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.from.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut heading = None;
    for row in rows {
        if heading.replace((&row.to, &row.traffic)) != Some((&row.to, &row.traffic)) {
            out.push_str(&format!("\n{}\n", painted(BOLD, &format!("to {}  {}", row.to, row.traffic))));
        }
        let verdict = painted(colour(row.explanation.verdict), &format!("{:<8}", plain(row.explanation.verdict)));
        out.push_str(&format!("  {:<width$}  {verdict}  {}\n", row.from, painted(DIM, &decisive(&row.explanation))));
    }
    out
}

/// The sentence that matters most: of the direction that denies, else of the one that a policy decided.
fn decisive(it: &Explanation) -> String {
    let Some(case) = it.cases.first() else { return String::new() };
    let by_policy = |walk: &Walk| walk.reason.contains('#');
    let walk = match (case.egress.verdict, case.ingress.verdict) {
        (Verdict::Denied, _) => &case.egress,
        (_, Verdict::Denied) => &case.ingress,
        _ if by_policy(&case.ingress) || !by_policy(&case.egress) => &case.ingress,
        _ => &case.egress,
    };
    walk.sentence.clone()
}

/// A test report: failures with their explanations first, the count last.
pub fn test_report(it: &TestReport) -> String {
    let mut out = String::new();
    for test in &it.tests {
        let (word, verdict) = match test.result {
            TestResult::Passed => ("ok     ", Verdict::Allowed),
            TestResult::Failed => ("FAILED ", Verdict::Denied),
            TestResult::Unknown => ("UNKNOWN", Verdict::Mixed),
        };
        let why = if test.result == TestResult::Passed { painted(DIM, &format!("   {}", test.message)) } else { String::new() };
        out.push_str(&format!("{}  {}{why}\n", painted(colour(verdict), word), test.text));
        if test.result != TestResult::Passed {
            let place = painted(DIM, &format!("{}:{}:{}", test.place.file, test.place.line, test.place.column));
            out.push_str(&format!("         {place}  {}\n", test.message));
        }
        // One explanation shows the way; the message names the others.
        if let Some(counterexample) = test.counterexamples.first() {
            let text = explanation(&counterexample.explanation, Detail::Decisive);
            out.extend(text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }));
            out.push('\n');
        }
    }
    for qualification in &it.qualifications {
        out.push_str(&format!("qualified: {qualification}\n"));
    }
    out.push_str(&format!("\n{} passed, {} failed", it.passed, it.failed));
    if it.unknown > 0 {
        out.push_str(&format!(", {} unknown", it.unknown));
    }
    out.push('\n');
    out
}

/// An accepted connection in one line, with colours.
pub fn acceptance(it: &Acceptance) -> String {
    format!("{}  {}\n", painted(colour(Verdict::Allowed), "accepted"), accepted::told(it))
}

/// A denial in one line, with colours.
pub fn denial(it: &Denial) -> String {
    format!("{}  {}\n", painted(colour(Verdict::Denied), "denied"), told(it))
}

/// Connections that were cut in one line, with colours.
pub fn cut(it: &Cut) -> String {
    format!("{}     {}\n", painted(colour(Verdict::Denied), "cut"), cut::told(it))
}

/// What would become of a connection, in one line, with colours.
pub fn would(it: &Would) -> String {
    let (verdict, word) = match it.becomes {
        Becomes::Denied => (Verdict::Denied, "would deny"),
        Becomes::Allowed => (Verdict::Allowed, "would allow"),
    };
    format!("{}  {}\n", painted(colour(verdict), word), foretold(it))
}
