//! A netlink socket for requests that are each acknowledged, and for questions with one or many answers.
//!
//! It knows the frame of a message and nothing of what is in it.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, getsockname, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use palisade_netlink::{Message, field, messages};

use crate::error::KernelError;

/// Seconds without any answer. The kernel answers before `send` returns, so any wait at all is a fault.
const PATIENCE: u64 = 10;
/// Seconds for the whole of an answer.
const LIMIT: u64 = 60;
/// The kernel fills a datagram of a dump up to 32 KiB.
const REPLY: usize = 64 * 1024;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_DUMP_INTR`.
const INTERRUPTED: u16 = 0x10;

/// A socket in the network namespace of the thread that opened it, usable from any thread.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
    /// Its own address.
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A message of an answer: its type and what follows the header.
pub(crate) type Reply = (u16, Vec<u8>);

/// How an answer ended, other than by a fault of the socket.
#[derive(Debug)]
pub(crate) enum Ended {
    Complete(Vec<Reply>),
    Refused(Errno),
    /// The kernel says that what it told is not of one state.
    Interrupted,
}

/// What shows that an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// An acknowledgement, or the end of many answers.
    End,
    /// The first answer.
    One,
}

impl Channel {
    pub(crate) fn open(protocol: SockProtocol) -> Result<Channel, KernelError> {
        let fd =
            socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).map_err(failed("open a netlink socket"))?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(failed("bind a netlink socket"))?;
        let patience = TimeVal::new(i64::try_from(PATIENCE).unwrap_or(i64::MAX), 0);
        setsockopt(&fd, sockopt::ReceiveTimeout, &patience).map_err(failed("set the patience of a netlink socket"))?;
        let own: NetlinkAddr = getsockname(fd.as_raw_fd()).map_err(failed("read the address of a netlink socket"))?;
        Ok(Channel { fd, port: own.pid(), sequence: 0, buffer: vec![0; REPLY] })
    }

    /// Hears from now on what the kernel tells everyone in these groups, and nothing else: one bit each, that of group 1 the lowest.
    pub(crate) fn hear(&self, groups: u32) -> Result<(), KernelError> {
        bind(self.fd.as_raw_fd(), &NetlinkAddr::new(self.port, groups)).map_err(failed("choose what a netlink socket hears"))
    }

    /// The number of the next message.
    pub(crate) fn next(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), KernelError> {
        match send(self.fd.as_raw_fd(), bytes, MsgFlags::empty()) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) => Err(KernelError::Socket { doing: "send a whole request", errno: Errno::EMSGSIZE }),
            Err(Errno::ENOBUFS) => Err(KernelError::Overrun),
            Err(errno) => Err(failed("send to the kernel")(errno)),
        }
    }

    /// Waits until the message of that number is acknowledged and the kernel has told something, in whatever order.
    pub(crate) fn hear_of(&mut self, sequence: u32, mut is_it: impl FnMut(&Message<'_>) -> bool) -> Result<Ended, KernelError> {
        let deadline = Instant::now() + Duration::from_secs(LIMIT);
        let (mut acknowledged, mut told) = (false, false);
        while Instant::now() < deadline {
            for message in receive(&self.fd, &mut self.buffer)? {
                if message.kind == ERROR && message.sequence == sequence {
                    if let Some(errno) = errno(&message)? {
                        return Ok(Ended::Refused(errno));
                    }
                    acknowledged = true;
                } else {
                    told |= is_it(&message);
                }
            }
            if acknowledged && told {
                return Ok(Ended::Complete(Vec::new()));
            }
        }
        Err(KernelError::Timeout(LIMIT))
    }

    /// The answer to the message of that number. Answers to others are left out: whoever asked has given up on them.
    pub(crate) fn answer(&mut self, sequence: u32, awaits: Awaits) -> Result<Ended, KernelError> {
        let deadline = Instant::now() + Duration::from_secs(LIMIT);
        let mut replies = Vec::new();
        let mut interrupted = false;
        while Instant::now() < deadline {
            for message in receive(&self.fd, &mut self.buffer)?.iter().filter(|it| it.sequence == sequence) {
                interrupted |= message.flags & INTERRUPTED != 0;
                match (message.kind, awaits) {
                    (ERROR | DONE, _) => {
                        return match errno(message)? {
                            Some(Errno::EINTR) => Ok(Ended::Interrupted),
                            Some(errno) => Ok(Ended::Refused(errno)),
                            None if interrupted => Ok(Ended::Interrupted),
                            None => Ok(Ended::Complete(replies)),
                        };
                    }
                    (kind, Awaits::One) => return Ok(Ended::Complete(vec![(kind, message.payload.to_vec())])),
                    (kind, Awaits::End) => replies.push((kind, message.payload.to_vec())),
                }
            }
        }
        Err(KernelError::Timeout(LIMIT))
    }
}

/// The messages of the next datagram; none if a signal came first.
fn receive<'a>(fd: &OwnedFd, buffer: &'a mut [u8]) -> Result<Vec<Message<'a>>, KernelError> {
    let length = match recv(fd.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC) {
        Ok(length) => length,
        Err(Errno::EINTR) => return Ok(Vec::new()),
        Err(Errno::EAGAIN) => return Err(KernelError::Timeout(PATIENCE)),
        Err(Errno::ENOBUFS) => return Err(KernelError::Overrun),
        Err(errno) => return Err(failed("receive from the kernel")(errno)),
    };
    let datagram = buffer.get(..length).ok_or_else(|| KernelError::Truncated(format!("{length} bytes do not fit {REPLY}")))?;
    messages(datagram).map_err(|odd| KernelError::Truncated(odd.0))
}

/// What an error or the end of many answers says; nothing if all went well.
fn errno(message: &Message<'_>) -> Result<Option<Errno>, KernelError> {
    let code = field(message.payload, 0).map(i32::from_ne_bytes);
    let code = code.ok_or_else(|| KernelError::Truncated("an error without a number".to_owned()))?;
    Ok((code != 0).then(|| Errno::from_raw(code.saturating_neg())))
}

fn failed(doing: &'static str) -> impl Fn(Errno) -> KernelError {
    move |errno| if errno == Errno::EPERM { KernelError::NoPermission } else { KernelError::Socket { doing, errno } }
}
