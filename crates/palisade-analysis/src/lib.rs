//! Questions over decided policy: explain, expectations, the matrix, the difference between two clusters, exposure, what to write to allow a connection, what cluster policies override.
//!
//! Every verdict in here comes from `palisade_engine::decide`, or for whole clusters from `Reach`, which is held against it; this crate chooses what to ask and orders the answers for people.
#![warn(clippy::as_conversions)]

pub mod allow;
mod asked;
pub mod convert;
pub mod diff;
pub mod expect;
mod explain;
pub mod exposure;
mod flip;
pub mod matrix;
mod nearest;
pub mod overrides;
mod party;
mod resolve;

pub use asked::{node_named, port_filter};
pub use explain::{Answer, Asked, Case, Explanation, Side, answer, answer_by_family, explain};
pub use flip::{Edit, Flip};
pub use nearest::{Nearest, nearest};
pub use party::{FORMS, Party};
pub use resolve::{Candidate, Destination, PortAsked, backends_of};
