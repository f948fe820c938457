//! Objects into the model.
//!
//! An `Index` holds the objects that were read; `snapshot` turns them into the model, with everything that was noticed on the way. Nothing is
//! dropped quietly: an object either counts, or a diagnostic says why not. What cannot be understood is closed in one place (`policy`). A `LiveIndex`
//! follows a watch instead, and emits the changes of the model.
#![warn(clippy::as_conversions)]

mod controller;
mod index;
mod joins;
mod live_index;
mod over;
mod policy;
mod seen;
mod sources;
mod words;

use std::sync::Arc;

pub use controller::{Controller, Labelled, Whose};
pub use index::{Audited, Index, Snapshot};
pub use joins::AttachmentSource;
pub use live_index::LiveIndex;
pub use palisade_api::json::TypeMeta;
pub use palisade_api::names;
pub use palisade_api::names::{CONTROLLER_LABEL, CONTROLLER_NAME, DISABLED};
pub use palisade_api::tree::FieldPath;
pub use sources::{Beside, Excerpt, LiveObject, ObjectKey, Sources, Written};

/// One text to read: a file or standard input. Objects of a live cluster are [`LiveObject`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The name that messages use: the path as the user gave it, or `-`.
    pub file: Arc<str>,
    /// Multi-document YAML or JSON.
    pub content: Arc<str>,
}
