//! Rust text as tokens, as far as tidy needs it.
//!
//! Comments vanish, literals stay whole, everything else is a word or a mark. This is not a parser: it never fails, and what it
//! does not know becomes a mark.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    /// A string, with its prefix, hashes and quotes.
    Text,
    /// A character, a lifetime or a number.
    Other,
    /// One character of punctuation, or `::`.
    Mark,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// The line that it begins on, counted from 1.
    pub(super) line: usize,
}

/// A list of tokens that can be asked for any position; beyond the end there is nothing, spelled as the empty text.
#[derive(Debug)]
pub(super) struct Tokens<'a>(Vec<Token<'a>>);

/// `#[path = "x.rs"]`: the positions between the brackets, and the position after the closing one.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) body: Range<usize>,
    pub(super) end: usize,
    pub(super) inner: bool,
}

pub(super) fn lex(source: &str) -> Tokens<'_> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = piece(rest, first);
        let (text, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if let Some(kind) = kind {
            tokens.push(Token { kind, text, line });
        }
        line += text.matches('\n').count();
        rest = tail;
    }
    Tokens(tokens)
}

/// The kind (none for space and comments) and the length in bytes, never zero, of what `rest` begins with.
fn piece(rest: &str, first: char) -> (Option<Kind>, usize) {
    if first.is_whitespace() {
        return (None, first.len_utf8());
    }
    if rest.starts_with("//") {
        return (None, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (None, block_comment(rest));
    }
    if let Some(length) = string(rest) {
        return (Some(Kind::Text), length);
    }
    if let Some(length) = quoted_character(rest) {
        return (Some(Kind::Other), length);
    }
    if first == '\'' {
        return (Some(Kind::Other), 1 + run(rest.get(1..).unwrap_or_default()));
    }
    if let Some(name) = rest.strip_prefix("r#")
        && name.starts_with(begins_word)
    {
        return (Some(Kind::Word), 2 + run(name));
    }
    if begins_word(first) {
        return (Some(Kind::Word), run(rest));
    }
    if first.is_ascii_digit() {
        return (Some(Kind::Other), run(rest));
    }
    if rest.starts_with("::") {
        return (Some(Kind::Mark), 2);
    }
    (Some(Kind::Mark), first.len_utf8())
}

fn begins_word(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

/// The length of the run of word characters that `rest` begins with.
fn run(rest: &str) -> usize {
    rest.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..)
        && let Some(next) = tail.chars().next()
    {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += next.len_utf8();
        }
    }
    rest.len()
}

/// The length of the string literal that `rest` begins with, if it does. An unclosed one runs to the end.
fn string(rest: &str) -> Option<usize> {
    ["", "b", "c", "r", "br", "cr"].into_iter().find_map(|prefix| {
        let tail = rest.strip_prefix(prefix)?;
        let raw = prefix.ends_with('r');
        let hashes = if raw { tail.bytes().take_while(|byte| *byte == b'#').count() } else { 0 };
        let body = tail.get(hashes..)?.strip_prefix('"')?;
        let length = if raw {
            let close = format!("\"{}", "#".repeat(hashes));
            body.find(&close).map(|at| at + close.len())
        } else {
            closing(body, '"')
        };
        Some(prefix.len() + hashes + 1 + length.unwrap_or(body.len()))
    })
}

/// The length of the character literal that `rest` begins with; a lifetime is none.
fn quoted_character(rest: &str) -> Option<usize> {
    let prefix = if rest.starts_with('b') { 1 } else { 0 };
    let body = rest.get(prefix..)?.strip_prefix('\'')?;
    let first = body.chars().next()?;
    let length = if first == '\\' {
        closing(body, '\'')?
    } else if body.get(first.len_utf8()..)?.starts_with('\'') {
        first.len_utf8() + 1
    } else {
        return None;
    };
    Some(prefix + 1 + length)
}

/// The length up to and with the first `quote` that no backslash escapes.
fn closing(body: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in body.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == quote {
            return Some(at + 1);
        }
    }
    None
}

impl<'a> Tokens<'a> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn text(&self, at: usize) -> &'a str {
        self.0.get(at).map_or("", |token| token.text)
    }

    pub(super) fn line(&self, at: usize) -> usize {
        self.0.get(at).map_or(1, |token| token.line)
    }

    pub(super) fn is_word(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|token| token.kind == Kind::Word)
    }

    /// What stands between the quotes, if a string literal is there.
    pub(super) fn string(&self, at: usize) -> Option<&'a str> {
        let token = self.0.get(at).filter(|token| token.kind == Kind::Text)?;
        let (_, body) = token.text.split_once('"')?;
        body.rsplit_once('"').map(|(body, _)| body)
    }

    /// The position of the bracket that closes the one at `open`; the end of the tokens if nothing does.
    pub(super) fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.len() {
            match self.text(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at;
                    }
                }
                _ => {}
            }
        }
        self.len()
    }

    pub(super) fn attribute(&self, at: usize) -> Option<Attribute> {
        if self.text(at) != "#" {
            return None;
        }
        let inner = self.text(at + 1) == "!";
        let open = if inner { at + 2 } else { at + 1 };
        if self.text(open) != "[" {
            return None;
        }
        let close = self.closing(open);
        Some(Attribute { body: open + 1..close, end: close + 1, inner })
    }

    /// Whether the attribute keeps its item out of everything but tests. `not(test)` and `any(test, …)` do not.
    pub(super) fn is_for_tests(&self, attribute: &Attribute) -> bool {
        let at = attribute.body.start;
        match self.text(at) {
            "test" => attribute.body.len() == 1,
            "cfg" if self.text(at + 2) == "test" => self.text(at + 3) == ")",
            "cfg" if self.text(at + 2) == "all" => {
                let close = self.closing(at + 3);
                let mut inside = at + 4;
                while inside < close {
                    match self.text(inside) {
                        "test" => return true,
                        "(" => inside = self.closing(inside),
                        _ => {}
                    }
                    inside += 1;
                }
                false
            }
            _ => false,
        }
    }

    /// The tokens without those that only tests see.
    pub(super) fn without_tests(&self) -> Tokens<'a> {
        let mut kept = Vec::new();
        let mut at = 0;
        let mut head = true;
        while let Some(token) = self.0.get(at) {
            match self.attribute(at) {
                Some(attribute) if attribute.inner && head => {
                    if self.is_for_tests(&attribute) {
                        break;
                    }
                    kept.extend(self.0.get(at..attribute.end).unwrap_or_default());
                    at = attribute.end;
                }
                Some(attribute) if !attribute.inner && self.is_for_tests(&attribute) => {
                    at = self.item_end(attribute.end);
                }
                _ => {
                    head = false;
                    kept.push(*token);
                    at += 1;
                }
            }
        }
        Tokens(kept)
    }

    /// The position after the item, field, arm or statement that begins at `at`, with its further attributes.
    fn item_end(&self, mut at: usize) -> usize {
        while let Some(attribute) = self.attribute(at) {
            at = attribute.end;
        }
        if self.text(at) == "pub" {
            at = if self.text(at + 1) == "(" { self.closing(at + 1) + 1 } else { at + 1 };
        }
        let ends = Ends::of(self.text(at), self.text(at + 2));
        while at < self.len() {
            match self.text(at) {
                ";" => return at + 1,
                "," if ends == Ends::Comma => return at + 1,
                ")" | "]" | "}" => return at,
                "{" if ends != Ends::Semicolon => return self.closing(at) + 1,
                "(" | "[" | "{" => at = self.closing(at) + 1,
                _ => at += 1,
            }
        }
        at
    }
}

/// How an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Semicolon,
    /// At its block, or at a semicolon if it has none.
    Block,
    /// At its block, semicolon or comma: a field, a variant, an arm.
    Comma,
}

impl Ends {
    fn of(first: &str, third: &str) -> Ends {
        match first {
            "use" | "static" | "type" | "let" => Ends::Semicolon,
            "const" if third == ":" => Ends::Semicolon,
            "fn" | "mod" | "impl" | "struct" | "enum" | "union" | "trait" | "const" | "extern" | "unsafe" | "async" | "macro_rules" => {
                Ends::Block
            }
            _ => Ends::Comma,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expect: &str) {
        assert_eq!(texts(&lex(source)), expect, "{source}");
    }

    fn check_without_tests(source: &str, expect: &str) {
        assert_eq!(texts(&lex(source).without_tests()), expect, "{source}");
    }

    fn texts(tokens: &Tokens<'_>) -> String {
        tokens.0.iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_vanish() {
        check("a // fn x() {\nb /* fn /* nested */ { */ c /// doc\n/", "a b c /");
        check("/* unclosed", "");
    }

    #[test]
    fn strings_stay_whole() {
        check(r#"f("a } \" {", b"}", c"}") g"#, r#"f ( "a } \" {" , b"}" , c"}" ) g"#);
        check(r##"r"\" r#"a " }"# br#"{"# x"##, r##"r"\" r#"a " }"# br#"{"# x"##);
        check("\"unclosed {", "\"unclosed {");
        check("r#fn br cr b c", "r#fn br cr b c");
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        check(r"'{' '\'' '\u{7d}' b'}' b'\\' &'a str 'static 'ü'", r"'{' '\'' '\u{7d}' b'}' b'\\' & 'a str 'static 'ü'");
        check("for<'a> fn(&'a T)", "for < 'a > fn ( & 'a T )");
        check("match c { '\"' => 1 }", "match c { '\"' => 1 }".replace("=>", "= >").as_str());
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let tokens = lex("a\n\"x\ny\" b\n/*\n*/ c");
        assert_eq!(tokens.0.iter().map(|token| token.line).collect::<Vec<_>>(), [1, 2, 3, 5]);
    }

    #[test]
    fn what_only_tests_see_is_left_out() {
        check_without_tests("a; #[cfg(test)] mod tests { fn x() { y } } b", "a ; b");
        check_without_tests("#[cfg(test)] mod tests; b", "b");
        check_without_tests("#[cfg(test)] use a::{b, c}; d", "d");
        check_without_tests("#[cfg(test)] #[derive(Debug)] pub(crate) struct X { a: u8 } d", "d");
        check_without_tests("#[test] fn x() -> Result<(), E> { y } d", "d");
        check_without_tests("#[cfg(all(test, unix))] const fn f() { x } d", "d");
        check_without_tests("#[cfg(test)] const A: X = X { b: 1 }; d", "d");
        check_without_tests("struct S { #[cfg(test)] pub a: Vec<u8>, b: u8 }", "struct S { b : u8 }");
        check_without_tests("struct S { #[cfg(test)] a: u8 }", "struct S { }");
        check_without_tests("#![cfg(test)] fn x() {}", "");
        check_without_tests("#![warn(a)] #![cfg(test)] fn x() {}", "# ! [ warn ( a ) ]");
    }

    #[test]
    fn what_the_product_sees_is_kept() {
        let kept = "# [ cfg ( not ( test ) ) ] fn x ( ) { }";
        check_without_tests(kept, kept);
        let kept = "# [ cfg ( any ( test , unix ) ) ] fn x ( ) { }";
        check_without_tests(kept, kept);
        let kept = "# [ cfg ( all ( unix , not ( test ) ) ) ] fn x ( ) { }";
        check_without_tests(kept, kept);
    }
}
