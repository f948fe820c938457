//! Pure crates: nothing in them reaches the world, by way of a dependency or by the standard library.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::Finding;
use super::config::{Config, Purity, stands_for};
use super::lexer::{Tokens, lex};
use super::orphans::{Role, reach};
use crate::workspace::{Tree, Workspace, output};

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

pub(super) fn check_sources(tree: &Tree, workspace: &Workspace, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        if !config.crates.get(&package.name).is_some_and(|entry| entry.pure) {
            continue;
        }
        for (path, role) in reach(tree, package) {
            if role == Role::Product
                && let Some(text) = tree.text(&path)
            {
                let tokens = lex(text).without_tests();
                findings.extend(impurities(&tokens, &config.purity).into_iter().map(|(line, what)| {
                    let message = format!("`{what}` in a pure crate: what it needs from the world is an argument");
                    Finding::new(&path, line, message)
                }));
            }
        }
    }
    findings
}

/// Lines, and what they name that they should not.
fn impurities(tokens: &Tokens<'_>, purity: &Purity) -> BTreeSet<(usize, String)> {
    let paths = paths(tokens);
    let mut found: BTreeSet<(usize, String)> = paths
        .into_iter()
        .filter(|(_, path)| purity.paths.iter().any(|pattern| names(path, pattern)))
        .map(|(line, path)| (line, path.join("::")))
        .collect();
    for at in 0..tokens.len() {
        let called = is_macro_call(tokens, at);
        if called && purity.macros.iter().any(|name| name == tokens.text(at)) {
            found.insert((tokens.line(at), format!("{}!", tokens.text(at))));
        }
    }
    found
}

/// `name!(`, with any bracket.
pub(super) fn is_macro_call(tokens: &Tokens<'_>, at: usize) -> bool {
    tokens.is_word(at) && tokens.text(at + 1) == "!" && matches!(tokens.text(at + 2), "(" | "[" | "{")
}

/// Whether a path leads to, into or, with a star at its end, over what a pattern forbids.
fn names(path: &[&str], pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split("::").collect();
    if let Some((&"*", above)) = path.split_last()
        && above.len() < parts.len()
    {
        return parts.starts_with(above);
    }
    path.len() >= parts.len() && parts.iter().zip(path).all(|(part, segment)| stands_for(part, segment))
}

type Located<'a> = (usize, Vec<&'a str>);

/// Every path of two or more segments, with what `use` made of its first one undone.
fn paths<'a>(tokens: &Tokens<'a>) -> Vec<Located<'a>> {
    let mut found = Vec::new();
    let mut plain: Vec<Located<'a>> = Vec::new();
    let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens.text(at) == "use" {
            let mut leaves = Vec::new();
            at = use_tree(tokens, at + 1, &[], &mut leaves);
            for (line, path, name) in leaves {
                aliases.insert(name, path.clone());
                found.push((line, path));
            }
        } else if tokens.is_word(at) && tokens.text(at + 1) == "::" {
            let line = tokens.line(at);
            let mut path = vec![tokens.text(at)];
            while tokens.text(at + 1) == "::" && tokens.is_word(at + 2) {
                at += 2;
                path.push(tokens.text(at));
            }
            plain.push((line, path));
            at += 1;
        } else {
            at += 1;
        }
    }
    found.extend(plain.into_iter().map(|(line, path)| {
        let known = path.split_first().and_then(|(first, rest)| Some((aliases.get(first)?, rest)));
        (line, known.map_or_else(|| path.clone(), |(prefix, rest)| prefix.iter().chain(rest).copied().collect()))
    }));
    for (_, path) in &mut found {
        // What `core` and `alloc` have, `std` has under the same path.
        if let Some(first) = path.first_mut()
            && matches!(*first, "core" | "alloc")
        {
            *first = "std";
        }
    }
    found
}

/// Reads one tree of a `use` declaration from `at` on, collects line, full path and local name of its leaves, and gives the
/// position after the tree.
fn use_tree<'a>(tokens: &Tokens<'a>, mut at: usize, prefix: &[&'a str], leaves: &mut Vec<(usize, Vec<&'a str>, &'a str)>) -> usize {
    let mut path = prefix.to_vec();
    let line = tokens.line(at);
    loop {
        let text = tokens.text(at);
        match text {
            "::" => at += 1,
            "{" => {
                let close = tokens.closing(at);
                at += 1;
                while at < close {
                    at = use_tree(tokens, at, &path, leaves);
                    if tokens.text(at) == "," {
                        at += 1;
                    }
                }
                return close + 1;
            }
            "*" => {
                path.push(text);
                leaves.push((line, path, text));
                return at + 1;
            }
            "self" if !path.is_empty() => at += 1,
            _ if tokens.is_word(at) && text != "as" => {
                path.push(text);
                at += 1;
            }
            _ => break,
        }
    }
    let renamed = (tokens.text(at) == "as").then(|| tokens.text(at + 1));
    let name = renamed.or(path.last().copied()).unwrap_or_default();
    let end = if renamed.is_some() { at + 2 } else { at };
    leaves.push((line, path, name));
    // Whatever this is, reading must go on.
    if end == at && !matches!(tokens.text(at), "," | ";" | "}") { at + 1 } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expect: &[&str]) {
        let purity = Config::fixture().purity;
        let found: Vec<String> =
            impurities(&lex(source).without_tests(), &purity).into_iter().map(|(line, what)| format!("{line} {what}")).collect();
        assert_eq!(found, expect, "{source}");
    }

    #[test]
    fn a_denied_dependency_is_found_through_others() {
        let tree = "low v0.1.0 (/w/crates/low)\nserde v1.0.0\ntokio-util v0.7.0\nserde v1.0.0 (*)\nlogos v1.0.0\n";
        let closure = Closure::parse("crates/low/Cargo.toml", "low", tree);
        assert_eq!(
            super::super::lines(&check_crates(&[closure], &Config::fixture())),
            ["crates/low/Cargo.toml:1: `low` is pure but is built with `tokio-util`; see `cargo tree -e normal -p low -i tokio-util`"]
        );
    }

    #[test]
    fn paths_are_found_however_they_are_written() {
        check("fn f() {\n std::fs::read(x);\n}", &["2 std::fs::read"]);
        check("fn f() { ::std::fs::read(x); }", &["1 std::fs::read"]);
        check("use std::fs;\nfn f() { fs::read(x); }", &["1 std::fs", "2 std::fs::read"]);
        check("use std::time as clock;\nfn f() { clock::Instant::now(); }", &["2 std::time::Instant::now"]);
        check("use std::{fmt, time::{self, Duration, Instant}};", &["1 std::time::Instant"]);
        check("use std::{\n fs::{self, File},\n};", &["2 std::fs", "2 std::fs::File"]);
        check("use std::time::*;", &["1 std::time::*"]);
        check("use std::fs::*;", &["1 std::fs::*"]);
        check("use std::net::{IpAddr, TcpStream};", &["1 std::net::TcpStream"]);
        check("fn f(x: std::net::TcpListener) {}", &["1 std::net::TcpListener"]);
        check("use core::time::Instant;", &["1 std::time::Instant"]);
    }

    #[test]
    fn macros_are_found() {
        check("fn f() {\n println!(\"x\") }", &["2 println!"]);
        check("fn println() {} fn g() -> bool { println != 1 }", &[]);
    }

    #[test]
    fn what_is_harmless_is_left_alone() {
        check("use std::time::Duration;\nuse std::net::IpAddr;\nuse std::fmt::*;", &[]);
        check("// std::fs::read\n/// println!(\"x\")\nfn f() { g(\"std::fs::read\") }", &[]);
        check("#[cfg(test)]\nmod tests { use std::fs; fn f() { println!(\"x\") } }", &[]);
        check("use crate::fs;\nfn f() { fs::read(); self::fs::x(); crate::std_fs::y() }", &[]);
        check("use<'a> std", &[]);
    }

    #[test]
    fn only_the_product_of_pure_crates_is_held() {
        let source = "use std::fs;\n";
        let files = [
            ("crates/low/src/lib.rs", "use std::fs;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/low/src/tests.rs", source),
            ("crates/low/tests/it.rs", source),
            ("crates/high/src/lib.rs", source),
        ];
        let workspace = Workspace::fixture(
            r#"{"packages": [
            {"name": "low", "manifest_path": "/w/crates/low/Cargo.toml", "dependencies": [], "targets": [
                {"kind": ["lib"], "src_path": "/w/crates/low/src/lib.rs"},
                {"kind": ["test"], "src_path": "/w/crates/low/tests/it.rs"}]},
            {"name": "high", "manifest_path": "/w/crates/high/Cargo.toml", "dependencies": [], "targets": [
                {"kind": ["lib"], "src_path": "/w/crates/high/src/lib.rs"}]}]}"#,
        );
        assert_eq!(
            super::super::lines(&check_sources(&Tree::fixture(&files), &workspace, &Config::fixture())),
            ["crates/low/src/lib.rs:1: `std::fs` in a pure crate: what it needs from the world is an argument"]
        );
    }
}
