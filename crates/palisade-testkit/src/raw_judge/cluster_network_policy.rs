//! The Admin and Baseline tiers: ordered rules of ClusterNetworkPolicy, first match wins, unknown is closed.

use serde_json::Value;

use super::read::{Labels, at, knows_all, list, name, only_key, port_number, selects, strict_cidr, text};
use super::world::{Endpoint, World};
use super::{Direction, Finding, View};
use crate::scenario::RawProtocol;

#[derive(Clone, Copy)]
pub(super) enum Tier {
    Admin,
    Baseline,
}

/// What a tier says, and whether a rule by domain name might have accepted before.
pub(super) struct TierFinding {
    pub(super) finding: Finding,
    pub(super) may_accept: bool,
}

/// What one rule does with the connection.
enum Outcome {
    NoMatch,
    /// Accepts if DNS gave the destination one of the rule's names.
    MayAccept,
    Accept,
    Deny,
    Pass,
}

/// What one peer or one protocols entry says of the connection.
#[derive(Clone, Copy, PartialEq)]
enum Hit {
    No,
    /// Only DNS knows.
    ByName {
        possible: bool,
    },
    Yes,
    NotUnderstood,
}

pub(super) fn judge(world: &World<'_>, tier: Tier, view: &View<'_>) -> Result<TierFinding, String> {
    let mut may_accept = false;
    for policy in in_order(world, tier, view)? {
        let rules = match view.direction {
            Direction::Ingress => at(policy, "/spec/ingress"),
            Direction::Egress => at(policy, "/spec/egress"),
        };
        let rules = list(rules).ok_or_else(|| format!("`{}`: not a list of rules", name(policy)))?;
        for rule in rules {
            let finding = match weigh(world, rule, view) {
                Outcome::NoMatch => continue,
                Outcome::MayAccept => {
                    may_accept = true;
                    continue;
                }
                Outcome::Accept => Finding::Accept,
                Outcome::Deny => Finding::Deny,
                Outcome::Pass => Finding::Leave,
            };
            return Ok(TierFinding { finding, may_accept });
        }
    }
    Ok(TierFinding { finding: Finding::Leave, may_accept })
}

/// The tier's policies on the subject: smaller priority first, then by name. A policy of a tier that is
/// neither Admin nor Baseline is in none.
fn in_order<'a>(world: &World<'a>, tier: Tier, view: &View<'_>) -> Result<Vec<&'a Value>, String> {
    let tier = match tier {
        Tier::Admin => "Admin",
        Tier::Baseline => "Baseline",
    };
    let mut policies = Vec::new();
    for policy in world.cluster_network_policies.iter().copied() {
        if text(policy, "/spec/tier") != Some(tier) || !is_subject(world, policy, view) {
            continue;
        }
        let priority = at(policy, "/spec/priority").as_i64();
        let priority = priority.ok_or_else(|| format!("`{}`: no priority", name(policy)))?;
        policies.push((priority, name(policy), policy));
    }
    policies.sort_by_key(|(priority, name, _)| (*priority, *name));
    Ok(policies.into_iter().map(|(_, _, policy)| policy).collect())
}

/// A subject that is not understood selects nothing: everything would cut the cluster off.
fn is_subject(world: &World<'_>, policy: &Value, view: &View<'_>) -> bool {
    let subject = at(policy, "/spec/subject");
    pods_match(world, subject, Endpoint::Pod(view.subject)) == Some(true)
}

fn weigh(world: &World<'_>, rule: &Value, view: &View<'_>) -> Outcome {
    let (peers, protocols) = (peers(world, rule, view), protocols(rule, view));
    let any = |hits: &[Hit], wanted: Hit| hits.contains(&wanted);
    let matched = any(&peers, Hit::Yes) && any(&protocols, Hit::Yes);
    let known = match view.direction {
        Direction::Ingress => knows_all(rule, &["name", "action", "from", "protocols"]),
        Direction::Egress => knows_all(rule, &["name", "action", "to", "protocols"]),
    };
    let action = match text(rule, "/action") {
        Some("Accept") if !known => return Outcome::NoMatch,
        Some("Accept") => {
            let named = any(&peers, Hit::ByName { possible: true }) && any(&protocols, Hit::Yes);
            return match (matched, named) {
                (true, _) => Outcome::Accept,
                (false, true) => Outcome::MayAccept,
                (false, false) => Outcome::NoMatch,
            };
        }
        Some("Deny") => Outcome::Deny,
        Some("Pass") => Outcome::Pass,
        Some(_) | None => return deny_all(view),
    };
    // A name cannot be denied or passed: whoever holds the name chooses the address.
    let understood = |hit: &Hit| match hit {
        Hit::No | Hit::Yes => true,
        Hit::ByName { .. } | Hit::NotUnderstood => false,
    };
    if !known || !peers.iter().chain(&protocols).all(understood) {
        return deny_all(view);
    }
    if matched { action } else { Outcome::NoMatch }
}

/// The closed form of a rule. The subject's own node stays, since its probes keep the pod alive.
fn deny_all(view: &View<'_>) -> Outcome {
    if view.is_from_own_node() { Outcome::NoMatch } else { Outcome::Deny }
}

/// What each peer says. A rule must have peers, so a missing or empty list is not understood.
fn peers(world: &World<'_>, rule: &Value, view: &View<'_>) -> Vec<Hit> {
    let peers = match view.direction {
        Direction::Ingress => at(rule, "/from"),
        Direction::Egress => at(rule, "/to"),
    };
    match list(peers) {
        None | Some([]) => vec![Hit::NotUnderstood],
        Some(peers) => peers.iter().map(|peer| peer_hit(world, peer, view)).collect(),
    }
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
    hit(matched)
}

fn hit(matched: Option<bool>) -> Hit {
    match matched {
        Some(true) => Hit::Yes,
        Some(false) => Hit::No,
        None => Hit::NotUnderstood,
    }
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

fn networks_match(networks: &Value, view: &View<'_>) -> Option<bool> {
    let networks = list(networks)?.iter().map(|network| strict_cidr(network.as_str()?)).collect::<Option<Vec<_>>>()?;
    if networks.is_empty() {
        return None;
    }
    let address = view.peer.address;
    Some(address.is_some_and(|address| networks.iter().any(|it| it.contains(&address))))
}

fn nodes_match(world: &World<'_>, selector: &Value, view: &View<'_>) -> Option<bool> {
    match view.peer.endpoint {
        Endpoint::Node(node) => selects(selector, &world.node_labels(node)),
        Endpoint::Pod(_) | Endpoint::Outside => selects(selector, &Labels::new()).map(|_| false),
    }
}

fn names_hit(names: &Value, view: &View<'_>) -> Hit {
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
        Some(entries) => entries.iter().map(|entry| hit(entry_matches(entry, view))).collect(),
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
