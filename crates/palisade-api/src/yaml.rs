//! Text into trees: multi-document YAML, and JSON, which is YAML.
//!
//! Scalars mean what they mean to kubectl, whose reader follows YAML 1.1: an unquoted `no` or `y` is a boolean and `010` is 8. A document that
//! cannot be read is reported with its place and reading goes on at the next `---`.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, StrInput};

use crate::mend;
use crate::tree::{Entry, Node, Span, Value};

/// How many nodes the aliases of one document may copy. Enough for any manifest, too little for a bomb.
const ALIAS_BUDGET: usize = 100_000;

/// How deep lists and maps may nest, aliases included. No manifest comes near it, and no walk of a tree runs out of stack.
pub(crate) const DEPTH: usize = 100;

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub message: String,
    pub line: usize,
    pub column: usize,
    /// The byte it is at.
    pub offset: usize,
    /// What to write instead, where that can be guessed.
    pub help: Option<String>,
}

/// The documents of a text, in order.
pub struct Documents<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    failed: bool,
    done: bool,
}

impl std::fmt::Debug for Documents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents").field("failed", &self.failed).field("done", &self.done).finish_non_exhaustive()
    }
}

/// Reads `text`.
pub fn documents(text: &str) -> Documents<'_> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    Documents { text, parser: Parser::new_from_str_with_options(text, options), failed: false, done: false }
}

impl<'a> Iterator for Documents<'a> {
    type Item = Result<Node<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.failed {
            self.failed = false;
            match self.parser.proceed_next_document() {
                Ok(true) => {}
                Ok(false) => return self.end(),
                Err(error) => return self.stop_at(&error),
            }
        }
        loop {
            match self.parser.next_event() {
                None => return self.end(),
                Some(Ok((Event::StreamEnd, _))) => return self.end(),
                Some(Ok((Event::DocumentStart(..), _))) => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => return self.fail(scan_error(&error)),
            }
        }
        match (Builder { parser: &mut self.parser, anchors: HashMap::new(), copied: 0, depth: 0 }).document() {
            Ok(root) => Some(Ok(root)),
            Err(problem) => self.fail(problem),
        }
    }
}

impl<'a> Documents<'a> {
    fn end(&mut self) -> Option<Result<Node<'a>, Unreadable>> {
        self.done = true;
        None
    }

    fn fail(&mut self, problem: Unreadable) -> Option<Result<Node<'a>, Unreadable>> {
        self.failed = true;
        Some(Err(self.mended(problem)))
    }

    fn stop_at(&mut self, error: &ScanError) -> Option<Result<Node<'a>, Unreadable>> {
        self.done = true;
        Some(Err(self.mended(scan_error(error))))
    }

    fn mended(&self, problem: Unreadable) -> Unreadable {
        Unreadable { help: mend::semicolons(self.text, problem.offset), ..problem }
    }
}

struct Builder<'a, 'p> {
    parser: &'p mut Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, (Node<'a>, Size)>,
    copied: usize,
    /// How many lists and maps are open.
    depth: usize,
}

/// What a copy of a node costs.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    depth: usize,
}

type Built<'a> = Result<Node<'a>, Unreadable>;

impl<'a> Builder<'a, '_> {
    fn document(mut self) -> Built<'a> {
        let (event, span) = self.event()?;
        let root = self.node(event, place(&span))?;
        // The end of the document, which may still turn out to be none.
        self.event()?;
        Ok(root)
    }

    fn event(&mut self) -> Result<(Event<'a>, granit_parser::Span), Unreadable> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(scan_error(&error)),
            None => Err(Unreadable { message: "the document ends too early".into(), line: 1, column: 1, offset: 0, help: None }),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum is open, and every other event is out of place here")]
    fn node(&mut self, event: Event<'a>, span: Span) -> Built<'a> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_only = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let value = if text_only { Value::Str(text) } else { plain(text) };
                Ok(self.anchored(anchor, Node { span, value }))
            }
            Event::SequenceStart(_, anchor, _) => {
                let node = self.deeper(span, Builder::list)?;
                Ok(self.anchored(anchor, node))
            }
            Event::MappingStart(_, anchor, _) => {
                let node = self.deeper(span, Builder::map)?;
                Ok(self.anchored(anchor, node))
            }
            Event::Alias(id) => self.alias(id, span),
            _ => Err(unreadable("unexpected structure", span)),
        }
    }

    fn deeper(&mut self, span: Span, read: fn(&mut Self, Span) -> Built<'a>) -> Built<'a> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(unreadable(&too_deep(), span));
        }
        let node = read(self, span);
        self.depth -= 1;
        node
    }

    fn list(&mut self, span: Span) -> Built<'a> {
        let mut items = Vec::new();
        loop {
            let (event, at) = self.event()?;
            if event == Event::SequenceEnd {
                let end = byte(&at.end).max(span.end);
                return Ok(Node { span: Span { end, ..span }, value: Value::List(items) });
            }
            items.push(self.node(event, place(&at))?);
        }
    }

    fn map(&mut self, span: Span) -> Built<'a> {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut merged: Vec<Entry<'a>> = Vec::new();
        loop {
            let (event, at) = self.event()?;
            if event == Event::MappingEnd {
                // Keys of the map itself win over merged ones, wherever the merge stands.
                merged.retain(|entry| entries.iter().all(|own| own.key != entry.key));
                entries.append(&mut merged);
                let end = byte(&at.end).max(span.end);
                return Ok(Node { span: Span { end, ..span }, value: Value::Map(entries) });
            }
            let key_span = place(&at);
            let merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let key = key_text(self.node(event, key_span)?)?;
            let (event, at) = self.event()?;
            let value = self.node(event, place(&at))?;
            if merge {
                let before = merged.len();
                merge_into(&mut merged, value)?;
                // kubectl lets the later one win, the YAML specification the map's own: nobody can rely on either.
                let clash = merged.iter().skip(before).find(|entry| entries.iter().any(|own| own.key == entry.key));
                if let Some(entry) = clash {
                    let message = format!("`{}` is set here and by `<<` after it; tools do not agree on which counts", entry.key);
                    return Err(unreadable(&message, key_span));
                }
                continue;
            }
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let message = format!("the key `{key}` is already set on line {}", first.key_span.line);
                return Err(unreadable(&message, key_span));
            }
            entries.push(Entry { key, key_span, value });
        }
    }

    fn anchored(&mut self, anchor: usize, node: Node<'a>) -> Node<'a> {
        if anchor != 0 {
            let size = size(&node);
            self.anchors.insert(anchor, (node.clone(), size));
        }
        node
    }

    fn alias(&mut self, id: usize, span: Span) -> Built<'a> {
        let Some((node, size)) = self.anchors.get(&id) else {
            return Err(unreadable("an alias refers to a value that contains it", span));
        };
        if self.depth + size.depth > DEPTH {
            return Err(unreadable(&too_deep(), span));
        }
        self.copied += size.nodes;
        if self.copied > ALIAS_BUDGET {
            return Err(unreadable("aliases copy more than 100000 values", span));
        }
        Ok(node.clone())
    }
}

fn merge_into<'a>(merged: &mut Vec<Entry<'a>>, value: Node<'a>) -> Result<(), Unreadable> {
    match value.value {
        Value::Map(entries) => {
            for entry in entries {
                if merged.iter().all(|earlier| earlier.key != entry.key) {
                    merged.push(entry);
                }
            }
            Ok(())
        }
        Value::List(items) => items.into_iter().try_for_each(|item| merge_into(merged, item)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => {
            Err(unreadable("`<<` needs a map to merge", value.span))
        }
    }
}

fn key_text(node: Node<'_>) -> Result<Cow<'_, str>, Unreadable> {
    match node.value {
        Value::Str(text) => Ok(text),
        // kubectl writes such keys in decimal; nobody means anything else by them.
        Value::Int(number) => Ok(number.to_string().into()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
            Err(unreadable(&format!("a key is {}, quote it", node.value.what()), node.span))
        }
    }
}

fn size(node: &Node<'_>) -> Size {
    match &node.value {
        Value::List(items) => around(items.iter().map(size)),
        Value::Map(entries) => around(entries.iter().map(|entry| size(&entry.value))),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) => Size { nodes: 1, depth: 0 },
    }
}

fn around(inner: impl Iterator<Item = Size>) -> Size {
    inner.fold(Size { nodes: 1, depth: 1 }, |all, it| Size { nodes: all.nodes + it.nodes, depth: all.depth.max(1 + it.depth) })
}

pub(crate) fn too_deep() -> String {
    format!("nested more than {DEPTH} levels deep")
}

/// What an unquoted scalar means to kubectl.
pub(crate) fn plain(text: Cow<'_, str>) -> Value<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return Value::Bool(false),
        _ => {}
    }
    let numeric = text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'));
    if !numeric {
        return Value::Str(text);
    }
    match integer(&text.replace('_', "")) {
        Some(number) => Value::Int(number),
        // kubectl sends 80.0 as 80.
        None if is_float(&text) => whole(&text).map_or(Value::Number(text), Value::Int),
        None => Value::Str(text),
    }
}

/// An integer with an optional sign and one of the prefixes 0x, 0o, 0b, or a leading 0 for octal.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (if text.starts_with('-') { -1 } else { 1 }, digits),
        None => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let magnitude = if let Some(hex) = lower.strip_prefix("0x") {
        magnitude(hex, 16)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        magnitude(octal, 8)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        magnitude(binary, 2)
    } else if lower.len() > 1 && lower.starts_with('0') {
        magnitude(&lower, 8)
    } else {
        magnitude(&lower, 10)
    };
    Some(sign * magnitude?)
}

/// Digits and nothing else: the sign stands before the prefix, and only once.
fn magnitude(digits: &str, radix: u32) -> Option<i64> {
    digits.chars().all(|digit| digit.is_digit(radix)).then(|| i64::from_str_radix(digits, radix).ok()).flatten()
}

/// The integer that a number with a fraction of zero stands for.
fn whole(text: &str) -> Option<i64> {
    let (digits, zeros) = text.split_once('.')?;
    let trivial = !zeros.is_empty() && zeros.bytes().all(|it| it == b'0');
    if trivial { digits.parse().ok() } else { None }
}

fn is_float(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    let named = matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN");
    let shaped = digits.bytes().any(|b| b.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'))
        && text.parse::<f64>().is_ok();
    named || shaped
}

fn byte(marker: &granit_parser::Marker) -> usize {
    marker.byte_offset().unwrap_or_else(|| marker.index())
}

fn place(span: &granit_parser::Span) -> Span {
    Span { start: byte(&span.start), end: byte(&span.end), line: span.start.line(), column: span.start.col() + 1 }
}

fn unreadable(message: &str, span: Span) -> Unreadable {
    Unreadable { message: message.into(), line: span.line, column: span.column, offset: span.start, help: None }
}

fn scan_error(error: &ScanError) -> Unreadable {
    let marker = error.marker();
    Unreadable { message: error.info(), line: marker.line(), column: marker.col() + 1, offset: byte(marker), help: None }
}
