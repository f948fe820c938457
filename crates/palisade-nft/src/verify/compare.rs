//! Where two tables differ, object by object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use crate::netlink::examine::{Examined, Force, Policy, Stance};
use crate::object::Object;
use crate::render;
use crate::ruleset::{Chain, Rule, Ruleset};
use crate::transaction::Table;
use crate::transaction::map::MapRef;
use crate::verify::{Difference, DifferenceKind};

/// More rules than this that stand between two that agree are held against each other by place.
const ALIGNED: usize = 1_000;

pub(super) fn compare(table: Table, found: &Examined, wanted: &Ruleset) -> Vec<Difference> {
    let mut differences = Vec::new();
    if found.force == Force::Dormant {
        differences.push(Difference::of(table, DifferenceKind::TableDormant, Object::Table));
    }
    if found.ruleset.layout != wanted.layout {
        let difference = Difference::of(table, DifferenceKind::TableLayout, Object::Table);
        let [wanted, found] = [wanted.layout, found.ruleset.layout].map(|it| Some(it.to_string()));
        differences.push(Difference { wanted, found, ..difference });
    }
    for foreign in &found.foreign {
        let difference = Difference::of(table, DifferenceKind::Foreign, foreign.object.clone());
        differences.push(Difference { found: Some(foreign.what.clone()), ..difference });
    }
    compare_chains(table, found, wanted, &mut differences);
    compare_maps(table, &found.ruleset, wanted, &mut differences);
    differences
}

fn compare_chains(table: Table, found: &Examined, wanted: &Ruleset, out: &mut Vec<Difference>) {
    let words = |it: &Stance| stance_words(table, it);
    let names: BTreeSet<&String> = found.ruleset.chains.keys().chain(wanted.chains.keys()).collect();
    for name in names {
        let object = Object::Chain(name.clone());
        match (found.ruleset.chains.get(name), wanted.chains.get(name)) {
            (None, Some(wanted)) => {
                let stance = wanted.hook.as_ref().map(|it| words(&Stance::of(table, it)));
                let with = format!("{} rules", wanted.rules.len());
                let wanted = Some([stance, Some(with)].into_iter().flatten().collect::<Vec<_>>().join(", with "));
                out.push(Difference { wanted, ..Difference::of(table, DifferenceKind::ChainMissing, object) });
            }
            (Some(chain), None) => {
                let lines: Vec<String> =
                    found.stances.get(name).map(words).into_iter().chain(chain.rules.iter().map(render::rule)).collect();
                let found = (!lines.is_empty()).then(|| lines.join("; "));
                out.push(Difference { found, ..Difference::of(table, DifferenceKind::ChainAdded, object) });
            }
            (Some(chain), Some(wanted)) => {
                let stands = (found.stances.get(name).cloned(), wanted.hook.as_ref().map(|it| Stance::of(table, it)));
                if stands.0 != stands.1 {
                    let words = |it: &Option<Stance>| Some(it.as_ref().map_or_else(|| "no base chain".to_owned(), words));
                    let difference = Difference::of(table, DifferenceKind::ChainMoved, object);
                    out.push(Difference { wanted: words(&stands.1), found: words(&stands.0), ..difference });
                }
                compare_rules((table, name), chain, wanted, out);
            }
            (None, None) => {}
        }
    }
}

fn stance_words(table: Table, it: &Stance) -> String {
    let hook = match it.hook {
        0 if table == Table::Frames => "ingress".to_owned(),
        0 => "prerouting".to_owned(),
        1 => "input".to_owned(),
        2 => "forward".to_owned(),
        3 => "output".to_owned(),
        4 => "postrouting".to_owned(),
        5 => "ingress".to_owned(),
        other => other.to_string(),
    };
    let devices = match it.devices.is_empty() {
        true => String::new(),
        false => format!(" devices = {{ {} }}", it.devices.iter().cloned().collect::<Vec<_>>().join(", ")),
    };
    let policy = match it.policy {
        Policy::Accept => "accept",
        Policy::Drop => "drop",
    };
    format!("type {} hook {hook}{devices} priority {}; policy {policy}", it.kind, it.priority)
}

/// Rules that are not in both, in order. One that stands in the place of another is a change of it.
fn compare_rules((table, name): (Table, &str), found: &Chain, wanted: &Chain, out: &mut Vec<Difference>) {
    let (found, wanted): (Vec<Rule>, Vec<Rule>) =
        (found.rules.iter().map(Rule::as_kept).collect(), wanted.rules.iter().map(Rule::as_kept).collect());
    for Run { at, found, wanted } in runs(&found, &wanted) {
        for place in 0..found.len().max(wanted.len()) {
            let (found, wanted) = (found.get(place).map(render::rule), wanted.get(place).map(render::rule));
            let kind = match (&found, &wanted) {
                (Some(_), Some(_)) => DifferenceKind::RuleChanged,
                (None, _) => DifferenceKind::RuleMissing,
                (Some(_), None) => DifferenceKind::RuleAdded,
            };
            let object = Object::Rule { chain: name.to_owned(), index: at + place };
            out.push(Difference { wanted, found, ..Difference::of(table, kind, object) });
        }
    }
}

/// Rules that stand in one place in one chain and in the other.
struct Run<'a> {
    at: usize,
    found: &'a [Rule],
    wanted: &'a [Rule],
}

/// Where two lists of rules differ, by the longest list that is part of both.
fn runs<'a>(found: &'a [Rule], wanted: &'a [Rule]) -> Vec<Run<'a>> {
    let start = found.iter().zip(wanted).take_while(|(one, other)| one == other).count();
    let (found, wanted) = (found.get(start..).unwrap_or(&[]), wanted.get(start..).unwrap_or(&[]));
    let end = found.iter().rev().zip(wanted.iter().rev()).take_while(|(one, other)| one == other).count();
    let (found, wanted) = (found.get(..found.len() - end).unwrap_or(&[]), wanted.get(..wanted.len() - end).unwrap_or(&[]));
    if found.is_empty() && wanted.is_empty() {
        return Vec::new();
    }
    if found.len() > ALIGNED || wanted.len() > ALIGNED {
        return vec![Run { at: start, found, wanted }];
    }
    let mut runs = Vec::new();
    let (mut in_found, mut in_wanted) = (0, 0);
    for (one, other) in aligned(found, wanted).into_iter().chain([(found.len(), wanted.len())]) {
        let run = Run {
            at: start + in_wanted,
            found: found.get(in_found..one).unwrap_or(&[]),
            wanted: wanted.get(in_wanted..other).unwrap_or(&[]),
        };
        if !run.found.is_empty() || !run.wanted.is_empty() {
            runs.push(run);
        }
        (in_found, in_wanted) = (one + 1, other + 1);
    }
    runs
}

/// The places of a longest common list.
fn aligned(found: &[Rule], wanted: &[Rule]) -> Vec<(usize, usize)> {
    let width = wanted.len() + 1;
    let mut longest = vec![0_u32; (found.len() + 1) * width];
    let of = |longest: &[u32], one: usize, other: usize| longest.get(one * width + other).copied().unwrap_or(0);
    for (one, rule) in found.iter().enumerate().rev() {
        for (other, against) in wanted.iter().enumerate().rev() {
            let length = match rule == against {
                true => of(&longest, one + 1, other + 1) + 1,
                false => of(&longest, one + 1, other).max(of(&longest, one, other + 1)),
            };
            longest.get_mut(one * width + other).into_iter().for_each(|it| *it = length);
        }
    }
    let (mut one, mut other, mut common) = (0, 0, Vec::new());
    while let (Some(rule), Some(against)) = (found.get(one), wanted.get(other)) {
        if rule == against {
            common.push((one, other));
            (one, other) = (one + 1, other + 1);
        } else if of(&longest, one + 1, other) >= of(&longest, one, other + 1) {
            one += 1;
        } else {
            other += 1;
        }
    }
    common
}

fn compare_maps(table: Table, found: &Ruleset, wanted: &Ruleset, out: &mut Vec<Difference>) {
    let names: BTreeSet<&String> = found.maps().map(|(name, _)| name).chain(wanted.maps().map(|(name, _)| name)).collect();
    for name in names {
        let object = Object::Map(name.clone());
        match (found.map(name), wanted.map(name)) {
            (None, Some(wanted)) => {
                let wanted = Some(filled(wanted));
                out.push(Difference { wanted, ..Difference::of(table, DifferenceKind::MapMissing, object) });
            }
            (Some(found), None) => {
                let found = Some(filled(found));
                out.push(Difference { found, ..Difference::of(table, DifferenceKind::MapAdded, object) });
            }
            (Some(found), Some(wanted)) if found.kind() != wanted.kind() => {
                let (found, wanted) = (Some(found.kind().to_string()), Some(wanted.kind().to_string()));
                out.push(Difference { wanted, found, ..Difference::of(table, DifferenceKind::MapKind, object) });
            }
            (Some(found), Some(wanted)) => compare_elements((table, name), &elements(found), &elements(wanted), out),
            (None, None) => {}
        }
    }
}

/// `a map of numbers to chains with 3 elements`.
fn filled(map: MapRef<'_>) -> String {
    let noun = if map.len() == 1 { "element" } else { "elements" };
    format!("{} with {} {noun}", map.kind(), map.len())
}

fn compare_elements(
    (table, map): (Table, &str),
    found: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
    out: &mut Vec<Difference>,
) {
    let mut push = |kind, element: &String, wanted: Option<&String>, found: Option<&String>| {
        let difference = Difference::of(table, kind, Object::Elements(map.to_owned()));
        out.push(Difference { element: Some(element.clone()), wanted: wanted.cloned(), found: found.cloned(), ..difference });
    };
    for (key, value) in wanted {
        match found.get(key) {
            None => push(DifferenceKind::ElementMissing, key, Some(value), None),
            Some(other) if other != value => push(DifferenceKind::ElementChanged, key, Some(value), Some(other)),
            Some(_) => {}
        }
    }
    for (key, value) in found {
        if !wanted.contains_key(key) {
            push(DifferenceKind::ElementAdded, key, None, Some(value));
        }
    }
}

/// Elements as `nft` prints them: key and what it leads to.
fn elements(map: MapRef<'_>) -> BTreeMap<String, String> {
    let member = |it: String| (it, "in the set".to_owned());
    match map {
        MapRef::Data(map) => map.elements.iter().map(|(address, number)| (address.to_string(), render::number(*number))).collect(),
        MapRef::Interval(map) => {
            map.elements.iter().map(|(first, (last, number))| (format!("{first}-{last}"), render::number(*number))).collect()
        }
        MapRef::Verdict(map) => map.elements.iter().map(|(number, chain)| (render::number(*number), format!("goto {chain}"))).collect(),
        MapRef::Sources(set) => set.elements.iter().map(|(link, address)| member(joined(&format!("\"{link}\""), address))).collect(),
        MapRef::Pairs(set) => set.elements.iter().map(|(source, destination)| member(joined(source, destination))).collect(),
        MapRef::Addresses(set) => set.elements.iter().map(|it| member(it.to_string())).collect(),
        MapRef::Tuples(map) => map.elements.iter().map(|(tuple, chain)| (tuple.to_string(), format!("goto {chain}"))).collect(),
    }
}

fn joined(one: &impl Display, other: &impl Display) -> String {
    format!("{one} . {other}")
}
