//! Why a command has no report.

use palisade_lint::{Unfixed, UnknownRule};
use palisade_report::{MatrixError, diff, text, v1};

/// Why a command has no report. Errors that come from the input carry what was noticed while reading it.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An option cannot be read, or does not fit the cluster or the other options. The text names the option as the command line spells it.
    #[error("{0}")]
    Option(String),
    /// Only one namespace was listed, and the command needs the whole cluster.
    #[error("`-n`: {0}")]
    OneNamespace(&'static str),
    /// Objects were refused: an answer without them could be wrong.
    #[error("{what} were refused, so {consequence}")]
    Refused {
        /// `objects`, or the version that they are of.
        what: &'static str,
        /// What cannot be done without them.
        consequence: &'static str,
        /// The reasons.
        noticed: Noticed,
    },
    /// Policies alone do not decide connections.
    #[error("no pod or workload of the pod network was read, so there is nobody to answer about")]
    NoPods(Noticed),
    /// The question names something that is not in the cluster.
    #[error("{problem}")]
    NotFound {
        /// What is not there.
        problem: String,
        /// Diagnostics of the cluster.
        noticed: Noticed,
        /// Resources that could not be listed: the missing object may be among them.
        unavailable: Vec<String>,
    },
    /// A lint rule of that name does not exist.
    #[error(transparent)]
    Rule(#[from] UnknownRule),
    /// The repair would change a verdict.
    #[error(transparent)]
    Repair(#[from] Unfixed),
    /// The matrix cannot be written.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// Converted objects do not mean what they were converted from.
    #[error("the new objects are not read back as what they were meant to be, which is a mistake of palisade\n{0}")]
    ReadBack(String),
    /// A packet cannot be traced through the ruleset.
    #[error("{0}")]
    Trace(String),
}

/// Diagnostics of the input of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// Of one cluster.
    Cluster(Vec<v1::Diagnostic>),
    /// Of two versions of a cluster.
    Versions(Vec<v1::DiffDiagnostic>),
}

impl AppError {
    /// An option with a problem.
    pub(crate) fn option(text: impl Into<String>) -> AppError {
        AppError::Option(text.into())
    }

    /// Diagnostics of the input and its limits, for people: they come before the error itself.
    pub fn noticed(&self) -> String {
        let said = |noticed: &Noticed| match noticed {
            Noticed::Cluster(all) => text::diagnostics(all),
            Noticed::Versions(all) => diff::diagnostics_text(all),
        };
        match self {
            AppError::Refused { noticed, .. } | AppError::NoPods(noticed) => said(noticed),
            AppError::NotFound { noticed, unavailable, .. } => said(noticed) + &text::notes(unavailable),
            AppError::Option(_)
            | AppError::OneNamespace(_)
            | AppError::Rule(_)
            | AppError::Repair(_)
            | AppError::Matrix(_)
            | AppError::ReadBack(_)
            | AppError::Trace(_) => String::new(),
        }
    }

    /// How to get an answer.
    pub fn help(&self) -> Option<&'static str> {
        matches!(self, AppError::NoPods(_)).then_some("add the Pods or the workloads, or leave `-f` out to ask the cluster")
    }
}
