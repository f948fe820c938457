//! What leaves the house.
//!
//! `v1` holds the serialisable answers, versioned and with a schema; everything else turns the answers of the inner crates into them, or them into
//! text. The text says nothing that the JSON does not.
#![warn(missing_docs, clippy::as_conversions)]

mod denied;
mod explained;
pub mod exposure;
mod exposure_text;
mod junit;
pub mod lab_text;
mod locate;
pub mod manifest;
pub mod matrix;
pub mod matrix_html;
pub mod matrix_svg;
mod matrix_text;
mod probed;
mod tested;
pub mod text;
pub mod v1;
mod words;

pub use denied::{Broken, DecidedBy, Denied, denied};
pub use explained::{explained, verdict};
pub use exposure_text::exposure as exposure_text;
pub use junit::junit;
pub use matrix_text::{Crowd, Group};
pub use probed::{decisive, probed};
pub use tested::tested;
