//! Raw objects of one network, as if that network were the pod network.
//!
//! The third judge knows no networks. It is asked about objects in which each pod has its addresses on one network and only policies of that network are left,
//! so that it says what a policy means there without anything that the product does about networks.

use serde_json::{Value, json};

use crate::objects::Objects;

const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const POLICY_FOR: &str = "k8s.v1.cni.cncf.io/policy-for";

impl Objects {
    /// The objects of a network by its name, `NAMESPACE/NAME`; None for the pod network.
    pub fn on_network(&self, network: Option<&str>) -> Objects {
        let kept = self.0.iter().filter(|it| !is_policy(it) || is_about(it, network));
        match network {
            None => Objects(kept.cloned().collect()),
            Some(network) => Objects(kept.filter_map(|it| attached(it, network)).collect()),
        }
    }
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Value::as_str)
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

fn is_policy(object: &Value) -> bool {
    text(object, "/kind").is_some_and(|it| it.ends_with("NetworkPolicy"))
}

/// `NAMESPACE/NAME` of a reference. A cluster policy has no namespace of its own.
fn full_name(object: &Value, reference: &str) -> Option<String> {
    let is_cluster_policy = is_policy(object) && text(object, "/kind") != Some("NetworkPolicy");
    match reference.contains('/') {
        true => Some(reference.to_owned()),
        false if is_cluster_policy => None,
        false => Some(format!("{}/{reference}", text(object, "/metadata/namespace").unwrap_or("default"))),
    }
}

fn is_about(policy: &Value, network: Option<&str>) -> bool {
    let named = annotation(policy, POLICY_FOR);
    match (named, network) {
        (None, network) => network.is_none(),
        (Some(_), None) => false,
        (Some(named), Some(network)) => named.split(',').filter_map(|it| full_name(policy, it.trim())).any(|it| it == network),
    }
}

/// The object on a network. None for one that is not there: nodes, Services and whatever has no attachment.
fn attached(object: &Value, network: &str) -> Option<Value> {
    if text(object, "/kind") == Some("Namespace") || is_policy(object) {
        return Some(object.clone());
    }
    if text(object, "/kind") != Some("Pod") || object.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)) {
        return None;
    }
    let status: Vec<Value> = serde_json::from_str(annotation(object, STATUS)?).ok()?;
    let is_there = |it: &&Value| {
        it.get("default") != Some(&Value::Bool(true))
            && text(it, "/name").and_then(|it| full_name(object, it)).is_some_and(|it| it == network)
    };
    let mut there = status.iter().filter(is_there).peekable();
    there.peek()?;
    let addresses: Vec<&Value> = there.filter_map(|it| it.get("ips")?.as_array()).flatten().collect();
    let mut pod = object.clone();
    let addresses: Vec<Value> = addresses.into_iter().map(|it| json!({ "ip": it })).collect();
    // A merge patch removes what it sets to null.
    let podless =
        json!({ "status": { "podIP": null, "podIPs": addresses, "hostIP": null, "hostIPs": null }, "spec": { "nodeName": null } });
    json_patch::merge(&mut pod, &podless);
    Some(pod)
}
