//! Reads packets that rules logged, and passes on those that are told: under a flood of denials the loop must not see each packet.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use palisade_kernel::Log;
use palisade_nft::LOG_PREFIX;

use crate::book::{self, Book, Limits, Noted, key_of};
use crate::core::Input;
use crate::core::state::{LogKind, Logged, LoggedPacket, Repeats};
use crate::host::linux::{Mailbox, Message};
use crate::running::Attention;

/// The reader of both logs.
pub(super) struct Reader {
    logs: [(LogKind, Log, Book); 2],
    attention: Attention,
    /// Readable when the reader is to end.
    stop: Arc<EventFd>,
    mailbox: Mailbox,
    start: Instant,
}

impl Reader {
    pub(super) fn new([policies, audits]: [Log; 2], attention: Attention, stop: Arc<EventFd>, mailbox: Mailbox) -> Reader {
        let limits = Limits::default();
        let logs = [(LogKind::Policies, policies, Book::new(limits)), (LogKind::Audits, audits, Book::of_audits(limits))];
        Reader { logs, attention, stop, mailbox, start: Instant::now() }
    }

    pub(super) fn work(mut self) {
        loop {
            let [(_, policies, _), (_, audits, _)] = &self.logs;
            let mut polled = [policies.as_fd(), audits.as_fd(), self.stop.as_fd()].map(|it| PollFd::new(it, PollFlags::POLLIN));
            // An interrupted wait is made up for by the next one.
            let ready = poll(&mut polled, PollTimeout::NONE).map(|_| polled.map(|it| it.any() == Some(true)));
            let [policies, audits, stop] = ready.unwrap_or_default();
            if stop {
                return;
            }
            for ((kind, log, book), ready) in self.logs.iter_mut().zip([policies, audits]) {
                if ready {
                    let logged = read(*kind, log, book, self.attention, self.start.elapsed());
                    self.mailbox.send(Message::Input(Input::Logged(logged)));
                }
            }
        }
    }
}

fn read(log: LogKind, from: &mut Log, book: &mut Book, attention: Attention, now: Duration) -> Logged {
    let mut logged = Logged { log, ..Logged::default() };
    let forgotten = book.totals().forgotten;
    let read = from.read(Duration::ZERO, |packet| match book.note(packet.payload, packet.prefix, now) {
        Noted::New(key, packets) => logged.packets.push(LoggedPacket { key, packets, repeats: Repeats::No }),
        Noted::Repeated => {
            book::origin(packet.prefix).into_iter().for_each(|it| *logged.repeated.entry(it).or_default() += 1);
            if let (Attention::Packets, Ok(key)) = (attention, key_of(packet.payload, packet.prefix, LOG_PREFIX)) {
                logged.packets.push(LoggedPacket { key, packets: 1, repeats: Repeats::Yes });
            }
        }
        // Counted; its prefix is not ours, or it is no packet.
        Noted::Unreadable(_) => logged.unreadable += 1,
    });
    logged.forgotten = book.totals().forgotten - forgotten;
    match read {
        Ok(read) => logged.lost = read.lost,
        Err(error) => logged.failure = Some(error.to_string()),
    }
    logged
}
