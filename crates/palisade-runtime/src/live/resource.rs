//! The resources that policy depends on, where they are served, and what their objects look like.

use palisade_k8s::names::KEP2091_GROUP;
use serde_json::Value;

/// One resource of the API.
#[derive(Debug)]
pub(super) struct Resource {
    /// Empty for the core group.
    group: &'static str,
    version: &'static str,
    pub(super) plural: &'static str,
    kind: &'static str,
    scope: Scope,
}

#[derive(Debug)]
enum Scope {
    Cluster,
    Namespaced,
}

/// In the order in which they are listed: what policies select, then what creates it, then the policies. Policies of other engines are
/// listed too: a verdict that leaves them out must not look like one that does not.
pub(super) const RESOURCES: [Resource; 22] = [
    cluster("", "v1", "namespaces", "Namespace"),
    cluster("", "v1", "nodes", "Node"),
    namespaced("", "v1", "pods", "Pod"),
    namespaced("", "v1", "services", "Service"),
    namespaced("apps", "v1", "deployments", "Deployment"),
    namespaced("apps", "v1", "statefulsets", "StatefulSet"),
    namespaced("apps", "v1", "daemonsets", "DaemonSet"),
    namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    namespaced("", "v1", "replicationcontrollers", "ReplicationController"),
    namespaced("batch", "v1", "jobs", "Job"),
    namespaced("batch", "v1", "cronjobs", "CronJob"),
    namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    cluster("policy.networking.k8s.io", "v1alpha2", "clusternetworkpolicies", "ClusterNetworkPolicy"),
    cluster("policy.networking.k8s.io", "v1alpha1", "adminnetworkpolicies", "AdminNetworkPolicy"),
    cluster("policy.networking.k8s.io", "v1alpha1", "baselineadminnetworkpolicies", "BaselineAdminNetworkPolicy"),
    cluster(KEP2091_GROUP, "v1alpha1", "adminnetworkpolicies", "AdminNetworkPolicy"),
    namespaced("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy"),
    cluster("cilium.io", "v2", "ciliumclusterwidenetworkpolicies", "CiliumClusterwideNetworkPolicy"),
    namespaced("crd.projectcalico.org", "v1", "networkpolicies", "NetworkPolicy"),
    cluster("crd.projectcalico.org", "v1", "globalnetworkpolicies", "GlobalNetworkPolicy"),
    namespaced("crd.antrea.io", "v1beta1", "networkpolicies", "NetworkPolicy"),
    cluster("crd.antrea.io", "v1beta1", "clusternetworkpolicies", "ClusterNetworkPolicy"),
];

const fn cluster(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group, version, plural, kind, scope: Scope::Cluster }
}

const fn namespaced(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group, version, plural, kind, scope: Scope::Namespaced }
}

impl Resource {
    /// The path of its list: in one namespace, or in all of them.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let Resource { group, version, plural, .. } = self;
        let root = match *group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match (&self.scope, namespace) {
            (Scope::Namespaced, Some(ns)) => format!("{root}/namespaces/{ns}/{plural}"),
            (Scope::Namespaced, None) | (Scope::Cluster, _) => format!("{root}/{plural}"),
        }
    }

    /// `deployments.apps`, or `pods` in the core group.
    pub(super) fn full_name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// What its text is called: the plural, with the group where another engine uses the same word.
    pub(super) fn text_name(&self) -> String {
        let official = self.group.is_empty() || !self.group.contains('.') || self.group.ends_with("k8s.io");
        if official { self.plural.to_owned() } else { self.full_name() }
    }

    pub(super) fn is_namespaces(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Adds what a list leaves out of its items and drops what only the API server uses.
    pub(super) fn complete(&self, item: &mut Value) {
        let api_version = match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        };
        let Some(object) = item.as_object_mut() else { return };
        object.insert("apiVersion".to_owned(), Value::String(api_version));
        object.insert("kind".to_owned(), Value::String(self.kind.to_owned()));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
}

/// Namespace and name of an object; empty where it has none.
pub(super) fn place(item: &Value) -> (&str, &str) {
    let field = |name: &str| item.get("metadata").and_then(|it| it.get(name)).and_then(Value::as_str);
    (field("namespace").unwrap_or(""), field("name").unwrap_or(""))
}
