//! Policies whose peers are relative to the subject, for shapes that cannot say so: one part for the subjects with each value.

use std::collections::BTreeMap;

use palisade_engine::without_relations;
use palisade_model::{
    Endpoint, LabelSelector, Labels, Model, NamespaceSet, Operator, Peer, PeerSet, PodName, Policy, PolicyRef, Readiness, RelativePods,
    RelativeSelector, Requirement, Running, Subject,
};

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
    let relative: Vec<&Policy> = policies.iter().copied().filter(|it| relations(it).any(|it| !form.says(it))).collect();
    let mut parts: BTreeMap<PolicyRef, Vec<Policy>> = relative.iter().map(|it| (it.origin.clone(), Vec::new())).collect();
    for part in plain(model, relative) {
        parts.entry(part.origin.clone()).or_default().push(part);
    }
    let pieces = |policy: &'p Policy| match parts.remove(&policy.origin) {
        Some(parts) => (policy, Pieces::ByValue(named(policy, parts))),
        None => (policy, Pieces::Whole),
    };
    policies.iter().copied().map(pieces).collect()
}

/// The peers of a policy that are relative to its subject.
pub(super) fn relations(policy: &Policy) -> impl Iterator<Item = &RelativePods> {
    let rules = policy.rules.egress.iter().chain(&policy.rules.ingress);
    let peers = rules.flat_map(|rule| match &rule.peers {
        PeerSet::Of(peers) => peers.as_slice(),
        PeerSet::Any | PeerSet::AnyButOwnNode => &[],
    });
    peers.filter_map(|peer| match peer {
        Peer::Relative(relative) => Some(relative),
        Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    })
}

/// Whether labels of pods are compared.
pub(super) fn compares_pods(policy: &Policy) -> bool {
    relations(policy).any(|it| match it.pods {
        RelativeSelector::Matching(_) => false,
        RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => true,
    })
}

/// Policies without relations, in their order. If only namespaces are compared, those without pods count too.
pub(super) fn plain<'p>(model: &Model, policies: impl IntoIterator<Item = &'p Policy>) -> Vec<Policy> {
    let there = model.endpoints.slot_count();
    let mut asked: Option<Model> = None;
    let mut found = Vec::new();
    for policy in policies {
        if relations(policy).next().is_none() {
            found.push(policy.clone());
            continue;
        }
        let asked = asked.get_or_insert_with(|| model.clone());
        asked.endpoints.truncate(there);
        asked.endpoints.extend(possible(model, policy));
        asked.policies = vec![policy.clone()].into();
        found.extend(without_relations(asked).iter().cloned());
    }
    found
}

/// A subject in each namespace that could have one.
fn possible(model: &Model, policy: &Policy) -> Vec<Endpoint> {
    let Subject::Pods { pods, .. } = &policy.subject else { return Vec::new() };
    let labels = meeting(pods);
    if compares_pods(policy) || !pods.matches(&labels) {
        return Vec::new();
    }
    let namespaces = model.namespaces.keys().filter(|it| speaks_in(model, policy, it));
    let endpoint = |namespace: &str| Endpoint {
        attachment: None,
        name: PodName { namespace: namespace.into(), name: Box::default() },
        labels: labels.clone(),
        addresses: Vec::new(),
        node: None,
        ports: Vec::new(),
        owners: Vec::new(),
        readiness: Readiness::Ready,
        running: Running::NotSaid,
    };
    namespaces.map(|it| endpoint(it)).collect()
}

/// Labels that meet a selector, if any do.
fn meeting(selector: &LabelSelector) -> Labels {
    let label = |it: &Requirement| match &it.operator {
        Operator::Equals(value) => Some((it.key.clone(), value.clone())),
        Operator::In(values) => values.first().map(|value| (it.key.clone(), value.clone())),
        Operator::Exists => Some((it.key.clone(), Box::default())),
        Operator::NotIn(_) | Operator::DoesNotExist => None,
    };
    let mut labels = Labels::default();
    // What a key has to be is said over that it has to be there.
    let (exists, others): (Vec<&Requirement>, Vec<&Requirement>) =
        selector.requirements.iter().partition(|it| it.operator == Operator::Exists);
    for (key, value) in exists.into_iter().chain(others).filter_map(label) {
        labels.set(&key, &value);
    }
    labels
}

/// Whether pods of a namespace could be subjects.
pub(super) fn speaks_in(model: &Model, policy: &Policy, namespace: &str) -> bool {
    match &policy.subject {
        Subject::Pods { namespaces: NamespaceSet::Own(name), .. } => **name == *namespace,
        Subject::Pods { namespaces: NamespaceSet::Matching(selector), .. } => selector.matches(model.namespace_labels(namespace)),
        Subject::Unknown => false,
    }
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
