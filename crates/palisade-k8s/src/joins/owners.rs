//! Chains of workloads, up to the outermost one that is known.

use std::collections::{BTreeMap, BTreeSet};

use palisade_api::OwnerReference;
use palisade_model::{Labels, Owner};

use crate::sources::ObjectKey;

/// The controller of each workload object; None for a workload that has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    /// By namespace, kind and name.
    above: BTreeMap<Box<str>, OfNamespace>,
    /// Workloads that came, went or have another controller, by namespace.
    changed: BTreeMap<Box<str>, Changed>,
}

/// The controllers of the workloads of one namespace.
type OfNamespace = BTreeMap<(Box<str>, Box<str>), Option<OwnerReference>>;

/// Workloads of one namespace by kind and name.
pub(crate) type Changed = BTreeSet<(Box<str>, Box<str>)>;

impl Owners {
    /// Sets or removes a workload. Returns true if the workload exists now or did before.
    pub(crate) fn set(&mut self, key: &ObjectKey, workload: Option<Option<OwnerReference>>) -> bool {
        let (namespace, own) = (key.namespace.clone().unwrap_or_default(), (key.kind.clone(), key.name.clone()));
        let was = self.get(key).cloned();
        if was == workload {
            return was.is_some();
        }
        let of_namespace = self.above.entry(namespace.clone()).or_default();
        match workload {
            Some(owner) => drop(of_namespace.insert(own.clone(), owner)),
            None => drop(of_namespace.remove(&own)),
        }
        if of_namespace.is_empty() {
            self.above.remove(&namespace);
        }
        self.changed.entry(namespace).or_default().insert(own);
        true
    }

    fn get(&self, key: &ObjectKey) -> Option<&Option<OwnerReference>> {
        self.above.get(key.namespace.as_deref().unwrap_or_default())?.get(&(key.kind.clone(), key.name.clone()))
    }

    pub(crate) fn has(&self, workload: &ObjectKey) -> bool {
        self.get(workload).is_some()
    }

    /// All workloads.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.above.iter().flat_map(|(namespace, all)| {
            all.keys().map(|(kind, name)| ObjectKey { kind: kind.clone(), namespace: Some(namespace.clone()), name: name.clone() })
        })
    }

    /// Returns the workloads that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeMap<Box<str>, Changed> {
        std::mem::take(&mut self.changed)
    }

    /// Workloads of a namespace whose controller is one of these.
    pub(crate) fn children<'o>(&'o self, namespace: &'o str, owners: &'o Changed) -> impl Iterator<Item = ObjectKey> + 'o {
        let owned = |owner: &OwnerReference| owners.contains(&(Box::from(owner.kind.as_str()), Box::from(owner.name.as_str())));
        let own = self.above.get(namespace).into_iter().flatten();
        own.filter(move |(_, owner)| owner.as_ref().is_some_and(owned)).map(|((kind, name), _)| ObjectKey {
            kind: kind.clone(),
            namespace: Some(namespace.into()),
            name: name.clone(),
        })
    }

    pub(crate) fn exists(&self, child: &ObjectKey, owner: &OwnerReference) -> bool {
        self.get(&sibling(child, &owner.kind, &owner.name)).is_some()
    }

    /// The workloads above a pod, the outermost first, which is what users know the pod by.
    pub(crate) fn of_pod(&self, key: &ObjectKey, owner: Option<&OwnerReference>, labels: &Labels) -> Vec<Owner> {
        self.chain(key, owner, labels).into_iter().rev().map(|it| Owner { kind: it.kind, name: it.name }).collect()
    }

    /// The workloads above a pod, innermost first.
    pub(crate) fn chain(&self, key: &ObjectKey, owner: Option<&OwnerReference>, labels: &Labels) -> Vec<ObjectKey> {
        let mut chain: Vec<ObjectKey> = Vec::new();
        let mut owner = owner;
        while let Some(reference) = owner {
            let above = sibling(key, &reference.kind, &reference.name);
            if chain.contains(&above) {
                break;
            }
            owner = self.get(&above).and_then(Option::as_ref);
            chain.push(above);
        }
        let deployment = chain.last().and_then(|last| self.deployment_behind(last, labels));
        chain.extend(deployment);
        chain
    }

    /// A ReplicaSet that was not read is named after its Deployment and the template's hash, which the pod carries as a label.
    fn deployment_behind(&self, last: &ObjectKey, labels: &Labels) -> Option<ObjectKey> {
        let hash = labels.get("pod-template-hash")?;
        let unread = last.kind.as_ref() == "ReplicaSet" && self.get(last).is_none_or(Option::is_none);
        let name = last.name.strip_suffix(hash)?.strip_suffix('-')?;
        unread.then(|| sibling(last, "Deployment", name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.above.is_empty() && self.changed.is_empty()
    }
}

fn sibling(key: &ObjectKey, kind: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: kind.into(), namespace: key.namespace.clone(), name: name.into() }
}
