//! A small cluster for tests.

use palisade_k8s::{Controller, Text};

use crate::cluster::{Cluster, Objects, Texts};

/// `shop/web` may connect to `shop/db` on port 5432, `shop/batch` may not.
pub(crate) const SHOP: &str = "
{apiVersion: v1, kind: Node, metadata: {name: one}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, spec: {nodeName: one, containers: []}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: batch, namespace: shop, labels: {app: batch}}, spec: {nodeName: one, containers: []}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, spec: {nodeName: one, containers: []}, status: {podIP: 10.0.0.3}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
";

/// A cluster policy that denies `shop/web` what the NetworkPolicy of `SHOP` allows.
pub(crate) const DENY: &str = "
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: no-web}
spec:
  priority: 5
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}
  ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}]}]
";

/// A policy with a misspelt field, which is refused.
pub(crate) const BROKEN: &str =
    "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: slip, namespace: shop}, spec: {podSelector: {}, ingres: []}}";

pub(crate) fn objects(texts: &[&str]) -> Objects {
    let text = |content: &&str| Text { file: "test.yaml".into(), content: (*content).into() };
    Objects::read(Texts { texts: texts.iter().map(text).collect(), ..Texts::default() }, Controller::default())
}

pub(crate) fn cluster(text: &str) -> Cluster {
    objects(&[text]).cluster()
}
