//! The text of files: space, ends of lines, and words that must not stay in sources.

use super::Finding;
use super::lexer::{Attribute, Tokens, lex};
use super::purity::is_macro_call;
use crate::workspace::Tree;

const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".yaml", ".yml"];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const ATTRIBUTES: [&str; 2] = ["ignore", "should_panic"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let spaces = ENDINGS.iter().flat_map(|ending| tree.ending(ending)).flat_map(|(path, text)| spaces(path, text));
    let words = tree.ending(".rs").flat_map(|(path, text)| words(path, &lex(text)));
    spaces.chain(words).collect()
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

fn words(path: &str, tokens: &Tokens<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in 0..tokens.len() {
        if is_macro_call(tokens, at) && MACROS.contains(&tokens.text(at)) {
            let message = format!("`{}!` must not stay in sources", tokens.text(at));
            findings.push(Finding::new(path, tokens.line(at), message));
        }
        if let Some(attribute) = tokens.attribute(at)
            && let Some(name) = forbidden(tokens, &attribute)
        {
            let message = format!("`#[{name}]`: a test runs and says what it expects, or it is not there");
            findings.push(Finding::new(path, tokens.line(at), message));
        }
    }
    findings
}

/// The forbidden attribute that this is, or that it becomes under a condition.
fn forbidden<'a>(tokens: &Tokens<'a>, attribute: &Attribute) -> Option<&'a str> {
    let mut body = attribute.body.clone();
    let reach = if tokens.text(body.start) == "cfg_attr" { body.len() } else { 1 };
    body.by_ref().take(reach).map(|at| tokens.text(at)).find(|text| ATTRIBUTES.contains(text))
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
    fn macros_for_the_moment_are_found() {
        check_file("a.rs", "fn a() {\n    todo!()\n}\n", &["a.rs:2: `todo!` must not stay in sources"]);
        check_file("a.rs", "fn a() { dbg![1] }\n", &["a.rs:1: `dbg!` must not stay in sources"]);
        check_file("a.rs", "// todo!()\nfn a() { b(\"dbg!(1)\"); todo != 1; }\n", &[]);
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
