//! The resources that policy depends on, where they are served, and what their objects look like.

use palisade_k8s::TypeMeta;
use palisade_k8s::names::KEP2091_GROUP;

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

    /// Its list in messages: the plural, with the group where another engine uses the same word.
    pub(super) fn list_name(&self) -> String {
        let official = self.group.is_empty() || !self.group.contains('.') || self.group.ends_with("k8s.io");
        format!("cluster/{}", if official { self.plural.to_owned() } else { self.full_name() })
    }

    pub(super) fn is_namespaces(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Version and kind of its objects, which the items of a list do not have.
    pub(super) fn type_meta(&self) -> TypeMeta {
        let api_version = match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        };
        TypeMeta { api_version, kind: self.kind.to_owned() }
    }
}
