//! What `palisade verify` says, for people.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};

use crate::text::{BOLD, DIM, painted};
use crate::v1::{DenialSide, Verification, VerifyEffect, VerifyFate, VerifyFinding, VerifyPacket, VerifyWeight};

/// How many findings of one name about one object are spelt out.
const SPELT: usize = 5;

/// The findings, each with its packet and what to do; what was compared last.
pub fn verify(it: &Verification) -> String {
    let mut out = String::new();
    let mut told: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for finding in &it.findings {
        let count = told.entry((&finding.name, &finding.object)).or_default();
        *count += 1;
        if *count <= SPELT {
            out.push_str(&self::finding(finding));
        }
    }
    for ((name, object), count) in told.into_iter().filter(|(_, count)| *count > SPELT) {
        out.push_str(&format!("… and {} more {name} of {object}; `-o json` has all\n\n", count - SPELT));
    }
    if let Some(repaired) = &it.repaired {
        out.push_str(&format!("{} {}\n", painted(BOLD, "repaired:"), repaired.sentence));
        if !repaired.left.is_empty() {
            out.push_str(&format!("still there: {}\n", repaired.left.join(", ")));
        }
    }
    out.push_str(&summary(it));
    out
}

fn summary(it: &Verification) -> String {
    let of = &it.compared;
    let compared = format!(
        "{} chains, {} rules, {} maps with {} elements; {} programs of {} pods, {} classes of peers",
        of.chains, of.rules, of.maps, of.elements, of.programs, of.pods, of.classes
    );
    let count = |weight| it.findings.iter().filter(|it| it.weight == weight).count();
    let (bypassed, differ) = (count(VerifyWeight::Unenforceable), count(VerifyWeight::Difference));
    let verdict = match (bypassed, differ) {
        (0, 0) => "the kernel does what policy says".to_owned(),
        (0, some) => format!("{} from what policy says", differences(some)),
        (some, 0) => format!("the table is as it should be; {} policy cannot be enforced", places(some)),
        (some, others) => format!("{} from what policy says; {} policy cannot be enforced", differences(others), places(some)),
    };
    let before = if it.repaired.is_some() { "before: " } else { "" };
    format!("node {}: {before}{verdict}\n{}\n", painted(BOLD, &it.node), painted(DIM, &compared))
}

fn differences(count: usize) -> String {
    if count == 1 { "1 difference".to_owned() } else { format!("{count} differences") }
}

fn places(count: usize) -> String {
    if count == 1 { "in 1 place".to_owned() } else { format!("in {count} places") }
}

fn finding(it: &VerifyFinding) -> String {
    let (word, colour) = match it.weight {
        VerifyWeight::Unenforceable => ("unenforceable", AnsiColor::Red),
        VerifyWeight::Difference if it.effect == VerifyEffect::NoVerdict => ("difference", AnsiColor::Yellow),
        VerifyWeight::Difference => ("difference", AnsiColor::Red),
        VerifyWeight::Note => ("note", AnsiColor::Cyan),
    };
    let head = painted(Style::new().bold().fg_color(Some(colour.into())), &format!("{word}[{}]:", it.name));
    let mut out = format!("{head} {}\n", it.sentence);
    match (&it.counter_example, it.effect, &it.not_shown) {
        (Some(packet), ..) => out.push_str(&self::packet(packet)),
        (None, VerifyEffect::NoVerdict, _) if it.weight == VerifyWeight::Difference => out.push_str("  changes no verdict\n"),
        (None, _, Some(why)) => out.push_str(&format!("  no packet shows what it does: {why}\n")),
        (None, ..) => {}
    }
    out.push_str(&format!("  {} {}\n\n", painted(BOLD, "help:"), it.help));
    out
}

fn packet(it: &VerifyPacket) -> String {
    let traffic = it.port.map_or_else(|| it.protocol.clone(), |port| format!("{}/{port}", it.protocol));
    let state = if it.state == "new" { String::new() } else { format!(", {}", it.state) };
    let at = it.link.as_ref().map_or_else(|| it.hook.clone(), |link| format!("{} of {link}", it.hook));
    let lines = format!(
        "  {} → {} {traffic} at {at}{state}\n    should be {}\n    but is    {}\n",
        side(&it.from),
        side(&it.to),
        fate(&it.wanted),
        fate(&it.found)
    );
    lines
}

fn side(it: &DenialSide) -> String {
    match (&it.pod, &it.node) {
        (Some(name), _) => format!("{name} ({})", it.address),
        (None, Some(name)) => format!("node/{name} ({})", it.address),
        (None, None) => it.address.clone(),
    }
}

fn fate(it: &VerifyFate) -> String {
    let word = if it.accepted { "accepted" } else { "dropped" };
    let by = if it.origins.is_empty() { "no rule of a policy".to_owned() } else { it.origins.join(", then ") };
    format!("{word}: {by}")
}
