//! What answers in pods: TCP, UDP and SCTP on the ports that containers declare.
//!
//! One thread for a whole lab. TCP answers whatever it is told with one page of HTTP that names the pod, UDP answers each datagram with the pod's
//! name, SCTP answers INIT.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvfrom, sendto};
use palisade_kernel::{KernelError, Namespace};
use palisade_model::{ContainerPort, PortProtocol};
use socket2::{Domain, Protocol, Socket, Type};

use crate::packet::{Sctp, after_ipv4_header};

/// A connection that says nothing is kept among this many; the oldest goes first.
const CONNECTIONS: usize = 1_024;
const SCTP: i32 = 132;

/// The listeners of a lab. They end with it.
#[derive(Debug)]
pub(crate) struct Listeners {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The listeners of one pod: dropped, they close.
#[derive(Debug)]
pub(crate) struct Listening {
    tokens: Vec<u64>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    epoll: Epoll,
    sockets: Mutex<BTreeMap<u64, Answering>>,
    last: AtomicU64,
    stop: AtomicBool,
}

#[derive(Debug)]
struct Answering {
    socket: Kind,
    name: Arc<str>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Conversation(TcpStream),
    Udp(UdpSocket),
    Sctp { socket: Socket, ports: Vec<u16>, ipv4: bool },
}

impl Listeners {
    pub(crate) fn start() -> io::Result<Listeners> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let shared = Shared { epoll, sockets: Mutex::default(), last: AtomicU64::new(0), stop: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("listeners".to_owned()).spawn(move || worker.serve())?;
        Ok(Listeners { shared, thread: Some(thread) })
    }

    /// Listens on TCP and UDP ports in a namespace. What cannot be listened on is said in words: two pods of a node's network may want one
    /// port.
    pub(crate) fn listen(
        &self,
        namespace: &Namespace,
        name: &str,
        addresses: &[IpAddr],
        ports: &[ContainerPort],
    ) -> (Listening, Vec<String>) {
        self.keep(name, namespace.run(|| open_all(addresses, ports)))
    }

    /// Answers every INIT of SCTP at some addresses of a namespace: an acknowledgement for these ports, an abort for all others. A packet does
    /// not say which socket it is for, so there is one for each address.
    pub(crate) fn answer_sctp(
        &self,
        namespace: &Namespace,
        name: &str,
        addresses: &[IpAddr],
        ports: &[ContainerPort],
    ) -> (Listening, Vec<String>) {
        let ports: Vec<u16> = ports.iter().filter(|it| it.protocol == PortProtocol::Sctp).map(|it| it.port).collect();
        let open = || {
            let opened = addresses.iter().map(|it| open_sctp(*it, ports.clone()).map_err(|error| format!("sctp {it}: {error}")));
            let (sockets, problems): (Vec<_>, Vec<_>) = opened.partition(Result::is_ok);
            (sockets.into_iter().flatten().collect(), problems.into_iter().filter_map(Result::err).collect())
        };
        self.keep(name, namespace.run(open))
    }

    fn keep(&self, name: &str, opened: Result<(Vec<Kind>, Vec<String>), KernelError>) -> (Listening, Vec<String>) {
        let mut listening = Listening { tokens: Vec::new(), shared: Arc::clone(&self.shared) };
        let (sockets, mut problems) = opened.unwrap_or_else(|error| (Vec::new(), vec![error.to_string()]));
        let name: Arc<str> = Arc::from(name);
        for socket in sockets {
            match self.shared.add(Answering { socket, name: Arc::clone(&name) }) {
                Ok(token) => listening.tokens.push(token),
                Err(error) => problems.push(error.to_string()),
            }
        }
        (listening, problems)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut sockets = self.shared.lock();
        for token in &self.tokens {
            sockets.remove(token);
        }
    }
}

fn open_all(addresses: &[IpAddr], ports: &[ContainerPort]) -> (Vec<Kind>, Vec<String>) {
    let mut sockets = Vec::new();
    let mut problems = Vec::new();
    let mut keep = |what: String, opened: io::Result<Kind>| match opened {
        Ok(socket) => sockets.push(socket),
        Err(error) => problems.push(format!("{what}: {error}")),
    };
    for address in addresses {
        for it in ports {
            let at = SocketAddr::new(*address, it.port);
            let opened = match it.protocol {
                PortProtocol::Tcp => TcpListener::bind(at).and_then(|it| it.set_nonblocking(true).map(|()| Kind::Tcp(it))),
                PortProtocol::Udp => UdpSocket::bind(at).and_then(|it| it.set_nonblocking(true).map(|()| Kind::Udp(it))),
                PortProtocol::Sctp => continue,
            };
            keep(format!("{} {at}", it.protocol), opened);
        }
    }
    (sockets, problems)
}

fn open_sctp(address: IpAddr, ports: Vec<u16>) -> io::Result<Kind> {
    let at = SocketAddr::new(address, 0);
    let socket = Socket::new(Domain::for_address(at), Type::RAW, Some(Protocol::from(SCTP)))?;
    socket.bind(&at.into())?;
    socket.set_nonblocking(true)?;
    Ok(Kind::Sctp { socket, ports, ipv4: address.is_ipv4() })
}

impl AsFd for Kind {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Kind::Tcp(it) => it.as_fd(),
            Kind::Conversation(it) => it.as_fd(),
            Kind::Udp(it) => it.as_fd(),
            Kind::Sctp { socket, .. } => socket.as_fd(),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Answering>> {
        // Whoever panicked held a map that is whole at any time.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, answering: Answering) -> io::Result<u64> {
        let token = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut sockets = self.lock();
        self.epoll.add(&answering.socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        sockets.insert(token, answering);
        Ok(token)
    }

    fn serve(&self) {
        let mut events = [EpollEvent::empty(); 64];
        while !self.stop.load(Ordering::Relaxed) {
            let ready = self.epoll.wait(&mut events, EpollTimeout::from(50_u8)).unwrap_or(0);
            for event in events.iter().take(ready) {
                self.answer(event.data());
            }
        }
    }

    /// A socket that fails is left out from then on; the probe that wanted it finds nobody there.
    fn answer(&self, token: u64) {
        let mut sockets = self.lock();
        let Some(answering) = sockets.get_mut(&token) else { return };
        let name = Arc::clone(&answering.name);
        let (next, fate) = match &mut answering.socket {
            Kind::Tcp(listener) => (listener.accept().ok().map(|(stream, _)| stream), Fate::Stays),
            Kind::Conversation(stream) => (None, converse(stream, &name)),
            Kind::Udp(socket) => (None, echo(socket, &name)),
            Kind::Sctp { socket, ports, ipv4 } => (None, acknowledge(socket, ports, *ipv4)),
        };
        if fate == Fate::Ends {
            sockets.remove(&token);
        }
        let talking: Vec<u64> =
            sockets.iter().filter(|(_, it)| matches!(it.socket, Kind::Conversation(_))).map(|(token, _)| *token).collect();
        if let Some(oldest) = talking.first().filter(|_| talking.len() > CONNECTIONS) {
            sockets.remove(oldest);
        }
        drop(sockets);
        if let Some(stream) = next
            && stream.set_nonblocking(true).is_ok()
        {
            // If it cannot be watched it is closed, which its other end sees.
            drop(self.add(Answering { socket: Kind::Conversation(stream), name }));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Ends,
}

fn converse(stream: &mut TcpStream, name: &str) -> Fate {
    let mut buffer = [0; 4_096];
    match stream.read(&mut buffer) {
        Ok(0) => Fate::Ends,
        Ok(_) => {
            let page = format!("{name}\n");
            let head = format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", page.len());
            // A reader that has gone needs no answer.
            drop(stream.write_all(format!("{head}{page}").as_bytes()));
            Fate::Ends
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Fate::Stays,
        Err(_) => Fate::Ends,
    }
}

fn echo(socket: &UdpSocket, name: &str) -> Fate {
    let mut buffer = [0; 2_048];
    if let Ok((_, from)) = socket.recv_from(&mut buffer) {
        // Whether the answer arrives is for the asker to see.
        drop(socket.send_to(format!("{name}\n").as_bytes(), from));
    }
    Fate::Stays
}

fn acknowledge(socket: &Socket, ports: &[u16], ipv4: bool) -> Fate {
    let mut buffer = [0; 2_048];
    let Ok((length, Some(from))) = recvfrom::<SockaddrStorage>(socket.as_raw_fd(), &mut buffer) else { return Fate::Stays };
    let bytes = buffer.get(..length).and_then(|it| if ipv4 { after_ipv4_header(it) } else { Some(it) });
    if let Some(init) = bytes.and_then(Sctp::read).filter(Sctp::is_init) {
        let answer = if ports.contains(&init.destination) { init.ack() } else { init.abort() };
        // Whether the answer arrives is for the asker to see.
        sendto(socket.as_raw_fd(), &answer.write(), &from, MsgFlags::empty()).ok();
    }
    Fate::Stays
}
