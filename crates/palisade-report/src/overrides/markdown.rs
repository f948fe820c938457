//! What cluster policies make of NetworkPolicies, as tables.

use crate::diff::{connections_said, verb_said, within_said};
use crate::v1::{OverriddenExtent, OverriddenPolicy, OverrideComparison, OverrideReport, OverrideTieKind, OverridingPolicy};

/// A section for each policy.
pub fn overrides(it: &OverrideReport) -> String {
    let policies = it.cluster_policies.iter().map(overriding);
    let all: Vec<String> = policies.chain(it.network_policies.iter().map(overridden)).collect();
    if all.is_empty() { "No such policies.\n".to_owned() } else { all.join("\n") }
}

fn row<const N: usize>(cells: [&str; N]) -> String {
    let cell = |text: &str| text.replace('|', "\\|").replace('*', "\\*");
    format!("| {} |\n", cells.map(cell).join(" | "))
}

fn head<const N: usize>(titles: [&str; N]) -> String {
    format!("{}|{}\n", row(titles), "---|".repeat(N))
}

fn overriding(it: &OverridingPolicy) -> String {
    let priority = it.policy.priority.map(|it| format!(", priority {it}")).unwrap_or_default();
    let mut out = format!("### {} ({}{priority})\n\n", it.reference, it.tier);
    if it.overrides.is_empty() {
        out.push_str("Overrides nothing.\n");
    } else {
        out.push_str(&head(["does", "from", "to", "connections", "at", "because"]));
        for line in &it.overrides {
            let change = &line.connections;
            let because: Vec<&str> = line.overridden.iter().map(|it| it.sentence.as_str()).collect();
            let does = if line.action == "Deny" { "denies" } else { "accepts" };
            let to = format!("{}{}", change.to.name, within_said(change.within));
            out.push_str(&row([does, &change.from.name, &to, &connections_said(change), &line.direction, &because.join("; ")]));
        }
    }
    if !it.ties.is_empty() {
        out.push('\n');
        out.push_str(&head(["same priority", "is", "because"]));
        for tie in &it.ties {
            let kind = match tie.kind {
                OverrideTieKind::Conflict => "a conflict",
                OverrideTieKind::Possible => "possibly a conflict",
                OverrideTieKind::Harmless => "harmless",
                OverrideTieKind::Disjoint => "disjoint",
            };
            out.push_str(&row([&tie.with, kind, &tie.sentence]));
        }
    }
    let when = match it.compared {
        OverrideComparison::Goes => "if it went",
        OverrideComparison::Comes => "when it comes",
    };
    if !it.changes.is_empty() {
        out.push('\n');
        out.push_str(&head([when, "from", "to", "connections"]));
        for change in &it.changes {
            let to = format!("{}{}", change.to.name, within_said(change.within));
            out.push_str(&row([verb_said(change.change), &change.from.name, &to, &connections_said(change)]));
        }
    }
    out
}

fn overridden(it: &OverriddenPolicy) -> String {
    let mut out = format!("### {}\n\n{}", it.reference, head(["part", "overridden", "by"]));
    for part in &it.parts {
        let what =
            part.rule.as_ref().map_or_else(|| format!("isolation for {}", part.direction), |it| format!("{} {}", it.direction, it.rule));
        let extent = match part.overridden {
            OverriddenExtent::Nothing => "no",
            OverriddenExtent::Partly => "partly",
            OverriddenExtent::Wholly => "wholly",
        };
        let by: Vec<&str> = part.by.iter().flat_map(|it| &it.rules).map(|it| it.rule.as_str()).collect();
        out.push_str(&row([&what, extent, &by.join(", ")]));
    }
    out
}
