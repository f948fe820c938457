//! Conversations that last: two sockets in two namespaces that send to each other whenever they are told to.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use palisade_kernel::Namespace;

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(10);
/// For how long a conversation must be silent that was cut, and how often its end tries meanwhile.
const SILENCE: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(40);

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// A conversation.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) name: String,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    Tcp { client: TcpStream, server: TcpStream },
    Udp { client: UdpSocket, server: UdpSocket, peer: SocketAddr },
}

impl Talk {
    /// Opens a conversation and sends a word each way. `called` is what the client calls, `at` where the server is.
    pub(crate) fn open(name: &str, protocol: Protocol, [client, server]: [&Namespace; 2], called: SocketAddr, at: SocketAddr) -> Talk {
        let sockets = match protocol {
            Protocol::Tcp => {
                let listener = server.run(|| TcpListener::bind(at).unwrap()).unwrap();
                let client = client.run(|| TcpStream::connect_timeout(&called, LIMIT)).unwrap();
                let client = client.unwrap_or_else(|error| panic!("{name}: {error}"));
                let (server, _) = listener.accept().unwrap();
                for stream in [&client, &server] {
                    stream.set_nonblocking(true).unwrap();
                    stream.set_nodelay(true).unwrap();
                }
                Sockets::Tcp { client, server }
            }
            Protocol::Udp => {
                let server = server.run(|| UdpSocket::bind(at).unwrap()).unwrap();
                let client = client.run(|| UdpSocket::bind(any(called)).unwrap()).unwrap();
                client.connect(called).unwrap();
                server.set_read_timeout(Some(LIMIT)).unwrap();
                client.send(b"first").unwrap();
                let (_, peer) = server.recv_from(&mut [0; 64]).unwrap_or_else(|error| panic!("{name}: {error}"));
                server.set_nonblocking(true).unwrap();
                client.set_nonblocking(true).unwrap();
                Sockets::Udp { client, server, peer }
            }
        };
        let talk = Talk { name: name.to_owned(), sockets };
        for side in [Side::Client, Side::Server] {
            assert!(talk.arrives(side), "{name} is not open: nothing comes from the {side:?}");
        }
        talk
    }

    /// The same for who has the client's address and port now; None where only the client can go on.
    pub(crate) fn inherited(self, heir: &Namespace) -> Option<Talk> {
        let Talk { name, sockets } = self;
        let Sockets::Udp { client, server, peer } = sockets else { return None };
        let (at, called) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let client = heir.run(|| UdpSocket::bind(at).unwrap()).unwrap();
        client.connect(called).unwrap();
        client.set_nonblocking(true).unwrap();
        Some(Talk { name: format!("{name}, inherited"), sockets: Sockets::Udp { client, server, peer } })
    }

    /// Sends a word. One that cannot be sent is not heard.
    fn send(&self, side: Side) {
        match (&self.sockets, side) {
            (Sockets::Tcp { client: stream, .. }, Side::Client) | (Sockets::Tcp { server: stream, .. }, Side::Server) => {
                drop((&*stream).write(b"word"));
            }
            (Sockets::Udp { client, .. }, Side::Client) => drop(client.send(b"word")),
            (Sockets::Udp { server, peer, .. }, Side::Server) => drop(server.send_to(b"word", peer)),
        }
    }

    /// Sends a word from each end.
    pub(crate) fn send_both(&self) {
        [Side::Client, Side::Server].into_iter().for_each(|it| self.send(it));
    }

    /// Whether the other end has heard anything since the last time.
    fn is_heard(&self, from: Side) -> bool {
        let mut buffer = [0; 4096];
        let mut heard = false;
        loop {
            let read = match (&self.sockets, from) {
                (Sockets::Tcp { server: stream, .. }, Side::Client) | (Sockets::Tcp { client: stream, .. }, Side::Server) => {
                    (&*stream).read(&mut buffer)
                }
                (Sockets::Udp { server: socket, .. }, Side::Client) | (Sockets::Udp { client: socket, .. }, Side::Server) => {
                    socket.recv(&mut buffer)
                }
            };
            match read {
                Ok(0) => return heard,
                Ok(_) => heard = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return heard,
                // An error of the network about what was sent is no word.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
    }

    /// Whether either end has heard anything since the last time.
    pub(crate) fn is_heard_by_any(&self) -> bool {
        let [server, client] = [Side::Client, Side::Server].map(|it| self.is_heard(it));
        server || client
    }

    fn arrives(&self, from: Side) -> bool {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            self.send(from);
            let turn = Instant::now() + TURN;
            while Instant::now() < turn {
                if self.is_heard(from) {
                    return true;
                }
                std::thread::yield_now();
            }
        }
        false
    }
}

/// All of them live: words come through, from this side first.
pub(crate) fn alive(talks: &[&Talk], first: Side) {
    let second = if first == Side::Client { Side::Server } else { Side::Client };
    for talk in talks {
        for side in [first, second] {
            assert!(talk.arrives(side), "{} is dead: nothing comes from the {side:?}", talk.name);
        }
    }
}

/// None of them lives: whatever this side sends, nothing comes through for a second.
pub(crate) fn silent(talks: &[&Talk], from: Side) {
    // What was on its way before.
    for talk in talks {
        talk.is_heard(from);
    }
    let deadline = Instant::now() + SILENCE;
    while Instant::now() < deadline {
        talks.iter().for_each(|it| it.send(from));
        std::thread::sleep(TURN);
        for talk in talks {
            assert!(!talk.is_heard(from), "{} goes on: the {from:?} was heard", talk.name);
        }
    }
}

/// None of them lives: whatever both sides send, nothing comes through to either for a second.
pub(crate) fn both_silent(talks: &[&Talk]) {
    let sides = [Side::Client, Side::Server];
    // What was on its way before.
    for (talk, side) in talks.iter().flat_map(|it| sides.map(|side| (it, side))) {
        talk.is_heard(side);
    }
    let deadline = Instant::now() + SILENCE;
    while Instant::now() < deadline {
        talks.iter().for_each(|it| it.send_both());
        std::thread::sleep(TURN);
        for (talk, side) in talks.iter().flat_map(|it| sides.map(|side| (it, side))) {
            assert!(!talk.is_heard(side), "{} goes on: the {side:?} was heard", talk.name);
        }
    }
}

/// Any port of any address of a family.
fn any(like: SocketAddr) -> SocketAddr {
    let address: std::net::IpAddr =
        if like.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, 0)
}
