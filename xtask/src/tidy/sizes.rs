//! Lengths of files. Clippy limits the lengths of functions (`too-many-lines-threshold`).

use super::Finding;
use super::config::{self, Exception, Sizes};
use crate::workspace::Tree;

pub(super) fn check(tree: &Tree, sizes: &Sizes) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines = text.lines().count();
        match sizes.exceptions.iter().find(|it| it.path == path).map(|it| it.lines) {
            Some(allowed) if lines > allowed => {
                findings.push(Finding::new(path, 1, format!("this file has {lines} lines and grew over its exception of {allowed}")));
            }
            None if lines > sizes.file => {
                findings.push(Finding::new(path, 1, format!("this file has {lines} lines, at most {} are allowed", sizes.file)));
            }
            Some(_) | None => {}
        }
    }
    for exception in &sizes.exceptions {
        if let Some(message) = stale(sizes, exception, tree.text(&exception.path).map(|text| text.lines().count())) {
            findings.push(Finding::new(config::PATH, tree.line_of(config::PATH, &exception.path), message));
        }
    }
    findings
}

/// Why an exception must shrink or go, if it must.
fn stale(sizes: &Sizes, exception: &Exception, lines: Option<usize>) -> Option<String> {
    let name = &exception.path;
    match lines {
        None => Some(format!("the exception for `{name}` is for nothing that exists: remove it")),
        Some(lines) if lines <= sizes.file => Some(format!("the exception for `{name}` is no longer needed: remove it")),
        Some(lines) if lines < exception.lines => {
            Some(format!("the exception for `{name}` allows {} lines but {lines} are there: lower it", exception.lines))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tree(source: &str, exceptions: Vec<Exception>, expect: &[&str]) {
        let sizes = Sizes { file: 6, exceptions };
        let tree = Tree::fixture(&[("a.rs", source), (config::PATH, "x\npath = \"a.rs\"\n")]);
        assert_eq!(super::super::lines(&check(&tree, &sizes)), expect);
    }

    fn exception(path: &str, lines: usize) -> Exception {
        toml::from_str(&format!("path = \"{path}\"\nlines = {lines}\nreason = \"a table\"\n")).unwrap()
    }

    #[test]
    fn what_is_too_long_is_found() {
        check_tree("\n\n\n\n\n\n\n", vec![], &["a.rs:1: this file has 7 lines, at most 6 are allowed"]);
        check_tree("\n\n\n\n\n\n", vec![], &[]);
    }

    #[test]
    fn an_exception_allows_exactly_what_is_there() {
        check_tree("\n\n\n\n\n\n\n", vec![exception("a.rs", 7)], &[]);
        check_tree("\n\n\n\n\n\n\n\n", vec![exception("a.rs", 7)], &["a.rs:1: this file has 8 lines and grew over its exception of 7"]);
    }

    #[test]
    fn an_exception_may_only_shrink() {
        check_tree("\n", vec![exception("a.rs", 7)], &["xtask/layers.toml:2: the exception for `a.rs` is no longer needed: remove it"]);
        check_tree(
            "\n\n\n\n\n\n\n",
            vec![exception("a.rs", 9)],
            &["xtask/layers.toml:2: the exception for `a.rs` allows 9 lines but 7 are there: lower it"],
        );
        check_tree(
            "\n",
            vec![exception("gone.rs", 9)],
            &["xtask/layers.toml:1: the exception for `gone.rs` is for nothing that exists: remove it"],
        );
    }
}
