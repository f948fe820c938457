//! What is worth knowing about peers that are relative to the subject, once the namespaces and pods are known. SPEC: semantics 3.5.

use std::collections::{BTreeMap, BTreeSet};

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
fn readings<'m>(model: &'m Model, policy: &'m Policy, comparison: &Comparison<'m>) -> Option<String> {
    if comparison.is == Is::Same || comparison.keys.len() < 2 {
        return None;
    }
    let values = |labels: &'m Labels| comparison.keys.iter().map(|key| labels.get(key)).collect::<Option<Vec<&str>>>();
    let own: BTreeSet<Vec<&str>> = subjects(model, policy, comparison.of).filter_map(|(_, labels)| values(labels)).collect();
    let mut sharing: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (key, value) in own.iter().flat_map(|it| it.iter().enumerate()) {
        *sharing.entry((key, *value)).or_default() += 1;
    }
    // SPEC: semantics 3.5: no key is the same; all keys are there and some differ; not all are the same. For who lacks a key the second
    // differs from the third; for who has them all the first differs where some are the same and some are not.
    let differs = |labels: &'m Labels| match values(labels) {
        None => !own.is_empty(),
        Some(values) => {
            let itself = usize::from(own.contains(&values));
            values.iter().enumerate().any(|(key, value)| sharing.get(&(key, *value)).copied().unwrap_or(0) > itself)
        }
    };
    let names: Vec<Box<str>> = parties(model, comparison.of).filter(|(_, labels)| differs(labels)).map(|(name, _)| name).collect();
    let whom = match names.is_empty() {
        true => "here all of them select the same".to_owned(),
        false => format!("they differ for {}", quoted(&names)),
    };
    Some(format!("notSameLabels of several keys ({}) has been read in three ways; {whom}", quoted(comparison.keys)))
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

#[cfg(test)]
mod tests {
    use crate::{Index, Text};

    /// Namespaces by name and labels, and what is said about a policy for those with `team`.
    fn check(namespaces: &[(&str, &str)], peer: &str, said: &[&str]) {
        let object = |(name, labels): &(&str, &str)| {
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{labels}}}}}}}\n---\n")
        };
        let subject = "{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}}";
        let rules = format!("[{{action: Deny, from: [{peer}, {peer}], l4Selector: {{allPorts: true}}}}]");
        let spec = format!("{{priority: 1, subject: {subject}, ingress: {rules}}}");
        let policy =
            format!("{{apiVersion: kep2091.palisade.dev/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: p}}, spec: {spec}}}");
        let mut index = Index::default();
        let content: String = namespaces.iter().map(object).chain([policy]).collect();
        index.read(Text { file: "f".into(), content: content.into() });
        let found: Vec<String> = index.snapshot().diagnostics.iter().map(|it| format!("{}: {}", it.path, it.message)).collect();
        assert_eq!(found, said);
    }

    #[test]
    fn a_subject_that_lacks_a_key_is_named_once() {
        let namespaces = [("a", "team: x"), ("b", "team: x, stage: s"), ("c", "stage: s")];
        check(
            &namespaces,
            "{namespaces: {sameLabels: [team, stage]}}",
            &[
                "spec.ingress[0].from[0]: matches nobody for the pods of `a`, whose namespace lacks a label that is compared (`team`, `stage`)",
            ],
        );
        check(&namespaces, "{namespaces: {sameLabels: [team]}}", &[]);
        check(&namespaces, "{namespaces: {self: true}}", &[]);
    }

    #[test]
    fn several_keys_are_named_with_those_for_whom_it_matters() {
        let several = "spec.ingress[0].from[0]: notSameLabels of several keys (`team`, `stage`) has been read in three ways; ";
        let one = ("a", "team: x, stage: s");
        let peer = "{namespaces: {notSameLabels: [team, stage]}}";
        check(&[one, ("b", "team: z, stage: t")], peer, &[&format!("{several}here all of them select the same")]);
        check(&[one, ("b", "team: x, stage: s")], peer, &[&format!("{several}here all of them select the same")]);
        check(&[one, ("b", "team: z, stage: s"), ("c", "stage: t")], peer, &[&format!("{several}they differ for `a`, `b`, `c`")]);
        check(&[one, ("b", "stage: s"), ("c", "")], peer, &[&format!("{several}they differ for `b`, `c`")]);
    }
}
