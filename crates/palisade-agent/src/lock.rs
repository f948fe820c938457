//! One agent for one network namespace.
//!
//! An abstract unix socket belongs to a network namespace and dies with its process, so it is a lock that no crash leaves behind.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt};

const NAME: &str = "palisade-agent";

/// Held by the one agent of a network namespace.
#[derive(Debug)]
pub struct Lock {
    _listener: UnixListener,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another Palisade has this network namespace: process {0}")]
    Held(Holder),
    #[error("cannot find out whether another Palisade has this network namespace: {0}")]
    Io(#[from] io::Error),
}

/// The process that has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
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
        let address = SocketAddr::from_abstract_name(NAME)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Lock { _listener: listener }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let peer = UnixStream::connect_addr(&address)?;
                let credentials = getsockopt(&peer, sockopt::PeerCredentials).map_err(io::Error::from)?;
                Err(LockError::Held(Holder { pid: credentials.pid(), command: command(credentials.pid()) }))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The command line of a process; empty where it cannot be read.
fn command(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        bytes.split(|it| *it == 0).filter(|it| !it.is_empty()).map(|it| String::from_utf8_lossy(it).into_owned()).collect();
    words.join(" ")
}
