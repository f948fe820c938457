//! From input arguments to a snapshot.

use anyhow::{Result, anyhow};
use palisade_k8s::{Controller, Index, Snapshot};
use palisade_model::{Diagnostic, Severity};
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
    Ok(from(gather(args)?, &controller(&args.controller_name, &args.disabled_name)?))
}

/// The objects themselves, and what could not be listed, in sentences.
pub(crate) fn read_objects(args: &InputArgs) -> Result<(Index, Vec<String>)> {
    Ok(indexed(gather(args)?, &controller(&args.controller_name, &args.disabled_name)?))
}

/// The texts, before they are read.
pub(crate) fn gather(args: &InputArgs) -> Result<Gathered> {
    Ok(match args.filename.is_empty() {
        false => folder::read(&args.filename.iter().map(|it| folder::Input::from_arg(it)).collect::<Vec<_>>()),
        true => live::list(&live::LiveOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            namespace: args.namespace.clone(),
        })
        .map_err(|error| match args.kubeconfig.is_some() || args.context.is_some() {
            true => anyhow::Error::from(error),
            false => anyhow::Error::from(error).context("no `-f`, so a live cluster was asked"),
        })?,
    })
}

/// The controller as which a command answers.
pub(crate) fn controller(names: &[String], disabled: &[String]) -> Result<Controller> {
    let found = Controller::named_and_disabled(names.iter().map(String::as_str), disabled.iter().map(String::as_str));
    found.map_err(|error| anyhow!("`--controller-name`, `--disabled-name`: {error}"))
}

pub(crate) fn from(gathered: Gathered, controller: &Controller) -> Input {
    let (index, unavailable) = indexed(gathered, controller);
    Input { snapshot: index.snapshot(), unavailable }
}

/// A cluster, and the same with objects put over it.
pub(crate) fn with_over(gathered: Gathered, over: Gathered, controller: &Controller) -> (Input, Input) {
    let (mut index, unavailable) = indexed(gathered, controller);
    let old = Input { snapshot: index.snapshot(), unavailable: unavailable.clone() };
    let (over, _) = indexed(over, controller);
    index.put_over(over);
    (old, Input { snapshot: index.snapshot(), unavailable })
}

/// The objects, and what could not be listed, in sentences.
fn indexed(gathered: Gathered, controller: &Controller) -> (Index, Vec<String>) {
    let mut index = Index::of(controller.clone());
    index.note(gathered.diagnostics);
    for text in gathered.texts {
        index.read(text);
    }
    index.note(index.is_empty().then(nothing_read));
    // A resource that is not installed has no objects to miss; one that is forbidden may have any.
    let forbidden: Vec<&str> = gathered.unavailable.iter().filter(|it| it.why == Why::Forbidden).map(|it| it.resource.as_str()).collect();
    let (policies, others): (Vec<&str>, Vec<&str>) = forbidden.into_iter().partition(|it| it.contains("networkpolicies"));
    index.note(forbidden_policies(&policies));
    let unavailable = match others.is_empty() {
        true => Vec::new(),
        false => vec![format!("this user may not list {}, so the answer is without what they would say", others.join(", "))],
    };
    (index, unavailable)
}

/// Policies alone say nothing about connections.
pub(crate) const NOBODY: &str = "error: no pod or workload of the pod network was read, so there is nobody to answer about\n\
    help: add the Pods or the workloads, or leave `-f` out to ask the cluster\n";

/// A pipe whose first half failed looks like a cluster without policies.
fn nothing_read() -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        code: "nothing-read",
        location: None,
        object: Box::default(),
        path: Box::default(),
        message: "no object was read that policy depends on, and an answer from nothing would always be yes".into(),
        help: Some("check the files that were named, or the command in front of the pipe".into()),
    }
}

/// A policy that nobody may see may say anything, so no verdict can be trusted without it.
fn forbidden_policies(resources: &[&str]) -> Option<Diagnostic> {
    (!resources.is_empty()).then(|| Diagnostic {
        severity: Severity::Error,
        code: "forbidden-policies",
        location: None,
        object: Box::default(),
        path: Box::default(),
        message: format!("this user may not list {}, and policies that were not read may decide otherwise", resources.join(", ")).into(),
        help: Some("ask with an account that may list them, or for one namespace with `-n`".into()),
    })
}

/// How many names a note has.
const NAMED: usize = 5;

impl Input {
    /// Who is left out of answers about the whole cluster: pods that no policy can select.
    pub(crate) fn on_host_networks(&self) -> Option<String> {
        let pods: Vec<String> = self.snapshot.model.nodes.iter().flat_map(|it| &it.host_pods).map(|it| it.name.to_string()).collect();
        let named = pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if pods.len() > NAMED { format!(" and {} more", pods.len() - NAMED) } else { String::new() };
        (!pods.is_empty()).then(|| format!("{named}{more}: on the network of the node, where no policy selects them; left out here"))
    }

    /// What an answer about the whole cluster is without.
    pub(crate) fn limits(&self) -> Vec<String> {
        self.unavailable.iter().cloned().chain(self.on_host_networks()).collect()
    }

    /// Whether policies were read and nobody that they could be about.
    pub(crate) fn is_about_nobody(&self) -> bool {
        self.snapshot.model.endpoints.is_empty()
    }
    /// Whether something was refused, so that nothing may be built on the rest.
    pub(crate) fn refused(&self) -> bool {
        self.snapshot.diagnostics.iter().any(|it| it.severity == Severity::Error)
    }

    /// What was noticed, for standard error.
    pub(crate) fn noticed(&self) -> String {
        text::diagnostics(&self.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect::<Vec<_>>())
    }
}
