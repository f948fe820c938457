//! A live cluster as objects.
//!
//! Only lists are requested, so the rights of a viewer are enough. Each resource is listed at its own moment: this
//! is not a snapshot of the cluster, only of each resource.

mod config;
mod error;
mod page;
mod proxy;
mod resource;

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use palisade_k8s::LiveObject;
use palisade_model::{Diagnostic, Severity};

pub use error::{LiveError, Used};

use crate::{Gathered, Unavailable, Why};
use page::Listing;
use resource::RESOURCES;

/// Which cluster to read, and how much of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveOptions {
    /// The kubeconfig to use instead of `KUBECONFIG`, `~/.kube/config` or the service account of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use instead of the current one.
    pub context: Option<String>,
    /// The namespace to read; all of them without one. Namespaces, nodes and cluster-wide policies are always
    /// read whole, since they decide about every namespace.
    pub namespace: Option<String>,
}

/// Lists everything that policy depends on.
///
/// Each object has a name for messages, `cluster/<resource>/<namespace>/<name>`, by which the objects of a resource are sorted. A resource that may not be listed, or is not served, is in `unavailable`.
pub fn list(options: &LiveOptions) -> Result<Gathered, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LiveError::Runtime { why: error.to_string() })?;
    let gathered = runtime.block_on(gather(options));
    // A name lookup that hangs must not outlive its timeout.
    runtime.shutdown_background();
    gathered
}

async fn gather(options: &LiveOptions) -> Result<Gathered, LiveError> {
    let namespace = options.namespace.as_deref();
    if let Some(name) = namespace.filter(|name| !is_namespace_name(name)) {
        return Err(LiveError::Namespace { namespace: name.to_owned() });
    }
    let access = config::find(options).await?;
    let used = access.used;
    let client = Client::try_from(access.config).map_err(|failure| error::build(&used, &failure))?;
    let mut gathered = Gathered::default();
    for resource in &RESOURCES {
        let path = resource.path(namespace);
        let (list, of) = (resource.list_name(), Arc::new(resource.type_meta()));
        let read = |json: &str| LiveObject::read(&list, &of, json);
        let listing = page::list(&client, &path, &read).await.map_err(|failure| failure.at(&used, resource))?;
        let why = match listing {
            Listing::Items(mut items) => {
                if let (Some(name), true) = (namespace, resource.is_namespaces()) {
                    gathered.diagnostics.extend(absent_namespace(name, &items));
                }
                items.sort_by(|a, b| a.file().cmp(b.file()));
                gathered.live.extend(items);
                continue;
            }
            Listing::Forbidden => Why::Forbidden,
            Listing::NotFound => Why::NotInstalled,
        };
        gathered.unavailable.push(Unavailable { resource: resource.full_name(), why });
    }
    let nothing_served = gathered.unavailable.len() == RESOURCES.len() && gathered.unavailable.iter().all(|it| it.why == Why::NotInstalled);
    if nothing_served { Err(LiveError::NotKubernetes { used }) } else { Ok(gathered) }
}

/// A namespace that does not exist lists as empty, and an empty namespace looks well kept.
fn absent_namespace(namespace: &str, namespaces: &[LiveObject]) -> Option<Diagnostic> {
    if namespaces.iter().any(|it| it.file().rsplit('/').next() == Some(namespace)) {
        return None;
    }
    Some(Diagnostic {
        severity: Severity::Error,
        code: "missing-namespace",
        location: None,
        object: format!("Namespace {namespace}").into(),
        path: "".into(),
        message: "does not exist in this cluster, so nothing was read from it".into(),
        help: Some("list what exists with `kubectl get namespaces`".into()),
    })
}

/// A DNS label. Anything else would end up as another path on the API server.
fn is_namespace_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}
