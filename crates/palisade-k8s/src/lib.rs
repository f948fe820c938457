//! Objects into the model.
//!
//! An `Index` holds the objects that were read; `snapshot` turns them into the model, with everything that was noticed on the way. Nothing is
//! dropped quietly: an object either counts, or a diagnostic says why not. What cannot be understood is closed in one place (`policy`).
#![warn(clippy::as_conversions)]

mod cluster;
mod controller;
mod index;
mod over;
mod policy;
mod seen;
mod sources;
mod words;

use std::sync::Arc;

pub use controller::{Controller, Labelled, Whose};
pub use index::{Audited, Index, Snapshot};
pub use palisade_api::names;
pub use palisade_api::names::{CONTROLLER_LABEL, CONTROLLER_NAME, DISABLED};
pub use palisade_api::tree::FieldPath;
pub use sources::{Beside, Excerpt, ObjectKey, Sources, Written};

/// One text to read: a file, standard input, or a resource of a live cluster written out as YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The name that messages use: the path as the user gave it, `-`, or `cluster/networkpolicies`.
    pub file: Arc<str>,
    /// Multi-document YAML or JSON.
    pub content: Arc<str>,
}
