//! The connections that the kernel tracks in a network namespace: read, and deleted one by one.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use nix::errno::Errno;
use palisade_netlink::{Attributes, AttributesOneByOne, Odd, Writer};
use palisade_nft::Address;
use palisade_nft::uapi::flag;

use crate::error::KernelError;
use crate::socket::{Question, Socket, Unanswered};

/// How often a table that changes its shape meanwhile is read again.
const ATTEMPTS: usize = 5;

/// How many are deleted by one datagram.
const AT_ONCE: usize = 500;

/// A connection to the tracking of the network namespace that the thread was in when it was opened.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// As the first packet had it.
    pub original: Tuple,
    /// As answers have it: turned around, and after any translation of addresses.
    pub reply: Tuple,
    /// The zone in which the original tuple is looked up.
    pub zone: u16,
    /// The zone in which the reply tuple is looked up: the same, unless a rule sets it for one direction.
    pub reply_zone: u16,
    /// A hash of the original tuple and of the place in memory. A later connection with the same tuple has another one, unless it came
    /// to lie in the same place.
    pub id: u32,
    /// Bits as `IPS_*` numbers them.
    pub status: Status,
    pub mark: u32,
    /// The IP protocol.
    pub protocol: u8,
}

/// How the tracking of connections fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    pub connections: u32,
    /// So many there may be. Kernels before 4.18 do not say it.
    pub most: Option<u32>,
    /// Packets that were dropped because they could not be tracked, since the namespace was made.
    pub dropped: u64,
    /// Connections that nobody had answered and that made room for others.
    pub evicted: u64,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub transport: Transport,
}

/// What tells the connections of one protocol between two addresses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    Ports {
        source: u16,
        destination: u16,
    },
    /// Of ICMP or ICMPv6.
    Icmp {
        kind: u8,
        code: u8,
        id: u16,
    },
    /// The kernel tracks no more than the addresses.
    Addresses,
}

/// The state of a connection, as bits of `IPS_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u32);

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    Yes,
    /// It had ended before, though another with the same tuples may be there.
    WasGone,
    /// A flowtable has it, and this kernel does not delete it until that lets go of it.
    Offloaded,
}

impl Status {
    /// `IPS_SEEN_REPLY`: packets went both ways.
    pub fn seen_reply(self) -> bool {
        self.0 & 2 != 0
    }

    /// `IPS_ASSURED`: it is not given up when the table is full.
    pub fn assured(self) -> bool {
        self.0 & 4 != 0
    }
}

impl Conntrack {
    /// Connects, and finds out whether there is permission and support.
    pub fn open() -> Result<Conntrack, KernelError> {
        let mut conntrack = Conntrack { socket: Socket::open()? };
        match conntrack.count() {
            Ok(_) => Ok(conntrack),
            Err(KernelError::Connections { errno, .. }) => Err(KernelError::NoPart { part: "nf_conntrack_netlink", errno }),
            Err(error) => Err(error),
        }
    }

    /// How many connections there are, of all families and zones.
    pub fn count(&mut self) -> Result<u32, KernelError> {
        Ok(self.totals()?.connections)
    }

    /// How many connections there are and may be, and what came of those that found no room. Numbers of different moments.
    pub fn tracking(&mut self) -> Result<Tracking, KernelError> {
        let mut tracking = self.totals()?;
        let answer = self.socket.each(
            question(uapi::GET_STATISTICS_OF_CPUS, flag::DUMP, 0),
            |_| {},
            |payload| {
                // Each processor counts for itself.
                let of_cpu = Attributes::of_payload(payload)?;
                tracking.dropped += u64::from(of_cpu.u32(uapi::STATISTICS_DROP)?);
                tracking.evicted += u64::from(of_cpu.u32(uapi::STATISTICS_EARLY_DROP)?);
                Ok(())
            },
        );
        answer.map_err(|it| failed(it, || "read what connection tracking dropped".to_owned()))?;
        Ok(tracking)
    }

    fn totals(&mut self) -> Result<Tracking, KernelError> {
        let mut totals = None;
        let answer = self.socket.each(
            question(uapi::GET_STATISTICS, flag::ACK, 0),
            |_| {},
            |payload| {
                let read = Attributes::of_payload(payload)?;
                let most = optional(read.find(uapi::STATISTICS_MOST), uapi::STATISTICS_MOST)?.map(u32::from_be_bytes);
                totals = Some(Tracking { connections: read.u32(uapi::STATISTICS_ENTRIES)?, most, ..Tracking::default() });
                Ok(())
            },
        );
        answer.map_err(|it| failed(it, || "count connections".to_owned()))?;
        totals.ok_or_else(|| KernelError::Truncated("no number of connections".to_owned()))
    }

    /// All connections of a family, or of both, in order. Those that come or go meanwhile may be there or not.
    pub fn dump(&mut self, family: Option<Address>) -> Result<Vec<Connection>, KernelError> {
        for _ in 0..ATTEMPTS {
            let mut connections = Vec::new();
            match self.each(family, |connection| connections.push(connection)) {
                Err(KernelError::Unsteady(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    connections.sort_unstable();
                    connections.dedup_by(|a, b| a.id == b.id && a.original == b.original && a.zone == b.zone);
                    return Ok(connections);
                }
            }
        }
        Err(KernelError::Unsteady(ATTEMPTS))
    }

    /// Gives all connections of a family, or of both, to `take`, in no order and without keeping them. One that changes meanwhile may
    /// come twice. After `Unsteady` some may be missing.
    pub fn each(&mut self, family: Option<Address>, take: impl FnMut(Connection)) -> Result<(), KernelError> {
        self.each_between(family, |_| true, take)
    }

    /// The same for those whose ends are wanted: who has opened it, and who answers. Of others nothing else is read.
    pub fn each_between(
        &mut self,
        family: Option<Address>,
        wanted: impl Fn([IpAddr; 2]) -> bool,
        take: impl FnMut(Connection),
    ) -> Result<(), KernelError> {
        self.read(family.map_or(0, family_number), |_| {}, wanted, take)
    }

    /// The same for those that an address has opened, or that it answers; one that it does both of may come twice. Of IPv4 the kernel looks at
    /// all and tells of few. Of IPv6 it tells of all: its filter leaves out what it should give, since it compares the wrong way round
    /// (`ctnetlink_filter_match_tuple`, seen with 6.18).
    pub fn each_of(&mut self, address: IpAddr, mut take: impl FnMut(Connection)) -> Result<(), KernelError> {
        let family = Address::of(address);
        // Kernels before 5.8 do not know the filter, and give all.
        let wanted = |ends: [IpAddr; 2]| ends.contains(&address);
        let filters = match family {
            Address::V4 => [(uapi::TUPLE_ORIGINAL, uapi::FILTER_ORIGINAL), (uapi::TUPLE_REPLY, uapi::FILTER_REPLY)],
            Address::V6 => return self.each_between(Some(family), wanted, take),
        };
        for (tuple, filter) in filters {
            let source = |writer: &mut Writer| {
                writer.nest(tuple, |writer| writer.nest(uapi::TUPLE_ADDRESSES, |writer| write_source(writer, address)));
                writer.nest(uapi::FILTER, |writer| {
                    for it in [uapi::FILTER_ORIGINAL, uapi::FILTER_REPLY] {
                        let flags: u32 = if it == filter { uapi::FILTER_SOURCE } else { 0 };
                        writer.bytes(it, &flags.to_ne_bytes());
                    }
                });
            };
            self.read(family_number(family), source, wanted, &mut take)?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        family: u8,
        filter: impl FnOnce(&mut Writer),
        wanted: impl Fn([IpAddr; 2]) -> bool,
        mut take: impl FnMut(Connection),
    ) -> Result<(), KernelError> {
        let answer = self.socket.each(question(uapi::GET, flag::DUMP, family), filter, |payload| {
            let parts = Parts::of(payload)?;
            if wanted([source(parts.original)?, source(parts.reply)?]) {
                take(parts.connection()?);
            }
            Ok(())
        });
        answer.map_err(|it| failed(it, || "read connections".to_owned()))
    }

    /// Deletes this connection, by its original tuple, zone and id, and none of other tuples. A later one with the same tuple is left
    /// alone if the id tells it apart.
    pub fn delete(&mut self, connection: &Connection) -> Result<Deleted, KernelError> {
        let deleted = self.delete_all(&[connection])?;
        Ok(deleted.first().copied().unwrap_or(Deleted::WasGone))
    }

    /// Deletes each of some connections in the same way, and says of each what came of it. After an error some are deleted and some are not.
    pub fn delete_all(&mut self, connections: &[&Connection]) -> Result<Vec<Deleted>, KernelError> {
        let mut deleted = Vec::with_capacity(connections.len());
        for some in connections.chunks(AT_ONCE) {
            let told = self.socket.tell(
                some,
                |it| question(uapi::DELETE, 0, family_number(Address::of(it.original.source))),
                |writer, Connection { original, zone, id, .. }| {
                    // Without a tuple the kernel would delete all of them.
                    writer.nest(uapi::TUPLE_ORIGINAL, |writer| write_tuple(writer, original));
                    writer.bytes(uapi::ZONE, &zone.to_be_bytes());
                    writer.u32(uapi::ID, *id);
                },
            );
            let refused = told.map_err(|it| failed(it, || "delete connections".to_owned()))?;
            for (at, Connection { original, .. }) in some.iter().enumerate() {
                deleted.push(match refused.get(&at) {
                    None => Deleted::Yes,
                    Some(Errno::ENOENT) => Deleted::WasGone,
                    Some(Errno::EBUSY) => Deleted::Offloaded,
                    Some(errno) => {
                        return Err(failed(Unanswered::Refused(*errno), || format!("delete connection `{original}`")));
                    }
                });
            }
        }
        Ok(deleted)
    }
}

impl Connection {
    /// Reads what the kernel says about one connection: whatever follows the header of a message.
    pub fn read(payload: &[u8]) -> Result<Connection, Odd> {
        Parts::of(payload)?.connection()
    }
}

impl Tuple {
    /// Writes it as the kernel is told of it, into a nested attribute.
    pub fn write(&self, writer: &mut Writer) {
        write_tuple(writer, self);
    }
}

/// `6 10.0.0.1 port 4000 > 10.0.0.2 port 80`; the protocol stands as a number.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuple { source, destination, protocol, transport } = self;
        match transport {
            Transport::Ports { source: from, destination: to } => write!(f, "{protocol} {source} port {from} > {destination} port {to}"),
            Transport::Icmp { kind, code, id } => write!(f, "{protocol} {source} > {destination} type {kind} code {code} id {id}"),
            Transport::Addresses => write!(f, "{protocol} {source} > {destination}"),
        }
    }
}

fn question(kind: u16, flags: u16, family: u8) -> Question {
    Question { kind: uapi::SUBSYSTEM << 8 | kind, flags, family, resource: 0 }
}

fn failed(unanswered: Unanswered, doing: impl FnOnce() -> String) -> KernelError {
    match unanswered {
        Unanswered::Refused(Errno::EPERM) => KernelError::NoPermission,
        Unanswered::Refused(errno) => KernelError::Connections { doing: doing(), errno },
        Unanswered::TooLong => KernelError::Connections { doing: doing(), errno: Errno::EMSGSIZE },
        Unanswered::Failed(error) => error,
    }
}

/// `AF_INET` or `AF_INET6`.
fn family_number(family: Address) -> u8 {
    match family {
        Address::V4 => 2,
        Address::V6 => 10,
    }
}

/// What a message about a connection says, as it came. A table has as many of these as connections, and few are wanted: nothing is kept that
/// was not asked for.
struct Parts<'a> {
    original: &'a [u8],
    reply: &'a [u8],
    id: u32,
    status: u32,
    mark: Option<[u8; 4]>,
    zone: Option<[u8; 2]>,
}

impl<'a> Parts<'a> {
    fn of(payload: &'a [u8]) -> Result<Parts<'a>, Odd> {
        let body = payload.get(4..).ok_or_else(|| Odd::new("a message is cut short"))?;
        let wanted = [uapi::TUPLE_ORIGINAL, uapi::TUPLE_REPLY, uapi::ID, uapi::STATUS, uapi::MARK, uapi::ZONE];
        let [original, reply, id, status, mark, zone] = attributes(body, wanted)?;
        Ok(Parts {
            original: original.ok_or_else(|| missing(uapi::TUPLE_ORIGINAL))?,
            reply: reply.ok_or_else(|| missing(uapi::TUPLE_REPLY))?,
            id: u32::from_be_bytes(required(id, uapi::ID)?),
            status: u32::from_be_bytes(required(status, uapi::STATUS)?),
            mark: optional(mark, uapi::MARK)?,
            zone: optional(zone, uapi::ZONE)?,
        })
    }

    fn connection(&self) -> Result<Connection, Odd> {
        // A zone for both directions stands outside, one for one direction in its tuple.
        let both = self.zone.map(u16::from_be_bytes).unwrap_or_default();
        let (original, zone) = tuple(self.original)?;
        let (reply, reply_zone) = tuple(self.reply)?;
        Ok(Connection {
            reply,
            zone: zone.unwrap_or(both),
            reply_zone: reply_zone.unwrap_or(both),
            id: self.id,
            status: Status(self.status),
            // Kernels without marks say nothing, and so do newer ones of a mark of 0.
            mark: self.mark.map(u32::from_be_bytes).unwrap_or_default(),
            protocol: original.protocol,
            original,
        })
    }
}

/// The first attribute of each of some kinds. One that cannot be read is an error, also behind those.
fn attributes<const N: usize>(bytes: &[u8], wanted: [u16; N]) -> Result<[Option<&[u8]>; N], Odd> {
    let mut found = [None; N];
    for attribute in AttributesOneByOne::of(bytes) {
        let (kind, value) = attribute?;
        for (found, _) in found.iter_mut().zip(wanted).filter(|(found, wanted)| *wanted == kind && found.is_none()) {
            *found = Some(value);
        }
    }
    Ok(found)
}

/// A value of fixed length that need not be there. One of another length is an error.
fn optional<const N: usize>(value: Option<&[u8]>, kind: u16) -> Result<Option<[u8; N]>, Odd> {
    let odd = |it: &[u8]| Odd(format!("attribute {kind} has {} bytes", it.len()));
    value.map(|it| it.try_into().map_err(|_| odd(it))).transpose()
}

fn required<const N: usize>(value: Option<&[u8]>, kind: u16) -> Result<[u8; N], Odd> {
    optional(value, kind)?.ok_or_else(|| missing(kind))
}

fn missing(kind: u16) -> Odd {
    Odd(format!("attribute {kind} is missing"))
}

/// The source of a tuple, without the rest of it.
fn source(tuple: &[u8]) -> Result<IpAddr, Odd> {
    let [addresses] = attributes(tuple, [uapi::TUPLE_ADDRESSES])?;
    let addresses = addresses.ok_or_else(|| missing(uapi::TUPLE_ADDRESSES))?;
    let [four, six] = attributes(addresses, [uapi::SOURCE4, uapi::SOURCE6])?;
    address(four, six, [uapi::SOURCE4, uapi::SOURCE6])
}

/// A tuple, and the zone that it has for itself.
fn tuple(bytes: &[u8]) -> Result<(Tuple, Option<u16>), Odd> {
    let [addresses, protocol, zone] = attributes(bytes, [uapi::TUPLE_ADDRESSES, uapi::TUPLE_PROTOCOL, uapi::TUPLE_ZONE])?;
    let zone = optional(zone, uapi::TUPLE_ZONE)?.map(u16::from_be_bytes);
    let addresses = addresses.ok_or_else(|| missing(uapi::TUPLE_ADDRESSES))?;
    let kinds = [uapi::SOURCE4, uapi::SOURCE6, uapi::DESTINATION4, uapi::DESTINATION6];
    let [source4, source6, destination4, destination6] = attributes(addresses, kinds)?;
    let source = address(source4, source6, [uapi::SOURCE4, uapi::SOURCE6])?;
    let destination = address(destination4, destination6, [uapi::DESTINATION4, uapi::DESTINATION6])?;
    let protocol = protocol.ok_or_else(|| missing(uapi::TUPLE_PROTOCOL))?;
    let (protocol, transport) = transport(protocol)?;
    Ok((Tuple { source, destination, protocol, transport }, zone))
}

fn address(four: Option<&[u8]>, six: Option<&[u8]>, [of_four, of_six]: [u16; 2]) -> Result<IpAddr, Odd> {
    Ok(match optional::<4>(four, of_four)? {
        Some(four) => four.into(),
        None => Ipv6Addr::from(required::<16>(six, of_six)?).into(),
    })
}

/// The number of a protocol, and what it tells connections apart by.
fn transport(bytes: &[u8]) -> Result<(u8, Transport), Odd> {
    let [id4, kind4, code4] = uapi::ICMP4;
    let [id6, kind6, code6] = uapi::ICMP6;
    let [number, source, destination, icmp4, type4, of4, icmp6, type6, of6] =
        attributes(bytes, [uapi::PROTOCOL_NUMBER, uapi::SOURCE_PORT, uapi::DESTINATION_PORT, id4, kind4, code4, id6, kind6, code6])?;
    let [number] = required(number, uapi::PROTOCOL_NUMBER)?;
    for (id, kind, code, [of_id, of_kind, of_code]) in [(icmp4, type4, of4, uapi::ICMP4), (icmp6, type6, of6, uapi::ICMP6)] {
        if let Some(id) = optional(id, of_id)? {
            let ([kind], [code]) = (required(kind, of_kind)?, required(code, of_code)?);
            return Ok((number, Transport::Icmp { kind, code, id: u16::from_be_bytes(id) }));
        }
    }
    let ports = |source| -> Result<Transport, Odd> {
        let destination = u16::from_be_bytes(required(destination, uapi::DESTINATION_PORT)?);
        Ok(Transport::Ports { source: u16::from_be_bytes(source), destination })
    };
    let transport = optional(source, uapi::SOURCE_PORT)?.map_or(Ok(Transport::Addresses), ports)?;
    Ok((number, transport))
}

fn write_address(writer: &mut Writer, address: IpAddr, [four, six]: [u16; 2]) {
    match address {
        IpAddr::V4(address) => writer.bytes(four, &address.octets()),
        IpAddr::V6(address) => writer.bytes(six, &address.octets()),
    }
}

fn write_source(writer: &mut Writer, address: IpAddr) {
    write_address(writer, address, [uapi::SOURCE4, uapi::SOURCE6]);
}

fn write_tuple(writer: &mut Writer, tuple: &Tuple) {
    writer.nest(uapi::TUPLE_ADDRESSES, |writer| {
        write_source(writer, tuple.source);
        write_address(writer, tuple.destination, [uapi::DESTINATION4, uapi::DESTINATION6]);
    });
    writer.nest(uapi::TUPLE_PROTOCOL, |writer| {
        writer.bytes(uapi::PROTOCOL_NUMBER, &[tuple.protocol]);
        match tuple.transport {
            Transport::Addresses => {}
            Transport::Ports { source, destination } => {
                writer.bytes(uapi::SOURCE_PORT, &source.to_be_bytes());
                writer.bytes(uapi::DESTINATION_PORT, &destination.to_be_bytes());
            }
            Transport::Icmp { kind, code, id } => {
                let [of_id, of_kind, of_code] = match Address::of(tuple.source) {
                    Address::V4 => uapi::ICMP4,
                    Address::V6 => uapi::ICMP6,
                };
                writer.bytes(of_id, &id.to_be_bytes());
                writer.bytes(of_kind, &[kind]);
                writer.bytes(of_code, &[code]);
            }
        }
    });
}

/// Numbers of `linux/netfilter/nfnetlink_conntrack.h`.
mod uapi {
    /// `NFNL_SUBSYS_CTNETLINK`.
    pub(super) const SUBSYSTEM: u16 = 1;
    pub(super) const GET: u16 = 1;
    pub(super) const DELETE: u16 = 2;
    pub(super) const GET_STATISTICS: u16 = 5;
    pub(super) const STATISTICS_ENTRIES: u16 = 1;
    pub(super) const STATISTICS_MOST: u16 = 2;
    pub(super) const GET_STATISTICS_OF_CPUS: u16 = 4;
    pub(super) const STATISTICS_DROP: u16 = 10;
    pub(super) const STATISTICS_EARLY_DROP: u16 = 11;

    pub(super) const TUPLE_ORIGINAL: u16 = 1;
    pub(super) const TUPLE_REPLY: u16 = 2;
    pub(super) const STATUS: u16 = 3;
    pub(super) const MARK: u16 = 8;
    pub(super) const ID: u16 = 12;
    pub(super) const ZONE: u16 = 18;
    pub(super) const FILTER: u16 = 25;

    /// Which parts of the original tuple must be as given, and which of the reply. The numbers of the parts are in no header.
    pub(super) const FILTER_ORIGINAL: u16 = 1;
    pub(super) const FILTER_REPLY: u16 = 2;
    pub(super) const FILTER_SOURCE: u32 = 1;

    pub(super) const TUPLE_ADDRESSES: u16 = 1;
    pub(super) const TUPLE_PROTOCOL: u16 = 2;
    pub(super) const TUPLE_ZONE: u16 = 3;
    pub(super) const SOURCE4: u16 = 1;
    pub(super) const DESTINATION4: u16 = 2;
    pub(super) const SOURCE6: u16 = 3;
    pub(super) const DESTINATION6: u16 = 4;
    pub(super) const PROTOCOL_NUMBER: u16 = 1;
    pub(super) const SOURCE_PORT: u16 = 2;
    pub(super) const DESTINATION_PORT: u16 = 3;
    /// Id, type and code.
    pub(super) const ICMP4: [u16; 3] = [4, 5, 6];
    pub(super) const ICMP6: [u16; 3] = [7, 8, 9];
}
