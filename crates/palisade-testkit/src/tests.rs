//! The traps of the policy semantics, each as the smallest cluster that can fall into it.

use std::path::Path;

use crate::objects::Objects;
use crate::raw_judge::judge;
use crate::scenario::{Line, parse_lines};

mod admin_network_policies;
mod cluster_network_policies;
mod kep_2091;
mod network_policies;
mod parties;
mod shapes;

/// Pods `x/a`, `x/b` and `z/c` on nodes `n1`, `n1` and `n2`, with addresses of both families.
const PODS: &str = "
---
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: red}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: one}},
 status: {addresses: [{type: Hostname, address: n1}, {type: ExternalIP, address: 198.51.100.1},
                      {type: InternalIP, address: 192.0.2.1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2},
 status: {addresses: [{type: InternalIP, address: 192.0.2.2}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a, blank: ''}},
 spec: {nodeName: n1, containers: [{ports: [
   {name: web, containerPort: 8080}, {name: dns, containerPort: 53, protocol: UDP}, {containerPort: 9}]}]},
 status: {podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x, labels: {app: b}},
 spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::2'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: z, labels: {app: c}},
 spec: {nodeName: n2, containers: [{ports: [{name: web, containerPort: 80}]}]},
 status: {podIPs: [{ip: 10.0.0.3}, {ip: 'fd00::3'}]}}
";

/// Judges the probes of `expect` on [`PODS`] and `yaml`, and shows every line that does not hold.
fn check(yaml: &str, expect: &str) {
    let mut objects = Objects::parse(&format!("{PODS}\n---\n{yaml}")).unwrap();
    let mut wrong = Vec::new();
    for (number, line) in parse_lines(expect, Path::new(".")).unwrap() {
        match line {
            Line::Probe(it) => {
                let found = judge(&objects, &it.from, &it.to, it.protocol, it.port);
                if found != Ok(it.expect) {
                    let text = expect.lines().nth(number - 1).unwrap().trim();
                    wrong.push(format!("{text}: found {found:?}"));
                }
            }
            Line::Step(step) => objects.take(&step).unwrap(),
            Line::Refused(_) | Line::Warned(_) => {
                panic!("only probes and steps are for this judge")
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asserts that the judge declines the only probe of `expect`, and why.
fn check_error(yaml: &str, expect: &str, error: &str) {
    let objects = Objects::parse(&format!("{PODS}\n---\n{yaml}")).unwrap();
    let lines = parse_lines(expect, Path::new(".")).unwrap();
    let [(_, Line::Probe(it))] = lines.as_slice() else {
        panic!("not one probe: {expect}");
    };
    assert_eq!(judge(&objects, &it.from, &it.to, it.protocol, it.port), Err(error.to_owned()));
}

/// A NetworkPolicy in `x` on `x/a`, given the rest of its spec.
fn on_a(rest: &str) -> String {
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: np, namespace: x}},
          spec: {{podSelector: {{matchLabels: {{app: a}}}}, {rest}}}}}\n---\n"
    )
}

/// A NetworkPolicy in `x` that isolates `x/a` for ingress and allows one peer.
fn from_peer(peer: &str) -> String {
    on_a(&format!("ingress: [{{from: [{peer}]}}]"))
}

/// An Admin policy on the pods of `x`, given its priority and the rest of its spec.
fn admin(name: &str, priority: u16, rest: &str) -> String {
    cluster_policy(name, "Admin", priority, rest)
}

/// A Baseline policy on the pods of `x`.
fn baseline(name: &str, priority: u16, rest: &str) -> String {
    cluster_policy(name, "Baseline", priority, rest)
}

fn cluster_policy(name: &str, tier: &str, priority: u16, rest: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {{name: {name}}},
          spec: {{tier: {tier}, priority: {priority},
                  subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, {rest}}}}}\n---\n"
    )
}

/// An AdminNetworkPolicy of v1alpha1 on the pods of `x`, in a shape that was shipped.
fn shipped(name: &str, priority: u16, rest: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}},
          spec: {{priority: {priority}, subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, {rest}}}}}\n---\n"
    )
}

/// The BaselineAdminNetworkPolicy on the pods of `x`.
fn shipped_baseline(rest: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {{name: default}},
          spec: {{subject: {{namespaces: {{matchLabels: {{team: red}}}}}}, {rest}}}}}\n---\n"
    )
}

/// KEP-2091's AdminNetworkPolicy on the pods of `x`.
fn proposed(name: &str, priority: u16, rest: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}},
          spec: {{priority: {priority}, subject: {{namespaceSelector: {{matchLabels: {{team: red}}}}}}, {rest}}}}}\n---\n"
    )
}

/// Pods `x/d` and `w/e`, `v/f` and `u/g` beside [`PODS`]. Namespace `x` is team red, env prod; `w` is red, dev; `v` is blue, dev; `u` is red, and `z` has no label.
const TENANTS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: red, env: prod}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: w, labels: {team: red, env: dev}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: v, labels: {team: blue, env: dev}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: u, labels: {team: red}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d, namespace: x, labels: {app: a, tier: web}}, status: {podIPs: [{ip: 10.0.0.4}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: e, namespace: w, labels: {app: a, tier: db}}, status: {podIPs: [{ip: 10.0.0.5}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: f, namespace: v, labels: {app: b, tier: web}}, status: {podIPs: [{ip: 10.0.0.6}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: g, namespace: u, labels: {app: a}}, status: {podIPs: [{ip: 10.0.0.7}]}}
---
";
