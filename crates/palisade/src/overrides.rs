//! `palisade overrides`.

use anyhow::{Result, bail};
use palisade_analysis::overrides::{between, cluster_policies, overridden, overrides, ties};
use palisade_model::{Model, Policy, PolicyKind, PolicyRef, Severity, Tier};
use palisade_report::overrides::{Overriding, Read, Redaction, overrides_markdown, overrides_text};
use palisade_report::{text, v1};
use palisade_runtime::folder;

use crate::cli::overrides::{OverridesArgs, OverridesOutput};
use crate::input::{self, Input, NOBODY};
use crate::outcome::{Exit, Outcome};

/// What was read, and what it is with the objects that were put over it.
struct Versions {
    /// None if nothing was put over it.
    old: Option<Input>,
    new: Input,
}

/// What is asked about.
struct Chosen {
    cluster: Vec<PolicyRef>,
    network: Vec<PolicyRef>,
}

pub(crate) fn run(args: &OverridesArgs) -> Result<Outcome> {
    if args.input.namespace.is_some() {
        bail!("`-n`: overrides are about the whole cluster, and policies and pods of other namespaces would not be read");
    }
    let versions = read(args)?;
    let redaction = if args.redact { Redaction::ClusterPolicies } else { Redaction::None };
    let input = &versions.new;
    let diagnostics = noticed(&versions, redaction);
    let said = text::diagnostics(&diagnostics);
    if input.refused() || versions.old.as_ref().is_some_and(Input::refused) {
        return Ok(Outcome::cannot_tell(format!(
            "{said}error: objects were refused, so nothing that is said about the others can be trusted\n"
        )));
    }
    if input.is_about_nobody() {
        return Ok(Outcome::cannot_tell(format!("{said}{NOBODY}")));
    }
    let model = &input.snapshot.model;
    let chosen = chosen(args, &versions)?;
    let read = Read { model, sources: &input.snapshot.sources };
    let found = overrides(model, &chosen.cluster);
    let mut cluster = Vec::with_capacity(chosen.cluster.len());
    for (origin, found) in chosen.cluster.iter().zip(&found) {
        if let Some(policy) = model.policies.iter().find(|it| it.origin == *origin) {
            cluster.push(about(&versions, read, policy, found));
        }
    }
    let network = overridden(model, &chosen.network);
    let network = network.iter().map(|it| read.overridden(it, redaction));
    let report = v1::OverrideReport {
        api_version: v1::API_VERSION.to_owned(),
        kind: "OverrideReport".to_owned(),
        redacted: args.redact,
        qualifications: input.limits(),
        network_policies: network.collect(),
        cluster_policies: cluster,
        diagnostics,
    };
    let exit = if is_clean(&report) { Exit::Yes } else { Exit::No };
    let notes: String = report.qualifications.iter().map(|it| format!("note: {it}\n")).collect();
    Ok(match args.output {
        OverridesOutput::Text => Outcome { stdout: overrides_text(&report), stderr: said + &notes, exit },
        OverridesOutput::Md => Outcome { stdout: overrides_markdown(&report), stderr: said + &notes, exit },
        OverridesOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
    })
}

fn read(args: &OverridesArgs) -> Result<Versions> {
    if args.input.filename.iter().chain(&args.apply).filter(|it| *it == "-").count() > 1 {
        bail!("`-`: standard input can be read once");
    }
    if args.apply.is_empty() {
        return Ok(Versions { old: None, new: input::read(&args.input)? });
    }
    let over = folder::read(&args.apply.iter().map(|it| folder::Input::from_arg(it)).collect::<Vec<_>>());
    let (old, new) =
        input::with_over(input::gather(&args.input)?, over, &input::controller(&args.input.controller_name, &args.input.disabled_name)?);
    Ok(Versions { old: Some(old), new })
}

/// What was noticed, without a word about cluster policies where these are not to be seen.
fn noticed(versions: &Versions, redaction: Redaction) -> Vec<v1::Diagnostic> {
    let kinds = [PolicyKind::ClusterNetworkPolicy, PolicyKind::AdminNetworkPolicy, PolicyKind::BaselineAdminNetworkPolicy];
    // A kind may have its group behind it.
    let is_cluster_policy = |object: &str| kinds.iter().any(|it| object.split([' ', '.']).next() == Some(it.as_str()));
    // What is about no object may name any; these do not.
    let names_none = |it: &palisade_model::Diagnostic| ["assumed-namespace", "nothing-read", "forbidden-policies"].contains(&it.code);
    let is_open = |it: &palisade_model::Diagnostic| if it.object.is_empty() { names_none(it) } else { !is_cluster_policy(&it.object) };
    let shown = |it: &&palisade_model::Diagnostic| redaction == Redaction::None || is_open(it);
    let all = &versions.new.snapshot.diagnostics;
    let mut found: Vec<v1::Diagnostic> = all.iter().filter(shown).map(v1::Diagnostic::from).collect();
    let hidden_error = |it: &palisade_model::Diagnostic| it.severity == Severity::Error && !shown(&it);
    if all.iter().any(hidden_error) {
        found.push(v1::Diagnostic {
            severity: Severity::Error.to_string(),
            code: "redacted".to_owned(),
            place: None,
            object: String::new(),
            path: String::new(),
            message: "a cluster policy was refused".to_owned(),
            help: Some("ask somebody who may see cluster policies".to_owned()),
        });
    }
    found
}

fn chosen(args: &OverridesArgs, versions: &Versions) -> Result<Chosen> {
    let model = &versions.new.snapshot.model;
    let network = || model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.clone()).collect::<Vec<_>>();
    if args.policies.is_empty() {
        return Ok(match (args.redact, &versions.old) {
            (true, _) => Chosen { cluster: Vec::new(), network: network() },
            (false, None) => Chosen { cluster: cluster_policies(model), network: Vec::new() },
            (false, Some(old)) => {
                let proposed: Vec<PolicyRef> =
                    cluster_policies(model).into_iter().filter(|it| is_proposed(&old.snapshot.model, model, it)).collect();
                if proposed.is_empty() {
                    bail!("`--apply`: no cluster policy in it is new or different; name the policies to ask about");
                }
                Chosen { cluster: proposed, network: Vec::new() }
            }
        });
    }
    let mut chosen = Chosen { cluster: Vec::new(), network: Vec::new() };
    for text in &args.policies {
        let found = model.policies.iter().find(|it| it.origin.to_string() == *text);
        match found {
            Some(it) if it.tier == Tier::NetworkPolicy => chosen.network.push(it.origin.clone()),
            Some(_) | None if args.redact && !text.starts_with("np/") => {
                bail!("`{text}`: with `--redact` only NetworkPolicies can be asked about, as in np/NAMESPACE/NAME")
            }
            Some(it) => chosen.cluster.push(it.origin.clone()),
            None => bail!("`{text}` was not read, or is for another controller; write {}", forms(model, args.redact)),
        }
    }
    Ok(chosen)
}

/// How policies are named, by the example of some that are there.
fn forms(model: &Model, redact: bool) -> String {
    let network = model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.to_string());
    let cluster = cluster_policies(model).into_iter().filter(|_| !redact).map(|it| it.to_string());
    let known: Vec<String> = cluster.take(5).chain(network.take(5)).collect();
    if known.is_empty() {
        "cnp/NAME or np/NAMESPACE/NAME; no policy was read".to_owned()
    } else {
        format!("one of {}, …", known.join(", "))
    }
}

/// Whether a policy is not as it was, or was not there.
fn is_proposed(old: &Model, new: &Model, origin: &PolicyRef) -> bool {
    let of = |model: &Model| model.policies.iter().find(|it| it.origin == *origin).cloned();
    of(old) != of(new)
}

fn about(versions: &Versions, read: Read<'_>, policy: &Policy, found: &[palisade_analysis::overrides::Overrides]) -> v1::OverridingPolicy {
    let new = &versions.new.snapshot;
    let origin = &policy.origin;
    let proposed = versions.old.as_ref().filter(|old| is_proposed(&old.snapshot.model, &new.model, origin));
    let mut without = new.model.clone();
    without.policies.retain(|it| it.origin != *origin);
    let ties = ties(&new.model, origin);
    let (compared, changes, before) = match proposed {
        None => (v1::OverrideComparison::Goes, between(&new.model, &without), &new.sources),
        Some(old) => {
            without.policies.extend(old.snapshot.model.policies.iter().find(|it| it.origin == *origin).cloned());
            (v1::OverrideComparison::Comes, between(&without, &new.model), &old.snapshot.sources)
        }
    };
    read.overriding(&Overriding { policy, overrides: found, ties: &ties, compared, changes: &changes, before, after: &new.sources })
}

/// Whether nothing is overridden and no priority matters.
fn is_clean(report: &v1::OverrideReport) -> bool {
    let conflict = |it: &v1::OverrideTie| it.kind == v1::OverrideTieKind::Conflict;
    let cluster = report.cluster_policies.iter().all(|it| it.overrides.is_empty() && !it.ties.iter().any(conflict));
    let parts = report.network_policies.iter().flat_map(|it| &it.parts);
    cluster && parts.into_iter().all(|it| it.overridden == v1::OverriddenExtent::Nothing)
}
