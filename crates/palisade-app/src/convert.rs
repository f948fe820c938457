//! `palisade convert`: policies in another shape, with the same reach.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use palisade_analysis::convert::{Converted, Objects as Beside, Target, Unsayable, convert as rewrite, mimic};
use palisade_analysis::diff::{Filter, Group, Version};
use palisade_engine::compile;
use palisade_k8s::{CONTROLLER_LABEL, Index, ObjectKey, Snapshot, Text, names};
use palisade_model::{Model, Policy, PolicyKind, PolicyRef, Severity};
use palisade_report::{converted as form, diff as differences, v1};

use crate::cluster::{Cluster, Objects};
use crate::error::AppError;

/// Why one namespace is not enough.
pub const WHOLE_CLUSTER: &str = "cluster policies are about the whole cluster, and pods of other namespaces would not be read";

/// Most names in an error.
const NAMED: usize = 8;

/// What to convert, and to which shape.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// The shape to write.
    pub to: Shape,
    /// Policies by reference or name; all cluster policies if empty.
    pub policies: Vec<String>,
    /// What becomes of policies that the other shape cannot express.
    pub unsayable: Unsayable,
    /// With `Shape::NetworkPolicy`: ranges of pod addresses, so that ipBlocks leave out later pods too.
    pub pod_cidrs: Vec<IpNet>,
}

/// A shape of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1` AdminNetworkPolicy and BaselineAdminNetworkPolicy.
    AdminNetworkPolicy,
    /// `kep2091.palisade.dev/v1alpha1` AdminNetworkPolicy.
    Kep2091,
    /// `networking.k8s.io/v1` NetworkPolicies that do what all cluster policies and NetworkPolicies did.
    NetworkPolicy,
}

/// Converted policies.
#[derive(Debug)]
pub struct Conversion {
    /// The report.
    pub report: v1::Conversion,
    /// The new objects as one text of several documents.
    pub yaml: String,
    /// The policies before and after, which the text form names.
    pub converted: Converted,
}

/// Writes cluster policies in another shape, and compares reach before and after.
pub fn convert(objects: &Objects, options: &ConvertOptions) -> Result<Conversion, AppError> {
    let cluster = objects.cluster();
    cluster.whole(WHOLE_CLUSTER)?;
    cluster.complete("nothing can be converted")?;
    let snapshot = &cluster.snapshot;
    let converted = converted(options, &snapshot.model, &beside(&objects.index, snapshot)).map_err(AppError::Option)?;
    let manifests = form::manifests(&converted, &snapshot.sources);
    let yaml = form::yaml(&manifests);
    let read = read_back(&yaml, &converted, objects)?;
    let mut report = form::converted(&converted, &manifests, &snapshot.sources);
    report.diagnostics = cluster.diagnostics();
    compare(&cluster, &converted, &read, &options.pod_cidrs, &mut report);
    Ok(Conversion { report, yaml, converted })
}

/// Objects beside the policies that count, and what conversion must know of all of them.
fn beside(index: &Index, snapshot: &Snapshot) -> Beside {
    let mut objects = Beside::default();
    let mut counting = BTreeSet::new();
    for policy in snapshot.model.policies.iter().map(|it| &it.origin) {
        let key = snapshot.sources.key_of(policy);
        if policy.kind == PolicyKind::Kep2091 && *key.kind != *names::KEP2091_KIND {
            objects.original.insert(policy.clone());
        }
        let labels = snapshot.sources.beside(&key).map(|it| it.labels).unwrap_or_default();
        let value = labels.into_iter().find(|it| it.0 == CONTROLLER_LABEL).map(|it| it.1.into());
        objects.controllers.extend(value.map(|it| (policy.clone(), it)));
        counting.insert(key);
    }
    objects.others = index.objects().map(|it| it.0).filter(|it| !counting.contains(*it)).filter_map(policy_of).collect();
    objects
}

/// The policy that an object is; none for what is no policy.
fn policy_of(key: &ObjectKey) -> Option<PolicyRef> {
    let kinds = [
        PolicyKind::NetworkPolicy,
        PolicyKind::ClusterNetworkPolicy,
        PolicyKind::AdminNetworkPolicy,
        PolicyKind::BaselineAdminNetworkPolicy,
    ];
    let kind = match &*key.kind {
        names::KEP2091_KIND => PolicyKind::Kep2091,
        other => kinds.into_iter().find(|it| it.as_str() == other)?,
    };
    Some(PolicyRef { kind, namespace: key.namespace.clone(), name: key.name.clone() })
}

fn converted(options: &ConvertOptions, model: &Model, objects: &Beside) -> Result<Converted, String> {
    let wanted = wanted(model, objects, options.to, &options.policies)?;
    let target = match options.to {
        Shape::ClusterNetworkPolicy => Target::ClusterNetworkPolicy,
        Shape::AdminNetworkPolicy => Target::AdminNetworkPolicy,
        Shape::Kep2091 => Target::Kep2091,
        Shape::NetworkPolicy if wanted.is_some() => {
            return Err(
                "`--to networkpolicy` takes all cluster policies at once, since what each lets pass depends on the others: name none"
                    .to_owned(),
            );
        }
        Shape::NetworkPolicy if options.unsayable == Unsayable::Kept => {
            return Err("`--keep`: no cluster policy stays with `--to networkpolicy`".to_owned());
        }
        Shape::NetworkPolicy => {
            let converted = mimic(model, objects, &options.pod_cidrs);
            of_one_controller(objects, &converted.replaced)?;
            return Ok(converted);
        }
    };
    if !options.pod_cidrs.is_empty() {
        return Err("`--pod-cidr` is for `--to networkpolicy`".to_owned());
    }
    Ok(rewrite(model, objects, target, wanted.as_ref(), options.unsayable))
}

/// What policies let pass together can only be said if one controller asks all of them.
fn of_one_controller(objects: &Beside, replaced: &[PolicyRef]) -> Result<(), String> {
    let mut values: BTreeMap<Option<&str>, Vec<&PolicyRef>> = BTreeMap::new();
    for policy in replaced {
        values.entry(objects.controllers.get(policy).map(AsRef::as_ref)).or_default().push(policy);
    }
    if values.len() < 2 {
        return Ok(());
    }
    let said = values.iter().map(|(value, policies)| {
        let all: Vec<String> = policies.iter().take(NAMED).map(|it| format!("`{it}`")).collect();
        let more = if policies.len() > NAMED { format!(" and {} more", policies.len() - NAMED) } else { String::new() };
        let value = value.map_or("no value".to_owned(), |it| format!("`{it}`"));
        format!("{value} on {}{more}", all.join(", "))
    });
    let said: Vec<String> = said.collect();
    Err(format!(
        "`--to networkpolicy` writes what policies let pass together, and these are not for the same controllers: `{CONTROLLER_LABEL}` has {}; \
         give all of them one value, or none",
        said.join("; ")
    ))
}

/// The policies that were named; none for all.
fn wanted(model: &Model, objects: &Beside, to: Shape, names: &[String]) -> Result<Option<BTreeSet<PolicyRef>>, String> {
    let clusters = || model.policies.iter().filter(|it| it.origin.kind != PolicyKind::NetworkPolicy);
    if names.is_empty() {
        if clusters().next().is_none() {
            return Err(nothing(model, objects, to).to_owned());
        }
        return Ok(None);
    }
    let mut wanted = BTreeSet::new();
    for name in names {
        let named = |it: &&Policy| it.origin.to_string() == *name || (it.origin.namespace.is_none() && *it.origin.name == **name);
        let found: Vec<&PolicyRef> = model.policies.iter().filter(named).map(|it| &it.origin).collect();
        match found.as_slice() {
            [] => return Err(format!("`{name}`: no such policy; there {}", known(clusters()))),
            [one] if one.kind == PolicyKind::NetworkPolicy => {
                return Err(format!(
                    "`{name}`: a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted"
                ));
            }
            [one] => wanted.insert((*one).clone()),
            [_, _, ..] => {
                let all: Vec<String> = found.iter().map(|it| format!("`{it}`")).collect();
                return Err(format!("`{name}` is the name of several policies: say {}", all.join(" or ")));
            }
        };
    }
    Ok(Some(wanted))
}

/// Why there is no cluster policy to convert.
fn nothing(model: &Model, objects: &Beside, to: Shape) -> &'static str {
    let foreign = objects.others.iter().any(|it| it.kind != PolicyKind::NetworkPolicy);
    match (foreign, model.policies.is_empty(), to) {
        (true, _, _) => "every cluster policy that was read is for another controller, and is not converted",
        (false, true, _) => "no cluster policy was read, so there is nothing to convert",
        (false, false, Shape::NetworkPolicy) => {
            "no cluster policy was read, and NetworkPolicies stay what they are, so there is nothing to convert"
        }
        (false, false, Shape::ClusterNetworkPolicy | Shape::AdminNetworkPolicy | Shape::Kep2091) => {
            "no cluster policy was read; a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted"
        }
    }
}

fn known<'p>(policies: impl Iterator<Item = &'p Policy>) -> String {
    let all: Vec<String> = policies.map(|it| format!("`{}`", it.origin)).collect();
    let more = if all.len() > NAMED { format!(" and {} more", all.len() - NAMED) } else { String::new() };
    match all.is_empty() {
        true => "is no cluster policy at all".to_owned(),
        false => format!("are {}{more}", all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")),
    }
}

/// The new objects as a reader takes them. They have to be what they were meant to be.
fn read_back(yaml: &str, converted: &Converted, objects: &Objects) -> Result<Snapshot, AppError> {
    let mut index = Index::of(objects.controller.clone());
    index.read(Text { file: "converted".into(), content: yaml.into() });
    let read = index.snapshot();
    let refused: Vec<String> = read.diagnostics.iter().filter(|it| it.severity == Severity::Error).map(|it| format!("{it:?}")).collect();
    let mut meant: Vec<&Policy> = converted.written.iter().map(|it| &it.policy).collect();
    let mut found: Vec<&Policy> = read.model.policies.iter().collect();
    meant.sort_by(|a, b| a.origin.cmp(&b.origin));
    found.sort_by(|a, b| a.origin.cmp(&b.origin));
    match refused.is_empty() && meant == found {
        true => Ok(read),
        false => Err(AppError::ReadBack(format!("{}{yaml}", refused.join("\n")))),
    }
}

/// Compares reach before and after, if there are pods to compare it for.
fn compare(cluster: &Cluster, converted: &Converted, read: &Snapshot, pods: &[IpNet], report: &mut v1::Conversion) {
    if !cluster.has_pods() {
        return;
    }
    let old = &cluster.snapshot.model;
    let new = converted.applied_to(old);
    let (before, after) = (compile(old), compile(&new));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old_version = Version { model: old, reach: &mut before };
    let mut diff = Version { model: &new, reach: &mut after }.changes_since(&mut old_version, &Filter::default());
    // Addresses that only pods have are not outside, though no pod has them now.
    let of_pods = |it: &(IpAddr, IpAddr)| pods.iter().any(|net| net.contains(&it.0) && net.contains(&it.1));
    let later = |group: &Group| group.units.is_empty() && group.ranges.iter().all(of_pods);
    diff.changes.retain(|it| pods.is_empty() || !(later(&it.from) || later(&it.to)));
    let difference = differences::differed(&diff, &cluster.snapshot.sources, &read.sources, Vec::new(), Vec::new());
    report.reach = if diff.changes.is_empty() { v1::ConversionReach::Same } else { v1::ConversionReach::Changed };
    report.qualifications = cluster.limits();
    report.changes = difference.changes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::{DENY, SHOP, objects};

    fn check(texts: &[&str], policies: &[&str], expected: Result<(&str, Outcome), &str>) {
        let policies = policies.iter().map(|it| (*it).to_owned()).collect();
        let options = ConvertOptions { to: Shape::ClusterNetworkPolicy, policies, unsayable: Unsayable::Dropped, pod_cidrs: Vec::new() };
        let found = convert(&objects(texts), &options).map_err(|it| it.to_string());
        let kind = |it: &Conversion| it.report.policies.first().and_then(|it| it.get("kind")).and_then(|it| it.as_str()).map(str::to_owned);
        let found = found.map(|it| (kind(&it).unwrap_or_default(), it.report.outcome()));
        assert_eq!(found, expected.map(|it| (it.0.to_owned(), it.1)).map_err(str::to_owned));
    }

    #[test]
    fn a_policy_is_written_in_another_shape_with_the_same_reach() {
        check(&[SHOP, DENY], &[], Ok(("ClusterNetworkPolicy", Outcome::Yes)));
        check(&[SHOP, DENY], &["anp/other"], Err("`anp/other`: no such policy; there are `anp/no-web`"));
    }
}
