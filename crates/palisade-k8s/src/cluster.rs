//! Pods, workloads, nodes, services and namespaces into the model's nouns.

use std::collections::{BTreeMap, BTreeSet};

use palisade_api::{Body, OwnerReference, Phase, Pod, Service, Workload};
use palisade_model::{Endpoint, HostPod, Labels, Model, Namespace, Node, NodeId, Owner, PodName, Readiness, Running};

use crate::sources::ObjectKey;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// What the objects say about the cluster, without the policies.
pub(crate) fn model<'o>(objects: impl Iterator<Item = (&'o ObjectKey, &'o Body)> + Clone) -> Model {
    let mut nodes = nodes(objects.clone());
    let owners = Owners::of(objects.clone());
    let mut model = Model::default();
    for (key, body) in objects {
        match body {
            Body::Pod(pod) => add_pod(&mut model, &mut nodes, &owners, key, pod),
            Body::Workload(workload) => add_workload(&mut model, &mut nodes, &owners, key, workload),
            Body::Service(service) => model.services.push(service_of(key, service)),
            Body::Namespace(namespace) => {
                let mut labels = namespace.meta.labels.clone();
                // SPEC: semantics 1.12: the API server sets it on every namespace and keeps it.
                labels.set(NAME_LABEL, &key.name);
                model.namespaces.insert(key.name.clone(), Namespace { labels, assumed: false });
            }
            Body::NetworkPolicy(_)
            | Body::ClusterNetworkPolicy(_)
            | Body::AdminNetworkPolicy(_)
            | Body::BaselineAdminNetworkPolicy(_)
            | Body::Kep2091(_)
            | Body::Nothing(_) => {}
            Body::Node(node) => model.node_ranges.extend(&node.pod_cidrs),
        }
    }
    model.node_ranges.sort_unstable();
    model.node_ranges.dedup();
    model.endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    let order: BTreeMap<Box<str>, NodeId> = nodes.keys().enumerate().map(|(at, name)| (name.clone(), NodeId(at))).collect();
    for endpoint in &mut model.endpoints {
        endpoint.node = owners.node_of.get(&endpoint.name).and_then(|name| order.get(name)).copied();
    }
    model.nodes = nodes.into_values().collect();
    model.share_labels();
    model
}

/// Adds a namespace that something is in and no object describes.
pub(crate) fn assume_namespace(model: &mut Model, name: &str) {
    if !model.namespaces.contains_key(name) {
        let labels: Labels = [(NAME_LABEL, name)].into_iter().collect();
        model.namespaces.insert(name.into(), Namespace { labels, assumed: true });
    }
}

fn nodes<'o>(objects: impl Iterator<Item = (&'o ObjectKey, &'o Body)>) -> BTreeMap<Box<str>, Node> {
    let mut nodes = BTreeMap::new();
    let mut seen: Vec<(Box<str>, &Pod)> = Vec::new();
    for (key, body) in objects {
        match body {
            Body::Node(node) => {
                let (labels, addresses) = (node.meta.labels.clone(), node.addresses.clone());
                nodes.insert(key.name.clone(), Node { name: key.name.clone(), labels, addresses, host_pods: Vec::new(), assumed: false });
            }
            Body::Pod(pod) => seen.extend(pod.template.node_name.as_deref().map(|name| (name.into(), pod))),
            Body::NetworkPolicy(_)
            | Body::ClusterNetworkPolicy(_)
            | Body::AdminNetworkPolicy(_)
            | Body::BaselineAdminNetworkPolicy(_)
            | Body::Kep2091(_)
            | Body::Workload(_)
            | Body::Namespace(_)
            | Body::Service(_)
            | Body::Nothing(_) => {}
        }
    }
    for (name, pod) in seen {
        let node = nodes.entry(name.clone()).or_insert_with(|| assumed_node(&name));
        if pod.phase != Phase::Completed {
            let own = if pod.template.host_network { pod.addresses.as_slice() } else { &[] };
            add_addresses(node, pod.host_addresses.iter().chain(own).copied());
        }
    }
    nodes
}

fn assumed_node(name: &str) -> Node {
    let labels = [(HOSTNAME_LABEL, name)].into_iter().collect();
    Node { name: name.into(), labels, addresses: Vec::new(), host_pods: Vec::new(), assumed: true }
}

fn add_addresses(node: &mut Node, addresses: impl Iterator<Item = std::net::IpAddr>) {
    for address in addresses {
        if !node.addresses.contains(&address) {
            node.addresses.push(address);
        }
    }
}

fn add_pod(model: &mut Model, nodes: &mut BTreeMap<Box<str>, Node>, owners: &Owners, key: &ObjectKey, pod: &Pod) {
    let name = pod_name(key);
    // SPEC: semantics 1.12: a completed pod matches nothing; its address may already belong to another.
    let running = match pod.phase {
        Phase::Running => Running::Yes,
        Phase::Live => Running::NotSaid,
        Phase::Completed => {
            model.completed.push(name);
            return;
        }
    };
    let readiness = match (pod.meta.terminating, pod.ready) {
        (true, true) => Readiness::Terminating,
        (false, true) => Readiness::Ready,
        (true | false, false) => Readiness::NotReady,
    };
    let (labels, addresses, ports) = (pod.meta.labels.clone(), pod.addresses.clone(), pod.template.ports.clone());
    let owners = owners.of_pod(key, pod);
    if pod.template.host_network {
        // SPEC: semantics 1.7: its traffic is node traffic.
        let node = host_node(nodes, pod.template.node_name.as_deref(), &name);
        add_addresses(node, pod.host_addresses.iter().chain(&pod.addresses).copied());
        node.host_pods.push(HostPod { name, labels, ports, readiness, owners });
        return;
    }
    model.endpoints.push(Endpoint { name, labels, addresses, node: None, ports, owners, readiness, running });
}

/// SPEC: the pods of a workload differ in name and address only, so one endpoint stands for all of them until they are read one by one.
fn add_workload(model: &mut Model, nodes: &mut BTreeMap<Box<str>, Node>, owners: &Owners, key: &ObjectKey, workload: &Workload) {
    let known = workload.meta.owner.as_ref().is_some_and(|owner| owners.exists(key, owner));
    if known || owners.has_pods(key) {
        return;
    }
    let name = pod_name(key);
    let (labels, ports, readiness) = (workload.labels.clone(), workload.template.ports.clone(), Readiness::Ready);
    let owners = vec![Owner { kind: key.kind.clone(), name: key.name.clone() }];
    if workload.template.host_network {
        let node = host_node(nodes, workload.template.node_name.as_deref(), &name);
        node.host_pods.push(HostPod { name, labels, ports, readiness, owners });
        return;
    }
    let (addresses, running) = (Vec::new(), Running::NotSaid);
    model.endpoints.push(Endpoint { name, labels, addresses, node: None, ports, owners, readiness, running });
}

/// The node of a host-network pod; one is assumed for a pod that nobody has placed.
fn host_node<'n>(nodes: &'n mut BTreeMap<Box<str>, Node>, node: Option<&str>, pod: &PodName) -> &'n mut Node {
    let name: Box<str> = node.map_or_else(|| format!("(the node of {pod})").into(), Into::into);
    nodes.entry(name.clone()).or_insert_with(|| Node { labels: Labels::default(), ..assumed_node(&name) })
}

fn pod_name(key: &ObjectKey) -> PodName {
    PodName { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}

fn service_of(key: &ObjectKey, service: &Service) -> palisade_model::Service {
    palisade_model::Service {
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        reached: service.reached.clone(),
        kind: service.kind.clone(),
        ports: service.ports.clone(),
    }
}

/// Who owns whom, up to the outermost workload that is known.
pub(crate) struct Owners {
    /// Controller of each workload object; `None` for those at the top.
    above: BTreeMap<ObjectKey, Option<OwnerReference>>,
    /// Workloads that some pod belongs to, directly or not.
    populated: BTreeSet<ObjectKey>,
    node_of: BTreeMap<PodName, Box<str>>,
}

impl Owners {
    pub(crate) fn of<'o>(objects: impl Iterator<Item = (&'o ObjectKey, &'o Body)> + Clone) -> Owners {
        let mut owners = Owners { above: BTreeMap::new(), populated: BTreeSet::new(), node_of: BTreeMap::new() };
        for (key, body) in objects.clone() {
            if let Body::Workload(workload) = body {
                owners.above.insert(key.clone(), workload.meta.owner.clone());
            }
        }
        for (key, body) in objects {
            let Body::Pod(pod) = body else { continue };
            if let Some(node) = &pod.template.node_name {
                owners.node_of.insert(pod_name(key), node.as_str().into());
            }
            if pod.phase != Phase::Completed {
                let chain = owners.chain(key, pod);
                owners.populated.extend(chain);
            }
        }
        owners
    }

    fn exists(&self, child: &ObjectKey, owner: &OwnerReference) -> bool {
        self.above.contains_key(&sibling(child, &owner.kind, &owner.name))
    }

    fn has_pods(&self, workload: &ObjectKey) -> bool {
        self.populated.contains(workload)
    }

    /// The workloads above a pod, innermost first. The last one is what users know it by.
    pub(crate) fn chain(&self, key: &ObjectKey, pod: &Pod) -> Vec<ObjectKey> {
        let mut chain: Vec<ObjectKey> = Vec::new();
        let mut owner = pod.meta.owner.as_ref();
        while let Some(reference) = owner {
            let above = sibling(key, &reference.kind, &reference.name);
            if chain.contains(&above) {
                break;
            }
            owner = self.above.get(&above).and_then(Option::as_ref);
            chain.push(above);
        }
        let deployment = chain.last().and_then(|last| self.deployment_behind(last, pod));
        chain.extend(deployment);
        chain
    }

    /// A ReplicaSet that was not read is named after its Deployment and the template's hash, which the pod carries as a label.
    fn deployment_behind(&self, last: &ObjectKey, pod: &Pod) -> Option<ObjectKey> {
        let hash = pod.meta.labels.get("pod-template-hash")?;
        let unread = last.kind.as_ref() == "ReplicaSet" && self.above.get(last).is_none_or(Option::is_none);
        let name = last.name.strip_suffix(hash)?.strip_suffix('-')?;
        unread.then(|| sibling(last, "Deployment", name))
    }

    fn of_pod(&self, key: &ObjectKey, pod: &Pod) -> Vec<Owner> {
        self.chain(key, pod).into_iter().rev().map(|it| Owner { kind: it.kind, name: it.name }).collect()
    }
}

fn sibling(key: &ObjectKey, kind: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: kind.into(), namespace: key.namespace.clone(), name: name.into() }
}
