//! The cargo subcommands that CI needs beside cargo itself, at pinned versions.
//!
//! A subcommand that is already on the PATH is used as it is. A missing one is built from crates.io into `target/tools`, so that CI
//! leaves nothing in the user's own cargo folder and `cargo clean` removes it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::command;

/// A cargo subcommand: `cargo NAME` runs the program of the crate `cargo-NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    name: &'static str,
    /// The version that is installed if the subcommand is missing.
    version: &'static str,
}

/// Runs each test in a process of its own. Tests that change their network namespace or fork rely on it.
pub(crate) const NEXTEST: Tool = Tool { name: "nextest", version: "0.9.151" };
/// Checks licences, sources and bans of dependencies.
pub(crate) const DENY: Tool = Tool { name: "deny", version: "0.20.2" };
/// Builds and starts libFuzzer programs.
pub(crate) const FUZZ: Tool = Tool { name: "fuzz", version: "0.13.2" };

impl Tool {
    /// Installs the subcommand if neither the PATH nor `target/tools` has it.
    pub(crate) fn ensure(self, root: &Path) -> Result<()> {
        let runs = cargo(root, &[self.name, "--version"])?.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if runs.is_ok_and(|status| status.success()) {
            return Ok(());
        }
        println!("installing cargo-{} {} into target/tools; this takes some minutes", self.name, self.version);
        // Debug information makes up most of what the linker writes, and a full disk kills the linker without a message.
        let mut install = command(root, "cargo", &self.install());
        let status = install.env("CARGO_PROFILE_DEV_DEBUG", "0").status().context("cannot run cargo")?;
        if !status.success() {
            bail!(
                "cargo-{name} {version} could not be installed ({status}); it needs 2 GB of free disk; install it by hand: `cargo install --locked --version {version} cargo-{name}`",
                name = self.name,
                version = self.version,
            );
        }
        Ok(())
    }

    /// Without optimisation: the programs wait for others most of their time, and are built in less than half of it.
    fn install(self) -> [String; 8] {
        let words = ["install", "--quiet", "--locked", "--debug", "--root", "target/tools"].map(str::to_owned);
        let [a, b, c, d, e, f] = words;
        [a, b, c, d, e, f, format!("--version={}", self.version), format!("cargo-{}", self.name)]
    }
}

/// A cargo command that also finds the subcommands of `target/tools`.
pub(crate) fn cargo<S: AsRef<str>>(root: &Path, arguments: &[S]) -> Result<Command> {
    let mut cargo = command(root, "cargo", arguments);
    cargo.env("PATH", path(root)?);
    Ok(cargo)
}

/// Runs a command to its end. Anything but success is an error that spells the command.
pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let words: Vec<String> = command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
    let spelled = format!("cargo {}", words.join(" "));
    let status = command.status().with_context(|| format!("cannot run `{spelled}`"))?;
    if status.success() { Ok(()) } else { bail!("`{spelled}` ended with {status}") }
}

/// The user's PATH, then `target/tools/bin`.
fn path(root: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([root.join("target/tools/bin")]);
    std::env::join_paths(folders).context("`target/tools/bin` cannot be put on the PATH, since the workspace's path has a colon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_installed_at_its_pinned_version_into_the_target_folder() {
        let words = NEXTEST.install().join(" ");
        assert_eq!(words, "install --quiet --locked --debug --root target/tools --version=0.9.151 cargo-nextest");
    }

    #[test]
    fn the_users_own_programs_come_first() {
        let path = path(Path::new("/w")).unwrap();
        assert_eq!(std::env::split_paths(&path).last().unwrap(), Path::new("/w/target/tools/bin"));
    }
}
