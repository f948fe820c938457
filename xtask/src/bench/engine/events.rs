//! One event of a watch, from the JSON of the object to the encoded transactions: the stages, and how the cost grows with the cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use palisade_k8s::{Beside, LiveIndex, LiveObject, TypeMeta};
use palisade_model::{Endpoint, Model, NodeId, Policy, Replica};
use palisade_nft::{Expected, Lowering, NodeView, Ruleset, Step, Unknown, encode, plan};
use palisade_report::manifest::manifest;
use serde_json::{Value, json};

use super::model::{Size, model, spread};
use crate::bench::clock::timed;
use crate::bench::resident;

/// 10,000 and 100,000 pods, both with 10,000 NetworkPolicies.
const SIZES: [Size; 2] = [
    Size { name: "10,000 pods", namespaces: 2_000, workloads: 5, policies: 10_000, cluster_policies: 0 },
    Size { name: "100,000 pods", namespaces: 2_000, workloads: 50, policies: 10_000, cluster_policies: 0 },
];
/// On each node.
const PODS: usize = 110;
/// Objects in a page of a list, as client-go asks for.
const PAGE: usize = 500;
/// Events of each kind in a run, each followed by the event that undoes it.
const EVENTS: usize = 50;

/// The stages of an event.
const STAGES: [&str; 5] = ["read", "index", "model", "lower", "plan, encode"];

/// CPU seconds of each stage.
type Took = [f64; STAGES.len()];

/// An agent without a kernel: everything that it computes for an event.
struct Pipeline {
    index: LiveIndex,
    replica: Replica,
    lowering: Lowering,
    view: NodeView,
    ruleset: Arc<Ruleset>,
}

enum Event {
    Set(Value),
    Delete(Value),
}

/// Medians and 99th percentiles of one kind of event, in seconds.
struct Measured {
    stages: Took,
    median: f64,
    late: f64,
}

pub(super) fn measure(runs: usize) -> Result<()> {
    let mut medians: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for size in SIZES {
        let cluster = spread(model(size), PODS);
        println!("\n{}, {} NetworkPolicies", size.name, size.policies);
        measure_memory(&cluster)?;
        let mut objects = objects(&cluster);
        let mut pipeline = Pipeline::of(&mut objects)?;
        println!("{:<58} {:>10} {:>10}   stages, median µs", "µs of CPU", "median", "p99");
        for (name, events) in events(pipeline.replica.model())? {
            let measured = pipeline.measure(&events, runs)?;
            println!("{name:<58} {measured}");
            medians.entry(name).or_default().push(measured.median);
        }
    }
    let [small, large] = SIZES.map(|it| it.name);
    println!("\nGrowth of the median from {small} to {large}");
    for (name, of_sizes) in medians {
        if let [small, large] = of_sizes.as_slice() {
            println!("{name:<58} {:>10.2}", large / small);
        }
    }
    Ok(())
}

/// The name of the part that `measure_memory` starts.
pub(super) const MEMORY: &str = "events-memory";

/// Has a process of its own read all objects from its standard input, so that it has nothing else in memory.
fn measure_memory(cluster: &Model) -> Result<()> {
    let program = std::env::current_exe().context("this program has no path")?;
    let arguments = ["bench", "engine", "--only", MEMORY];
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().context("cannot start this program again")?;
    let mut lines = BufWriter::new(child.stdin.take().context("a process without standard input")?);
    for object in objects(cluster) {
        writeln!(lines, "{}", object?)?;
    }
    drop(lines);
    ensure!(child.wait()?.success(), "the process that reads the objects failed");
    Ok(())
}

/// Reads objects from standard input, one on each line, and prints what that took.
pub(super) fn memory() -> Result<()> {
    let values = std::io::stdin().lines().map(|it| -> Result<Value> { Ok(serde_json::from_str(&it?)?) });
    let (pipeline, first) = timed(|| Pipeline::of(values))?;
    let listed = [resident("VmRSS:")?, resident("VmHWM:")?];
    let (again, _) = Lowering::default().lower(pipeline.replica.model(), &pipeline.view);
    ensure!(again == pipeline.ruleset, "a recomputation differs");
    println!(
        "first list {:.2} s of CPU; process {} MiB, {} at most, {} at most with one recomputation",
        first.cpu.as_secs_f64(),
        listed[0],
        listed[1],
        resident("VmHWM:")?
    );
    Ok(())
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.1} {:>10.1}  ", self.median * 1e6, self.late * 1e6)?;
        STAGES.iter().zip(self.stages).try_for_each(|(name, took)| write!(f, " {name} {:.1}", took * 1e6))
    }
}

impl Pipeline {
    /// Reads the first list of every resource.
    fn of(objects: impl Iterator<Item = Result<Value>>) -> Result<Pipeline> {
        let (mut index, mut replica) = (LiveIndex::default(), Replica::default());
        for (object, at) in objects.zip(1..) {
            index.read_live(live(&object?));
            if at % PAGE == 0 {
                replica.apply(&index.changes())?;
            }
        }
        replica.apply(&index.changes())?;
        let view = NodeView { node: NodeId(0), links: BTreeMap::new(), unknown: Unknown::Open };
        let mut lowering = Lowering::default();
        let (ruleset, _) = lowering.lower(replica.model(), &view);
        Ok(Pipeline { index, replica, lowering, view, ruleset })
    }

    fn take(&mut self, event: &Event) -> Result<Took> {
        let (value, set) = match event {
            Event::Set(value) => (value, true),
            Event::Delete(value) => (value, false),
        };
        let text = value.to_string();
        let (read, of_read) = timed(|| Ok(live_text(value, &text)))?;
        let (changes, of_index) = timed(|| {
            match set {
                true => self.index.read_live(read),
                false => ensure!(self.index.delete_live(&read), "there is no such object"),
            }
            Ok(self.index.changes())
        })?;
        let ((), of_model) = timed(|| Ok(self.replica.apply(&changes)?))?;
        let ((ruleset, _), of_lowering) = timed(|| Ok(self.lowering.update(self.replica.model(), &changes, &self.view)))?;
        let (_, of_plan) = timed(|| {
            let mut bytes = 0;
            if !Arc::ptr_eq(&self.ruleset, &ruleset) {
                for step in plan(&self.ruleset, &ruleset) {
                    if let Step::Commit(transaction) = step {
                        let encoded = encode(&transaction, 1, Expected::Anything).map_err(|it| anyhow!("{it:?}"))?;
                        bytes += encoded.objects.len();
                    }
                }
            }
            Ok(bytes)
        })?;
        self.ruleset = ruleset;
        Ok([of_read, of_index, of_model, of_lowering, of_plan].map(|it| it.cpu.as_secs_f64()))
    }

    fn measure(&mut self, events: &[[Event; 2]], runs: usize) -> Result<Measured> {
        let mut took: Vec<Took> = Vec::new();
        for _ in 0..runs {
            for event in events.iter().flatten() {
                took.push(self.take(event)?);
            }
        }
        let mut sums: Vec<f64> = took.iter().map(|it| it.iter().sum()).collect();
        sums.sort_unstable_by(f64::total_cmp);
        let mut stages = [0.0; STAGES.len()];
        for (at, stage) in stages.iter_mut().enumerate() {
            let mut all: Vec<f64> = took.iter().filter_map(|it| it.get(at).copied()).collect();
            all.sort_unstable_by(f64::total_cmp);
            *stage = *all.get(all.len() / 2).context("nothing was measured")?;
        }
        let at = |part: usize| sums.get((sums.len() * part / 100).min(sums.len() - 1)).copied().context("nothing was measured");
        Ok(Measured { stages, median: at(50)?, late: at(99)? })
    }
}

/// A kind of event by its name, each event with the one that undoes it.
type Kind = (&'static str, Vec<[Event; 2]>);

/// The objects of a cluster, as an API server sends them.
fn objects(model: &Model) -> impl Iterator<Item = Result<Value>> {
    let namespaces = model
        .namespaces
        .iter()
        .map(|(name, it)| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels(&it.labels) } }));
    let nodes = model.nodes.iter().map(|it| {
        let addresses: Vec<Value> = it.addresses.iter().map(|it| json!({ "type": "InternalIP", "address": it.to_string() })).collect();
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": it.name, "labels": labels(&it.labels) }, "status": { "addresses": addresses } })
    });
    let pods = model.endpoints.iter().map(|it| pod(model, it));
    namespaces.chain(nodes).chain(pods).map(Ok).chain(model.policies.iter().map(policy_json))
}

/// Events of each kind, each with the event that undoes it.
fn events(model: &Model) -> Result<Vec<Kind>> {
    let node = NodeId(0);
    let elsewhere: Vec<&Endpoint> = model.endpoints.iter().filter(|it| it.node != Some(node)).step_by(97).take(EVENTS).collect();
    let here: Vec<&Endpoint> = model.endpoints.iter().filter(|it| it.node == Some(node)).collect();
    let come = |of: &Endpoint, at: usize, label: Option<String>| -> [Event; 2] {
        let mut new = of.clone();
        new.name.name = format!("new-{at}").into();
        new.addresses = vec![std::net::Ipv4Addr::from(0x0af0_0000 + u32::try_from(at).unwrap_or(0)).into()];
        label.into_iter().for_each(|it| new.labels.set("app", &it));
        let new = pod(model, &new);
        [Event::Set(new.clone()), Event::Delete(new)]
    };
    let known = elsewhere.iter().zip(0..).map(|(it, at)| come(it, at, None)).collect();
    let new = elsewhere.iter().zip(0..).map(|(it, at)| come(it, at, Some(format!("never-seen-{at}")))).collect();
    let applies = |policy: &Policy| here.iter().any(|it| palisade_engine::selects(model, policy, it));
    let edited = |policy: &Policy| -> Result<[Event; 2]> {
        let (old, mut new) = (policy_json(policy)?, policy_json(policy)?);
        let spec = new.pointer_mut("/spec").and_then(Value::as_object_mut).context("a policy without a spec")?;
        spec.insert("ingress".to_owned(), json!([{ "ports": [{ "port": 9999 }] }]));
        spec.insert("policyTypes".to_owned(), json!(["Ingress"]));
        Ok([Event::Set(new), Event::Set(old)])
    };
    let policies = |wanted: bool| -> Result<Vec<[Event; 2]>> {
        model.policies.iter().filter(|it| applies(it) == wanted).step_by(if wanted { 1 } else { 53 }).take(EVENTS).map(edited).collect()
    };
    let namespaces = |key: &str| -> Vec<[Event; 2]> {
        let relabelled = |name: &str| {
            let of = |set: Option<&str>| {
                let mut all = model.namespace_labels(name).clone();
                set.into_iter().for_each(|it| all.set(key, it));
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels(&all) } })
            };
            [Event::Set(of(Some("team-49"))), Event::Set(of(None))]
        };
        let away = |name: &str| here.iter().all(|it| *it.name.namespace != *name);
        model.namespaces.keys().filter(|it| away(it)).step_by(31).take(EVENTS).map(|it| relabelled(it)).collect()
    };
    Ok(vec![
        ("a pod of a known kind on another node comes, goes", known),
        ("the first pod of a kind on another node comes, goes", new),
        ("a NetworkPolicy without effect on the node", policies(false)?),
        ("a NetworkPolicy with effect on the node", policies(true)?),
        ("a namespace elsewhere gets a label no policy selects by", namespaces("revision")),
        ("a namespace elsewhere gets a label policies select by", namespaces("team")),
    ])
}

fn labels(labels: &palisade_model::Labels) -> Value {
    labels.iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<serde_json::Map<_, _>>().into()
}

/// A pod with the fields that an API server sends for a small one.
fn pod(model: &Model, of: &Endpoint) -> Value {
    let ports: Vec<Value> = of.ports.iter().map(|it| json!({ "name": it.name, "containerPort": it.port, "protocol": "TCP" })).collect();
    let addresses: Vec<Value> = of.addresses.iter().map(|it| json!({ "ip": it.to_string() })).collect();
    let node = of.node.and_then(|it| model.node(it));
    let host = node.and_then(|it| it.addresses.first()).map(ToString::to_string);
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": of.name.namespace, "name": of.name.name, "labels": labels(&of.labels), "uid": format!("uid-{}", of.name) },
        "spec": { "nodeName": node.map(|it| &it.name), "serviceAccountName": "default", "restartPolicy": "Always",
            "containers": [{ "name": "main", "image": "registry.example/app:1", "ports": ports, "env": [{ "name": "MODE", "value": "plain" }],
                "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }] },
        "status": { "phase": "Running", "podIP": addresses.first().and_then(|it| it.get("ip")), "podIPs": addresses, "hostIP": host,
            "conditions": [{ "type": "Ready", "status": "True" }] } })
}

fn policy_json(policy: &Policy) -> Result<Value> {
    let yaml = manifest(policy, &Beside::default()).yaml();
    serde_saphyr::from_str(&yaml).with_context(|| format!("{}: {yaml}", policy.origin))
}

fn live(object: &Value) -> LiveObject {
    live_text(object, &object.to_string())
}

fn live_text(object: &Value, text: &str) -> LiveObject {
    let field = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = TypeMeta { api_version: field("apiVersion"), kind: field("kind") };
    LiveObject::read(&format!("cluster/{}s", of.kind.to_lowercase()), &Arc::new(of), text)
}
