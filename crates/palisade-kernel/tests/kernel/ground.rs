//! What the tests stand on: namespaces, nft, and a word about what was not done.

use std::io::Write as _;
use std::process::{Command, Stdio};

use palisade_kernel::{KernelError, in_fresh_netns};

/// What nft prints. None, and a word about it, if there is no nft.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Option<String> {
    let child = Command::new("nft").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        say("skipped: nft is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "nft {arguments:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Runs something in a fresh network namespace. None, and a word about it, without permission.
pub(crate) fn in_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    match in_fresh_netns(work) {
        Ok(it) => Some(it),
        Err(KernelError::NoPermission) => {
            say("skipped: needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
