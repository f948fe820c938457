//! AdminNetworkPolicy and BaselineAdminNetworkPolicy, with the peers of early and of late v1alpha1.

use serde_json::Value;

use super::cluster_network_policy::{names_hit, networks_match, nodes_match};
use super::read::{at, knows_all, only_key, port_number, port_protocol, selects_strictly, text};
use super::relative::{same, some_differ};
use super::shapes::Peers;
use super::tiers::{Action, Hit, Tier, Weighed, deny_all, peers_of};
use super::world::{Endpoint, Ends, World};
use super::{Direction, View};

/// A subject that is not understood selects nothing: everything would cut the cluster off.
pub(super) fn is_subject(world: &World<'_>, policy: &Value, view: &View<'_>) -> bool {
    // Subjects never changed their shape.
    late_pods(at(policy, "/spec/subject"), &Ends::of(world, view, Endpoint::Pod(view.subject))) == Some(true)
}

pub(super) fn weigh(world: &World<'_>, rule: &Value, view: &View<'_>, tier: Tier, shape: Peers) -> Weighed {
    let known: &[&str] = match view.direction {
        Direction::Ingress => &["name", "action", "from", "ports"],
        Direction::Egress => &["name", "action", "to", "ports"],
    };
    let action = match (text(rule, "/action"), tier) {
        (Some("Allow"), _) => Action::Accept,
        (Some("Deny"), _) => Action::Deny,
        (Some("Pass"), Tier::Admin) => Action::Pass,
        (Some(_) | None, _) => Action::Unknown,
    };
    let peers = match peers_of(rule, view) {
        // A rule must have peers.
        None | Some([]) => vec![Hit::NotUnderstood],
        Some(peers) => peers.iter().map(|peer| peer_hit(world, peer, view, tier, shape)).collect(),
    };
    Weighed { action, known: knows_all(rule, known), peers, traffic: traffic(rule, view), closed: deny_all(view) }
}

fn peer_hit(world: &World<'_>, peer: &Value, view: &View<'_>, tier: Tier, shape: Peers) -> Hit {
    let known: &[&str] = match (view.direction, shape, tier) {
        (Direction::Ingress, _, _) | (Direction::Egress, Peers::Early, _) => &["namespaces", "pods"],
        (Direction::Egress, Peers::Late, Tier::Baseline) => &["namespaces", "pods", "networks", "nodes"],
        (Direction::Egress, Peers::Late, Tier::Admin) => &["namespaces", "pods", "networks", "nodes", "domainNames"],
    };
    Hit::of(match only_key(peer, known) {
        Some("namespaces" | "pods") => {
            let ends = Ends::of(world, view, view.peer.endpoint);
            match shape {
                Peers::Early => early_pods(peer, &ends),
                Peers::Late => late_pods(peer, &ends),
            }
        }
        Some("networks") => networks_match(at(peer, "/networks"), view),
        Some("nodes") if knows_all(at(peer, "/nodes"), &["matchLabels", "matchExpressions"]) => {
            nodes_match(world, at(peer, "/nodes"), view)
        }
        Some("domainNames") => return names_hit(at(peer, "/domainNames"), view),
        Some(_) | None => None,
    })
}

/// Exactly one of `namespaces`, a selector, and `pods` with both of its selectors.
fn late_pods(holder: &Value, ends: &Ends<'_>) -> Option<bool> {
    let selected = match only_key(holder, &["namespaces", "pods"])? {
        "namespaces" => selects_strictly(at(holder, "/namespaces"), ends.namespace)?,
        _ => {
            let pods = at(holder, "/pods");
            let in_namespace = selects_strictly(at(pods, "/namespaceSelector"), ends.namespace)?;
            let selected = selects_strictly(at(pods, "/podSelector"), ends.pod)?;
            if !knows_all(pods, &["namespaceSelector", "podSelector"]) {
                return None;
            }
            in_namespace && selected
        }
    };
    Some(selected && ends.is_pod)
}

/// Exactly one of `namespaces`, and `pods` with namespaces of the same form.
fn early_pods(holder: &Value, ends: &Ends<'_>) -> Option<bool> {
    let selected = match only_key(holder, &["namespaces", "pods"])? {
        "namespaces" => early_namespaces(at(holder, "/namespaces"), ends)?,
        _ => {
            let pods = at(holder, "/pods");
            let in_namespace = early_namespaces(at(pods, "/namespaces"), ends)?;
            let selected = selects_strictly(at(pods, "/podSelector"), ends.pod)?;
            if !knows_all(pods, &["namespaces", "podSelector"]) {
                return None;
            }
            in_namespace && selected
        }
    };
    Some(selected && ends.is_pod)
}

fn early_namespaces(namespaces: &Value, ends: &Ends<'_>) -> Option<bool> {
    match only_key(namespaces, &["namespaceSelector", "sameLabels", "notSameLabels"])? {
        "namespaceSelector" => selects_strictly(at(namespaces, "/namespaceSelector"), ends.namespace),
        "sameLabels" => same(at(namespaces, "/sameLabels"), ends.subject_namespace, ends.namespace),
        _ => some_differ(at(namespaces, "/notSameLabels"), ends.subject_namespace, ends.namespace),
    }
}

/// What each entry of ports says. Without the field everything matches, other protocols too.
fn traffic(rule: &Value, view: &View<'_>) -> Vec<Hit> {
    let ports = at(rule, "/ports");
    match ports.as_array().map(Vec::as_slice) {
        None if ports.is_null() => vec![Hit::Yes],
        None | Some([]) => vec![Hit::NotUnderstood],
        Some(entries) => entries.iter().map(|entry| Hit::of(entry_matches(entry, view))).collect(),
    }
}

fn entry_matches(entry: &Value, view: &View<'_>) -> Option<bool> {
    let (held, first, last) = match only_key(entry, &["portNumber", "portRange", "namedPort"])? {
        "portNumber" => {
            let held = at(entry, "/portNumber");
            let port = port_number(at(held, "/port"))?;
            (knows_all(held, &["protocol", "port"]).then_some(held)?, port, port)
        }
        "portRange" => {
            let held = at(entry, "/portRange");
            let (start, end) = (port_number(at(held, "/start"))?, port_number(at(held, "/end"))?);
            (knows_all(held, &["protocol", "start", "end"]).then_some(held)?, start, end)
        }
        _ => {
            // Of whatever protocol the port has.
            let name = text(entry, "/namedPort")?;
            return Some(view.flow.port.is_some_and(|port| view.named_port_is(name, port)));
        }
    };
    // No schema refuses it. Nobody means a range of no port, and a Deny of one would deny nothing.
    if last < first {
        return None;
    }
    let in_range = view.flow.port.is_some_and(|port| (first..=last).contains(&port));
    Some(port_protocol(held)? == view.flow.protocol && in_range)
}
