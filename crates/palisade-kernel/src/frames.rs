//! Which frames may come from the links of pods: plain IPv4, IPv6 and ARP.
//!
//! A frame with VLAN tags does not meet a chain of the family `inet`, but the kernel takes tags of VLAN 0 off and hands on what is inside, whatever its
//! source. Only the family `netdev` sees it, so this is a table of its own: `netdev palisade`, one rule, no policy in it.

use std::collections::BTreeSet;

use palisade_netlink::{Attributes, Writer};
use palisade_nft::Object;
use palisade_nft::uapi::{chain, data, flag, message, rule, table};

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
    held: Option<Held>,
}

/// What was written, and what the kernel made of it.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    links: BTreeSet<String>,
    seen: Seen,
}

/// The chains as the kernel tells them, and how many rules there are: what these count changes.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    chains: Vec<Vec<u8>>,
    rules: usize,
}

impl Frames {
    pub fn open() -> Result<Frames, KernelError> {
        Ok(Frames { socket: Socket::open()?, held: None })
    }

    /// Lets only plain frames in from these links, and asks nothing of any other. Writes nothing if that is so already.
    pub fn replace(&mut self, links: &BTreeSet<String>) -> Result<(), KernelError> {
        if self.held.as_ref().is_some_and(|it| it.links == *links) {
            return Ok(());
        }
        self.held = None;
        self.write(links)?;
        self.held = Some(Held { links: links.clone(), seen: self.look()? });
        Ok(())
    }

    /// Looks whether the table is as it was left, and puts it back if not. Says whether it had to.
    pub fn check(&mut self) -> Result<Restored, KernelError> {
        let Some(links) = self.held.as_ref().map(|it| it.links.clone()) else { return Ok(Restored::No) };
        let seen = self.look()?;
        if self.held.as_ref().is_some_and(|it| it.seen == seen) {
            return Ok(Restored::No);
        }
        self.held = None;
        self.replace(&links)?;
        Ok(Restored::Yes)
    }

    fn write(&mut self, links: &BTreeSet<String>) -> Result<(), KernelError> {
        let mut transaction = Transaction::new(NETDEV, self.socket.sequence());
        add_table(&mut transaction);
        transaction.push(Object::Table, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, TABLE));
        if !links.is_empty() {
            add_table(&mut transaction);
        }
        let links: Vec<&String> = links.iter().collect();
        for (number, links) in (1_usize..).zip(links.chunks(DEVICES)) {
            add_chain(&mut transaction, &format!("frames-{number}"), links);
        }
        self.socket.commit(&transaction.finish()?)
    }

    fn look(&mut self) -> Result<Seen, KernelError> {
        // Chains are told of all tables of the family.
        let own = |payload: &Vec<u8>| {
            Attributes::of_payload(payload).and_then(|it| it.text(chain::TABLE).map(str::to_owned)) == Ok(TABLE.to_owned())
        };
        let chains = self.ask(message::GET_CHAIN)?.into_iter().filter(own).collect();
        let rules = self.ask(message::GET_RULE)?.iter().filter(|it| own(it)).count();
        Ok(Seen { chains, rules })
    }

    fn ask(&mut self, kind: u16) -> Result<Vec<Vec<u8>>, KernelError> {
        let mut payloads = Vec::new();
        let question = Question { kind, flags: flag::DUMP, family: NETDEV, resource: 0 };
        let answer = self.socket.each(
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
}

/// Whether something was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    Yes,
    No,
}

fn add_table(transaction: &mut Transaction) {
    transaction.push(Object::Table, message::NEW_TABLE, flag::CREATE, |writer| {
        writer.text(table::NAME, TABLE);
        writer.u32(table::FLAGS, 0);
    });
}

fn add_chain(transaction: &mut Transaction, name: &str, links: &[&String]) {
    transaction.push(Object::Chain(name.to_owned()), message::NEW_CHAIN, flag::CREATE, |writer| {
        writer.text(chain::TABLE, TABLE);
        writer.text(chain::NAME, name);
        writer.text(chain::TYPE, "filter");
        writer.u32(chain::POLICY, chain::ACCEPT);
        writer.nest(chain::HOOK, |writer| {
            writer.u32(chain::HOOK_NUMBER, INGRESS);
            writer.bytes(chain::HOOK_PRIORITY, &PRIORITY.to_be_bytes());
            writer.nest(chain::HOOK_DEVICES, |writer| links.iter().for_each(|it| writer.text(chain::DEVICE_NAME, it)));
        });
    });
    transaction.push(Object::Rule { chain: name.to_owned(), index: 0 }, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| {
        writer.text(rule::TABLE, TABLE);
        writer.text(rule::CHAIN, name);
        writer.nest(rule::EXPRESSIONS, |writer| {
            link_is_ethernet(writer);
            for kind in PLAIN {
                frame_type_is_not(writer, kind);
            }
            expression(writer, "counter", |_| {});
            expression(writer, "immediate", drop_it);
        });
        writer.bytes(rule::USERDATA, &comment());
    });
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
