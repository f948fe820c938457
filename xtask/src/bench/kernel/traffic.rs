//! Connections and packets through a ground, from one thread that owns both ends: the client's stack, the router's and the server's all
//! run in its system calls, so its CPU time is the cost of the whole way.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use palisade_model::Family;
use palisade_testkit::random::Random;
use socket2::{Domain, Socket, Type};

use super::cluster::{CALLERS, CLOSED, LOCAL, OPEN, local, remote};
use super::ground::{CALLERS_V6, Ground};

/// Longer than anything that works takes.
const PATIENCE: Duration = Duration::from_secs(2);
/// A packet that is let through has come after this.
const MOMENT: Duration = Duration::from_millis(30);
const FLOWS: u16 = 64;
/// Ports that one set of traffic takes: one that listens, and one for each flow.
const PORTS: u16 = 100;
/// A UDP payload.
const PAYLOAD: [u8; 64] = [7; 64];
/// Sockets that packets to be denied are sent from, each with a port of its own.
const SENDERS: usize = 64;
/// Connections and packets that show whether a ruleset does what it should.
const SAMPLES: u32 = 32;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callers {
    /// So many pods of other nodes.
    Remote(usize),
    /// Pods of the same node: their egress is decided too.
    Local,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By a reset: the shortest that there is.
    Reset,
    /// Closed by both ends, as most are.
    Closed,
}

/// Which way a packet of an established flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To called pods.
    ToPods,
    /// From them: sources are bound, so it is asked for its own.
    FromPods,
}

/// Sockets on a ground, and who speaks to whom.
#[derive(Debug)]
pub(super) struct Traffic {
    family: Family,
    callers: Callers,
    random: Random,
    listener: TcpListener,
    port: u16,
    /// Client's and server's end.
    flows: Vec<(UdpSocket, UdpSocket)>,
    senders: Vec<UdpSocket>,
}

impl Traffic {
    /// Takes the `slot`th share of the open ports.
    pub(super) fn open(ground: &Ground, family: Family, callers: Callers, slot: u16) -> Result<Traffic> {
        let port = OPEN.0 + slot * PORTS;
        let listener = ground.server.run(|| TcpListener::bind((any(family), port)))??;
        // Connections that it accepts inherit it.
        Socket::set_read_timeout(&socket2::SockRef::from(&listener), Some(PATIENCE))?;
        let mut random = Random::new(u64::from(slot) + 1);
        let mut flows = Vec::new();
        for number in 1..=FLOWS {
            let (from, to) = ends(&mut random, family, callers);
            let server = ground.server.run(|| UdpSocket::bind((to, port + number)))??;
            let client = ground.client.run(|| UdpSocket::bind((from, 0)))??;
            client.connect(server.local_addr()?)?;
            server.connect(client.local_addr()?)?;
            for end in [&client, &server] {
                end.set_read_timeout(Some(PATIENCE))?;
            }
            flows.push((client, server));
        }
        let senders = ground.client.run(|| (0..SENDERS).map(|_| UdpSocket::bind((any(family), 0))).collect::<Result<Vec<_>, _>>())??;
        Ok(Traffic { family, callers, random, listener, port, flows, senders })
    }

    /// Opens connections one after the other: a byte each way, then the end. The thread is in the client's namespace.
    pub(super) fn connections(&mut self, count: u32, ending: Ending) -> Result<()> {
        for _ in 0..count {
            let (from, to) = ends(&mut self.random, self.family, self.callers);
            self.connection(from, to, ending).with_context(|| format!("a connection from {from} to {to} port {}", self.port))?;
        }
        Ok(())
    }

    fn connection(&self, from: IpAddr, to: IpAddr, ending: Ending) -> Result<()> {
        let domain = match self.family {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        };
        let client = Socket::new(domain, Type::STREAM, None)?;
        // Closing then resets: nothing waits for late segments, and ports are free at once.
        client.set_linger((ending == Ending::Reset).then_some(Duration::ZERO))?;
        client.set_write_timeout(Some(PATIENCE))?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.bind(&SocketAddr::new(from, 0).into())?;
        client.connect(&SocketAddr::new(to, self.port).into())?;
        let mut client = TcpStream::from(client);
        let (mut server, _) = self.listener.accept()?;
        let mut byte = [1];
        client.write_all(&byte)?;
        server.read_exact(&mut byte)?;
        server.write_all(&byte)?;
        client.read_exact(&mut byte)?;
        drop(client);
        if ending == Ending::Closed && server.read(&mut byte)? > 0 {
            bail!("a byte too many");
        }
        Ok(())
    }

    /// Makes sure that every flow is one that conntrack knows from both sides.
    pub(super) fn establish(&mut self) -> Result<()> {
        let mut payload = PAYLOAD;
        for (client, server) in &self.flows {
            client.send(&payload)?;
            server.recv(&mut payload).context("a first packet did not come")?;
            server.send(&payload)?;
            client.recv(&mut payload).context("an answer did not come")?;
        }
        Ok(())
    }

    /// Sends and receives packets of the flows in turn.
    pub(super) fn established(&mut self, way: Way, count: u32) -> Result<()> {
        let mut payload = PAYLOAD;
        for (_, (client, server)) in (0..count).zip(self.flows.iter().cycle()) {
            let (from, to) = match way {
                Way::ToPods => (client, server),
                Way::FromPods => (server, client),
            };
            from.send(&payload)?;
            to.recv(&mut payload).context("a packet of an established flow was lost")?;
        }
        Ok(())
    }

    /// Sends packets that are to be denied, each from anyone to anyone.
    pub(super) fn denied(&mut self, count: u32) -> Result<()> {
        for _ in 0..count {
            let (from, to) = ends(&mut self.random, self.family, self.callers);
            let sender = self.random.pick(&self.senders).context("no sender")?;
            send(sender, from, SocketAddr::new(to, CLOSED))?;
        }
        Ok(())
    }

    /// Whether packets to the closed port come through, all of a sample or none. Anything between is an error, and so is an open
    /// connection that fails.
    pub(super) fn closed_port_is_open(&mut self, ground: &Ground) -> Result<bool> {
        ground.client.enter()?;
        self.connections(SAMPLES, Ending::Reset)?;
        self.establish()?;
        let arrivals = ground.server.run(|| UdpSocket::bind((any(self.family), CLOSED)))??;
        arrivals.set_read_timeout(Some(MOMENT))?;
        self.denied(SAMPLES)?;
        let mut came = 0;
        while came < SAMPLES && arrived(&arrivals)? {
            came += 1;
        }
        match came {
            SAMPLES => Ok(true),
            0 => Ok(false),
            some => bail!("{some} of {SAMPLES} packets to port {CLOSED} came through"),
        }
    }
}

/// Whether one more packet comes in time.
fn arrived(socket: &UdpSocket) -> Result<bool> {
    match socket.recv(&mut [0; PAYLOAD.len()]) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A caller and a called pod, at random.
fn ends(random: &mut Random, family: Family, callers: Callers) -> (IpAddr, IpAddr) {
    let from = match (callers, family) {
        (Callers::Remote(count), Family::V4) => remote(random.below(count), family),
        (Callers::Remote(count), Family::V6) => remote(random.below(count.min(CALLERS_V6)), family),
        (Callers::Local, _) => local(random.below(CALLERS), family),
    };
    (from, local(random.between(CALLERS, LOCAL - 1), family))
}

/// Sends from an address of choice, without a socket for each.
fn send(sender: &UdpSocket, from: IpAddr, to: SocketAddr) -> Result<()> {
    let (data, to) = ([IoSlice::new(&PAYLOAD)], SockaddrStorage::from(to));
    let fd = sender.as_raw_fd();
    let sent = match from {
        IpAddr::V4(from) => {
            let none = libc::in_addr { s_addr: 0 };
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: none };
            sendmsg(fd, &data, &[ControlMessage::Ipv4PacketInfo(&info)], MsgFlags::empty(), Some(&to))
        }
        IpAddr::V6(from) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            sendmsg(fd, &data, &[ControlMessage::Ipv6PacketInfo(&info)], MsgFlags::empty(), Some(&to))
        }
    };
    sent.with_context(|| format!("a packet from {from} to {to}"))?;
    Ok(())
}
