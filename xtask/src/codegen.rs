//! Files that the binary writes about itself, and definitions that are made from types. They are committed, so that a change of
//! them is seen in review, and CI checks that they are what would be written.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::crds::CRDS;
use crate::workspace::{output, root};

/// A committed file, and the arguments that make the binary print it.
const GENERATED: &[(&str, &[&str])] = &[
    ("docs/schema/explanation.v1.json", &["schema", "explanation"]),
    ("docs/schema/test-report.v1.json", &["schema", "test-report"]),
    ("docs/schema/matrix.v1.json", &["schema", "matrix"]),
    ("docs/schema/diff.v1.json", &["schema", "diff"]),
    ("docs/schema/allowance.v1.json", &["schema", "allowance"]),
    ("docs/schema/overrides.v1.json", &["schema", "overrides"]),
    ("docs/schema/exposure.v1.json", &["schema", "exposure"]),
    ("docs/schema/conversion.v1.json", &["schema", "conversion"]),
    ("docs/schema/lint-report.v1.json", &["schema", "lint-report"]),
    ("docs/schema/status.v1.json", &["schema", "status"]),
    ("docs/schema/probe-report.v1.json", &["schema", "probe-report"]),
    ("docs/schema/lab-status.v1.json", &["schema", "lab-status"]),
    ("docs/schema/metrics.v1.json", &["schema", "metrics"]),
    ("docs/schema/denial.v1.json", &["schema", "denial"]),
    ("docs/schema/verification.v1.json", &["schema", "verification"]),
    ("docs/schema/cut.v1.json", &["schema", "cut"]),
    ("docs/schema/acceptance.v1.json", &["schema", "acceptance"]),
    ("docs/schema/would.v1.json", &["schema", "would"]),
    ("docs/schema/audit-report.v1.json", &["schema", "audit-report"]),
    ("docs/names.md", &["schema", "names"]),
    ("docs/cli.md", &["schema", "cli"]),
    ("docs/lints.md", &["schema", "lints"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    /// Compare and change nothing.
    Check,
    /// The same with the binary that tests have just been run with: built alone it has other features, and so has half of what it depends on.
    CheckAsTested,
}

pub(crate) fn run(mode: Mode) -> Result<()> {
    let root = root()?;
    let mut stale = Vec::new();
    if mode != Mode::CheckAsTested {
        // Built once: asking cargo for each file takes longer than all of them.
        output(&root, "cargo", &["build", "--quiet", "--package", "palisade", "--bin", "palisade"])?;
    }
    let palisade = std::env::current_exe().context("cannot find out where this program is")?.with_file_name("palisade");
    let palisade = palisade.to_str().with_context(|| format!("`{}` is not text", palisade.display()))?;
    let printed = GENERATED.iter().map(|(path, arguments)| (*path, generate(&root, palisade, arguments)));
    let made = CRDS.iter().map(|(path, make)| (*path, make()));
    for (path, fresh) in printed.chain(made) {
        let fresh = fresh?;
        let committed = std::fs::read_to_string(root.join(path)).ok();
        let Some(difference) = difference(committed.as_deref(), &fresh) else { continue };
        match mode {
            Mode::Write => {
                write(&root.join(path), &fresh)?;
                println!("{path}: written ({difference})");
            }
            Mode::Check | Mode::CheckAsTested => stale.push(format!("{path}: {difference}")),
        }
    }
    if !stale.is_empty() {
        bail!("generated files are not what the binary says; refresh with `cargo xtask codegen`\n{}", stale.join("\n"));
    }
    Ok(())
}

fn generate(root: &Path, palisade: &str, arguments: &[&str]) -> Result<String> {
    let text = output(root, palisade, arguments)?;
    if text.trim().is_empty() {
        bail!("`palisade {}` printed nothing", arguments.join(" "));
    }
    Ok(format!("{}\n", text.trim_end()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// How the committed text differs, in a few words; none if it does not.
fn difference(committed: Option<&str>, fresh: &str) -> Option<String> {
    let Some(committed) = committed else { return Some("is missing".to_owned()) };
    if committed == fresh {
        return None;
    }
    let same = committed.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count();
    Some(format!("differs from line {} on", same + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_fresh_missing_or_different() {
        assert_eq!(difference(Some("a\nb\n"), "a\nb\n"), None);
        assert_eq!(difference(None, "a\n").as_deref(), Some("is missing"));
        assert_eq!(difference(Some("a\nb\n"), "a\nc\n").as_deref(), Some("differs from line 2 on"));
        assert_eq!(difference(Some("a\n"), "a\nb\n").as_deref(), Some("differs from line 2 on"));
        assert_eq!(difference(Some("a"), "a\n").as_deref(), Some("differs from line 2 on"));
    }

    #[test]
    fn writing_makes_the_folders_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docs/schema/x.json");
        write(&path, "{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "{}\n");
    }
}
