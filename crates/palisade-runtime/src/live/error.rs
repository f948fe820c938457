//! What can keep a whole cluster from being read, in words that name the kubeconfig and the context.
//!
//! Messages are put together from parts that cannot hold a secret. The errors of the client do: a YAML error quotes
//! the line, a failed credential plugin its output. So none of them is kept as a source.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use kube::client::{AuthError, RustlsTlsError};
use kube::config::{KubeconfigError, LoadDataError};

use super::resource::Resource;

/// Why nothing could be read from a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The namespace asked for cannot exist.
    #[error("`{namespace}` is not a namespace name: use lower-case letters, digits and `-`")]
    Namespace {
        /// As the user wrote it.
        namespace: String,
    },
    /// Neither a kubeconfig nor a service account.
    #[error("no kubeconfig at {looked}; pass --kubeconfig, or set KUBECONFIG")]
    NoKubeconfig {
        /// The files that do not exist, each in backticks.
        looked: String,
    },
    /// A kubeconfig that cannot be read.
    #[error("{files}: {why}")]
    Kubeconfig {
        /// The files, each in backticks.
        files: String,
        /// What is wrong with them.
        why: String,
    },
    /// No context was asked for and none is current.
    #[error("{files}: no current context is set; pass --context with one of: {known}")]
    NoContext {
        /// The files, each in backticks.
        files: String,
        /// The contexts that they have.
        known: String,
    },
    /// The context that was asked for does not exist.
    #[error("{files}: there is no context `{context}`; pass --context with one of: {known}")]
    UnknownContext {
        /// As the user wrote it.
        context: String,
        /// The files, each in backticks.
        files: String,
        /// The contexts that they have.
        known: String,
    },
    /// The cluster or user of the context cannot be used.
    #[error("{used}: {why}")]
    Unusable {
        /// Where the settings came from.
        used: Used,
        /// What is wrong with them.
        why: String,
    },
    /// 401.
    #[error("{used}: the API server at {} does not accept the credentials (401); log in again or pass another --context", used.0.server)]
    Unauthorized {
        /// Where the credentials came from.
        used: Used,
    },
    /// No connection.
    #[error("{used}: cannot talk to the API server at {}: {why}; {}", used.0.server, advice(why))]
    Unreachable {
        /// Where the address came from.
        used: Used,
        /// What the network said.
        why: String,
    },
    /// No connection, or no answer, in time.
    #[error("{used}: the API server at {} did not answer in time; check that it is reachable from here", used.0.server)]
    TimedOut {
        /// Where the address came from.
        used: Used,
    },
    /// Every resource is unknown to the server.
    #[error("{used}: the server at {} does not serve the Kubernetes API; check the `server` of the cluster", used.0.server)]
    NotKubernetes {
        /// Where the address came from.
        used: Used,
    },
    /// An answer that is neither a list nor a refusal of one resource.
    #[error("{used}: listing `{resource}` failed: {why}")]
    Answer {
        /// Where the address came from.
        used: Used,
        /// As in [`crate::Unavailable`].
        resource: String,
        /// What came back.
        why: String,
    },
    /// The machine gave out.
    #[error("cannot start the network runtime: {why}")]
    Runtime {
        /// What the operating system said.
        why: String,
    },
}

/// The settings that were used, as messages name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used(pub(super) Arc<Settings>);

/// What [`Used`] shows, and what is shown beside it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) origin: Origin,
    /// The address of the API server, without any user name or password.
    pub(super) server: String,
    /// The program that provides credentials.
    pub(super) plugin: Option<String>,
}

/// Where settings came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Kubeconfig { files: String, context: String },
    ServiceAccount,
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.origin {
            Origin::Kubeconfig { files, context } => write!(f, "context `{context}` of {files}"),
            Origin::ServiceAccount => f.write_str("the service account of this pod"),
        }
    }
}

/// A client that could not be made from the settings.
pub(super) fn build(used: &Used, failure: &kube::Error) -> LiveError {
    let why = if let kube::Error::Auth(error) = failure {
        credentials(used, error)
    } else if let kube::Error::RustlsTls(error) = failure {
        tls(error).to_owned()
    } else if let kube::Error::InferKubeconfig(error) = failure {
        settings(error)
    } else if matches!(failure, kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. }) {
        "the proxy cannot be used: its URL must begin with http:// or https://".to_owned()
    } else {
        "the settings of this cluster or user cannot be used".to_owned()
    };
    LiveError::Unusable { used: used.clone(), why }
}

/// A request that got no answer.
pub(super) fn unreachable(used: &Used, failure: &kube::Error) -> LiveError {
    if let kube::Error::Auth(error) = failure {
        return LiveError::Unusable { used: used.clone(), why: credentials(used, error) };
    }
    let chain = || std::iter::successors(Some(failure as &dyn Error), |error| (*error).source());
    let timed_out = chain().filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| error.kind() == io::ErrorKind::TimedOut);
    if timed_out {
        return LiveError::TimedOut { used: used.clone() };
    }
    // The outer ones only say that a request failed.
    let why = chain().last().map_or_else(String::new, ToString::to_string);
    LiveError::Unreachable { used: used.clone(), why }
}

/// An error status.
pub(super) fn refused(used: &Used, resource: &Resource, code: u16, message: &str) -> LiveError {
    let why = match (code, message) {
        (410, _) => "the list changed faster than it could be read (410); try again".to_owned(),
        (code, "") => format!("the API server answered {code}"),
        (code, message) => format!("the API server answered {code}, `{message}`"),
    };
    LiveError::Answer { used: used.clone(), resource: resource.full_name(), why }
}

/// An answer that makes no sense.
pub(super) fn answer(used: &Used, resource: &Resource, what: &str) -> LiveError {
    let why = format!("the API server sent {what}; check the `server` of the cluster");
    LiveError::Answer { used: used.clone(), resource: resource.full_name(), why }
}

/// What is wrong with a kubeconfig, without quoting it.
pub(super) fn settings(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::CurrentContextNotSet => "no current context is set".to_owned(),
        KubeconfigError::KindMismatch => "files of different `kind` cannot be merged".to_owned(),
        KubeconfigError::ApiVersionMismatch => "files of different `apiVersion` cannot be merged".to_owned(),
        KubeconfigError::LoadContext(name) => format!("there is no context `{name}`"),
        KubeconfigError::LoadClusterOfContext(name) => format!("there is no cluster `{name}`"),
        KubeconfigError::FindPath => "there is no home folder to look in".to_owned(),
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => {
                format!("not a kubeconfig: see line {}, column {}", at.line(), at.column())
            }
            None => "not a kubeconfig".to_owned(),
        },
        KubeconfigError::MissingClusterUrl => "the cluster has no `server`".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "`server` is not a URL".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "the proxy is not a URL".to_owned(),
        KubeconfigError::LoadCertificateAuthority(error) => data("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => data("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => data("client-key", error),
        KubeconfigError::ParseCertificates(_) => "`certificate-authority` is not PEM".to_owned(),
        KubeconfigError::ParseNoProxy(_) => "NO_PROXY cannot be read".to_owned(),
    }
}

fn data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("`{field}-data` is not base64"),
        LoadDataError::ReadFile(error, path) => {
            format!("`{field}`: `{}` cannot be read: {error}", path.display())
        }
        LoadDataError::NoBase64DataOrFile => format!("`{field}` is empty"),
    }
}

fn credentials(used: &Used, error: &AuthError) -> String {
    let plugin = match &used.0.plugin {
        Some(program) => format!("the credential plugin `{program}`"),
        None => "the credential plugin".to_owned(),
    };
    if let AuthError::AuthExecStart(error) = error {
        format!("{plugin} did not start: {error}")
    } else if let AuthError::AuthExecRun { out, .. } = error {
        format!("{plugin} failed with {}; run it by hand to see why", out.status)
    } else if let AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed = error {
        format!("{plugin} did not print an ExecCredential with a status")
    } else if let AuthError::ReadTokenFile(error, path) = error {
        format!("token file `{}` cannot be read: {error}", path.display())
    } else {
        "the credentials of this user cannot be used".to_owned()
    }
}

fn tls(error: &RustlsTlsError) -> &'static str {
    match error {
        RustlsTlsError::InvalidIdentityPem(_) => "the client certificate or key is not PEM",
        RustlsTlsError::MissingPrivateKey => "the client key is missing or is not PKCS8 or RSA",
        RustlsTlsError::MissingCertificate => "the client certificate is missing",
        RustlsTlsError::InvalidPrivateKey(_) => "the client key does not fit its certificate",
        RustlsTlsError::UnknownPrivateKeyFormat => "the client key is of an unknown format",
        RustlsTlsError::AddRootCertificate(_) | RustlsTlsError::NoValidNativeRootCA(_) => {
            "no certificate authority can be used: set `certificate-authority` of the cluster"
        }
        RustlsTlsError::InvalidServerName(_) => "`tls-server-name` is not a host name",
    }
}

/// What to look at first.
fn advice(why: &str) -> &'static str {
    match why.to_ascii_lowercase().contains("certificate") {
        true => "check certificate-authority (or certificate-authority-data) of that cluster in the kubeconfig",
        false => "check that it runs and that --context names the right cluster",
    }
}
