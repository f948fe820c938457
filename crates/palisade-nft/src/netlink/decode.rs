//! What the kernel answers about the table as a ruleset again. Whatever is not of our making is an error that names it.

use std::collections::{BTreeMap, BTreeSet};

use palisade_netlink::{Attributes, Odd};

use crate::layout::Layout;
use crate::netlink::encode::{hook_number, hook_priority, hooks, read_comment};
use crate::netlink::map::{self, Element, Shape};
use crate::netlink::uapi::{chain, element, rule as rule_attribute, set, table};
use crate::netlink::{expression, rule, tuple};
use crate::object::{Foreign, Object};
use crate::ruleset::{Chain, Hook, Ruleset};
use crate::transaction::Table;

/// The table in one state of it, as the payloads of the kernel's answers: whatever follows the header of a netlink message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The one answer about the table itself.
    pub table: Vec<u8>,
    pub chains: Vec<Vec<u8>>,
    pub sets: Vec<Vec<u8>>,
    /// By the name of the set. An element may be there twice.
    pub elements: BTreeMap<String, Vec<Vec<u8>>>,
    /// Those of one chain in their order.
    pub rules: Vec<Vec<u8>>,
}

/// What must be known of a set to read its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub kept: Kept,
    /// How many elements there are. Only new kernels say it.
    pub count: Option<u32>,
}

/// How the kernel keeps the elements of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is walked in order.
    Tree,
    /// Its elements may be on the move to a larger table during a walk.
    Hash,
}

/// What the counter of a rule shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub chain: String,
    /// The place of the rule in its chain, from 0.
    pub index: usize,
    pub comment: Option<String>,
    pub packets: u64,
    pub bytes: u64,
}

/// The ruleset that a dump shows, without `origins`.
pub fn decode(dump: &Dump) -> Result<Ruleset, Foreign> {
    let flags = Attributes::of_payload(&dump.table).and_then(|it| it.u32(table::FLAGS)).map_err(foreign(&Object::Table))?;
    if flags != 0 {
        // A dormant table enforces nothing.
        return Err(foreign(&Object::Table)(Odd(format!("flags {flags:#x}"))));
    }
    let of = table_of(&dump.table).map_err(foreign(&Object::Table))?;
    let layout = layout(&dump.table).map_err(foreign(&Object::Table))?;
    let mut ruleset = Ruleset { layout, chains: read_chains(of, dump)?.into(), ..Ruleset::default() };
    let protocols = read_maps(dump, &mut ruleset)?;
    read_rules(dump, &protocols, &mut ruleset)?;
    Ok(ruleset)
}

/// Which of our tables an answer about a table is about.
pub(crate) fn table_of(table: &[u8]) -> Result<Table, Odd> {
    let name = Attributes::of_payload(table)?.text(table::NAME)?.to_owned();
    // An answer begins with the address family.
    let family = table.first().copied().unwrap_or_default();
    Table::named(family, &name).ok_or_else(|| Odd(format!("a table `{name}` of family {family}")))
}

/// The mark in the one answer about a table.
pub fn layout(table: &[u8]) -> Result<Layout, Odd> {
    let from = Attributes::of_payload(table)?;
    // Whatever else somebody keeps there is no mark of ours.
    let comment = from.find(table::USERDATA).and_then(|it| read_comment(it).ok());
    Ok(comment.map_or(Layout::Unmarked, |it| Layout::of_comment(&it)))
}

/// What an answer says about a set, if it is one of ours.
pub fn listed(payload: &[u8]) -> Result<Listed, Foreign> {
    let (name, shape, from) = read_set(payload)?;
    let count = from.find(set::COUNT).is_some().then(|| from.u32(set::COUNT)).transpose();
    let count = count.map_err(foreign(&Object::Map(name.clone())))?;
    let kept = match shape {
        Shape::Interval(_) => Kept::Tree,
        Shape::Data(_) | Shape::Numbers | Shape::Sources(_) | Shape::Pairs(_) | Shape::Addresses(_) => Kept::Hash,
        Shape::Tuples(..) | Shape::Protocols => Kept::Hash,
    };
    Ok(Listed { name, kept, count })
}

/// The elements in one answer, each as the kernel wrote it.
pub fn items(payload: &[u8]) -> Result<Vec<&[u8]>, Odd> {
    let from = Attributes::of_payload(payload)?;
    if from.find(element::LIST).is_none() {
        return Ok(Vec::new());
    }
    Ok(from.nest(element::LIST)?.iter().map(|(_, item)| item).collect())
}

/// The rules that count, by chain and in their order.
pub fn counters(rules: &[Vec<u8>]) -> Result<Vec<Counted>, Foreign> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut counters = Vec::new();
    for payload in rules {
        let from = Attributes::of_payload(payload).map_err(foreign(&Object::Table))?;
        let chain = from.text(rule_attribute::CHAIN).map_err(foreign(&Object::Table))?.to_owned();
        let next = places.entry(chain.clone()).or_default();
        let index = *next;
        *next += 1;
        let object = Object::Rule { chain: chain.clone(), index };
        let odd = foreign(&object);
        let count = from.nest(rule_attribute::EXPRESSIONS).and_then(|it| expression::read_counter(&it)).map_err(&odd)?;
        let Some((packets, bytes)) = count else { continue };
        let comment = from.find(rule_attribute::USERDATA).map(read_comment).transpose().map_err(&odd)?;
        counters.push(Counted { chain, index, comment, packets, bytes });
    }
    counters.sort_by(|one, other| (&one.chain, one.index).cmp(&(&other.chain, other.index)));
    Ok(counters)
}

pub(crate) fn foreign(object: &Object) -> impl Fn(Odd) -> Foreign + '_ {
    |odd| Foreign { object: object.clone(), what: odd.0 }
}

fn read_chains(of: Table, dump: &Dump) -> Result<BTreeMap<String, Chain>, Foreign> {
    let mut chains = BTreeMap::new();
    for payload in &dump.chains {
        let from = Attributes::of_payload(payload).map_err(foreign(&Object::Table))?;
        let name = from.text(chain::NAME).map_err(foreign(&Object::Table))?.to_owned();
        let hook = read_hook(of, &from).map_err(foreign(&Object::Chain(name.clone())))?;
        chains.insert(name, Chain { hook, rules: Vec::new() });
    }
    Ok(chains)
}

fn read_hook(of: Table, from: &Attributes<'_>) -> Result<Option<Hook>, Odd> {
    if from.find(chain::HOOK).is_none() {
        return Ok(None);
    }
    let hook = from.nest(chain::HOOK)?;
    let number = hook.u32(chain::HOOK_NUMBER)?;
    let priority = i32::from_be_bytes(hook.u32(chain::HOOK_PRIORITY)?.to_be_bytes());
    let (kind, policy) = (from.text(chain::TYPE)?, from.u32(chain::POLICY)?);
    let ours = hooks(of, &read_devices(&hook)?).into_iter().find(|it| hook_number(it) == number);
    match ours {
        Some(hook) if priority == hook_priority(of, &hook) && kind == "filter" && policy == chain::ACCEPT => Ok(Some(hook)),
        Some(_) | None => Err(Odd(format!("type {kind}, hook {number}, priority {priority}, policy {policy}"))),
    }
}

pub(crate) fn read_devices(hook: &Attributes<'_>) -> Result<BTreeSet<String>, Odd> {
    if hook.find(chain::HOOK_DEVICES).is_none() {
        return Ok(BTreeSet::new());
    }
    let devices = hook.nest(chain::HOOK_DEVICES)?;
    // Newer kernels know names that stand for all links that begin so: another attribute, and none of ours.
    devices.only(&[chain::DEVICE_NAME])?;
    devices.iter().map(|(_, name)| map::name(name).ok_or_else(|| Odd::new("a device whose name is no text"))).collect()
}

pub(crate) fn read_set(payload: &[u8]) -> Result<(String, Shape, Attributes<'_>), Foreign> {
    let from = Attributes::of_payload(payload).map_err(foreign(&Object::Table))?;
    let name = from.text(set::NAME).map_err(foreign(&Object::Table))?.to_owned();
    let shape = Shape::read(&from).map_err(foreign(&Object::Map(name.clone())))?;
    Ok((name, shape, from))
}

/// Fills in the maps, and gives the sets of protocols by name.
fn read_maps(dump: &Dump, ruleset: &mut Ruleset) -> Result<BTreeMap<String, Vec<u8>>, Foreign> {
    let (mut protocols, mut shapes) = (BTreeMap::new(), BTreeMap::new());
    for payload in &dump.sets {
        let (name, shape, _) = read_set(payload)?;
        if shapes.insert(name.clone(), shape).is_some_and(|it| it != shape) {
            return Err(foreign(&Object::Map(name))(Odd::new("there are two of that name")));
        }
        let object = Object::Elements(name.clone());
        let odd = foreign(&object);
        let payloads = dump.elements.get(&name).ok_or_else(|| odd(Odd::new("they were not read")))?;
        let elements = read_elements(payloads).map_err(&odd)?;
        match shape {
            Shape::Data(family) => {
                ruleset.data.insert(name, map::to_data(family, &elements).map_err(odd)?);
            }
            Shape::Interval(family) => {
                ruleset.intervals.insert(name, map::to_intervals(family, &elements).map_err(odd)?);
            }
            Shape::Numbers => {
                ruleset.verdicts.insert(name, map::to_numbers(&elements).map_err(odd)?);
            }
            Shape::Sources(family) => {
                ruleset.sets.insert(name, map::to_sources(family, &elements).map_err(odd)?);
            }
            Shape::Pairs(family) => {
                ruleset.pairs.insert(name, map::to_pairs(family, &elements).map_err(odd)?);
            }
            Shape::Addresses(family) => {
                ruleset.addresses.insert(name, map::to_addresses(family, &elements).map_err(odd)?);
            }
            Shape::Tuples(family, key) => {
                ruleset.tuples.insert(name, tuple::to_tuples(family, key, &elements).map_err(odd)?);
            }
            Shape::Protocols => {
                protocols.insert(name, map::to_protocols(&elements).map_err(odd)?);
            }
        }
    }
    Ok(protocols)
}

fn read_elements(payloads: &[Vec<u8>]) -> Result<Vec<Element>, Odd> {
    let mut elements = Vec::new();
    for payload in payloads {
        for item in items(payload)? {
            elements.push(map::read_element(item)?);
        }
    }
    Ok(elements)
}

/// Appends the rules to their chains, in order.
fn read_rules(dump: &Dump, protocols: &BTreeMap<String, Vec<u8>>, ruleset: &mut Ruleset) -> Result<(), Foreign> {
    for payload in &dump.rules {
        let from = Attributes::of_payload(payload).map_err(foreign(&Object::Table))?;
        let name = from.text(rule_attribute::CHAIN).map_err(foreign(&Object::Table))?;
        let chain = ruleset.chains.get_mut(name).ok_or_else(|| foreign(&Object::Table)(Odd(format!("a rule of no chain `{name}`"))))?;
        let object = Object::Rule { chain: name.to_owned(), index: chain.rules.len() };
        let odd = foreign(&object);
        let expressions = from.nest(rule_attribute::EXPRESSIONS).and_then(|it| expression::read(&it)).map_err(&odd)?;
        let mut rule = rule::raise(&expressions, |set| protocols.get(set).cloned()).map_err(&odd)?;
        rule.comment = from.find(rule_attribute::USERDATA).map(read_comment).transpose().map_err(&odd)?;
        chain.rules.push(rule);
    }
    Ok(())
}
