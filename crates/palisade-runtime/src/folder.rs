//! Files, folders and standard input as texts.
//!
//! A path that the user names is read whatever its name; inside a folder only manifests are. No input can hide
//! another: each failure is a diagnostic at the path it concerns, and reading goes on.

mod decode;
mod missing;
mod walk;

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use palisade_k8s::Text;
use palisade_model::{Diagnostic, Location, Severity};

use crate::Gathered;

/// One input of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, a folder, or something that opens like a file (`/dev/stdin`, `/dev/fd/63`).
    Path(PathBuf),
    /// Standard input, written `-`.
    Stdin,
}

impl Input {
    /// `-` is standard input, anything else is a path.
    pub fn from_arg(arg: &str) -> Input {
        match arg {
            "-" => Input::Stdin,
            path => Input::Path(PathBuf::from(path)),
        }
    }
}

/// Reads every input, in order. A file that is reached twice is read once, under the name it was reached by first.
pub fn read(inputs: &[Input]) -> Gathered {
    read_with(inputs, io::stdin())
}

fn read_with(inputs: &[Input], mut stdin: impl Read) -> Gathered {
    let mut reader = Reader::default();
    for input in inputs {
        match input {
            Input::Path(path) => reader.path(path),
            Input::Stdin => reader.stdin(&mut stdin),
        }
    }
    reader.gathered
}

#[derive(Default)]
struct Reader {
    gathered: Gathered,
    /// What was read already, by [`identity`].
    read: BTreeSet<PathBuf>,
}

impl Reader {
    fn path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.folder(path),
            Ok(metadata) => match refusal(&metadata) {
                None => self.file(path),
                Some(what) => self.unreadable(path, format!("is {what}, not a file")),
            },
            Err(error) if is_absent(&error) && !path.is_symlink() => {
                self.gathered.diagnostics.push(missing::diagnose(path));
            }
            Err(error) => self.unreadable(path, explain(path, &error)),
        }
    }

    fn folder(&mut self, folder: &Path) {
        let walked = walk::walk(folder);
        if walked.files.is_empty() && walked.diagnostics.is_empty() {
            let message = "no manifest in this folder: looked for names ending in .yaml, .yml or .json";
            self.gathered.diagnostics.push(about(folder, Severity::Warning, "empty-folder", message));
        }
        self.gathered.diagnostics.extend(walked.diagnostics);
        for file in walked.files {
            self.file(&file);
        }
    }

    fn file(&mut self, path: &Path) {
        if self.read.insert(identity(path)) {
            match File::open(path).and_then(slurp) {
                Ok(bytes) => self.text(&name(path), &bytes),
                Err(error) => self.unreadable(path, explain(path, &error)),
            }
        }
    }

    fn stdin(&mut self, stdin: impl Read) {
        // Standard input has a path too, so that `-` and `/dev/stdin` are one input.
        if self.read.insert(identity(Path::new("/dev/stdin"))) {
            match slurp(stdin) {
                Ok(bytes) => self.text("-", &bytes),
                Err(error) => self.unreadable(Path::new("-"), format!("cannot be read: {error}")),
            }
        }
    }

    fn text(&mut self, file: &str, bytes: &[u8]) {
        match decode::decode(bytes) {
            Ok(content) => {
                self.gathered.texts.push(Text { file: file.into(), content: content.into() });
            }
            Err(not_text) => self.gathered.diagnostics.push(not_text.diagnostic(file)),
        }
    }

    fn unreadable(&mut self, path: &Path, message: String) {
        self.gathered.diagnostics.push(about(path, Severity::Error, "unreadable-file", message));
    }
}

/// Reads to the end, or to the first block with a NUL, after which the answer is "not text" whatever follows:
/// that is what ends `/dev/zero`, and what spares reading a disk image. UTF-16 is full of NULs and is read whole.
fn slurp(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let read = reader.by_ref().take(1 << 16).read_to_end(&mut bytes)?;
        let binary = || bytes.get(before..).is_some_and(|block| block.contains(&0));
        if read == 0 || (!decode::is_utf16(&bytes) && binary()) {
            return Ok(bytes);
        }
    }
}

/// The same for every name of one file. Pipes have no canonical path and stay what they were called.
fn identity(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The name that messages use.
fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A diagnostic about a whole file or folder.
fn about(path: &Path, severity: Severity, code: &'static str, message: impl Into<Box<str>>) -> Diagnostic {
    Diagnostic {
        severity,
        code,
        location: Some(Location { file: name(path).into(), line: 1, column: 1 }),
        object: "".into(),
        path: "".into(),
        message: message.into(),
        help: None,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What went wrong with a path that exists.
fn explain(path: &Path, error: &io::Error) -> String {
    match fs::read_link(path) {
        Ok(target) if is_absent(error) => {
            format!("is a symlink to `{}`, which does not exist", target.display())
        }
        Ok(_) | Err(_) => format!("cannot be read: {error}"),
    }
}

/// What a thing is, if it can never be read as a text. Pipes and character devices can: they are how a shell
/// passes `<(helm template .)` and how `/dev/stdin` looks.
#[cfg(unix)]
fn refusal(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    let file_type = metadata.file_type();
    if file_type.is_socket() {
        Some("a socket")
    } else if file_type.is_block_device() {
        Some("a block device")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn refusal(_: &Metadata) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_stdin(inputs: &[Input], stdin: &[u8]) -> Vec<(String, String)> {
        let texts = read_with(inputs, stdin).texts;
        texts.iter().map(|text| (text.file.to_string(), text.content.to_string())).collect()
    }

    #[test]
    fn a_dash_is_standard_input_and_is_read_once() {
        let inputs = [Input::from_arg("-"), Input::from_arg("-")];
        assert_eq!(read_stdin(&inputs, b"kind: Pod\n"), [("-".to_owned(), "kind: Pod\n".to_owned())]);
    }

    #[test]
    fn a_stream_of_nul_bytes_comes_to_an_end() {
        let gathered = read_with(&[Input::Stdin], io::repeat(0));
        let shown: Vec<String> = gathered.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["-:1:1: error[not-text]: byte 0 is NUL: the file looks binary; nothing was read from this file; \
              save it as UTF-8, or take it out of the input"]
        );
    }
}
