//! `palisade diff`: which connections a change opens and closes.

use std::collections::BTreeSet;

use palisade_analysis::diff::{Diff, Filter, Focus, Presence, Verb, Version};
use palisade_analysis::matrix::on_host_networks;
use palisade_engine::{PortSetId, compile};
use palisade_model::{Diagnostic, Model, PortProtocol};
use palisade_report::{Outcome, diff as form, v1};

use crate::cluster::Versions;
use crate::error::{AppError, Noticed};

/// Which changes are wanted, and which of them are a failure.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Only changes with this end on either side.
    pub focus: Option<String>,
    /// Only connections to this port.
    pub port: Option<(PortProtocol, u16)>,
    /// What makes the outcome `No`.
    pub fail_on: FailOn,
}

/// What makes the outcome `No`. Traffic that depends on a domain name counts as opened or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// A connection between workloads of both versions that may be allowed now, and was not before.
    Opened,
    /// A connection between workloads of both versions that may be denied now, and was not before.
    Closed,
    /// Any change, those of new and removed workloads included.
    Any,
    /// Nothing.
    None,
}

/// Differences between two versions of a cluster.
#[derive(Debug)]
pub struct Differences {
    /// The report.
    pub report: v1::Diff,
    /// The changes that the report was made of, which the csv form needs for full lists of workloads.
    pub diff: Diff,
    /// Whether nothing of `FailOn` was found.
    pub outcome: Outcome,
}

/// Compares two versions of a cluster, connection by connection.
pub fn diff(versions: &Versions, options: &DiffOptions) -> Result<Differences, AppError> {
    complete(versions)?;
    if !versions.old.has_pods() && !versions.new.has_pods() {
        return Err(AppError::NoPods(Noticed::Versions(diagnostics(versions))));
    }
    let (old, new) = (&versions.old.snapshot, &versions.new.snapshot);
    let parse = |text: &String| Focus::parse(&old.model, &new.model, text);
    let focus = options.focus.as_ref().map(parse).transpose().map_err(|error| AppError::option(format!("`--focus`: {error}")))?;
    let filter = Filter { focus, port: options.port };
    let (before, after) = (compile(&old.model), compile(&new.model));
    let (mut before, mut after) = (before.reach(), after.reach());
    let mut old_version = Version { model: &old.model, reach: &mut before };
    let diff = Version { model: &new.model, reach: &mut after }.changes_since(&mut old_version, &filter);
    let moved = Moved::of(&diff, &old.model, &new.model);
    let limits = moved.sentences().chain(limits(versions)).collect();
    let report = form::differed(&diff, &old.sources, &new.sources, diagnostics(versions), limits);
    let outcome = Outcome::found(is_found(&diff, &moved, options.fail_on));
    Ok(Differences { report, diff, outcome })
}

/// Fails if objects of a version were refused.
fn complete(versions: &Versions) -> Result<(), AppError> {
    let what = match (versions.old.refused(), versions.new.refused()) {
        (false, false) => return Ok(()),
        (true, false) => "objects of the old version",
        (false, true) => "objects of the new version",
        (true, true) => "objects of both versions",
    };
    let noticed = Noticed::Versions(diagnostics(versions));
    Err(AppError::Refused { what, consequence: "there is no difference that can be trusted", noticed })
}

fn diagnostics(versions: &Versions) -> Vec<v1::DiffDiagnostic> {
    let of = |version: v1::DiffVersion, it: &Diagnostic| v1::DiffDiagnostic { version, diagnostic: v1::Diagnostic::from(it) };
    let old = versions.old.snapshot.diagnostics.iter().map(|it| of(v1::DiffVersion::Old, it));
    old.chain(versions.added.iter().map(|it| of(v1::DiffVersion::New, it))).collect()
}

fn limits(versions: &Versions) -> Vec<String> {
    let (mut all, new) = (versions.old.limits(), versions.new.limits());
    all.extend(new.into_iter().filter(|it| !versions.old.limits().contains(it)));
    all
}

/// Workloads that policy selects in one version only, because they use the network of their node in the other.
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

    fn sentences(&self) -> impl Iterator<Item = String> {
        let to = |it: &String| format!("{it} uses the network of its node now, where no policy selects it: what policy denied it is open");
        let from = |it: &String| format!("{it} does not use the network of its node any more: policy selects it now");
        self.to_host.iter().map(to).chain(self.from_host.iter().map(from))
    }
}

fn is_found(diff: &Diff, moved: &Moved, fail_on: FailOn) -> bool {
    let by_workloads = match fail_on {
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
            match fail_on {
                FailOn::Opened => stays && some([it.opened, it.opened_by_name]),
                FailOn::Closed => stays && some([it.closed, it.closed_but_by_name]),
                FailOn::Any => true,
                FailOn::None => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BROKEN, DENY, SHOP, objects};

    fn check(applied: &str, fail_on: FailOn, expected: Result<(&[v1::DiffVerb], Outcome), &str>) {
        let versions = objects(&[SHOP]).with_applied(objects(&[applied]));
        let found = diff(&versions, &DiffOptions { focus: None, port: None, fail_on });
        let found = found.map(|it| (it.report.changes.iter().map(|it| it.change).collect::<Vec<_>>(), it.outcome));
        assert_eq!(found.map_err(|it| it.to_string()), expected.map(|it| (it.0.to_vec(), it.1)).map_err(str::to_owned));
    }

    #[test]
    fn a_cluster_policy_closes_a_connection() {
        check(DENY, FailOn::Closed, Ok((&[v1::DiffVerb::Closed], Outcome::No)));
        check(DENY, FailOn::Opened, Ok((&[v1::DiffVerb::Closed], Outcome::Yes)));
        check(BROKEN, FailOn::Any, Err("objects of the new version were refused, so there is no difference that can be trusted"));
    }
}
