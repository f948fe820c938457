//! A transaction as the bytes that the kernel takes.

use std::collections::BTreeSet;

use palisade_netlink::{Odd, Writer};

use crate::netlink::batch::{Encoded, Expected, Messages};
use crate::netlink::expression;
use crate::netlink::map::{self, Element, Shape};
use crate::netlink::rule;
use crate::netlink::uapi::{chain, element, flag, message, rule as rule_attribute, set, table};
use crate::object::{Object, Unwritable};
use crate::ruleset::{Hook, LinkName, Match, Rule, Statement, Verdict, quotable};
use crate::transaction::map::Map;
use crate::transaction::{Change, Places, Table, Transaction};

/// Limits of nft, in bytes.
const COMMENT: usize = 128;
/// A list of elements is one attribute, and an attribute has 65,535 bytes at most.
const LIST: usize = 48 * 1024;

/// The bytes of a transaction. Its messages are numbered from `first` on.
pub fn encode(transaction: &Transaction, first: u32, expected: Expected) -> Result<Encoded, Unwritable> {
    let mut batch = Batch { table: transaction.table, messages: Messages::new(transaction.table.family(), first, expected) };
    let (mut sets, mut places) = (Sets::default(), Places::default());
    for change in &transaction.changes {
        write(&mut batch, &mut sets, change.object(&mut places), change)?;
    }
    batch.messages.finish()
}

/// The messages of a transaction on one of our tables.
struct Batch {
    table: Table,
    messages: Messages,
}

impl Batch {
    fn push(&mut self, object: Object, kind: u16, flags: u16, body: impl FnOnce(&mut Writer)) {
        self.messages.push(object, kind, flags, body);
    }
}

const ADD: u16 = flag::CREATE | flag::EXCLUSIVE;

fn write(batch: &mut Batch, sets: &mut Sets, object: Object, change: &Change) -> Result<(), Unwritable> {
    let own = batch.table.name();
    match change {
        Change::AddTable(layout) => batch.push(object, message::NEW_TABLE, ADD, |writer| {
            writer.text(table::NAME, own);
            writer.u32(table::FLAGS, 0);
            if let Some(text) = layout.comment() {
                writer.bytes(table::USERDATA, &comment(&text));
            }
        }),
        Change::DeleteTable => {
            // Only what is there can be deleted.
            batch.push(object.clone(), message::NEW_TABLE, flag::CREATE, |writer| {
                writer.text(table::NAME, own);
                writer.u32(table::FLAGS, 0);
            });
            batch.push(object, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, own));
        }
        Change::FlushTable => {
            batch.push(object.clone(), message::NEW_TABLE, flag::CREATE, |writer| {
                writer.text(table::NAME, own);
                writer.u32(table::FLAGS, 0);
            });
            batch.push(object, message::DELETE_RULE, 0, |writer| writer.text(rule_attribute::TABLE, own));
        }
        Change::AddChain { name, hook } => add_chain(batch, object, name, hook.as_ref())?,
        Change::DeleteChain(name) => batch.push(object, message::DELETE_CHAIN, 0, |writer| {
            writer.text(chain::TABLE, own);
            writer.text(chain::NAME, name);
        }),
        Change::AddDevices { chain, devices } => change_devices(batch, object, message::NEW_CHAIN, chain, devices)?,
        Change::DeleteDevices { chain, devices } => change_devices(batch, object, message::DELETE_CHAIN, chain, devices)?,
        Change::FlushChain(name) => batch.push(object, message::DELETE_RULE, 0, |writer| {
            writer.text(rule_attribute::TABLE, own);
            writer.text(rule_attribute::CHAIN, name);
        }),
        Change::AppendRule { rule, .. } if batch.table == Table::Audit && decides(rule) => {
            let what = format!("nothing in table `{}` may decide, and it accepts or drops", batch.table);
            return Err(Unwritable { object, what });
        }
        Change::AppendRule { rule, .. } if batch.table == Table::Frames && !is_about_frames(rule) => {
            let what = format!("rules in table `{}` can ask for the type of a frame and nothing else", batch.table);
            return Err(Unwritable { object, what });
        }
        Change::AppendRule { chain, rule } => add_rule(batch, sets, object, chain, rule)?,
        Change::AddMap { name, kind, elements } => {
            sets.declare(batch, object, name, Shape::of(*kind), ADD, *elements);
        }
        Change::DeleteMap(name) => batch.push(object, message::DELETE_SET, 0, |writer| {
            writer.text(set::TABLE, own);
            writer.text(set::NAME, name);
        }),
        // There may be as many as a cluster has pods.
        Change::AddElements { map, elements: Map::Data(data) } => {
            map::check_family(data).map_err(|odd| Unwritable { object: object.clone(), what: odd.0 })?;
            let write = Elements { object, kind: message::NEW_ELEMENTS, flags: ADD, set: map, id: None, item: map::write_number };
            write.all(batch, &data.elements);
        }
        Change::AddElements { map, elements } => {
            let elements = elements_of(&object, elements)?;
            let write = Elements { object, kind: message::NEW_ELEMENTS, flags: ADD, set: map, id: None, item: map::write_element };
            write.all(batch, &elements);
        }
        Change::DeleteElements { map, elements } => {
            let elements = elements_of(&object, elements)?;
            let write = Elements { object, kind: message::DELETE_ELEMENTS, flags: 0, set: map, id: None, item: map::write_key };
            write.all(batch, &elements);
        }
    }
    Ok(())
}

/// Whether a rule ends the way of some packet.
fn decides(rule: &Rule) -> bool {
    let ends = |it: &Statement| match it {
        Statement::Verdict(Verdict::Accept | Verdict::Drop) => true,
        Statement::Verdict(Verdict::Return | Verdict::Jump(_) | Verdict::Goto(_)) | Statement::Set(_) | Statement::Look(_) => false,
        Statement::Counter | Statement::Log(_) | Statement::Would(_) | Statement::LookTuple { .. } => false,
    };
    rule.statements.iter().any(ends)
}

/// Whether a rule asks nothing that the family `netdev` answers in another way than `inet`, or not at all.
fn is_about_frames(rule: &Rule) -> bool {
    let does = |it: &Statement| match it {
        Statement::Counter | Statement::Log(_) | Statement::Would(_) | Statement::Verdict(_) => true,
        Statement::Set(_) | Statement::Look(_) | Statement::LookTuple { .. } => false,
    };
    rule.matches.iter().all(|it| matches!(it, Match::FrameTypeNotIn(_))) && rule.statements.iter().all(does)
}

fn elements_of(object: &Object, elements: &Map) -> Result<Vec<Element>, Unwritable> {
    map::of_map(elements).map_err(|odd| Unwritable { object: object.clone(), what: odd.0 })
}

fn add_chain(batch: &mut Batch, object: Object, name: &str, hook: Option<&Hook>) -> Result<(), Unwritable> {
    let (of, own) = (batch.table, batch.table.name());
    let none = BTreeSet::new();
    let devices = hook.and_then(Hook::devices).unwrap_or(&none);
    check_links(&object, devices)?;
    if hook.is_some_and(|it| !hooks(of, &none).iter().any(|own| own.is_same_point(it))) {
        return Err(Unwritable { object, what: format!("no chain of table `{of}` stands at that hook") });
    }
    batch.push(object, message::NEW_CHAIN, ADD, |writer| {
        writer.text(chain::TABLE, own);
        writer.text(chain::NAME, name);
        let Some(hook) = hook else { return };
        writer.text(chain::TYPE, "filter");
        writer.u32(chain::POLICY, chain::ACCEPT);
        writer.nest(chain::HOOK, |writer| {
            writer.u32(chain::HOOK_NUMBER, hook_number(hook));
            writer.bytes(chain::HOOK_PRIORITY, &hook_priority(of, hook).to_be_bytes());
            if !devices.is_empty() {
                write_devices(writer, devices);
            }
        });
    });
    Ok(())
}

/// Tells a chain of devices of it. Without a priority, the chain must be there.
fn change_devices(batch: &mut Batch, object: Object, kind: u16, name: &str, devices: &BTreeSet<String>) -> Result<(), Unwritable> {
    let (of, own) = (batch.table, batch.table.name());
    check_links(&object, devices)?;
    // A message without devices would mean the whole chain.
    if !devices.is_empty() {
        batch.push(object, kind, 0, |writer| {
            writer.text(chain::TABLE, own);
            writer.text(chain::NAME, name);
            writer.nest(chain::HOOK, |writer| {
                writer.u32(chain::HOOK_NUMBER, if of == Table::Frames { chain::NETDEV_INGRESS } else { chain::INGRESS });
                write_devices(writer, devices);
            });
        });
    }
    Ok(())
}

fn write_devices(writer: &mut Writer, devices: &BTreeSet<String>) {
    writer.nest(chain::HOOK_DEVICES, |writer| devices.iter().for_each(|it| writer.text(chain::DEVICE_NAME, it)));
}

fn check_links(object: &Object, names: &BTreeSet<String>) -> Result<(), Unwritable> {
    let odd = names.iter().find_map(|it| map::link(it).err());
    odd.map_or(Ok(()), |odd| Err(Unwritable { object: object.clone(), what: odd.0 }))
}

/// The hooks that chains of a table stand at; those at links with these devices.
pub(crate) fn hooks(table: Table, devices: &BTreeSet<String>) -> Vec<Hook> {
    match table {
        // Chains stand at `output` in the namespaces of pods only.
        Table::Own | Table::Next | Table::Again => {
            vec![Hook::Forward, Hook::Input, Hook::Output, Hook::Ingress { devices: devices.clone() }]
        }
        Table::Audit | Table::UnknownPods => vec![Hook::Forward, Hook::Input, Hook::Ingress { devices: devices.clone() }],
        Table::Replies => vec![Hook::Forward, Hook::Output],
        Table::Frames => vec![Hook::Frames { devices: devices.clone() }],
    }
}

pub(crate) fn hook_priority(table: Table, hook: &Hook) -> i32 {
    match (hook, table) {
        // Before the chains that bind sources, which stand before any that is usual there.
        (Hook::Frames { .. }, _) => -510,
        (Hook::Ingress { .. }, _) => -500,
        // Before the rules of policies: the audit sees what these drop, an unknown pod meets no policy, and a blocked reply would pass as established.
        (Hook::Forward | Hook::Input | Hook::Output, Table::Audit | Table::UnknownPods | Table::Replies) => -1,
        (Hook::Forward | Hook::Input | Hook::Output, Table::Own | Table::Next | Table::Again | Table::Frames) => 0,
    }
}

pub(crate) fn hook_number(hook: &Hook) -> u32 {
    match hook {
        Hook::Frames { .. } => chain::NETDEV_INGRESS,
        Hook::Ingress { .. } => chain::INGRESS,
        Hook::Forward => chain::FORWARD,
        Hook::Input => chain::INPUT,
        Hook::Output => chain::OUTPUT,
    }
}

/// The sets of a transaction.
#[derive(Default)]
struct Sets {
    /// How many there are so far: the transaction knows them by number.
    number: u32,
}

impl Sets {
    fn declare(&mut self, batch: &mut Batch, object: Object, name: &str, shape: Shape, flags: u16, elements: usize) -> u32 {
        let own = batch.table.name();
        self.number += 1;
        batch.push(object, message::NEW_SET, flags, |writer| {
            writer.text(set::TABLE, own);
            writer.text(set::NAME, name);
            shape.write(writer, self.number, shape.room(elements));
        });
        self.number
    }

    /// The set of protocols of one rule.
    fn add_protocols(&mut self, batch: &mut Batch, object: &Object, protocols: &[u8]) -> u32 {
        let elements = map::of_protocols(protocols);
        let id = self.declare(batch, object.clone(), rule::NO_NAME, Shape::Protocols, flag::CREATE, elements.len());
        let (kind, flags, set) = (message::NEW_ELEMENTS, flag::CREATE, rule::NO_NAME);
        Elements { object: object.clone(), kind, flags, set, id: Some(id), item: map::write_element }.all(batch, &elements);
        id
    }
}

/// How elements are written.
struct Elements<'a, T> {
    object: Object,
    kind: u16,
    flags: u16,
    set: &'a str,
    /// Of a set that has no name yet.
    id: Option<u32>,
    item: fn(&mut Writer, T),
}

impl<T> Elements<'_, T> {
    fn all(&self, batch: &mut Batch, elements: impl IntoIterator<Item = T>) {
        let own = batch.table.name();
        let mut rest = elements.into_iter().peekable();
        // A message without elements would mean all of them.
        while rest.peek().is_some() {
            batch.push(self.object.clone(), self.kind, self.flags, |writer| {
                writer.text(element::TABLE, own);
                writer.text(element::SET, self.set);
                if let Some(id) = self.id {
                    writer.u32(element::SET_ID, id);
                }
                writer.nest(element::LIST, |writer| self.fill(writer, &mut rest));
            });
        }
    }

    /// Writes elements as long as there is room.
    fn fill(&self, writer: &mut Writer, rest: &mut impl Iterator<Item = T>) {
        let start = writer.len();
        while writer.len() - start < LIST {
            let Some(it) = rest.next() else { return };
            (self.item)(writer, it);
        }
    }
}

fn add_rule(batch: &mut Batch, sets: &mut Sets, object: Object, chain: &str, it: &Rule) -> Result<(), Unwritable> {
    let own = batch.table.name();
    check_link_names(&object, it)?;
    let userdata = it.comment.as_deref().map(|text| rule_comment(&object, text)).transpose()?;
    let expressions = rule::lower(it, |protocols| sets.add_protocols(batch, &object, protocols));
    batch.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| {
        writer.text(rule_attribute::TABLE, own);
        writer.text(rule_attribute::CHAIN, chain);
        writer.nest(rule_attribute::EXPRESSIONS, |writer| expression::write(writer, &expressions));
        if let Some(userdata) = userdata {
            writer.bytes(rule_attribute::USERDATA, &userdata);
        }
    });
    Ok(())
}

/// nft takes a beginning with the asterisk after it for a name.
fn check_link_names(object: &Object, rule: &Rule) -> Result<(), Unwritable> {
    for condition in &rule.matches {
        let Match::Link { name, .. } = condition else { continue };
        let checked = match name {
            LinkName::Whole(name) => map::link(name).map(drop),
            LinkName::Beginning(start) => map::link(start).and(map::link(&format!("{start}_"))).map(drop),
        };
        checked.map_err(|odd| Unwritable { object: object.clone(), what: odd.0 })?;
    }
    Ok(())
}

fn rule_comment(object: &Object, text: &str) -> Result<Vec<u8>, Unwritable> {
    let odd = |what: String| Unwritable { object: object.clone(), what };
    if text.len() > COMMENT {
        return Err(odd(format!("its comment has {} bytes, and nft prints {COMMENT}", text.len())));
    }
    if text.contains('\0') {
        return Err(odd("its comment contains a zero byte".to_owned()));
    }
    Ok(comment(&quotable(text)))
}

/// A comment as nft keeps it: kind 0, length with the final zero, text.
fn comment(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    [&[0, length], text.as_bytes(), &[0]].concat()
}

/// The comment in what nft keeps with a rule.
pub(crate) fn read_comment(userdata: &[u8]) -> Result<String, Odd> {
    let odd = || Odd::new("userdata other than one comment");
    let [0, length, text @ ..] = userdata else { return Err(odd()) };
    let text = text.strip_suffix(&[0]).filter(|_| text.len() == usize::from(*length)).ok_or_else(odd)?;
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| odd())
}
