//! AdminNetworkPolicy as KEP-2091 proposed it, served in our own group.

#![expect(dead_code, reason = "only their schemas are of use")]

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::labels::{LabelKey, LabelSelector};

/// Which pods are spoken about, and what may reach them or be reached by them.
#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.ingress) ? self.ingress.size() : 0) + (has(self.egress) ? self.egress.size() : 0) <= 100",
    "message": "ingress and egress have at most 100 rules together",
}]))]
pub(super) struct Spec {
    /// When the policy is asked: a larger priority before a smaller one. 0 is Baseline: asked only about pods that no NetworkPolicy isolates.
    #[schemars(range(min = 0, max = 1000))]
    priority: i32,
    /// The pods that the policy is about.
    subject: Subject,
    /// Rules for connections to the subject, the first that matches decides.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    ingress: Option<Vec<IngressRule>>,
    /// Rules for connections that the subject opens, the first that matches decides.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    egress: Option<Vec<EgressRule>>,
}

/// Pods, in one of two ways. Pods on the network of their node are never among them.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.namespaceSelector) != has(self.namespaceAndPodSelector)",
    "message": "exactly one of namespaceSelector and namespaceAndPodSelector",
}]))]
struct Subject {
    /// All pods of these namespaces.
    namespace_selector: Option<LabelSelector>,
    /// Some pods of some namespaces.
    namespace_and_pod_selector: Option<NamespaceAndPodSelector>,
}

/// Some pods of some namespaces.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NamespaceAndPodSelector {
    /// The namespaces; an empty selector means all.
    namespace_selector: LabelSelector,
    /// Their pods; an empty selector means all.
    pod_selector: LabelSelector,
}

/// What to do with some connections to the subject.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct IngressRule {
    /// A name for reports.
    name: Option<String>,
    /// Allow and Deny are final. Pass leaves the connection to NetworkPolicies, and to priority 0 where there are none.
    action: Action,
    /// The traffic.
    l4_selector: Layer4Selector,
    /// Who opens the connection: any of these. An empty list is nobody.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    from: Option<Vec<Peer>>,
}

/// What to do with some connections that the subject opens.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EgressRule {
    /// A name for reports.
    name: Option<String>,
    /// Allow and Deny are final. Pass leaves the connection to NetworkPolicies, and to priority 0 where there are none.
    action: Action,
    /// The traffic.
    l4_selector: Layer4Selector,
    /// Who is called: any of these. An empty list is nobody.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    to: Option<Vec<Peer>>,
}

/// What a rule does.
#[derive(JsonSchema)]
enum Action {
    Allow,
    Deny,
    Pass,
}

/// Some traffic, in one of two ways.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.allPorts) != has(self.ports)", "message": "exactly one of allPorts and ports" },
    { "rule": "!has(self.allPorts) || self.allPorts", "message": "allPorts is true or not there" },
]))]
struct Layer4Selector {
    /// All ports of all protocols, and protocols without ports. Only true.
    all_ports: Option<bool>,
    /// Any of these.
    // KEP-2091 has no such bound, but a rule about an item of a list costs what the longest list would.
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
    ports: Option<Vec<Port>>,
}

/// A port of the destination, or several.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.endPort) || (has(self.port) && type(self.port) == int && self.port <= self.endPort)",
    "message": "endPort needs a port that is a number and not above it",
}]))]
struct Port {
    /// TCP unless it says otherwise.
    #[schemars(extend("default" = "TCP"))]
    protocol: Option<Protocol>,
    /// A number, or the name of a container port. Without it no port is meant.
    port: Option<NumberOrName>,
    /// The last port of a range that begins at port.
    #[schemars(range(min = 1, max = 65535))]
    end_port: Option<i32>,
}

/// A protocol with ports.
#[derive(JsonSchema)]
enum Protocol {
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
    #[serde(rename = "SCTP")]
    Sctp,
}

/// A number, or the name of a container port: at most 15 characters in lower case, one of them a letter.
struct NumberOrName;

impl JsonSchema for NumberOrName {
    fn schema_name() -> Cow<'static, str> {
        "NumberOrName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "x-kubernetes-int-or-string": true,
            "minimum": 1,
            "maximum": 65535,
            "maxLength": 15,
            "pattern": "^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        })
    }
}

/// Pods of the cluster, in one of two ways. Nothing outside of the cluster is ever meant.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct Peer {
    /// All pods of these namespaces.
    namespaces: Option<NamespaceSet>,
    /// Some pods of some namespaces.
    namespaced_pods: Option<NamespacedPods>,
}

/// Some pods of some namespaces.
#[derive(JsonSchema)]
struct NamespacedPods {
    /// The namespaces.
    namespaces: NamespaceSet,
    /// Their pods.
    pods: PodSet,
}

/// Namespaces, in one of five ways.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct NamespaceSet {
    /// The subject's own. Only true.
    #[serde(rename = "self")]
    #[schemars(extend("enum" = [true]))]
    own: Option<bool>,
    /// All but the subject's own. Only true.
    #[schemars(extend("enum" = [true]))]
    not_self: Option<bool>,
    /// Those with these labels; an empty selector means all.
    namespace_selector: Option<LabelSelector>,
    /// Those that have all of these labels with the values of the subject's own. No label: none.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    same_labels: Option<Vec<LabelKey>>,
    /// Those that have none of these labels with the value of the subject's own. No label: none.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    not_same_labels: Option<Vec<LabelKey>>,
}

/// Pods, in one of three ways.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct PodSet {
    /// Those with these labels; an empty selector means all.
    pod_selector: Option<LabelSelector>,
    /// Those that have all of these labels with the subject's values. No label: none.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    same_labels: Option<Vec<LabelKey>>,
    /// Those that have none of these labels with the subject's value. No label: none.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    not_same_labels: Option<Vec<LabelKey>>,
}
