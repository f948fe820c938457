//! The NetworkPolicy tier: isolation by direction, and the union of what the rules allow.

use ipnet::IpNet;
use serde_json::Value;

use super::read::{at, items, lenient_cidr, list, namespace, port_number, port_protocol, selects, text};
use super::world::{Endpoint, Pod, World};
use super::{Direction, Finding, View};

pub(super) fn judge(world: &World<'_>, view: &View<'_>) -> Finding {
    let policies = world.network_policies.iter().copied();
    let isolating: Vec<&Value> = policies.filter(|it| applies(it, view.direction) && is_subject(it, view.subject)).collect();
    if isolating.is_empty() {
        return Finding::Leave;
    }
    // A pod cannot be cut off from itself, nor from the node that probes it.
    let allowed = view.is_itself()
        || view.is_from_own_node()
        || isolating.iter().any(|policy| rules(policy, view.direction).iter().any(|rule| allows(world, policy, rule, view)));
    if allowed { Finding::Accept } else { Finding::Deny }
}

/// Whether the policy concerns the direction, after the API server's default for missing types: always
/// ingress, and egress if there is an egress rule.
fn applies(policy: &Value, direction: Direction) -> bool {
    let types = items(policy, "/spec/policyTypes");
    if types.is_empty() {
        return match direction {
            Direction::Ingress => true,
            Direction::Egress => !rules(policy, direction).is_empty(),
        };
    }
    let wanted = match direction {
        Direction::Ingress => "Ingress",
        Direction::Egress => "Egress",
    };
    types.iter().any(|it| it.as_str() == Some(wanted))
}

fn is_subject(policy: &Value, pod: &Pod<'_>) -> bool {
    let selected = selects(at(policy, "/spec/podSelector"), &pod.labels);
    namespace(policy) == pod.namespace && selected == Some(true)
}

fn rules(policy: &Value, direction: Direction) -> &[Value] {
    match direction {
        Direction::Ingress => items(policy, "/spec/ingress"),
        Direction::Egress => items(policy, "/spec/egress"),
    }
}

/// A null rule is the empty rule: the API server decodes it so.
fn allows(world: &World<'_>, policy: &Value, rule: &Value, view: &View<'_>) -> bool {
    if !rule.is_object() && !rule.is_null() {
        return false;
    }
    let peers = match view.direction {
        Direction::Ingress => at(rule, "/from"),
        Direction::Egress => at(rule, "/to"),
    };
    some_or_none_given(peers, |peer| peer_matches(world, policy, peer, view))
        && some_or_none_given(at(rule, "/ports"), |port| port_matches(port, view))
}

/// No entry means no restriction; otherwise one entry must match. What is not a list matches nothing.
fn some_or_none_given(entries: &Value, matches: impl Fn(&Value) -> bool) -> bool {
    list(entries).is_some_and(|entries| entries.is_empty() || entries.iter().any(matches))
}

fn peer_matches(world: &World<'_>, policy: &Value, peer: &Value, view: &View<'_>) -> bool {
    let pods = at(peer, "/podSelector");
    let namespaces = at(peer, "/namespaceSelector");
    let block = at(peer, "/ipBlock");
    match (pods.is_null() && namespaces.is_null(), block.is_null()) {
        // An empty peer, or one whose only field is unknown, names nobody.
        (true, true) => false,
        (true, false) => block_matches(block, view),
        (false, false) => false,
        (false, true) => {
            let Endpoint::Pod(pod) = view.peer.endpoint else {
                return false;
            };
            let in_namespace = if namespaces.is_null() {
                pod.namespace == namespace(policy)
            } else {
                selects(namespaces, world.namespace_labels(pod)) == Some(true)
            };
            in_namespace && selects(pods, &pod.labels) == Some(true)
        }
    }
}

fn block_matches(block: &Value, view: &View<'_>) -> bool {
    let Some(address) = view.peer.address else {
        return false;
    };
    let Some((cidr, except)) = read_block(block) else {
        return false;
    };
    cidr.contains(&address) && !except.iter().any(|hole| hole.contains(&address))
}

/// A block with a hole that cannot be read would be too large, so it is not a block at all.
fn read_block(block: &Value) -> Option<(IpNet, Vec<IpNet>)> {
    let cidr = lenient_cidr(text(block, "/cidr")?)?;
    let except = list(at(block, "/except"))?.iter().map(|hole| lenient_cidr(hole.as_str()?)).collect::<Option<_>>()?;
    Some((cidr, except))
}

fn port_matches(entry: &Value, view: &View<'_>) -> bool {
    if port_protocol(entry) != Some(view.flow.protocol) {
        return false;
    }
    let port = at(entry, "/port");
    let end = at(entry, "/endPort");
    if port.is_null() {
        return end.is_null();
    }
    let Some(actual) = view.flow.port else {
        return false;
    };
    if let Some(name) = port.as_str() {
        return end.is_null() && view.named_port_is(name, actual);
    }
    let Some(first) = port_number(port) else {
        return false;
    };
    let last = if end.is_null() { Some(first) } else { port_number(end) };
    last.is_some_and(|last| (first..=last).contains(&actual))
}
