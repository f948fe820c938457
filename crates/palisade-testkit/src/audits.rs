//! Random clusters with some of their policies in audit mode: nothing changes, and what is logged is the difference.

use std::collections::BTreeMap;

use palisade_engine::{compile, decide};
use palisade_k8s::{CONTROLLER_LABEL, CONTROLLER_NAME, DISABLED, names};
use palisade_model::{Direction, Flow, Model, Place, Verdict};
use palisade_nft::{Becomes, Statement, Verdict as Fate, Would};
use serde_json::{Value, json};

use crate::check::snapshot;
use crate::generate::generate;
use crate::nodes::Nodes;
use crate::objects::Objects;
use crate::pairs::all_flows;
use crate::random::Random;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    pub flows: usize,
    pub denied: usize,
    pub allowed: usize,
    /// Flows that two sets have something to say about.
    pub by_two_sets: usize,
    /// Flows of which both directions would turn.
    pub both_directions: usize,
    /// Flows with a subject that is isolated by audited policies only.
    pub newly_isolated: usize,
}

impl Looked {
    /// Both together.
    pub fn add(&mut self, other: &Looked) {
        self.flows += other.flows;
        self.denied += other.denied;
        self.allowed += other.allowed;
        self.by_two_sets += other.by_two_sets;
        self.both_directions += other.both_directions;
        self.newly_isolated += other.newly_isolated;
    }
}

/// How much traffic is asked about for each pair of ends.
const TRAFFIC: usize = 4;

/// The cluster of one seed: what was looked at, or what is wrong with it.
pub fn examine(seed: u64) -> Result<Looked, String> {
    let random = &mut Random::new(seed);
    let (audited, without) = put_into_audit(&generate(seed).objects, random);
    let model = snapshot("cluster.json", &audited.to_json()).model;
    let plain = snapshot("cluster.json", &without.to_json()).model;
    same_policies(&model, &plain)?;
    let unaware = Model { audited: BTreeMap::new(), ..model.clone() };
    let (nodes, of_unaware) = (Nodes::of(&model), Nodes::of(&unaware));
    if nodes.rulesets() != of_unaware.rulesets() || compile(&model).canonical(&model) != compile(&unaware).canonical(&unaware) {
        return Err("audited policies are in what decides".to_owned());
    }
    nothing_decides(&nodes)?;
    let all = model.with_all_audited();
    let mut looked = Looked::default();
    for flow in all_flows(random, &all, TRAFFIC) {
        let told = nodes.would(&flow)?;
        let expected = expected(&model, &flow);
        let told = told.map(|it| {
            let mut told: Vec<Would> = it.into_iter().cloned().collect();
            told.sort();
            told
        });
        let Some(told) = told else { continue };
        if told != expected {
            return Err(format!("{flow:?}\nis logged as   {told:#?}\nbut would be   {expected:#?}\n{}", audited.to_json()));
        }
        let today = decide(&model, &flow).verdict;
        if today != palisade_spec::judge(&plain, &flow).verdict {
            return Err(format!("{flow:?} is {today:?} with audited policies, and not so without"));
        }
        looked.count(&told);
    }
    Ok(looked)
}

impl Looked {
    fn count(&mut self, told: &[Would]) {
        let any = |test: fn(&Would) -> bool| usize::from(told.iter().any(test));
        self.flows += 1;
        self.denied += any(|it| it.becomes == Becomes::Denied);
        self.allowed += any(|it| it.becomes == Becomes::Allowed);
        self.by_two_sets += usize::from(told.windows(2).any(|it| matches!(it, [a, b] if a.set != b.set)));
        self.both_directions += usize::from(told.windows(2).any(|it| matches!(it, [a, b] if a.direction != b.direction)));
        self.newly_isolated += any(|it| matches!(it.reason, palisade_model::Reason::Isolated(_)));
    }
}

/// Some policies in audit mode, in one of two sets and with every label that leaves them to us; and the cluster without these.
pub fn put_into_audit(objects: &Objects, random: &mut Random) -> (Objects, Objects) {
    let (mut audited, mut without) = (Objects::default(), Objects::default());
    for object in &objects.0 {
        let policy = object.get("kind").and_then(Value::as_str).is_some_and(|it| it.ends_with("NetworkPolicy"));
        let foreign = object.pointer("/metadata/labels").and_then(|it| it.get(CONTROLLER_LABEL)).is_some();
        if !policy || foreign || random.percent(55) {
            audited.0.push(object.clone());
            without.0.push(object.clone());
            continue;
        }
        let mut object = object.clone();
        put(&mut object, "annotations", names::MODE, names::MODE_AUDIT);
        if let Some(set) = random.of([None, Some("second")]) {
            put(&mut object, "annotations", names::AUDIT_SET, set);
        }
        if let Some(label) = random.of([None, Some(CONTROLLER_NAME), Some(DISABLED)]) {
            put(&mut object, "labels", CONTROLLER_LABEL, label);
        }
        audited.0.push(object);
    }
    (audited, without)
}

fn put(object: &mut Value, field: &str, key: &str, value: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let map = metadata.entry(field).or_insert_with(|| json!({}));
    if map.is_null() {
        *map = json!({});
    }
    map.as_object_mut().into_iter().for_each(|it| drop(it.insert(key.to_owned(), json!(value))));
}

/// Audited policies are read as if they were not there.
fn same_policies(model: &Model, plain: &Model) -> Result<(), String> {
    if model.policies != plain.policies {
        return Err("the policies that count are not those of the cluster without the audited ones".to_owned());
    }
    let audited = |it: &&palisade_model::Policy| model.policies.iter().any(|other| other.origin == it.origin);
    match model.audited.values().flatten().find(audited) {
        Some(policy) => Err(format!("{} counts and is audited", policy.origin)),
        None => Ok(()),
    }
}

/// No rule of an audit accepts or drops.
fn nothing_decides(nodes: &Nodes) -> Result<(), String> {
    for (name, chain) in nodes.audits().iter().flatten().flat_map(|it| &it.ruleset.chains) {
        let ends = |it: &Statement| matches!(it, Statement::Verdict(Fate::Accept | Fate::Drop));
        if chain.rules.iter().flat_map(|it| &it.statements).any(ends) {
            return Err(format!("a rule of chain `{name}` of an audit decides"));
        }
    }
    Ok(())
}

/// What the specification says of each set and direction, where the node of its subject sees the connection.
fn expected(model: &Model, flow: &Flow) -> Vec<Would> {
    let today = palisade_spec::judge(model, flow);
    let mut expected = Vec::new();
    for set in model.audited.keys() {
        let with = palisade_spec::judge(&model.with_audited(set), flow);
        for direction in Direction::BOTH {
            let ((before, instead_of), (after, reason)) = (today.directions.of(direction), with.directions.of(direction));
            let becomes = match (*before == Verdict::Accept, *after == Verdict::Accept) {
                (true, false) => Becomes::Denied,
                (false, true) => Becomes::Allowed,
                (true, true) | (false, false) => continue,
            };
            if is_seen(model, flow, direction) {
                expected.push(Would { set: set.clone(), direction, becomes, reason: reason.clone(), instead_of: instead_of.clone() });
            }
        }
    }
    expected.sort();
    expected
}

/// A node that calls its own pod meets no hook.
fn is_seen(model: &Model, flow: &Flow, direction: Direction) -> bool {
    match (direction, flow.from.place, flow.to.place) {
        (Direction::Ingress, Place::Node(node), Place::Pod(pod)) => model.endpoint(pod).is_none_or(|it| it.node != Some(node)),
        (Direction::Ingress | Direction::Egress, ..) => true,
    }
}
