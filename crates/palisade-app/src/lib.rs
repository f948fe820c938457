//! Commands as functions: from a cluster and options to a `report::v1` value.
//!
//! The command line, a user interface, a webhook and a controller call the same functions. A function takes plain values and returns a report or an
//! [`AppError`]; the caller reads input, chooses a format of `palisade-report`, prints and exits. The exit status belongs to the report ([`Outcome`]).
//!
//! May `shop/web` connect to `shop/db`?
//!
//! ```
//! use palisade_app::{Cluster, Outcome, Texts, explain};
//! use palisade_k8s::{Controller, Text};
//! use palisade_report::v1::Question;
//!
//! # let manifests = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: []}, status: {podIP: 10.0.0.1}}
//! # ---
//! # {apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop}, spec: {containers: []}, status: {podIP: 10.0.0.2}}
//! # ---
//! # {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: closed, namespace: shop}, spec: {podSelector: {}}}";
//! let text = Text { file: "manifests.yaml".into(), content: manifests.into() };
//! let cluster = Cluster::read(Texts { texts: vec![text], ..Texts::default() }, Controller::default());
//! let question =
//!     Question { from: "shop/web".into(), to: "shop/db".into(), protocol: "tcp".into(), port: Some("5432".into()) };
//! let explanation = explain(&cluster, &question)?;
//! assert_eq!(explanation.outcome(), Outcome::No);
//! # Ok::<(), palisade_app::AppError>(())
//! ```
#![warn(missing_docs, clippy::as_conversions)]

mod allow;
mod cluster;
pub mod convert;
pub mod diff;
mod error;
mod explain;
pub mod exposure;
pub mod lint;
pub mod matrix;
pub mod nft;
pub mod overrides;
mod status;
pub mod test;
#[cfg(test)]
mod testing;

pub use allow::{AllowOptions, allow};
pub use cluster::{Cluster, Objects, Texts, Versions};
pub use error::{AppError, Noticed};
pub use explain::explain;
pub use palisade_report::Outcome;
pub use status::status;
