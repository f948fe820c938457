//! What leaves the house.
//!
//! `v1` holds the serialisable answers, versioned and with a schema; everything else turns the answers of the inner crates into them, or them into
//! text. The text says nothing that the JSON does not.
#![warn(missing_docs, clippy::as_conversions)]

mod accepted;
pub mod allow;
pub mod audited;
pub mod converted;
mod crowd;
mod cut;
mod denied;
pub mod diff;
mod diff_html;
mod diff_text;
mod explained;
pub mod exposure;
mod exposure_text;
mod junit;
pub mod lab_text;
mod lint_text;
pub mod locate;
pub mod manifest;
pub mod matrix;
mod matrix_html;
mod matrix_rows;
mod matrix_svg;
mod matrix_text;
mod metrics;
mod outcome;
pub mod overrides;
mod probed;
mod sarif;
mod standing;
mod status;
mod tested;
pub mod text;
mod unified;
pub mod v1;
mod verify_text;
mod words;

pub use accepted::{Accepted, accepted, accepted_by};
pub use audited::{Foreseen, foreseen};
pub use cut::{Ended, EndedBy, ended};
pub use denied::{Broken, DecidedBy, Denied, denied, denied_by};
pub use diff_html::diff_html;
pub use diff_text::diff_text;
pub use explained::{explained, verdict};
pub use exposure_text::exposure as exposure_text;
pub use junit::junit;
pub use lint_text::{Beside, lint as lint_text, lint_rule as lint_rule_text};
pub use matrix_rows::{MatrixError, MatrixFormat, MatrixRows};
pub use metrics::{metrics_text, prometheus};
pub use outcome::Outcome;
pub use probed::{decisive, probed};
pub use sarif::sarif;
pub use status::{controllers_text, status, status_text};
pub use tested::tested;
pub use unified::unified_diff;
pub use verify_text::verify as verify_text;
