//! What is worth knowing about peers that are relative to the subject, once the namespaces and pods are known. SPEC: semantics 3.5.

use std::collections::BTreeSet;

use palisade_model::{
    Diagnostic, Direction, Labels, Model, NamespaceSet, Peer, PeerSet, Policy, RelativeNamespaces, RelativeSelector, Severity, Subject,
};

use crate::sources::Sources;
use crate::words::quoted;

/// Whose labels are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Namespaces,
    Pods,
}

/// One comparison, however many peers make it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Comparison<'m> {
    of: Of,
    is: Is,
    keys: &'m [Box<str>],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    Same,
    NotSame,
}

/// Warnings about every comparison that a policy makes: subjects that lack a key, and several keys, of which there are three readings.
pub(crate) fn relations(model: &Model, sources: &Sources) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for policy in &model.policies {
        let key = sources.key_of(&policy.origin);
        for (comparison, path) in comparisons(policy) {
            let warn = |code, message: String, help: &str| Diagnostic {
                severity: Severity::Warning,
                code,
                location: sources.location(&key),
                object: key.to_string().into(),
                path: path.clone().into(),
                message: message.into(),
                help: Some(help.into()),
            };
            found.extend(
                lacking(model, policy, &comparison)
                    .map(|message| warn("subject-lacks-label", message, "label them, or leave them out of the subject")),
            );
            found.extend(readings(model, policy, &comparison).map(|message| warn("several-keys", message, "compare one key")));
        }
    }
    found
}

/// Each comparison once, with the path of the first peer that makes it.
fn comparisons(policy: &Policy) -> Vec<(Comparison<'_>, String)> {
    let mut found: Vec<(Comparison<'_>, String)> = Vec::new();
    for (direction, list) in [(Direction::Ingress, "from"), (Direction::Egress, "to")] {
        for rule in policy.rules.of(direction) {
            let PeerSet::Of(peers) = &rule.peers else { continue };
            for (at, peer) in peers.iter().enumerate() {
                let Peer::Relative(relative) = peer else { continue };
                let namespaces = match &relative.namespaces {
                    RelativeNamespaces::Own | RelativeNamespaces::Others => None,
                    RelativeNamespaces::Labelled(selector) => comparison(Of::Namespaces, selector),
                };
                for comparison in namespaces.into_iter().chain(comparison(Of::Pods, &relative.pods)) {
                    if found.iter().all(|(known, _)| *known != comparison) {
                        found.push((comparison, format!("spec.{direction}[{}].{list}[{at}]", rule.index)));
                    }
                }
            }
        }
    }
    found
}

fn comparison(of: Of, selector: &RelativeSelector) -> Option<Comparison<'_>> {
    match selector {
        RelativeSelector::Matching(_) => None,
        RelativeSelector::Same(keys) => Some(Comparison { of, is: Is::Same, keys }),
        RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => Some(Comparison { of, is: Is::NotSame, keys }),
    }
}

/// The subjects that have nothing to compare.
fn lacking(model: &Model, policy: &Policy, comparison: &Comparison<'_>) -> Option<String> {
    let lacks = |labels: &Labels| comparison.keys.iter().any(|key| labels.get(key).is_none());
    let names: Vec<Box<str>> = subjects(model, policy, comparison.of).filter(|(_, labels)| lacks(labels)).map(|(name, _)| name).collect();
    let keys = quoted(comparison.keys);
    let (who, whose) = match comparison.of {
        Of::Namespaces => ("the pods of ", "whose namespace lacks"),
        Of::Pods => ("", "which lack"),
    };
    (!names.is_empty()).then(|| format!("matches nobody for {who}{}, {whose} a label that is compared ({keys})", quoted(&names)))
}

/// What `notSameLabels` of several keys leaves open, and for whom it matters.
fn readings(model: &Model, policy: &Policy, comparison: &Comparison<'_>) -> Option<String> {
    if comparison.is == Is::Same || comparison.keys.len() < 2 {
        return None;
    }
    let values =
        |labels: &Labels| -> Vec<Option<String>> { comparison.keys.iter().map(|key| labels.get(key).map(str::to_owned)).collect() };
    let own: BTreeSet<Vec<Option<String>>> = subjects(model, policy, comparison.of).map(|(_, labels)| values(labels)).collect();
    let own: Vec<_> = own.into_iter().filter(|it| it.iter().all(Option::is_some)).collect();
    let differs = |labels: &Labels| {
        let other = values(labels);
        own.iter().any(|own| readings_differ(own, &other))
    };
    let names: Vec<Box<str>> = parties(model, comparison.of).filter(|(_, labels)| differs(labels)).map(|(name, _)| name).collect();
    let whom = match names.is_empty() {
        true => "here all of them select the same".to_owned(),
        false => format!("they differ for {}", quoted(&names)),
    };
    Some(format!("notSameLabels of several keys ({}) has been read in three ways; {whom}", quoted(comparison.keys)))
}

/// SPEC: semantics 3.5: no key is the same; all keys are there and some differ; not all are the same.
fn readings_differ(own: &[Option<String>], other: &[Option<String>]) -> bool {
    let same = own.iter().zip(other).filter(|(a, b)| a == b).count();
    let complete = other.iter().all(Option::is_some);
    let none_same = same == 0;
    let not_all_same = same < own.len();
    let some_differ = complete && not_all_same;
    none_same != not_all_same || some_differ != not_all_same
}

/// Those that a policy speaks about, by name.
fn subjects<'m>(model: &'m Model, policy: &'m Policy, of: Of) -> impl Iterator<Item = (Box<str>, &'m Labels)> {
    let selects = move |name: &str, labels: &Labels| match &policy.subject {
        Subject::Pods { namespaces: NamespaceSet::Own(own), .. } => **own == *name,
        Subject::Pods { namespaces: NamespaceSet::Matching(selector), .. } => selector.matches(labels),
        Subject::Unknown => false,
    };
    let selected: BTreeSet<&str> =
        model.namespaces.iter().filter(|(name, it)| selects(name, &it.labels)).map(|(name, _)| name.as_ref()).collect();
    let pods = move |labels: &Labels| match &policy.subject {
        Subject::Pods { pods, .. } => pods.matches(labels),
        Subject::Unknown => false,
    };
    parties(model, of).filter(move |(name, labels)| match of {
        Of::Namespaces => selected.contains(name.as_ref()),
        Of::Pods => name.split_once('/').is_some_and(|(namespace, _)| selected.contains(namespace)) && pods(labels),
    })
}

/// All namespaces or all pods, with their labels.
fn parties(model: &Model, of: Of) -> impl Iterator<Item = (Box<str>, &Labels)> {
    let namespaces = model.namespaces.iter().filter(move |_| of == Of::Namespaces).map(|(name, it)| (name.clone(), &it.labels));
    let pods = model.endpoints.iter().filter(move |_| of == Of::Pods).map(|it| (it.name.to_string().into(), &it.labels));
    namespaces.chain(pods)
}
