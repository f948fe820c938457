//! Who is who: pods, workloads that stand for pods, nodes, and the party behind a name or an address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::View;
use super::read::{Labels, at, is_kind, items, labels, lenient_address, name, namespace, port_number, port_protocol, text};
use super::shapes::{Written, written};
use crate::objects::Objects;
use crate::scenario::{Party, RawProtocol};

/// The objects, with the pods found in them.
pub(super) struct World<'a> {
    pub(super) objects: &'a [Value],
    /// Pods first, then the workloads that have none. Completed ones are here too.
    pub(super) pods: Vec<Pod<'a>>,
    pub(super) network_policies: Vec<&'a Value>,
    pub(super) cluster_policies: Vec<ClusterPolicy<'a>>,
    /// Of every namespace that has a pod.
    namespaces: BTreeMap<&'a str, Labels<'a>>,
}

/// A policy of the Admin or the Baseline tier.
#[derive(Clone, Copy)]
pub(super) struct ClusterPolicy<'a> {
    pub(super) written: Written,
    pub(super) policy: &'a Value,
}

/// What policies compare: the labels of a peer, and those of the subject. What is not a pod has no labels.
pub(super) struct Ends<'a> {
    pub(super) is_pod: bool,
    pub(super) namespace: &'a Labels<'a>,
    pub(super) pod: &'a Labels<'a>,
    pub(super) subject_namespace: &'a Labels<'a>,
    pub(super) subject_pod: &'a Labels<'a>,
    pub(super) in_one_namespace: bool,
}

/// A Pod, or a workload that stands for the pods it would make.
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// What holds `metadata.labels` and `spec`: the Pod itself, or the workload's template.
    template: &'a Value,
    /// The Pod object; null for a workload.
    object: &'a Value,
    pub(super) labels: Labels<'a>,
}

/// One end of a connection.
#[derive(Clone, Copy)]
pub(super) enum Endpoint<'a> {
    /// A live pod with a network of its own.
    Pod(&'a Pod<'a>),
    /// A node, or a host-network pod on it. The name is unknown for a pod that is not scheduled.
    Node(Option<&'a str>),
    Outside,
}

/// A party that was found, with the addresses it may use.
pub(super) struct Located<'a> {
    pub(super) endpoint: Endpoint<'a>,
    addresses: Vec<IpAddr>,
}

/// A party as the packet shows it.
pub(super) struct Side<'a> {
    pub(super) endpoint: Endpoint<'a>,
    pub(super) address: Option<IpAddr>,
}

/// Where the kinds of workloads keep their pod template.
const WORKLOADS: [(&str, &str, &str); 7] = [
    ("apps/v1", "Deployment", "/spec/template"),
    ("apps/v1", "StatefulSet", "/spec/template"),
    ("apps/v1", "DaemonSet", "/spec/template"),
    ("apps/v1", "ReplicaSet", "/spec/template"),
    ("v1", "ReplicationController", "/spec/template"),
    ("batch/v1", "Job", "/spec/template"),
    ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
];

static NULL: Value = Value::Null;
static NO_LABELS: Labels<'static> = BTreeMap::new();

impl<'a> World<'a> {
    pub(super) fn read(objects: &'a Objects) -> World<'a> {
        let objects = objects.0.as_slice();
        let mut pods: Vec<Pod<'a>> = objects
            .iter()
            .filter(|object| is_kind(object, "v1", "Pod"))
            .map(|object| Pod { template: object, object, labels: labels(object), ..Pod::of(object) })
            .collect();
        let owners = owners_of_pods(objects);
        for (version, kind, path) in WORKLOADS {
            let workloads = objects.iter().filter(|object| is_kind(object, version, kind));
            for workload in workloads.filter(|it| !owners.iter().any(|owner| owner.is(it))) {
                let template = at(workload, path);
                pods.push(Pod { template, labels: labels(template), ..Pod::of(workload) });
            }
        }
        let ours = || objects.iter().filter(|it| is_ours(it));
        World {
            objects,
            network_policies: ours().filter(|it| is_kind(it, "networking.k8s.io/v1", "NetworkPolicy")).collect(),
            cluster_policies: ours().filter_map(|policy| Some(ClusterPolicy { written: written(policy)?, policy })).collect(),
            namespaces: pods.iter().map(|pod| (pod.namespace, namespace_labels(objects, pod.namespace))).collect(),
            pods,
        }
    }

    /// The labels of the namespace of a pod.
    pub(super) fn namespace_labels(&self, pod: &Pod<'_>) -> &Labels<'a> {
        self.namespaces.get(pod.namespace).unwrap_or(&NO_LABELS)
    }

    /// The labels of a node; a node that is known only from its pods has none.
    pub(super) fn node_labels(&self, node: Option<&str>) -> Labels<'a> {
        node.and_then(|node| self.node(node)).map(labels).unwrap_or_default()
    }

    /// Finds a party that is not a Service.
    pub(super) fn locate(&'a self, party: &Party) -> Result<Located<'a>, String> {
        match party {
            Party::Pod { namespace, name } => self.pod(namespace, name),
            Party::Node(name) => self.named_node(name),
            Party::Address(address) => Ok(self.owner(*address)),
            Party::Service { namespace, name } => Err(format!("`svc/{namespace}/{name}`: only a destination can be a Service")),
        }
    }

    /// What a pod that is not completed is on the network.
    pub(super) fn locate_pod(&self, pod: &'a Pod<'a>) -> Located<'a>
    where
        Self: 'a,
    {
        if !pod.is_host_network() {
            return Located { endpoint: Endpoint::Pod(pod), addresses: pod.addresses() };
        }
        let addresses = pod.node().map_or_else(|| pod.host_addresses(), |node| self.node_addresses(node));
        Located { endpoint: Endpoint::Node(pod.node()), addresses }
    }

    fn pod(&'a self, namespace: &str, name: &str) -> Result<Located<'a>, String> {
        let mut found = self.pods.iter().filter(|it| it.namespace == namespace && it.name == name);
        let pod = found.next().ok_or_else(|| format!("`{namespace}/{name}`: no such pod"))?;
        if pod.object.is_null() && found.next().is_some() {
            return Err(format!("`{namespace}/{name}`: more than one workload has this name"));
        }
        if pod.is_completed() {
            return Err(format!("`{namespace}/{name}`: the pod is completed"));
        }
        Ok(self.locate_pod(pod))
    }

    fn named_node(&'a self, node: &str) -> Result<Located<'a>, String> {
        let known = self.node_names().into_iter().find(|it| *it == node);
        let known = known.ok_or_else(|| format!("`node/{node}`: no such node"))?;
        Ok(Located { endpoint: Endpoint::Node(Some(known)), addresses: self.node_addresses(known) })
    }

    fn owner(&'a self, address: IpAddr) -> Located<'a> {
        let live = || self.pods.iter().filter(|pod| !pod.is_completed());
        let claimants = live().filter(|pod| !pod.is_host_network() && pod.addresses().contains(&address));
        // Of two pods that claim an address the running one has it.
        let pod = claimants
            .min_by_key(|pod| (!pod.is_running(), pod.is_ready() && pod.is_terminating(), !pod.is_ready(), pod.namespace, pod.name));
        let node = || self.node_names().into_iter().find(|node| self.node_addresses(node).contains(&address));
        let unplaced = || live().any(|pod| pod.is_host_network() && pod.node().is_none() && pod.host_addresses().contains(&address));
        let endpoint = match (pod, node()) {
            (Some(pod), _) => Endpoint::Pod(pod),
            (None, Some(node)) => Endpoint::Node(Some(node)),
            (None, None) if unplaced() => Endpoint::Node(None),
            (None, None) => Endpoint::Outside,
        };
        Located { endpoint, addresses: vec![address] }
    }

    /// Nodes that have an object or a pod, by name.
    fn node_names(&self) -> BTreeSet<&'a str> {
        let objects = self.objects.iter().filter(|it| is_kind(it, "v1", "Node")).map(name);
        objects.chain(self.pods.iter().filter_map(Pod::node)).collect()
    }

    /// The addresses of a node: those of its object, those of the inside first, and what its pods say of it.
    fn node_addresses(&self, node: &str) -> Vec<IpAddr> {
        let (inside, others): (Vec<&Value>, Vec<&Value>) = self
            .node(node)
            .map_or(&[][..], |it| items(it, "/status/addresses"))
            .iter()
            .partition(|it| text(it, "/type") == Some("InternalIP"));
        let own = inside.into_iter().chain(others).filter_map(|it| lenient_address(text(it, "/address")?));
        let pods = self.pods.iter().filter(|pod| pod.node() == Some(node) && !pod.is_completed());
        let mut addresses = Vec::new();
        for address in own.chain(pods.flat_map(Pod::host_addresses)) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    fn node(&self, node: &str) -> Option<&'a Value> {
        self.objects.iter().find(|it| is_kind(it, "v1", "Node") && name(it) == node)
    }
}

impl<'a> Ends<'a> {
    pub(super) fn of(world: &'a World<'a>, view: &'a View<'a>, peer: Endpoint<'a>) -> Ends<'a> {
        let (peer, subject) = (peer.pod(), view.subject);
        Ends {
            is_pod: peer.is_some(),
            namespace: peer.map_or(&NO_LABELS, |it| world.namespace_labels(it)),
            pod: peer.map_or(&NO_LABELS, |it| &it.labels),
            subject_namespace: world.namespace_labels(subject),
            subject_pod: &subject.labels,
            in_one_namespace: peer.is_some_and(|it| it.namespace == subject.namespace),
        }
    }
}

impl<'a> Endpoint<'a> {
    fn pod(self) -> Option<&'a Pod<'a>> {
        match self {
            Endpoint::Pod(pod) => Some(pod),
            Endpoint::Node(_) | Endpoint::Outside => None,
        }
    }
}

impl<'a> Located<'a> {
    /// As a destination: reached at its first address of a family that the source has too.
    pub(super) fn as_destination_of(&self, source: &Located<'_>) -> Side<'a> {
        let shared = |to: &&IpAddr| source.addresses.iter().any(|from| from.is_ipv4() == to.is_ipv4());
        let address = self.addresses.iter().find(shared).or(self.addresses.first());
        Side { endpoint: self.endpoint, address: address.copied() }
    }

    /// As a source: speaks from its first address of the destination's family.
    pub(super) fn as_source_to(&self, destination: &Side<'_>) -> Side<'a> {
        let address = match destination.address {
            Some(to) => self.addresses.iter().find(|from| from.is_ipv4() == to.is_ipv4()),
            None => self.addresses.first(),
        };
        Side { endpoint: self.endpoint, address: address.copied() }
    }
}

impl<'a> Pod<'a> {
    fn of(object: &'a Value) -> Pod<'a> {
        Pod { namespace: namespace(object), name: name(object), template: &NULL, object: &NULL, labels: Labels::new() }
    }

    /// Whether this stands for the pods of a workload, and not for one pod.
    pub(super) fn is_workload(&self) -> bool {
        self.object.is_null()
    }

    pub(super) fn is_host_network(&self) -> bool {
        at(self.template, "/spec/hostNetwork").as_bool() == Some(true)
    }

    pub(super) fn is_completed(&self) -> bool {
        matches!(text(self.object, "/status/phase"), Some("Succeeded" | "Failed"))
    }

    pub(super) fn is_terminating(&self) -> bool {
        text(self.object, "/metadata/deletionTimestamp").is_some()
    }

    /// A pod that says nothing about being ready is, unless it has not started.
    pub(super) fn is_ready(&self) -> bool {
        let mut conditions = items(self.object, "/status/conditions").iter();
        text(self.object, "/status/phase") != Some("Pending")
            && !conditions.any(|it| text(it, "/type") == Some("Ready") && text(it, "/status") == Some("False"))
    }

    fn is_running(&self) -> bool {
        text(self.object, "/status/phase") == Some("Running")
    }

    pub(super) fn node(&self) -> Option<&'a str> {
        text(self.template, "/spec/nodeName")
    }

    /// The number and protocol of every port of this name. Ordinary init containers have no part in it:
    /// they are gone when the pod serves.
    pub(super) fn ports_named(&self, name: &str) -> Vec<(u16, RawProtocol)> {
        let sidecars = items(self.template, "/spec/initContainers").iter().filter(|it| text(it, "/restartPolicy") == Some("Always"));
        items(self.template, "/spec/containers")
            .iter()
            .chain(sidecars)
            .flat_map(|container| items(container, "/ports"))
            .filter(|port| text(port, "/name") == Some(name))
            .filter_map(|port| Some((port_number(at(port, "/containerPort"))?, port_protocol(port)?)))
            .collect()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.reported("/status/podIPs", "/status/podIP")
    }

    /// What a pod reports of its node: the node's addresses, which are its own too on the node's network.
    fn host_addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = self.reported("/status/hostIPs", "/status/hostIP");
        if self.is_host_network() {
            let own = self.addresses().into_iter().filter(|own| !addresses.contains(own)).collect::<Vec<_>>();
            addresses.extend(own);
        }
        addresses
    }

    /// A list of addresses, or the single one.
    fn reported(&self, list: &str, single: &str) -> Vec<IpAddr> {
        let all: Vec<IpAddr> = items(self.object, list).iter().filter_map(|it| lenient_address(text(it, "/ip")?)).collect();
        let one = || text(self.object, single).and_then(lenient_address);
        if all.is_empty() { one().into_iter().collect() } else { all }
    }
}

/// The labels of a namespace, with the one that the API server sets on each.
fn namespace_labels<'a>(objects: &'a [Value], namespace: &'a str) -> Labels<'a> {
    let object = objects.iter().find(|object| is_kind(object, "v1", "Namespace") && name(object) == namespace);
    let mut labels = object.map(labels).unwrap_or_default();
    labels.insert("kubernetes.io/metadata.name", namespace);
    labels
}

/// The object that an owner reference names.
struct Owner<'a> {
    namespace: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl Owner<'_> {
    fn is(&self, object: &Value) -> bool {
        self.namespace == namespace(object) && Some(self.kind) == text(object, "/kind") && self.name == name(object)
    }
}

/// Every owner of a pod, and the owners of those: a Deployment owns its pods through a ReplicaSet.
fn owners_of_pods(objects: &[Value]) -> Vec<Owner<'_>> {
    let mut owners: Vec<Owner<'_>> = objects.iter().filter(|it| is_kind(it, "v1", "Pod")).flat_map(owners_of).collect();
    // Workloads nest two deep, so two rounds reach the top.
    for _ in 0..2 {
        let above: Vec<Owner<'_>> =
            objects.iter().filter(|object| owners.iter().any(|owner| owner.is(object))).flat_map(owners_of).collect();
        owners.extend(above);
    }
    owners
}

fn owners_of(object: &Value) -> impl Iterator<Item = Owner<'_>> {
    items(object, "/metadata/ownerReferences").iter().filter_map(|reference| {
        let kind = text(reference, "/kind")?;
        Some(Owner { namespace: namespace(object), kind, name: text(reference, "/name")? })
    })
}

/// A policy that names a controller is for that one alone.
fn is_ours(policy: &Value) -> bool {
    let label = policy.pointer("/metadata/labels").and_then(|it| it.get("networking.k8s.io/policy-controller-name"));
    label.is_none_or(|it| it.as_str() == Some("palisade"))
}
