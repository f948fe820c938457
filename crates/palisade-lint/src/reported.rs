//! From findings to the report that leaves the house.

use palisade_k8s::{ObjectKey, Sources};
use palisade_report::locate::mark_of;
use palisade_report::v1;

use crate::Lints;
use crate::finding::{Finding, Spot};
use crate::fix::{Repair, repair};
use crate::rule::Rule;

/// Writes findings down, in the order of the input.
pub fn reported(lints: &Lints, sources: &Sources) -> v1::LintReport {
    let mut findings: Vec<v1::LintFinding> = lints.findings.iter().map(|it| finding(it, sources)).collect();
    findings.sort_by(|a, b| order(a).cmp(&order(b)));
    let qualifications = match lints.skipped.as_slice() {
        [] => Vec::new(),
        skipped => vec![format!("no pod or workload of the pod network was read, so these were left out: {}", skipped.join(", "))],
    };
    v1::LintReport {
        api_version: v1::API_VERSION.to_owned(),
        kind: "LintReport".to_owned(),
        qualifications,
        findings,
        diagnostics: Vec::new(),
    }
}

/// What has a place comes by it, the rest by object.
fn order(it: &v1::LintFinding) -> impl Ord + '_ {
    let place = it.at.mark.as_ref().map(|it| (&it.place.file, it.place.line, it.place.column));
    (place.is_none(), place, &it.at.object, &it.rule, &it.message)
}

fn finding(it: &Finding, sources: &Sources) -> v1::LintFinding {
    let repair = repair(sources, it);
    let help = match (repair, &it.help) {
        (Repair::Leaves { why }, None) => Some(format!("take it out by hand; `--fix` leaves it: {why}")),
        (Repair::Nothing | Repair::TakesOut | Repair::Leaves { .. }, help) => help.clone(),
    };
    v1::LintFinding {
        rule: it.rule.to_owned(),
        severity: it.severity.to_string(),
        message: it.message.clone(),
        at: spot(&it.at, sources),
        help,
        further: it.further.iter().map(|it| spot(it, sources)).collect(),
        fixable: repair == Repair::TakesOut,
    }
}

fn spot(it: &Spot, sources: &Sources) -> v1::LintPlace {
    let mark = mark_of(sources, &it.object, &it.paths, it.label.clone());
    let path = mark.as_ref().map(|it| it.path.clone()).or_else(|| it.paths.first().map(ToString::to_string));
    v1::LintPlace { object: called(&it.object), path: path.unwrap_or_default(), mark }
}

/// `NetworkPolicy shop/db`, without the group that some kinds have in their keys.
fn called(key: &ObjectKey) -> String {
    let kind = key.kind.split('.').next().unwrap_or_default();
    ObjectKey { kind: kind.into(), ..key.clone() }.to_string()
}

/// What a rule is about.
pub fn described(rule: &Rule) -> v1::LintRule {
    v1::LintRule {
        name: rule.name.to_owned(),
        severity: rule.severity.to_string(),
        summary: rule.summary.to_owned(),
        why: rule.why.to_owned(),
        fix: rule.fix.to_owned(),
        fixable: rule.fixable,
    }
}
