//! AdminNetworkPolicy as KEP-2091 proposed it. It speaks about pods alone: what it does not understand is closed to pods, and to nobody else.

use serde_json::Value;

use super::read::{at, knows_all, list, only_key, port_number, port_protocol, selects_strictly, text};
use super::relative::{none_is_same, same};
use super::tiers::{Action, Hit, Outcome, Weighed, peers_of};
use super::world::{Endpoint, Ends, World};
use super::{Direction, View};

/// A subject that is not understood selects nothing.
pub(super) fn is_subject(world: &World<'_>, policy: &Value, view: &View<'_>) -> bool {
    let subject = at(policy, "/spec/subject");
    let ends = Ends::of(world, view, Endpoint::Pod(view.subject));
    let selected = match only_key(subject, &["namespaceSelector", "namespaceAndPodSelector"]) {
        Some("namespaceSelector") => selects_strictly(at(subject, "/namespaceSelector"), ends.namespace),
        Some(_) => {
            let both = at(subject, "/namespaceAndPodSelector");
            let namespaces = selects_strictly(at(both, "/namespaceSelector"), ends.namespace);
            let pods = selects_strictly(at(both, "/podSelector"), ends.pod);
            let known = knows_all(both, &["namespaceSelector", "podSelector"]);
            namespaces.zip(pods).filter(|_| known).map(|(namespaces, pods)| namespaces && pods)
        }
        None => None,
    };
    selected == Some(true)
}

pub(super) fn weigh(world: &World<'_>, rule: &Value, view: &View<'_>) -> Weighed {
    let known: &[&str] = match view.direction {
        Direction::Ingress => &["name", "action", "l4Selector", "from"],
        Direction::Egress => &["name", "action", "l4Selector", "to"],
    };
    let action = match text(rule, "/action") {
        Some("Allow") => Action::Accept,
        Some("Deny") => Action::Deny,
        Some("Pass") => Action::Pass,
        Some(_) | None => Action::Unknown,
    };
    let ends = Ends::of(world, view, view.peer.endpoint);
    let peers = match peers_of(rule, view) {
        None => vec![Hit::NotUnderstood],
        // No peer is nobody.
        Some(peers) => peers.iter().map(|peer| Hit::of(peer_matches(peer, &ends))).collect(),
    };
    let closed = if ends.is_pod { Outcome::Deny } else { Outcome::NoMatch };
    Weighed { action, known: knows_all(rule, known), peers, traffic: traffic(at(rule, "/l4Selector"), view), closed }
}

fn peer_matches(peer: &Value, ends: &Ends<'_>) -> Option<bool> {
    let matched = match only_key(peer, &["namespaces", "namespacedPods"])? {
        "namespaces" => namespaces_match(at(peer, "/namespaces"), ends)?,
        _ => {
            let both = at(peer, "/namespacedPods");
            let namespaces = namespaces_match(at(both, "/namespaces"), ends)?;
            let pods = pods_match(at(both, "/pods"), ends)?;
            if !knows_all(both, &["namespaces", "pods"]) {
                return None;
            }
            namespaces && pods
        }
    };
    Some(matched && ends.is_pod)
}

fn namespaces_match(set: &Value, ends: &Ends<'_>) -> Option<bool> {
    let only_true = |field: &str| at(set, field).as_bool().filter(|it| *it);
    match only_key(set, &["self", "notSelf", "namespaceSelector", "sameLabels", "notSameLabels"])? {
        "self" => only_true("/self").map(|_| ends.in_one_namespace),
        "notSelf" => only_true("/notSelf").map(|_| !ends.in_one_namespace),
        "namespaceSelector" => selects_strictly(at(set, "/namespaceSelector"), ends.namespace),
        "sameLabels" => same(at(set, "/sameLabels"), ends.subject_namespace, ends.namespace),
        _ => none_is_same(at(set, "/notSameLabels"), ends.subject_namespace, ends.namespace),
    }
}

fn pods_match(set: &Value, ends: &Ends<'_>) -> Option<bool> {
    match only_key(set, &["podSelector", "sameLabels", "notSameLabels"])? {
        "podSelector" => selects_strictly(at(set, "/podSelector"), ends.pod),
        "sameLabels" => same(at(set, "/sameLabels"), ends.subject_pod, ends.pod),
        _ => none_is_same(at(set, "/notSameLabels"), ends.subject_pod, ends.pod),
    }
}

/// All traffic, or what each entry says. Neither is not understood, and never unrestricted.
fn traffic(selector: &Value, view: &View<'_>) -> Vec<Hit> {
    match only_key(selector, &["allPorts", "ports"]) {
        Some("allPorts") => vec![Hit::of(at(selector, "/allPorts").as_bool().filter(|it| *it))],
        Some(_) => match list(at(selector, "/ports")) {
            None | Some([]) => vec![Hit::NotUnderstood],
            Some(entries) => entries.iter().map(|entry| Hit::of(entry_matches(entry, view))).collect(),
        },
        None => vec![Hit::NotUnderstood],
    }
}

fn entry_matches(entry: &Value, view: &View<'_>) -> Option<bool> {
    if !entry.is_object() || !knows_all(entry, &["protocol", "port", "endPort"]) {
        return None;
    }
    let protocol = port_protocol(entry)?;
    let (port, end) = (at(entry, "/port"), at(entry, "/endPort"));
    let is_it = |first, last| view.flow.protocol == protocol && view.flow.port.is_some_and(|port| (first..=last).contains(&port));
    match (port.is_null(), port.as_str(), end.is_null()) {
        // Where a NetworkPolicy would mean all ports of the protocol.
        (true, _, true) => Some(false),
        (false, Some(name), true) if !name.is_empty() => {
            Some(view.flow.protocol == protocol && view.flow.port.is_some_and(|port| view.named_port_is(name, port)))
        }
        (false, None, true) => port_number(port).map(|port| is_it(port, port)),
        (false, None, false) => {
            let (first, last) = (port_number(port)?, port_number(end)?);
            (first <= last).then(|| is_it(first, last))
        }
        (true, _, false) | (false, Some(_), _) => None,
    }
}
