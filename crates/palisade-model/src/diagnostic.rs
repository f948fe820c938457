//! What was noticed while reading input. Reading never stops at the first problem and never loses one.

use std::fmt;
use std::sync::Arc;

/// One thing the reader noticed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// What follows from it.
    pub severity: Severity,
    /// A stable name for this sort of problem, such as `unknown-field`.
    pub code: &'static str,
    /// Where it is, if it came from a text.
    pub location: Option<Location>,
    /// The object it concerns, as `Kind namespace/name`; empty when it concerns none.
    pub object: Box<str>,
    /// The field, as a path from the object; empty when it concerns the whole object.
    pub path: Box<str>,
    /// What is wrong and what was assumed instead: lower case, no full stop.
    pub message: Box<str>,
    /// What to do about it.
    pub help: Option<Box<str>>,
}

/// What follows from a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object is refused, or is read in a form that the API server would not have stored: no verdict can be trusted.
    Error,
    /// The object counts, possibly narrower than written; the verdict stands.
    Warning,
    /// Something was assumed that is nearly always right.
    Note,
}

/// A place in a text that was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The file as the user named it, `-` for standard input, or the cluster resource it came from.
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "{}[{}]: ", self.severity, self.code)?;
        if !self.object.is_empty() {
            write!(f, "{}: ", self.object)?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}
