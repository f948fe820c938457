//! A netlink socket to netfilter: sends transactions and questions, and reads answers for a bounded time.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, getsockname, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use palisade_netlink::{Header, Message, Odd, Writer, field, messages};
use palisade_nft::uapi::{flag, message};
use palisade_nft::{Encoded, Object};

use crate::error::{KernelError, Refusal};

/// Seconds without any answer. The kernel answers before `send` returns, so any wait at all is a fault.
const PATIENCE: u64 = 10;
/// Seconds for the whole of an answer. The time of a dump grows with the square of a map: half a million addresses take over ten.
const LIMIT: u64 = 60;
/// A reply quotes the message that it refuses, and one message of elements has almost 64 KiB.
const REPLY: usize = 256 * 1024;
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;
/// A transaction is one datagram and must fit the send buffer with some room.
const SEND_BUFFER: usize = 16 * 1024 * 1024;

/// How many datagrams of an answer that was given up are read before the next question. A dump of half a million addresses has fewer.
const LEFTOVERS: usize = 16 * 1024;

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    port: u32,
    sequence: u32,
    send_buffer: usize,
    /// It may grow up to this.
    most_to_send: usize,
    buffer: Vec<u8>,
    unread: Unread,
}

/// Whether a part of an answer may still wait to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Nothing,
    /// An answer was given up: as long as a dump is not read to its end, the kernel refuses the next (EBUSY).
    Leftovers,
}

/// Whether an answer is complete.
enum Answer {
    More,
    Complete,
}

/// The head of a question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) family: u8,
    pub(crate) resource: u16,
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The kernel refused it.
    Refused(Errno),
    /// Something in it is longer than can be said.
    TooLong,
    Failed(KernelError),
}

/// What a socket had that nobody asked for.
#[derive(Debug)]
pub(crate) enum Unasked<'a> {
    Datagram(&'a [u8]),
    /// The kernel dropped some. It says so once, and goes on dropping until everything that is there was taken.
    Overrun,
    Nothing,
}

impl Socket {
    pub(crate) fn open() -> Result<Socket, KernelError> {
        Socket::open_to(0, RECEIVE_BUFFER)
    }

    /// A socket that also hears what the kernel tells everyone: `groups` has one bit for each group, that of group 1 the lowest.
    pub(crate) fn open_to(groups: u32, receive_buffer: usize) -> Result<Socket, KernelError> {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)
            .map_err(failed("open a netlink socket"))?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(failed("bind a netlink socket"))?;
        let patience = TimeVal::new(i64::try_from(PATIENCE).unwrap_or(i64::MAX), 0);
        setsockopt(&fd, sockopt::ReceiveTimeout, &patience).map_err(failed("set the patience of a netlink socket"))?;
        setsockopt(&fd, sockopt::RcvBufForce, &receive_buffer).map_err(failed("set the receive buffer"))?;
        let own: NetlinkAddr = getsockname(fd.as_raw_fd()).map_err(failed("read the address of a netlink socket"))?;
        Ok(Socket {
            fd,
            port: own.pid(),
            sequence: 1,
            send_buffer: 0,
            most_to_send: usize::MAX,
            buffer: vec![0; REPLY],
            unread: Unread::Nothing,
        })
    }

    /// The same with a send buffer that does not grow beyond some bytes.
    pub(crate) fn limited_to(self, most_to_send: usize) -> Socket {
        Socket { most_to_send, ..self }
    }

    /// The number that the kernel knows it by.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// The number that the next message must have.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Sends a transaction and reads until its last message is acknowledged, or the whole was refused.
    pub(crate) fn commit(&mut self, batch: &Encoded) -> Result<(), KernelError> {
        let count = u32::try_from(batch.objects.len()).unwrap_or(u32::MAX);
        // The end of the transaction has a number too.
        self.sequence = batch.first.wrapping_add(count).wrapping_add(1);
        self.send(&batch.bytes)?;
        let mut refusals: Vec<Refusal> = Vec::new();
        let last = batch.objects.len().saturating_sub(1);
        let result = self.receive(|message| {
            let at = usize::try_from(message.sequence.wrapping_sub(batch.first)).unwrap_or(usize::MAX);
            let Some(object) = batch.objects.get(at) else { return Ok(Answer::More) };
            if message.kind != message::ERROR {
                return Ok(Answer::More);
            }
            if let Some(errno) = errno(message)? {
                refusals.push(Refusal { object: object.clone(), errno });
            }
            Ok(if at == 0 || at == last { Answer::Complete } else { Answer::More })
        });
        // What was refused says more than that the rest of the answer was lost.
        match (result, refusals.first()) {
            (result, None) => result,
            (_, Some(Refusal { object: Object::Batch, errno: Errno::EPERM })) => Err(KernelError::NoPermission),
            (_, Some(Refusal { object: Object::Batch, errno: errno @ Errno::EOPNOTSUPP })) => Err(KernelError::NoSupport(*errno)),
            (_, Some(_)) => Err(KernelError::Refused(refusals)),
        }
    }

    /// Asks one question about tables of an address family, and gives the payloads of the answer. `object` is what the question is about.
    pub(crate) fn ask(
        &mut self,
        family: u8,
        object: Object,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut Writer),
    ) -> Result<Vec<Vec<u8>>, KernelError> {
        let mut payloads = Vec::new();
        let answer = self.each(Question { kind, flags, family, resource: 0 }, body, |payload| {
            payloads.push(payload.to_vec());
            Ok(())
        });
        match answer {
            Ok(()) => Ok(payloads),
            Err(Unanswered::Refused(Errno::EPERM)) => Err(KernelError::NoPermission),
            Err(Unanswered::Refused(errno)) => Err(KernelError::Refused(vec![Refusal { object, errno }])),
            Err(Unanswered::TooLong) => Err(KernelError::Unwritable { object, what: "its name is too long".to_owned() }),
            Err(Unanswered::Failed(error)) => Err(error),
        }
    }

    /// Asks one question, and gives the payloads of the answer one by one. What is given before `Unsteady` is not of one state.
    pub(crate) fn each(
        &mut self,
        question: Question,
        body: impl FnOnce(&mut Writer),
        mut take: impl FnMut(&[u8]) -> Result<(), Odd>,
    ) -> Result<(), Unanswered> {
        let Question { kind, flags, family, resource } = question;
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let mut writer = Writer::default();
        writer.message(Header { kind, flags: flag::REQUEST | flags, sequence, family, resource }, body);
        self.send(&writer.finish().map_err(|_| Unanswered::TooLong)?).map_err(Unanswered::Failed)?;
        let (mut refused, mut useless) = (None, None);
        let read = self.receive(|message| {
            if message.sequence != sequence {
                return Ok(Answer::More);
            }
            if message.flags & flag::INTERRUPTED != 0 {
                useless = Some(KernelError::Unsteady(1));
            }
            match message.kind {
                message::ERROR | message::DONE => {
                    refused = errno(message)?;
                    Ok(Answer::Complete)
                }
                // An answer is read to its end even when it is of no use: the kernel refuses a second dump while one goes on.
                _ => {
                    if useless.is_none() {
                        useless = take(message.payload).err().map(|odd| KernelError::Truncated(odd.0));
                    }
                    Ok(Answer::More)
                }
            }
        });
        match (read, refused, useless) {
            (Err(error), ..) | (Ok(()), None, Some(error)) => Err(Unanswered::Failed(error)),
            (Ok(()), Some(Errno::EINTR), _) => Err(Unanswered::Failed(KernelError::Unsteady(1))),
            (Ok(()), Some(errno), _) => Err(Unanswered::Refused(errno)),
            (Ok(()), None, None) => Ok(()),
        }
    }

    /// Tells something of each item, in one datagram, and gives what the kernel refused, by the place of the item. Those after it are heard
    /// all the same.
    pub(crate) fn tell<T>(
        &mut self,
        items: &[T],
        question: impl Fn(&T) -> Question,
        body: impl Fn(&mut Writer, &T),
    ) -> Result<BTreeMap<usize, Errno>, Unanswered> {
        let first = self.sequence;
        let mut writer = Writer::default();
        for (at, item) in items.iter().enumerate() {
            let Question { kind, flags, family, resource } = question(item);
            // The kernel says nothing of what goes well, but for the last.
            let ack = if at + 1 == items.len() { flag::ACK } else { 0 };
            let header = Header { kind, flags: flag::REQUEST | flags | ack, sequence: self.sequence, family, resource };
            writer.message(header, |writer| body(writer, item));
            self.sequence = self.sequence.wrapping_add(1);
        }
        let mut refused = BTreeMap::new();
        if items.is_empty() {
            return Ok(refused);
        }
        self.send(&writer.finish().map_err(|_| Unanswered::TooLong)?).map_err(Unanswered::Failed)?;
        let read = self.receive(|message| {
            let at = usize::try_from(message.sequence.wrapping_sub(first)).unwrap_or(usize::MAX);
            if at >= items.len() || message.kind != message::ERROR {
                return Ok(Answer::More);
            }
            let errno = errno(message)?;
            refused.extend(errno.map(|errno| (at, errno)));
            // Without permission nothing after it is read.
            Ok(if at + 1 == items.len() || errno == Some(Errno::EPERM) { Answer::Complete } else { Answer::More })
        });
        read.map(|()| refused).map_err(Unanswered::Failed)
    }

    /// Waits until there is something that nobody asked for, or the patience ends.
    pub(crate) fn wait(&self, patience: Duration) -> Result<(), KernelError> {
        let start = Instant::now();
        loop {
            // Rounded up: a wait of less than a millisecond would not wait.
            let left = patience.saturating_sub(start.elapsed()).saturating_add(Duration::from_micros(999));
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)], timeout) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed("wait for the kernel")(errno)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// The next thing that nobody asked for, without waiting.
    pub(crate) fn unasked(&mut self) -> Result<Unasked<'_>, KernelError> {
        let length = loop {
            match recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT) {
                Ok(length) => break length,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(Unasked::Nothing),
                Err(Errno::ENOBUFS) => return Ok(Unasked::Overrun),
                Err(errno) => return Err(failed("receive from the kernel")(errno)),
            }
        };
        let too_long = || KernelError::Truncated(format!("{length} bytes do not fit {REPLY}"));
        self.buffer.get(..length).map(Unasked::Datagram).ok_or_else(too_long)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), KernelError> {
        if self.unread == Unread::Leftovers {
            self.clear();
        }
        let wanted = SEND_BUFFER.max(bytes.len().saturating_mul(2)).min(self.most_to_send);
        if self.send_buffer < wanted {
            setsockopt(&self.fd, sockopt::SndBufForce, &wanted).map_err(failed("set the send buffer"))?;
            self.send_buffer = wanted;
        }
        match send(self.fd.as_raw_fd(), bytes, MsgFlags::empty()) {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) => Err(KernelError::Socket { doing: "send a whole transaction", errno: Errno::EMSGSIZE }),
            // ENOBUFS too: there is no memory to send with, and nothing was sent.
            Err(errno) => Err(failed("send to the kernel")(errno)),
        }
    }

    /// Reads the rest of an answer that was given up.
    fn clear(&mut self) {
        for _ in 0..LEFTOVERS {
            match recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(_) => {
                    self.unread = Unread::Nothing;
                    return;
                }
            }
        }
    }

    fn receive(&mut self, take: impl FnMut(&Message<'_>) -> Result<Answer, KernelError>) -> Result<(), KernelError> {
        let received = self.receive_all(take);
        if received.is_err() {
            self.unread = Unread::Leftovers;
        }
        received
    }

    fn receive_all(&mut self, mut take: impl FnMut(&Message<'_>) -> Result<Answer, KernelError>) -> Result<(), KernelError> {
        let deadline = Instant::now() + Duration::from_secs(LIMIT);
        while Instant::now() < deadline {
            let length = match recv(self.fd.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_TRUNC) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Err(KernelError::Timeout(PATIENCE)),
                Err(Errno::ENOBUFS) => return Err(KernelError::Overrun),
                Err(errno) => return Err(failed("receive from the kernel")(errno)),
            };
            let datagram = self.buffer.get(..length).ok_or_else(|| KernelError::Truncated(format!("{length} bytes do not fit {REPLY}")))?;
            for message in messages(datagram).map_err(|odd| KernelError::Truncated(odd.0))? {
                match take(&message)? {
                    Answer::Complete => return Ok(()),
                    Answer::More => {}
                }
            }
        }
        Err(KernelError::Timeout(LIMIT))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether netfilter says so when nothing answers for a subsystem: to a question, and to a transaction.
pub(crate) fn is_no_support(errno: Errno) -> bool {
    [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::EPROTONOSUPPORT, Errno::EAFNOSUPPORT].contains(&errno)
}

/// What an error or the end of a dump says; nothing if all went well.
fn errno(message: &Message<'_>) -> Result<Option<Errno>, KernelError> {
    let code = field(message.payload, 0).map(i32::from_ne_bytes);
    let code = code.ok_or_else(|| KernelError::Truncated("an error without a number".to_owned()))?;
    Ok((code != 0).then(|| Errno::from_raw(code.saturating_neg())))
}

fn failed(doing: &'static str) -> impl Fn(Errno) -> KernelError {
    move |errno| {
        if errno == Errno::EPERM {
            KernelError::NoPermission
        } else if [Errno::EPROTONOSUPPORT, Errno::EAFNOSUPPORT].contains(&errno) {
            KernelError::NoSupport(errno)
        } else {
            KernelError::Socket { doing, errno }
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_nft::uapi::INET;
    use palisade_nft::{Chain, Expected, Ruleset, Transaction, encode};

    use super::*;
    use crate::namespace::in_fresh_netns;

    #[test]
    fn what_the_system_says_of_a_socket_becomes_a_sentence() {
        let cases = [
            (Errno::EPERM, KernelError::NoPermission),
            (Errno::EPROTONOSUPPORT, KernelError::NoSupport(Errno::EPROTONOSUPPORT)),
            (Errno::EAFNOSUPPORT, KernelError::NoSupport(Errno::EAFNOSUPPORT)),
            (Errno::EMFILE, KernelError::Socket { doing: "open a netlink socket", errno: Errno::EMFILE }),
            (Errno::ENOBUFS, KernelError::Socket { doing: "open a netlink socket", errno: Errno::ENOBUFS }),
        ];
        for (errno, expected) in cases {
            assert_eq!(failed("open a netlink socket")(errno), expected);
        }
        let text = KernelError::NoSupport(Errno::EPROTONOSUPPORT).to_string();
        assert_eq!(text, "the kernel has no nf_tables (EPROTONOSUPPORT: Protocol not supported)");
    }

    fn list_chains(writer: &mut Writer) {
        writer.text(1, "palisade");
    }

    /// The kernel goes on with a dump only as it is read.
    #[test]
    fn a_dump_that_was_given_up_does_not_stand_in_the_way_of_the_next() {
        let work = || {
            let mut socket = Socket::open().unwrap();
            let chains = (0..4_000).map(|it| (format!("chain-{it}"), Chain::default())).collect();
            let transaction = Transaction::load(&Ruleset { chains, ..Ruleset::default() });
            socket.commit(&encode(&transaction, socket.sequence(), Expected::Anything).unwrap()).unwrap();
            for (unread, expected) in [(Unread::Leftovers, Ok(4_000)), (Unread::Nothing, Err(Errno::EBUSY))] {
                let mut writer = Writer::default();
                let header = Header { kind: message::GET_CHAIN, flags: flag::REQUEST | flag::DUMP, sequence: 0, family: INET, resource: 0 };
                writer.message(header, list_chains);
                socket.send(&writer.finish().unwrap()).unwrap();
                assert_eq!(socket.receive(|_| Err(KernelError::Timeout(LIMIT))), Err(KernelError::Timeout(LIMIT)));
                socket.unread = unread;
                let answer = socket.ask(INET, Object::Table, message::GET_CHAIN, flag::DUMP, list_chains).map(|it| it.len());
                let refused = |errno| KernelError::Refused(vec![Refusal { object: Object::Table, errno }]);
                assert_eq!(answer, expected.map_err(refused), "{unread:?}");
            }
        };
        match in_fresh_netns(work) {
            Ok(()) | Err(KernelError::NoPermission) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
