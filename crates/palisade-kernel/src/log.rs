//! Packets that rules with `log group` copy out of the kernel, as NFLOG gives them.
//!
//! The kernel numbers the packets of a group from 0, starting when a reader takes the group: no more than one can, so every gap is a
//! loss, the first number included. A loss is known with the next packet that comes through.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use palisade_netlink::{AttributesOneByOne, Message, Messages, Odd, field};
use palisade_nft::uapi::flag;

use crate::error::KernelError;
use crate::socket::{Question, Socket, Unanswered, Unasked};

/// How many datagrams one `read` takes, each of up to `LogOptions::queue_threshold` packets: under a flood, what can be read within some
/// hundredths of a second.
const DATAGRAMS: usize = 32;

/// The only reader of one NFLOG group, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Log {
    socket: Socket,
    /// The number that the next packet has if none is lost.
    next: u32,
}

/// How packets are copied and kept until they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// How many bytes of a packet are copied, from its network header on: 1 to 65,535.
    pub copy_range: u32,
    /// So many packets are handed over together.
    pub queue_threshold: u32,
    /// Bytes of the kernel's buffer for packets that are handed over together: 4,096 to 131,072.
    pub kernel_buffer: u32,
    /// Bytes that may wait for the reader.
    pub receive_buffer: usize,
    /// After so long packets are handed over though they are few. The kernel counts in 10 ms; a part of that is rounded up.
    pub flush_after: Duration,
}

/// Large enough for a denied flood, and prompt for a single packet.
impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            copy_range: 256,
            queue_threshold: 256,
            kernel_buffer: 128 * 1024,
            receive_buffer: 64 * 1024 * 1024,
            flush_after: Duration::from_millis(10),
        }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged<'a> {
    /// What the rule puts in front; its readable beginning if a part is no text.
    pub prefix: &'a str,
    /// `NFPROTO_IPV4` (2) or `NFPROTO_IPV6` (10).
    pub family: u8,
    /// `NF_INET_LOCAL_IN` (1), `NF_INET_FORWARD` (2) and so on.
    pub hook: u8,
    /// The interface that it came from, by index.
    pub input: Option<u32>,
    /// The interface that it would leave by.
    pub output: Option<u32>,
    /// The packet from its network header on, cut at the copy range.
    pub payload: &'a [u8],
    /// Its number in the group. None only in the moment in which the group is taken.
    pub sequence: Option<u32>,
}

/// What one `read` met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Packets that were given.
    pub events: u64,
    /// Packets that were logged before one of these and never came.
    pub lost: u64,
    /// How often the kernel said that it drops packets. It says so once for any number of them.
    pub overruns: u64,
}

impl Log {
    /// Takes the group. `LogTaken` if somebody else has it.
    pub fn open(group: u16, options: LogOptions) -> Result<Log, KernelError> {
        options.check(group)?;
        let mut socket = Socket::open_to(0, options.receive_buffer)?;
        let kind = uapi::SUBSYSTEM << 8 | uapi::CONFIG;
        let question = Question { kind, flags: flag::ACK, family: 0, resource: group };
        // One message: the group exists with its numbering from the start.
        let answer = socket.each(
            question,
            |writer| {
                let [a, b, c, d] = options.copy_range.to_be_bytes();
                writer.bytes(uapi::COMMAND, &[uapi::BIND]);
                writer.bytes(uapi::MODE, &[a, b, c, d, uapi::COPY_PACKET, 0]);
                writer.u32(uapi::BUFFER_SIZE, options.kernel_buffer);
                writer.u32(uapi::TIMEOUT, options.flush_hundredths());
                writer.u32(uapi::QUEUE_THRESHOLD, options.queue_threshold);
                writer.bytes(uapi::FLAGS, &uapi::NUMBERED.to_be_bytes());
            },
            |_| Ok(()),
        );
        match answer {
            Ok(()) => Ok(Log { socket, next: 0 }),
            // The kernel says EPERM for the group of somebody else. That there is permission is known: without, the receive buffer
            // could not have been set.
            Err(Unanswered::Refused(Errno::EPERM | Errno::EBUSY | Errno::EEXIST)) => Err(KernelError::LogTaken(group)),
            Err(Unanswered::Refused(errno)) => Err(KernelError::NoPart { part: "nfnetlink_log", errno }),
            Err(Unanswered::TooLong) => Err(KernelError::LogOptions { group, what: "too long to be said".to_owned() }),
            Err(Unanswered::Failed(error)) => Err(error),
        }
    }

    /// Waits up to `patience` for the first packet, then gives all that is there to `take`. When packets come faster than they are
    /// taken it returns after some thirty batches of them; the rest waits for the next call.
    pub fn read(&mut self, patience: Duration, mut take: impl FnMut(Logged<'_>)) -> Result<Read, KernelError> {
        let mut read = Read::default();
        self.socket.wait(patience)?;
        for _ in 0..DATAGRAMS {
            match self.socket.unasked()? {
                Unasked::Nothing => break,
                Unasked::Overrun => read.overruns += 1,
                Unasked::Datagram(datagram) => {
                    for logged in Logged::all_of(datagram) {
                        let logged = logged.map_err(|odd| KernelError::Truncated(odd.0))?;
                        read.events += 1;
                        if let Some(sequence) = logged.sequence {
                            read.lost += u64::from(sequence.wrapping_sub(self.next));
                            self.next = sequence.wrapping_add(1);
                        }
                        take(logged);
                    }
                }
            }
        }
        Ok(read)
    }
}

impl<'a> Logged<'a> {
    /// The packets of one datagram of the kernel. The first that cannot be read is the last.
    pub fn all_of(datagram: &'a [u8]) -> impl Iterator<Item = Result<Logged<'a>, Odd>> {
        let packets = Messages::of(datagram).filter(|it| it.as_ref().map_or(true, |it| it.kind == uapi::SUBSYSTEM << 8 | uapi::PACKET));
        packets.map(|message| logged(&message?))
    }
}

impl AsFd for Log {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl LogOptions {
    /// The kernel takes what it cannot do without a word, and does something else.
    fn check(&self, group: u16) -> Result<(), KernelError> {
        let what = if !(1..=0xffff).contains(&self.copy_range) {
            format!("a copy range of {} is not between 1 and 65535", self.copy_range)
        } else if !(4096..=128 * 1024).contains(&self.kernel_buffer) {
            format!("a kernel buffer of {} is not between 4096 and 131072", self.kernel_buffer)
        } else if self.queue_threshold == 0 {
            "a queue threshold of 0".to_owned()
        } else {
            return Ok(());
        };
        Err(KernelError::LogOptions { group, what })
    }

    fn flush_hundredths(&self) -> u32 {
        u32::try_from(self.flush_after.as_millis().div_ceil(10)).unwrap_or(u32::MAX)
    }
}

fn logged<'a>(message: &Message<'a>) -> Result<Logged<'a>, Odd> {
    let (family, attributes) = message.payload.split_first_chunk::<4>().ok_or_else(|| Odd::new("a logged packet without a family"))?;
    let [family, ..] = *family;
    let mut logged = Logged { prefix: "", family, hook: 0, input: None, output: None, payload: &[], sequence: None };
    let mut header = None;
    for attribute in AttributesOneByOne::of(attributes) {
        let (kind, value) = attribute?;
        let number = || field(value, 0).map(u32::from_be_bytes).ok_or_else(|| Odd(format!("attribute {kind} is no number")));
        match kind {
            uapi::PACKET_HEADER => header = Some(value),
            uapi::INPUT => logged.input = Some(number()?),
            uapi::OUTPUT => logged.output = Some(number()?),
            uapi::PAYLOAD => logged.payload = value,
            uapi::PREFIX => logged.prefix = text(value),
            uapi::SEQUENCE => logged.sequence = Some(number()?),
            _ => {}
        }
    }
    let [_, _, hook, _] = header.and_then(|it| field(it, 0)).ok_or_else(|| Odd::new("a logged packet without a header"))?;
    Ok(Logged { hook, ..logged })
}

/// The text up to its zero or to the first byte that is none.
fn text(bytes: &[u8]) -> &str {
    let bytes = bytes.split(|it| *it == 0).next().unwrap_or_default();
    bytes.utf8_chunks().next().map_or("", |it| it.valid())
}

/// Numbers of `linux/netfilter/nfnetlink_log.h`.
mod uapi {
    /// `NFNL_SUBSYS_ULOG`.
    pub(super) const SUBSYSTEM: u16 = 4;
    pub(super) const PACKET: u16 = 0;
    pub(super) const CONFIG: u16 = 1;

    pub(super) const COMMAND: u16 = 1;
    pub(super) const MODE: u16 = 2;
    pub(super) const BUFFER_SIZE: u16 = 3;
    pub(super) const TIMEOUT: u16 = 4;
    pub(super) const QUEUE_THRESHOLD: u16 = 5;
    pub(super) const FLAGS: u16 = 6;
    pub(super) const BIND: u8 = 1;
    pub(super) const COPY_PACKET: u8 = 2;
    /// `NFULNL_CFG_F_SEQ`.
    pub(super) const NUMBERED: u16 = 1;

    pub(super) const PACKET_HEADER: u16 = 1;
    pub(super) const INPUT: u16 = 4;
    pub(super) const OUTPUT: u16 = 5;
    pub(super) const PAYLOAD: u16 = 9;
    pub(super) const PREFIX: u16 = 10;
    pub(super) const SEQUENCE: u16 = 12;
}
