//! Network namespaces without a name: one is gone with its last handle, socket and process.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Attempt, KernelError, NetworkObject};

/// The namespace of whoever reads it.
const OWN: &str = "/proc/thread-self/ns/net";

/// A handle of a network namespace. It keeps the namespace alive.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
}

/// What tells a namespace from all others, as long as a handle of it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId(u64);

impl Namespace {
    /// A fresh namespace with nothing but a loopback that is down. The caller stays where it is.
    pub fn create() -> Result<Namespace, KernelError> {
        apart(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(refused(Attempt::Add, "a fresh one"))?;
            Namespace::current()
        })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Namespace, KernelError> {
        handle(Path::new(OWN))
    }

    /// The namespace that a file stands for: `/proc/PID/ns/net`, or one of `/run/netns`.
    pub fn open(path: &Path) -> Result<Namespace, KernelError> {
        let namespace = handle(path)?;
        // Any file can be opened, but only a network namespace can be entered.
        apart(|| setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(refused(Attempt::Enter, &path.display().to_string())))?;
        Ok(namespace)
    }

    /// Runs something in a thread of its own inside. Threads and processes that it starts live there too. A panic goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
        apart(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Moves the calling thread, and only that, here. Who is here already needs no permission.
    pub fn enter(&self) -> Result<(), KernelError> {
        if Namespace::current()?.id()? == self.id()? {
            return Ok(());
        }
        setns(self, CloneFlags::CLONE_NEWNET).map_err(|errno| {
            let name = self.id().map_or_else(|_| "of a handle".to_owned(), |id| id.to_string());
            refused(Attempt::Enter, &name)(errno)
        })
    }

    pub fn id(&self) -> Result<NamespaceId, KernelError> {
        let metadata = self.handle.metadata().map_err(|error| refused(Attempt::Read, "of a handle")(errno(error)))?;
        Ok(NamespaceId(metadata.ino()))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}]", self.0)
    }
}

/// Runs something in a thread of its own that lives in a fresh network namespace. Processes that it starts live there too. A panic
/// goes on in the caller.
pub fn in_fresh_netns<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    Namespace::create()?.run(work)
}

/// What the system says went wrong with a file.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::try_from(error).unwrap_or(Errno::UnknownErrno)
}

fn handle(path: &Path) -> Result<Namespace, KernelError> {
    let handle = File::open(path).map_err(|error| refused(Attempt::Find, &path.display().to_string())(errno(error)))?;
    Ok(Namespace { handle })
}

fn refused(attempt: Attempt, name: &str) -> impl Fn(Errno) -> KernelError {
    move |errno| KernelError::refused(attempt, NetworkObject::Namespace(name.to_owned()), errno)
}

/// Runs something in a thread of its own, so that a change of namespace ends with it.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, KernelError> + Send) -> Result<T, KernelError> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
