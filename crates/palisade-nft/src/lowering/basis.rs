//! Everything but pods that a ruleset depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::{IpBlock, Labels, Model, NodeId, Policy, RuleRef, Shared};

use crate::lower::NodeView;
use crate::unknown::Unknown;

/// What has to be as it was for the last ruleset to say anything about the next.
#[derive(Debug)]
pub(super) struct Basis {
    node: NodeId,
    unknown: Unknown,
    links: Links,
    policies: Shared<Vec<Policy>>,
    logged: BTreeSet<RuleRef>,
    pod_ranges: Vec<IpBlock>,
    nodes: Vec<(Labels, Vec<IpAddr>)>,
    /// The labels of namespaces that pods are in.
    namespaces: BTreeMap<Box<str>, Labels>,
}

/// Whether the links of some pods are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Known,
    NotKnown,
}

impl Links {
    fn of(view: &NodeView) -> Links {
        if view.links.is_empty() { Links::NotKnown } else { Links::Known }
    }
}

impl Basis {
    pub(super) fn of(model: &Model, view: &NodeView) -> Basis {
        let mut namespaces: BTreeMap<Box<str>, Labels> = BTreeMap::new();
        let mut last = "";
        for endpoint in &model.endpoints {
            // Pods are in the order of their names, so that most are in the namespace of the one before.
            let name = endpoint.name.namespace.as_ref();
            if last != name && !namespaces.contains_key(name) {
                namespaces.insert(name.into(), model.namespace_labels(name).clone());
            }
            last = name;
        }
        Basis {
            node: view.node,
            unknown: view.unknown.clone(),
            links: Links::of(view),
            policies: model.policies.clone(),
            logged: model.logged.clone(),
            pod_ranges: model.pod_ranges.clone(),
            nodes: model.nodes.iter().map(|it| (it.labels.clone(), it.addresses.clone())).collect(),
            namespaces,
        }
    }

    pub(super) fn is_of(&self, model: &Model, view: &NodeView) -> bool {
        let Basis { node, unknown, links, policies, logged, pod_ranges, nodes, namespaces } = self;
        (*node, unknown, *links) == (view.node, &view.unknown, Links::of(view))
            && (pod_ranges, logged) == (&model.pod_ranges, &model.logged)
            && nodes.len() == model.nodes.len()
            && nodes.iter().zip(&model.nodes).all(|(known, it)| (&known.0, &known.1) == (&it.labels, &it.addresses))
            && namespaces.iter().all(|(name, labels)| model.namespace_labels(name) == labels)
            && *policies == model.policies
    }
}
