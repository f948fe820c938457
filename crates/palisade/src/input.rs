//! From input arguments to a snapshot.

use anyhow::{Context, Result};
use palisade_k8s::{Index, Snapshot};
use palisade_report::{text, v1};
use palisade_runtime::{Gathered, Why, folder, live};

use crate::cli::InputArgs;

/// Everything a command works on.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) snapshot: Snapshot,
    /// Resources of a live cluster that could not be read, in sentences.
    pub(crate) unavailable: Vec<String>,
}

pub(crate) fn read(args: &InputArgs) -> Result<Input> {
    let gathered = match args.filename.is_empty() {
        false => folder::read(&args.filename.iter().map(|it| folder::Input::from_arg(it)).collect::<Vec<_>>()),
        true => live::list(&live::LiveOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            namespace: args.namespace.clone(),
        })
        .context("no `-f`, so a live cluster was asked")?,
    };
    Ok(from(gathered))
}

pub(crate) fn from(gathered: Gathered) -> Input {
    let mut index = Index::default();
    index.note(gathered.diagnostics);
    for text in gathered.texts {
        index.read(text);
    }
    // A resource that is not installed has no objects to miss; one that is forbidden may have any.
    let missed = gathered.unavailable.iter().filter(|it| matters(&it.resource, it.why));
    let unavailable = missed.map(|it| format!("{it}, so the verdict is without them")).collect();
    Input { snapshot: index.snapshot(), unavailable }
}

fn matters(resource: &str, why: Why) -> bool {
    let policies = resource.contains("networkpolicies");
    match why {
        Why::Forbidden => true,
        // Of the kinds that are read, only cluster policies may be missing from a healthy cluster, and then there are none.
        Why::NotInstalled => !policies,
    }
}

impl Input {
    /// Whether something was refused, so that nothing may be built on the rest.
    pub(crate) fn refused(&self) -> bool {
        self.snapshot.diagnostics.iter().any(|it| it.severity == palisade_model::Severity::Error)
    }

    /// What was noticed, for standard error.
    pub(crate) fn noticed(&self) -> String {
        text::diagnostics(&self.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect::<Vec<_>>())
    }
}
