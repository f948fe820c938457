//! One process for one thing in a network namespace.
//!
//! An abstract unix socket belongs to a network namespace and dies with its process, so it is a lock that no crash leaves behind, and whoever
//! finds it taken can ask the kernel by whom.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt};

const AGENT: &str = "palisade-agent";
/// How many of those who asked are let go at a time: more than the kernel lets wait.
const WAITING: usize = 8_192;

/// Held by the one agent of a network namespace.
#[derive(Debug)]
pub struct Lock {
    listener: UnixListener,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("`{name}` is held by process {holder}")]
    Held { name: String, holder: Holder },
    /// So many have asked that the kernel lets nobody else ask.
    #[error("`{name}` is held by a process that answers nobody")]
    HeldBySomebody { name: String },
    #[error("whether somebody holds `{name}` cannot be found out: {error}")]
    Io { name: String, error: io::Error },
}

/// A process at the other end of a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
    pub user: u32,
    /// Its command line, where it can be read.
    pub command: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, self.command.is_empty()) {
            // The kernel numbers nobody whom the asker cannot see.
            (0, _) => write!(f, "of user {} in another process namespace", self.user),
            (pid, true) => write!(f, "{pid}"),
            (pid, false) => write!(f, "{pid} (`{}`)", self.command),
        }
    }
}

impl Lock {
    /// Takes the lock of the calling thread's namespace, or says who has it.
    pub fn take() -> Result<Lock, LockError> {
        let listener = bind(AGENT)?;
        listener.set_nonblocking(true).map_err(|error| LockError::Io { name: AGENT.to_owned(), error })?;
        Ok(Lock { listener })
    }

    /// Lets go of those who asked who holds it. They have their answer, and wait in a queue that would fill up.
    pub(crate) fn let_go(&self) {
        for _ in 0..WAITING {
            if self.listener.accept().is_err() {
                return;
            }
        }
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Takes a name in the calling thread's network namespace for as long as the listener lives, or says who has it.
pub fn bind(name: &str) -> Result<UnixListener, LockError> {
    let failed = |error| LockError::Io { name: name.to_owned(), error };
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match meet(name) {
            Ok(peer) => Err(LockError::Held { name: name.to_owned(), holder: holder(&peer).map_err(failed)? }),
            Err(Errno::EAGAIN) => Err(LockError::HeldBySomebody { name: name.to_owned() }),
            Err(errno) => Err(failed(errno.into())),
        },
        Err(error) => Err(failed(error)),
    }
}

/// Connects without waiting for room in the queue of whoever listens.
fn meet(name: &str) -> Result<UnixStream, Errno> {
    let stream = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    connect(stream.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    Ok(UnixStream::from(stream))
}

/// Who listens at the other end of a stream.
pub fn holder(peer: &UnixStream) -> io::Result<Holder> {
    let credentials = getsockopt(peer, sockopt::PeerCredentials).map_err(io::Error::from)?;
    Ok(Holder { pid: credentials.pid(), user: credentials.uid(), command: command(credentials.pid()) })
}

/// The command line of a process; empty where it cannot be read.
fn command(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        bytes.split(|it| *it == 0).filter(|it| !it.is_empty()).map(|it| String::from_utf8_lossy(it).into_owned()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the kernel lets wait for a listener.
    fn many() -> usize {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        most.trim().parse::<usize>().unwrap() + 100
    }

    fn held(name: &str) -> LockError {
        bind(name).expect_err("it is held")
    }

    #[test]
    fn who_holds_a_name_is_named() {
        let name = format!("palisade-test-named-{}", std::process::id());
        let first = bind(&name).unwrap();
        let own = command(std::process::id().cast_signed());
        assert!(!own.is_empty());
        let expected = format!("`{name}` is held by process {} (`{own}`)", std::process::id());
        assert_eq!(held(&name).to_string(), expected);
        drop(first);
        bind(&name).unwrap();
    }

    #[test]
    fn a_holder_that_answers_nobody_keeps_nobody_waiting() {
        let name = format!("palisade-test-silent-{}", std::process::id());
        let _first = bind(&name).unwrap();
        let named = (0..many()).take_while(|_| matches!(held(&name), LockError::Held { .. })).count();
        assert!((1..many()).contains(&named), "{named}");
        assert_eq!(held(&name).to_string(), format!("`{name}` is held by a process that answers nobody"));
    }

    #[test]
    fn a_lock_names_its_holder_however_often_it_is_asked() {
        let name = format!("palisade-test-many-{}", std::process::id());
        let lock = Lock { listener: bind(&name).unwrap() };
        lock.listener.set_nonblocking(true).unwrap();
        for at in 0..many() {
            assert!(matches!(held(&name), LockError::Held { .. }), "{at}");
            if at % 64 == 0 {
                lock.let_go();
            }
        }
    }

    #[test]
    fn a_holder_without_a_number_or_a_command_is_told_by_what_is_known() {
        let holder = |pid, command: &str| Holder { pid, user: 7, command: command.to_owned() }.to_string();
        assert_eq!(holder(0, ""), "of user 7 in another process namespace");
        assert_eq!(holder(12, ""), "12");
        assert_eq!(holder(12, "a b"), "12 (`a b`)");
    }
}
