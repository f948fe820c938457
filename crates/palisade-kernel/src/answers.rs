//! Packets that the kernel takes for answers, and that are not let through all the same: the table `inet palisade-answers`.
//!
//! Conntrack calls a datagram an answer that goes the other way between the same two ports as one before it, whoever meant it to be one. And of a segment in
//! the middle of a connection that it does not know it makes one that the sender has opened: what this node sends meets no other hook of ours.
//! Maps for each family have the packets that are dropped, each with the chain of what denies it: there they are counted and logged as
//! the rules of `inet palisade` do. There is no table while there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use palisade_netlink::{Attributes, Odd, Writer, field};
use palisade_nft::uapi::{INET, chain, data, element, flag, kind, message, rule};
use palisade_nft::{Object, items};

use crate::dump::steady;
use crate::error::KernelError;
use crate::frames::Restored;
use crate::part::{self, FORWARD, Holds, OUTPUT};
use crate::services::expression::{self, Expression, Family};
use crate::socket::Socket;
use crate::transaction::Transaction;

/// What nft calls `inet_service`.
const PORT: u32 = 13;
/// Bits of one type in that of several in a row.
const TYPE_BITS: u32 = 6;
/// An element has up to 160 bytes, and a list of them must fit an attribute of 65,535.
const LIST: usize = 256;

/// Protocols that have ports where TCP has them: it, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Packets from one port to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer {
    // INVARIANT: the port is 0 where the protocol has none.
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
}

impl Answer {
    /// Packets of an IP protocol between two addresses of one family. Ports of a protocol that has none do not count, whatever tracking calls so.
    pub fn new(from: SocketAddr, to: SocketAddr, protocol: u8) -> Answer {
        let [from, to] = [from, to].map(|it| SocketAddr::new(it.ip(), if WITH_PORTS.contains(&protocol) { it.port() } else { 0 }));
        Answer { from, to, protocol }
    }

    pub fn from(&self) -> SocketAddr {
        self.from
    }

    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// The IP protocol.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether the ports of its ends are any.
    pub fn has_ports(&self) -> bool {
        WITH_PORTS.contains(&self.protocol)
    }

    fn map(&self) -> Map {
        let keys = if self.has_ports() { Keys::Ports } else { Keys::Protocols };
        Map { family: Family::of(self.from.ip()), keys }
    }
}

/// One of the maps of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Map {
    family: Family,
    keys: Keys,
}

/// What the keys of a map are besides two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Keys {
    /// Protocol and ports.
    Ports,
    /// The protocol alone.
    Protocols,
}

impl Map {
    const ALL: [Map; 4] = [
        Map { family: Family::V4, keys: Keys::Ports },
        Map { family: Family::V6, keys: Keys::Ports },
        Map { family: Family::V4, keys: Keys::Protocols },
        Map { family: Family::V6, keys: Keys::Protocols },
    ];

    fn name(self) -> &'static str {
        match (self.keys, self.family) {
            (Keys::Ports, Family::V4) => "answers4",
            (Keys::Ports, Family::V6) => "answers6",
            (Keys::Protocols, Family::V4) => "protocols4",
            (Keys::Protocols, Family::V6) => "protocols6",
        }
    }
}

/// The answers of the network namespace that the thread was in when it opened this. The table stays after it.
#[derive(Debug)]
pub struct Answers {
    socket: Socket,
    /// What the table holds, as far as it is known: each with the number that its log has.
    held: Option<BTreeMap<Answer, u32>>,
}

impl Answers {
    /// The name of the table.
    pub const TABLE: &str = "palisade-answers";

    pub fn open() -> Result<Answers, KernelError> {
        Ok(Answers { socket: Socket::open()?, held: None })
    }

    /// What is dropped now, by whoever made the table.
    pub fn found(&mut self) -> Result<BTreeSet<Answer>, KernelError> {
        let odd = |odd: Odd| KernelError::Truncated(odd.0);
        let mut found = BTreeSet::new();
        for map in Map::ALL {
            for payload in steady(&mut self.socket, |socket| elements(socket, map.name()))? {
                for item in items(&payload).map_err(odd)? {
                    let key = Attributes::read(item).and_then(|it| it.nest(element::KEY)?.bytes(data::VALUE).map(<[u8]>::to_vec));
                    found.insert(read_key(map, &key.map_err(odd)?).map_err(odd)?);
                }
            }
        }
        Ok(found)
    }

    /// Makes these all the answers that are dropped, each logged with the number of its origin. What stays the same is not touched; only the
    /// first call makes the table anew, whatever was there.
    pub fn replace(&mut self, wanted: &BTreeMap<Answer, u32>) -> Result<(), KernelError> {
        if let Some(held) = self.held.take() {
            if held == *wanted {
                self.held = Some(held);
                return Ok(());
            }
            if !held.is_empty() && !wanted.is_empty() {
                let mut transaction = Transaction::new(INET, self.socket.sequence());
                change(&mut transaction, &held, wanted);
                match self.socket.commit(&transaction.finish()?) {
                    // Somebody else has changed the table: it is made anew.
                    Err(KernelError::Refused(_)) => {}
                    result => {
                        result?;
                        self.held = Some(wanted.clone());
                        return Ok(());
                    }
                }
            }
        }
        self.write(wanted)?;
        self.held = Some(wanted.clone());
        Ok(())
    }

    /// Makes the table anew, whatever was there. Says whether anything was, or is.
    fn write(&mut self, wanted: &BTreeMap<Answer, u32>) -> Result<Restored, KernelError> {
        if wanted.is_empty() && !part::is_there(&mut self.socket, Self::TABLE)? {
            return Ok(Restored::No);
        }
        let mut transaction = Transaction::new(INET, self.socket.sequence());
        part::remove_table(&mut transaction, Self::TABLE);
        if !wanted.is_empty() {
            part::add_table(&mut transaction, Self::TABLE);
            Map::ALL.into_iter().zip(1..).for_each(|(map, id)| add_map(&mut transaction, map, id));
            add_base(&mut transaction);
            change(&mut transaction, &BTreeMap::new(), wanted);
        }
        self.socket.commit(&transaction.finish()?)?;
        Ok(Restored::Yes)
    }

    /// Makes the table what it was left as: somebody may have changed anything of it.
    pub fn restore(&mut self) -> Result<Restored, KernelError> {
        match self.held.clone() {
            Some(held) => self.write(&held),
            None => Ok(Restored::No),
        }
    }

    /// What a `Monitor` calls the socket that transactions of this one come by.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Puts the table back if somebody has removed it.
    pub fn check(&mut self) -> Result<Restored, KernelError> {
        let Some(held) = self.held.clone().filter(|it| !it.is_empty()) else { return Ok(Restored::No) };
        if part::is_there(&mut self.socket, Self::TABLE)? {
            return Ok(Restored::No);
        }
        self.held = None;
        self.replace(&held)?;
        Ok(Restored::Yes)
    }
}

/// Makes what the table holds into what is wanted. Neither is empty, unless the table is new.
fn change(transaction: &mut Transaction, held: &BTreeMap<Answer, u32>, wanted: &BTreeMap<Answer, u32>) {
    let [before, after] = [held, wanted].map(|it| it.values().copied().collect::<BTreeSet<u32>>());
    for origin in after.difference(&before) {
        part::add_denial(transaction, Answers::TABLE, &chain_name(*origin), *origin);
    }
    let differs = |this: &BTreeMap<Answer, u32>, answer: &Answer, origin: u32| this.get(answer) != Some(&origin);
    let gone = held.iter().filter(|(answer, origin)| differs(wanted, answer, **origin));
    let come = wanted.iter().filter(|(answer, origin)| differs(held, answer, **origin));
    write_elements(transaction, message::DELETE_ELEMENTS, 0, gone);
    write_elements(transaction, message::NEW_ELEMENTS, flag::CREATE, come);
    for origin in before.difference(&after) {
        let name = chain_name(*origin);
        // Its rule goes first: a chain that has rules is not deleted.
        transaction.push(Object::Chain(name.clone()), message::DELETE_RULE, 0, |writer| {
            writer.text(rule::TABLE, Answers::TABLE);
            writer.text(rule::CHAIN, &name);
        });
        transaction.push(Object::Chain(name.clone()), message::DELETE_CHAIN, 0, |writer| {
            writer.text(chain::TABLE, Answers::TABLE);
            writer.text(chain::NAME, &name);
        });
    }
}

fn write_elements<'a>(transaction: &mut Transaction, kind: u16, flags: u16, answers: impl Iterator<Item = (&'a Answer, &'a u32)>) {
    let mut by_map: BTreeMap<Map, Vec<(&Answer, u32)>> = BTreeMap::new();
    for (answer, origin) in answers {
        by_map.entry(answer.map()).or_default().push((answer, *origin));
    }
    for (map, list) in by_map {
        let name = map.name();
        for list in list.chunks(LIST) {
            transaction.push(Object::Elements(name.to_owned()), kind, flags, |writer| {
                writer.text(element::TABLE, Answers::TABLE);
                writer.text(element::SET, name);
                writer.nest(element::LIST, |writer| list.iter().for_each(|(answer, origin)| write_element(writer, answer, *origin)));
            });
        }
    }
}

fn write_element(writer: &mut Writer, answer: &Answer, origin: u32) {
    writer.nest(element::ITEM, |writer| {
        writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, &key(answer)));
        writer.nest(element::DATA, |writer| expression::write_goto(writer, &chain_name(origin)));
    });
}

/// Addresses, protocol and ports, each filled up to whole registers of four bytes.
fn key(answer: &Answer) -> Vec<u8> {
    let Answer { from, to, protocol } = answer;
    let [source, destination] = [from, to].map(|it| expression::octets(it.ip()));
    let [source_port, destination_port] = [from, to].map(|it| it.port().to_be_bytes());
    let ends = [&source[..], &destination, &[*protocol, 0, 0, 0]].concat();
    match answer.map().keys {
        Keys::Ports => [&ends[..], &source_port, &[0, 0], &destination_port, &[0, 0]].concat(),
        Keys::Protocols => ends,
    }
}

/// Gives back what `key` was made of.
fn read_key(Map { family, keys }: Map, key: &[u8]) -> Result<Answer, Odd> {
    let odd = || Odd::new("a key that is no answer");
    let length = usize::try_from(family.length()).map_err(|_| odd())?;
    let address = |at: usize| -> Result<IpAddr, Odd> {
        match family {
            Family::V4 => field::<4>(key, at).map(IpAddr::from).ok_or_else(odd),
            Family::V6 => field::<16>(key, at).map(IpAddr::from).ok_or_else(odd),
        }
    };
    let port = |at: usize| match keys {
        Keys::Ports => field::<2>(key, at).map(u16::from_be_bytes).ok_or_else(odd),
        Keys::Protocols => Ok(0),
    };
    let after = 2 * length;
    let (from, to) = (SocketAddr::new(address(0)?, port(after + 4)?), SocketAddr::new(address(length)?, port(after + 8)?));
    Ok(Answer::new(from, to, key.get(after).copied().ok_or_else(odd)?))
}

/// The elements of a map, as the kernel tells them. None if there is no such map.
fn elements(socket: &mut Socket, map: &str) -> Result<Vec<Vec<u8>>, KernelError> {
    let asked = socket.ask(Object::Elements(map.to_owned()), message::GET_ELEMENTS, flag::DUMP, |writer| {
        writer.text(element::TABLE, Answers::TABLE);
        writer.text(element::SET, map);
    });
    match asked {
        Err(KernelError::Refused(refusals)) if refusals.iter().all(|it| it.errno == Errno::ENOENT) => Ok(Vec::new()),
        answer => answer,
    }
}

fn chain_name(origin: u32) -> String {
    format!("denied-{origin:08x}")
}

fn add_map(transaction: &mut Transaction, map: Map, id: u32) {
    let address = match map.family {
        Family::V4 => kind::IPV4,
        Family::V6 => kind::IPV6,
    };
    let (kinds, length): (&[u32], u32) = match map.keys {
        Keys::Ports => (&[address, address, kind::PROTOCOL, PORT, PORT], 12),
        Keys::Protocols => (&[address, address, kind::PROTOCOL], 4),
    };
    let kinds = kinds.iter().fold(0, |all, it| all << TYPE_BITS | it);
    part::add_set(transaction, Answers::TABLE, map.name(), id, (kinds, map.family.length() * 2 + length), &Holds::Chains);
}

/// The chains that look into the maps: for what others send, and for what this node does.
fn add_base(transaction: &mut Transaction) {
    for (name, hook) in [("forward", FORWARD), ("output", OUTPUT)] {
        part::add_base(transaction, Answers::TABLE, name, hook);
        for (index, map) in Map::ALL.into_iter().enumerate() {
            let Map { family, keys } = map;
            let mut look = [&expression::of_family(family)[..], &expression::ends(family)].concat();
            look.push(expression::protocol_after_ends(family));
            match keys {
                Keys::Ports => look.extend(expression::ports_after_ends(family)),
                Keys::Protocols => {}
            }
            look.push(Expression::VerdictOf(map.name().to_owned()));
            part::add_rule(transaction, Answers::TABLE, name, index, &look);
        }
    }
}
