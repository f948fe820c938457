//! The numbers in a ruleset come from what they stand for: they are the same after a restart, and when something else changes.

use std::collections::BTreeMap;
use std::path::Path;

use palisade_engine::compile;
use palisade_model::{Model, NodeId};
use palisade_nft::{Ids, NodeView, Ruleset, Unknown, lower};
use palisade_testkit::check::snapshot;
use palisade_testkit::generate::generate;
use palisade_testkit::objects::Objects;
use palisade_testkit::scenario::all;

fn lowered(model: &Model, node: usize, ids: &mut Ids) -> Ruleset {
    lower(model, &compile(model), &NodeView { node: NodeId(node), links: BTreeMap::new(), unknown: Unknown::Open }, ids)
}

#[test]
fn neither_a_restart_nor_the_order_of_objects_changes_a_number() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenarios = all(&root).unwrap().into_iter().map(|it| (it.name.clone(), Objects::read(&it.cluster()).unwrap()));
    let random = (0..40).map(|seed| (format!("seed {seed}"), generate(seed).objects));
    let (mut kept, mut rulesets) = (Ids::default(), 0);
    for (name, objects) in scenarios.chain(random) {
        let model = snapshot("cluster.json", &objects.to_json()).model;
        let mut turned = model.clone();
        turned.policies.reverse();
        // Of two pods with one address and nothing else to choose by, the first has it.
        let mut addresses: Vec<_> = model.addresses().collect();
        addresses.sort_unstable();
        if addresses.windows(2).all(|it| it[0] != it[1]) {
            turned.endpoints = model.endpoints.iter().rev().cloned().collect();
        }
        for node in 0..model.nodes.len() {
            let fresh = lowered(&model, node, &mut Ids::default());
            assert_eq!(lowered(&model, node, &mut kept), fresh, "{name}: node {node}, after others");
            assert_eq!(lowered(&turned, node, &mut Ids::default()), fresh, "{name}: node {node}, in another order");
            rulesets += 1;
        }
    }
    assert!(rulesets > 100, "{rulesets}");
}

const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: one, labels: {zone: a}}, status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: two, labels: {zone: b}}, status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bank, labels: {team: bank}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web, labels: {app: web}}, spec: {nodeName: one, containers: [{name: m, image: i}]},
 status: {podIP: 10.0.1.1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, labels: {app: db}}, spec: {nodeName: one, containers: [{name: m, image: i}]},
 status: {podIP: 10.0.1.2}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: bank, name: till, labels: {app: till}}, spec: {nodeName: two, containers: [{name: m, image: i}]},
 status: {podIP: 10.0.2.1}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: db}, spec: {podSelector: {matchLabels: {app: db}},
 ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]},
  {from: [{namespaceSelector: {matchLabels: {team: bank}}}, {ipBlock: {cidr: 10.9.0.0/16}}], ports: [{port: 443}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: out}, spec: {podSelector: {matchLabels: {app: web}},
 policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}, {to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}], ports: [{port: 443}]}]}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 7,
 subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: thieves}}}]}]}}
";

/// What has nothing to do with the pods of node `one`.
const UNRELATED: [(&str, &str); 6] = [
    ("a namespace", "{apiVersion: v1, kind: Namespace, metadata: {name: aaa, labels: {team: aaa}}}"),
    (
        "a pod elsewhere, first by name",
        "{apiVersion: v1, kind: Pod, metadata: {namespace: aaa, name: a, labels: {app: x}}, spec: {nodeName: two, containers: [{name: m, image: i}]}, \
         status: {podIP: 10.0.2.9}}",
    ),
    (
        "a pod here that no NetworkPolicy selects",
        "{apiVersion: v1, kind: Pod, metadata: {namespace: aaa, name: b, labels: {app: x}}, spec: {nodeName: one, containers: [{name: m, image: i}]}, \
         status: {podIP: 10.0.1.9}}",
    ),
    (
        "a policy of another namespace",
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: bank, name: a}, spec: {podSelector: {}, \
         ingress: [{from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: shop}}}, {ipBlock: {cidr: 10.0.1.0/30}}]}]}}",
    ),
    (
        "a cluster policy for others",
        "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 1, \
         subject: {namespaces: {matchLabels: {team: bank}}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {team: shop}}}]}]}}",
    ),
    ("a node", "{apiVersion: v1, kind: Node, metadata: {name: zzz}, status: {addresses: [{type: InternalIP, address: 192.168.0.9}]}}"),
];

fn model(parts: &[&str]) -> Model {
    let snapshot = snapshot("cluster.yaml", &parts.join("\n---\n"));
    assert!(snapshot.diagnostics.iter().all(|it| it.severity == palisade_model::Severity::Note), "{:?}", snapshot.diagnostics);
    assert_eq!(snapshot.model.nodes.first().map(|it| &*it.name), Some("one"));
    snapshot.model
}

/// Everything of the one is in the other, as it was.
fn assert_keeps(after: &Ruleset, before: &Ruleset, what: &str) {
    for (name, chain) in &before.chains {
        assert_eq!(after.chains.get(name), Some(chain), "{what}: {name}");
    }
    for (name, map) in &before.data {
        for (address, number) in &map.elements {
            assert_eq!(after.data.get(name).and_then(|it| it.elements.get(address)), Some(number), "{what}: {name} {address}");
        }
    }
    assert_eq!(after.intervals, before.intervals, "{what}");
    for (name, map) in &before.verdicts {
        for (number, chain) in &map.elements {
            assert_eq!(after.verdicts.get(name).and_then(|it| it.elements.get(number)), Some(chain), "{what}: {name} {number}");
        }
    }
    for (number, origin) in &before.origins {
        assert_eq!(after.origins.get(number), Some(origin), "{what}");
    }
}

#[test]
fn what_is_unrelated_changes_no_number() {
    let base = lowered(&model(&[CLUSTER]), 0, &mut Ids::default());
    assert!(base.verdicts["ingress-programs"].elements.len() == 2 && base.intervals["net4"].elements.len() > 3, "{base:#?}");
    let mut all = vec![CLUSTER];
    for (what, object) in UNRELATED {
        all.push(object);
        assert_keeps(&lowered(&model(&[CLUSTER, object]), 0, &mut Ids::default()), &base, what);
        assert_keeps(&lowered(&model(&all), 0, &mut Ids::default()), &base, &format!("all up to {what}"));
    }
}

#[test]
fn an_edited_rule_changes_its_program_and_leaf_and_no_other_number() {
    let edited = CLUSTER.replace("ports: [{port: 5432}]", "ports: [{port: 5433}]");
    let [before, after] = [CLUSTER, &edited].map(|it| lowered(&model(&[it]), 0, &mut Ids::default()));
    assert_eq!(after.intervals, before.intervals);
    for family in ["class4", "class6"] {
        assert_eq!(after.data.get(family), before.data.get(family));
    }
    // A chain never says anything else: packets may be in it.
    let common = before.chains.iter().filter_map(|(name, chain)| Some((name, chain, after.chains.get(name)?)));
    common.for_each(|(name, old, new)| assert_eq!(old, new, "{name}"));
    let gone: Vec<&str> = before.chains.keys().filter(|it| !after.chains.contains_key(*it)).map(String::as_str).collect();
    assert!(matches!(gone.as_slice(), [program, leaf] if program.starts_with("ingress-") && leaf.starts_with("leaf-")), "{gone:?}");
}
