//! Which frames may come from the links of pods: plain IPv4, IPv6 and ARP.
//!
//! A frame with VLAN tags does not meet a chain of the family `inet`, but the kernel takes tags of VLAN 0 off and hands on what is inside, whatever its
//! source. Only the family `netdev` sees it, so this is a table of its own: `netdev palisade`, one rule, no policy in it.

use std::collections::{BTreeMap, BTreeSet};

use palisade_netlink::{Attributes, Writer};
use palisade_nft::Object;
use palisade_nft::uapi::{chain, data, flag, message, rule, table};

use crate::dump::steady;
use crate::error::KernelError;
use crate::socket::{Question, Socket, Unanswered};
use crate::transaction::Transaction;

const TABLE: &str = "palisade";
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
    Written(BTreeSet<String>),
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
        match &self.wanted {
            Wanted::Written(written) if written == links => Ok(()),
            Wanted::Nothing | Wanted::Unwritten(_) | Wanted::Written(_) => self.write(links.clone()),
        }
    }

    /// Looks whether the table is what is wanted, and puts it back if not. Says whether it had to.
    pub fn check(&mut self) -> Result<Restored, KernelError> {
        let (Wanted::Unwritten(links) | Wanted::Written(links)) = &self.wanted else { return Ok(Restored::No) };
        let links = links.clone();
        if self.is_written(&links)? {
            return Ok(Restored::No);
        }
        self.write(links)?;
        Ok(Restored::Yes)
    }

    fn write(&mut self, links: BTreeSet<String>) -> Result<(), KernelError> {
        let mut transaction = Transaction::new(NETDEV, self.socket.sequence());
        add_table(&mut transaction);
        transaction.push(Object::Table, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, TABLE));
        if !links.is_empty() {
            add_table(&mut transaction);
        }
        for Chain { name, links } in chains(&links) {
            transaction.push(Object::Chain(name.clone()), message::NEW_CHAIN, flag::CREATE, |writer| write_chain(writer, &name, &links));
            let object = Object::Rule { chain: name.clone(), index: 0 };
            transaction.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| write_rule(writer, &name));
        }
        self.wanted = Wanted::Unwritten(links.clone());
        self.socket.commit(&transaction.finish()?)?;
        self.wanted = Wanted::Written(links);
        Ok(())
    }

    /// Whether the kernel has what would be written for these links, and nothing else in the table.
    fn is_written(&mut self, links: &BTreeSet<String>) -> Result<bool, KernelError> {
        self.raw()?.is_for(links)
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
    /// Whether it is what would be written for these links, and has nothing else.
    pub fn is_for(&self, links: &BTreeSet<String>) -> Result<bool, KernelError> {
        let chains = chains(links);
        let wanted_chains: Result<Vec<_>, _> = chains.iter().map(|it| body(|writer| write_chain(writer, &it.name, &it.links))).collect();
        let wanted_rules: Result<Vec<_>, _> = chains.iter().map(|it| body(|writer| write_rule(writer, &it.name))).collect();
        let wanted_table = if links.is_empty() { Vec::new() } else { vec![body(write_table)?] };
        Ok(all_say(&self.tables, &wanted_table) && all_say(&self.chains, &wanted_chains?) && all_say(&self.rules, &wanted_rules?))
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
struct Chain<'a> {
    name: String,
    links: Vec<&'a String>,
}

fn chains(links: &BTreeSet<String>) -> Vec<Chain<'_>> {
    let links: Vec<&String> = links.iter().collect();
    (1_usize..)
        .zip(links.chunks(DEVICES))
        .map(|(number, links)| Chain { name: format!("frames-{number}"), links: links.to_vec() })
        .collect()
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

fn write_table(writer: &mut Writer) {
    writer.text(table::NAME, TABLE);
    writer.u32(table::FLAGS, 0);
}

fn write_chain(writer: &mut Writer, name: &str, links: &[&String]) {
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
