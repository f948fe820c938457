//! That something about the links changed, or about what classifies their packets, as the kernel tells it.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

use crate::error::KernelError;

/// `RTNLGRP_LINK` is group 1, `RTNLGRP_TC` group 4.
const GROUPS: u32 = 1 | 1 << 3;
/// `RTNLGRP_IPV4_ROUTE` is group 7, `RTNLGRP_IPV6_ROUTE` group 11.
const ROUTE_GROUPS: u32 = 1 | 1 << 6 | 1 << 10;
/// How many datagrams one look takes.
const DATAGRAMS: usize = 4_096;

/// Hears of changes in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
}

/// Whether something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stirred {
    Yes,
    No,
}

impl Watch {
    pub fn open() -> Result<Watch, KernelError> {
        Watch::of(GROUPS)
    }

    /// Hears of links and routes.
    pub fn of_routes() -> Result<Watch, KernelError> {
        Watch::of(ROUTE_GROUPS)
    }

    fn of(groups: u32) -> Result<Watch, KernelError> {
        let failed = |doing| move |errno| KernelError::Socket { doing, errno };
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)
            .map_err(failed("open a netlink socket"))?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(failed("bind a netlink socket"))?;
        Ok(Watch { fd })
    }

    /// Takes what was told so far, without waiting. What the kernel had to drop is a change as well.
    pub fn stirred(&mut self) -> Result<Stirred, KernelError> {
        let mut stirred = Stirred::No;
        // What a message says does not matter, so it may be cut short.
        let mut buffer = [0; 64];
        for _ in 0..DATAGRAMS {
            match recv(self.fd.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS) => stirred = Stirred::Yes,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(KernelError::Socket { doing: "hear of links", errno }),
            }
        }
        Ok(stirred)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
