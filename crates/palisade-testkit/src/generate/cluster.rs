//! Namespaces, nodes, pods, a workload and Services.

use serde_json::{Map, Value, json};

use super::vocabulary::{PLACE_LABELS, POD_LABELS, PORT_NAMES, PORTS, PROTOCOLS, labels};
use crate::random::Random;

/// The objects but the policies, and the names in them that a question can use.
pub(super) struct Cluster {
    pub(super) objects: Vec<Value>,
    pub(super) namespaces: Vec<&'static str>,
    /// Nodes that something is known of.
    pub(super) nodes: Vec<String>,
    /// Namespace and name of pods and workloads.
    pub(super) pods: Vec<(&'static str, String)>,
    pub(super) services: Vec<Service>,
    /// Addresses of pods and nodes.
    pub(super) addresses: Vec<String>,
}

/// A Service that leads to at least one pod.
pub(super) struct Service {
    pub(super) namespace: &'static str,
    pub(super) name: String,
    /// A pod behind it.
    pub(super) pod: String,
}

const NAMESPACES: [&str; 4] = ["x", "y", "z", "default"];

pub(super) fn cluster(random: &mut Random) -> Cluster {
    let namespaces: Vec<&'static str> = NAMESPACES.into_iter().take(random.between(2, 4)).collect();
    let mut cluster =
        Cluster { objects: Vec::new(), namespaces, nodes: Vec::new(), pods: Vec::new(), services: Vec::new(), addresses: Vec::new() };
    for name in cluster.namespaces.clone() {
        if random.percent(90) {
            let metadata = metadata(None, name, Value::Object(labels(random, PLACE_LABELS)));
            cluster.objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        }
    }
    for at in 1..=random.between(1, 3) {
        add_node(random, &mut cluster, at);
    }
    for at in 1..=random.between(3, 8) {
        add_pod(random, &mut cluster, at);
    }
    if random.percent(40) {
        add_deployment(random, &mut cluster);
    }
    for at in 1..=random.between(0, 2) {
        add_service(random, &mut cluster, at);
    }
    cluster
}

fn metadata(namespace: Option<&str>, name: &str, labels: Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    // An object without a namespace is in `default`.
    if let Some(namespace) = namespace.filter(|it| *it != "default") {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if labels != json!({}) {
        metadata.insert("labels".to_owned(), labels);
    }
    Value::Object(metadata)
}

/// A node, or only its name, when no object describes it.
fn add_node(random: &mut Random, cluster: &mut Cluster, at: usize) {
    let name = format!("n{at}");
    cluster.nodes.push(name.clone());
    if random.percent(15) {
        return;
    }
    let mut addresses = vec![json!({"type": "Hostname", "address": name})];
    let mut add = |cluster: &mut Cluster, kind: &str, address: String| {
        addresses.push(json!({"type": kind, "address": address}));
        cluster.addresses.push(address);
    };
    if random.percent(25) {
        add(cluster, "ExternalIP", format!("198.51.100.{at}"));
    }
    add(cluster, "InternalIP", format!("172.18.0.{at}"));
    if random.percent(50) {
        add(cluster, "InternalIP", format!("fd01::{at}"));
    }
    let metadata = metadata(None, &name, Value::Object(labels(random, PLACE_LABELS)));
    cluster.objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": addresses}}));
}

fn add_pod(random: &mut Random, cluster: &mut Cluster, at: usize) {
    let Some(namespace) = random.pick(&cluster.namespaces).copied() else { return };
    let name = format!("p{at}");
    let node = random.percent(85).then(|| random.pick(&cluster.nodes).cloned()).flatten();
    let host = random.percent(12);
    let mut spec = pod_spec(random);
    if let Some(node) = &node {
        spec.insert("nodeName".to_owned(), node.as_str().into());
    }
    if host {
        spec.insert("hostNetwork".to_owned(), true.into());
    }
    let (mut status, addresses) = if host { host_status(node.as_deref()) } else { pod_status(random, at) };
    cluster.addresses.extend(addresses);
    let phase = random.of([None, Some("Running"), Some("Running"), Some("Running"), Some("Pending"), Some("Succeeded"), Some("Failed")]);
    if let Some(phase) = phase.filter(|it| !matches!(*it, "Succeeded" | "Failed") || random.percent(30)) {
        status.insert("phase".to_owned(), phase.into());
    }
    if random.percent(20) {
        let ready = random.of(["True", "False"]);
        status.insert("conditions".to_owned(), json!([{"type": "Ready", "status": ready}]));
    }
    let mut metadata = metadata(Some(namespace), &name, Value::Object(labels(random, POD_LABELS)));
    if random.percent(8) {
        json_patch::merge(&mut metadata, &json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}));
    }
    cluster.objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}));
    cluster.pods.push((namespace, name));
}

fn pod_status(random: &mut Random, at: usize) -> (Map<String, Value>, Vec<String>) {
    // Two pods that claim one address: seldom, and one of them may be gone.
    let at = if random.percent(4) { 1 } else { at };
    let (four, six) = (format!("10.0.0.{at}"), format!("fd00::{at}"));
    let addresses = match random.below(10) {
        0..4 => vec![four],
        4..6 => vec![six],
        6..8 => vec![four, six],
        8 => vec![six, four],
        _ => Vec::new(),
    };
    let mut status = Map::new();
    if let Some(first) = addresses.first() {
        if addresses.len() > 1 || random.percent(80) {
            status.insert("podIPs".to_owned(), addresses.iter().map(|it| json!({"ip": it})).collect());
        }
        status.insert("podIP".to_owned(), first.as_str().into());
    }
    (status, addresses)
}

/// A pod on the network of its node has the node's addresses.
fn host_status(node: Option<&str>) -> (Map<String, Value>, Vec<String>) {
    let address = match node {
        Some(node) => format!("172.18.0.{}", node.trim_start_matches('n')),
        None => "172.18.0.9".to_owned(),
    };
    let mut status = Map::new();
    status.insert("hostIP".to_owned(), address.as_str().into());
    status.insert("podIP".to_owned(), address.as_str().into());
    status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    (status, vec![address])
}

fn pod_spec(random: &mut Random) -> Map<String, Value> {
    let mut spec = Map::new();
    let containers: Vec<Value> = (0..random.of([1, 1, 2])).map(|at| container(random, &format!("c{at}"))).collect();
    spec.insert("containers".to_owned(), containers.into());
    if random.percent(25) {
        let mut init = container(random, "init");
        if random.percent(60) {
            json_patch::merge(&mut init, &json!({"restartPolicy": "Always"}));
        }
        spec.insert("initContainers".to_owned(), json!([init]));
    }
    spec
}

fn container(random: &mut Random, name: &str) -> Value {
    let port = |random: &mut Random| {
        let mut port = Map::new();
        port.insert("containerPort".to_owned(), random.of(PORTS).into());
        if random.percent(85) {
            port.insert("name".to_owned(), random.of(PORT_NAMES).into());
        }
        if random.percent(50) {
            port.insert("protocol".to_owned(), random.of(PROTOCOLS).into());
        }
        Value::Object(port)
    };
    let ports: Vec<Value> = (0..random.between(0, 3)).map(|_| port(random)).collect();
    json!({"name": name, "image": "image", "ports": ports})
}

/// A Deployment that stands for its pods, sometimes on the hosts' network.
fn add_deployment(random: &mut Random, cluster: &mut Cluster) {
    let Some(namespace) = random.pick(&cluster.namespaces).copied() else { return };
    let mut spec = pod_spec(random);
    if random.percent(10) {
        spec.insert("hostNetwork".to_owned(), true.into());
    }
    let template = json!({"metadata": {"labels": labels(random, POD_LABELS)}, "spec": spec});
    let metadata = metadata(Some(namespace), "deployed", json!({}));
    cluster.objects.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}));
    cluster.pods.push((namespace, "deployed".to_owned()));
}

fn add_service(random: &mut Random, cluster: &mut Cluster, at: usize) {
    let Some((namespace, pod)) = random.pick(&cluster.pods).cloned() else { return };
    let name = format!("s{at}");
    let is_pod = |it: &&Value| it.pointer("/metadata/name").and_then(Value::as_str) == Some(pod.as_str());
    let labels = cluster.objects.iter().find(is_pod).and_then(|it| it.pointer("/metadata/labels")?.as_object().cloned());
    let Some(selector) = labels.map(|it| it.into_iter().take(1).collect::<Map<String, Value>>()) else { return };
    let target = match random.below(3) {
        0 => Value::Null,
        1 => random.of(PORTS).into(),
        _ => random.of(PORT_NAMES).into(),
    };
    let port = json!({"port": random.of(PORTS), "protocol": random.of(PROTOCOLS), "targetPort": target});
    let mut spec = json!({"selector": selector, "ports": [port]});
    if random.percent(20) {
        json_patch::merge(&mut spec, &json!({"publishNotReadyAddresses": true}));
    }
    let metadata = metadata(Some(namespace), &name, json!({}));
    cluster.objects.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}));
    cluster.services.push(Service { namespace, name, pod });
}
