//! Rules about the repository that rustfmt and clippy cannot hold. All findings are shown at once.
//!
//! Every rule is a function from values (files, cargo's metadata, `layers.toml`) to findings, and has a test in which it fires.

use std::fmt;

use anyhow::{Result, bail};

use crate::mutants;
use crate::workspace::{Tree, Workspace, root};

mod config;
mod layers;
mod orphans;
mod purity;
mod shape;
mod sizes;
mod text;

/// Something to repair, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let tree = Tree::load(&root)?;
    let workspace = Workspace::load(&root)?;
    let config = config::Config::load(&tree)?;

    let mut findings = layers::check(&tree, &workspace, &config);
    findings.extend(purity::check_crates(&purity::closures(&root, &workspace, &config)?, &config));
    findings.extend(sizes::check(&tree, &config.sizes));
    findings.extend(orphans::check(&tree, &workspace));
    findings.extend(shape::check(&tree, &workspace, &config));
    findings.extend(text::check(&tree));
    findings.extend(mutants::misfits(&tree).into_iter().map(|(line, message)| Finding::new(mutants::TABLE, line, message)));
    findings.sort();
    findings.dedup();

    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 finding"),
        count => bail!("tidy: {count} findings"),
    }
}

#[cfg(test)]
fn lines(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}
