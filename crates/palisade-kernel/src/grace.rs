//! Waiting until every packet that is on its way has left.
//!
//! Packets go through tables inside read-side critical sections of RCU. When a grace period of that has passed, no packet is left that read
//! anything from before.

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::KernelError;

/// Waits until every packet that is on its way, in any network namespace, has left. Some milliseconds.
///
/// `membarrier` waits for a grace period on machines with several CPUs. With one CPU it returns at once, and with CPUs that run without a tick
/// it is refused; then a packet socket is opened and closed, which the kernel does not do without one.
pub fn grace() -> Result<(), KernelError> {
    match several_cpus().then(membarrier) {
        Some(Ok(())) => Ok(()),
        None | Some(Err(_)) => closed_packet_socket(),
    }
}

/// Whether several CPUs of the machine are online: `0-7` or `0,2`.
fn several_cpus() -> bool {
    std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|it| it.contains(['-', ',']))
}

#[expect(unsafe_code, reason = "neither nix nor rustix has membarrier")]
fn membarrier() -> Result<(), Errno> {
    /// `MEMBARRIER_CMD_GLOBAL`.
    const GLOBAL: libc::c_int = 1;
    let none: libc::c_int = 0;
    // SAFETY: the call takes numbers only and touches no memory of this process.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, none, none) };
    Errno::result(done).map(drop)
}

/// The kernel waits for a grace period when it closes one.
fn closed_packet_socket() -> Result<(), KernelError> {
    let opened = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    opened.map(drop).map_err(KernelError::Grace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_way_is_there() {
        grace().unwrap();
        if nix::unistd::geteuid().is_root() {
            closed_packet_socket().unwrap();
            membarrier().unwrap();
        }
    }
}
