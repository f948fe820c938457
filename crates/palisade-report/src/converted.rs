//! A conversion as objects, and what is said beside them.

use palisade_analysis::convert::{Converted, Loss, Untouched, Weight, Written};
use palisade_k8s::{Beside, ObjectKey, Sources};
use palisade_model::{Direction, PolicyRef, RuleRef};

use crate::diff_text::changes_text;
use crate::manifest::{Manifest, manifest};
use crate::text::{BOLD, notes, painted};
use crate::v1::{self, ConversionLoss, ConversionReach, ConversionUntouched, ConversionWeight};

/// The new objects, with the labels, annotations and comments of the old ones.
pub fn manifests(converted: &Converted, sources: &Sources) -> Vec<Manifest> {
    converted.written.iter().map(|it| manifest(&it.policy, &beside(converted, it, sources))).collect()
}

/// All objects as one text of several documents.
pub fn yaml(manifests: &[Manifest]) -> String {
    manifests.iter().map(Manifest::yaml).collect::<Vec<_>>().join("---\n")
}

fn beside(converted: &Converted, written: &Written, sources: &Sources) -> Beside {
    let old: Vec<(&PolicyRef, Beside)> = written.from.iter().filter_map(|it| Some((it, sources.beside(&ObjectKey::from(it))?))).collect();
    let mut beside = Beside::default();
    if let Some((_, first)) = old.first() {
        beside.labels.clone_from(&first.labels);
        beside.annotations.clone_from(&first.annotations);
    }
    beside.remarks = old.iter().flat_map(|it| it.1.remarks.clone()).collect();
    for (policy, beside_old) in &old {
        let first =
            converted.written.iter().find(|it| it.from.contains(policy)).is_some_and(|it| it.policy.origin == written.policy.origin);
        let homeless = beside_old.rule_remarks.iter().filter(|it| first && !is_written(converted, policy, it.0, it.1));
        beside.remarks.extend(homeless.flat_map(|it| it.2.clone()));
    }
    for direction in Direction::BOTH {
        let from = written.rules.of(direction);
        for (at, rule) in from.iter().enumerate() {
            // A rule in several pieces is spoken of at the first.
            let first = from.iter().position(|it| it == rule) == Some(at);
            let lines = remarks(&old, rule).filter(|_| first);
            beside.rule_remarks.extend(lines.map(|lines| (direction, at, lines.to_vec())));
        }
    }
    beside
}

/// Whether there is a rule that an old one became.
fn is_written(converted: &Converted, policy: &PolicyRef, direction: Direction, index: usize) -> bool {
    let mut rules = converted.written.iter().flat_map(|it| it.rules.of(direction));
    rules.any(|it| it.policy == *policy && it.index == index)
}

fn remarks<'b>(old: &'b [(&PolicyRef, Beside)], rule: &RuleRef) -> Option<&'b [String]> {
    let (_, beside) = old.iter().find(|it| *it.0 == rule.policy)?;
    let (_, _, lines) = beside.rule_remarks.iter().find(|it| (it.0, it.1) == (rule.direction, rule.index))?;
    Some(lines)
}

/// Writes down a conversion. Whoever compared reach fills in the rest.
pub fn converted(converted: &Converted, manifests: &[Manifest], sources: &Sources) -> v1::Conversion {
    let policy = |it: &PolicyRef| v1::Policy {
        shape: None,
        priority: None,
        kind: it.kind.as_str().to_owned(),
        namespace: it.namespace.as_deref().map(str::to_owned),
        name: it.name.to_string(),
        place: sources.location(&ObjectKey::from(it)).as_ref().map(v1::Place::from),
    };
    let loss = |it: &Loss| ConversionLoss {
        policy: policy(&it.policy),
        reference: it.policy.to_string(),
        path: it.path.clone(),
        why: it.why.clone(),
        instead: it.instead.clone(),
        weight: match it.weight {
            Weight::Reach => ConversionWeight::Reach,
            Weight::Later => ConversionWeight::Later,
            Weight::Form => ConversionWeight::Form,
        },
    };
    v1::Conversion {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Conversion".to_owned(),
        policies: manifests.iter().map(Manifest::json).collect(),
        replaced: converted.replaced.iter().map(policy).collect(),
        untouched: converted
            .untouched
            .iter()
            .map(|(it, why)| ConversionUntouched { policy: policy(it), why: stays(*why).to_owned() })
            .collect(),
        losses: converted.losses.iter().map(loss).collect(),
        reach: ConversionReach::NotCompared,
        changes: Vec::new(),
        qualifications: Vec::new(),
        diagnostics: Vec::new(),
    }
}

fn stays(why: Untouched) -> &'static str {
    match why {
        Untouched::AlreadyThere => "it has this shape already",
        Untouched::NotSayable => "it stays what it is, since this shape cannot say all of it",
        Untouched::UnknownSubject => "its subject cannot be read, so that it selects nothing, and it stays what it is",
        Untouched::NetworkPolicy => "a NetworkPolicy isolates pods of one namespace, which no cluster policy can say",
    }
}

/// Text beside the objects: losses, policies that stay, and the comparison of reach before and after.
pub fn converted_text(report: &v1::Conversion, converted: &Converted) -> String {
    let mut out = String::new();
    let titles = [
        (ConversionWeight::Reach, "cannot be said in this shape:"),
        (ConversionWeight::Later, "holds for what is there now, not for what comes later:"),
        (ConversionWeight::Form, "said in another way:"),
    ];
    for (weight, title) in titles {
        let losses: Vec<&ConversionLoss> = report.losses.iter().filter(|it| it.weight == weight).collect();
        if !losses.is_empty() {
            out.push_str(&format!("{}\n", painted(BOLD, title)));
        }
        for loss in losses {
            out.push_str(&format!("  {} `{}`: {}\n", loss.reference, loss.path, loss.why));
            out.push_str(&format!("    written instead: {}\n", loss.instead.as_deref().unwrap_or("nothing")));
        }
    }
    for (policy, why) in &converted.untouched {
        out.push_str(&format!("note: {policy}: {}\n", stays(*why)));
    }
    out + &comparison(report, converted)
}

fn comparison(report: &v1::Conversion, converted: &Converted) -> String {
    let written = if converted.written.len() == 1 { "1 policy".to_owned() } else { format!("{} policies", converted.written.len()) };
    let replaced: Vec<String> = converted.replaced.iter().map(PolicyRef::to_string).collect();
    let what = match (replaced.is_empty(), converted.written.is_empty()) {
        (true, true) if converted.untouched.is_empty() => "nothing to convert: every cluster policy has this shape already".to_owned(),
        (true, true) => "nothing to convert".to_owned(),
        (_, _) => format!("{written} written for {}", replaced.join(", ")),
    };
    let notes = notes(&report.qualifications);
    match report.reach {
        ConversionReach::Same => format!("{notes}{what}; reach is the same before and after\n"),
        ConversionReach::Changed => format!("{notes}{what}, and connections change:\n{}", changes_text(&report.changes)),
        ConversionReach::NotCompared => {
            format!("{what}\nnote: no pod or workload was read, so reach before and after was not compared\n")
        }
    }
}
