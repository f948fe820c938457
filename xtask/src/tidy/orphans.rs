//! Which files cargo compiles: `mod` declarations followed from the root of every target.
//!
//! A `.rs` file that nothing reaches is a test that never runs, or code that no longer type-checks. Also answers which files only
//! tests see, for the rules that hold for the product alone.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::lexer::{Attribute, Tokens, lex};
use crate::workspace::{Package, Tree, Workspace, parent};

/// Whether a file is part of what users run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Product,
    /// Tests, benchmarks, examples and build scripts.
    Aside,
}

/// A file to look into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    path: String,
    role: Role,
    /// Where the files of its modules are.
    folder: String,
}

pub(super) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let reached: BTreeSet<String> = workspace.packages.iter().flat_map(|package| reach(tree, package).into_keys()).collect();
    tree.ending(".rs")
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| Finding::new(path, 1, "no target compiles this file: declare it with `mod`, or delete it"))
        .collect()
}

/// The files of a package, from all its targets. A file that is both is product.
pub(super) fn reach(tree: &Tree, package: &Package) -> BTreeMap<String, Role> {
    let mut steps: Vec<Step> = package
        .targets
        .iter()
        .map(|target| {
            let aside = ["test", "bench", "example", "custom-build"];
            let is_aside = target.kind.iter().any(|kind| aside.contains(&kind.as_str()));
            let role = if is_aside { Role::Aside } else { Role::Product };
            Step { path: target.src_path.clone(), role, folder: parent(&target.src_path).to_owned() }
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut roles = BTreeMap::new();
    while let Some(step) = steps.pop() {
        let Some(text) = tree.text(&step.path) else { continue };
        if !seen.insert(step.clone()) {
            continue;
        }
        let role = roles.entry(step.path.clone()).or_insert(step.role);
        *role = step.role.min(*role);
        steps.extend(modules(tree, &step, &lex(text)));
    }
    roles
}

/// An inline module that is open while its tokens are read.
#[derive(Debug)]
struct Inline {
    folder: String,
    role: Role,
    close: usize,
}

fn modules(tree: &Tree, step: &Step, tokens: &Tokens<'_>) -> Vec<Step> {
    let mut found = Vec::new();
    let mut inline: Vec<Inline> = Vec::new();
    let mut attributes: Vec<Attribute> = Vec::new();
    let mut file_role = step.role;
    let mut at = 0;
    while at < tokens.len() {
        while inline.last().is_some_and(|open| at >= open.close) {
            inline.pop();
        }
        if let Some(attribute) = tokens.attribute(at) {
            at = attribute.end;
            if attribute.inner && inline.is_empty() && tokens.is_for_tests(&attribute) {
                file_role = Role::Aside;
            }
            attributes.push(attribute);
            continue;
        }
        if tokens.text(at) == "pub" {
            at = if tokens.text(at + 1) == "(" { tokens.closing(at + 1) + 1 } else { at + 1 };
            continue;
        }
        let (role, folder) = match inline.last() {
            Some(open) => (open.role.max(file_role), open.folder.clone()),
            None => (file_role, step.folder.clone()),
        };
        if tokens.text(at) == "mod" && tokens.is_word(at + 1) {
            let for_tests = attributes.iter().any(|attribute| tokens.is_for_tests(attribute));
            let role = if for_tests { Role::Aside } else { role };
            let name = tokens.text(at + 1);
            let name = name.strip_prefix("r#").unwrap_or(name);
            let named = attributes.iter().find_map(|attribute| path_in(tokens, attribute));
            match tokens.text(at + 2) {
                "{" => inline.push(Inline { folder: join(&folder, named.unwrap_or(name)), role, close: tokens.closing(at + 2) }),
                _ => match named {
                    // Beside the file itself; inside an inline module, in that module's folder.
                    Some(path) if inline.is_empty() => found.push(included(parent(&step.path), path, role)),
                    Some(path) => found.push(included(&folder, path, role)),
                    None => found.extend(declared(tree, &folder, name, role)),
                },
            }
            at += 2;
        } else if tokens.text(at) == "include"
            && tokens.text(at + 1) == "!"
            && let Some(path) = tokens.string(at + 3)
        {
            found.push(included(parent(&step.path), path, role));
        }
        attributes.clear();
        at += 1;
    }
    found
}

/// `mod name;`: `name.rs`, or `name/mod.rs`.
fn declared(tree: &Tree, folder: &str, name: &str, role: Role) -> Option<Step> {
    let inner = join(folder, name);
    [format!("{inner}.rs"), format!("{inner}/mod.rs")].into_iter().find(|path| tree.text(path).is_some()).map(|path| Step {
        path,
        role,
        folder: inner,
    })
}

/// `#[path = "…"] mod name;` or `include!("…")`: modules of such a file are searched beside it.
fn included(folder: &str, path: &str, role: Role) -> Step {
    let path = join(folder, path);
    let folder = parent(&path).to_owned();
    Step { path, role, folder }
}

/// The value of `path = "…"`, also inside of `cfg_attr`.
fn path_in<'a>(tokens: &Tokens<'a>, attribute: &Attribute) -> Option<&'a str> {
    let mut positions = attribute.body.clone();
    positions.find(|at| tokens.text(*at) == "path" && tokens.text(at + 1) == "=").and_then(|at| tokens.string(at + 2))
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

    /// Files in the order of their paths, `-` before those that are aside.
    fn check_reach(targets: &[(&str, &str)], files: &[(&str, &str)], expect: &str) {
        let reached = reach(&Tree::fixture(files), &package(targets).packages[0]);
        let words: Vec<String> =
            reached.into_iter().map(|(path, role)| format!("{}{path}", if role == Role::Aside { "-" } else { "" })).collect();
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn a_file_that_nothing_declares_is_an_orphan() {
        let files = [("a/src/lib.rs", "// mod lost;\nmod kept;\n"), ("a/src/kept.rs", ""), ("a/src/lost.rs", "")];
        let findings = check(&Tree::fixture(&files), &package(&[("lib", "a/src/lib.rs")]));
        assert_eq!(super::super::lines(&findings), ["a/src/lost.rs:1: no target compiles this file: declare it with `mod`, or delete it"]);
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
                ("a/src/lib.rs", "mod x { mod y; } mod z; include!(\"table.rs\");"),
                ("a/src/x/y.rs", ""),
                ("a/src/z.rs", "#[path = \"../odd/w.rs\"] mod w; mod v { #[path = \"u.rs\"] mod u; } mod after;"),
                ("a/odd/w.rs", "mod beside;"),
                ("a/odd/beside.rs", ""),
                ("a/src/z/v/u.rs", ""),
                ("a/src/z/after.rs", ""),
                ("a/src/table.rs", ""),
            ],
            "a/odd/beside.rs a/odd/w.rs a/src/lib.rs a/src/table.rs a/src/x/y.rs a/src/z.rs a/src/z/after.rs a/src/z/v/u.rs",
        );
    }

    #[test]
    fn what_only_tests_see_is_aside() {
        check_reach(
            &[("lib", "a/src/lib.rs"), ("test", "a/tests/it.rs"), ("custom-build", "a/build.rs")],
            &[
                ("a/src/lib.rs", "#[cfg(test)] mod tests; mod both; #[cfg(test)] mod inner { mod deep; } mod whole;"),
                ("a/src/tests.rs", "mod more; #[path = \"both.rs\"] mod both;"),
                ("a/src/tests/more.rs", ""),
                ("a/src/both.rs", ""),
                ("a/src/inner/deep.rs", ""),
                ("a/src/whole.rs", "#![cfg(test)] mod part;"),
                ("a/src/whole/part.rs", ""),
                ("a/tests/it.rs", "mod common;"),
                ("a/tests/common/mod.rs", ""),
                ("a/build.rs", ""),
            ],
            "-a/build.rs a/src/both.rs -a/src/inner/deep.rs a/src/lib.rs -a/src/tests.rs -a/src/tests/more.rs \
             a/src/whole.rs -a/src/whole/part.rs -a/tests/common/mod.rs -a/tests/it.rs",
        );
    }
}
