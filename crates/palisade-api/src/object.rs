//! Which object a tree is.

use palisade_model::Shape;

use crate::admin_network_policy::{AdminNetworkPolicy, BaselineAdminNetworkPolicy};
use crate::closed;
use crate::cluster_network_policy::ClusterNetworkPolicy;
use crate::kep2091::Kep2091Policy;
use crate::names;
use crate::network_policy::NetworkPolicy;
use crate::part::Part;
use crate::pod::{self, Namespace, Node, Pod, Workload};
use crate::problem::{Consequence, Problem};
use crate::read::{Reader, near};
use crate::service::Service;
use crate::shape;
use crate::tree;

/// A tree that was read, whatever came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// `apiVersion` as written.
    pub api_version: Option<String>,
    /// `kind` as written, or a word for what stands there.
    pub kind: String,
    /// `metadata.namespace` as written.
    pub namespace: Option<String>,
    /// `metadata.name` as written.
    pub name: Option<String>,
    pub body: Body,
    /// The closed form of a policy that is refused; see [`closed`].
    pub closed: Option<Box<Body>>,
    pub problems: Vec<Problem>,
}

/// What came of reading an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    NetworkPolicy(NetworkPolicy),
    ClusterNetworkPolicy(ClusterNetworkPolicy),
    AdminNetworkPolicy(AdminNetworkPolicy),
    BaselineAdminNetworkPolicy(BaselineAdminNetworkPolicy),
    /// An AdminNetworkPolicy as KEP-2091 proposed it.
    Kep2091(Kep2091Policy),
    Pod(Pod),
    Workload(Workload),
    Namespace(Namespace),
    Node(Node),
    Service(Service),
    /// Nothing: policy does not depend on it, or its problems say why it is refused.
    Nothing(Skipped),
}

/// Why nothing came of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// A kind that policy does not depend on.
    Irrelevant,
    /// Its problems say why.
    Refused,
}

/// Kinds that are read, by apiVersion.
const KINDS: &[(&str, &[&str])] = &[
    ("v1", &["Namespace", "Pod", "Node", "Service", "ReplicationController", "List"]),
    ("apps/v1", &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]),
    ("batch/v1", &["Job", "CronJob"]),
    ("networking.k8s.io/v1", &["NetworkPolicy"]),
    ("policy.networking.k8s.io/v1alpha2", &["ClusterNetworkPolicy"]),
    ("policy.networking.k8s.io/v1alpha1", &["AdminNetworkPolicy", "BaselineAdminNetworkPolicy"]),
    (names::KEP2091_API_VERSION, &["AdminNetworkPolicy"]),
];

/// API groups of other policy engines: their policies are not part of the verdict.
const FOREIGN_GROUPS: &[&str] =
    &["cilium.io/", "projectcalico.org/", "crd.projectcalico.org/", "crd.antrea.io/", "k8s.ovn.org/", "policy.antrea.io/"];

/// Reads one object. Lists are for the caller to take apart.
pub fn read_object(node: &tree::Node<'_>) -> Object {
    let text = |name: &str| node.get(name).and_then(tree::Node::as_str);
    let (version, kind) = (text("apiVersion"), text("kind"));
    let meta = |name: &str| node.get("metadata").and_then(|it| it.get(name)).and_then(tree::Node::as_str).map(str::to_owned);
    let mut reader = Reader::default();
    let body = match (version, kind) {
        (Some(version), Some(kind)) => reader.kind(version, kind, node),
        (None, None) => reader.not_an_object(node),
        (Some(_), None) => reader.lacks("kind", node),
        (None, Some(_)) => reader.lacks("apiVersion", node),
    };
    if let Some(body) = &body {
        reader.own_annotations(node, body);
        reader.pruned(node, body);
    }
    let refused = reader.problems.iter().any(|problem| problem.consequence == Consequence::Refused);
    let read = !matches!(body, Some(Body::Nothing(_)) | None);
    if read && !refused && meta("name").is_none_or(|name| name.is_empty()) {
        reader.nameless(node);
    }
    let (body, closed) = match body {
        Some(body) if !refused => (body, None),
        body => (Body::Nothing(Skipped::Refused), closed::body(version, kind, node, body, &reader.problems).map(Box::new)),
    };
    let kind = kind.unwrap_or("document").to_owned();
    let api_version = version.map(str::to_owned);
    Object { api_version, kind, namespace: meta("namespace"), name: meta("name"), body, closed, problems: reader.problems }
}

/// The part of a kind that is read.
pub(crate) fn part(version: &str, kind: &str) -> &'static Part {
    match (version, kind) {
        ("v1", "Pod") => &pod::POD_PART,
        ("v1", "Node") => &pod::NODE_PART,
        ("batch/v1", "CronJob") => &pod::CRON_JOB_PART,
        ("v1", "ReplicationController") | ("apps/v1", _) | ("batch/v1", "Job") => &pod::WORKLOAD_PART,
        _ => &Part::OBJECT,
    }
}

impl Reader {
    fn kind(&mut self, version: &str, kind: &str, node: &tree::Node<'_>) -> Option<Body> {
        match (version, kind) {
            ("networking.k8s.io/v1", "NetworkPolicy") => self.network_policy(node).map(Body::NetworkPolicy),
            ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy") => {
                self.cluster_network_policy(node).map(Body::ClusterNetworkPolicy)
            }
            ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy") => match self.shape(node, shape::ADMIN)? {
                Shape::Kep2091 => self.kep2091(node).map(Body::Kep2091),
                shape @ (Shape::Only | Shape::Early | Shape::Late) => self.admin_network_policy(node, shape).map(Body::AdminNetworkPolicy),
            },
            ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy") => {
                let shape = self.shape(node, shape::BASELINE)?;
                self.baseline_admin_network_policy(node, shape).map(Body::BaselineAdminNetworkPolicy)
            }
            (names::KEP2091_API_VERSION, "AdminNetworkPolicy") => {
                self.shape(node, shape::OWN_GROUP)?;
                self.kep2091(node).map(Body::Kep2091)
            }
            ("v1", "Namespace") => self.namespace(node).map(Body::Namespace),
            ("v1", "Pod") => self.pod(node).map(Body::Pod),
            ("v1", "Node") => self.node(node).map(Body::Node),
            ("v1", "Service") => self.service(node).map(Body::Service),
            ("apps/v1", "Deployment") => self.workload("Deployment", node).map(Body::Workload),
            ("apps/v1", "StatefulSet") => self.workload("StatefulSet", node).map(Body::Workload),
            ("apps/v1", "DaemonSet") => self.workload("DaemonSet", node).map(Body::Workload),
            ("apps/v1", "ReplicaSet") => self.workload("ReplicaSet", node).map(Body::Workload),
            ("v1", "ReplicationController") => self.workload("ReplicationController", node).map(Body::Workload),
            ("batch/v1", "Job") => self.workload("Job", node).map(Body::Workload),
            ("batch/v1", "CronJob") => self.workload("CronJob", node).map(Body::Workload),
            ("v1", "List") => self.list_of_nothing(node),
            _ => Some(self.other_kind(version, kind, node)),
        }
    }

    /// A kind that is not read. Most do not matter; policies do, and so do misspelt kinds.
    fn other_kind(&mut self, version: &str, kind: &str, node: &tree::Node<'_>) -> Body {
        let span = node.get("kind").map_or(node.span, |it| it.span);
        if FOREIGN_GROUPS.iter().any(|group| version.starts_with(group)) {
            let message = format!("`{version}` {kind} belongs to another policy engine and is no part of the verdict");
            self.problem(Consequence::Narrowed, "foreign-policy", span, message, None);
            return Body::Nothing(Skipped::Irrelevant);
        }
        let readable: Vec<&str> = KINDS.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        if let Some((right, _)) = KINDS.iter().find(|(_, kinds)| kinds.contains(&kind)) {
            let message = format!("`{version}` is not a version of {kind} that is read");
            self.problem(Consequence::Refused, "unknown-version", span, message, Some(format!("write `apiVersion: {right}`")));
            return Body::Nothing(Skipped::Refused);
        }
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let official = KINDS.iter().any(|(known, _)| *known == version) || version.ends_with("networking.k8s.io/v1");
        match near(kind, &readable, 2).filter(|_| official && kind.len() > 4) {
            Some(meant) if !IRRELEVANT_NEIGHBOURS.contains(&kind) => {
                let message = format!("`{kind}` is not a kind of `{version}`");
                self.problem(Consequence::Refused, "unknown-kind-of-object", span, message, Some(format!("did you mean `{meant}`?")));
                Body::Nothing(Skipped::Refused)
            }
            None if POLICY_GROUPS.contains(&group) && !IRRELEVANT_NEIGHBOURS.contains(&kind) => {
                let message = format!("`{kind}` is not a kind of `{version}` that is read, so no verdict can be trusted");
                self.problem(Consequence::Refused, "unknown-kind-of-object", span, message, None);
                Body::Nothing(Skipped::Refused)
            }
            Some(_) | None => Body::Nothing(Skipped::Irrelevant),
        }
    }

    /// A List is taken apart before. What is left says why it could not be.
    fn list_of_nothing(&mut self, node: &tree::Node<'_>) -> Option<Body> {
        let fields = self.fields(node)?;
        self.list(&fields, "items", |_, _| Some(()));
        Some(Body::Nothing(Skipped::Irrelevant))
    }

    fn not_an_object(&mut self, node: &tree::Node<'_>) -> Option<Body> {
        let message = "not a Kubernetes object (no apiVersion, no kind), and ignored";
        self.problem(Consequence::Narrowed, "not-an-object", node.span, message, None);
        Some(Body::Nothing(Skipped::Irrelevant))
    }

    fn lacks(&mut self, field: &'static str, node: &tree::Node<'_>) -> Option<Body> {
        let message = format!("an object needs `{field}`");
        self.within(field, |r| r.problem(Consequence::Refused, "missing-field", node.span, message, None));
        None
    }
}

/// Groups whose kinds are policies, but for a few that are known.
const POLICY_GROUPS: &[&str] = &["networking.k8s.io", names::POLICY_GROUP, names::KEP2091_GROUP];

/// Real kinds whose names are close to ones that are read, or that stand beside policies in their group.
const IRRELEVANT_NEIGHBOURS: &[&str] =
    &["Services", "Secret", "Status", "Ingress", "IngressClass", "IPAddress", "ServiceCIDR", "ClusterCIDR"];
