//! A large cluster as manifests, for measurements. The same numbers give the same bytes.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

/// How much to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    pub(crate) namespaces: usize,
    /// Deployments, spread evenly: `ns-1/w-0`, `ns-1/w-1`, …
    pub(crate) workloads: usize,
    pub(crate) policies: usize,
    pub(crate) cluster_policies: usize,
}

/// The folder is read as one; several files, as people have them.
const FILES: usize = 10;

/// File names and their texts.
pub(crate) fn manifests(amount: Amount) -> Vec<(String, String)> {
    let mut files = vec![
        ("namespaces.yaml".to_owned(), (0..amount.namespaces).map(namespace).collect()),
        ("cluster-policies.yaml".to_owned(), (0..amount.cluster_policies).map(cluster_policy).collect()),
    ];
    for file in 0..FILES {
        let share = |count| (0..count).filter(move |index| index % amount.namespaces % FILES == file);
        let workloads = share(amount.workloads).map(|index| workload(index, amount.namespaces)).collect();
        let policies = share(amount.policies).map(|index| policy(index, amount.namespaces)).collect();
        files.push((format!("workloads-{file}.yaml"), workloads));
        files.push((format!("policies-{file}.yaml"), policies));
    }
    files
}

pub(crate) fn write(folder: &Path, files: &[(String, String)]) -> Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

const TEAMS: [&str; 5] = ["payments", "search", "media", "platform", "data"];
const TIERS: [&str; 3] = ["frontend", "backend", "storage"];

fn pick<'a>(from: &[&'a str], index: usize) -> &'a str {
    from.get(index % from.len().max(1)).copied().unwrap_or_default()
}

fn namespace(index: usize) -> String {
    let team = pick(&TEAMS, index);
    format!(
        "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns-{index}\n  labels:\n    kubernetes.io/metadata.name: ns-{index}\n    team: {team}\n    ring: r{}\n",
        index % 7
    )
}

fn workload(index: usize, namespaces: usize) -> String {
    let (namespace, number) = (index % namespaces, index / namespaces);
    let tier = pick(&TIERS, number);
    let team = pick(&TEAMS, namespace);
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: w-{number}
  namespace: ns-{namespace}
  labels:
    app: w-{number}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: w-{number}
  template:
    metadata:
      labels:
        app: w-{number}
        tier: {tier}
        team: {team}
        version: v{version}
    spec:
      serviceAccountName: w-{number}
      containers:
        - name: main
          image: registry.example/ns-{namespace}/w-{number}:1.{version}
          ports:
            - name: http
              containerPort: 8080
            - name: metrics
              containerPort: {metrics}
              protocol: TCP
",
        replicas = 1 + index % 3,
        version = index % 11,
        metrics = 9000 + index % 50,
    )
}

/// One of five shapes: within the namespace, across namespaces, expressions, blocks with exceptions, port ranges.
fn policy(index: usize, namespaces: usize) -> String {
    let (namespace, number) = (index % namespaces, index / namespaces);
    let mut text = format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: p-{number}\n  namespace: ns-{namespace}\nspec:\n"
    );
    let rest = match number % 5 {
        0 => "  podSelector: {}\n  policyTypes: [Ingress]\n  ingress:\n    - from:\n        - podSelector: {}\n".to_owned(),
        1 => format!(
            "  podSelector:\n    matchLabels:\n      tier: backend\n  policyTypes: [Ingress]\n  ingress:\n    - from:\n        - namespaceSelector:\n            matchLabels:\n              team: {team}\n          podSelector:\n            matchLabels:\n              tier: frontend\n      ports:\n        - port: http\n        - port: {port}\n          protocol: TCP\n",
            team = pick(&TEAMS, index),
            port = 9000 + index % 50,
        ),
        2 => format!(
            "  podSelector:\n    matchExpressions:\n      - key: tier\n        operator: In\n        values: [frontend, backend]\n      - key: version\n        operator: NotIn\n        values: [v{version}]\n  policyTypes: [Ingress, Egress]\n  ingress:\n    - from:\n        - namespaceSelector:\n            matchExpressions:\n              - key: ring\n                operator: Exists\n              - key: quarantine\n                operator: DoesNotExist\n  egress:\n    - to:\n        - podSelector:\n            matchLabels:\n              app: w-{app}\n",
            version = index % 11,
            app = index % 25,
        ),
        3 => {
            let (a, b) = (index / 256 % 256, index % 256);
            format!(
                "  podSelector:\n    matchLabels:\n      app: w-{app}\n  policyTypes: [Egress]\n  egress:\n    - to:\n        - ipBlock:\n            cidr: 10.{a}.0.0/16\n            except:\n              - 10.{a}.{b}.0/24\n              - 10.{a}.{c}.128/25\n        - ipBlock:\n            cidr: 2001:db8:{a:x}::/48\n      ports:\n        - port: 443\n        - port: 53\n          protocol: UDP\n",
                app = index % 25,
                c = (b + 1) % 256,
            )
        }
        _ => format!(
            "  podSelector:\n    matchLabels:\n      app: w-{app}\n  policyTypes: [Ingress]\n  ingress:\n    - from:\n        - namespaceSelector:\n            matchLabels:\n              kubernetes.io/metadata.name: ns-{from}\n      ports:\n        - port: {first}\n          endPort: {last}\n",
            app = index % 25,
            from = (namespace + 1) % namespaces,
            first = 8000 + index % 80,
            last = 8100 + index % 200,
        ),
    };
    text.push_str(&rest);
    text
}

fn cluster_policy(index: usize) -> String {
    let tier = if index % 4 == 3 { "Baseline" } else { "Admin" };
    let mut text = format!(
        "---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata:\n  name: c-{index}\nspec:\n  tier: {tier}\n  priority: {}\n  subject:\n    namespaces:\n      matchLabels:\n        ring: r{}\n",
        index * 10,
        index % 7
    );
    text.push_str("  ingress:\n");
    for (name, action, team) in [("monitoring", "Accept", "platform"), ("own", "Pass", pick(&TEAMS, index)), ("rest", "Deny", "data")] {
        let rule = format!(
            "    - name: {name}\n      action: {action}\n      from:\n        - namespaces:\n            matchLabels:\n              team: {team}\n      protocols:\n        - tcp:\n            destinationPort:\n              range:\n                start: 9000\n                end: {}\n",
            9100 + index
        );
        text.push_str(&rule);
    }
    if tier == "Admin" {
        // Writing to a string cannot fail; the result says so only by its type.
        let written = write!(
            text,
            "  egress:\n    - name: metadata-service\n      action: Deny\n      to:\n        - networks:\n            - 169.254.169.{}/32\n",
            254 - index % 200
        );
        debug_assert!(written.is_ok());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Amount = Amount { namespaces: 20, workloads: 100, policies: 60, cluster_policies: 8 };

    #[test]
    fn everything_asked_for_is_written_once() {
        let all: String = manifests(SMALL).into_iter().map(|(_, text)| text).collect();
        let count = |kind: &str| all.matches(&format!("\nkind: {kind}\n")).count();
        assert_eq!([count("Namespace"), count("Deployment"), count("NetworkPolicy"), count("ClusterNetworkPolicy")], [20, 100, 60, 8]);
        let names: std::collections::BTreeSet<&str> = all.split("---\n").filter(|text| text.contains("kind: Deployment")).collect();
        assert_eq!(names.len(), 100);
    }

    #[test]
    fn the_workloads_that_the_measurement_asks_about_exist() {
        let all: String = manifests(SMALL).into_iter().map(|(_, text)| text).collect();
        assert!(all.contains("  name: w-0\n  namespace: ns-1\n") && all.contains("  name: w-3\n  namespace: ns-2\n"));
    }

    #[test]
    fn the_same_numbers_give_the_same_bytes() {
        assert_eq!(manifests(SMALL), manifests(SMALL));
    }
}
