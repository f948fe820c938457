//! The text of files: space, ends of lines, and attributes that tests must not have.

use super::Finding;
use crate::workspace::Tree;

const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".yaml", ".yml"];
const ATTRIBUTES: [&str; 2] = ["ignore", "should_panic"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let spaces = ENDINGS.iter().flat_map(|ending| tree.ending(ending)).flat_map(|(path, text)| spaces(path, text));
    let attributes = tree.ending(".rs").flat_map(|(path, text)| attributes(path, text));
    spaces.chain(attributes).collect()
}

fn spaces(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        if line.ends_with(char::is_whitespace) {
            findings.push(Finding::new(path, index + 1, "trailing whitespace"));
        }
        if line.contains('\t') {
            findings.push(Finding::new(path, index + 1, "a tab: use spaces"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::new(path, text.lines().count(), "no newline at the end of the file"));
    }
    findings
}

/// Attributes that keep a test from running or from saying what it expects, alone or by `cfg_attr`. rustfmt puts each on a line of its own.
fn attributes(path: &str, text: &str) -> Vec<Finding> {
    let forbidden = |line: &str| {
        let body = line.trim_start().strip_prefix("#[")?;
        let is = |name: &&str| body.starts_with(name) || (body.starts_with("cfg_attr(") && body.contains(&format!(", {name}")));
        ATTRIBUTES.into_iter().find(is)
    };
    let found = (1..).zip(text.lines()).filter_map(|(at, line)| Some((at, forbidden(line)?)));
    found
        .map(|(at, name)| Finding::new(path, at, format!("`#[{name}]`: a test runs and says what it expects, or it is not there")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_file(path: &str, text: &str, expect: &[&str]) {
        let findings = check(&Tree::fixture(&[(path, text)]));
        assert_eq!(super::super::lines(&findings), expect);
    }

    #[test]
    fn space_at_the_end_of_a_line_is_found() {
        check_file("a.md", "x\ny \n", &["a.md:2: trailing whitespace"]);
        check_file("a.yaml", "x\r\n", &["a.yaml:1: trailing whitespace"]);
    }

    #[test]
    fn tabs_are_found() {
        check_file("a.toml", "x\ty\n", &["a.toml:1: a tab: use spaces"]);
        check_file("Makefile", "x:\n\ty\n", &[]);
    }

    #[test]
    fn a_missing_newline_at_the_end_is_found() {
        check_file("a.yml", "x\ny", &["a.yml:2: no newline at the end of the file"]);
        check_file("a.rs", "", &[]);
    }

    #[test]
    fn tests_that_do_not_run_are_found() {
        let tail = "a test runs and says what it expects, or it is not there";
        check_file("a.rs", "#[test]\n#[ignore]\nfn a() {}\n", &[&format!("a.rs:2: `#[ignore]`: {tail}")]);
        check_file("a.rs", "#[ignore = \"slow\"]\nfn a() {}\n", &[&format!("a.rs:1: `#[ignore]`: {tail}")]);
        check_file("a.rs", "#[should_panic]\nfn a() {}\n", &[&format!("a.rs:1: `#[should_panic]`: {tail}")]);
        check_file("a.rs", "#[cfg_attr(unix, ignore)]\nfn a() {}\n", &[&format!("a.rs:1: `#[ignore]`: {tail}")]);
        check_file("a.rs", "#[arg(ignore)]\nfn ignore() {}\n", &[]);
    }
}
