//! Policies whose peers are relative to the subject, for shapes that cannot say so: one part for the subjects with each value.

use std::collections::BTreeMap;

use palisade_engine::without_relations;
use palisade_model::{LabelSelector, Model, NamespaceSet, Operator, Peer, PeerSet, Policy, PolicyRef, Requirement, Subject};

use super::form::Form;

/// A policy in as many pieces as it takes.
#[derive(Debug)]
pub(super) enum Pieces {
    Whole,
    /// Each with the end of its name. No peer of them is relative.
    ByValue(Vec<(String, Policy)>),
}

/// The policies, each with the pieces without the relations that the form cannot say.
pub(super) fn without_unsayable_relations<'p>(model: &Model, form: &Form, policies: &[&'p Policy]) -> Vec<(&'p Policy, Pieces)> {
    let relative: Vec<Policy> = policies.iter().filter(|it| has_unsayable(form, it)).map(|it| (*it).clone()).collect();
    let mut parts: BTreeMap<PolicyRef, Vec<Policy>> = relative.iter().map(|it| (it.origin.clone(), Vec::new())).collect();
    if !relative.is_empty() {
        let model = Model { policies: relative, ..model.clone() };
        for part in without_relations(&model).iter() {
            parts.entry(part.origin.clone()).or_default().push(part.clone());
        }
    }
    let pieces = |policy: &'p Policy| match parts.remove(&policy.origin) {
        Some(parts) => (policy, Pieces::ByValue(named(policy, parts))),
        None => (policy, Pieces::Whole),
    };
    policies.iter().copied().map(pieces).collect()
}

fn has_unsayable(form: &Form, policy: &Policy) -> bool {
    let rules = policy.rules.egress.iter().chain(&policy.rules.ingress);
    rules.into_iter().any(|rule| match &rule.peers {
        PeerSet::Any | PeerSet::AnyButOwnNode => false,
        PeerSet::Of(peers) => peers.iter().any(|peer| match peer {
            Peer::Relative(relative) => !form.says(relative),
            Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => false,
        }),
    })
}

/// Parts are named by what tells their subjects apart.
fn named(policy: &Policy, parts: Vec<Policy>) -> Vec<(String, Policy)> {
    let mut named: Vec<(String, Policy)> = parts.into_iter().map(|part| (slug(&values(policy, &part).join("-")), part)).collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<String> = named.iter().map(|it| it.0.clone()).collect();
    for (at, (name, _)) in named.iter_mut().enumerate() {
        let earlier = names.iter().take(at).filter(|it| *it == name).count();
        if earlier > 0 {
            name.push_str(&format!("-{}", earlier + 1));
        }
    }
    named
}

fn values(policy: &Policy, part: &Policy) -> Vec<String> {
    let (Subject::Pods { namespaces: all, pods: all_pods }, Subject::Pods { namespaces, pods }) = (&policy.subject, &part.subject) else {
        return Vec::new();
    };
    let more = |all: &LabelSelector, some: &LabelSelector| -> Vec<String> {
        some.requirements.iter().skip(all.requirements.len()).map(value).collect()
    };
    let mut found = match (all, namespaces) {
        (NamespaceSet::Matching(all), NamespaceSet::Matching(some)) => more(all, some),
        (NamespaceSet::Own(_) | NamespaceSet::Matching(_), NamespaceSet::Own(name)) => vec![name.to_string()],
        (NamespaceSet::Own(_), NamespaceSet::Matching(_)) => Vec::new(),
    };
    found.extend(more(all_pods, pods));
    found
}

fn value(requirement: &Requirement) -> String {
    let key = requirement.key.rsplit('/').next().unwrap_or_default();
    match &requirement.operator {
        Operator::Equals(value) if value.is_empty() => format!("empty-{key}"),
        Operator::Equals(value) => value.to_string(),
        Operator::DoesNotExist => format!("without-{key}"),
        Operator::In(_) | Operator::NotIn(_) | Operator::Exists => key.to_owned(),
    }
}

/// As a part of the name of an object.
pub(super) fn slug(text: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' };
    let plain: String = text.chars().map(plain).take(63).collect();
    plain.trim_matches('-').to_owned()
}
