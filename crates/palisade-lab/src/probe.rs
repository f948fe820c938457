//! Sends the first packet of connections and waits for proof of what became of each.
//!
//! All of a batch are in flight at once. A probe ends with an answer, with a refusal by the destination's kernel, or with the event of the rule that
//! dropped it; who has neither at the deadline is silent.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_agent::Denial;
use palisade_kernel::Namespace;
use palisade_model::{Family, PortProtocol, Protocol};
use socket2::{Domain, Socket, Type};

use crate::packet::{Sctp, SctpAnswer, after_ipv4_header, echo_request, is_echo_reply};
use crate::question::{Finding, Question};

/// Sockets in flight at once. A process may have 1,024 files, and listeners need theirs.
const BATCH: usize = 256;
/// Denials come by a channel that cannot be polled together with sockets.
const TURN: u8 = 2;

/// Numbers for what has no port of the kernel's choice: SCTP and ICMP.
#[derive(Debug)]
pub(crate) struct Numbers(u16);

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers(FIRST)
    }
}

const FIRST: u16 = 20_000;

impl Numbers {
    fn next(&mut self) -> u16 {
        self.0 = self.0.checked_add(1).unwrap_or(FIRST);
        self.0
    }
}

/// Sends each question from its namespace.
pub(crate) fn probe(
    asked: &[(&Question, Option<&Namespace>)],
    denials: &Receiver<Denial>,
    numbers: &mut Numbers,
    patience: Duration,
) -> Vec<Finding> {
    let mut findings = Vec::with_capacity(asked.len());
    for batch in asked.chunks(BATCH) {
        findings.extend(probe_batch(batch, denials, numbers, patience));
    }
    findings
}

/// One in flight.
struct Flying<'a> {
    question: &'a Question,
    sent: io::Result<Sent>,
    finding: Option<Finding>,
}

struct Sent {
    socket: Socket,
    /// Its own port; of ICMP and other protocols nothing tells two of one pair apart.
    source_port: Option<u16>,
    wants: Wants,
}

/// What proves that a packet arrived.
enum Wants {
    Connection,
    Datagram,
    Echo {
        id: u16,
        ipv4: bool,
    },
    Association {
        init: Sctp,
        ipv4: bool,
    },
    /// Only the error of a protocol that nobody speaks.
    Error,
}

fn probe_batch(
    asked: &[(&Question, Option<&Namespace>)],
    denials: &Receiver<Denial>,
    numbers: &mut Numbers,
    patience: Duration,
) -> Vec<Finding> {
    // What earlier probes left behind.
    while denials.try_recv().is_ok() {}
    let mut flying: Vec<Flying<'_>> = send_all(asked, numbers);
    let deadline = Instant::now() + patience;
    loop {
        turn(&mut flying);
        while let Ok(denial) = denials.try_recv() {
            if let Some(it) = flying.iter_mut().find(|it| it.finding.is_none() && it.is(&denial)) {
                it.finding = Some(Finding::Denied(Box::new(denial)));
            }
        }
        if flying.iter().all(|it| it.finding.is_some()) || Instant::now() >= deadline {
            break;
        }
    }
    flying.into_iter().map(Flying::end).collect()
}

fn send_all<'a>(asked: &[(&'a Question, Option<&Namespace>)], numbers: &mut Numbers) -> Vec<Flying<'a>> {
    let numbered: Vec<(&'a Question, Option<&Namespace>, u16)> = asked.iter().map(|(it, place)| (*it, *place, numbers.next())).collect();
    // One thread goes from namespace to namespace; a socket stays in the one where it was made.
    std::thread::scope(|scope| {
        let work = || {
            let sending = numbered.iter().map(|(question, place, number)| {
                let entered = place.ok_or_else(|| io::Error::other("no such speaker in this lab"));
                let entered = entered.and_then(|it| it.enter().map_err(io::Error::other));
                let sent = entered.and_then(|()| send(question, *number));
                Flying { question, sent, finding: None }
            });
            sending.collect()
        };
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn send(question: &Question, number: u16) -> io::Result<Sent> {
    let ipv4 = question.to.is_ipv4();
    let port = || question.port.ok_or_else(|| io::Error::other("a port is missing"));
    match question.protocol {
        Protocol::Port(PortProtocol::Tcp) => connect(question, Type::STREAM, port()?, Wants::Connection),
        Protocol::Port(PortProtocol::Udp) => {
            let sent = connect(question, Type::DGRAM, port()?, Wants::Datagram)?;
            sent.socket.send(b"palisade")?;
            Ok(sent)
        }
        Protocol::Port(PortProtocol::Sctp) => {
            let init = Sctp::init(number, port()?);
            raw(question, 132, &init.write(), Some(number), Wants::Association { init, ipv4 })
        }
        Protocol::Icmp => raw(question, if ipv4 { 1 } else { 58 }, &echo_request(ipv4, number), None, Wants::Echo { id: number, ipv4 }),
        Protocol::Other(protocol) => raw(question, protocol, &[0; 16], None, Wants::Error),
    }
}

fn connect(question: &Question, kind: Type, port: u16, wants: Wants) -> io::Result<Sent> {
    let socket = Socket::new(Domain::for_address(SocketAddr::new(question.to, port)), kind, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(question.source, 0).into())?;
    let source_port = socket.local_addr()?.as_socket().map(|it| it.port());
    if kind == Type::STREAM {
        // What was shown needs no farewell.
        socket.set_linger(Some(Duration::ZERO))?;
    }
    match socket.connect(&SocketAddr::new(question.to, port).into()) {
        Err(error) if !is(&error, Errno::EINPROGRESS) && !is_refusal(&error) => Err(error),
        Ok(()) | Err(_) => Ok(Sent { socket, source_port, wants }),
    }
}

fn raw(question: &Question, protocol: u8, packet: &[u8], source_port: Option<u16>, wants: Wants) -> io::Result<Sent> {
    let to = SocketAddr::new(question.to, 0);
    let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(i32::from(protocol).into()))?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(question.source, 0).into())?;
    // Only who is connected is told of errors.
    socket.connect(&to.into())?;
    socket.send(packet)?;
    Ok(Sent { socket, source_port, wants })
}

/// Looks at every socket that something has come for.
fn turn(flying: &mut [Flying<'_>]) {
    let waiting: Vec<(usize, &Socket)> = flying.iter().enumerate().filter_map(|(at, it)| it.waiting().map(|socket| (at, socket))).collect();
    let events = |socket: &Socket| if socket.r#type().is_ok_and(|it| it == Type::STREAM) { PollFlags::POLLOUT } else { PollFlags::POLLIN };
    let mut polled: Vec<PollFd<'_>> = waiting.iter().map(|(_, socket)| PollFd::new(socket.as_fd(), events(socket))).collect();
    // An interrupted wait is made up for by the next turn.
    if poll(&mut polled, PollTimeout::from(TURN)).is_err() {
        return;
    }
    let ready: Vec<usize> = waiting.iter().zip(&polled).filter(|(_, it)| it.any() == Some(true)).map(|((at, _), _)| *at).collect();
    drop(polled);
    for at in ready {
        if let Some(it) = flying.get_mut(at) {
            it.look();
        }
    }
}

impl Flying<'_> {
    fn waiting(&self) -> Option<&Socket> {
        if self.finding.is_some() { None } else { self.sent.as_ref().ok().map(|it| &it.socket) }
    }

    /// Whether this is the packet that was denied. A Service may have changed where it goes, but not where it comes from.
    fn is(&self, denial: &Denial) -> bool {
        let Ok(sent) = &self.sent else { return false };
        let same =
            denial.source.address == self.question.source && denial.protocol == self.question.protocol.number(Family::of(self.question.to));
        same && match sent.source_port {
            Some(port) => denial.source_port == Some(port),
            None => denial.destination.address == self.question.to,
        }
    }

    fn look(&mut self) {
        if let Ok(sent) = &self.sent {
            self.finding = sent.look();
        }
    }

    fn end(self) -> Finding {
        match (self.finding, self.sent) {
            (None, Err(error)) => Finding::Unsent(error.to_string()),
            (None, Ok(_)) => Finding::Silent,
            (Some(Finding::Denied(denial)), Ok(sent)) => match sent.look().and_then(|it| it.arrived()) {
                Some(true) => Finding::Leaked(denial),
                Some(false) | None => Finding::Denied(denial),
            },
            (Some(finding), _) => finding,
        }
    }
}

impl Sent {
    fn look(&self) -> Option<Finding> {
        if let Some(error) = self.socket.take_error().unwrap_or_else(Some) {
            return Some(if is_refusal(&error) { Finding::Refused } else { Finding::Unsent(error.to_string()) });
        }
        match &self.wants {
            Wants::Connection => self.socket.peer_addr().is_ok().then_some(Finding::Answered),
            Wants::Datagram => self.read(|_| Some(Finding::Answered)),
            Wants::Echo { id, ipv4 } => self.read(|bytes| is_echo_reply(*ipv4, bytes, *id).then_some(Finding::Answered)),
            Wants::Association { init, ipv4 } => self.read(|bytes| {
                let packet = if *ipv4 { after_ipv4_header(bytes) } else { Some(bytes) };
                packet.and_then(Sctp::read).and_then(|it| it.answer_to(init)).map(|it| match it {
                    SctpAnswer::Accepted => Finding::Answered,
                    SctpAnswer::Aborted => Finding::Refused,
                })
            }),
            Wants::Error => self.read(|_| None),
        }
    }

    /// Reads what is there until something is found in it.
    fn read(&self, find: impl Fn(&[u8]) -> Option<Finding>) -> Option<Finding> {
        let mut buffer = [0; 2_048];
        // A raw socket gets what others asked for, too.
        for _ in 0..BATCH {
            match (&self.socket).read(&mut buffer) {
                Ok(length) => {
                    let found = buffer.get(..length).and_then(&find);
                    if found.is_some() {
                        return found;
                    }
                }
                Err(error) if is_refusal(&error) => return Some(Finding::Refused),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Finding::Unsent(error.to_string())),
            }
        }
        None
    }
}

/// Errors that only the destination itself brings about.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::ECONNREFUSED, Errno::ENOPROTOOPT, Errno::EPROTO, Errno::ECONNRESET];
    refusals.into_iter().any(|it| is(error, it))
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error().map(Errno::from_raw) == Some(errno)
}
