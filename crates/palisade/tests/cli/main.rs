//! The binary as a user runs it: arguments and files in, text and exit code out.
//!
//! Whole outputs are compared with golden/. `SNAPSHOTS=overwrite cargo test -p palisade` accepts new ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot write its fixtures has failed")]

mod allow;
mod bad_input;
mod convert;
mod diff;
mod explain;
mod exposure;
mod lab;
mod lint;
mod matrix;
mod misc;
#[path = "../../../palisade-runtime/tests/runtime/mock_api.rs"]
#[expect(dead_code, reason = "shared with the tests of what reads clusters")]
mod mock_api;
mod nft;
mod overrides;
mod status;
mod test;
mod verify;

use std::path::{Path, PathBuf};

use snapbox::cmd::{Command, cargo_bin};

/// Runs palisade at the root of the project, so that paths in outputs are those of the examples.
pub(crate) fn palisade(line: &str) -> Command {
    let arguments = line.split_whitespace();
    Command::new(cargo_bin!("palisade"))
        .current_dir(root())
        .args(arguments)
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .env("HOME", "/nowhere")
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes manifests into a folder of their own.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}
