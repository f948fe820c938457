//! A live cluster as texts.
//!
//! Only lists are requested, so the rights of a viewer are enough. Each resource is listed at its own moment: this
//! is not a snapshot of the cluster, only of each resource.

mod config;
mod error;
mod page;
mod proxy;
mod resource;
mod yaml;

use std::path::PathBuf;

use kube::Client;
use palisade_k8s::Text;
use palisade_model::{Diagnostic, Severity};
use serde_json::Value;

pub use error::{LiveError, Used};

use crate::{Gathered, Unavailable, Why};
use page::Listing;
use resource::{RESOURCES, Resource};

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
/// A resource that exists yields one text, `cluster/<resource>`, with its objects by namespace and name; none at all
/// when there are no objects. A resource that may not be listed, or is not served, is in `unavailable`.
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
        let listing = page::list(&client, &path).await.map_err(|failure| failure.at(&used, resource))?;
        let why = match listing {
            Listing::Items(items) => {
                if let (Some(name), true) = (namespace, resource.is_namespaces()) {
                    gathered.diagnostics.extend(absent_namespace(name, &items));
                }
                gathered.texts.extend(text(resource, items));
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

/// The objects of one resource as YAML, each as `kubectl get -o yaml` would show it.
fn text(resource: &Resource, mut items: Vec<Value>) -> Option<Text> {
    if items.is_empty() {
        return None;
    }
    for item in &mut items {
        resource.complete(item);
    }
    items.sort_by(|a, b| resource::place(a).cmp(&resource::place(b)));
    let documents: Vec<String> = items.iter().map(yaml::document).collect();
    let file = format!("cluster/{}", resource.text_name());
    Some(Text { file: file.into(), content: documents.join("---\n").into() })
}

/// A namespace that does not exist lists as empty, and an empty namespace looks well kept.
fn absent_namespace(namespace: &str, namespaces: &[Value]) -> Option<Diagnostic> {
    let mut names = namespaces.iter().map(|item| resource::place(item).1.to_owned());
    if names.any(|name| name == namespace) {
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
