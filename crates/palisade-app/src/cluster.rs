//! Input of commands: objects that were read, and what is missing among them.

use palisade_k8s::{Controller, Index, LiveObject, Snapshot, Text};
use palisade_model::{Diagnostic, Severity};
use palisade_report::v1;

use crate::error::{AppError, Noticed};

/// Texts or live objects of a cluster, before they are indexed.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// Manifests.
    pub texts: Vec<Text>,
    /// Objects of a live cluster.
    pub live: Vec<LiveObject>,
    /// Problems of whoever read the texts, such as files that are missing.
    pub diagnostics: Vec<Diagnostic>,
    /// Resources that the API server does not let this user list: their objects may exist.
    pub forbidden: Vec<String>,
    /// The one namespace that was listed; none if the whole cluster was.
    pub namespace: Option<String>,
}

/// Objects of a cluster by name. `lint` and `convert` ask for more than the model holds.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The objects.
    pub index: Index,
    /// The controller that the commands answer for.
    pub controller: Controller,
    /// Resources that could not be listed, in sentences.
    pub unavailable: Vec<String>,
    /// The one namespace that was listed; none if the whole cluster was.
    pub namespace: Option<String>,
}

/// A cluster at one moment.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The model, its diagnostics and where each object stands.
    pub snapshot: Snapshot,
    /// The controller that the commands answer for.
    pub controller: Controller,
    /// Resources that could not be listed, in sentences.
    pub unavailable: Vec<String>,
    /// The one namespace that was listed; none if the whole cluster was.
    pub namespace: Option<String>,
}

/// Two versions of a cluster.
#[derive(Clone, Debug)]
pub struct Versions {
    /// The old one.
    pub old: Cluster,
    /// The new one.
    pub new: Cluster,
    /// Diagnostics of the new version that the old one does not have.
    pub added: Vec<Diagnostic>,
}

/// Most names in a note.
const NAMED: usize = 5;

impl Objects {
    /// Parses texts, and notes what is missing.
    pub fn read(texts: Texts, controller: Controller) -> Objects {
        let mut index = Index::of(controller.clone());
        index.note(texts.diagnostics);
        for text in texts.texts {
            index.read(text);
        }
        texts.live.into_iter().for_each(|it| index.read_live(it));
        index.note(index.is_empty().then(nothing_read));
        let (policies, others): (Vec<String>, Vec<String>) = texts.forbidden.into_iter().partition(|it| it.contains("networkpolicies"));
        index.note(forbidden_policies(&policies));
        let unavailable = match others.is_empty() {
            true => Vec::new(),
            false => vec![format!("this user may not list {}, so the answer is without what they would say", others.join(", "))],
        };
        Objects { index, controller, unavailable, namespace: texts.namespace }
    }

    /// The cluster that these objects are.
    pub fn cluster(&self) -> Cluster {
        Cluster {
            snapshot: self.index.snapshot(),
            controller: self.controller.clone(),
            unavailable: self.unavailable.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// This cluster, and the same after `kubectl apply` of other objects.
    pub fn with_applied(mut self, applied: Objects) -> Versions {
        let old = self.cluster();
        self.index.put_over(applied.index);
        let new = self.cluster();
        let added = new.snapshot.diagnostics.iter().filter(|it| !old.snapshot.diagnostics.contains(it)).cloned().collect();
        Versions { old, new, added }
    }
}

impl Versions {
    /// Two clusters that were read apart.
    pub fn apart(old: Cluster, new: Cluster) -> Versions {
        let added = new.snapshot.diagnostics.clone();
        Versions { old, new, added }
    }
}

impl Cluster {
    /// Parses texts, and notes what is missing.
    pub fn read(texts: Texts, controller: Controller) -> Cluster {
        Objects::read(texts, controller).cluster()
    }

    /// Whether objects were refused, so that an answer without them could be wrong.
    pub fn refused(&self) -> bool {
        self.snapshot.diagnostics.iter().any(|it| it.severity == Severity::Error)
    }

    /// Diagnostics of the input.
    pub fn diagnostics(&self) -> Vec<v1::Diagnostic> {
        self.snapshot.diagnostics.iter().map(v1::Diagnostic::from).collect()
    }

    /// Limits of an answer about the whole cluster.
    pub fn limits(&self) -> Vec<String> {
        self.unavailable.iter().cloned().chain(self.on_host_networks()).collect()
    }

    /// Pods that no policy can select, and that are therefore left out.
    fn on_host_networks(&self) -> Option<String> {
        let pods: Vec<String> = self.snapshot.model.nodes.iter().flat_map(|it| &it.host_pods).map(|it| it.name.to_string()).collect();
        let named = pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = if pods.len() > NAMED { format!(" and {} more", pods.len() - NAMED) } else { String::new() };
        (!pods.is_empty()).then(|| format!("{named}{more}: on the network of the node, where no policy selects them; left out here"))
    }

    pub(crate) fn noticed(&self) -> Noticed {
        Noticed::Cluster(self.diagnostics())
    }

    /// Fails if objects were refused, since `consequence`.
    pub fn complete(&self, consequence: &'static str) -> Result<(), AppError> {
        match self.refused() {
            true => Err(AppError::Refused { what: "objects", consequence, noticed: self.noticed() }),
            false => Ok(()),
        }
    }

    /// Fails if only one namespace was listed.
    pub(crate) fn whole(&self, reason: &'static str) -> Result<(), AppError> {
        if self.namespace.is_some() { Err(AppError::OneNamespace(reason)) } else { Ok(()) }
    }

    pub(crate) fn has_pods(&self) -> bool {
        !self.snapshot.model.endpoints.is_empty()
    }

    /// Fails if no pod was read that policies could be about.
    pub(crate) fn with_pods(&self) -> Result<(), AppError> {
        if self.has_pods() { Ok(()) } else { Err(AppError::NoPods(self.noticed())) }
    }

    /// The error for a question that names something which is not in this cluster.
    pub(crate) fn not_found(&self, problem: String) -> AppError {
        AppError::NotFound { problem, noticed: self.noticed(), unavailable: self.unavailable.clone() }
    }
}

/// An empty input looks like a cluster without policies, as when the first command of a pipe failed.
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

/// Policies that the user may not list can decide any connection, so no verdict is trusted without them.
fn forbidden_policies(resources: &[String]) -> Option<Diagnostic> {
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
