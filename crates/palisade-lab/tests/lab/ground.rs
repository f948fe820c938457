//! What every test stands on.

use std::io::Write as _;

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

pub(crate) fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").unwrap();
}
