//! CPU time of the JSON reader and of the YAML reader for the same pods and policies, as an API server sends them.

use anyhow::{Result, anyhow, ensure};
use palisade_api::{Object, json, read_object, yaml};
use serde_json::json;

use super::clock::timed;
use super::{Line, Spread, Table};

const PODS: usize = 2_000;
const POLICIES: usize = 2_000;

type Read = fn(&str) -> Result<Object>;

/// Prints one table for each kind. Both readers read the same JSON text, which is YAML too, in turns.
pub(super) fn readers(runs: usize) -> Result<()> {
    let readers: [Read; 2] = [from_yaml, from_json];
    for (name, objects) in [("pods", pods()), ("NetworkPolicies", policies())] {
        let bytes: usize = objects.iter().map(String::len).sum();
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..runs {
            for (read, times) in readers.iter().zip(&mut times) {
                let (read, took) = timed(|| objects.iter().map(|it| read(it)).collect::<Result<Vec<Object>>>())?;
                ensure!(read.iter().all(|it| it.problems.is_empty()), "an object of the benchmark has problems");
                times.push(took.cpu.as_secs_f64());
            }
        }
        let [yaml, json] = &times;
        let (yaml, json) = (Spread::of(yaml)?, Spread::of(json)?);
        let lines: [Line<'_>; 2] = [("YAML reader", yaml, Some(1.0)), ("JSON reader", json, Some(json.median / yaml.median))];
        let title = format!("{} {name} from JSON, {bytes} bytes", objects.len());
        print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 1 }.text(&lines));
    }
    Ok(())
}

fn from_yaml(text: &str) -> Result<Object> {
    let tree = yaml::documents(text).next().ok_or_else(|| anyhow!("no document"))?;
    tree.map(|it| read_object(&it)).map_err(|it| anyhow!(it.message))
}

fn from_json(text: &str) -> Result<Object> {
    json::object(text.as_bytes(), None).map_err(|it| anyhow!(it.message))
}

/// Pods with the fields that make most of a real one: environment, volumes, statuses and `managedFields`.
fn pods() -> Vec<String> {
    let env: Vec<_> = (0..20).map(|at| json!({ "name": format!("SETTING_{at}"), "value": "some text of a usual length" })).collect();
    let volumes: Vec<_> =
        (0..4).map(|at| json!({ "name": format!("v{at}"), "configMap": { "name": format!("c{at}"), "defaultMode": 420 } })).collect();
    let fields: serde_json::Map<String, _> = (0..40).map(|at| (format!("f:field{at}"), json!({ "f:name": {} }))).collect();
    let pod = |at: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("web-{at}"), "namespace": "shop", "labels": { "app": "web" }, "managedFields": [{ "manager": "kubelet", "fieldsV1": fields }] },
            "spec": { "nodeName": "n1", "volumes": volumes, "containers": [{ "name": "web", "image": "web:1", "env": env, "ports": [{ "containerPort": 80, "protocol": "TCP" }] }] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }], "containerStatuses": [{ "name": "web", "ready": true, "imageID": "sha256:0" }] },
        })
        .to_string()
    };
    (0..PODS).map(pod).collect()
}

fn policies() -> Vec<String> {
    let peer = json!({ "podSelector": { "matchLabels": { "app": "web", "tier": "front" } }, "namespaceSelector": { "matchLabels": { "team": "search" } } });
    let policy = |at: usize| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": { "name": format!("p-{at}"), "namespace": "shop" },
            "spec": { "podSelector": { "matchLabels": { "app": "db" } }, "policyTypes": ["Ingress"], "ingress": [{ "from": [peer, peer], "ports": [{ "port": 5432, "protocol": "TCP" }] }] },
        })
        .to_string()
    };
    (0..POLICIES).map(policy).collect()
}
