//! The manifests below a folder.
//!
//! Symlinked folders are followed, each folder once. Hidden names are skipped, which is also what makes a mounted
//! ConfigMap (`..data`, and links into it) come out once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use palisade_model::{Diagnostic, Severity};

use super::{about, explain, identity};

/// What a walk found.
#[derive(Default)]
pub(super) struct Walked {
    /// Sorted by the bytes of the path.
    pub(super) files: Vec<PathBuf>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Finds every manifest below `folder`; the folder itself may be hidden, since it was asked for.
pub(super) fn walk(folder: &Path) -> Walked {
    let mut walk = Walk::default();
    walk.enter(folder);
    let mut walked = walk.walked;
    walked.files.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    walked
}

#[derive(Default)]
struct Walk {
    walked: Walked,
    /// Every folder entered, by its canonical path.
    entered: BTreeSet<PathBuf>,
    /// The folders being read, outermost first: canonical path and the name it was reached by.
    above: Vec<(PathBuf, PathBuf)>,
}

impl Walk {
    fn enter(&mut self, folder: &Path) {
        let canonical = identity(folder);
        if let Some((_, name)) = self.above.iter().find(|(above, _)| *above == canonical) {
            let message = format!("leads back to `{}`, which holds it; not followed", name.display());
            self.report(folder, Severity::Warning, "symlink-loop", message);
            return;
        }
        // A second link to a folder adds nothing but other names for the same files.
        if !self.entered.insert(canonical.clone()) {
            return;
        }
        self.above.push((canonical, folder.to_path_buf()));
        for entry in self.entries(folder) {
            self.visit(&entry);
        }
        self.above.pop();
    }

    /// What is in a folder, without what is hidden, sorted so that the first of several links is always the same.
    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        let listed = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match listed {
            Ok(entries) => {
                let mut paths: Vec<PathBuf> = entries
                    .iter()
                    .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
                    .map(|entry| entry.path())
                    .collect();
                paths.sort_by(|a, b| bytes(a).cmp(bytes(b)));
                paths
            }
            Err(error) => {
                let message = format!("this folder cannot be read: {error}");
                self.report(folder, Severity::Error, "unreadable-file", message);
                Vec::new()
            }
        }
    }

    fn visit(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.enter(path),
            Ok(_) if !is_manifest(path) => {}
            Ok(metadata) if metadata.is_file() => self.walked.files.push(path.to_path_buf()),
            Ok(_) => {
                let message = "is a pipe, socket or device; skipped, since only files are read from a folder";
                self.report(path, Severity::Warning, "special-file", message);
            }
            Err(error) if is_manifest(path) => {
                self.report(path, Severity::Error, "unreadable-file", explain(path, &error));
            }
            // It may have been meant as a folder of manifests, or have nothing to do with manifests.
            Err(error) => self.report(path, Severity::Warning, "broken-symlink", explain(path, &error)),
        }
    }

    fn report(&mut self, path: &Path, severity: Severity, code: &'static str, message: impl Into<Box<str>>) {
        self.walked.diagnostics.push(about(path, severity, code, message));
    }
}

fn is_manifest(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes());
    name.is_some_and(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end.as_bytes())))
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
