//! Which API a cluster policy is written in. Three shapes share one apiVersion and one kind, and only their fields tell them apart.

use serde_json::Value;

use super::read::{at, items, name, text};

/// The peers of what was shipped as v1alpha1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peers {
    /// Up to v0.1.2.
    Early,
    /// As last shipped.
    Late,
}

/// In the order that decides between policies of one rank and one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Written {
    ClusterNetworkPolicy,
    AdminNetworkPolicy(Peers),
    BaselineAdminNetworkPolicy(Peers),
    Kep2091,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Early,
    Late,
    Kep2091,
}

/// None for what is not a cluster policy, and for one that nobody can read: it has fields of two shapes, or a name of its own where there
/// can be only one object.
pub(super) fn written(object: &Value) -> Option<Written> {
    match (text(object, "/apiVersion")?, text(object, "/kind")?) {
        ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy") => Some(Written::ClusterNetworkPolicy),
        ("kep2091.palisade.dev/v1alpha1", "AdminNetworkPolicy") => shape(object, KEP_2091).map(|_| Written::Kep2091),
        ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy") => {
            Some(match shape(object, &[Shape::Late, Shape::Early, Shape::Kep2091])? {
                Shape::Early => Written::AdminNetworkPolicy(Peers::Early),
                Shape::Late => Written::AdminNetworkPolicy(Peers::Late),
                Shape::Kep2091 => Written::Kep2091,
            })
        }
        ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy") if name(object) == "default" => match shape(object, SHIPPED)? {
            Shape::Early => Some(Written::BaselineAdminNetworkPolicy(Peers::Early)),
            Shape::Late => Some(Written::BaselineAdminNetworkPolicy(Peers::Late)),
            Shape::Kep2091 => None,
        },
        _ => None,
    }
}

/// The one of some shapes that the author names, or the first of them, if every field can belong to it. Without a peer that decides it
/// nothing differs between those that were shipped.
fn shape(object: &Value, of: &[Shape]) -> Option<Shape> {
    let mut possible = of.to_vec();
    if let Some(named) = at(object, "/metadata/annotations").get("palisade.dev/shape") {
        let named = match named.as_str()? {
            "v0.1.0" => Shape::Early,
            "v0.1.7" => Shape::Late,
            "kep2091" => Shape::Kep2091,
            _ => return None,
        };
        possible.retain(|it| *it == named);
    } else if has_empty_namespaces(object) {
        // All namespaces as last shipped, and nothing that KEP-2091 knows.
        possible.retain(|it| *it != Shape::Early);
    }
    for sign in signs(object) {
        possible.retain(|it| sign.contains(it));
    }
    possible.first().copied()
}

const KEP_2091: &[Shape] = &[Shape::Kep2091];
const SHIPPED: &[Shape] = &[Shape::Late, Shape::Early];
const EARLY: &[Shape] = &[Shape::Early];
const LATE: &[Shape] = &[Shape::Late];

/// What each field that says something about the shape allows for.
fn signs(object: &Value) -> Vec<&'static [Shape]> {
    let mut signs = Vec::new();
    let mut sign = |holder: &Value, fields: &[&str], means| {
        if fields.iter().any(|field| holder.get(*field).is_some_and(|it| !it.is_null())) {
            signs.push(means);
        }
    };
    sign(at(object, "/spec/subject"), &["namespaceSelector", "namespaceAndPodSelector"], KEP_2091);
    sign(at(object, "/spec/subject"), &["namespaces", "pods"], SHIPPED);
    for (rules, peers) in [("/spec/ingress", "/from"), ("/spec/egress", "/to")] {
        for rule in items(object, rules) {
            sign(rule, &["l4Selector"], KEP_2091);
            sign(rule, &["ports"], SHIPPED);
            for peer in items(rule, peers) {
                sign(peer, &["namespacedPods"], KEP_2091);
                sign(peer, &["pods"], SHIPPED);
                sign(peer, &["networks", "nodes", "domainNames"], LATE);
                sign(at(peer, "/pods"), &["namespaces"], EARLY);
                sign(at(peer, "/pods"), &["namespaceSelector"], LATE);
                let namespaces = at(peer, "/namespaces");
                sign(namespaces, &["self", "notSelf"], KEP_2091);
                sign(namespaces, &["matchLabels", "matchExpressions"], LATE);
                sign(namespaces, &["namespaceSelector", "sameLabels", "notSameLabels"], &[Shape::Early, Shape::Kep2091]);
            }
        }
    }
    signs
}

fn has_empty_namespaces(object: &Value) -> bool {
    let is_empty = |peer: &Value| at(peer, "/namespaces").as_object().is_some_and(|it| it.values().all(Value::is_null));
    let has = |rules, peers| items(object, rules).iter().any(|rule| items(rule, peers).iter().any(is_empty));
    has("/spec/ingress", "/from") || has("/spec/egress", "/to")
}
