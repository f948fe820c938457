//! What the tests of rules have in common.

use std::sync::Arc;

use palisade_k8s::{Index, Text};
use palisade_model::Severity;

use crate::{Choice, lint, reported};

/// Two namespaces with three pods and a Service.
pub(crate) const CLUSTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
---
apiVersion: v1
kind: Namespace
metadata: {name: infra, labels: {team: infra}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web, labels: {app: web, tier: front}}
spec: {nodeName: n1, containers: [{name: main, image: web, ports: [{name: http, containerPort: 8080}]}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db, labels: {app: db, tier: back}}
spec: {nodeName: n1, containers: [{name: main, image: db, ports: [{name: postgres, containerPort: 5432}]}]}
status: {phase: Running, podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: infra, name: agent, labels: {app: agent}}
spec: {nodeName: n2, containers: [{name: main, image: agent, ports: [{name: metrics, containerPort: 9090}]}]}
status: {phase: Running, podIPs: [{ip: 10.0.1.1}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: db}
spec: {clusterIP: 10.96.0.7, selector: {app: db}, ports: [{port: 5432}]}
---
";

/// A NetworkPolicy `shop/p` of a specification in YAML, indented by two.
pub(crate) fn np(spec: &str) -> String {
    format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: shop, name: p}}\nspec:\n{spec}\n---\n")
}

/// A ClusterNetworkPolicy of a name and a specification in YAML, indented by two.
pub(crate) fn cnp(name: &str, spec: &str) -> String {
    format!("apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {{name: {name}}}\nspec:\n{spec}\n---\n")
}

/// A policy for all pods in the shape that KEP-2091 proposed, of a name, a priority and ingress rules in YAML, indented by two.
pub(crate) fn kep2091(name: &str, priority: u32, rules: &str) -> String {
    let text = cnp(name, &format!("  priority: {priority}\n  subject: {{namespaceSelector: {{}}}}\n  ingress:\n{rules}"));
    text.replace("v1alpha2", "v1alpha1").replace("ClusterNetworkPolicy", "AdminNetworkPolicy")
}

/// The objects of a text, all of which can be read.
pub(crate) fn index(text: &str) -> Index {
    let mut index = Index::default();
    index.read(Text { file: Arc::from("test.yaml"), content: Arc::from(text) });
    let errors: Vec<_> = index.snapshot().diagnostics.into_iter().filter(|it| it.severity == Severity::Error).collect();
    assert_eq!(errors, [], "the fixture can be read");
    index
}

/// What one rule finds: `warning NetworkPolicy shop/p spec.ingress[0]: message`.
pub(crate) fn found(rule: &str, text: &str) -> Vec<String> {
    let index = index(text);
    let lints = lint(&index, &Choice::of(&[rule.to_owned()], &[]).unwrap());
    let report = reported(&lints, index.sources());
    report.findings.iter().map(|it| format!("{} {} {}: {}", it.severity, it.at.object, it.at.path, it.message)).collect()
}
