//! Which files cargo compiles: `mod` declarations followed from the root of every target.
//!
//! A `.rs` file that nothing reaches is a test that never runs, or code that no longer type-checks.

use std::collections::BTreeSet;

use syn::ext::IdentExt;
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, MetaNameValue};

use super::Finding;
use crate::workspace::{Package, Tree, Workspace, parent};

/// A file to look into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    path: String,
    /// Where the files of its modules are.
    folder: String,
}

pub(super) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut findings = Vec::new();
    for package in &workspace.packages {
        findings.extend(reach(tree, package, &mut reached));
    }
    let orphans = tree.ending(".rs").filter(|(path, _)| !reached.contains(*path));
    findings.extend(orphans.map(|(path, _)| Finding::new(path, 1, "no target compiles this file: declare it with `mod`, or delete it")));
    findings
}

/// Adds the files of all targets of a package. A file that is not Rust is a finding, since its modules are unknown.
fn reach(tree: &Tree, package: &Package, reached: &mut BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut steps: Vec<Step> = package.targets.iter().map(|target| beside(&target.src_path)).collect();
    let mut seen = BTreeSet::new();
    while let Some(step) = steps.pop() {
        let Some(text) = tree.text(&step.path) else { continue };
        if !seen.insert(step.clone()) {
            continue;
        }
        match syn::parse_file(text) {
            Ok(file) => modules(tree, &file.items, parent(&step.path), &step.folder, &mut steps),
            Err(error) => findings.push(Finding::new(&step.path, 1, format!("not Rust: {error}"))),
        }
        reached.insert(step.path);
    }
    findings
}

/// Files of the modules among some items. A path in an attribute starts at `base`, other modules are in `folder`.
fn modules(tree: &Tree, items: &[Item], base: &str, folder: &str, steps: &mut Vec<Step>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.unraw().to_string();
        match (&module.content, module.attrs.iter().find_map(path_in)) {
            (Some((_, items)), path) => {
                let inner = join(folder, &path.unwrap_or(name));
                modules(tree, items, &inner, &inner, steps);
            }
            (None, Some(path)) => steps.push(beside(&join(base, &path))),
            (None, None) => {
                let inner = join(folder, &name);
                let files = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                steps.extend(files.into_iter().find(|path| tree.text(path).is_some()).map(|path| Step { path, folder: inner }));
            }
        }
    }
}

/// The root of a target, or the file of `#[path = "…"] mod name;`: its modules are searched beside it.
fn beside(path: &str) -> Step {
    Step { path: path.to_owned(), folder: parent(path).to_owned() }
}

/// The value of `#[path = "…"]`.
fn path_in(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(MetaNameValue { path, value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) = &attribute.meta else {
        return None;
    };
    path.is_ident("path").then(|| text.value())
}

fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(targets: &[(&str, &str)]) -> Workspace {
        let targets: Vec<String> =
            targets.iter().map(|(kind, path)| format!(r#"{{"kind": ["{kind}"], "src_path": "/w/{path}"}}"#)).collect();
        Workspace::fixture(&format!(
            r#"{{"packages": [{{"name": "a", "manifest_path": "/w/a/Cargo.toml", "dependencies": [], "targets": [{}]}}]}}"#,
            targets.join(",")
        ))
    }

    /// Files in the order of their paths.
    fn check_reach(targets: &[(&str, &str)], files: &[(&str, &str)], expect: &str) {
        let mut reached = BTreeSet::new();
        assert_eq!(reach(&Tree::fixture(files), &package(targets).packages[0], &mut reached), []);
        assert_eq!(Vec::from_iter(reached).join(" "), expect);
    }

    #[test]
    fn a_file_that_nothing_declares_is_an_orphan() {
        let files = [("a/src/lib.rs", "// mod lost;\nmod kept;\n"), ("a/src/kept.rs", ""), ("a/src/lost.rs", "")];
        let findings = check(&Tree::fixture(&files), &package(&[("lib", "a/src/lib.rs")]));
        assert_eq!(super::super::lines(&findings), ["a/src/lost.rs:1: no target compiles this file: declare it with `mod`, or delete it"]);
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_found() {
        let findings = check(&Tree::fixture(&[("a/src/lib.rs", "mod {")]), &package(&[("lib", "a/src/lib.rs")]));
        assert_eq!(super::super::lines(&findings), ["a/src/lib.rs:1: not Rust: cannot parse string into token stream"]);
    }

    #[test]
    fn modules_are_followed_into_their_folders() {
        check_reach(
            &[("lib", "a/src/lib.rs")],
            &[
                ("a/src/lib.rs", "pub mod x; pub(crate) mod y; mod r#in; mod gone;"),
                ("a/src/x.rs", "mod deep;"),
                ("a/src/x/deep.rs", ""),
                ("a/src/deep.rs", ""),
                ("a/src/y/mod.rs", "mod z;"),
                ("a/src/y/z.rs", ""),
                ("a/src/in.rs", ""),
            ],
            "a/src/in.rs a/src/lib.rs a/src/x.rs a/src/x/deep.rs a/src/y/mod.rs a/src/y/z.rs",
        );
    }

    #[test]
    fn inline_modules_and_paths_lead_elsewhere() {
        check_reach(
            &[("lib", "a/src/lib.rs")],
            &[
                ("a/src/lib.rs", "mod x { mod y; } mod z;"),
                ("a/src/x/y.rs", ""),
                ("a/src/z.rs", "#[path = \"../odd/w.rs\"] mod w; mod v { #[path = \"u.rs\"] mod u; } mod after;"),
                ("a/odd/w.rs", "mod beside;"),
                ("a/odd/beside.rs", ""),
                ("a/src/z/v/u.rs", ""),
                ("a/src/z/after.rs", ""),
            ],
            "a/odd/beside.rs a/odd/w.rs a/src/lib.rs a/src/x/y.rs a/src/z.rs a/src/z/after.rs a/src/z/v/u.rs",
        );
    }

    #[test]
    fn modules_of_tests_and_all_targets_are_followed() {
        check_reach(
            &[("lib", "a/src/lib.rs"), ("test", "a/tests/it.rs"), ("custom-build", "a/build.rs")],
            &[
                ("a/src/lib.rs", "#[cfg(test)] mod tests; mod both; #[cfg(test)] mod inner { mod deep; }"),
                ("a/src/tests.rs", "mod more; #[path = \"both.rs\"] mod both;"),
                ("a/src/tests/more.rs", ""),
                ("a/src/both.rs", ""),
                ("a/src/inner/deep.rs", ""),
                ("a/tests/it.rs", "mod common;"),
                ("a/tests/common/mod.rs", ""),
                ("a/build.rs", ""),
            ],
            "a/build.rs a/src/both.rs a/src/inner/deep.rs a/src/lib.rs a/src/tests.rs a/src/tests/more.rs a/tests/common/mod.rs a/tests/it.rs",
        );
    }
}
