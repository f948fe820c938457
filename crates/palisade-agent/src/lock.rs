//! One process for one thing in a network namespace.
//!
//! An abstract unix socket belongs to a network namespace and dies with its process, so it is a lock that no crash leaves behind, and whoever
//! finds it taken can ask the kernel by whom.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt};

const AGENT: &str = "palisade-agent";

/// Held by the one agent of a network namespace.
#[derive(Debug)]
pub struct Lock {
    _listener: UnixListener,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("`{name}` is held by process {holder}")]
    Held { name: String, holder: Holder },
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
        match self.command.is_empty() {
            true => write!(f, "{}", self.pid),
            false => write!(f, "{} (`{}`)", self.pid, self.command),
        }
    }
}

impl Lock {
    /// Takes the lock of the calling thread's namespace, or says who has it.
    pub fn take() -> Result<Lock, LockError> {
        bind(AGENT).map(|listener| Lock { _listener: listener })
    }
}

/// Takes a name in the calling thread's network namespace for as long as the listener lives, or says who has it.
pub fn bind(name: &str) -> Result<UnixListener, LockError> {
    let failed = |error| LockError::Io { name: name.to_owned(), error };
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let peer = UnixStream::connect_addr(&address).map_err(failed)?;
            Err(LockError::Held { name: name.to_owned(), holder: holder(&peer).map_err(failed)? })
        }
        Err(error) => Err(failed(error)),
    }
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
