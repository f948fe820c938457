//! Bytes as text: UTF-8, or UTF-16 that says so with a byte order mark. Nothing is guessed and nothing is replaced.

use palisade_model::{Diagnostic, Location, Severity};

const UTF8_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];
const UTF16_LITTLE_MARK: &[u8] = &[0xFF, 0xFE];
const UTF16_BIG_MARK: &[u8] = &[0xFE, 0xFF];

/// The first thing in a file that is not text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotText {
    /// From 0, in the file as it is on disk.
    offset: usize,
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    what: &'static str,
}

/// Decodes a whole file and drops its byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<String, NotText> {
    let text = if let Some(rest) = bytes.strip_prefix(UTF16_LITTLE_MARK) {
        from_utf16(rest, u16::from_le_bytes)?
    } else if let Some(rest) = bytes.strip_prefix(UTF16_BIG_MARK) {
        from_utf16(rest, u16::from_be_bytes)?
    } else if let Some(rest) = bytes.strip_prefix(UTF8_MARK) {
        from_utf8(rest, UTF8_MARK.len())?
    } else {
        from_utf8(bytes, 0)?
    };
    Ok(text)
}

/// Whether a byte order mark announces UTF-16, in which half of all bytes may be NUL.
pub(super) fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(UTF16_LITTLE_MARK) || bytes.starts_with(UTF16_BIG_MARK)
}

fn from_utf8(bytes: &[u8], mark: usize) -> Result<String, NotText> {
    let (valid, bad) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = bytes.split_at_checked(error.valid_up_to()).map_or(&[][..], |(valid, _)| valid);
            // Valid up to there, so nothing is replaced.
            (std::str::from_utf8(valid).unwrap_or(""), Some("is not UTF-8"))
        }
    };
    match (valid.split_once('\0'), bad) {
        (Some((before, _)), _) => Err(NotText::after(before, mark + before.len(), "is NUL: the file looks binary")),
        (None, Some(what)) => Err(NotText::after(valid, mark + valid.len(), what)),
        (None, None) => Ok(valid.to_owned()),
    }
}

fn from_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(pairs.len());
    let mut offset = UTF16_LITTLE_MARK.len();
    for decoded in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        match decoded {
            Ok('\0') => return Err(NotText::after(&text, offset, "is NUL: the file looks binary")),
            Ok(character) => {
                text.push(character);
                offset += 2 * character.len_utf16();
            }
            Err(_) => return Err(NotText::after(&text, offset, "is half of a UTF-16 pair")),
        }
    }
    match rest {
        [] => Ok(text),
        [..] => Err(NotText::after(&text, offset, "is half of a UTF-16 unit: the file is cut short")),
    }
}

impl NotText {
    fn after(before: &str, offset: usize, what: &'static str) -> NotText {
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        NotText { offset, line, column, what }
    }

    pub(super) fn diagnostic(&self, file: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code: "not-text",
            location: Some(Location { file: file.into(), line: self.line, column: self.column }),
            object: "".into(),
            path: "".into(),
            message: format!("byte {} {}; nothing was read from this file", self.offset, self.what).into(),
            help: Some("save it as UTF-8, or take it out of the input".into()),
        }
    }
}
