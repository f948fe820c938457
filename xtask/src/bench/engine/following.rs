//! The ruleset of one node after one object of the cluster has changed, as an agent works it out, with and without a policy that is audited.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use palisade_model::{Model, NodeId, Policy, PortMatch, PortProtocol, PortSet, Ports};
use palisade_nft::{Auditing, Lowering, NodeView, Unknown};

use super::model::{Size, model, spread};
use crate::bench::clock::timed;
use crate::bench::{Line, Spread, Table};

/// 100,000 pods and 10,000 NetworkPolicies.
const SIZE: Size = Size { name: "2,000 namespaces", namespaces: 2_000, workloads: 50, policies: 10_000, cluster_policies: 20 };
/// On each node.
const PODS: usize = 110;
const NODE: NodeId = NodeId(0);

/// A change by its name, and the model after it.
type Changed = (&'static str, Model);

/// Whether the cluster has a policy that is watched and not enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audited {
    Nothing,
    OnePolicy,
}

pub(super) fn measure(runs: usize) -> Result<()> {
    let before = spread(model(SIZE), PODS);
    for audited in [Audited::Nothing, Audited::OnePolicy] {
        let mut before = before.clone();
        if audited == Audited::OnePolicy {
            let watched = before.policies.iter().find(|it| applies(&before, it)).context("no NetworkPolicy applies to the node")?;
            let watched = edited(watched, 9100);
            before.audited.insert("set".into(), vec![watched]);
        }
        measure_with(&before, audited, runs)?;
    }
    Ok(())
}

fn measure_with(before: &Model, audited: Audited, runs: usize) -> Result<()> {
    let view = NodeView { node: NODE, links: BTreeMap::new(), unknown: Unknown::Open };
    let changed = changes(before)?;
    let mut took: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..runs {
        let (mut lowering, mut auditing) = (Lowering::default(), Auditing::default());
        let mut work = |model: &Model| {
            timed(|| Ok((lowering.lower(model, &view).1, auditing.audit(model, NODE).is_some()))).map(|(_, took)| took.cpu.as_secs_f64())
        };
        took.entry(FIRST).or_default().push(work(before)?);
        for (name, after) in &changed {
            took.entry(name).or_default().push(work(after)?);
            work(before)?;
        }
    }
    let baseline = Spread::of(took.get(FIRST).context("nothing was measured")?)?;
    let names = [FIRST].into_iter().chain(changed.iter().map(|it| it.0));
    let line = |name| -> Result<Line<'_>> {
        let spread = Spread::of(took.get(name).context("nothing was measured")?)?;
        Ok((name, spread, Some(spread.median / baseline.median)))
    };
    let lines = names.map(line).collect::<Result<Vec<_>>>()?;
    let pods = before.endpoints.len();
    let title = match audited {
        Audited::Nothing => format!("{pods} pods, {} NetworkPolicies, CPU time", SIZE.policies),
        Audited::OnePolicy => "the same with an audited policy for pods of the node".to_owned(),
    };
    print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 2 }.text(&lines));
    Ok(())
}

const FIRST: &str = "the first ruleset";

/// One change of each kind.
fn changes(before: &Model) -> Result<Vec<Changed>> {
    let with_policy = |applying: bool| -> Result<Model> {
        let mut after = before.clone();
        let of_namespace = |it: &&mut Policy| it.origin.namespace.is_some() && applies(before, it) == applying;
        let policy = after.policies.iter_mut().rev().find(of_namespace).context("no such NetworkPolicy")?;
        *policy = edited(policy, 9000);
        Ok(after)
    };
    let local: BTreeSet<&str> = before.endpoints.iter().filter(|it| it.node == Some(NODE)).map(|it| &*it.name.namespace).collect();
    let elsewhere = before.endpoints.iter().find(|it| !local.contains(&*it.name.namespace)).context("no namespace is elsewhere")?;
    let relabelled = |key: &str, value: &str| -> Result<Model> {
        let mut after = before.clone();
        let namespace = after.namespaces.get_mut(&elsewhere.name.namespace).context("a pod without its namespace")?;
        namespace.labels.set(key, value);
        Ok(after)
    };
    let mut grown = before.clone();
    let mut pod = elsewhere.clone();
    pod.name.name = format!("{}-2", pod.name.name).into();
    pod.addresses = vec!["10.200.0.1".parse()?];
    pod.labels.set("pod-template-hash", "2");
    grown.endpoints.push(pod);
    Ok(vec![
        ("a NetworkPolicy that applies to no pod of the node", with_policy(false)?),
        ("a NetworkPolicy that applies to a pod of the node", with_policy(true)?),
        ("a namespace without pods of the node: a label no policy of the node selects by", relabelled("revision", "2")?),
        ("a namespace without pods of the node: a label that policies of the node select by", relabelled("team", "team-49")?),
        ("a pod on another node", grown),
    ])
}

fn applies(model: &Model, policy: &Policy) -> bool {
    let mut local = model.endpoints.iter().filter(|it| it.node == Some(NODE));
    policy.origin.namespace.is_some() && local.any(|it| palisade_engine::selects(model, policy, it))
}

/// The same with another port in its first rule.
fn edited(policy: &Policy, port: u16) -> Policy {
    let mut policy = policy.clone();
    if let Some(rule) = policy.rules.ingress.first_mut() {
        rule.ports = PortSet::Of(vec![PortMatch::Numbers { protocol: PortProtocol::Tcp, ports: Ports::one(port) }]);
    }
    policy
}
