//! No file and no function grows without anybody noticing.

use super::Finding;
use super::config::{self, Exception, Sizes};
use super::lexer::{Tokens, lex};
use crate::workspace::Tree;

/// What is measured: a whole file, or one function of it.
#[derive(Debug)]
struct Measured<'a> {
    path: &'a str,
    function: Option<&'a str>,
    line: usize,
    lines: usize,
}

pub(super) fn check(tree: &Tree, sizes: &Sizes) -> Vec<Finding> {
    let all: Vec<Measured<'_>> = tree.ending(".rs").flat_map(|(path, text)| measure(path, text)).collect();
    let mut findings = Vec::new();
    for measured in &all {
        let exception = sizes.exceptions.iter().find(|exception| covers(exception, measured));
        if measured.lines > exception.map_or(limit(sizes, measured.function), |exception| exception.lines) {
            findings.push(too_long(sizes, measured, exception));
        }
    }
    for exception in &sizes.exceptions {
        let longest = all.iter().filter(|measured| covers(exception, measured)).map(|measured| measured.lines).max();
        if let Some(message) = stale(sizes, exception, longest) {
            findings.push(Finding::new(config::PATH, tree.line_of(config::PATH, &exception.path), message));
        }
    }
    findings
}

fn measure<'a>(path: &'a str, text: &'a str) -> Vec<Measured<'a>> {
    let mut all = vec![Measured { path, function: None, line: 1, lines: text.lines().count() }];
    all.extend(functions(&lex(text)).into_iter().map(|function| Measured {
        path,
        function: Some(function.name),
        line: function.line,
        lines: function.lines,
    }));
    all
}

fn limit(sizes: &Sizes, function: Option<&str>) -> usize {
    if function.is_some() { sizes.function } else { sizes.file }
}

fn covers(exception: &Exception, measured: &Measured<'_>) -> bool {
    exception.path == measured.path && exception.function.as_deref() == measured.function
}

fn too_long(sizes: &Sizes, measured: &Measured<'_>, exception: Option<&Exception>) -> Finding {
    let what = measured.function.map_or_else(|| "this file".to_owned(), |name| format!("function `{name}`"));
    let lines = measured.lines;
    let message = match exception {
        Some(exception) => {
            format!("{what} has {lines} lines and grew over its exception of {}", exception.lines)
        }
        None => format!("{what} has {lines} lines, at most {} are allowed", limit(sizes, measured.function)),
    };
    Finding::new(measured.path, measured.line, message)
}

/// Why an exception must shrink or go, if it must.
fn stale(sizes: &Sizes, exception: &Exception, longest: Option<usize>) -> Option<String> {
    let name = match &exception.function {
        Some(function) => format!("`{}` `{function}`", exception.path),
        None => format!("`{}`", exception.path),
    };
    match longest {
        None => Some(format!("the exception for {name} is for nothing that exists: remove it")),
        Some(lines) if lines <= limit(sizes, exception.function.as_deref()) => {
            Some(format!("the exception for {name} is no longer needed: remove it"))
        }
        Some(lines) if lines < exception.lines => {
            Some(format!("the exception for {name} allows {} lines but {lines} are there: lower it", exception.lines))
        }
        Some(_) => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    /// From the line of `fn` to the line of the closing brace, both counted.
    lines: usize,
}

/// Every function with a body, also nested ones.
fn functions<'a>(tokens: &Tokens<'a>) -> Vec<Function<'a>> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        // A function pointer type has no name.
        if tokens.text(at) == "fn"
            && tokens.is_word(at + 1)
            && let Some(open) = body(tokens, at + 2)
        {
            let line = tokens.line(at);
            let last = tokens.line(tokens.closing(open).min(tokens.len() - 1));
            found.push(Function { name: tokens.text(at + 1), line, lines: last - line + 1 });
        }
    }
    found
}

/// The brace that opens the body of the function whose signature goes on at `at`; none if it ends with a semicolon.
fn body(tokens: &Tokens<'_>, mut at: usize) -> Option<usize> {
    let mut angles = 0_usize;
    while at < tokens.len() {
        match tokens.text(at) {
            "{" if angles == 0 => return Some(at),
            ";" => return None,
            "(" | "[" | "{" => at = tokens.closing(at),
            "<" => angles += 1,
            // Not the arrow of a return type.
            ">" if !matches!(tokens.text(at.saturating_sub(1)), "-" | "=") => angles = angles.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_functions(source: &str, expect: &[(&str, usize, usize)]) {
        let found = functions(&lex(source));
        let found: Vec<_> = found.iter().map(|function| (function.name, function.line, function.lines)).collect();
        assert_eq!(found, expect, "{source}");
    }

    fn check_tree(source: &str, exceptions: Vec<Exception>, expect: &[&str]) {
        let sizes = Sizes { file: 6, function: 3, exceptions };
        let tree = Tree::fixture(&[("a.rs", source), (config::PATH, "x\npath = \"a.rs\"\n")]);
        assert_eq!(super::super::lines(&check(&tree, &sizes)), expect);
    }

    fn exception(function: Option<&str>, lines: usize) -> Exception {
        let function = function.map_or_else(String::new, |name| format!("function = \"{name}\"\n"));
        toml::from_str(&format!("path = \"a.rs\"\nlines = {lines}\nreason = \"a table\"\n{function}")).unwrap()
    }

    #[test]
    fn functions_end_at_their_brace() {
        check_functions("fn a() {\n}\n\nfn b() { }", &[("a", 1, 2), ("b", 4, 1)]);
        check_functions("fn a() {\n\"}\"; '}'; // }\n/* } */\n}", &[("a", 1, 4)]);
        check_functions("fn a() {\n fn b() {\n }\n}", &[("a", 1, 4), ("b", 2, 2)]);
        check_functions("impl X {\n async fn a(\n &self,\n ) -> Y {\n }\n}", &[("a", 2, 4)]);
    }

    #[test]
    fn functions_without_body_are_not_counted() {
        check_functions("trait T {\n fn a(&self) -> [u8; 4];\n fn b(&self) {\n }\n}", &[("b", 3, 2)]);
        check_functions("type F = fn(u8) -> u8; fn a(f: fn() -> u8) {\n}", &[("a", 1, 2)]);
    }

    #[test]
    fn braces_in_signatures_are_not_bodies() {
        check_functions("fn a<const N: usize>() -> X<{ N + 1 }>\nwhere\n Y<{ N }>: Z,\n{\n}", &[("a", 1, 5)]);
        check_functions("fn a(f: impl Fn(u8) -> Vec<u8>) -> Vec<u8> {\n}", &[("a", 1, 2)]);
    }

    #[test]
    fn what_is_too_long_is_found() {
        check_tree("\n\n\n\n\n\n\n", vec![], &["a.rs:1: this file has 7 lines, at most 6 are allowed"]);
        check_tree("\nfn a() {\n\n\n}\n", vec![], &["a.rs:2: function `a` has 4 lines, at most 3 are allowed"]);
        check_tree("\n\n\nfn a() {\n\n}\n", vec![], &[]);
    }

    #[test]
    fn an_exception_allows_exactly_what_is_there() {
        check_tree("\n\n\n\n\n\n\n", vec![exception(None, 7)], &[]);
        check_tree("\nfn a() {\n\n\n}\n", vec![exception(Some("a"), 4)], &[]);
        check_tree("\n\n\n\n\n\n\n\n", vec![exception(None, 7)], &["a.rs:1: this file has 8 lines and grew over its exception of 7"]);
    }

    #[test]
    fn an_exception_may_only_shrink() {
        check_tree("\n", vec![exception(None, 7)], &["xtask/layers.toml:2: the exception for `a.rs` is no longer needed: remove it"]);
        check_tree(
            "\n\n\n\n\n\n\n",
            vec![exception(None, 9)],
            &["xtask/layers.toml:2: the exception for `a.rs` allows 9 lines but 7 are there: lower it"],
        );
        check_tree(
            "\n",
            vec![exception(Some("gone"), 9)],
            &["xtask/layers.toml:2: the exception for `a.rs` `gone` is for nothing that exists: remove it"],
        );
    }
}
