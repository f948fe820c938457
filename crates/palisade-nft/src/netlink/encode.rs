//! A ruleset as one transaction.

use crate::ruleset::{Chain, Hook, INGRESS_PRIORITY, Rule, Ruleset, VerdictMap};

use crate::netlink::batch::{Batch, Encoded};
use crate::netlink::expression;
use crate::netlink::map::{self, Element, Shape};
use crate::netlink::rule;
use crate::netlink::uapi::{TABLE, chain, element, flag, message, rule as rule_attribute, set, table};
use crate::object::{Object, Unwritable};
use palisade_netlink::{Odd, Writer};

/// What `nft list` shows whoever wonders where the table comes from.
const TABLE_COMMENT: &str = "Kubernetes network policy, written by palisade";
/// Limits of nft, in bytes.
const COMMENT: usize = 128;
/// A list of elements is one attribute, and an attribute has 65,535 bytes at most.
const LIST: usize = 48 * 1024;

/// A transaction that puts a whole ruleset in place of whatever is there. Its messages are numbered from `first` on.
pub fn encode_load(ruleset: &Ruleset, first: u32) -> Result<Encoded, Unwritable> {
    let mut batch = Batch::new(first);
    replace(&mut batch, ruleset)?;
    batch.finish()
}

/// A transaction that removes the table, whether it is there or not.
pub fn encode_removal(first: u32) -> Result<Encoded, Unwritable> {
    let mut batch = Batch::new(first);
    remove(&mut batch);
    batch.finish()
}

/// Removes the table, whether it is there or not.
fn remove(batch: &mut Batch) {
    batch.push(Object::Table, message::NEW_TABLE, flag::CREATE, |writer| {
        writer.text(table::NAME, TABLE);
        writer.u32(table::FLAGS, 0);
    });
    batch.push(Object::Table, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, TABLE));
}

/// Puts a whole ruleset in place of whatever is there.
fn replace(batch: &mut Batch, ruleset: &Ruleset) -> Result<(), Unwritable> {
    remove(batch);
    batch.push(Object::Table, message::NEW_TABLE, flag::CREATE, |writer| {
        writer.text(table::NAME, TABLE);
        writer.u32(table::FLAGS, 0);
        writer.bytes(table::USERDATA, &comment(TABLE_COMMENT));
    });
    // Elements and rules go to chains, so those come first.
    for (name, chain) in &ruleset.chains {
        add_chain(batch, name, chain)?;
    }
    let mut sets = Sets(0);
    for (name, map) in &ruleset.data {
        sets.add(batch, name, Shape::Data(map.family), map::of_data(map))?;
    }
    for (name, map) in &ruleset.intervals {
        sets.add(batch, name, Shape::Interval(map.family), map::of_intervals(map))?;
    }
    for (name, map) in &ruleset.verdicts {
        let shape = match map {
            VerdictMap::Numbers(_) => Shape::Numbers,
            VerdictMap::Pairs { family, .. } => Shape::Pairs(*family),
        };
        sets.add(batch, name, shape, map::of_verdicts(map))?;
    }
    for (name, set) in &ruleset.sets {
        sets.add(batch, name, Shape::Sources(set.family), map::of_sources(set))?;
    }
    for (name, chain) in &ruleset.chains {
        for (index, rule) in chain.rules.iter().enumerate() {
            add_rule(batch, &mut sets, Object::Rule { chain: name.clone(), index }, name, rule)?;
        }
    }
    Ok(())
}

fn add_chain(batch: &mut Batch, name: &str, it: &Chain) -> Result<(), Unwritable> {
    let object = Object::Chain(name.to_owned());
    let devices = it.hook.iter().flat_map(devices).map(|device| map::link(device).map(|_| device)).collect::<Result<Vec<_>, Odd>>();
    let devices = devices.map_err(|odd| Unwritable { object: object.clone(), what: odd.0 })?;
    batch.push(object, message::NEW_CHAIN, flag::CREATE, |writer| {
        writer.text(chain::TABLE, TABLE);
        writer.text(chain::NAME, name);
        let Some(hook) = &it.hook else { return };
        writer.text(chain::TYPE, "filter");
        writer.u32(chain::POLICY, chain::ACCEPT);
        writer.nest(chain::HOOK, |writer| {
            writer.u32(chain::HOOK_NUMBER, hook_number(hook));
            writer.bytes(chain::HOOK_PRIORITY, &hook_priority(hook).to_be_bytes());
            if !devices.is_empty() {
                let each = |writer: &mut Writer| devices.iter().for_each(|it| writer.text(chain::DEVICE_NAME, it));
                writer.nest(chain::HOOK_DEVICES, each);
            }
        });
    });
    Ok(())
}

fn devices(hook: &Hook) -> impl Iterator<Item = &str> {
    let devices = match hook {
        Hook::Ingress { devices } => Some(devices),
        Hook::Forward | Hook::Input => None,
    };
    devices.into_iter().flatten().map(String::as_str)
}

pub(crate) fn hook_priority(hook: &Hook) -> i32 {
    match hook {
        Hook::Ingress { .. } => INGRESS_PRIORITY,
        Hook::Forward | Hook::Input => 0,
    }
}

pub(crate) fn hook_number(hook: &Hook) -> u32 {
    match hook {
        Hook::Ingress { .. } => chain::INGRESS,
        Hook::Forward => chain::FORWARD,
        Hook::Input => chain::INPUT,
    }
}

/// How many sets the transaction has so far: it knows them by number.
struct Sets(u32);

impl Sets {
    fn add(&mut self, batch: &mut Batch, name: &str, shape: Shape, elements: Result<Vec<Element>, Odd>) -> Result<(), Unwritable> {
        let object = Object::Elements(name.to_owned());
        let elements = elements.map_err(|odd| Unwritable { object: object.clone(), what: odd.0 })?;
        let id = self.declare(batch, Object::Map(name.to_owned()), name, shape, None);
        add_elements(batch, &object, name, id, &elements);
        Ok(())
    }

    fn declare(&mut self, batch: &mut Batch, object: Object, name: &str, shape: Shape, size: Option<u32>) -> u32 {
        self.0 += 1;
        batch.push(object, message::NEW_SET, flag::CREATE, |writer| {
            writer.text(set::TABLE, TABLE);
            writer.text(set::NAME, name);
            shape.write(writer, self.0, size);
        });
        self.0
    }

    /// The set of protocols of one rule.
    fn add_protocols(&mut self, batch: &mut Batch, object: &Object, protocols: &[u8]) -> u32 {
        let elements = map::of_protocols(protocols);
        let size = u32::try_from(elements.len()).ok();
        let id = self.declare(batch, object.clone(), rule::NO_NAME, Shape::Protocols, size);
        add_elements(batch, object, rule::NO_NAME, id, &elements);
        id
    }
}

fn add_elements(batch: &mut Batch, object: &Object, name: &str, id: u32, elements: &[Element]) {
    let mut rest = elements.iter().peekable();
    while rest.peek().is_some() {
        batch.push(object.clone(), message::NEW_ELEMENTS, flag::CREATE, |writer| {
            writer.text(element::TABLE, TABLE);
            writer.text(element::SET, name);
            writer.u32(element::SET_ID, id);
            writer.nest(element::LIST, |writer| fill(writer, &mut rest));
        });
    }
}

/// Writes elements as long as there is room.
fn fill<'a>(writer: &mut Writer, rest: &mut impl Iterator<Item = &'a Element>) {
    let start = writer.len();
    while writer.len() - start < LIST {
        let Some(it) = rest.next() else { return };
        map::write_element(writer, it);
    }
}

fn add_rule(batch: &mut Batch, sets: &mut Sets, object: Object, chain: &str, it: &Rule) -> Result<(), Unwritable> {
    let userdata = it.comment.as_deref().map(|text| rule_comment(&object, text)).transpose()?;
    let expressions = rule::lower(it, |protocols| sets.add_protocols(batch, &object, protocols));
    batch.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| {
        writer.text(rule_attribute::TABLE, TABLE);
        writer.text(rule_attribute::CHAIN, chain);
        writer.nest(rule_attribute::EXPRESSIONS, |writer| expression::write(writer, &expressions));
        if let Some(userdata) = userdata {
            writer.bytes(rule_attribute::USERDATA, &userdata);
        }
    });
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
    // nft has no way to quote a quote; `palisade_nft::render` does the same.
    Ok(comment(&text.replace('"', "'")))
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
