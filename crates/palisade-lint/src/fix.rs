//! Repairs that change no verdict: entries and rules that say nothing are taken out of the text, and nothing else is touched.
//!
//! What was changed is read again and must mean exactly what it meant before without these entries. What cannot be cut out cleanly stays.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_api::tree::Step;
use palisade_k8s::{FieldPath, Index, ObjectKey, Sources, Text};
use palisade_model::{Direction, Model, Peer, PeerSet, Policy, PortSet, Severity};
use palisade_report::unified_diff;

use crate::finding::Finding;

/// A text that was repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Its name.
    pub file: Arc<str>,
    /// What it was.
    pub before: Arc<str>,
    /// What it is now.
    pub after: String,
    /// How many entries went.
    pub removed: usize,
    /// The difference, as `patch` takes it.
    pub diff: String,
}

/// Why nothing was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfixed {
    /// Read again, the texts would not mean what they should.
    Differs,
}

impl std::fmt::Display for Unfixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfixed::Differs => f.write_str("the repaired text would not mean the same, so nothing was changed"),
        }
    }
}

impl std::error::Error for Unfixed {}

/// Something to take out.
#[derive(Clone, Debug)]
struct Cut {
    object: ObjectKey,
    path: FieldPath,
    start: usize,
    end: usize,
}

/// Takes out what findings call superfluous, text by text. Findings that it could not take out are not among the cuts that are counted.
pub fn fix(index: &Index, findings: &[Finding]) -> Result<Vec<Fixed>, Unfixed> {
    let mut cuts: BTreeMap<Arc<str>, (Arc<str>, Vec<Cut>)> = BTreeMap::new();
    for finding in findings {
        let Some(path) = &finding.superfluous else { continue };
        let Some(excerpt) = index.sources().whole(&finding.at.object, path) else { continue };
        let cut = Cut { object: finding.at.object.clone(), path: path.clone(), start: excerpt.start, end: excerpt.end };
        cuts.entry(excerpt.location.file).or_insert((excerpt.content, Vec::new())).1.push(cut);
    }
    let mut expected = index.snapshot().model;
    let mut fixed = Vec::new();
    for (file, (before, mut cuts)) in cuts {
        // From the end, so that what is before keeps its place; what is inside of another goes with it.
        cuts.sort_by(|a, b| b.start.cmp(&a.start).then(a.end.cmp(&b.end)));
        cuts.dedup_by(|a, b| a.object == b.object && a.path == b.path);
        let outer: Vec<Cut> = cuts.iter().filter(|it| !cuts.iter().any(|other| is_inside(it, other))).cloned().collect();
        let mut lines: Vec<Cow<'_, str>> = before.split_inclusive('\n').map(Cow::Borrowed).collect();
        let mut removed = 0;
        for cut in &outer {
            if take_out(&before, &mut lines, cut) && forget(&mut expected, cut) {
                removed += 1;
            }
        }
        let after = lines.concat();
        if removed > 0 {
            let name = file.trim_start_matches('/');
            let diff = unified_diff((&format!("a/{name}"), &before), (&format!("b/{name}"), &after));
            fixed.push(Fixed { file, before, after, removed, diff });
        }
    }
    verify(index, &expected, &fixed)?;
    Ok(fixed)
}

/// What `fix` does with a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Nothing: no entry can go, or it came from no text.
    Nothing,
    /// It takes the entry out.
    TakesOut,
    /// It leaves the entry, for how it is written.
    Leaves { why: &'static str },
}

/// What `fix` does with a finding, as far as the text around the entry tells.
pub(crate) fn repair(sources: &Sources, finding: &Finding) -> Repair {
    let Some(excerpt) = finding.superfluous.as_ref().and_then(|path| sources.whole(&finding.at.object, path)) else {
        return Repair::Nothing;
    };
    let text = &excerpt.content;
    let before = text.get(..excerpt.start).unwrap_or_default();
    let lead = before.rsplit('\n').next().unwrap_or_default();
    let body = text.get(excerpt.start..excerpt.end).unwrap_or_default().trim_end();
    let behind = text.get(excerpt.start + body.len()..).and_then(|it| it.lines().next()).unwrap_or_default();
    let has_comma = lead.trim_end().ends_with(',') || behind.trim_start().starts_with(',');
    match is_block(lead) || (has_comma && !body.contains('\n')) {
        true => Repair::TakesOut,
        false if text.trim_start().starts_with(['{', '[']) => Repair::Leaves { why: "JSON over several lines is not edited" },
        false => Repair::Leaves { why: "the entry does not stand alone behind a dash, or in brackets on one line" },
    }
}

/// Whether what stands before an item makes it one of a list with dashes.
fn is_block(lead: &str) -> bool {
    lead.trim_start().strip_prefix('-').is_some_and(|rest| !rest.is_empty() && rest.trim().is_empty())
}

fn is_inside(inner: &Cut, outer: &Cut) -> bool {
    let prefix = outer.path.0.len() < inner.path.0.len() && inner.path.0.starts_with(&outer.path.0);
    inner.object == outer.object && prefix
}

fn verify(index: &Index, expected: &Model, fixed: &[Fixed]) -> Result<(), Unfixed> {
    let texts: Vec<Text> = fixed.iter().map(|it| Text { file: it.file.clone(), content: it.after.as_str().into() }).collect();
    let again = index.with_texts(&texts).snapshot();
    let refused = again.diagnostics.iter().any(|it| it.severity == Severity::Error);
    if refused || again.model != *expected { Err(Unfixed::Differs) } else { Ok(()) }
}

/// Takes an item out of its list. False if it does not stand there as an item of its own.
fn take_out(text: &str, lines: &mut [Cow<'_, str>], cut: &Cut) -> bool {
    let Some(first) = text.get(..cut.start).map(|it| it.matches('\n').count()) else { return false };
    let line_start = text.get(..cut.start).and_then(|it| it.rfind('\n')).map_or(0, |at| at + 1);
    let (Some(lead), Some(body)) = (text.get(line_start..cut.start), text.get(cut.start..cut.end)) else { return false };
    if !is_block(lead) {
        return take_out_of_brackets(lines, first, cut.start - line_start, body);
    }
    // Comments behind the item speak of what comes next.
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let count = body.lines().enumerate().filter(|(_, line)| is_content(line)).map(|(at, _)| at + 1).last().unwrap_or(1);
    let Some(of_item) = lines.get_mut(first..first + count) else { return false };
    for line in of_item {
        *line = Cow::Borrowed("");
    }
    true
}

/// An item of `[a, b]` goes with one comma.
fn take_out_of_brackets(lines: &mut [Cow<'_, str>], at: usize, column: usize, body: &str) -> bool {
    let body = body.trim_end();
    let Some(line) = lines.get_mut(at) else { return false };
    // Cuts come from the end, so that what is before the column is as it was.
    let (Some(before), Some(rest)) = (line.get(..column), line.get(column..).and_then(|it| it.strip_prefix(body))) else {
        return false;
    };
    let after = match (before.trim_end().strip_suffix(','), rest.trim_start().strip_prefix(',')) {
        _ if body.contains('\n') => return false,
        (_, Some(rest)) => format!("{before}{}", rest.trim_start()),
        (Some(before), None) => format!("{before}{rest}"),
        (None, None) => return false,
    };
    *line = Cow::Owned(after);
    true
}

/// Takes the same item out of the model. False if it is not there.
fn forget(model: &mut Model, cut: &Cut) -> bool {
    let Some(policy) = model.policies.iter_mut().find(|it| ObjectKey::from(&it.origin) == cut.object) else { return false };
    let fields: Vec<&str> =
        cut.path.0.iter().filter_map(|it| if let Step::Field(name) = it { Some(name.as_ref()) } else { None }).collect();
    let places: Vec<usize> = cut.path.0.iter().filter_map(|it| if let Step::Index(at) = it { Some(*at) } else { None }).collect();
    let direction = match fields.get(1) {
        Some(&"ingress") => Direction::Ingress,
        Some(&"egress") => Direction::Egress,
        Some(_) | None => return false,
    };
    match places.as_slice() {
        [rule] => forget_rule(policy, direction, *rule),
        [rule, entry] => forget_entry(policy, direction, *rule, fields.last().copied().unwrap_or_default(), *entry),
        [rule, entry, except] => forget_except(policy, direction, *rule, *entry, *except),
        _ => false,
    }
}

fn forget_rule(policy: &mut Policy, direction: Direction, index: usize) -> bool {
    let rules = policy.rules.of_mut(direction);
    let known = rules.len();
    rules.retain(|it| it.index != index);
    for (at, rule) in rules.iter_mut().enumerate() {
        rule.index = at;
    }
    rules.len() < known
}

fn forget_entry(policy: &mut Policy, direction: Direction, rule: usize, list: &str, at: usize) -> bool {
    let Some(rule) = policy.rules.of_mut(direction).iter_mut().find(|it| it.index == rule) else { return false };
    match (list, &mut rule.peers, &mut rule.ports) {
        ("from" | "to", PeerSet::Of(peers), _) => remove(peers, at),
        ("ports" | "protocols", _, PortSet::Of(ports)) => remove(ports, at),
        _ => false,
    }
}

fn forget_except(policy: &mut Policy, direction: Direction, rule: usize, entry: usize, at: usize) -> bool {
    let Some(rule) = policy.rules.of_mut(direction).iter_mut().find(|it| it.index == rule) else { return false };
    let PeerSet::Of(peers) = &mut rule.peers else { return false };
    match peers.get_mut(entry) {
        Some(Peer::Networks(blocks)) => blocks.first_mut().is_some_and(|it| remove(&mut it.except, at)),
        Some(Peer::Pods { .. } | Peer::Relative(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable) | None => false,
    }
}

fn remove<T>(list: &mut Vec<T>, at: usize) -> bool {
    let there = at < list.len();
    if there {
        list.remove(at);
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{index, np};
    use crate::{Choice, lint};

    fn fixed(text: &str) -> Vec<Fixed> {
        let index = index(text);
        fix(&index, &lint(&index, &Choice::default()).findings).unwrap()
    }

    #[test]
    fn a_block_goes_with_its_lines_and_comments_stay() {
        let text = np("  podSelector: {}
  ingress:
  # everybody here
  - from:
    - podSelector: {}
  # the api
  - from:
    - podSelector:
        matchLabels: {app: api}

  # last
  - from:
    - namespaceSelector: {}
      podSelector: {matchLabels: {app: web}}");
        let fixed = fixed(&text);
        let after = text.replace("  - from:\n    - podSelector:\n        matchLabels: {app: api}\n", "");
        assert_eq!(fixed.iter().map(|it| it.after.as_str()).collect::<Vec<_>>(), [after]);
        let diff = fixed[0].diff.lines().skip(2).collect::<Vec<_>>();
        assert_eq!(
            diff,
            [
                "@@ -8,9 +8,6 @@",
                "   - from:",
                "     - podSelector: {}",
                "   # the api",
                "-  - from:",
                "-    - podSelector:",
                "-        matchLabels: {app: api}",
                " ",
                "   # last",
                "   - from:"
            ]
        );
    }

    #[test]
    fn an_item_in_brackets_goes_with_its_comma() {
        let text = np("  podSelector: {}\n  ingress:\n  - ports: [{port: 80}, {port: 81}, {port: 80}, {port: 81, protocol: TCP}]");
        assert_eq!(fixed(&text)[0].after, np("  podSelector: {}\n  ingress:\n  - ports: [{port: 80}, {port: 81}]"));
        let text = np("  podSelector: {}\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: a}}}, {podSelector: {}}]");
        assert_eq!(fixed(&text)[0].after, np("  podSelector: {}\n  ingress:\n  - from: [{podSelector: {}}]"));
    }

    #[test]
    fn what_is_inside_of_what_goes_goes_with_it() {
        let text = np("  podSelector: {}
  ingress:
  - from:
    - podSelector: {}
  - from:
    - podSelector: {matchLabels: {app: a}}
    - podSelector: {matchLabels: {app: a}}");
        assert_eq!(fixed(&text)[0].after, np("  podSelector: {}\n  ingress:\n  - from:\n    - podSelector: {}"));
    }

    #[test]
    fn what_cannot_be_cut_out_stays() {
        let text = np("  podSelector: {}\n  ingress:\n  - ports: [{port: 80},\n      {port: 80,\n       protocol: TCP}]");
        assert_eq!(fixed(&text), []);
    }

    #[test]
    fn an_item_with_an_anchor_stays() {
        let text = np(
            "  podSelector: {}\n  ingress:\n  - &narrow\n    from: [{podSelector: {matchLabels: {app: a}}}]\n  - from: [{podSelector: {}}]",
        );
        assert_eq!(fixed(&text), []);
    }

    #[test]
    fn what_would_mean_something_else_is_refused() {
        let index = index(&np("  podSelector: {}"));
        let mut expected = index.snapshot().model;
        assert_eq!(verify(&index, &expected, &[]), Ok(()));
        expected.policies.clear();
        assert_eq!(verify(&index, &expected, &[]), Err(Unfixed::Differs));
    }

    #[test]
    fn what_is_left_for_how_it_is_written_is_not_called_fixable() {
        let json = |between: &str| {
            let ports = format!("[{{\"port\": 80}},{between}{{\"port\": 80, \"protocol\": \"TCP\"}}]");
            let spec = format!("{{\"podSelector\": {{}}, \"ingress\": [{{\"ports\": {ports}}}]}}");
            let head = "\"apiVersion\": \"networking.k8s.io/v1\", \"kind\": \"NetworkPolicy\"";
            format!("{{{head}, \"metadata\": {{\"namespace\": \"shop\", \"name\": \"p\"}}, \"spec\": {spec}}}")
        };
        let dashes = np("  podSelector: {}\n  ingress:\n  - ports:\n    - {port: 80}\n    - {port: 80}");
        let brackets = np("  podSelector: {}\n  ingress:\n  - ports: [{port: 80},\n      {port: 80,\n       protocol: TCP}]");
        for (text, is_fixable) in [(json(" "), true), (json("\n"), false), (dashes, true), (brackets, false)] {
            let index = index(&text);
            let lints = lint(&index, &Choice::of(&["duplicate-entry".to_owned()], &[]).unwrap());
            let report = crate::reported(&lints, index.sources());
            let [finding] = report.findings.as_slice() else { panic!("{text}: {report:?}") };
            assert_eq!((finding.fixable, finding.help.is_none()), (is_fixable, is_fixable), "{text}");
            assert_eq!(fix(&index, &lints.findings).unwrap().is_empty(), !is_fixable, "{text}");
        }
    }
}
