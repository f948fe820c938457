//! `palisade diff`.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use palisade_analysis::diff::{Diff, Filter, Focus, Presence, Verb, Version};
use palisade_analysis::matrix::on_host_networks;
use palisade_engine::{PortSetId, compile};
use palisade_model::{Diagnostic, Model};
use palisade_report::{diff as form, diff_html, diff_text, text, v1};
use palisade_runtime::{Gathered, folder, live};

use crate::cli::{DiffArgs, DiffOutput, FailOn};
use crate::input::{self, Input, NOBODY};
use crate::matrix;
use crate::outcome::{Exit, Outcome};

/// The two versions.
struct Versions {
    old: Input,
    new: Input,
    /// What was noticed of the new one and not of the old one.
    noticed: Vec<Diagnostic>,
}

pub(crate) fn run(args: &DiffArgs) -> Result<Outcome> {
    let port = args.port.as_deref().map(matrix::port).transpose()?;
    let versions = read(args)?;
    if let Some(stderr) = refused(&versions) {
        return Ok(Outcome::cannot_tell(stderr));
    }
    if versions.old.is_about_nobody() && versions.new.is_about_nobody() {
        return Ok(Outcome::cannot_tell(format!("{}{NOBODY}", noticed(&diagnostics(&versions)))));
    }
    let (old, new) = (&versions.old.snapshot, &versions.new.snapshot);
    let filter = Filter { focus: focus(args, &old.model, &new.model)?, port };
    let (before, after) = (compile(&old.model), compile(&new.model));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old_version = Version { model: &old.model, reach: &mut before };
    let diff = Version { model: &new.model, reach: &mut after }.changes_since(&mut old_version, &filter);
    let moved = Moved::of(&diff, &old.model, &new.model);
    let limits = moved.said().into_iter().chain(qualifications(&versions)).collect();
    let report = form::differed(&diff, &old.sources, &new.sources, diagnostics(&versions), limits);
    let exit = if fails(&diff, &moved, args.fail_on) { Exit::No } else { Exit::Yes };
    let limits: String = report.qualifications.iter().map(|it| format!("note: {it}\n")).collect();
    let aside = format!("{}{limits}", noticed(&report.diagnostics));
    Ok(match args.output {
        DiffOutput::Text => Outcome { stdout: diff_text(&report), stderr: aside, exit },
        DiffOutput::Csv => Outcome { stdout: form::csv(&diff, &report), stderr: aside, exit },
        DiffOutput::Md => Outcome { stdout: form::markdown(&report), stderr: aside, exit },
        DiffOutput::Html => Outcome { stdout: diff_html(&report), stderr: aside, exit },
        DiffOutput::Json => Outcome { stdout: serde_json::to_string_pretty(&report)? + "\n", stderr: String::new(), exit },
    })
}

fn focus(args: &DiffArgs, old: &Model, new: &Model) -> Result<Option<Focus>> {
    let parse = |text: &String| Focus::parse(old, new, text).map_err(|error| anyhow!("`--focus`: {error}"));
    args.focus.as_ref().map(parse).transpose()
}

fn read(args: &DiffArgs) -> Result<Versions> {
    let stdin = args.versions.iter().chain(&args.apply).filter(|it| *it == "-").count();
    if stdin > 1 {
        bail!("`-`: standard input can be read once");
    }
    let controller = input::controller(&args.controller_name, &args.disabled_name)?;
    let files = |names: &[String]| folder::read(&names.iter().map(|it| folder::Input::from_arg(it)).collect::<Vec<_>>());
    let old = match (args.versions.as_slice(), args.live, args.apply.is_empty()) {
        ([old, new], false, true) => {
            let [old, new] = [old, new].map(|it| input::from(files(std::slice::from_ref(it)), &controller));
            let noticed = new.snapshot.diagnostics.clone();
            return Ok(Versions { old, new, noticed });
        }
        ([old], false, false) => files(std::slice::from_ref(old)),
        ([], true, false) => cluster(args)?,
        ([], true, true) => bail!("`--live` is the old version; `--apply FILE` says what would be put over it"),
        ([_], false, true) => bail!("NEW is missing; or say with `--apply FILE` what would be put over OLD"),
        ([], false, _) => bail!("OLD is missing: a file or a folder, or `--live` for the cluster of your kubeconfig"),
        ([_, ..], true, _) => bail!("with `--live` the cluster is the old version, and `--apply FILE` says what would be put over it"),
        ([_, _, ..], false, _) => bail!("`--apply` is put over OLD, so there is no NEW to read"),
    };
    let (old, new) = input::with_over(old, files(&args.apply), &controller);
    let noticed = new.snapshot.diagnostics.iter().filter(|it| !old.snapshot.diagnostics.contains(it)).cloned().collect();
    Ok(Versions { old, new, noticed })
}

fn cluster(args: &DiffArgs) -> Result<Gathered> {
    Ok(live::list(&live::LiveOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone(), namespace: None })?)
}

/// What to say when one of the versions is not all there.
fn refused(versions: &Versions) -> Option<String> {
    let which = match (versions.old.refused(), versions.new.refused()) {
        (false, false) => return None,
        (true, false) => "the old version",
        (false, true) => "the new version",
        (true, true) => "both versions",
    };
    let said = noticed(&diagnostics(versions));
    Some(format!("{said}error: objects of {which} were refused, so there is no difference that can be trusted\n"))
}

fn diagnostics(versions: &Versions) -> Vec<v1::DiffDiagnostic> {
    let of = |version: v1::DiffVersion, it: &Diagnostic| v1::DiffDiagnostic { version, diagnostic: v1::Diagnostic::from(it) };
    let old = versions.old.snapshot.diagnostics.iter().map(|it| of(v1::DiffVersion::Old, it));
    old.chain(versions.noticed.iter().map(|it| of(v1::DiffVersion::New, it))).collect()
}

/// What was noticed, under the version it was noticed of.
fn noticed(all: &[v1::DiffDiagnostic]) -> String {
    let mut out = String::new();
    for (version, title) in [(v1::DiffVersion::Old, "old version:\n"), (v1::DiffVersion::New, "new version:\n")] {
        let of: Vec<v1::Diagnostic> = all.iter().filter(|it| it.version == version).map(|it| it.diagnostic.clone()).collect();
        if !of.is_empty() {
            out.push_str(title);
            out.push_str(&text::diagnostics(&of));
        }
    }
    out
}

fn qualifications(versions: &Versions) -> Vec<String> {
    let (mut all, new) = (versions.old.limits(), versions.new.limits());
    all.extend(new.into_iter().filter(|it| !versions.old.limits().contains(it)));
    all
}

/// Workloads that policy selects in one version only, since they use the network of their node in the other.
struct Moved {
    to_host: Vec<String>,
    from_host: Vec<String>,
}

impl Moved {
    fn of(diff: &Diff, old: &Model, new: &Model) -> Moved {
        let (old, new) = (on_host_networks(old), on_host_networks(new));
        let named = |presence: Presence, hosts: &BTreeSet<String>| {
            let units = diff.units.iter().filter(|it| it.presence == presence && hosts.contains(&it.name));
            units.map(|it| it.name.clone()).collect()
        };
        Moved { to_host: named(Presence::Gone, &new), from_host: named(Presence::New, &old) }
    }

    fn said(&self) -> Vec<String> {
        let to = |it: &String| format!("{it} uses the network of its node now, where no policy selects it: what policy denied it is open");
        let from = |it: &String| format!("{it} does not use the network of its node any more: policy selects it now");
        self.to_host.iter().map(to).chain(self.from_host.iter().map(from)).collect()
    }
}

/// Whether there is something of the kind that is looked for. What may open counts as opened, and what may close as closed.
fn fails(diff: &Diff, moved: &Moved, on: FailOn) -> bool {
    let by_workloads = match on {
        FailOn::Opened => !moved.to_host.is_empty(),
        FailOn::Closed => !moved.from_host.is_empty(),
        FailOn::Any => diff.units.iter().any(|it| it.presence != Presence::Both),
        FailOn::None => false,
    };
    let some = |sets: [PortSetId; 2]| sets != [PortSetId::NONE; 2];
    by_workloads
        || diff.changes.iter().any(|it| {
            let stays = match it.verb {
                Verb::Opened | Verb::Changed | Verb::Closed => true,
                Verb::Added | Verb::Removed => false,
            };
            match on {
                FailOn::Opened => stays && some([it.opened, it.opened_by_name]),
                FailOn::Closed => stays && some([it.closed, it.closed_but_by_name]),
                FailOn::Any => true,
                FailOn::None => false,
            }
        })
}
