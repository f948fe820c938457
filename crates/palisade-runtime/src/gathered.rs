//! What an input yielded, and what it should have yielded and did not.

use std::fmt;

use palisade_k8s::{LiveObject, Text};
use palisade_model::Diagnostic;

/// All that was read, beside all that could not be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// In the order of the inputs; within a folder by path. None of a live cluster.
    pub texts: Vec<Text>,
    /// The objects of a live cluster, by resource and name; none of files.
    pub live: Vec<LiveObject>,
    /// What went wrong with single files. The other files are in `texts` all the same.
    pub diagnostics: Vec<Diagnostic>,
    /// Resources of a live cluster that `live` says nothing about; always empty for files.
    pub unavailable: Vec<Unavailable>,
}

/// A resource of a live cluster that could not be listed, so that its objects are unknown rather than absent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unavailable {
    /// As `kubectl get` takes it: `pods`, `clusternetworkpolicies.policy.networking.k8s.io`.
    pub resource: String,
    /// What the API server said.
    pub why: Why,
}

/// Why a resource could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// 403: objects may exist, and the user may not see them.
    Forbidden,
    /// 404: the API server does not serve this resource, so no object of it exists.
    NotInstalled,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Why::Forbidden => write!(f, "`{}` may not be listed by this user", self.resource),
            Why::NotInstalled => write!(f, "`{}` is not served by this cluster", self.resource),
        }
    }
}
