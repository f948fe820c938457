//! The table of Services: what never changes, and what comes and goes with a Service.
//!
//! For each family there is a map from destination, protocol and port to the chain of a Service, a set of those that have no backend, and
//! a set of pairs of a pod and itself. Base chains look there and are never replaced: a packet reads all rules in one state, but maps and
//! sets as they are at that moment, so a change touches only the elements that differ.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::PortProtocol;
use palisade_nft::uapi::{chain, data, element, flag, kind, message, rule, set, table};
use palisade_nft::{Messages, Object};

use super::expression::{self, Expression, Family, Reject};
use super::{Held, ServicePort, word};

const TABLE: &str = "palisade-lab-services";
/// What `nft list` shows whoever wonders where the table comes from.
const COMMENT: &str = "Services of a lab, written by palisade";
const REFUSE: &str = "refuse";
/// An element has up to 160 bytes, and a list of them must fit an attribute of 65,535.
const LIST: usize = 256;

/// Messages that only this table needs.
const DELETE_CHAIN: u16 = message::NEW_CHAIN + 2;
const DELETE_RULE: u16 = message::NEW_RULE + 2;
const DELETE_ELEMENTS: u16 = message::NEW_ELEMENTS + 2;
/// What nft calls `inet_service`.
const PORT: u32 = 13;
/// Bits of one type in that of several in a row.
const TYPE_BITS: u32 = 6;
/// Hooks, and when a chain there has its turn.
const PREROUTING: u32 = 0;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
const DESTINATION_NAT: i32 = -100;
/// Before routing, which may know no way to a Service, and before other filters: what goes nowhere is not theirs to judge.
const BEFORE: i32 = -110;
const SOURCE_NAT: i32 = 100;

/// Removes the table, whether it is there or not.
pub(super) fn remove(messages: &mut Messages) {
    add_table(messages);
    messages.push(Object::Batch, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, TABLE));
}

/// Puts a table without Services in place of whatever is there.
pub(super) fn reset(messages: &mut Messages) {
    remove(messages);
    add_table(messages);
    for (number, family) in (0_u32..).zip(Family::BOTH) {
        let address = match family {
            Family::V4 => kind::IPV4,
            Family::V6 => kind::IPV6,
        };
        let service = ((address << TYPE_BITS | kind::PROTOCOL) << TYPE_BITS) | PORT;
        let length = family.length();
        add_set(messages, &services(family), number * 3 + 1, (service, length + 8), Some(kind::VERDICT));
        add_set(messages, &refused(family), number * 3 + 2, (service, length + 8), None);
        add_set(messages, &hairpin(family), number * 3 + 3, (kind::pair(address), length * 2), None);
    }
    add_chain(messages, REFUSE, None);
    let reset = [&expression::of_protocol(PortProtocol::Tcp.number())[..], &[Expression::Reject(Reject::TcpReset)]].concat();
    add_rules(messages, REFUSE, &[reset, vec![Expression::Reject(Reject::PortUnreachable)]]);
    for (name, hook) in [("prerouting", PREROUTING), ("output", OUTPUT)] {
        add_chain(messages, name, Some(("nat", hook, DESTINATION_NAT)));
        let dispatch = |family| {
            let end = [Expression::VerdictOf(services(family))];
            [&expression::of_family(family)[..], &expression::service(family), &end].concat()
        };
        add_rules(messages, name, &Family::BOTH.map(dispatch));
    }
    for (name, hook) in [("prerouting-refused", PREROUTING), ("output-refused", OUTPUT)] {
        add_chain(messages, name, Some(("filter", hook, BEFORE)));
        let refuse = |family| {
            let end = [Expression::Member(refused(family)), Expression::Goto(REFUSE)];
            [&expression::of_new()[..], &expression::of_family(family), &expression::service(family), &end].concat()
        };
        add_rules(messages, name, &Family::BOTH.map(refuse));
    }
    add_chain(messages, "postrouting", Some(("nat", POSTROUTING, SOURCE_NAT)));
    let masquerade = |family| {
        let end = [Expression::Member(hairpin(family)), Expression::Masquerade];
        [&expression::of_family(family)[..], &expression::ends(family), &end].concat()
    };
    add_rules(messages, "postrouting", &Family::BOTH.map(masquerade));
}

/// Makes what the table holds into what is wanted.
pub(super) fn change(messages: &mut Messages, held: &Held, wanted: &Held) {
    let mut gone = Elements::default();
    let mut come = Elements::default();
    let mut chains = Vec::new();
    for (service, old) in &held.services {
        let new = wanted.services.get(service);
        if !old.is_empty() && new.is_none_or(Vec::is_empty) {
            gone.push(services(Family::of(service.address)), key(service), None);
            chains.push(chain_name(service));
        } else if old.is_empty() && new.is_none_or(|it| !it.is_empty()) {
            gone.push(refused(Family::of(service.address)), key(service), None);
        }
    }
    for (service, new) in &wanted.services {
        let old = held.services.get(service);
        if old == Some(new) {
            continue;
        }
        let family = Family::of(service.address);
        if new.is_empty() {
            come.push(refused(family), key(service), None);
            continue;
        }
        let name = chain_name(service);
        if old.is_none_or(Vec::is_empty) {
            add_chain(messages, &name, None);
            come.push(services(family), key(service), Some(name.clone()));
        } else {
            flush(messages, &name);
        }
        add_rules(messages, &name, &choice(service.protocol, new));
    }
    let pair = |address: &IpAddr| expression::octets(*address).repeat(2);
    for address in held.hairpin.difference(&wanted.hairpin) {
        gone.push(hairpin(Family::of(*address)), pair(address), None);
    }
    for address in wanted.hairpin.difference(&held.hairpin) {
        come.push(hairpin(Family::of(*address)), pair(address), None);
    }
    gone.write(messages, DELETE_ELEMENTS, 0);
    come.write(messages, message::NEW_ELEMENTS, flag::CREATE);
    for name in chains {
        messages.push(Object::Chain(name.clone()), DELETE_CHAIN, 0, |writer| {
            writer.text(chain::TABLE, TABLE);
            writer.text(chain::NAME, &name);
        });
    }
}

/// The rules that choose a backend. Each is met by those that the ones before have left, and takes its share of them.
fn choice(protocol: PortProtocol, backends: &[(IpAddr, u16)]) -> Vec<Vec<Expression>> {
    let left = (1..=u32::try_from(backends.len()).unwrap_or(u32::MAX)).rev();
    let rule = |((address, port), left): (&(IpAddr, u16), u32)| {
        let mut rule = expression::of_protocol(protocol.number()).to_vec();
        if left > 1 {
            rule.extend([Expression::Random(left), Expression::Equal(vec![0; 4])]);
        }
        rule.extend(expression::send_to(*address, *port));
        rule
    };
    backends.iter().zip(left).map(rule).collect()
}

/// Elements by their set: a key each, and the chain that it leads to.
#[derive(Default)]
struct Elements(BTreeMap<String, Vec<Element>>);

type Element = (Vec<u8>, Option<String>);

impl Elements {
    fn push(&mut self, set: String, key: Vec<u8>, chain: Option<String>) {
        self.0.entry(set).or_default().push((key, chain));
    }

    fn write(&self, messages: &mut Messages, message: u16, flags: u16) {
        for (name, list) in &self.0 {
            for list in list.chunks(LIST) {
                messages.push(Object::Elements(name.clone()), message, flags, |writer| {
                    writer.text(element::TABLE, TABLE);
                    writer.text(element::SET, name);
                    writer.nest(element::LIST, |writer| {
                        for (key, chain) in list {
                            writer.nest(element::ITEM, |writer| {
                                writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, key));
                                if let Some(chain) = chain {
                                    writer.nest(element::DATA, |writer| expression::write_goto(writer, chain));
                                }
                            });
                        }
                    });
                });
            }
        }
    }
}

fn services(family: Family) -> String {
    with_family("services", family)
}

fn refused(family: Family) -> String {
    with_family("refused", family)
}

fn hairpin(family: Family) -> String {
    with_family("hairpin", family)
}

fn with_family(name: &str, family: Family) -> String {
    match family {
        Family::V4 => format!("{name}4"),
        Family::V6 => format!("{name}6"),
    }
}

/// nft takes no colon in a name, and no address has an underscore.
fn chain_name(service: &ServicePort) -> String {
    format!("service-{}-{}-{}", service.address, word(service.protocol), service.port).replace(':', "_")
}

/// Address, protocol and port, each filled up to whole registers of four bytes.
fn key(service: &ServicePort) -> Vec<u8> {
    let [high, low] = service.port.to_be_bytes();
    [&expression::octets(service.address)[..], &[service.protocol.number(), 0, 0, 0], &[high, low, 0, 0]].concat()
}

fn add_table(messages: &mut Messages) {
    messages.push(Object::Batch, message::NEW_TABLE, flag::CREATE, |writer| {
        writer.text(table::NAME, TABLE);
        writer.u32(table::FLAGS, 0);
        // A comment as nft keeps it: kind 0, length with the final zero, text.
        let length = u8::try_from(COMMENT.len() + 1).unwrap_or(u8::MAX);
        writer.bytes(table::USERDATA, &[&[0, length], COMMENT.as_bytes(), &[0]].concat());
    });
}

fn add_set(messages: &mut Messages, name: &str, id: u32, (kind, length): (u32, u32), data: Option<u32>) {
    messages.push(Object::Map(name.to_owned()), message::NEW_SET, flag::CREATE, |writer| {
        writer.text(set::TABLE, TABLE);
        writer.text(set::NAME, name);
        writer.u32(set::FLAGS, if data.is_some() { set::MAP } else { 0 });
        writer.u32(set::KEY_TYPE, kind);
        writer.u32(set::KEY_LENGTH, length);
        if let Some(data) = data {
            writer.u32(set::DATA_TYPE, data);
            writer.u32(set::DATA_LENGTH, 0);
        }
        writer.u32(set::ID, id);
    });
}

/// Adds a chain, with its type, hook and priority if it has one.
fn add_chain(messages: &mut Messages, name: &str, base: Option<(&str, u32, i32)>) {
    messages.push(Object::Chain(name.to_owned()), message::NEW_CHAIN, flag::CREATE, |writer| {
        writer.text(chain::TABLE, TABLE);
        writer.text(chain::NAME, name);
        let Some((kind, hook, priority)) = base else { return };
        writer.text(chain::TYPE, kind);
        writer.u32(chain::POLICY, chain::ACCEPT);
        writer.nest(chain::HOOK, |writer| {
            writer.u32(chain::HOOK_NUMBER, hook);
            writer.bytes(chain::HOOK_PRIORITY, &priority.to_be_bytes());
        });
    });
}

fn flush(messages: &mut Messages, chain: &str) {
    messages.push(Object::Chain(chain.to_owned()), DELETE_RULE, 0, |writer| {
        writer.text(rule::TABLE, TABLE);
        writer.text(rule::CHAIN, chain);
    });
}

fn add_rules(messages: &mut Messages, chain: &str, rules: &[Vec<Expression>]) {
    for (index, expressions) in rules.iter().enumerate() {
        let object = Object::Rule { chain: chain.to_owned(), index };
        messages.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| {
            writer.text(rule::TABLE, TABLE);
            writer.text(rule::CHAIN, chain);
            writer.nest(rule::EXPRESSIONS, |writer| expression::write(writer, expressions));
        });
    }
}
