//! Where input comes from: files, folders, standard input, a live cluster.
//!
//! Everything ends up as [`palisade_k8s::Text`]; nothing here looks inside one. What could not be read is a
//! diagnostic or an [`Unavailable`], never a silent gap: a policy that was not read is a policy that was not judged.

pub mod folder;
mod gathered;
pub mod live;

pub use gathered::{Gathered, Unavailable, Why};
