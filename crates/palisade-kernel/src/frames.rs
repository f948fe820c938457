//! Which frames may come from the links of pods: plain IPv4, IPv6 and ARP.
//!
//! A frame with VLAN tags does not meet a chain of the family `inet`, but the kernel takes tags of VLAN 0 off and hands on what is inside, whatever its
//! source. Only the family `netdev` sees it, so this is a table of its own: `netdev palisade`, one rule, no policy in it.
//!
//! INVARIANT: a link that stays always has a chain. Links that come get one of their own, and one that some links leave goes after packets have met
//! another for the rest: to delete and to add in one commit lets packets through that are on their way.

use std::collections::{BTreeMap, BTreeSet};

use palisade_netlink::{Attributes, Odd, Writer};
use palisade_nft::Object;
use palisade_nft::uapi::{chain, data, flag, message, rule, table};

use crate::dump::steady;
use crate::error::KernelError;
use crate::grace::grace;
use crate::socket::{Question, Socket, Unanswered};
use crate::transaction::Transaction;

const TABLE: &str = "palisade";
/// What the names of chains begin with.
const NAME: &str = "frames-";
/// `NFPROTO_NETDEV`.
const NETDEV: u8 = 5;
/// `NF_NETDEV_INGRESS`.
const INGRESS: u32 = 0;
/// Before the chain that binds sources.
const PRIORITY: i32 = -510;
/// The kernel takes so many devices for one chain.
const DEVICES: usize = 255;
const COMMENT: &str = "tagged or foreign frame";
/// IPv4, IPv6 and ARP, as a frame says it.
const PLAIN: [u16; 3] = [0x0800, 0x86dd, 0x0806];

/// The frames of the network namespace that the thread was in when it opened this. The table stays after it.
#[derive(Debug)]
pub struct Frames {
    socket: Socket,
    wanted: Wanted,
}

/// The links last asked for: wanted until they are there, also when writing them failed.
#[derive(Debug)]
enum Wanted {
    Nothing,
    Unwritten(BTreeSet<String>),
    /// By the chains that have them.
    Written(Vec<Chain>),
}

impl Wanted {
    fn links(&self) -> BTreeSet<String> {
        match self {
            Wanted::Nothing => BTreeSet::new(),
            Wanted::Unwritten(links) => links.clone(),
            Wanted::Written(chains) => links_of(chains),
        }
    }
}

impl Frames {
    pub fn open() -> Result<Frames, KernelError> {
        Ok(Frames { socket: Socket::open()?, wanted: Wanted::Nothing })
    }

    /// What a `Monitor` calls the socket that transactions of this one come by.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Lets only plain frames in from these links, and asks nothing of any other. Writes nothing if that is so already.
    pub fn replace(&mut self, links: &BTreeSet<String>) -> Result<(), KernelError> {
        let chains = match &self.wanted {
            Wanted::Written(chains) => Some(chains.clone()),
            // Whoever was here before has left it.
            Wanted::Nothing => self.raw()?.chains()?,
            Wanted::Unwritten(_) => None,
        };
        self.wanted = Wanted::Unwritten(links.clone());
        match chains {
            Some(chains) => self.change(chains, links),
            None => self.write(links),
        }
    }

    /// The same of these links besides those that were asked for before.
    pub fn add(&mut self, links: &BTreeSet<String>) -> Result<(), KernelError> {
        let all = self.wanted.links().union(links).cloned().collect();
        self.replace(&all)
    }

    /// Looks whether the table is what is wanted, and puts it back if not. Says whether it had to.
    pub fn check(&mut self) -> Result<Restored, KernelError> {
        if matches!(self.wanted, Wanted::Nothing) {
            return Ok(Restored::No);
        }
        let links = self.wanted.links();
        if let Some(chains) = self.raw()?.chains()?.filter(|it| links_of(it) == links) {
            self.wanted = Wanted::Written(chains);
            return Ok(Restored::No);
        }
        self.write(&links)?;
        Ok(Restored::Yes)
    }

    /// Makes the table anew, whatever is there.
    fn write(&mut self, links: &BTreeSet<String>) -> Result<(), KernelError> {
        let mut transaction = Transaction::new(NETDEV, self.socket.sequence());
        remove_table(&mut transaction);
        let chains = chains(links, &[]);
        add_chains(&mut transaction, &chains);
        self.socket.commit(&transaction.finish()?)?;
        self.wanted = Wanted::Written(chains);
        Ok(())
    }

    /// From these chains to those for other links. None of a link that stays is missing at any time.
    fn change(&mut self, before: Vec<Chain>, links: &BTreeSet<String>) -> Result<(), KernelError> {
        let (stay, go): (Vec<Chain>, Vec<Chain>) = before.iter().cloned().partition(|it| it.links.is_subset(links));
        let come = chains(&links.difference(&links_of(&stay)).cloned().collect(), &before);
        if !come.is_empty() {
            let mut transaction = Transaction::new(NETDEV, self.socket.sequence());
            add_chains(&mut transaction, &come);
            self.socket.commit(&transaction.finish()?)?;
        }
        if !go.is_empty() {
            if !come.is_empty() {
                grace()?;
            }
            let mut transaction = Transaction::new(NETDEV, self.socket.sequence());
            match links.is_empty() {
                true => remove_table(&mut transaction),
                false => go.iter().for_each(|it| remove_chain(&mut transaction, &it.name())),
            }
            self.socket.commit(&transaction.finish()?)?;
        }
        self.wanted = Wanted::Written(stay.into_iter().chain(come).collect());
        Ok(())
    }

    /// The table as the kernel tells it, in one state of it.
    pub fn raw(&mut self) -> Result<FramesDump, KernelError> {
        steady(&mut self.socket, |socket| {
            let mut of_kind =
                |kind| -> Result<Vec<Vec<u8>>, KernelError> { Ok(ask(socket, kind)?.into_iter().filter(|it| is_own(it)).collect()) };
            Ok(FramesDump {
                tables: of_kind(message::GET_TABLE)?,
                chains: of_kind(message::GET_CHAIN)?,
                rules: of_kind(message::GET_RULE)?,
            })
        })
    }
}

/// What is asked for is told of all tables of the family, and all of it names its table in the same place.
fn is_own(payload: &[u8]) -> bool {
    Attributes::of_payload(payload).and_then(|it| it.text(chain::TABLE).map(str::to_owned)) == Ok(TABLE.to_owned())
}

fn ask(socket: &mut Socket, kind: u16) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut payloads = Vec::new();
    let question = Question { kind, flags: flag::DUMP, family: NETDEV, resource: 0 };
    let answer = socket.each(
        question,
        |_| {},
        |payload| {
            payloads.push(payload.to_vec());
            Ok(())
        },
    );
    match answer {
        Ok(()) => Ok(payloads),
        Err(Unanswered::Refused(errno)) => Err(KernelError::Socket { doing: "read the table of frames", errno }),
        Err(Unanswered::TooLong) => Err(KernelError::Truncated("a question that is too long".to_owned())),
        Err(Unanswered::Failed(error)) => Err(error),
    }
}

/// The table `netdev palisade`, as the payloads of the kernel's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FramesDump {
    pub tables: Vec<Vec<u8>>,
    pub chains: Vec<Vec<u8>>,
    pub rules: Vec<Vec<u8>>,
}

impl FramesDump {
    /// Whether it is one of those that are written for these links, and has nothing else.
    pub fn is_for(&self, links: &BTreeSet<String>) -> Result<bool, KernelError> {
        Ok(self.chains()?.is_some_and(|it| links_of(&it) == *links))
    }

    /// Its chains, if all that it has is as it would be written for some links.
    fn chains(&self) -> Result<Option<Vec<Chain>>, KernelError> {
        // The links of a chain in the order that the kernel tells them.
        let Ok(named) = self.chains.iter().map(|it| read_chain(it)).collect::<Result<Vec<_>, Odd>>() else { return Ok(None) };
        let (mut wanted_chains, mut wanted_rules, mut chains) = (Vec::new(), Vec::new(), Vec::new());
        for (number, links) in named {
            let chain = Chain { number, links: links.iter().cloned().collect() };
            wanted_chains.push(body(|writer| write_chain(writer, &chain.name(), &links))?);
            wanted_rules.push(body(|writer| write_rule(writer, &chain.name()))?);
            chains.push(chain);
        }
        let wanted_table = if chains.is_empty() { Vec::new() } else { vec![body(write_table)?] };
        let ours = all_say(&self.tables, &wanted_table) && all_say(&self.chains, &wanted_chains) && all_say(&self.rules, &wanted_rules);
        Ok(ours.then_some(chains))
    }
}

fn all_say(told: &[Vec<u8>], wanted: &[Vec<u8>]) -> bool {
    let says = |told: &[u8], wanted: &[u8]| match (Attributes::of_payload(told), Attributes::read(wanted)) {
        (Ok(told), Ok(wanted)) => says(&told, &wanted),
        (Ok(_) | Err(_), _) => false,
    };
    told.len() == wanted.len() && told.iter().zip(wanted).all(|(told, wanted)| says(told, wanted))
}

/// Whether something was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    Yes,
    No,
}

/// One chain, with as many links as it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    number: usize,
    links: BTreeSet<String>,
}

impl Chain {
    fn name(&self) -> String {
        format!("{NAME}{}", self.number)
    }
}

/// New chains for links, with other numbers than those that are there.
fn chains(links: &BTreeSet<String>, beside: &[Chain]) -> Vec<Chain> {
    let links: Vec<&String> = links.iter().collect();
    let free = (1_usize..).filter(|number| beside.iter().all(|it| it.number != *number));
    let each = free.zip(links.chunks(DEVICES));
    each.map(|(number, links)| Chain { number, links: links.iter().copied().cloned().collect() }).collect()
}

fn links_of(chains: &[Chain]) -> BTreeSet<String> {
    chains.iter().flat_map(|it| it.links.iter().cloned()).collect()
}

/// The number of a chain and its links, in the kernel's order.
fn read_chain(payload: &[u8]) -> Result<(usize, Vec<String>), Odd> {
    let odd = || Odd::new("a chain of others");
    let from = Attributes::of_payload(payload)?;
    let number = from.text(chain::NAME)?.strip_prefix(NAME).and_then(|it| it.parse().ok()).ok_or_else(odd)?;
    let name = |it: &[u8]| std::str::from_utf8(it.strip_suffix(&[0]).unwrap_or(it)).map(str::to_owned).map_err(|_| odd());
    let links = from.nest(chain::HOOK)?.nest(chain::HOOK_DEVICES)?.iter().map(|(_, it)| name(it)).collect::<Result<Vec<String>, Odd>>();
    Ok((number, links?))
}

/// Whether what the kernel tells holds all that was written. It adds attributes of its own (handles, what was counted), but no second of a kind.
fn says(told: &Attributes<'_>, wanted: &Attributes<'_>) -> bool {
    let of = |attributes: &Attributes<'_>, kind: u16| attributes.iter().filter(|(it, _)| *it == kind).count();
    let mut met = BTreeMap::new();
    wanted.iter().all(|(kind, value)| {
        let nth = met.entry(kind).and_modify(|it| *it += 1).or_insert(0_usize);
        let answer = told.iter().filter(|(it, _)| *it == kind).nth(*nth).map(|(_, it)| it);
        let inside = || {
            let (Some(Ok(told)), Ok(wanted)) = (answer.map(Attributes::read), Attributes::read(value)) else { return false };
            says(&told, &wanted)
        };
        of(told, kind) == of(wanted, kind) && (answer == Some(value) || inside())
    })
}

fn body(write: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, KernelError> {
    let mut writer = Writer::default();
    write(&mut writer);
    writer.finish().map_err(|_| KernelError::Truncated("a chain that is too long".to_owned()))
}

fn add_table(transaction: &mut Transaction) {
    transaction.push(Object::Table, message::NEW_TABLE, flag::CREATE, write_table);
}

/// Removes the table, whether it is there or not.
fn remove_table(transaction: &mut Transaction) {
    add_table(transaction);
    transaction.push(Object::Table, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, TABLE));
}

/// Adds chains with their rule, to a table that is made for the first of them.
fn add_chains(transaction: &mut Transaction, chains: &[Chain]) {
    if !chains.is_empty() {
        add_table(transaction);
    }
    for chain in chains {
        let (name, links) = (chain.name(), chain.links.iter().cloned().collect::<Vec<String>>());
        transaction.push(Object::Chain(name.clone()), message::NEW_CHAIN, flag::CREATE, |writer| write_chain(writer, &name, &links));
        let object = Object::Rule { chain: name.clone(), index: 0 };
        transaction.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| write_rule(writer, &name));
    }
}

/// Its rule goes first: a chain that has rules is not deleted.
fn remove_chain(transaction: &mut Transaction, name: &str) {
    transaction.push(Object::Chain(name.to_owned()), message::DELETE_RULE, 0, |writer| {
        writer.text(rule::TABLE, TABLE);
        writer.text(rule::CHAIN, name);
    });
    transaction.push(Object::Chain(name.to_owned()), message::DELETE_CHAIN, 0, |writer| {
        writer.text(chain::TABLE, TABLE);
        writer.text(chain::NAME, name);
    });
}

fn write_table(writer: &mut Writer) {
    writer.text(table::NAME, TABLE);
    writer.u32(table::FLAGS, 0);
}

fn write_chain(writer: &mut Writer, name: &str, links: &[String]) {
    writer.text(chain::TABLE, TABLE);
    writer.text(chain::NAME, name);
    writer.text(chain::TYPE, "filter");
    writer.u32(chain::POLICY, chain::ACCEPT);
    writer.nest(chain::HOOK, |writer| {
        writer.u32(chain::HOOK_NUMBER, INGRESS);
        writer.bytes(chain::HOOK_PRIORITY, &PRIORITY.to_be_bytes());
        writer.nest(chain::HOOK_DEVICES, |writer| links.iter().for_each(|it| writer.text(chain::DEVICE_NAME, it)));
    });
}

fn write_rule(writer: &mut Writer, chain: &str) {
    writer.text(rule::TABLE, TABLE);
    writer.text(rule::CHAIN, chain);
    writer.nest(rule::EXPRESSIONS, |writer| {
        link_is_ethernet(writer);
        for kind in PLAIN {
            frame_type_is_not(writer, kind);
        }
        expression(writer, "counter", |_| {});
        expression(writer, "immediate", drop_it);
    });
    writer.bytes(rule::USERDATA, &comment());
}

/// Tells nft what the frame is made of; the link of a pod is nothing else.
fn link_is_ethernet(writer: &mut Writer) {
    const LINK_TYPE: u32 = 8;
    const ETHERNET: u16 = 1;
    expression(writer, "meta", |writer| [(1, 1), (2, LINK_TYPE)].into_iter().for_each(|(key, value)| writer.u32(key, value)));
    expression(writer, "cmp", |writer| {
        writer.u32(1, 1);
        writer.u32(2, 0);
        writer.nest(3, |writer| writer.bytes(data::VALUE, &ETHERNET.to_ne_bytes()));
    });
}

/// Loads the type of the frame, tags included, and goes on if it is another.
fn frame_type_is_not(writer: &mut Writer, kind: u16) {
    // Register, base (the frame), offset, length.
    expression(writer, "payload", |writer| [(1, 1), (2, 0), (3, 12), (4, 2)].into_iter().for_each(|(key, value)| writer.u32(key, value)));
    expression(writer, "cmp", |writer| {
        writer.u32(1, 1);
        writer.u32(2, 1);
        writer.nest(3, |writer| writer.bytes(data::VALUE, &kind.to_be_bytes()));
    });
}

fn drop_it(writer: &mut Writer) {
    writer.u32(1, 0);
    writer.nest(2, |writer| {
        writer.nest(data::VERDICT, |writer| writer.bytes(data::VERDICT_CODE, &data::DROP.to_be_bytes()));
    });
}

fn expression(writer: &mut Writer, name: &str, body: impl FnOnce(&mut Writer)) {
    writer.nest(1, |writer| {
        writer.text(1, name);
        writer.nest(2, body);
    });
}

/// As nft keeps it: kind 0, length with the final zero, text.
fn comment() -> Vec<u8> {
    let length = u8::try_from(COMMENT.len() + 1).unwrap_or(u8::MAX);
    [&[0, length], COMMENT.as_bytes(), &[0]].concat()
}
