//! Dependencies of pure crates: none of them does I/O, reads a clock or runs tasks. Clippy checks the sources of pure crates
//! (`clippy-pure.toml`).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use super::config::{Config, stands_for};
use crate::workspace::{Workspace, output};

/// All that a crate is built with.
#[derive(Debug)]
pub(super) struct Closure {
    manifest: String,
    name: String,
    crates: BTreeSet<String>,
}

pub(super) fn closures(root: &Path, workspace: &Workspace, config: &Config) -> Result<Vec<Closure>> {
    let mut closures = Vec::new();
    for name in config.pure() {
        let Some(package) = workspace.packages.iter().find(|package| package.name == name) else {
            continue;
        };
        let text = output(root, "cargo", &["tree", "-e", "normal", "--prefix", "none", "-p", name])?;
        closures.push(Closure::parse(&package.manifest_path, name, &text));
    }
    Ok(closures)
}

impl Closure {
    /// Reads `cargo tree --prefix none`: a name and a version a line.
    fn parse(manifest: &str, name: &str, tree: &str) -> Closure {
        let crates = tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        Closure { manifest: manifest.to_owned(), name: name.to_owned(), crates }
    }
}

pub(super) fn check_crates(closures: &[Closure], config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for closure in closures {
        for used in &closure.crates {
            if config.purity.crates.iter().any(|pattern| stands_for(pattern, used)) {
                let name = &closure.name;
                let message = format!("`{name}` is pure but is built with `{used}`; see `cargo tree -e normal -p {name} -i {used}`");
                findings.push(Finding::new(&closure.manifest, 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_dependency_is_found_through_others() {
        let tree = "low v0.1.0 (/w/crates/low)\nserde v1.0.0\ntokio-util v0.7.0\nserde v1.0.0 (*)\nlogos v1.0.0\n";
        let closure = Closure::parse("crates/low/Cargo.toml", "low", tree);
        assert_eq!(
            super::super::lines(&check_crates(&[closure], &Config::fixture())),
            ["crates/low/Cargo.toml:1: `low` is pure but is built with `tokio-util`; see `cargo tree -e normal -p low -i tokio-util`"]
        );
    }
}
