//! The file of expectations: which sentences it holds, and where.

use std::sync::Arc;

use palisade_api::tree::{Entry, FieldPath, Node, Span, Value};
use palisade_api::yaml::{self, Unreadable};
use palisade_model::{Diagnostic, Location, Severity};

use super::{Expectation, sentence};

const FILE_KEYS: &[&str] = &["name", "tests"];
const ENTRY_KEYS: &[&str] = &["name", "expect"];

/// What was read so far.
struct Reading<'t> {
    file: Arc<str>,
    text: &'t str,
    expectations: Vec<Expectation>,
    diagnostics: Vec<Diagnostic>,
}

/// What is wrong, before it has a place.
struct Problem<'p> {
    code: &'static str,
    path: &'p FieldPath,
    message: String,
    help: Option<String>,
}

pub(super) fn read(file: &str, text: &str) -> (Vec<Expectation>, Vec<Diagnostic>) {
    let mut reading = Reading { file: file.into(), text, expectations: Vec::new(), diagnostics: Vec::new() };
    for document in yaml::documents(text) {
        match document {
            Ok(document) => reading.document(&document),
            Err(problem) => reading.unreadable(&problem),
        }
    }
    if reading.expectations.is_empty() && reading.diagnostics.is_empty() {
        let help = Some("write a list of sentences, as in: - shop/web -> shop/db tcp/5432 allowed".to_owned());
        let message = "the file expects nothing".to_owned();
        let path = &FieldPath::default();
        reading.report(Span { line: 1, column: 1, ..Span::default() }, Problem { code: "no-expectations", path, message, help });
    }
    (reading.expectations, reading.diagnostics)
}

impl Reading<'_> {
    fn document(&mut self, root: &Node<'_>) {
        let path = FieldPath::default();
        match &root.value {
            Value::Null => {}
            Value::List(entries) => self.entries(entries, &path),
            Value::Map(keys) => {
                self.known_keys(keys, FILE_KEYS, &path);
                self.title(root, &path);
                match root.get("tests").map(|tests| (tests, &tests.value)) {
                    Some((_, Value::List(entries))) => self.entries(entries, &path.field("tests")),
                    Some((tests, other)) => self.not_a(tests.span, other, "a list of sentences", &path.field("tests")),
                    None => self.missing(root.span, "tests", &path),
                }
            }
            other @ (Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_)) => {
                self.not_a(root.span, other, "a list of sentences, or a map with `tests`", &path);
            }
        }
    }

    fn entries(&mut self, entries: &[Node<'_>], path: &FieldPath) {
        for (at, entry) in entries.iter().enumerate() {
            let path = path.clone().index(at);
            match &entry.value {
                Value::Str(_) => self.sentence(entry, None, &path),
                Value::Map(keys) => self.entry(entry, keys, &path),
                other @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::List(_)) => {
                    self.not_a(entry.span, other, "a sentence, or a map with `expect`", &path);
                }
            }
        }
    }

    fn entry(&mut self, entry: &Node<'_>, keys: &[Entry<'_>], path: &FieldPath) {
        self.known_keys(keys, ENTRY_KEYS, path);
        let name = self.title(entry, path);
        let path = path.clone().field("expect");
        let Some(expect) = entry.get("expect") else {
            // A misspelt key was reported already, and says more.
            if keys.iter().all(|key| ENTRY_KEYS.contains(&key.key.as_ref())) {
                self.missing(entry.span, "expect", &path);
            }
            return;
        };
        match &expect.value {
            Value::Str(_) => self.sentence(expect, name, &path),
            Value::List(sentences) if sentences.is_empty() => self.not_a(expect.span, &expect.value, "at least one sentence", &path),
            Value::List(sentences) => {
                for (at, sentence) in sentences.iter().enumerate() {
                    self.sentence(sentence, name.clone(), &path.clone().index(at));
                }
            }
            other @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Map(_)) => {
                self.not_a(expect.span, other, "a sentence or a list of sentences", &path);
            }
        }
    }

    fn sentence(&mut self, node: &Node<'_>, name: Option<String>, path: &FieldPath) {
        let Some(text) = node.as_str() else { return self.not_a(node.span, &node.value, "a sentence", path) };
        match sentence::read(text) {
            Ok(claim) => {
                let location = self.location(node.span);
                self.expectations.push(Expectation { name, text: text.to_owned(), location, claim });
            }
            Err(wrong) => {
                let span = self.word_in(node.span, &wrong.word);
                self.report(span, Problem { code: "bad-expectation", path, message: wrong.message, help: wrong.help });
            }
        }
    }

    fn title(&mut self, node: &Node<'_>, path: &FieldPath) -> Option<String> {
        let name = node.get("name")?;
        if name.as_str().is_none() {
            self.not_a(name.span, &name.value, "a string", &path.clone().field("name"));
        }
        name.as_str().map(str::to_owned)
    }

    fn known_keys(&mut self, keys: &[Entry<'_>], known: &[&str], path: &FieldPath) {
        for entry in keys.iter().filter(|entry| !known.contains(&entry.key.as_ref())) {
            let key = entry.key.as_ref();
            let close = known.iter().find(|it| strsim::osa_distance(it, key) <= 2);
            let help = close.map_or_else(|| format!("the keys here are `{}`", known.join("` and `")), |it| format!("did you mean `{it}`?"));
            let path = &path.clone().field(key.to_owned());
            let message = format!("`{key}` is not a key of expectations");
            self.report(entry.key_span, Problem { code: "unknown-key", path, message, help: Some(help) });
        }
    }

    fn missing(&mut self, span: Span, key: &str, path: &FieldPath) {
        let help =
            Some("a file is a list of sentences, or has them under `tests`; an entry is a sentence, or has one under `expect`".to_owned());
        self.report(span, Problem { code: "bad-expectation", path, message: format!("`{key}` is missing"), help });
    }

    fn not_a(&mut self, span: Span, found: &Value<'_>, wanted: &str, path: &FieldPath) {
        let message = format!("{} stands here; expected {wanted}", found.what());
        self.report(span, Problem { code: "bad-expectation", path, message, help: None });
    }

    fn unreadable(&mut self, problem: &Unreadable) {
        let line = self.text.lines().nth(problem.line.saturating_sub(1)).unwrap_or_default();
        // YAML takes an unquoted star for an alias.
        let star = line.trim_start().trim_start_matches('-').trim_start().trim_start_matches("expect:").trim_start().starts_with('*');
        let help = star.then(|| "a sentence that begins with `*` needs quotes".to_owned());
        let span = Span { line: problem.line, column: problem.column, ..Span::default() };
        let path = &FieldPath::default();
        self.report(span, Problem { code: "unreadable-document", path, message: problem.message.clone(), help });
    }

    fn report(&mut self, span: Span, problem: Problem<'_>) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            code: problem.code,
            location: Some(self.location(span)),
            object: "".into(),
            path: problem.path.to_string().into(),
            message: problem.message.into(),
            help: problem.help.map(Into::into),
        });
    }

    fn location(&self, span: Span) -> Location {
        Location { file: self.file.clone(), line: span.line, column: span.column }
    }

    /// Where a word of a sentence stands; where the sentence begins, if that cannot be said.
    fn word_in(&self, span: Span, word: &str) -> Span {
        let raw = self.text.get(span.start..span.end).unwrap_or_default();
        let Some(before) = raw.find(word).filter(|_| !word.is_empty()).and_then(|at| raw.get(..at)) else { return span };
        let (lines, last) = (before.matches('\n').count(), before.rsplit('\n').next().unwrap_or_default().chars().count());
        let column = if lines == 0 { span.column + last } else { last + 1 };
        Span { line: span.line + lines, column, ..span }
    }
}
