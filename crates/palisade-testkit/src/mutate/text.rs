//! Broken texts.

use crate::random::Random;

/// What YAML gives a meaning to, and what no parser likes.
const SPECIALS: [&str; 38] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "&a &b ",
    "<<: *a\n",
    "<<: {a: b}\n",
    "---\n",
    "...\n",
    "--- ",
    "\t",
    "\0",
    "\u{feff}",
    "\r",
    "\u{2028}",
    "\u{85}",
    "é",
    "🦀",
    "\u{202e}",
    "!!binary ",
    "!!str ",
    "!<tag:x> ",
    "%YAML 1.2\n",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\",
    "#",
    ",",
    "{{ .Values.x }}",
    "@",
];

/// Values that are hardly ever meant.
const ODD: [&str; 30] = [
    "null",
    "~",
    "",
    "true",
    "yes",
    "no",
    "1e999",
    "-1",
    "0",
    "65536",
    "65535",
    "99999999999999999999",
    "-9223372036854775808",
    "0x-8000000000000000",
    "-0x-8000000000000000",
    "0o8",
    "010",
    ".nan",
    ".inf",
    "[]",
    "{}",
    "[[]]",
    "{a: b}",
    "''",
    "\"\"",
    "a b",
    "*a",
    "&a b",
    "10.0.0.0/99",
    "::ffff:1.2.3.4/120",
];

/// A text with one to three things wrong.
pub fn text(random: &mut Random, text: &str) -> String {
    let mut broken = text.to_owned();
    for _ in 0..random.of([1, 1, 1, 2, 3]) {
        broken = once(random, &broken);
    }
    broken
}

fn once(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(12) {
        0 => return flip(random, text),
        1 => return head(random, text),
        2 | 3 => return insert(random, text),
        4 => return text.replace('\n', "\r\n"),
        5 => drop((one < lines.len()).then(|| lines.remove(one))),
        6 => {
            let line = lines.get(one).cloned();
            lines.splice(one..one, line);
        }
        7 => {
            if one < lines.len() && other < lines.len() {
                lines.swap(one, other);
            }
        }
        8 => change(&mut lines, one, |line| indented(random, line)),
        9 => change(&mut lines, one, |line| nested(random, line)),
        _ => change(&mut lines, one, |line| with_value(line, random.of(ODD))),
    }
    lines.concat()
}

fn change(lines: &mut [String], at: usize, change: impl FnOnce(&str) -> String) {
    if let Some(line) = lines.get_mut(at) {
        *line = change(line);
    }
}

fn flip(random: &mut Random, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = random.below(bytes.len());
    let bit = random.of([1, 2, 4, 8, 16, 32, 64, 128]);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= bit;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(random: &mut Random, text: &str) -> String {
    text.chars().take(random.below(text.len())).collect()
}

fn insert(random: &mut Random, text: &str) -> String {
    let at = random.below(text.len());
    let special = random.of(SPECIALS);
    let (before, after): (String, String) = (text.chars().take(at).collect(), text.chars().skip(at).collect());
    format!("{before}{special}{after}")
}

fn indented(random: &mut Random, line: &str) -> String {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let indent = match random.below(4) {
        0 => "\t".to_owned(),
        1 => " ".repeat(spaces + 1),
        2 => " ".repeat(spaces + 2),
        _ => " ".repeat(spaces.saturating_sub(2)),
    };
    format!("{indent}{}", line.trim_start_matches(' '))
}

/// The value of the line, deep inside of lists or maps.
fn nested(random: &mut Random, line: &str) -> String {
    let depth = random.of([2, 20, 200, 5000]);
    let (key, value) = line.split_once(": ").unwrap_or((line.trim_end(), "a"));
    let value = value.trim_end();
    match random.below(3) {
        0 => format!("{key}: {}{value}{}\n", "[".repeat(depth), "]".repeat(depth)),
        1 => format!("{key}: {}{value}{}\n", "{a: ".repeat(depth), "}".repeat(depth)),
        _ => format!("{key}: {}{value}\n", "[".repeat(depth)),
    }
}

fn with_value(line: &str, value: &str) -> String {
    match (line.split_once(": "), line.split_once("- ")) {
        (Some((key, _)), _) => format!("{key}: {value}\n"),
        (None, Some((indent, _))) => format!("{indent}- {value}\n"),
        (None, None) => format!("{} {value}\n", line.trim_end()),
    }
}
