//! `palisade convert`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use palisade_analysis::convert::{Converted, Objects, Target, Unsayable, Weight, convert, mimic};
use palisade_analysis::diff::{Filter, Group, Version};
use palisade_engine::compile;
use palisade_k8s::{CONTROLLER_LABEL, Controller, Index, ObjectKey, Snapshot, Text, names};
use palisade_model::{Model, Policy, PolicyKind, PolicyRef, Severity};
use palisade_report::{converted as form, diff as differences, diff_text, v1};

use crate::cli::InputArgs;
use crate::input::{self, Input};
use crate::outcome::{Exit, Outcome};

/// Write policies in another shape, with the same reach
///
/// Reads cluster policies of any kind and writes them as another. The new objects go to standard output and apply cleanly: labels, annotations and
/// comments are kept, status and what servers fill in are not. What the other shape cannot say is listed on standard error, with what was written in its
/// place. Then both versions of the cluster are compared, connection by connection: what changes is printed as `palisade diff` prints it.
///
/// Nothing is deleted or applied. The objects that the new ones replace are named; delete them once the new ones are there.
#[derive(Args, Debug)]
#[command(after_help = "\
POLICY is cnp/NAME, anp/NAME, banp/NAME, kep2091/NAME, or a name alone. Without any, all cluster policies are converted.

Examples:
  palisade convert --to clusternetworkpolicy -f manifests/ > cnp.yaml
  palisade convert --to clusternetworkpolicy -f manifests/ anp/tenants
  palisade convert --to adminnetworkpolicy --context prod --keep
  palisade convert --to kep2091 -f manifests/ -o json | jq '.losses'
  palisade convert --to networkpolicy -f manifests/ > downgrade.yaml

Exit codes: 0 reach is the same, 1 connections change (they are listed), 2 could not tell.")]
pub(crate) struct ConvertArgs {
    /// The shape to write
    #[arg(long, value_name = "SHAPE")]
    pub(crate) to: Shape,
    /// The policies to convert
    #[arg(value_name = "POLICY")]
    pub(crate) policies: Vec<String>,
    /// Leave a policy in its own shape where the other cannot say all of it
    #[arg(long)]
    pub(crate) keep: bool,
    /// With `--to networkpolicy`: where pods have their addresses from, for each family that they have; may be repeated
    ///
    /// Blocks of addresses then leave out pods that come later too.
    #[arg(long, value_name = "CIDR")]
    pub(crate) pod_cidr: Vec<IpNet>,
    /// yaml: the new objects; json: the same with all that was lost and changed (`palisade schema conversion`)
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: ConvertOutput,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// policy.networking.k8s.io/v1alpha2 ClusterNetworkPolicy
    Clusternetworkpolicy,
    /// policy.networking.k8s.io/v1alpha1 AdminNetworkPolicy and BaselineAdminNetworkPolicy, as last shipped
    Adminnetworkpolicy,
    /// kep2091.palisade.dev/v1alpha1 AdminNetworkPolicy, as KEP-2091 proposed it
    Kep2091,
    /// networking.k8s.io/v1 NetworkPolicies in every namespace that do what all cluster policies and NetworkPolicies did, for a downgrade
    Networkpolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertOutput {
    Yaml,
    Json,
}

pub(crate) fn run(args: &ConvertArgs) -> Result<Outcome> {
    if args.input.namespace.is_some() {
        bail!("`-n`: cluster policies are about the whole cluster, and pods of other namespaces would not be read");
    }
    let (index, unavailable) = input::read_objects(&args.input)?;
    let input = Input { snapshot: index.snapshot(), unavailable };
    if input.refused() {
        return Ok(Outcome::cannot_tell(format!("{}error: objects were refused, so nothing can be converted\n", input.noticed())));
    }
    let converted = converted(args, &input.snapshot.model, &objects(&index, &input.snapshot))?;
    let manifests = form::manifests(&converted, &input.snapshot.sources);
    let yaml = form::yaml(&manifests);
    let read = read_back(&yaml, &converted, &input::controller(&args.input.controller_name, &args.input.disabled_name)?)?;
    let mut report = form::converted(&converted, &manifests, &input.snapshot.sources);
    report.diagnostics = input.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect();
    let difference = compare(&input, &converted, &read, &args.pod_cidr, &mut report);
    let exit = exit(&converted, &report);
    let stdout = match args.output {
        ConvertOutput::Json => return Ok(Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit }),
        ConvertOutput::Yaml => yaml,
    };
    let references: Vec<String> = converted.untouched.iter().map(|it| it.0.to_string()).collect();
    let stderr = format!("{}{}{}", input.noticed(), form::said(&report, &references), ending(&converted, &report, &difference));
    Ok(Outcome { stdout, stderr, exit })
}

/// What is to be known of the objects beside the policies that count.
fn objects(index: &Index, snapshot: &Snapshot) -> Objects {
    let mut objects = Objects::default();
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

fn converted(args: &ConvertArgs, model: &Model, objects: &Objects) -> Result<Converted> {
    let wanted = wanted(model, objects, args.to, &args.policies)?;
    let target = match args.to {
        Shape::Clusternetworkpolicy => Target::ClusterNetworkPolicy,
        Shape::Adminnetworkpolicy => Target::AdminNetworkPolicy,
        Shape::Kep2091 => Target::Kep2091,
        Shape::Networkpolicy if wanted.is_some() => {
            bail!("`--to networkpolicy` takes all cluster policies at once, since what each lets pass depends on the others: name none")
        }
        Shape::Networkpolicy if args.keep => bail!("`--keep`: no cluster policy stays with `--to networkpolicy`"),
        Shape::Networkpolicy => {
            let converted = mimic(model, objects, &args.pod_cidr);
            of_one_controller(objects, &converted.replaced)?;
            return Ok(converted);
        }
    };
    if !args.pod_cidr.is_empty() {
        bail!("`--pod-cidr` is for `--to networkpolicy`");
    }
    let unsayable = if args.keep { Unsayable::Kept } else { Unsayable::Dropped };
    Ok(convert(model, objects, target, wanted.as_ref(), unsayable))
}

/// What policies let pass together can only be said if one controller asks all of them.
fn of_one_controller(objects: &Objects, replaced: &[PolicyRef]) -> Result<()> {
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
    bail!(
        "`--to networkpolicy` writes what policies let pass together, and these are not for the same controllers: `{CONTROLLER_LABEL}` has {}; \
         give all of them one value, or none",
        said.join("; ")
    )
}

/// The policies that were named; none for all.
fn wanted(model: &Model, objects: &Objects, to: Shape, names: &[String]) -> Result<Option<BTreeSet<PolicyRef>>> {
    let clusters = || model.policies.iter().filter(|it| it.origin.kind != PolicyKind::NetworkPolicy);
    if names.is_empty() {
        if clusters().next().is_none() {
            bail!("{}", nothing(model, objects, to));
        }
        return Ok(None);
    }
    let mut wanted = BTreeSet::new();
    for name in names {
        let named = |it: &&Policy| it.origin.to_string() == *name || (it.origin.namespace.is_none() && *it.origin.name == **name);
        let found: Vec<&PolicyRef> = model.policies.iter().filter(named).map(|it| &it.origin).collect();
        match found.as_slice() {
            [] => bail!("`{name}`: no such policy; there {}", known(clusters())),
            [one] if one.kind == PolicyKind::NetworkPolicy => {
                bail!("`{name}`: a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted")
            }
            [one] => wanted.insert((*one).clone()),
            [_, _, ..] => {
                let all: Vec<String> = found.iter().map(|it| format!("`{it}`")).collect();
                bail!("`{name}` is the name of several policies: say {}", all.join(" or "))
            }
        };
    }
    Ok(Some(wanted))
}

/// Why there is no cluster policy to convert.
fn nothing(model: &Model, objects: &Objects, to: Shape) -> &'static str {
    let foreign = objects.others.iter().any(|it| it.kind != PolicyKind::NetworkPolicy);
    match (foreign, model.policies.is_empty(), to) {
        (true, _, _) => "every cluster policy that was read is for another controller, and is not converted",
        (false, true, _) => "no cluster policy was read, so there is nothing to convert",
        (false, false, Shape::Networkpolicy) => {
            "no cluster policy was read, and NetworkPolicies stay what they are, so there is nothing to convert"
        }
        (false, false, Shape::Clusternetworkpolicy | Shape::Adminnetworkpolicy | Shape::Kep2091) => {
            "no cluster policy was read; a NetworkPolicy isolates pods of one namespace, which no cluster policy can say, and is not converted"
        }
    }
}

/// How many names an error has.
const NAMED: usize = 8;

fn known<'p>(policies: impl Iterator<Item = &'p Policy>) -> String {
    let all: Vec<String> = policies.map(|it| format!("`{}`", it.origin)).collect();
    let more = if all.len() > NAMED { format!(" and {} more", all.len() - NAMED) } else { String::new() };
    match all.is_empty() {
        true => "is no cluster policy at all".to_owned(),
        false => format!("are {}{more}", all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")),
    }
}

/// The new objects as a reader takes them. They have to be what they were meant to be.
fn read_back(yaml: &str, converted: &Converted, controller: &Controller) -> Result<Snapshot> {
    let mut index = Index::of(controller.clone());
    index.read(Text { file: "converted".into(), content: yaml.into() });
    let read = index.snapshot();
    let refused: Vec<String> = read.diagnostics.iter().filter(|it| it.severity == Severity::Error).map(|it| format!("{it:?}")).collect();
    let mut meant: Vec<&Policy> = converted.written.iter().map(|it| &it.policy).collect();
    let mut found: Vec<&Policy> = read.model.policies.iter().collect();
    meant.sort_by(|a, b| a.origin.cmp(&b.origin));
    found.sort_by(|a, b| a.origin.cmp(&b.origin));
    match refused.is_empty() && meant == found {
        true => Ok(read),
        false => Err(anyhow!(
            "the new objects are not read back as what they were meant to be, which is a mistake of palisade\n{}{yaml}",
            refused.join("\n")
        )),
    }
}

/// Holds both versions of the cluster against each other; what changes, for people.
fn compare(input: &Input, converted: &Converted, read: &Snapshot, pods: &[IpNet], report: &mut v1::Conversion) -> String {
    if input.is_about_nobody() {
        return String::new();
    }
    let old = &input.snapshot.model;
    let new = converted.applied_to(old);
    let (before, after) = (compile(old), compile(&new));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old_version = Version { model: old, reach: &mut before };
    let mut diff = Version { model: &new, reach: &mut after }.changes_since(&mut old_version, &Filter::default());
    // Addresses that only pods have are not outside, though no pod has them now.
    let of_pods = |it: &(IpAddr, IpAddr)| pods.iter().any(|net| net.contains(&it.0) && net.contains(&it.1));
    let later = |group: &Group| group.units.is_empty() && group.ranges.iter().all(of_pods);
    diff.changes.retain(|it| pods.is_empty() || !(later(&it.from) || later(&it.to)));
    let difference = differences::differed(&diff, &input.snapshot.sources, &read.sources, Vec::new(), Vec::new());
    report.reach = if diff.changes.is_empty() { v1::ConversionReach::Same } else { v1::ConversionReach::Changed };
    report.qualifications = input.limits();
    let text = diff_text(&difference);
    report.changes = difference.changes;
    text
}

fn exit(converted: &Converted, report: &v1::Conversion) -> Exit {
    let lost = converted.losses.iter().any(|it| it.weight != Weight::Form);
    match report.reach {
        v1::ConversionReach::Same => Exit::Yes,
        v1::ConversionReach::Changed => Exit::No,
        v1::ConversionReach::NotCompared if lost => Exit::CannotTell,
        v1::ConversionReach::NotCompared => Exit::Yes,
    }
}

fn ending(converted: &Converted, report: &v1::Conversion, difference: &str) -> String {
    let count = |count: usize| if count == 1 { "1 policy".to_owned() } else { format!("{count} policies") };
    let replaced: Vec<String> = converted.replaced.iter().map(PolicyRef::to_string).collect();
    let what = match (replaced.is_empty(), converted.written.is_empty()) {
        (true, true) if converted.untouched.is_empty() => "nothing to convert: every cluster policy has this shape already".to_owned(),
        (true, true) => "nothing to convert".to_owned(),
        (_, _) => format!("{} written for {}", count(converted.written.len()), replaced.join(", ")),
    };
    let limits: String = report.qualifications.iter().map(|it| format!("note: {it}\n")).collect();
    match report.reach {
        v1::ConversionReach::Same => format!("{limits}{what}; reach is the same before and after\n"),
        v1::ConversionReach::Changed => format!("{limits}{what}, and connections change:\n{difference}"),
        v1::ConversionReach::NotCompared => {
            format!("{what}\nnote: no pod or workload was read, so reach before and after was not compared\n")
        }
    }
}
