//! From input arguments to a cluster.

use anyhow::{Result, anyhow};
use palisade_app::{AppError, Cluster, Objects, Texts};
use palisade_k8s::Controller;
use palisade_runtime::{Gathered, Why, folder, live};

use crate::cli::InputArgs;

/// How much of the cluster a command needs.
pub(crate) enum Scope {
    /// One namespace is enough.
    Any,
    /// All of it, for this reason.
    Whole(&'static str),
}

/// The cluster that the arguments name.
pub(crate) fn cluster(args: &InputArgs, scope: Scope) -> Result<Cluster> {
    Ok(objects(args, scope)?.cluster())
}

/// The objects of the cluster that the arguments name.
pub(crate) fn objects(args: &InputArgs, scope: Scope) -> Result<Objects> {
    if let (Scope::Whole(reason), Some(_)) = (scope, &args.namespace) {
        return Err(AppError::OneNamespace(reason).into());
    }
    let controller = controller(&args.controller_name, &args.disabled_name)?;
    let gathered = match args.filename.is_empty() {
        false => files(&args.filename),
        true => live::list(&live::LiveOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            namespace: args.namespace.clone(),
        })
        .map_err(|error| match args.kubeconfig.is_some() || args.context.is_some() {
            true => anyhow::Error::from(error),
            false => anyhow::Error::from(error).context("no `-f`, so a live cluster was asked"),
        })?,
    };
    Ok(read(gathered, args.namespace.clone(), controller))
}

/// Texts of files, folders and standard input.
pub(crate) fn files(names: &[String]) -> Gathered {
    folder::read(&names.iter().map(|it| folder::Input::from_arg(it)).collect::<Vec<_>>())
}

/// The controller that commands answer for.
pub(crate) fn controller(names: &[String], disabled: &[String]) -> Result<Controller> {
    let found = Controller::named_and_disabled(names.iter().map(String::as_str), disabled.iter().map(String::as_str));
    found.map_err(|error| anyhow!("`--controller-name`, `--disabled-name`: {error}"))
}

/// The objects of the texts or of the live cluster that were read.
pub(crate) fn read(gathered: Gathered, namespace: Option<String>, controller: Controller) -> Objects {
    let Gathered { texts, live, diagnostics, unavailable } = gathered;
    // A resource that is not installed has no objects; one that is forbidden may have any.
    let forbidden = unavailable.into_iter().filter(|it| it.why == Why::Forbidden).map(|it| it.resource).collect();
    Objects::read(Texts { texts, live, diagnostics, forbidden, namespace }, controller)
}
