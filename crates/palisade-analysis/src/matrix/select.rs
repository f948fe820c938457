//! Which units a filter is about.

use std::collections::BTreeSet;
use std::net::IpAddr;

use palisade_model::{Endpoint, EndpointId, Model, NetworkId, Place};

use super::units::Unit;
use crate::party::Party;
use crate::resolve;

/// An end that rows are wanted of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Units with one of these pods.
    Pods(BTreeSet<EndpointId>),
    /// Ranges that hold this address.
    Outside(IpAddr),
}

impl Selection {
    /// Reads an end as `explain` does; a namespace alone stands for all its pods.
    pub fn parse(model: &Model, text: &str) -> Result<Selection, String> {
        if model.namespaces.contains_key(text) {
            return some(model, text, |_, it| *it.name.namespace == *text);
        }
        if !text.contains(['/', ':', '.', '=']) {
            return Err(format!(
                "`{text}`: no namespace of that name was read; write a namespace, namespace/pod, namespace/deploy/name, namespace/key=value, or an IP address"
            ));
        }
        let party = Party::parse(text)?;
        match &party {
            Party::Node(_) => Err(format!("`{text}`: nodes are not in the matrix; ask `palisade explain`")),
            Party::Service { namespace, name } => {
                Err(format!("`{text}`: the matrix is about the pods behind a Service; name them, as in {namespace}/{name}"))
            }
            Party::Labels { namespace, labels } => some(model, text, |_, it| {
                *it.name.namespace == **namespace && labels.iter().all(|(key, value)| it.labels.get(key) == Some(value))
            }),
            Party::Address(address) => match model.place_of(NetworkId::DEFAULT, *address) {
                Place::Pod(id) => Ok(Selection::Pods([id].into())),
                Place::Node(_) => Err(format!("`{text}` is a node, and nodes are not in the matrix; ask `palisade explain`")),
                Place::Outside => Ok(Selection::Outside(*address)),
            },
            Party::Pod { .. } | Party::Workload { .. } => {
                let places = resolve::source(&mut model.clone(), NetworkId::DEFAULT, &party)?;
                let pods: BTreeSet<EndpointId> = places.iter().filter_map(|it| pod(it.place)).collect();
                some(model, text, |id, _| pods.contains(&id))
            }
        }
    }

    pub(crate) fn has_unit(&self, unit: &Unit) -> bool {
        match self {
            Selection::Pods(pods) => unit.pods.iter().any(|it| pods.contains(it)),
            Selection::Outside(_) => false,
        }
    }

    /// Whether it names a pod.
    pub(crate) fn has_pod(&self, id: EndpointId) -> bool {
        match self {
            Selection::Pods(pods) => pods.contains(&id),
            Selection::Outside(_) => false,
        }
    }

    pub(crate) fn has_range(&self, first: IpAddr, last: IpAddr) -> bool {
        match self {
            Selection::Pods(_) => false,
            Selection::Outside(address) => first.is_ipv4() == address.is_ipv4() && (first..=last).contains(address),
        }
    }
}

fn pod(place: Place) -> Option<EndpointId> {
    match place {
        Place::Pod(id) => Some(id),
        Place::Node(_) | Place::Outside => None,
    }
}

fn some(model: &Model, text: &str, wanted: impl Fn(EndpointId, &Endpoint) -> bool) -> Result<Selection, String> {
    let pods: BTreeSet<EndpointId> = model.endpoints.iter_ids().filter(|(id, it)| wanted(*id, it)).map(|(id, _)| id).collect();
    match pods.is_empty() {
        true => Err(format!("`{text}` has no pod on the pod network")),
        false => Ok(Selection::Pods(pods)),
    }
}
