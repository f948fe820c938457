//! The shape of things: what every crate, scenario and page has.

use std::collections::BTreeMap;

use super::Finding;
use super::config::Config;
use crate::workspace::{Package, Tree, Workspace};

const CLIPPY: &str = "clippy.toml";
const PURE_CLIPPY: &str = "clippy-pure.toml";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const ARCHITECTURE_LINES: usize = 200;
const SCENARIOS: &str = "scenarios/";
const SCENARIO_FILES: [&str; 2] = ["cluster.yaml", "expect.txt"];

pub(super) fn check(tree: &Tree, workspace: &Workspace, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        findings.extend(module_docs(tree, package));
        findings.extend(workspace_lints(tree, package));
        findings.extend(own_clippy(tree, package, config));
    }
    findings.extend(clippy_keys(tree));
    findings.extend(architecture(tree));
    findings.extend(scenarios(tree));
    findings
}

fn module_docs(tree: &Tree, package: &Package) -> Vec<Finding> {
    let documented = ["lib", "bin", "proc-macro"];
    package
        .targets
        .iter()
        .filter(|target| target.kind.iter().any(|kind| documented.contains(&kind.as_str())))
        .filter(|target| tree.text(&target.src_path).is_some_and(|text| !text.starts_with("//! ")))
        .map(|target| Finding::new(&target.src_path, 1, "begin with `//!`: what this crate is, and what it is not"))
        .collect()
}

fn workspace_lints(tree: &Tree, package: &Package) -> Option<Finding> {
    let manifest: toml::Table = tree.text(&package.manifest_path)?.parse().ok()?;
    let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    let message = "the lints of the workspace are missing: `[lints] workspace = true`";
    (inherited != Some(true)).then(|| Finding::new(&package.manifest_path, 1, message))
}

/// Clippy takes the nearest `clippy.toml` and does not merge, so the file of pure crates must repeat the root's keys.
fn clippy_keys(tree: &Tree) -> Vec<Finding> {
    let read = |path| tree.text(path).and_then(|text| text.parse::<toml::Table>().ok());
    let (Some(root), Some(pure)) = (read(CLIPPY), read(PURE_CLIPPY)) else {
        return vec![Finding::new(PURE_CLIPPY, 1, format!("`{PURE_CLIPPY}` or `{CLIPPY}` is missing, or not TOML"))];
    };
    root.iter()
        .filter(|(key, value)| pure.get(*key) != Some(value))
        .map(|(key, _)| {
            let message = format!("does not repeat `{key}` of the root's, which it replaces");
            Finding::new(PURE_CLIPPY, tree.line_of(PURE_CLIPPY, key), message)
        })
        .collect()
}

/// The `clippy.toml` of a pure crate is a link to the one for all of them. Other crates have none and use the root's.
fn own_clippy(tree: &Tree, package: &Package, config: &Config) -> Option<Finding> {
    let path = format!("{}/{CLIPPY}", package.folder());
    let pure = config.crates.get(&package.name).is_some_and(|entry| entry.pure);
    match (pure, tree.text(&path)) {
        (true, text) if text != tree.text(PURE_CLIPPY) => {
            Some(Finding::new(&path, 1, format!("a pure crate has a link here: `ln -s ../../{PURE_CLIPPY} {path}`")))
        }
        (false, Some(_)) => Some(Finding::new(&path, 1, format!("only pure crates have one; others use the root's `{CLIPPY}`"))),
        (true | false, _) => None,
    }
}

fn architecture(tree: &Tree) -> Option<Finding> {
    let lines = tree.text(ARCHITECTURE)?.lines().count();
    (lines > ARCHITECTURE_LINES).then(|| {
        let message = format!("{lines} lines, at most {ARCHITECTURE_LINES} are read: move detail to where it belongs");
        Finding::new(ARCHITECTURE, ARCHITECTURE_LINES + 1, message)
    })
}

fn scenarios(tree: &Tree) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in tree.files.keys() {
        if let Some((folder, file)) = path.strip_prefix(SCENARIOS).and_then(|path| path.split_once('/')) {
            folders.entry(folder).or_default().push(file);
        }
    }
    let mut findings = Vec::new();
    for (folder, files) in folders {
        for file in SCENARIO_FILES {
            if !files.contains(&file) {
                let path = format!("{SCENARIOS}{folder}/{file}");
                findings.push(Finding::new(&path, 1, "missing: a scenario has `cluster.yaml` and `expect.txt`"));
            }
        }
        if !is_slug(folder) {
            let path = format!("{SCENARIOS}{folder}");
            let message = "a scenario is named by its rule, in lower case letters and digits with single dashes";
            findings.push(Finding::new(&path, 1, message));
        }
    }
    findings
}

fn is_slug(name: &str) -> bool {
    name.split('-')
        .all(|word| !word.is_empty() && word.chars().all(|character| character.is_ascii_lowercase() || character.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Crates `low` and `twin`, both pure, and `high`, in which nothing is wrong but what `files` says.
    fn check_files(files: &[(&str, &str)], expect: &[&str]) {
        let good = [
            (CLIPPY, "a = true\n"),
            (PURE_CLIPPY, "a = true\nb = 1\n"),
            ("crates/low/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/low/clippy.toml", "a = true\nb = 1\n"),
            ("crates/low/src/lib.rs", "//! Low.\n"),
            ("crates/twin/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/twin/clippy.toml", "a = true\nb = 1\n"),
            ("crates/twin/src/lib.rs", "//! Twin.\n"),
            ("crates/high/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/high/src/lib.rs", "//! High.\n"),
        ];
        let mut tree = Tree::fixture(&good);
        for (path, text) in files {
            match *text {
                "" => tree.files.remove(*path),
                text => tree.files.insert((*path).to_owned(), text.to_owned()),
            };
        }
        let package = |name| {
            format!(
                r#"{{"name": "{name}", "manifest_path": "/w/crates/{name}/Cargo.toml", "dependencies": [],
                "targets": [{{"kind": ["lib"], "src_path": "/w/crates/{name}/src/lib.rs"}}]}}"#
            )
        };
        let workspace = Workspace::fixture(&format!(r#"{{"packages": [{}]}}"#, ["low", "twin", "high"].map(package).join(",")));
        assert_eq!(super::super::lines(&check(&tree, &workspace, &Config::fixture())), expect);
    }

    #[test]
    fn a_crate_without_module_doc_is_found() {
        check_files(&[], &[]);
        check_files(
            &[("crates/low/src/lib.rs", "// Low.\n")],
            &["crates/low/src/lib.rs:1: begin with `//!`: what this crate is, and what it is not"],
        );
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_found() {
        let expect = "crates/low/Cargo.toml:1: the lints of the workspace are missing: `[lints] workspace = true`";
        check_files(&[("crates/low/Cargo.toml", "[package]\n")], &[expect]);
        check_files(&[("crates/low/Cargo.toml", "[lints]\nworkspace = false\n")], &[expect]);
    }

    #[test]
    fn a_clippy_toml_that_loses_a_key_is_found() {
        let text = "a = false\nb = 1\n";
        check_files(
            &[(PURE_CLIPPY, text), ("crates/low/clippy.toml", text), ("crates/twin/clippy.toml", text)],
            &["clippy-pure.toml:1: does not repeat `a` of the root's, which it replaces"],
        );
        check_files(&[(CLIPPY, "")], &["clippy-pure.toml:1: `clippy-pure.toml` or `clippy.toml` is missing, or not TOML"]);
    }

    #[test]
    fn a_crate_with_the_wrong_clippy_toml_is_found() {
        let expect = "crates/twin/clippy.toml:1: a pure crate has a link here: `ln -s ../../clippy-pure.toml crates/twin/clippy.toml`";
        check_files(&[("crates/twin/clippy.toml", "a = true\n")], &[expect]);
        check_files(&[("crates/twin/clippy.toml", "")], &[expect]);
        let expect = "crates/high/clippy.toml:1: only pure crates have one; others use the root's `clippy.toml`";
        check_files(&[("crates/high/clippy.toml", "a = true\nb = 1\n")], &[expect]);
    }

    #[test]
    fn a_long_architecture_page_is_found() {
        check_files(&[(ARCHITECTURE, &"x\n".repeat(200))], &[]);
        check_files(
            &[(ARCHITECTURE, &"x\n".repeat(201))],
            &["ARCHITECTURE.md:201: 201 lines, at most 200 are read: move detail to where it belongs"],
        );
    }

    #[test]
    fn a_scenario_without_its_files_or_a_good_name_is_found() {
        check_files(
            &[
                ("scenarios/README.md", "x\n"),
                ("scenarios/deny-wins/cluster.yaml", "x\n"),
                ("scenarios/deny-wins/expect.txt", "x\n"),
                ("scenarios/half/cluster.yaml", "x\n"),
                ("scenarios/Case_7/cluster.yaml", "x\n"),
                ("scenarios/Case_7/expect.txt", "x\n"),
            ],
            &[
                "scenarios/Case_7:1: a scenario is named by its rule, in lower case letters and digits with single dashes",
                "scenarios/half/expect.txt:1: missing: a scenario has `cluster.yaml` and `expect.txt`",
            ],
        );
    }
}
