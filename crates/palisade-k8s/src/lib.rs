//! Objects into the model: index, fail-closed conversion, sources.

use std::sync::Arc;

/// One text to read: a file, standard input, or a resource of a live cluster written out as YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The name that messages use: the path as the user gave it, `-`, or `cluster/networkpolicies`.
    pub file: Arc<str>,
    /// Multi-document YAML or JSON.
    pub content: Arc<str>,
}
