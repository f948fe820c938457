//! What to write so that a connection is allowed, as it leaves the house.

mod patch;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_analysis::Edit;
use palisade_analysis::allow::{Addition, Allowance, Block, Change, Outcome, Why};
use palisade_k8s::{Controller, ObjectKey, Sources};
use palisade_model::{Direction, NodeId, Place as End, Policy, PolicyRef, PortSet, RuleRef, Tier};

use self::patch::{Replacement, applied, patched};
pub use self::text::allowance as allowance_text;
use crate::diff::differed;
use crate::locate::{mark, rule_path};
use crate::unified::unified_diff;
use crate::v1::{API_VERSION, AllowAction, AllowBlock, AllowChange, AllowOutcome, Explanation, Place};
use crate::{manifest, v1, words};

/// Writes down what to write. The controller is the one as which the texts were read.
pub fn allowed(allowance: &Allowance, explanation: Explanation, sources: &Sources, controller: &Controller) -> v1::Allowance {
    let mut writer = Writer { allowance, sources, controller, edited: BTreeMap::new() };
    v1::Allowance {
        api_version: API_VERSION.to_owned(),
        kind: "Allowance".to_owned(),
        outcome: match allowance.outcome {
            Outcome::AllowedAlready => AllowOutcome::AllowedAlready,
            Outcome::Proposed => AllowOutcome::Proposed,
            Outcome::Useless => AllowOutcome::Useless,
        },
        explanation,
        blocks: allowance.blocks.iter().map(|it| writer.block(it)).collect(),
        changes: allowance.changes.iter().map(|it| writer.change(it)).collect(),
        // What a change adds stands nowhere yet.
        others: differed(&allowance.others, sources, &Sources::default(), Vec::new(), Vec::new()).changes,
        notes: if allowance.changes.is_empty() { Vec::new() } else { whole_nodes(allowance) },
    }
}

/// Nodes that a change opens to: who has their address is not told apart.
fn whole_nodes(allowance: &Allowance) -> Vec<String> {
    let model = &allowance.before.model;
    let ends = allowance.before.cases.iter().flat_map(|it| [it.flow.from.place, it.flow.to.place]);
    let nodes: BTreeSet<NodeId> = ends.filter_map(|it| if let End::Node(id) = it { Some(id) } else { None }).collect();
    let note = |id: NodeId| {
        let node = model.node(id)?;
        let pods: Vec<String> = node.host_pods.iter().map(|it| it.name.to_string()).collect();
        let known = if pods.is_empty() { String::new() } else { format!(": {}", pods.join(", ")) };
        Some(format!("this is the address of node {}, so that it holds for everything on its network{known}", node.name))
    };
    nodes.into_iter().filter_map(note).collect()
}

/// All policies to write, as documents.
pub fn yaml(it: &v1::Allowance) -> String {
    it.changes.iter().map(|it| it.yaml.as_str()).collect::<Vec<_>>().join("---\n")
}

struct Writer<'a> {
    allowance: &'a Allowance,
    sources: &'a Sources,
    controller: &'a Controller,
    /// What was done to each file so far.
    edited: BTreeMap<Arc<str>, Vec<Replacement>>,
}

impl Writer<'_> {
    fn policy(&self, it: &PolicyRef) -> v1::Policy {
        v1::Policy {
            kind: it.kind.as_str().to_owned(),
            namespace: it.namespace.as_deref().map(str::to_owned),
            name: it.name.to_string(),
            shape: None,
            priority: None,
            place: self.sources.location(&ObjectKey::from(it)).as_ref().map(Place::from),
        }
    }

    fn block(&self, it: &Block) -> AllowBlock {
        let side = it.side.and_then(|side| self.allowance.before.cases.get(side.case).map(|case| (side.direction, case)));
        let (pod, other) = match side {
            Some((Direction::Egress, case)) => (Some(case.from.name.clone()), case.to.name.clone()),
            Some((Direction::Ingress, case)) => (Some(case.to.name.clone()), case.from.name.clone()),
            None => (None, String::new()),
        };
        let name = pod.clone().unwrap_or_default();
        let direction = side.map(|it| it.0);
        let (sentence, help) = said(&it.why, direction, &name, &other);
        let (rule, ask) = match &it.why {
            Why::Admin { rule, ask } | Why::Baseline { rule, ask } => (Some(rule), ask.as_deref()),
            Why::NoWords | Why::NoLabels | Why::NothingHelps | Why::NoEndpoints | Why::NoFamily(_) => (None, None),
        };
        AllowBlock {
            direction: direction.map(|it| it.to_string()),
            pod,
            sentence,
            rule: rule.map(ToString::to_string),
            policy: rule.map(|it| self.policy(&it.policy)),
            mark: rule.and_then(|it| {
                mark(self.sources, it, &[rule_path(it).field("action"), rule_path(it)], format!("denies {} of {name}", it.direction))
            }),
            help,
            edit: ask.and_then(asked_for),
        }
    }

    fn change(&mut self, it: &Change) -> AllowChange {
        match it {
            Change::Create { policy, isolates } => AllowChange {
                action: AllowAction::Create,
                policy: self.policy(&policy.origin),
                sentence: created(policy, isolates),
                yaml: manifest::network_policy(policy),
                diff: None,
                newly_isolates: isolates.iter().map(ToString::to_string).collect(),
            },
            Change::Extend { policy, additions } => self.extended(policy, additions),
        }
    }

    fn extended(&mut self, policy: &PolicyRef, additions: &[Addition]) -> AllowChange {
        let after = self.allowance.model.policies.iter().find(|it| it.origin == *policy);
        let patched = after.and_then(|it| patched(self.sources, self.controller, it, additions));
        let how: Vec<String> = additions.iter().map(addition).collect();
        let anew = if patched.is_some() { "" } else { " (written anew: its text cannot be edited, so comments are lost)" };
        let sentence =
            format!("{} {}{anew}{}", how.join(" and "), words::policy(policy), wide(additions.iter().filter_map(|it| ports_of(after, it))));
        let (yaml, diff) = match patched {
            Some(it) => {
                let so_far = self.edited.entry(it.text.file.clone()).or_default();
                let old = applied(&it.text.content, so_far);
                so_far.extend(it.replacements);
                so_far.sort_by_key(|it| (it.start, it.end));
                let new = applied(&it.text.content, so_far);
                (it.object, old.zip(new).map(|(old, new)| unified_diff((&it.text.file, &old), (&it.text.file, &new))))
            }
            None => (after.map(manifest::network_policy).unwrap_or_default(), None),
        };
        AllowChange { action: AllowAction::Extend, policy: self.policy(policy), sentence, yaml, diff, newly_isolates: Vec::new() }
    }
}

fn addition(it: &Addition) -> String {
    let direction = it.direction();
    let preposition = words::preposition(direction);
    match it {
        Addition::Rule { .. } => format!("add an {direction} rule to"),
        Addition::Peer { index, .. } => format!("add an entry to `{preposition}` of {direction} rule {index} of"),
        Addition::Port { index, .. } => format!("add an entry to `ports` of {direction} rule {index} of"),
    }
}

fn created(policy: &Policy, isolates: &[Direction]) -> String {
    let closes: String = isolates
        .iter()
        .map(|it| {
            format!(" (it isolates the pods it selects for {it}, which nothing does now: everything it does not accept is then denied)")
        })
        .collect();
    format!(
        "create {}{closes}{}",
        words::policy(&policy.origin),
        wide(policy.rules.egress.iter().chain(&policy.rules.ingress).map(|it| it.ports.clone()))
    )
}

/// Said of rules for any traffic, which the question asked for only where the protocol has no ports.
fn wide(rules: impl IntoIterator<Item = PortSet>) -> &'static str {
    match rules.into_iter().any(|it| it == PortSet::Any) {
        true => " (a NetworkPolicy cannot name this protocol, so it accepts all traffic between them)",
        false => "",
    }
}

fn ports_of(policy: Option<&Policy>, addition: &Addition) -> Option<PortSet> {
    match addition {
        Addition::Rule { rule, .. } => Some(rule.ports.clone()),
        Addition::Peer { direction, index, .. } => {
            policy?.rules.of(*direction).iter().find(|it| it.index == *index).map(|it| it.ports.clone())
        }
        Addition::Port { .. } => None,
    }
}

/// What the owners of a cluster policy could write, where there are words for it.
fn asked_for(edit: &Edit) -> Option<v1::Edit> {
    let Edit::Insert { before, rule } = edit else { return None };
    let sentence = format!("before {} of the {} rules of {}", words::rule(before), before.direction, words::policy(&before.policy));
    Some(v1::Edit { sentence, yaml: Some(manifest::cluster_rule(rule, before.direction, before.policy.kind)) })
}

/// What stands in the way, and what to do about it.
fn said(why: &Why, direction: Option<Direction>, pod: &str, other: &str) -> (String, Option<String>) {
    let direction = direction.map(|it| it.to_string()).unwrap_or_default();
    let decided = |rule: &RuleRef, tier: Tier| {
        format!("{} of {} (tier {tier}) denies {direction} of {pod}", words::rule(rule), words::policy(&rule.policy))
    };
    match why {
        Why::Admin { rule, .. } => (
            format!("{}, and is asked before every NetworkPolicy", decided(rule, Tier::Admin)),
            Some(format!("ask whoever may change {}: only a rule before that one helps", words::policy(&rule.policy))),
        ),
        Why::Baseline { rule, .. } => (
            format!(
                "{}; a NetworkPolicy is asked before it, but none isolates {pod} for {direction}, and one that did would close all it does not accept",
                decided(rule, Tier::Baseline)
            ),
            Some(format!("`--isolate` proposes one, with what it closes; or ask whoever may change {}", words::policy(&rule.policy))),
        ),
        Why::NoWords => (
            format!("no address of {other} is known, and a NetworkPolicy has no other words for it"),
            Some("ask about its address".to_owned()),
        ),
        Why::NoLabels => (
            format!("{pod} has no labels, so a NetworkPolicy can only select it together with all pods of its namespace"),
            Some("give it a label".to_owned()),
        ),
        Why::NothingHelps => (format!("no NetworkPolicy that was tried opens {direction} of {pod}"), None),
        Why::NoEndpoints => ("the Service has no ready pod behind this port, so no policy is asked".to_owned(), None),
        Why::NoFamily(why) => (why.clone(), None),
    }
}
