//! A difference in the forms that others read: JSON, csv, Markdown.

use std::collections::HashMap;

use palisade_analysis::diff::{Because, Between, Change, Diff, Group, Part, Presence, Verb};
use palisade_engine::{PortSetId, PortSets};
use palisade_k8s::{ObjectKey, Sources};
use palisade_model::{Direction, PolicyRef, Reason, RuleRef, Verdict};

use crate::crowd::{Everyone, Extent};
use crate::explained::{reason, verdict};
use crate::locate::{mark, rule_path};
use crate::matrix::{csv_field, traffic, words as ports};
use crate::text::diagnostics;
use crate::v1::{
    API_VERSION, DiffBecause, DiffCause, DiffChange, DiffDiagnostic, DiffEnds, DiffVerb, DiffWithin, DiffWorkload, MatrixTraffic, Place,
    Policy,
};
use crate::{v1, words};

/// What is written before the rows.
pub const CSV_HEAD: &str = "change,src,dst,conn,before,after\n";
/// What is written before the rows.
const MARKDOWN_HEAD: &str = "| change | from | to | connections | before | after |\n|---|---|---|---|---|---|\n";

/// Writes down what differs, with the places of the policies in both versions.
pub fn differed(diff: &Diff, old: &Sources, new: &Sources, diagnostics: Vec<DiffDiagnostic>, qualifications: Vec<String>) -> v1::Diff {
    let everyone = Everyone::of(diff);
    let (mut old, mut new) = (Places::of(old), Places::of(new));
    let named = |presence| diff.units.iter().filter(|it| it.presence == presence).map(|it| it.name.clone()).collect();
    let change = |it: &Change| DiffChange {
        change: verb(it.verb),
        from: ends(diff, &everyone, &it.from, &it.to, it.verb),
        to: ends(diff, &everyone, &it.to, &it.from, it.verb),
        within: match it.between {
            Between::Any => DiffWithin::Any,
            Between::SameNamespace => DiffWithin::SameNamespace,
            Between::OtherNamespaces => DiffWithin::OtherNamespaces,
        },
        family: it.family.map(|it| it.to_string()),
        connections: connections(&diff.sets, it),
        opened: parts(&diff.sets, it.opened),
        opened_depending_on_dns: parts(&diff.sets, it.opened_by_name),
        closed: parts(&diff.sets, it.closed),
        closed_depending_on_dns: parts(&diff.sets, it.closed_but_by_name),
        because: it.because.iter().map(|it| because(&mut old, &mut new, it)).collect(),
    };
    v1::Diff {
        api_version: API_VERSION.to_owned(),
        kind: "Diff".to_owned(),
        qualifications,
        new_workloads: named(Presence::New),
        removed_workloads: named(Presence::Gone),
        changes: diff.changes.iter().map(change).collect(),
        diagnostics,
    }
}

fn verb(it: Verb) -> DiffVerb {
    match it {
        Verb::Opened => DiffVerb::Opened,
        Verb::Changed => DiffVerb::Changed,
        Verb::Closed => DiffVerb::Closed,
        Verb::Added => DiffVerb::Added,
        Verb::Removed => DiffVerb::Removed,
    }
}

fn ends(diff: &Diff, everyone: &Everyone<'_>, group: &Group, opposite: &Group, verb: Verb) -> DiffEnds {
    let units = group.units.iter().filter_map(|it| diff.units.get(it.unit).map(|unit| (unit, it.part)));
    let workloads = units.map(|(unit, part)| DiffWorkload {
        name: unit.name.clone(),
        namespace: unit.namespace.clone(),
        only_some_pods: part == Part::SomePods,
    });
    DiffEnds {
        name: everyone.said(group, opposite, verb, Extent::Short),
        workloads: workloads.collect(),
        addresses: group.ranges.iter().map(|(first, last)| [first.to_string(), last.to_string()]).collect(),
    }
}

fn parts(sets: &PortSets, set: PortSetId) -> Vec<MatrixTraffic> {
    sets.parts(set).iter().map(traffic).collect()
}

/// `TCP 80`; `opened TCP 80; closed TCP 81`; what depends on a domain name is told apart.
fn connections(sets: &PortSets, change: &Change) -> String {
    let said = |sure: PortSetId, by_name: PortSetId| {
        let by_name = (by_name != PortSetId::NONE).then(|| format!("depends on DNS: {}", ports(&sets.parts(by_name))));
        (sure != PortSetId::NONE).then(|| ports(&sets.parts(sure))).into_iter().chain(by_name).collect::<Vec<_>>().join("; ")
    };
    let (opened, closed) = (said(change.opened, change.opened_by_name), said(change.closed, change.closed_but_by_name));
    match (opened.is_empty(), closed.is_empty()) {
        (false, false) => format!("opened {opened}; closed {closed}"),
        (_, true) => opened,
        (true, false) => closed,
    }
}

/// Where policies and rules stand, each looked up once.
struct Places<'s> {
    sources: &'s Sources,
    rules: HashMap<RuleRef, Option<Place>>,
}

impl<'s> Places<'s> {
    fn of(sources: &'s Sources) -> Places<'s> {
        Places { sources, rules: HashMap::new() }
    }

    fn rule(&mut self, rule: &RuleRef) -> Option<Place> {
        let sources = self.sources;
        self.rules.entry(rule.clone()).or_insert_with(|| mark(sources, rule, &[rule_path(rule)], String::new()).map(|it| it.place)).clone()
    }

    fn policy(&self, it: &PolicyRef) -> Policy {
        Policy {
            shape: None,
            priority: None,
            kind: it.kind.as_str().to_owned(),
            namespace: it.namespace.as_deref().map(str::to_owned),
            name: it.name.to_string(),
            place: self.sources.location(&ObjectKey::from(it)).as_ref().map(Place::from),
        }
    }

    fn cause(&mut self, direction: Direction, (decided, why): &(Verdict, Reason)) -> DiffCause {
        let (policies, place): (Vec<Policy>, Option<Place>) = match why {
            Reason::Rule(rule) => (vec![self.policy(&rule.policy)], self.rule(rule)),
            Reason::Isolated(policies) => {
                let policies: Vec<Policy> = policies.iter().map(|it| self.policy(it)).collect();
                let place = policies.first().and_then(|it| it.place.clone());
                (policies, place)
            }
            Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Default => (Vec::new(), None),
        };
        let sentence = match why {
            Reason::Isolated(policies) => format!("isolated by {}", policies.iter().map(words::policy).collect::<Vec<_>>().join(", ")),
            Reason::Default => "no policy decides".to_owned(),
            Reason::NotAPod | Reason::Itself | Reason::OwnNode | Reason::Rule(_) => reason(why, direction),
        };
        DiffCause { verdict: verdict(*decided), reason: why.to_string(), sentence, policies, place }
    }
}

fn because(old: &mut Places<'_>, new: &mut Places<'_>, it: &Because) -> DiffBecause {
    DiffBecause {
        direction: it.direction.to_string(),
        before: it.before.as_ref().map(|cause| old.cause(it.direction, cause)),
        after: it.after.as_ref().map(|cause| new.cause(it.direction, cause)),
    }
}

pub(crate) fn verb_said(it: DiffVerb) -> &'static str {
    match it {
        DiffVerb::Opened => "opened",
        DiffVerb::Changed => "changed",
        DiffVerb::Closed => "closed",
        DiffVerb::Added => "added",
        DiffVerb::Removed => "removed",
    }
}

/// What a change is about, in words, with its family.
pub(crate) fn connections_said(it: &DiffChange) -> String {
    it.family.as_ref().map_or_else(|| it.connections.clone(), |family| format!("{} ({family})", it.connections))
}

/// Which of the pairs, in words; nothing if all.
pub(crate) fn within_said(it: DiffWithin) -> &'static str {
    match it {
        DiffWithin::Any => "",
        DiffWithin::SameNamespace => ", each within its namespace",
        DiffWithin::OtherNamespaces => ", each in other namespaces",
    }
}

/// What was responsible on one side, in words.
fn causes(it: &DiffChange, side: impl Fn(&DiffBecause) -> Option<&DiffCause>, extent: Extent) -> String {
    let mut said: Vec<String> = Vec::new();
    for because in &it.because {
        if let Some(cause) = side(because) {
            let text = format!("{}: {}", because.direction, cause.sentence);
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }
    let more = said.len().saturating_sub(CAUSES);
    if extent == Extent::Short && more > 0 {
        said.truncate(CAUSES);
        said.push(format!("and {more} more"));
    }
    said.join("; ")
}

/// How many causes are said where not all are wanted.
pub(crate) const CAUSES: usize = 3;

/// Diagnostics under the version that they are about.
pub fn diagnostics_text(all: &[DiffDiagnostic]) -> String {
    let mut out = String::new();
    for (version, title) in [(v1::DiffVersion::Old, "old version:\n"), (v1::DiffVersion::New, "new version:\n")] {
        let of: Vec<v1::Diagnostic> = all.iter().filter(|it| it.version == version).map(|it| it.diagnostic.clone()).collect();
        if !of.is_empty() {
            out.push_str(title);
            out.push_str(&diagnostics(&of));
        }
    }
    out
}

/// All changes as csv, by RFC 4180.
pub fn csv(diff: &Diff, report: &v1::Diff) -> String {
    let everyone = Everyone::of(diff);
    let mut out = String::from(CSV_HEAD);
    for (change, it) in diff.changes.iter().zip(&report.changes) {
        let to = format!("{}{}", everyone.said(&change.to, &change.from, change.verb, Extent::Whole), within_said(it.within));
        let fields = [
            verb_said(it.change).to_owned(),
            everyone.said(&change.from, &change.to, change.verb, Extent::Whole),
            to,
            connections_said(it),
            causes(it, |it| it.before.as_ref(), Extent::Whole),
            causes(it, |it| it.after.as_ref(), Extent::Whole),
        ];
        for (at, field) in fields.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            csv_field(&mut out, field);
        }
        out.push('\n');
    }
    out
}

/// All changes as a table of Markdown.
pub fn markdown(report: &v1::Diff) -> String {
    if report.changes.is_empty() {
        return "No connection changes.\n".to_owned();
    }
    let cell = |text: &str| text.replace('|', "\\|").replace('*', "\\*");
    let mut out = String::from(MARKDOWN_HEAD);
    for it in &report.changes {
        let (before, after) = (causes(it, |it| it.before.as_ref(), Extent::Short), causes(it, |it| it.after.as_ref(), Extent::Short));
        let to = format!("{}{}", it.to.name, within_said(it.within));
        let cells = [verb_said(it.change), &it.from.name, &to, &connections_said(it), &before, &after].map(cell);
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}
