//! What findings say is held against the engine: what they call superfluous, never asked or nobody can go without changing who reaches whom.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot read a scenario has failed"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use palisade_api::tree::Step;
use palisade_engine::{Traffic, compile};
use palisade_k8s::{FieldPath, Index, ObjectKey, Text};
use palisade_lint::{Choice, Finding, fix, lint};
use palisade_model::{Direction, End, EndpointId, Family, Model, NodeId, PeerSet, Place, PortSet, Severity};
use palisade_testkit::generate::generate;
use palisade_testkit::scenario::all;

/// Random clusters that are tried.
const SEEDS: u64 = 60;

/// Every cluster of the scenarios, and random ones.
fn clusters() -> impl Iterator<Item = (String, Index)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenarios = all(&root).unwrap().into_iter().map(|it| (it.name.clone(), std::fs::read_to_string(it.cluster()).unwrap()));
    let random = (0..SEEDS).map(|seed| (format!("seed {seed}"), generate(seed).objects.to_json()));
    scenarios.chain(random).filter_map(|(name, content)| {
        let mut index = Index::default();
        index.read(Text { file: Arc::from("cluster.yaml"), content: content.into() });
        let refused = index.snapshot().diagnostics.iter().any(|it| it.severity == Severity::Error);
        (!refused).then_some((name, index))
    })
}

/// What passes between all ends of a cluster.
type Passing = BTreeMap<(End, End), Option<(Vec<Traffic>, Vec<Traffic>)>>;

/// Every end of a cluster: pods and nodes at each address, and an address of each range outside.
fn ends(model: &Model) -> Vec<End> {
    let compiled = compile(model);
    let reach = compiled.reach();
    let pods = (0..model.endpoints.len()).flat_map(|it| reach.ends(EndpointId(it)).collect::<Vec<_>>());
    let node = |(at, node): (usize, &palisade_model::Node)| -> Vec<End> {
        node.addresses.iter().map(|it| End { place: Place::Node(NodeId(at)), address: Some(*it) }).collect()
    };
    let nodes = model.nodes.iter().enumerate().flat_map(node);
    pods.chain(nodes).chain(reach.outside().map(|it| it.2)).collect()
}

fn passing(model: &Model, ends: &[End]) -> Passing {
    let compiled = compile(model);
    let mut reach = compiled.reach();
    let mut found = BTreeMap::new();
    for from in ends {
        // A connection is of one family.
        for to in ends.iter().filter(|it| it.address.map(Family::of) == from.address.map(Family::of)) {
            let passes = reach.between(from, to);
            let parts = passes.map(|it| (reach.sets().parts(it.allowed), reach.sets().parts(it.depends_on_dns)));
            found.insert((*from, *to), parts);
        }
    }
    found
}

/// The model without what a finding says does nothing.
fn without(model: &Model, finding: &Finding) -> Option<Model> {
    let mut model = model.clone();
    let at = model.policies.iter().position(|it| ObjectKey::from(&it.origin) == finding.at.object)?;
    let path = finding.at.paths.first()?.to_string();
    let direction = if path.starts_with("spec.ingress") { Direction::Ingress } else { Direction::Egress };
    let places = indices(finding.at.paths.first()?);
    if places.is_empty() && finding.rule != "unreachable-baseline" {
        model.policies.remove(at);
        return Some(model);
    }
    let rules = model.policies[at].rules.of_mut(direction);
    let entry = places.get(1).copied();
    match (finding.rule, places.first().copied(), entry) {
        ("unreachable-baseline", _, _) => rules.clear(),
        ("rule-shadowed" | "redundant-rule" | "other-side-denies" | "overridden-by-cluster-policy", Some(rule), _) => {
            rules.retain(|it| it.index != rule)
        }
        (_, Some(rule), Some(entry)) => {
            let rule = rules.iter_mut().find(|it| it.index == rule)?;
            let of_ports = path.contains("ports[") || path.contains("protocols[");
            match (of_ports, &mut rule.peers, &mut rule.ports) {
                (true, _, PortSet::Of(ports)) => drop(ports.remove(entry)),
                (false, PeerSet::Of(peers), _) => drop(peers.remove(entry)),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(model)
}

/// The places in lists on the way.
fn indices(path: &FieldPath) -> Vec<usize> {
    let index = |step: &Step| match step {
        Step::Index(at) => Some(*at),
        Step::Field(_) => None,
    };
    path.0.iter().filter_map(index).collect()
}

/// Rules that say that something does nothing.
const CLAIMS: &[&str] = &[
    "duplicate-entry",
    "host-network-subject",
    "named-port-nobody-has",
    "named-port-with-networks",
    "other-side-denies",
    "overridden-by-cluster-policy",
    "redundant-policy",
    "redundant-rule",
    "rule-shadowed",
    "selector-selects-nothing",
    "unreachable-baseline",
];

#[test]
fn what_does_nothing_can_go_without_changing_who_reaches_whom() {
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    let only: Vec<String> = CLAIMS.iter().map(|it| (*it).to_owned()).collect();
    let choice = Choice::of(&only, &[]).unwrap();
    for (name, index) in clusters() {
        let model = index.snapshot().model;
        let findings = lint(&index, &choice).findings;
        let ends = ends(&model);
        let before = passing(&model, &ends);
        // Exceptions go with fixes; a policy that also selects others does something.
        let claims = findings.iter().filter(|it| indices(&it.at.paths[0]).len() < 3 && !it.message.starts_with("it also selects"));
        for finding in claims {
            let Some(less) = without(&model, finding) else { continue };
            *met.entry(finding.rule).or_default() += 1;
            let after = passing(&less, &ends);
            let changed: Vec<_> = before.iter().filter(|(pair, passes)| after[pair] != **passes).take(3).collect();
            assert!(changed.is_empty(), "{name}: {finding:#?}\nand yet it matters: {changed:#?}");
        }
    }
    let never: Vec<_> = CLAIMS.iter().filter(|it| !met.contains_key(**it)).collect();
    assert!(never.is_empty(), "never met: {never:?} among {met:?}");
}

#[test]
fn repairs_change_no_verdict() {
    let mut removed = 0;
    for (name, index) in clusters() {
        let fixed = fix(&index, &lint(&index, &Choice::default()).findings).unwrap_or_else(|error| panic!("{name}: {error}"));
        let texts: Vec<Text> = fixed.iter().map(|it| Text { file: it.file.clone(), content: it.after.as_str().into() }).collect();
        removed += fixed.iter().map(|it| it.removed).sum::<usize>();
        if fixed.is_empty() {
            continue;
        }
        let (old, new) = (index.snapshot().model, index.with_texts(&texts).snapshot().model);
        let ends = ends(&old);
        assert_eq!(passing(&old, &ends), passing(&new, &ends), "{name}:\n{}", fixed[0].diff);
    }
    assert!(removed > 50, "only {removed} were repaired");
}
