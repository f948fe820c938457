//! Manifests with something wrong: small slips, as people make them, and rubbish, as nobody does.
//!
//! [`text`] breaks the text, [`tree`] the objects in it, both at random; [`slip`] makes one of a few slips that are known. [`strangers`] says which keys of a policy no API knows, from a table of its own.

mod slips;
mod strangers;
mod text;
mod tree;

pub use slips::{Slipped, slip};
pub use strangers::strangers;
pub use text::text;
pub use tree::tree;

use crate::objects::Objects;
use crate::random::Random;

/// The objects as manifests, in one of the ways that tools write them.
pub fn written(random: &mut Random, objects: &Objects) -> String {
    let documents = || objects.0.iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().join("---\n");
    match random.below(3) {
        0 => objects.to_json(),
        1 => documents(),
        _ => serde_saphyr::to_string_multiple(&objects.0).unwrap_or_else(|_| documents()),
    }
}
