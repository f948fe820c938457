//! A network namespace of one's own, for tests: what is loaded there is gone with the thread.

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

use crate::error::KernelError;

/// Runs something in a thread of its own that lives in a fresh network namespace. Processes that it starts live there too. A panic
/// goes on in the caller.
pub fn in_fresh_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    let entered = || match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => Ok(work()),
        Err(Errno::EPERM) => Err(KernelError::NoPermission),
        Err(errno) => Err(KernelError::Namespace(errno.to_string())),
    };
    std::thread::scope(|scope| match scope.spawn(entered).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
