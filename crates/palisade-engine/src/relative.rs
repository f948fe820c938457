//! Peers that are described by what they have in common with the subject, worked out for one subject, or for all that look alike to them.

use std::collections::BTreeSet;
use std::fmt;

use palisade_model::{
    Endpoint, LabelSelector, Labels, Model, NamespaceSet, Operator, Peer, PeerSet, PerDirection, Policy, RelativeNamespaces, RelativePods,
    RelativeSelector, Requirement, Rule, SharedList, Subject,
};

use crate::decide::selects;
use crate::trace::Scope;

/// Every namespace has its name as a label.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A subject, as far as relative peers compare with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewpoint<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) of_namespace: &'a Labels,
    pub(crate) labels: &'a Labels,
}

impl<'a> Viewpoint<'a> {
    pub(crate) fn of(model: &'a Model, subject: &'a Endpoint) -> Viewpoint<'a> {
        let namespace = &subject.name.namespace;
        Viewpoint { namespace, of_namespace: model.namespace_labels(namespace), labels: &subject.labels }
    }
}

/// Why nobody can be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nobody {
    /// No key is named.
    NoKey(Scope),
    /// The subject lacks this one.
    Lacks(Scope, Box<str>),
}

/// Whom relative peers mean from one point of view: any of these.
pub(crate) fn seen_from(relative: &RelativePods, from: Viewpoint<'_>) -> Result<Vec<(NamespaceSet, LabelSelector)>, Nobody> {
    let namespaces = match &relative.namespaces {
        RelativeNamespaces::Own => vec![NamespaceSet::Own(from.namespace.into())],
        RelativeNamespaces::Others => {
            let operator = Operator::NotIn(vec![from.namespace.into()]);
            vec![NamespaceSet::Matching(LabelSelector { requirements: vec![Requirement { key: NAME_LABEL.into(), operator }] })]
        }
        RelativeNamespaces::Labelled(selector) => {
            selectors(selector, from.of_namespace, Scope::Namespace)?.into_iter().map(NamespaceSet::Matching).collect()
        }
    };
    let pods = selectors(&relative.pods, from.labels, Scope::Pod)?;
    Ok(namespaces.iter().flat_map(|it| pods.iter().map(|pods| (it.clone(), pods.clone()))).collect())
}

/// Any of these.
fn selectors(selector: &RelativeSelector, own: &Labels, scope: Scope) -> Result<Vec<LabelSelector>, Nobody> {
    let (RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys)) = selector else {
        let RelativeSelector::Matching(selector) = selector else { return Err(Nobody::NoKey(scope)) };
        return Ok(vec![selector.clone()]);
    };
    if keys.is_empty() {
        return Err(Nobody::NoKey(scope));
    }
    let value = |key: &str| own.get(key).map(Box::from).ok_or_else(|| Nobody::Lacks(scope, key.into()));
    let values: Vec<(&str, Box<str>)> = keys.iter().map(|key| Ok((key.as_ref(), value(key)?))).collect::<Result<_, Nobody>>()?;
    let requirement = |key: &str, operator| Requirement { key: key.into(), operator };
    let none = |(key, value): &(&str, Box<str>)| requirement(key, Operator::NotIn(vec![value.clone()]));
    let all = |requirements| LabelSelector { requirements };
    Ok(match selector {
        RelativeSelector::Matching(selector) => vec![selector.clone()],
        RelativeSelector::Same(_) => {
            vec![all(values.iter().map(|(key, value)| requirement(key, Operator::Equals(value.clone()))).collect())]
        }
        RelativeSelector::NoneSame(_) => vec![all(values.iter().map(none).collect())],
        RelativeSelector::SomeDiffer(_) => {
            let present: Vec<Requirement> = keys.iter().map(|key| requirement(key, Operator::Exists)).collect();
            values.iter().map(|it| all(present.iter().cloned().chain([none(it)]).collect())).collect()
        }
    })
}

/// What the relative peers of a policy compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    namespace: bool,
    of_namespace: BTreeSet<Box<str>>,
    of_pod: BTreeSet<Box<str>>,
}

/// What a subject has of that. Subjects with equal values have the same peers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Values {
    namespace: Option<Box<str>>,
    of_namespace: Vec<Option<Box<str>>>,
    of_pod: Vec<Option<Box<str>>>,
}

/// The same for the same values.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.namespace, self.of_namespace, self.of_pod)
    }
}

impl Compared {
    /// None for a policy without relative peers.
    pub fn by(policy: &Policy) -> Option<Compared> {
        let mut compared = None;
        for relative in rules(policy).flat_map(|it| relative_peers(&it.peers)) {
            let compared: &mut Compared = compared.get_or_insert_default();
            match &relative.namespaces {
                RelativeNamespaces::Own | RelativeNamespaces::Others => compared.namespace = true,
                RelativeNamespaces::Labelled(selector) => compared.of_namespace.extend(keys(selector).iter().cloned()),
            }
            compared.of_pod.extend(keys(&relative.pods).iter().cloned());
        }
        compared
    }

    /// What a subject has of it.
    pub fn of(&self, model: &Model, subject: &Endpoint) -> Values {
        self.values(Viewpoint::of(model, subject))
    }

    pub(crate) fn values(&self, from: Viewpoint<'_>) -> Values {
        let of = |keys: &BTreeSet<Box<str>>, labels: &Labels| keys.iter().map(|it| labels.get(it).map(Box::from)).collect();
        Values {
            namespace: self.namespace.then(|| from.namespace.into()),
            of_namespace: of(&self.of_namespace, from.of_namespace),
            of_pod: of(&self.of_pod, from.labels),
        }
    }

    /// The part of a policy that speaks about the subjects with some values: no peer of it is relative.
    pub(crate) fn part(&self, policy: &Policy, values: &Values) -> Policy {
        let mut part = policy.clone();
        let labels = |keys: &BTreeSet<Box<str>>, values: &[Option<Box<str>>]| -> Labels {
            keys.iter().zip(values).filter_map(|(key, value)| Some((key.as_ref(), value.as_deref()?))).collect()
        };
        let (of_namespace, of_pod) = (labels(&self.of_namespace, &values.of_namespace), labels(&self.of_pod, &values.of_pod));
        let from = Viewpoint { namespace: values.namespace.as_deref().unwrap_or_default(), of_namespace: &of_namespace, labels: &of_pod };
        if let Subject::Pods { namespaces, pods } = &mut part.subject {
            match (&values.namespace, &mut *namespaces) {
                // All pods of a namespace are in it by its labels, or none is.
                (Some(name), NamespaceSet::Own(_) | NamespaceSet::Matching(_)) => *namespaces = NamespaceSet::Own(name.clone()),
                (None, NamespaceSet::Matching(selector)) => narrow(selector, &self.of_namespace, &values.of_namespace),
                (None, NamespaceSet::Own(_)) => {}
            }
            narrow(pods, &self.of_pod, &values.of_pod);
        }
        let PerDirection { egress, ingress } = &mut part.rules;
        for rule in egress.iter_mut().chain(ingress) {
            let PeerSet::Of(peers) = &mut rule.peers else { continue };
            *peers = peers.drain(..).flat_map(|peer| plain(peer, from)).collect();
        }
        part
    }
}

/// A peer without relation. One that means nobody stays as one that matches nobody.
fn plain(peer: Peer, from: Viewpoint<'_>) -> Vec<Peer> {
    match peer {
        Peer::Relative(relative) => match seen_from(&relative, from) {
            Ok(meant) => meant.into_iter().map(|(namespaces, pods)| Peer::Pods { namespaces, pods }).collect(),
            Err(_) => vec![Peer::Unreadable],
        },
        Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => vec![peer],
    }
}

fn narrow(selector: &mut LabelSelector, keys: &BTreeSet<Box<str>>, values: &[Option<Box<str>>]) {
    for (key, value) in keys.iter().zip(values) {
        let operator = value.clone().map_or(Operator::DoesNotExist, Operator::Equals);
        selector.requirements.push(Requirement { key: key.clone(), operator });
    }
}

fn rules(policy: &Policy) -> impl Iterator<Item = &Rule> {
    policy.rules.egress.iter().chain(&policy.rules.ingress)
}

fn relative_peers(peers: &PeerSet) -> impl Iterator<Item = &RelativePods> {
    let entries = match peers {
        PeerSet::Of(entries) => entries.as_slice(),
        PeerSet::Any | PeerSet::AnyButOwnNode => &[],
    };
    entries.iter().filter_map(|it| match it {
        Peer::Relative(relative) => Some(relative),
        Peer::Pods { .. } | Peer::Networks(_) | Peer::Nodes(_) | Peer::Domains(_) | Peer::Unreadable => None,
    })
}

fn keys(selector: &RelativeSelector) -> &[Box<str>] {
    match selector {
        RelativeSelector::Matching(_) => &[],
        RelativeSelector::Same(keys) | RelativeSelector::NoneSame(keys) | RelativeSelector::SomeDiffer(keys) => keys,
    }
}

/// The policies of a model without relative peers: a policy that has some becomes one part for all its subjects that look alike to them. What is
/// said about the pods of the model stays the same, by the same rules of the same policies; entries of a rule may have other places.
pub fn without_relations(model: &Model) -> SharedList<Policy> {
    if model.policies.iter().all(|it| Compared::by(it).is_none()) {
        return model.policies.clone();
    }
    model.policies.iter().flat_map(|it| parts(model, it)).collect()
}

fn parts(model: &Model, policy: &Policy) -> Vec<Policy> {
    let Some(compared) = Compared::by(policy) else { return vec![policy.clone()] };
    let subjects = model.endpoints.iter().filter(|it| selects(model, policy, it));
    let found: BTreeSet<Values> = subjects.map(|it| compared.values(Viewpoint::of(model, it))).collect();
    found.iter().map(|values| compared.part(policy, values)).collect()
}
