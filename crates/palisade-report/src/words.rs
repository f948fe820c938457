//! Policies in words.

use palisade_engine::{FailedRequirement, PeerMiss, PeerMisses, PortMiss, Scope};
use palisade_model::{
    Direction, NamespaceSet, Peer, PeerSet, PolicyRef, PortMatch, PortProtocol, PortSet, Ports, RelativeNamespaces, RelativePods,
    RelativeSelector, RuleRef,
};

/// `ClusterNetworkPolicy tenants` or `NetworkPolicy shop/db`.
pub(crate) fn policy(it: &PolicyRef) -> String {
    let kind = it.kind.as_str();
    match &it.namespace {
        Some(namespace) => format!("{kind} {namespace}/{}", it.name),
        None => format!("{kind} {}", it.name),
    }
}

/// `rule 1 "same-tenant"`.
pub(crate) fn rule(it: &RuleRef) -> String {
    match &it.name {
        Some(name) => format!("rule {} \"{name}\"", it.index),
        None => format!("rule {}", it.index),
    }
}

/// The policy's bare name, in backticks.
pub(crate) fn short(it: &PolicyRef) -> String {
    format!("`{}`", it.name)
}

/// Several policies by their bare names.
pub(crate) fn several(policies: &[PolicyRef]) -> String {
    policies.iter().map(short).collect::<Vec<_>>().join(", ")
}

/// Whom a rule speaks of.
pub(crate) fn peers(set: &PeerSet) -> String {
    match set {
        PeerSet::Any => "anyone".to_owned(),
        PeerSet::AnyButOwnNode => "anyone but the pod's own node".to_owned(),
        PeerSet::Of(peers) if peers.is_empty() => "nobody".to_owned(),
        PeerSet::Of(peers) => peers.iter().map(peer).collect::<Vec<_>>().join(", or "),
    }
}

fn peer(it: &Peer) -> String {
    match it {
        Peer::Pods { namespaces, pods } => {
            let of = if pods.selects_everything() { "all pods".to_owned() } else { format!("pods with {pods}") };
            match namespaces {
                NamespaceSet::Own(own) => format!("{of} of namespace {own}"),
                NamespaceSet::Matching(selector) if selector.selects_everything() => format!("{of} of any namespace"),
                NamespaceSet::Matching(selector) => format!("{of} of namespaces with {selector}"),
            }
        }
        Peer::Relative(relative) => relative_pods(relative),
        Peer::Networks(blocks) => blocks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Peer::Nodes(selector) if selector.selects_everything() => "any node".to_owned(),
        Peer::Nodes(selector) => format!("nodes with {selector}"),
        Peer::Domains(patterns) => patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Peer::Unreadable => "something unreadable".to_owned(),
    }
}

fn relative_pods(it: &RelativePods) -> String {
    let pods = match &it.pods {
        RelativeSelector::Matching(selector) if selector.selects_everything() => "all pods".to_owned(),
        RelativeSelector::Matching(selector) => format!("pods with {selector}"),
        RelativeSelector::Same(_) | RelativeSelector::NoneSame(_) | RelativeSelector::SomeDiffer(_) => {
            format!("pods with {}", compared(&it.pods, "the subject"))
        }
    };
    match &it.namespaces {
        RelativeNamespaces::Own => format!("{pods} of the subject's own namespace"),
        RelativeNamespaces::Others => format!("{pods} of all namespaces but the subject's own"),
        RelativeNamespaces::Labelled(RelativeSelector::Matching(selector)) if selector.selects_everything() => {
            format!("{pods} of any namespace")
        }
        RelativeNamespaces::Labelled(RelativeSelector::Matching(selector)) => format!("{pods} of namespaces with {selector}"),
        RelativeNamespaces::Labelled(selector) => format!("{pods} of namespaces with {}", compared(selector, "the subject's")),
    }
}

fn compared(selector: &RelativeSelector, whose: &str) -> String {
    match selector {
        RelativeSelector::Matching(selector) => selector.to_string(),
        RelativeSelector::Same(keys) => format!("the same {} as {whose}", keys.join(" and ")),
        RelativeSelector::NoneSame(keys) => format!("another {} than {whose}, or none", keys.join(" and ")),
        RelativeSelector::SomeDiffer(keys) => format!("another {} than {whose}", keys.join(" or ")),
    }
}

/// Which traffic a rule speaks of.
pub(crate) fn traffic(set: &PortSet) -> String {
    match set {
        PortSet::Any => "any traffic".to_owned(),
        PortSet::Of(entries) if entries.is_empty() => "no traffic".to_owned(),
        PortSet::Of(entries) => entries.iter().map(port).collect::<Vec<_>>().join(", "),
    }
}

fn port(it: &PortMatch) -> String {
    match it {
        PortMatch::Numbers { protocol, ports } => numbers(*protocol, *ports),
        PortMatch::Named { protocol: Some(protocol), name } => format!("{protocol}/{name}"),
        PortMatch::Named { protocol: None, name } => format!("port {name}"),
        PortMatch::Unreadable => "no port that can be read".to_owned(),
    }
}

fn numbers(protocol: PortProtocol, ports: Ports) -> String {
    match (ports == Ports::ALL, ports.first() == ports.last()) {
        (true, _) => format!("any {protocol} port"),
        (false, true) => format!("{protocol}/{}", ports.first()),
        (false, false) => format!("{protocol}/{}-{}", ports.first(), ports.last()),
    }
}

/// `from` or `to`.
pub(crate) fn preposition(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

/// What differs, for one label.
pub(crate) fn failed(it: &FailedRequirement, pod: &str) -> String {
    let whose = match it.scope {
        Scope::Namespace => format!("the namespace of {pod}"),
        Scope::Pod => pod.to_owned(),
        Scope::Node => format!("node {pod}"),
    };
    match &it.found {
        Some(value) => format!("{whose} has {}={value}", it.requirement.key),
        None => format!("{whose} has no label {}", it.requirement.key),
    }
}

/// Why the peers of a rule missed.
pub(crate) fn peer_misses(misses: &PeerMisses, other: &str) -> Vec<String> {
    match misses {
        PeerMisses::SparesOwnNode => vec!["it spares the pod's own node".to_owned()],
        PeerMisses::Entries(entries) if entries.is_empty() => vec!["it matches nobody".to_owned()],
        PeerMisses::Entries(entries) => entries.iter().map(|miss| peer_miss(miss, other)).collect(),
    }
}

/// Why one peer entry missed.
pub(crate) fn peer_miss(miss: &PeerMiss, other: &str) -> String {
    match miss {
        PeerMiss::NotAPod => format!("it selects pods, and {other} is none"),
        PeerMiss::OtherNamespace { own, .. } => format!("it selects pods of namespace {own} only"),
        PeerMiss::Labels(failures) => failures.iter().map(|it| failed(it, other)).collect::<Vec<_>>().join(", "),
        PeerMiss::NothingToCompare { key: None, .. } => "it compares no label".to_owned(),
        PeerMiss::NothingToCompare { scope: Scope::Namespace, key: Some(key) } => {
            format!("it compares with the label {key} of the subject's namespace, which has none")
        }
        PeerMiss::NothingToCompare { key: Some(key), .. } => format!("it compares with the label {key} of the subject, which has none"),
        PeerMiss::NoAddress => format!("it names addresses, and none is known for {other}"),
        PeerMiss::NotInBlocks => format!("the address of {other} is outside"),
        PeerMiss::Excepted(block) => format!("the address of {other} is in the exception {block}"),
        PeerMiss::NotANode => format!("it selects nodes, and {other} is none"),
        PeerMiss::NoName => format!("{other} is a pod, and these are no cluster names"),
        PeerMiss::NotKnown => format!("{other} is a pod that is not known yet, and it is not for all pods"),
        PeerMiss::Unreadable => "it could not be read".to_owned(),
    }
}

/// Why one port entry missed.
pub(crate) fn port_miss(miss: &PortMiss, asked: &str) -> String {
    match miss {
        PortMiss::Protocol(protocol) => format!("it is about {protocol}, not {asked}"),
        PortMiss::Number(ports) if ports.first() == ports.last() => format!("it is about port {}, not {asked}", ports.first()),
        PortMiss::Number(ports) => format!("it is about ports {}-{}, not {asked}", ports.first(), ports.last()),
        PortMiss::NameOfNoPod(name) => format!("it names the port {name}, and the destination is no pod"),
        PortMiss::NoSuchName(name) => format!("the destination pod has no such port named {name}"),
        PortMiss::NameIs { name, protocol, port } => format!("port {name} of the destination is {protocol}/{port}, not {asked}"),
        PortMiss::Unreadable => "it names no port that can be read".to_owned(),
    }
}
