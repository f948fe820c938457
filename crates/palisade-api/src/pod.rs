//! Pods, the workloads that make them, their namespaces and nodes. Only what policy needs is read of each.

use std::net::IpAddr;

use ipnet::IpNet;
use palisade_model::{ContainerPort, Labels};

use crate::meta::Meta;
use crate::network_policy::Spelling;
use crate::part::Part;
use crate::problem::Consequence;
use crate::read::Reader;
use crate::syntax;
use crate::tree::Node as Tree;

/// What a pod is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTemplate {
    pub host_network: bool,
    pub node_name: Option<String>,
    /// Of all containers and of sidecars.
    pub ports: Vec<ContainerPort>,
}

/// A Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub meta: Meta,
    pub template: PodTemplate,
    pub phase: Phase,
    /// The primary address first.
    pub addresses: Vec<IpAddr>,
    /// Addresses of its node, as the pod's status has them.
    pub host_addresses: Vec<IpAddr>,
    /// False only if the pod says that it is not ready, or not even running.
    pub ready: bool,
}

/// Whether a pod's containers still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Running, and saying so.
    Running,
    /// Pending, unknown or not said.
    Live,
    /// Succeeded or failed: its address may belong to another pod by now.
    Completed,
}

/// A workload, as the pods it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub kind: &'static str,
    pub meta: Meta,
    pub labels: Labels,
    pub template: PodTemplate,
}

/// A Namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    pub meta: Meta,
}

/// A Node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub meta: Meta,
    /// Those of the cluster's own network first.
    pub addresses: Vec<IpAddr>,
    /// Where it says that its pods have their addresses from.
    pub pod_cidrs: Vec<IpNet>,
}

/// Where an address of a node is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Inside,
    Outside,
}

const OBJECT: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
const POD_SPEC: &[&str] = &["hostNetwork", "nodeName", "containers", "initContainers", "ephemeralContainers"];
const CONTAINER: &[&str] = &["name", "image", "ports", "restartPolicy"];
const CONTAINER_PORT: &[&str] = &["name", "containerPort", "hostPort", "hostIP", "protocol"];
const STATUS: &[&str] = &["phase", "podIP", "podIPs", "hostIP", "hostIPs", "conditions"];

/// The parts of pods, workloads and nodes that are read here. A pod of an API server is mostly environment, volumes and statuses of containers.
const POD_SPEC_PART: Part =
    Part::Known(POD_SPEC, &[("containers", CONTAINER_PART), ("initContainers", CONTAINER_PART), ("ephemeralContainers", Part::Nothing)]);
const CONTAINER_PART: Part = Part::Known(CONTAINER, &[]);
const TEMPLATE_PART: Part = Part::Every(&[("metadata", Part::METADATA), ("spec", POD_SPEC_PART)]);
const WORKLOAD_SPEC_PART: Part = Part::Known(&["template"], &[("template", TEMPLATE_PART)]);
const STATUS_PART: Part = Part::Known(STATUS, &[("conditions", Part::Known(&["type", "status"], &[]))]);
const JOB_TEMPLATE_PART: Part = Part::Known(&["spec"], &[("spec", WORKLOAD_SPEC_PART)]);
pub(crate) static POD_PART: Part = Part::Every(&[("metadata", Part::METADATA), ("spec", POD_SPEC_PART), ("status", STATUS_PART)]);
pub(crate) static WORKLOAD_PART: Part =
    Part::Every(&[("metadata", Part::METADATA), ("spec", WORKLOAD_SPEC_PART), ("status", Part::Nothing)]);
pub(crate) static CRON_JOB_PART: Part = Part::Every(&[
    ("metadata", Part::METADATA),
    ("spec", Part::Known(&["jobTemplate"], &[("jobTemplate", JOB_TEMPLATE_PART)])),
    ("status", Part::Nothing),
]);
pub(crate) static NODE_PART: Part = Part::Every(&[
    ("metadata", Part::METADATA),
    ("spec", Part::Known(&["podCIDRs", "podCIDR"], &[])),
    ("status", Part::Known(&["addresses"], &[])),
]);

impl Reader {
    pub(crate) fn namespace(&mut self, node: &Tree<'_>) -> Option<Namespace> {
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        Some(Namespace { meta: self.meta(node) })
    }

    pub(crate) fn node(&mut self, node: &Tree<'_>) -> Option<Node> {
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        let meta = self.meta(node);
        let addresses = self.optional(&fields, "status", |r, node| {
            let fields = r.fields(node)?;
            r.no_slips(&fields, &["addresses"]);
            Some(r.list(&fields, "addresses", Reader::node_address))
        });
        let mut addresses: Vec<(Side, IpAddr)> = addresses.unwrap_or_default().into_iter().flatten().collect();
        // The cluster reaches its nodes from the inside, in whatever order their addresses are listed.
        addresses.sort_by_key(|(side, _)| *side);
        let pod_cidrs = self.optional(&fields, "spec", Reader::pod_cidrs).unwrap_or_default();
        Some(Node { meta, addresses: addresses.into_iter().map(|(_, address)| address).collect(), pod_cidrs })
    }

    /// A list, or the single form of it.
    fn pod_cidrs<'n>(&mut self, node: &'n Tree<'n>) -> Option<Vec<IpNet>> {
        let fields = self.fields(node)?;
        self.no_slips(&fields, &["podCIDRs", "podCIDR"]);
        let mut cidrs = self.list(&fields, "podCIDRs", |r, node| r.cidr(node, Spelling::Stored));
        if cidrs.is_empty() {
            cidrs.extend(self.optional(&fields, "podCIDR", |r, node| r.cidr(node, Spelling::Stored)));
        }
        Some(cidrs)
    }

    /// Host names are addresses too; policy only knows the numeric ones.
    fn node_address<'n>(&mut self, node: &'n Tree<'n>) -> Option<Option<(Side, IpAddr)>> {
        let fields = self.fields(node)?;
        self.only(&fields, &["type", "address"]);
        let kind = self.optional(&fields, "type", Reader::string);
        let text = self.required(&fields, "address", Reader::string)?;
        match (text.parse(), kind) {
            (Ok(address), Some("InternalIP")) => Some(Some((Side::Inside, address))),
            (Ok(address), _) => Some(Some((Side::Outside, address))),
            (Err(_), Some("Hostname" | "InternalDNS" | "ExternalDNS")) => Some(None),
            (Err(_), _) => {
                self.invalid(node.span, format!("`{text}` is not an IP address"));
                None
            }
        }
    }

    pub(crate) fn pod(&mut self, node: &Tree<'_>) -> Option<Pod> {
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        let meta = self.meta(node);
        let template = self.optional(&fields, "spec", Reader::pod_spec).unwrap_or_default();
        let mut pod = Pod { meta, template, phase: Phase::Live, addresses: Vec::new(), host_addresses: Vec::new(), ready: true };
        self.optional(&fields, "status", |r, node| r.pod_status(node, &mut pod));
        Some(pod)
    }

    fn pod_status<'n>(&mut self, node: &'n Tree<'n>, pod: &mut Pod) -> Option<()> {
        let fields = self.fields(node)?;
        self.no_slips(&fields, STATUS);
        let phase = self.optional(&fields, "phase", Reader::string);
        pod.phase = match phase {
            Some("Succeeded" | "Failed") => Phase::Completed,
            Some("Running") => Phase::Running,
            Some(_) | None => Phase::Live,
        };
        pod.addresses = self.addresses(&fields, "podIPs", "podIP");
        pod.host_addresses = self.addresses(&fields, "hostIPs", "hostIP");
        let ready = self.list(&fields, "conditions", |r, node| {
            let fields = r.fields(node)?;
            let kind = r.optional(&fields, "type", Reader::string)?;
            let status = r.optional(&fields, "status", Reader::string)?;
            Some(kind != "Ready" || status != "False")
        });
        pod.ready = phase != Some("Pending") && ready.into_iter().all(|ready| ready);
        Some(())
    }

    /// A list of `{ip: …}`, or the single form of it.
    fn addresses<'n>(&mut self, fields: &crate::read::Fields<'n>, plural: &'static str, single: &'static str) -> Vec<IpAddr> {
        let mut addresses = self.list(fields, plural, |r, node| {
            let fields = r.fields(node)?;
            r.required(&fields, "ip", Reader::address)
        });
        if addresses.is_empty() {
            addresses.extend(self.optional(fields, single, Reader::address));
        }
        addresses
    }

    pub(crate) fn address<'n>(&mut self, node: &'n Tree<'n>) -> Option<IpAddr> {
        let text = self.string(node)?;
        if text.is_empty() {
            return None;
        }
        let address = text.parse().ok();
        if address.is_none() {
            self.invalid(node.span, format!("`{text}` is not an IP address"));
        }
        address
    }

    fn pod_spec<'n>(&mut self, node: &'n Tree<'n>) -> Option<PodTemplate> {
        let fields = self.fields(node)?;
        self.no_slips(&fields, POD_SPEC);
        let host_network = self.optional(&fields, "hostNetwork", |r, node| r.boolean(node)).unwrap_or(false);
        let node_name = self.optional(&fields, "nodeName", Reader::string).filter(|name| !name.is_empty()).map(str::to_owned);
        let mut ports: Vec<ContainerPort> =
            self.list(&fields, "containers", |r, node| r.container(node, true)).into_iter().flatten().collect();
        // SPEC: semantics 1.5: sidecars count, ordinary init containers do not.
        ports.extend(self.list(&fields, "initContainers", |r, node| r.container(node, false)).into_iter().flatten());
        Some(PodTemplate { host_network, node_name, ports })
    }

    fn container<'n>(&mut self, node: &'n Tree<'n>, ordinary: bool) -> Option<Vec<ContainerPort>> {
        let fields = self.fields(node)?;
        self.no_slips(&fields, CONTAINER);
        let ports = self.list(&fields, "ports", Reader::container_port);
        let sidecar = self.optional(&fields, "restartPolicy", Reader::string) == Some("Always");
        Some(if ordinary || sidecar { ports } else { Vec::new() })
    }

    fn container_port<'n>(&mut self, node: &'n Tree<'n>) -> Option<ContainerPort> {
        let fields = self.fields(node)?;
        self.only(&fields, CONTAINER_PORT);
        let name = self.optional(&fields, "name", |r, node| r.checked(node, syntax::port_name));
        let port = self.required(&fields, "containerPort", |r, node| r.port(node))?;
        let protocol = self.optional(&fields, "protocol", Reader::port_protocol);
        if fields.get("protocol").is_some() && protocol.is_none() {
            return None;
        }
        Some(ContainerPort { name: name.map(Into::into), protocol: protocol.unwrap_or(palisade_model::PortProtocol::Tcp), port })
    }

    /// A workload whose pod template stands at `spec.template`, or at `spec.jobTemplate.spec.template` of a CronJob.
    pub(crate) fn workload(&mut self, kind: &'static str, node: &Tree<'_>) -> Option<Workload> {
        let fields = self.fields(node)?;
        self.only(&fields, OBJECT);
        let meta = self.meta(node);
        let template = match kind {
            "CronJob" => self.inner(node, &["spec", "jobTemplate", "spec", "template"]),
            _ => self.inner(node, &["spec", "template"]),
        };
        let Some((path, template)) = template else {
            self.within("spec", |r| {
                let message = "no pod template, so this stands for no pods";
                r.problem(Consequence::Narrowed, "no-template", node.span, message, None);
            });
            return None;
        };
        self.deeper(path, |r| {
            let fields = r.fields(template)?;
            r.only(&fields, &["metadata", "spec"]);
            let labels = r.meta(template).labels;
            let template = r.optional(&fields, "spec", Reader::pod_spec).unwrap_or_default();
            Some(Workload { kind, meta, labels, template })
        })
    }

    /// Follows fields down, refusing misspellings of each on the way.
    fn inner<'n>(&mut self, node: &'n Tree<'n>, path: &'static [&'static str]) -> Option<(&'static [&'static str], &'n Tree<'n>)> {
        let mut at = node;
        for name in path {
            let fields = self.fields(at)?;
            self.no_slips(&fields, std::slice::from_ref(name));
            at = fields.get(name)?;
        }
        Some((path, at))
    }

    fn deeper<T>(&mut self, path: &'static [&'static str], body: impl FnOnce(&mut Reader) -> T) -> T {
        match path.split_first() {
            Some((first, rest)) => self.within(*first, |r| r.deeper(rest, body)),
            None => body(self),
        }
    }
}
