//! The workspace as cargo and git see it: where it is, its packages, its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The folder of the workspace, which is the parent of this crate's.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
    Path::new(&manifest).parent().map(Path::to_path_buf).context("xtask has no parent folder")
}

/// A command that runs in the root of the workspace. `cargo` is the one that started us.
pub(crate) fn command<S: AsRef<str>>(root: &Path, program: &str, arguments: &[S]) -> Command {
    let program = match (program, std::env::var_os("CARGO")) {
        ("cargo", Some(cargo)) => cargo,
        _ => program.into(),
    };
    let mut command = Command::new(program);
    command.args(arguments.iter().map(AsRef::as_ref)).current_dir(root);
    command
}

/// Runs this program again, built with optimisation.
pub(crate) fn optimized(arguments: &[&str]) -> Result<()> {
    let words = [&["run", "--release", "--quiet", "--package", "xtask", "--"], arguments].concat();
    let status = command(&root()?, "cargo", &words).status().context("cannot run cargo")?;
    if status.success() { Ok(()) } else { bail!("`cargo {}` ended with {status}", words.join(" ")) }
}

/// What a command prints. Anything but success is an error that shows what it complained about.
pub(crate) fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let spelled = format!("{program} {}", arguments.join(" "));
    let output = command(root, program, arguments).output().with_context(|| format!("cannot run `{spelled}`"))?;
    if !output.status.success() {
        bail!("`{spelled}` failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{spelled}` did not print text"))
}

/// What libFuzzer needs is built with other flags, and not with the rest.
pub(crate) const APART: &str = "fuzz/driver/Cargo.toml";

/// The part of `cargo metadata --no-deps` that tidy reads.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for a normal dependency.
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: String,
}

impl Workspace {
    /// The workspace, and the one crate that has a workspace of its own.
    pub(crate) fn load(root: &Path) -> Result<Workspace> {
        let words = ["metadata", "--format-version", "1", "--no-deps"];
        let mut workspace = Workspace::parse(&output(root, "cargo", &words)?, root)?;
        let apart = output(root, "cargo", &[&words[..], &["--manifest-path", APART]].concat())?;
        workspace.packages.extend(Workspace::parse(&apart, root)?.packages);
        Ok(workspace)
    }

    /// Reads cargo's JSON and makes every path relative to `root`, with slashes.
    pub(crate) fn parse(json: &str, root: &Path) -> Result<Workspace> {
        let mut workspace: Workspace = serde_json::from_str(json).context("cannot read `cargo metadata`")?;
        for package in &mut workspace.packages {
            package.manifest_path = relative(&package.manifest_path, root)?;
            for target in &mut package.targets {
                target.src_path = relative(&target.src_path, root)?;
            }
        }
        Ok(workspace)
    }

    #[cfg(test)]
    pub(crate) fn fixture(json: &str) -> Workspace {
        Workspace::parse(json, Path::new("/w")).unwrap()
    }
}

impl Package {
    /// The folder of the package, relative to the root.
    pub(crate) fn folder(&self) -> &str {
        parent(&self.manifest_path)
    }
}

fn relative(path: &str, root: &Path) -> Result<String> {
    let relative = Path::new(path).strip_prefix(root).with_context(|| format!("`{path}` is outside of the workspace"))?;
    Ok(relative.to_string_lossy().replace('\\', "/"))
}

/// The folder that a relative path lies in; empty for the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The files that are part of the repository, or would be after `git add`: path to text. Files whose text no rule reads have
/// an empty one.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

const READ: [&str; 5] = [".rs", ".md", ".toml", ".yaml", ".yml"];

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Tree> {
        let names = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files = BTreeMap::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let path = root.join(name);
            // A file that was deleted but not yet committed as such is still listed.
            if !path.is_file() {
                continue;
            }
            let read = READ.iter().any(|extension| name.ends_with(extension));
            let text = if read { std::fs::read_to_string(&path).with_context(|| format!("cannot read `{name}`"))? } else { String::new() };
            files.insert(name.to_owned(), text);
        }
        Ok(Tree { files })
    }

    #[cfg(test)]
    pub(crate) fn fixture(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Path and text of every file with this ending.
    pub(crate) fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files.iter().filter(move |(path, _)| path.ends_with(ending)).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The first line of a file that contains `needle`, counted from 1; 1 if none does.
    pub(crate) fn line_of(&self, path: &str, needle: &str) -> usize {
        let found = self.text(path).and_then(|text| text.lines().position(|line| line.contains(needle)));
        found.map_or(1, |index| index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_cargo_become_relative() {
        let workspace = Workspace::fixture(
            r#"{"packages": [{"name": "a", "manifest_path": "/w/crates/a/Cargo.toml", "dependencies": [],
                "targets": [{"kind": ["lib"], "src_path": "/w/crates/a/src/lib.rs"}]}]}"#,
        );
        let package = &workspace.packages[0];
        assert_eq!((package.folder(), package.targets[0].src_path.as_str()), ("crates/a", "crates/a/src/lib.rs"));
    }

    #[test]
    fn a_path_outside_of_the_workspace_is_refused() {
        let json = r#"{"packages": [{"name": "a", "manifest_path": "/x/Cargo.toml", "dependencies": [], "targets": []}]}"#;
        let error = Workspace::parse(json, Path::new("/w")).unwrap_err();
        assert_eq!(error.to_string(), "`/x/Cargo.toml` is outside of the workspace");
    }
}
