//! The kinds that others ship, as types, with all fields of the experimental channel.
//!
//! Those that only this channel has are listed in [`EXPERIMENTAL`].

#![expect(dead_code, reason = "only their schemas are of use")]

use schemars::JsonSchema;

use super::Kind;
use super::parts::LabelSelector;

const GROUP: &str = "policy.networking.k8s.io";

pub(super) const CLUSTER_NETWORK_POLICY: Kind = Kind {
    group: GROUP,
    version: "v1alpha2",
    kind: "ClusterNetworkPolicy",
    singular: "clusternetworkpolicy",
    plural: "clusternetworkpolicies",
    short: "cnp",
    columns: &[("Tier", "string", ".spec.tier"), ("Priority", "string", ".spec.priority")],
    annotations: &[
        ("api-approved.kubernetes.io", "https://github.com/kubernetes-sigs/network-policy-api/pull/347"),
        ("policy.networking.k8s.io/bundle-version", "v0.2.0"),
        ("policy.networking.k8s.io/channel", "experimental"),
    ],
    rules: &[],
    about: "Cluster policy of the Admin or the Baseline tier, where a smaller priority is asked first.",
};

pub(super) const ADMIN_NETWORK_POLICY: Kind = Kind {
    group: GROUP,
    version: "v1alpha1",
    kind: "AdminNetworkPolicy",
    singular: "adminnetworkpolicy",
    plural: "adminnetworkpolicies",
    short: "anp",
    columns: &[("Priority", "string", ".spec.priority")],
    annotations: &[
        ("api-approved.kubernetes.io", "https://github.com/kubernetes-sigs/network-policy-api/pull/300"),
        ("policy.networking.k8s.io/bundle-version", "v0.1.7"),
        ("policy.networking.k8s.io/channel", "experimental"),
    ],
    rules: &[],
    about: "Cluster policy that is asked before NetworkPolicy, where a smaller priority is asked first.",
};

pub(super) const BASELINE: Kind = Kind {
    group: GROUP,
    version: "v1alpha1",
    kind: "BaselineAdminNetworkPolicy",
    singular: "baselineadminnetworkpolicy",
    plural: "baselineadminnetworkpolicies",
    short: "banp",
    columns: &[],
    annotations: &[
        ("api-approved.kubernetes.io", "https://github.com/kubernetes-sigs/network-policy-api/pull/300"),
        ("policy.networking.k8s.io/bundle-version", "v0.1.7"),
        ("policy.networking.k8s.io/channel", "experimental"),
    ],
    rules: &[("self.metadata.name == 'default'", "the only one is named default")],
    about: "Cluster policy for pods that no NetworkPolicy isolates.",
};

/// Fields by the end of their path.
pub(super) const EXPERIMENTAL: &[&str] = &[".to[].nodes", ".to[].domainNames", ".ports[].namedPort"];

/// `spec` of a ClusterNetworkPolicy.
#[derive(JsonSchema)]
pub(super) struct ClusterNetworkPolicy {
    tier: Tier,
    #[schemars(range(min = 0, max = 1000))]
    priority: i32,
    subject: Subject<PodsOfAny>,
    #[schemars(length(max = 25))]
    ingress: Option<Vec<ClusterIngressRule>>,
    #[schemars(length(max = 25))]
    egress: Option<Vec<ClusterEgressRule>>,
}

#[derive(JsonSchema)]
enum Tier {
    Admin,
    Baseline,
}

#[derive(JsonSchema)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct Subject<P> {
    namespaces: Option<LabelSelector>,
    pods: Option<P>,
}

/// Pods, where all namespaces are meant if none is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PodsOfAny {
    namespace_selector: Option<LabelSelector>,
    pod_selector: LabelSelector,
}

/// Pods, where namespaces have to be said.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PodsOf {
    namespace_selector: LabelSelector,
    pod_selector: LabelSelector,
}

#[derive(JsonSchema)]
struct ClusterIngressRule {
    #[schemars(length(max = 100))]
    name: Option<String>,
    action: ClusterAction,
    #[schemars(length(min = 1, max = 25))]
    from: Vec<Subject<PodsOfAny>>,
    #[schemars(length(min = 1, max = 25))]
    protocols: Option<Vec<ClusterProtocol>>,
}

#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(self.to.exists(peer, has(peer.networks) || has(peer.nodes) || has(peer.domainNames)) && has(self.protocols) && self.protocols.exists(protocol, has(protocol.destinationNamedPort)))",
    "message": "only pods have ports with names",
}]))]
struct ClusterEgressRule {
    #[schemars(length(max = 100))]
    name: Option<String>,
    action: ClusterAction,
    #[schemars(length(min = 1, max = 25))]
    to: Vec<EgressPeer<PodsOfAny>>,
    #[schemars(length(min = 1, max = 25))]
    protocols: Option<Vec<ClusterProtocol>>,
}

#[derive(JsonSchema)]
enum ClusterAction {
    Accept,
    Deny,
    Pass,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct EgressPeer<P> {
    namespaces: Option<LabelSelector>,
    pods: Option<P>,
    nodes: Option<LabelSelector>,
    #[schemars(length(min = 1, max = 25), extend("x-kubernetes-list-type" = "set"))]
    networks: Option<Vec<Cidr>>,
    #[schemars(length(min = 1, max = 25), extend("x-kubernetes-list-type" = "set"))]
    domain_names: Option<Vec<DomainName>>,
}

/// The one peer that knows no domain names.
#[derive(JsonSchema)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct BaselineEgressPeer {
    namespaces: Option<LabelSelector>,
    pods: Option<PodsOf>,
    nodes: Option<LabelSelector>,
    #[schemars(length(min = 1, max = 25), extend("x-kubernetes-list-type" = "set"))]
    networks: Option<Vec<Cidr>>,
}

#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{ "rule": "isCIDR(self)", "message": "no CIDR" }]))]
struct Cidr(#[schemars(length(max = 43))] String);

#[derive(JsonSchema)]
struct DomainName(
    #[schemars(regex(pattern = r"^(\*\.)?([a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+[a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$"))] String,
);

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct ClusterProtocol {
    tcp: Option<WithPorts>,
    udp: Option<WithPorts>,
    sctp: Option<WithPorts>,
    destination_named_port: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
struct WithPorts {
    destination_port: Option<DestinationPort>,
}

#[derive(JsonSchema)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct DestinationPort {
    #[schemars(range(min = 1, max = 65535))]
    number: Option<i32>,
    range: Option<DestinationRange>,
}

#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{ "rule": "self.start < self.end", "message": "start is not below end" }]))]
struct DestinationRange {
    #[schemars(range(min = 1, max = 65535))]
    start: i32,
    #[schemars(range(min = 1, max = 65535))]
    end: i32,
}

/// `spec` of an AdminNetworkPolicy.
#[derive(JsonSchema)]
pub(super) struct AdminNetworkPolicy {
    #[schemars(range(min = 0, max = 1000))]
    priority: i32,
    subject: Subject<PodsOf>,
    #[schemars(length(max = 100))]
    ingress: Option<Vec<IngressRule<AdminAction>>>,
    #[schemars(length(max = 100))]
    egress: Option<Vec<AdminEgressRule>>,
}

/// `spec` of a BaselineAdminNetworkPolicy.
#[derive(JsonSchema)]
pub(super) struct BaselineAdminNetworkPolicy {
    subject: Subject<PodsOf>,
    #[schemars(length(max = 100))]
    ingress: Option<Vec<IngressRule<BaselineAction>>>,
    #[schemars(length(max = 100))]
    egress: Option<Vec<BaselineEgressRule>>,
}

#[derive(JsonSchema)]
struct IngressRule<A> {
    #[schemars(length(max = 100))]
    name: Option<String>,
    action: A,
    #[schemars(length(min = 1, max = 100))]
    from: Vec<Subject<PodsOf>>,
    #[schemars(length(min = 1, max = 100))]
    ports: Option<Vec<AdminPort>>,
}

#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(self.to.exists(peer, has(peer.networks) || has(peer.nodes) || has(peer.domainNames)) && has(self.ports) && self.ports.exists(port, has(port.namedPort)))",
    "message": "only pods have ports with names",
}]))]
struct AdminEgressRule {
    #[schemars(length(max = 100))]
    name: Option<String>,
    action: AdminAction,
    #[schemars(length(min = 1, max = 100))]
    to: Vec<EgressPeer<PodsOf>>,
    #[schemars(length(min = 1, max = 100))]
    ports: Option<Vec<AdminPort>>,
}

#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(self.to.exists(peer, has(peer.networks) || has(peer.nodes)) && has(self.ports) && self.ports.exists(port, has(port.namedPort)))",
    "message": "only pods have ports with names",
}]))]
struct BaselineEgressRule {
    #[schemars(length(max = 100))]
    name: Option<String>,
    action: BaselineAction,
    #[schemars(length(min = 1, max = 100))]
    to: Vec<BaselineEgressPeer>,
    #[schemars(length(min = 1, max = 100))]
    ports: Option<Vec<AdminPort>>,
}

#[derive(JsonSchema)]
enum AdminAction {
    Allow,
    Deny,
    Pass,
}

#[derive(JsonSchema)]
enum BaselineAction {
    Allow,
    Deny,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct AdminPort {
    port_number: Option<PortNumber>,
    named_port: Option<String>,
    port_range: Option<PortRange>,
}

#[derive(JsonSchema)]
struct PortNumber {
    #[schemars(extend("default" = "TCP"))]
    protocol: String,
    #[schemars(range(min = 1, max = 65535))]
    port: i32,
}

#[derive(JsonSchema)]
struct PortRange {
    #[schemars(extend("default" = "TCP"))]
    protocol: Option<String>,
    #[schemars(range(min = 1, max = 65535))]
    start: i32,
    #[schemars(range(min = 1, max = 65535))]
    end: i32,
}
