//! What every test stands on.

use palisade_kernel::{KernelError, Namespace};

/// Whether labs can be made here; says so if not.
pub(crate) fn is_root() -> bool {
    match Namespace::create() {
        Ok(_) => true,
        Err(KernelError::NoPermission) => {
            say("skipped: needs root");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a test that did nothing says so")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
