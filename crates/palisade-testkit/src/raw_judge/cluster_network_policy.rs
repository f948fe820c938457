//! ClusterNetworkPolicy: subjects, peers and protocols.

use serde_json::Value;

use super::read::{Labels, at, knows_all, list, only_key, port_number, selects, strict_cidr, text};
use super::tiers::{Action, Hit, Weighed, deny_all, peers_of};
use super::world::{Endpoint, World};
use super::{Direction, View};
use crate::scenario::RawProtocol;

/// A subject that is not understood selects nothing: everything would cut the cluster off.
pub(super) fn is_subject(world: &World<'_>, policy: &Value, view: &View<'_>) -> bool {
    let subject = at(policy, "/spec/subject");
    pods_match(world, subject, Endpoint::Pod(view.subject)) == Some(true)
}

pub(super) fn weigh(world: &World<'_>, rule: &Value, view: &View<'_>) -> Weighed {
    let known: &[&str] = match view.direction {
        Direction::Ingress => &["name", "action", "from", "protocols"],
        Direction::Egress => &["name", "action", "to", "protocols"],
    };
    let action = match text(rule, "/action") {
        Some("Accept") => Action::Accept,
        Some("Deny") => Action::Deny,
        Some("Pass") => Action::Pass,
        Some(_) | None => Action::Unknown,
    };
    let peers = match peers_of(rule, view) {
        // A rule must have peers.
        None | Some([]) => vec![Hit::NotUnderstood],
        Some(peers) => peers.iter().map(|peer| peer_hit(world, peer, view)).collect(),
    };
    Weighed { action, known: knows_all(rule, known), peers, traffic: protocols(rule, view), closed: deny_all(view) }
}

fn peer_hit(world: &World<'_>, peer: &Value, view: &View<'_>) -> Hit {
    let known: &[&str] = match view.direction {
        Direction::Ingress => &["namespaces", "pods"],
        Direction::Egress => &["namespaces", "pods", "networks", "nodes", "domainNames"],
    };
    let matched = match only_key(peer, known) {
        Some("namespaces" | "pods") => pods_match(world, peer, view.peer.endpoint),
        Some("networks") => networks_match(at(peer, "/networks"), view),
        Some("nodes") => nodes_match(world, at(peer, "/nodes"), view),
        Some("domainNames") => return names_hit(at(peer, "/domainNames"), view),
        Some(_) | None => None,
    };
    Hit::of(matched)
}

/// The part that subjects and peers share: exactly one of `namespaces` and `pods`.
fn pods_match(world: &World<'_>, holder: &Value, endpoint: Endpoint<'_>) -> Option<bool> {
    let none = Labels::new();
    let (namespace_labels, pod_labels) = match endpoint {
        Endpoint::Pod(pod) => (world.namespace_labels(pod), &pod.labels),
        Endpoint::Node(_) | Endpoint::Outside => (&none, &none),
    };
    let selected = match only_key(holder, &["namespaces", "pods"])? {
        "namespaces" => selects(at(holder, "/namespaces"), namespace_labels)?,
        _ => {
            let pods = at(holder, "/pods/podSelector");
            if pods.is_null() {
                return None;
            }
            let in_namespace = selects(at(holder, "/pods/namespaceSelector"), namespace_labels)?;
            selects(pods, pod_labels)? && in_namespace
        }
    };
    Some(selected && matches!(endpoint, Endpoint::Pod(_)))
}

pub(super) fn networks_match(networks: &Value, view: &View<'_>) -> Option<bool> {
    let networks = list(networks)?.iter().map(|network| strict_cidr(network.as_str()?)).collect::<Option<Vec<_>>>()?;
    if networks.is_empty() {
        return None;
    }
    let address = view.peer.address;
    Some(address.is_some_and(|address| networks.iter().any(|it| it.contains(&address))))
}

pub(super) fn nodes_match(world: &World<'_>, selector: &Value, view: &View<'_>) -> Option<bool> {
    match view.peer.endpoint {
        Endpoint::Node(node) => selects(selector, &world.node_labels(node)),
        Endpoint::Pod(_) | Endpoint::Outside => selects(selector, &Labels::new()).map(|_| false),
    }
}

pub(super) fn names_hit(names: &Value, view: &View<'_>) -> Hit {
    let names: Option<Vec<&str>> = list(names).and_then(|names| names.iter().map(Value::as_str).collect());
    match names {
        None => Hit::NotUnderstood,
        Some(names) if names.is_empty() => Hit::NotUnderstood,
        Some(names) => {
            let possible = match view.peer.endpoint {
                Endpoint::Node(_) | Endpoint::Outside => true,
                Endpoint::Pod(_) => names.iter().any(|name| may_name_a_pod(name)),
            };
            Hit::ByName { possible }
        }
    }
}

/// Pods have names under `cluster.local` only; `*.local` covers those too.
fn may_name_a_pod(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    name.ends_with(".cluster.local") || name == "*.local"
}

/// What each protocols entry says. Without the field everything matches, other protocols too.
fn protocols(rule: &Value, view: &View<'_>) -> Vec<Hit> {
    let protocols = at(rule, "/protocols");
    if protocols.is_null() {
        return vec![Hit::Yes];
    }
    match list(protocols) {
        None | Some([]) => vec![Hit::NotUnderstood],
        Some(entries) => entries.iter().map(|entry| Hit::of(entry_matches(entry, view))).collect(),
    }
}

fn entry_matches(entry: &Value, view: &View<'_>) -> Option<bool> {
    let (protocol, path) = match only_key(entry, &["tcp", "udp", "sctp", "destinationNamedPort"])? {
        "tcp" => (RawProtocol::Tcp, "/tcp"),
        "udp" => (RawProtocol::Udp, "/udp"),
        "sctp" => (RawProtocol::Sctp, "/sctp"),
        _ => {
            let name = text(entry, "/destinationNamedPort")?;
            return Some(view.flow.port.is_some_and(|port| view.named_port_is(name, port)));
        }
    };
    only_key(at(entry, path), &["destinationPort"])?;
    let port = at(at(entry, path), "/destinationPort");
    let (first, last) = match only_key(port, &["number", "range"])? {
        "number" => (port_number(at(port, "/number"))?, port_number(at(port, "/number"))?),
        _ => (port_number(at(port, "/range/start"))?, port_number(at(port, "/range/end"))?),
    };
    if first > last {
        return None;
    }
    let in_range = view.flow.port.is_some_and(|port| (first..=last).contains(&port));
    Some(view.flow.protocol == protocol && in_range)
}
