//! The packets of a soak: one thread sends, receives and judges.
//!
//! Every packet has a number and a source port of its own turn. It is judged by all models that were in force, or half so, from before it was sent
//! until it was received; one that did not arrive, until a change after its own.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::question::Speaker;
use crate::soak::classes::{Claim, Class, claim};
use crate::soak::ledger::{Ledger, Met, Pace, Window};
use crate::soak::random::Random;
use crate::soak::tally::{Broken, Tally};
use crate::soak::wire::{number_of_datagram, number_of_syn, packet};
use crate::soak::world::{COMMON, MOVED, SWAPPED, SWAPPED_ISOLATION};

/// Packets between two looks at what has arrived.
const BURST: usize = 8;
/// How long is waited between bursts while nothing changes.
const REST: Duration = Duration::from_micros(500);
/// After this a packet that has not arrived is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many of a hundred packets are of classes that the change at hand is about.
const HOT: usize = 75;
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 40_000;
/// Room for all that can arrive between two looks, many times over.
const BUFFER: usize = 8 << 20;
/// How long a link may take to carry something, and how long is waited between two tries.
const GREETING: Duration = Duration::from_secs(10);
const GREETING_TURN: u8 = 5;
/// Sends whole packets and receives none.
const RAW: i32 = 255;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    Come(Speaker, Place),
    Go(Speaker),
    /// Classes that the next change is about.
    Hot(Vec<usize>),
}

/// The sockets of a namespace.
#[derive(Debug)]
pub(crate) struct Place {
    v4: Socket,
    v6: Socket,
    datagrams: Vec<Socket>,
    syns: Socket,
}

impl Place {
    /// Opens sockets in the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Place> {
        let raw = |domain| Socket::new(domain, Type::RAW, Some(Protocol::from(RAW)));
        let [first, second] = COMMON;
        let ports = [first, second, MOVED, SWAPPED, SWAPPED_ISOLATION];
        let syns = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP))?;
        roomy(&syns)?;
        Ok(Place {
            v4: raw(Domain::IPV4)?,
            v6: raw(Domain::IPV6)?,
            datagrams: ports.into_iter().map(datagrams).collect::<io::Result<_>>()?,
            syns,
        })
    }
}

/// Waits until a neighbour's datagrams arrive at each of some addresses: a link that was just made takes a while. The calling thread is in the
/// neighbour's namespace.
pub(crate) fn greet(place: &Place, addresses: &[IpAddr]) -> io::Result<()> {
    let [port, _] = COMMON;
    let Some(receiving) = place.datagrams.first() else { return Ok(()) };
    let deadline = Instant::now() + GREETING;
    for address in addresses {
        let at = SocketAddr::new(*address, port);
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
        loop {
            // A word of one byte is nobody's number.
            match socket.send_to(&[0], &at.into()) {
                Err(error) if !is_passing(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
            let mut polled = [PollFd::new(receiving.as_fd(), PollFlags::POLLIN)];
            if poll(&mut polled, GREETING_TURN)? > 0 && drained(receiving)? {
                break;
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("{address} cannot be reached from its own node")));
            }
        }
    }
    Ok(())
}

/// Whether there was anything to read. All of it is read.
fn drained(mut socket: &Socket) -> io::Result<bool> {
    let mut buffer = [0; 16];
    let mut any = false;
    loop {
        match socket.read(&mut buffer) {
            Ok(_) => any = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(any),
            Err(error) => return Err(error),
        }
    }
}

/// A socket for the datagrams of both families at a port.
fn datagrams(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    socket.set_only_v6(false)?;
    roomy(&socket)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    Ok(socket)
}

fn roomy(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    Ok(setsockopt(socket, sockopt::RcvBufForce, &BUFFER)?)
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    class: usize,
    port: u16,
    at: Instant,
    window: Window,
    arrived: Arrived,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrived {
    Not,
    Yes,
}

/// What a socket receives.
#[derive(Debug)]
struct Receiving {
    speaker: Speaker,
    socket: Socket,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Datagram,
    Syn,
}

/// The thread's own.
#[derive(Debug)]
pub(crate) struct Traffic {
    classes: Arc<[Class]>,
    ledger: Arc<Ledger>,
    orders: Receiver<Order>,
    /// Of the ends of each class, by its number in `speakers`.
    senders: Vec<Option<(Socket, Socket)>>,
    speakers: Vec<Speaker>,
    ends: Vec<(usize, usize)>,
    receivers: BTreeMap<u64, Receiving>,
    epoll: Epoll,
    last_token: u64,
    random: Random,
    /// The last source port of each class.
    ports: Vec<u16>,
    hot: Vec<usize>,
    turn: usize,
    /// Not yet judged, in the order of their numbers.
    sent: VecDeque<Sent>,
    /// The number of the first of them.
    first: u64,
    /// What the packet that was judged last has met.
    met: Option<Met>,
    tally: Tally,
}

impl Traffic {
    pub(crate) fn new(classes: Arc<[Class]>, ledger: Arc<Ledger>, orders: Receiver<Order>, seed: u64) -> io::Result<Traffic> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let ports = vec![0; classes.len()];
        let mut speakers: Vec<Speaker> = classes.iter().flat_map(|it| [it.from.speaker.clone(), it.to.speaker.clone()]).collect();
        speakers.sort();
        speakers.dedup();
        let number = |it: &Speaker| speakers.binary_search(it).unwrap_or(usize::MAX);
        let ends = classes.iter().map(|it| (number(&it.from.speaker), number(&it.to.speaker))).collect();
        Ok(Traffic {
            classes,
            ledger,
            orders,
            senders: speakers.iter().map(|_| None).collect(),
            speakers,
            ends,
            receivers: BTreeMap::new(),
            epoll,
            last_token: 0,
            random: Random::new(seed),
            ports,
            hot: Vec::new(),
            turn: 0,
            sent: VecDeque::new(),
            first: 0,
            met: None,
            tally: Tally::default(),
        })
    }

    /// Sends until the ledger ends, and judges all that was sent.
    pub(crate) fn run(mut self) -> io::Result<Tally> {
        while !self.ledger.has_ended() {
            self.obey()?;
            let pace = self.ledger.pace();
            for _ in 0..BURST {
                self.send(pace)?;
            }
            self.receive()?;
            self.judge(PATIENCE);
            if pace == Pace::Rest {
                std::thread::sleep(REST);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && self.is_anything_missing() {
            self.receive()?;
        }
        self.judge(Duration::ZERO);
        Ok(self.tally)
    }

    fn is_anything_missing(&mut self) -> bool {
        let missing: Vec<Sent> = self.sent.iter().filter(|it| it.arrived == Arrived::Not).copied().collect();
        missing.iter().any(|it| self.claim(it) == Claim::Accepted)
    }

    fn obey(&mut self) -> io::Result<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Come(speaker, place) => {
                    let Place { v4, v6, datagrams, syns } = place;
                    self.set_sender(&speaker, Some((v4, v6)));
                    let all = datagrams.into_iter().map(|it| (it, Form::Datagram)).chain([(syns, Form::Syn)]);
                    for (socket, form) in all {
                        self.last_token += 1;
                        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, self.last_token))?;
                        self.receivers.insert(self.last_token, Receiving { speaker: speaker.clone(), socket, form });
                    }
                }
                Order::Go(speaker) => {
                    // What has arrived is still read.
                    self.receive()?;
                    self.set_sender(&speaker, None);
                    self.receivers.retain(|_, it| it.speaker != speaker);
                }
                Order::Hot(classes) => self.hot = classes,
            }
        }
        Ok(())
    }

    fn set_sender(&mut self, speaker: &Speaker, sockets: Option<(Socket, Socket)>) {
        let at = self.speakers.binary_search(speaker).ok();
        if let Some(sender) = at.and_then(|it| self.senders.get_mut(it)) {
            *sender = sockets;
        }
    }

    fn send(&mut self, pace: Pace) -> io::Result<()> {
        let at = match pace {
            Pace::Change if self.random.percent(HOT) => self.random.pick(&self.hot).copied(),
            Pace::Change | Pace::Rest => None,
        };
        let at = at.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % self.classes.len().max(1);
            self.turn
        });
        let (Some(class), Some(port)) = (self.classes.get(at), self.ports.get_mut(at)) else { return Ok(()) };
        let Some((from, to)) = self.ends.get(at) else { return Ok(()) };
        let (Some(Some((v4, v6))), Some(Some(_))) = (self.senders.get(*from), self.senders.get(*to)) else { return Ok(()) };
        *port = (*port + 1) % PORTS;
        let port = FIRST_PORT + *port;
        let number = self.first + u64::try_from(self.sent.len()).unwrap_or(u64::MAX);
        let bytes = packet(class.protocol, class.source(port), class.destination(), number)?;
        let socket = if class.from.address.is_ipv4() { v4 } else { v6 };
        let first = self.ledger.moment();
        match socket.send_to(&bytes, &SocketAddr::new(class.to.address, 0).into()) {
            Ok(_) => {
                let window = Window { first, last: self.ledger.moment() };
                self.sent.push_back(Sent { class: at, port, at: Instant::now(), window, arrived: Arrived::Not });
                Ok(())
            }
            Err(error) if is_passing(&error) => {
                self.tally.unsent += 1;
                Ok(())
            }
            Err(error) => Err(io::Error::other(format!("{}: {error}", class.words(port)))),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let ready = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
            if ready == 0 {
                break;
            }
            for event in events.iter().take(ready) {
                self.read(event.data())?;
            }
        }
        // Whatever has not arrived by now may be on its way, so that the next moment counts as well.
        let moment = self.ledger.moment();
        for sent in self.sent.iter_mut().rev().take(BURST) {
            sent.window.last = sent.window.last.max(moment);
        }
        Ok(())
    }

    fn read(&mut self, token: u64) -> io::Result<()> {
        let Some(receiving) = self.receivers.get(&token) else { return Ok(()) };
        let mut buffer = [0; 256];
        loop {
            let length = match (&receiving.socket).read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            let number = match receiving.form {
                Form::Datagram => number_of_datagram(bytes),
                Form::Syn => number_of_syn(bytes),
            };
            let Some(number) = number else { continue };
            let moment = self.ledger.moment();
            let at = number.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
            match at.and_then(|it| self.sent.get_mut(it)) {
                Some(sent) => {
                    sent.arrived = Arrived::Yes;
                    sent.window.last = sent.window.last.max(moment);
                }
                None => self.tally.late += 1,
            }
        }
    }

    /// Judges what was sent so long ago.
    fn judge(&mut self, age: Duration) {
        while let Some(sent) = self.sent.front().copied().filter(|it| it.at.elapsed() >= age) {
            let number = self.first;
            self.sent.pop_front();
            self.first += 1;
            let claim = self.claim(&sent);
            let broken = match (claim, sent.arrived) {
                (Claim::Denied, Arrived::Yes) => Some(Broken::Leak),
                (Claim::Accepted, Arrived::Not) => Some(Broken::Loss),
                (Claim::Denied, Arrived::Not) | (Claim::Accepted, Arrived::Yes) | (Claim::DeniedByTurns | Claim::Either, _) => None,
            };
            let kind = if sent.window.is_at_rest() { None } else { self.met.as_ref().and_then(|it| it.kind) };
            self.tally.take(kind, claim, sent.arrived == Arrived::Yes);
            if let (Some(broken), Some(class)) = (broken, self.classes.get(sent.class)) {
                let made = self.ledger.made(sent.window);
                self.tally.broke(broken, number, sent.window, class.words(sent.port), made, || {
                    sent.window.models().map(|it| said(&self.ledger, class, it)).collect()
                });
            }
        }
    }

    fn claim(&mut self, sent: &Sent) -> Claim {
        let Some(class) = self.classes.get(sent.class) else { return Claim::Either };
        let last = match sent.arrived {
            Arrived::Yes => sent.window.last,
            // It may have been on its way still.
            Arrived::Not => sent.window.last + 1,
        };
        let window = Window { first: sent.window.first, last };
        // Many packets in a row meet the same.
        let met = match self.met.take() {
            Some(met) if met.window == window => met,
            Some(_) | None => self.ledger.met(window),
        };
        let claim = claim(class.judges, met.lines.iter().filter_map(|it| it.get(sent.class).copied()));
        self.met = Some(met);
        claim
    }
}

/// What a model says of a class, for people.
fn said(ledger: &Ledger, class: &Class, number: usize) -> String {
    let Some(model) = ledger.model(number) else { return format!("model {number} is not kept any more") };
    match class.decided(&model) {
        None => format!("model {number}: an end is not there"),
        Some(decision) => {
            let walk = |it: &palisade_engine::Walk| format!("{:?} ({})", it.verdict, it.reason);
            format!("model {number}: egress {}, ingress {}", walk(&decision.walks.egress), walk(&decision.walks.ingress))
        }
    }
}

/// Errors of a link or route that comes or goes.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::ENETDOWN, Errno::ENODEV, Errno::ENOBUFS, Errno::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|it| passing.contains(&Errno::from_raw(it)))
}
