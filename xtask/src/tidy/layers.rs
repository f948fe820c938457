//! The direction of dependencies: down, and never between twins.

use super::Finding;
use super::config::{self, Config, Layer};
use crate::workspace::{Dependency, Package, Tree, Workspace};

pub(super) fn check(tree: &Tree, workspace: &Workspace, config: &Config) -> Vec<Finding> {
    let mut findings = unlisted(tree, workspace, config);
    for package in &workspace.packages {
        for dependency in &package.dependencies {
            let message = against_direction(package, dependency, config)
                .or_else(|| twins(package, dependency, config).then(|| twins_message(package, dependency)));
            if let Some(message) = message {
                let line = tree.line_of(&package.manifest_path, &dependency.name);
                findings.push(Finding::new(&package.manifest_path, line, message));
            }
        }
    }
    findings
}

/// Members that the list does not know, and entries that are no members.
fn unlisted(tree: &Tree, workspace: &Workspace, config: &Config) -> Vec<Finding> {
    let members = workspace.packages.iter().filter(|package| !config.crates.contains_key(&package.name)).map(|package| {
        let message = format!("crate `{}` has no layer: give it a line in {}", package.name, config::PATH);
        Finding::new(&package.manifest_path, 1, message)
    });
    let entries = config.crates.keys().filter(|name| workspace.packages.iter().all(|package| package.name != **name)).map(|name| {
        let line = tree.line_of(config::PATH, &format!("{name} ="));
        Finding::new(config::PATH, line, format!("crate `{name}` is no member of the workspace: remove its line"))
    });
    members.chain(entries).collect()
}

fn against_direction(package: &Package, dependency: &Dependency, config: &Config) -> Option<String> {
    // Tests may reach up: a dev-dependency is not part of what is built.
    if dependency.kind.as_deref() == Some("dev") {
        return None;
    }
    let (name, used) = (&package.name, &dependency.name);
    match (config.crates.get(name)?.layer, config.crates.get(used)?.layer) {
        (Layer::Tool(_), _) => None,
        (Layer::Number(_), Layer::Tool(_)) => {
            Some(format!("`{name}` uses `{used}`, which is for tools and tests: make it a dev-dependency"))
        }
        (Layer::Number(own), Layer::Number(other)) if other < own => None,
        (Layer::Number(own), Layer::Number(other)) => {
            Some(format!("`{name}` (layer {own}) uses `{used}` (layer {other}): dependencies go to lower layers only"))
        }
    }
}

fn twins(package: &Package, dependency: &Dependency, config: &Config) -> bool {
    let (name, used) = (&package.name, &dependency.name);
    config.layers.apart.iter().any(|(a, b)| (a == name && b == used) || (a == used && b == name))
}

fn twins_message(package: &Package, dependency: &Dependency) -> String {
    format!("`{}` and `{}` must not depend on each other, not even in tests", package.name, dependency.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, dependency: &str, kind: &str, expect: &[&str]) {
        let others = ["low", "twin", "high", "tool"].into_iter().filter(|other| *other != name);
        let mut packages: Vec<String> = others.map(|other| package(other, "")).collect();
        packages.push(package(name, &format!(r#"{{"name": "{dependency}", "kind": {kind}}}"#)));
        let workspace = Workspace::fixture(&format!(r#"{{"packages": [{}]}}"#, packages.join(",")));
        let tree = Tree::fixture(&[(&format!("crates/{name}/Cargo.toml"), &format!("[dependencies]\n{dependency}\n"))]);
        assert_eq!(super::super::lines(&check(&tree, &workspace, &Config::fixture())), expect);
    }

    fn package(name: &str, dependency: &str) -> String {
        format!(r#"{{"name": "{name}", "manifest_path": "/w/crates/{name}/Cargo.toml", "dependencies": [{dependency}], "targets": []}}"#)
    }

    #[test]
    fn down_is_the_direction() {
        check_one("high", "low", "null", &[]);
        check_one("high", "serde", "null", &[]);
        check_one(
            "low",
            "high",
            "null",
            &["crates/low/Cargo.toml:2: `low` (layer 0) uses `high` (layer 1): dependencies go to lower layers only"],
        );
        check_one(
            "low",
            "twin",
            "\"build\"",
            &["crates/low/Cargo.toml:2: `low` (layer 0) uses `twin` (layer 0): dependencies go to lower layers only"],
        );
    }

    #[test]
    fn tools_use_anything_and_are_used_in_tests_only() {
        check_one("tool", "low", "null", &[]);
        check_one("low", "tool", "\"dev\"", &[]);
        check_one("low", "high", "\"dev\"", &[]);
        check_one(
            "low",
            "tool",
            "null",
            &["crates/low/Cargo.toml:2: `low` uses `tool`, which is for tools and tests: make it a dev-dependency"],
        );
    }

    #[test]
    fn twins_stay_apart_even_in_tests() {
        let expect = "crates/high/Cargo.toml:2: `high` and `tool` must not depend on each other, not even in tests";
        check_one("high", "tool", "\"dev\"", &[expect]);
    }

    #[test]
    fn the_list_and_the_members_are_the_same() {
        let workspace = Workspace::fixture(&format!(
            r#"{{"packages": [{}]}}"#,
            ["low", "twin", "high", "fresh"].map(|name| package(name, "")).join(",")
        ));
        let tree = Tree::fixture(&[(config::PATH, "[crates]\ntool = { layer = \"T\" }\n")]);
        assert_eq!(
            super::super::lines(&check(&tree, &workspace, &Config::fixture())),
            [
                "crates/fresh/Cargo.toml:1: crate `fresh` has no layer: give it a line in xtask/layers.toml",
                "xtask/layers.toml:2: crate `tool` is no member of the workspace: remove its line",
            ]
        );
    }
}
