//! Addresses behind links of the node of which nobody has told yet: the table `inet palisade-strays`.
//!
//! The rules of `inet palisade` know the links of pods by their names. A link of another name that leads to a pod is known by its route alone,
//! and nothing is from or for that address on that link while it is here. There is no table while there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_nft::Object;
use palisade_nft::uapi::{INET, data, element, flag, kind, message};

use crate::error::KernelError;
use crate::frames::Restored;
use crate::part::{self, FORWARD, Holds, INPUT};
use crate::services::expression::{self, Expression, Family};
use crate::socket::Socket;
use crate::transaction::Transaction;

const DENIED: &str = "denied";
/// A link's name, filled up with zeros.
const NAME: usize = 16;
/// An element has up to 64 bytes, and a list of them must fit an attribute of 65,535.
const LIST: usize = 512;

/// An address, and the link that leads to it.
pub type Stray = (String, IpAddr);

/// The strays of the network namespace that the thread was in when it opened this. The table stays after it.
#[derive(Debug)]
pub struct Strays {
    socket: Socket,
    /// What the table holds, as far as it is known, and the number that its log has.
    held: Option<(u32, BTreeSet<Stray>)>,
}

impl Strays {
    /// The name of the table.
    pub const TABLE: &str = "palisade-strays";

    pub fn open() -> Result<Strays, KernelError> {
        Ok(Strays { socket: Socket::open()?, held: None })
    }

    /// Makes these all the strays there are; what is dropped is logged with the number of an origin. What stays the same is not touched.
    pub fn replace(&mut self, origin: u32, wanted: &BTreeSet<Stray>) -> Result<(), KernelError> {
        match self.held.take() {
            Some((number, held)) if held == *wanted && (number == origin || held.is_empty()) => {
                self.held = Some((number, held));
                return Ok(());
            }
            Some((number, held)) if number == origin && !held.is_empty() && !wanted.is_empty() => {
                let mut transaction = Transaction::new(INET, self.socket.sequence());
                write_elements(&mut transaction, message::DELETE_ELEMENTS, 0, held.difference(wanted));
                write_elements(&mut transaction, message::NEW_ELEMENTS, flag::CREATE, wanted.difference(&held));
                match self.socket.commit(&transaction.finish()?) {
                    // Somebody else has changed the table: it is made anew.
                    Err(KernelError::Refused(_)) => {}
                    result => {
                        result?;
                        self.held = Some((origin, wanted.clone()));
                        return Ok(());
                    }
                }
            }
            Some(_) | None => {}
        }
        self.write(origin, wanted)?;
        self.held = Some((origin, wanted.clone()));
        Ok(())
    }

    /// Makes the table anew, whatever was there. Says whether anything was, or is.
    fn write(&mut self, origin: u32, wanted: &BTreeSet<Stray>) -> Result<Restored, KernelError> {
        if wanted.is_empty() && !part::is_there(&mut self.socket, Self::TABLE)? {
            return Ok(Restored::No);
        }
        let mut transaction = Transaction::new(INET, self.socket.sequence());
        part::remove_table(&mut transaction, Self::TABLE);
        if !wanted.is_empty() {
            add_all(&mut transaction, origin, wanted);
        }
        self.socket.commit(&transaction.finish()?)?;
        Ok(Restored::Yes)
    }

    /// Makes the table what it was left as: somebody may have changed anything of it.
    pub fn restore(&mut self) -> Result<Restored, KernelError> {
        match self.held.clone() {
            Some((origin, held)) => self.write(origin, &held),
            None => Ok(Restored::No),
        }
    }

    /// What a `Monitor` calls the socket that transactions of this one come by.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Puts the table back if somebody has removed it.
    pub fn check(&mut self) -> Result<Restored, KernelError> {
        let Some((origin, held)) = self.held.clone().filter(|(_, it)| !it.is_empty()) else { return Ok(Restored::No) };
        if part::is_there(&mut self.socket, Self::TABLE)? {
            return Ok(Restored::No);
        }
        self.held = None;
        self.replace(origin, &held)?;
        Ok(Restored::Yes)
    }
}

fn add_all(transaction: &mut Transaction, origin: u32, wanted: &BTreeSet<Stray>) {
    part::add_table(transaction, Strays::TABLE);
    for (family, id) in Family::BOTH.into_iter().zip(1..) {
        let address = match family {
            Family::V4 => kind::IPV4,
            Family::V6 => kind::IPV6,
        };
        part::add_set(transaction, Strays::TABLE, set_name(family), id, (kind::with_link(address), family.length() + 16), &Holds::Keys);
    }
    part::add_denial(transaction, Strays::TABLE, DENIED, origin);
    let end = |family| [Expression::Member(set_name(family).to_owned()), Expression::Goto(DENIED)];
    let from = |family| [&expression::of_family(family)[..], &expression::link_and_source(family), &end(family)].concat();
    let to = |family| [&expression::of_family(family)[..], &expression::link_and_destination(family), &end(family)].concat();
    part::add_base(transaction, Strays::TABLE, "forward", FORWARD);
    let forward = Family::BOTH.into_iter().flat_map(|it| [from(it), to(it)]);
    forward.enumerate().for_each(|(index, rule)| part::add_rule(transaction, Strays::TABLE, "forward", index, &rule));
    // The node may call the pod, and is answered.
    part::add_base(transaction, Strays::TABLE, "input", INPUT);
    for (index, family) in Family::BOTH.into_iter().enumerate() {
        part::add_rule(transaction, Strays::TABLE, "input", index, &[&expression::of_new()[..], &from(family)].concat());
    }
    write_elements(transaction, message::NEW_ELEMENTS, flag::CREATE, wanted.iter());
}

fn write_elements<'a>(transaction: &mut Transaction, message: u16, flags: u16, strays: impl Iterator<Item = &'a Stray>) {
    let mut by_family: BTreeMap<Family, Vec<&Stray>> = BTreeMap::new();
    for stray in strays {
        by_family.entry(Family::of(stray.1)).or_default().push(stray);
    }
    for (family, list) in by_family {
        for list in list.chunks(LIST) {
            transaction.push(Object::Elements(set_name(family).to_owned()), message, flags, |writer| {
                writer.text(element::TABLE, Strays::TABLE);
                writer.text(element::SET, set_name(family));
                writer.nest(element::LIST, |writer| {
                    for stray in list {
                        writer.nest(element::ITEM, |writer| writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, &key(stray))));
                    }
                });
            });
        }
    }
}

fn key((link, address): &Stray) -> Vec<u8> {
    let mut key = link.as_bytes().to_vec();
    key.resize(NAME, 0);
    key.extend(expression::octets(*address));
    key
}

fn set_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "strays4",
        Family::V6 => "strays6",
    }
}
