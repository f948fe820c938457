//! Whether namespaces are gone, though nobody holds them any more.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;
use palisade_kernel::{Links, Namespace};

/// Longer than the kernel takes to clean up after anything.
const DEADLINE: Duration = Duration::from_secs(60);

/// A namespace with a link into each that is watched: a link goes with its other end, and that with its namespace.
pub(crate) struct Watch {
    links: Links,
    /// Tells of each change of a link.
    news: OwnedFd,
    watched: usize,
}

impl Watch {
    pub(crate) fn create() -> Watch {
        let open = || {
            let news = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).unwrap();
            // The first group is that of links.
            bind(news.as_raw_fd(), &NetlinkAddr::new(0, 1)).unwrap();
            setsockopt(&news, sockopt::ReceiveTimeout, &TimeVal::new(1, 0)).unwrap();
            (Links::open().unwrap(), news)
        };
        // The sockets keep the namespace.
        let (links, news) = Namespace::create().unwrap().run(open).unwrap();
        Watch { links, news, watched: 0 }
    }

    pub(crate) fn on(&mut self, namespace: &Namespace) {
        self.watched += 1;
        self.links.add_veth(&format!("watch{}", self.watched), "watch", namespace).unwrap();
    }

    /// Waits until every namespace that is watched is gone.
    pub(crate) fn await_end(mut self) {
        let deadline = Instant::now() + DEADLINE;
        let mut buffer = [0; 65_536];
        loop {
            let left = self.links.list().unwrap().iter().filter(|it| it.name.starts_with("watch")).count();
            if left == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "{left} of {} namespaces are left", self.watched);
            // Whatever it says, even that some was lost, the answer is to look again.
            if let Err(errno) = recv(self.news.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                assert!([Errno::EAGAIN, Errno::EINTR, Errno::ENOBUFS].contains(&errno), "{errno}");
            }
        }
    }
}
