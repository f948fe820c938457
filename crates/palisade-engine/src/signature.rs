//! Which ends no policy can tell apart.
//!
//! Two ends with equal signatures get the same verdict against any third one. Questions about many pods are asked once per signature, never
//! once per pair of pods.

use palisade_model::{
    End, Endpoint, Labels, Model, NodeId, Peer, PeerSet, Place, PortMatch, PortSet, RelativeNamespaces, RelativePods, RelativeSelector,
};

use crate::decide::{in_namespaces, selects};
use crate::relative::{Compared, Values, Viewpoint};

/// What the policies of a model can see of one end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signature {
    /// One answer for each selector and each block in use, in the order of the policies.
    answers: Vec<bool>,
    /// The container ports that some policy names.
    named: Vec<palisade_model::ContainerPort>,
    /// What a relation can compare it by, in the order of the policies.
    compared: Vec<Values>,
    /// Where it stands, as far as that matters on its own.
    place: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// A pod, with its node: own-node traffic depends on it.
    Pod(Option<NodeId>),
    Node(NodeId),
    Outside,
}

/// Whether the node a pod runs on is part of its signature. It matters only against nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The other ends are pods or outside.
    Alike,
    /// Some other end is a node.
    Apart,
}

/// The signature of one end.
pub fn signature(model: &Model, end: &End, nodes: Nodes) -> Signature {
    let pod = match end.place {
        Place::Pod(id) => model.endpoint(id),
        Place::Node(_) | Place::Outside => None,
    };
    let mut answers = Vec::new();
    let mut names = Vec::new();
    let relations = model.policies.iter().filter_map(Compared::by);
    let compared = relations.filter_map(|it| Some(it.values(Viewpoint::of(model, pod?)))).collect();
    for policy in &model.policies {
        answers.push(pod.is_some_and(|pod| selects(model, policy, pod)));
        for rule in policy.rules.egress.iter().chain(&policy.rules.ingress) {
            if let PeerSet::Of(peers) = &rule.peers {
                answers.extend(peers.iter().map(|peer| sees(model, peer, end, pod)));
            }
            if let PortSet::Of(ports) = &rule.ports {
                names.extend(ports.iter().filter_map(name_of));
            }
        }
    }
    let mut named: Vec<_> =
        pod.map_or_else(Vec::new, |pod| pod.ports.iter().filter(|port| names.contains(&port.name.as_deref())).cloned().collect());
    named.sort();
    let place = match (end.place, nodes) {
        (Place::Pod(_), Nodes::Alike) => Kind::Pod(None),
        (Place::Pod(_), Nodes::Apart) => Kind::Pod(pod.and_then(|pod| pod.node)),
        (Place::Node(id), _) => Kind::Node(id),
        (Place::Outside, _) => Kind::Outside,
    };
    Signature { answers, named, compared, place }
}

fn name_of(port: &PortMatch) -> Option<Option<&str>> {
    match port {
        PortMatch::Named { name, .. } => Some(Some(name)),
        PortMatch::Numbers { .. } | PortMatch::Unreadable => None,
    }
}

fn sees(model: &Model, peer: &Peer, end: &End, pod: Option<&Endpoint>) -> bool {
    match peer {
        Peer::Pods { namespaces, pods } => pod.is_some_and(|pod| in_namespaces(model, namespaces, pod) && pods.matches(&pod.labels)),
        Peer::Relative(relative) => pod.is_some_and(|pod| may_mean(model, relative, pod)),
        Peer::Networks(blocks) => end.address.is_some_and(|address| blocks.iter().any(|block| block.contains(address))),
        Peer::Nodes(selector) => match end.place {
            Place::Node(id) => model.node(id).is_some_and(|node| selector.matches(&node.labels)),
            Place::Pod(_) | Place::Outside => false,
        },
        Peer::Domains(patterns) => pod.is_none() || patterns.iter().any(|pattern| pattern.is_cluster_local()),
        Peer::Unreadable => false,
    }
}

/// Whether relative peers mean a pod as far as they compare nothing.
fn may_mean(model: &Model, relative: &RelativePods, pod: &Endpoint) -> bool {
    let holds = |selector: &RelativeSelector, labels: &Labels| match selector {
        RelativeSelector::Matching(selector) => selector.matches(labels),
        RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => true,
    };
    let in_namespace = match &relative.namespaces {
        RelativeNamespaces::Own | RelativeNamespaces::Others => true,
        RelativeNamespaces::Labelled(selector) => holds(selector, model.namespace_labels(&pod.name.namespace)),
    };
    in_namespace && holds(&relative.pods, &pod.labels)
}
