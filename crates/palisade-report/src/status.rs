//! What was read, counted.

use std::collections::BTreeMap;

use palisade_k8s::{CONTROLLER_LABEL, Labelled, Snapshot, Whose};
use palisade_model::{Policy, PolicyKind, Tier};

use crate::{standing, v1};

/// Counts what was read.
pub fn status<'c>(snapshot: &Snapshot, controller: impl Iterator<Item = &'c str>, qualifications: Vec<String>) -> v1::Status {
    let model = &snapshot.model;
    let mut policies: BTreeMap<(Tier, PolicyKind, Option<&str>), usize> = BTreeMap::new();
    for policy in &model.policies {
        let Policy { tier, origin, .. } = policy;
        *policies.entry((*tier, origin.kind, standing::shape(policy))).or_default() += 1;
    }
    v1::Status {
        api_version: v1::API_VERSION.to_owned(),
        kind: "Status".to_owned(),
        controller: controller.map(str::to_owned).collect(),
        qualifications,
        ends: v1::StatusEnds {
            namespaces: model.namespaces.len(),
            pods: model.endpoints.len(),
            host_network_pods: model.nodes.iter().map(|it| it.host_pods.len()).sum(),
            nodes: model.nodes.len(),
            services: model.services.len(),
        },
        policies: policies.into_iter().map(counted).collect(),
        controllers: snapshot.labelled.iter().map(labelled).collect(),
        audited: model.audited.iter().map(|(set, policies)| audited(set, policies)).collect(),
        diagnostics: snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect(),
    }
}

fn audited(set: &str, policies: &[Policy]) -> v1::StatusAudited {
    v1::StatusAudited { set: set.to_owned(), policies: policies.iter().map(|it| it.origin.to_string()).collect() }
}

/// What is watched, set by set.
fn audited_text(it: &v1::Status) -> String {
    let line = |it: &v1::StatusAudited| format!("  {:>6}  in set {}: {}\n", it.policies.len(), it.set, it.policies.join(", "));
    let lines: String = it.audited.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\npolicies that are watched, not enforced\n{lines}") }
}

fn counted(((tier, kind, shape), count): ((Tier, PolicyKind, Option<&str>), usize)) -> v1::StatusPolicies {
    v1::StatusPolicies { tier: tier.to_string(), policy_kind: kind.as_str().to_owned(), shape: shape.map(str::to_owned), count }
}

fn labelled(it: &Labelled) -> v1::StatusController {
    let whose = match it.whose {
        Whose::Everybodys => "everybody",
        Whose::Ours => "ours",
        Whose::Foreign => "foreign",
        Whose::Nobodys => "nobody",
        Whose::SwitchedOff => "off",
    };
    v1::StatusController {
        value: it.value.as_deref().map(str::to_owned),
        whose: whose.to_owned(),
        counts: matches!(it.whose, Whose::Everybodys | Whose::Ours),
        kinds: it.policies.iter().map(|(kind, count)| (kind.to_string(), *count)).collect(),
        total: it.policies.values().sum(),
    }
}

/// The ends and the policies that count.
pub fn status_text(it: &v1::Status) -> String {
    let v1::StatusEnds { namespaces, pods, host_network_pods, nodes, services } = &it.ends;
    let mut out = format!("{pods} pods of {namespaces} namespaces, {nodes} nodes, {services} Services\n");
    if *host_network_pods > 0 {
        out.push_str(&format!("{host_network_pods} pods on the network of their node, where no policy selects them\n"));
    }
    out.push_str(if it.policies.is_empty() { "\nno policies that count\n" } else { "\npolicies that count\n" });
    for policies in &it.policies {
        let shape = policies.shape.as_ref().map(|it| format!("  shape {it}")).unwrap_or_default();
        out.push_str(&format!("  {:>6}  {:<13}  {}{shape}\n", policies.count, policies.tier, policies.policy_kind));
    }
    out + &audited_text(it)
}

/// Policies by the value of the label.
pub fn controllers_text(it: &v1::Status) -> String {
    let us = it.controller.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let mut out = format!("policies by the label {CONTROLLER_LABEL}, as {us} sees them\n");
    let shown = |it: &v1::StatusController| match it.value.as_deref() {
        None => "(no label)".to_owned(),
        Some("") => "\"\"".to_owned(),
        Some(value) => value.to_owned(),
    };
    let width = it.controllers.iter().map(|it| shown(it).len()).max().unwrap_or(0);
    for of_value in &it.controllers {
        let kinds: Vec<String> = of_value.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let meaning = match of_value.whose.as_str() {
            "everybody" => "enforced, by every controller",
            "ours" => "enforced, by this controller alone",
            "foreign" => "ignored: for another controller",
            "nobody" => "ignored: for no controller",
            _ => "ignored: switched off",
        };
        out.push_str(&format!("  {:<width$}  {:>6}  {meaning}  ({})\n", shown(of_value), of_value.total, kinds.join(", ")));
    }
    let all: usize = it.controllers.iter().map(|it| it.total).sum();
    let counting: usize = it.controllers.iter().filter(|it| it.counts).map(|it| it.total).sum();
    out.push_str(&format!("{counting} of {all} policies count here\n"));
    out + &audited_text(it)
}
