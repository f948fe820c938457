//! A table that others may have changed, as far as it can be read: what `decode` refuses is named here, and the rest is read all the same.

use std::collections::{BTreeMap, BTreeSet};

use palisade_netlink::{Attributes, Odd};

use crate::netlink::decode::{Dump, foreign, items, layout, read_devices, read_set, table_of};
use crate::netlink::encode::{hook_number, hook_priority, hooks, read_comment};
use crate::netlink::map::{self, Element, Shape};
use crate::netlink::strange::Strange;
use crate::netlink::uapi::{chain, rule as rule_attribute, table};
use crate::netlink::{expression, rule, tuple};
use crate::object::{Foreign, Object};
use crate::ruleset::{Chain, Hook, Ruleset};
use crate::transaction::Table;

/// `NFT_TABLE_F_DORMANT`.
const DORMANT: u32 = 1;

/// The table as the kernel has it.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// What could be read, without `origins`.
    pub ruleset: Ruleset,
    /// What could not, and is not in the ruleset.
    pub foreign: Vec<Foreign>,
    pub force: Force,
    /// How each base chain stands, by name.
    pub stances: BTreeMap<String, Stance>,
    /// Rules that no ruleset has, by chain.
    pub(crate) strange: BTreeMap<String, Vec<StrangeRule>>,
}

/// Whether the table does anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    #[default]
    Active,
    /// Its chains are switched off.
    Dormant,
}

/// How a base chain stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stance {
    /// `filter`, `nat` or `route`.
    pub kind: String,
    pub hook: u32,
    pub priority: i32,
    pub policy: Policy,
    /// Of a chain at ingress or egress.
    pub devices: BTreeSet<String>,
}

/// What becomes of a packet that no rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Accept,
    Drop,
}

/// A rule that no ruleset has, where it stands.
#[derive(Clone, Debug)]
pub(crate) struct StrangeRule {
    /// How many of the rules that could be read stand before it.
    pub(crate) after: usize,
    pub(crate) rule: Strange,
}

/// Reads what can be read of a table.
pub fn examine(dump: &Dump) -> Examined {
    let mut examined = Examined::default();
    let of = match table_of(&dump.table) {
        Ok(table) => table,
        Err(odd) => {
            examined.foreign.push(foreign(&Object::Table)(odd));
            Table::default()
        }
    };
    match Attributes::of_payload(&dump.table).and_then(|it| it.u32(table::FLAGS)) {
        Ok(0) => {}
        Ok(flags) => {
            if flags & DORMANT != 0 {
                examined.force = Force::Dormant;
            }
            if flags & !DORMANT != 0 {
                examined.foreign.push(foreign(&Object::Table)(Odd(format!("flags {flags:#x}"))));
            }
        }
        Err(odd) => examined.foreign.push(foreign(&Object::Table)(odd)),
    }
    match layout(&dump.table) {
        Ok(layout) => examined.ruleset.layout = layout,
        Err(odd) => examined.foreign.push(foreign(&Object::Table)(odd)),
    }
    examined.read_chains(of, dump);
    let protocols = examined.read_maps(dump);
    examined.read_rules(dump, &protocols);
    examined
}

impl Stance {
    /// How a chain of a ruleset stands in a table.
    pub(crate) fn of(table: Table, hook: &Hook) -> Stance {
        Stance {
            kind: "filter".to_owned(),
            hook: hook_number(hook),
            priority: hook_priority(table, hook),
            policy: Policy::Accept,
            devices: hook.devices().cloned().unwrap_or_default(),
        }
    }

    /// The hook of a table's chain that this is, whatever its priority.
    fn hook(&self, table: Table) -> Option<Hook> {
        hooks(table, &self.devices).into_iter().find(|it| hook_number(it) == self.hook)
    }
}

impl Examined {
    /// A table that is what a ruleset says.
    pub fn as_written(table: Table, ruleset: Ruleset) -> Examined {
        let stances = ruleset.chains.iter().filter_map(|(name, it)| Some((name.clone(), Stance::of(table, it.hook.as_ref()?)))).collect();
        Examined { ruleset, stances, ..Examined::default() }
    }

    fn read_chains(&mut self, of: Table, dump: &Dump) {
        for payload in &dump.chains {
            let (name, from) = match Attributes::of_payload(payload).and_then(|it| Ok((it.text(chain::NAME)?.to_owned(), it))) {
                Ok(read) => read,
                Err(odd) => {
                    self.foreign.push(foreign(&Object::Table)(odd));
                    continue;
                }
            };
            let mut hook = None;
            match read_stance(&from) {
                Ok(None) => {}
                Ok(Some(stance)) => {
                    hook = stance.hook(of);
                    self.stances.insert(name.clone(), stance);
                }
                Err(odd) => self.foreign.push(foreign(&Object::Chain(name.clone()))(odd)),
            }
            self.ruleset.chains.insert(name, Chain { hook, rules: Vec::new() });
        }
    }

    /// Fills in the maps, and gives the sets of protocols by name.
    fn read_maps(&mut self, dump: &Dump) -> BTreeMap<String, Vec<u8>> {
        let mut protocols = BTreeMap::new();
        for payload in &dump.sets {
            let (name, shape) = match read_set(payload) {
                Ok((name, shape, _)) => (name, shape),
                // A set without a name belongs to the rule that asks it, which is named itself.
                Err(Foreign { object: Object::Map(name), .. }) if name.starts_with("__") => continue,
                Err(foreign) => {
                    self.foreign.push(foreign);
                    continue;
                }
            };
            let mut elements = self.read_elements(dump, &name);
            if let Shape::Protocols = shape {
                protocols.extend(map::to_protocols(&elements).map(|it| (name, it)));
                continue;
            }
            if let Shape::Interval(family) = shape {
                match map::to_intervals(family, &elements) {
                    Ok(read) => drop(self.ruleset.intervals.insert(name, read)),
                    Err(odd) => self.foreign.push(foreign(&Object::Map(name))(odd)),
                }
                continue;
            }
            // One element that makes no sense does not hide the others.
            elements.retain(|it| match self.fits(shape, it) {
                Ok(()) => true,
                Err(odd) => {
                    self.foreign.push(foreign(&Object::Elements(name.clone()))(odd));
                    false
                }
            });
            self.keep(name, shape, &elements);
        }
        protocols
    }

    fn fits(&self, shape: Shape, element: &Element) -> Result<(), Odd> {
        let one = std::slice::from_ref(element);
        match shape {
            Shape::Data(family) => map::to_data(family, one).map(drop),
            Shape::Interval(family) => map::to_intervals(family, one).map(drop),
            Shape::Numbers => map::to_numbers(one).map(drop),
            Shape::Sources(family) => map::to_sources(family, one).map(drop),
            Shape::Pairs(family) => map::to_pairs(family, one).map(drop),
            Shape::Addresses(family) => map::to_addresses(family, one).map(drop),
            Shape::Tuples(family, key) => tuple::to_tuples(family, key, one).map(drop),
            Shape::Protocols => map::to_protocols(one).map(drop),
        }
    }

    fn keep(&mut self, name: String, shape: Shape, elements: &[Element]) {
        let object = Object::Map(name.clone());
        let ruleset = &mut self.ruleset;
        let kept = match shape {
            Shape::Data(family) => map::to_data(family, elements).map(|it| drop(ruleset.data.insert(name, it))),
            Shape::Interval(family) => map::to_intervals(family, elements).map(|it| drop(ruleset.intervals.insert(name, it))),
            Shape::Numbers => map::to_numbers(elements).map(|it| drop(ruleset.verdicts.insert(name, it))),
            Shape::Sources(family) => map::to_sources(family, elements).map(|it| drop(ruleset.sets.insert(name, it))),
            Shape::Pairs(family) => map::to_pairs(family, elements).map(|it| drop(ruleset.pairs.insert(name, it))),
            Shape::Addresses(family) => map::to_addresses(family, elements).map(|it| drop(ruleset.addresses.insert(name, it))),
            Shape::Tuples(family, key) => tuple::to_tuples(family, key, elements).map(|it| drop(ruleset.tuples.insert(name, it))),
            Shape::Protocols => Ok(()),
        };
        self.foreign.extend(kept.err().map(foreign(&object)));
    }

    fn read_elements(&mut self, dump: &Dump, name: &str) -> Vec<Element> {
        let object = Object::Elements(name.to_owned());
        let odd = foreign(&object);
        let mut elements = Vec::new();
        let payloads = dump.elements.get(name);
        if payloads.is_none() {
            self.foreign.push(odd(Odd::new("they were not read")));
        }
        for payload in payloads.into_iter().flatten() {
            match items(payload) {
                Ok(items) => {
                    for item in items {
                        match map::read_element(item) {
                            Ok(element) => elements.push(element),
                            Err(cause) => self.foreign.push(odd(Odd(format!("{}: {}", key_of(item), cause.0)))),
                        }
                    }
                }
                Err(cause) => self.foreign.push(odd(cause)),
            }
        }
        // A walk of a hash table that grows meanwhile may give one twice.
        elements.sort();
        elements.dedup();
        elements
    }

    /// Appends the rules to their chains, in order.
    fn read_rules(&mut self, dump: &Dump, protocols: &BTreeMap<String, Vec<u8>>) {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for payload in &dump.rules {
            let read = Attributes::of_payload(payload).and_then(|it| Ok((it.text(rule_attribute::CHAIN)?.to_owned(), it)));
            let (name, from) = match read {
                Ok(read) => read,
                Err(odd) => {
                    self.foreign.push(foreign(&Object::Table)(odd));
                    continue;
                }
            };
            let next = places.entry(name.clone()).or_default();
            let object = Object::Rule { chain: name.clone(), index: *next };
            *next += 1;
            let Some(chain) = self.ruleset.chains.get_mut(&name) else {
                self.foreign.push(foreign(&object)(Odd::new("its chain is not there")));
                continue;
            };
            let expressions = from.nest(rule_attribute::EXPRESSIONS);
            let raised = expressions.clone().and_then(|it| expression::read(&it)).and_then(|it| {
                let mut rule = rule::raise(&it, |set| protocols.get(set).cloned())?;
                rule.comment = from.find(rule_attribute::USERDATA).map(read_comment).transpose()?;
                Ok(rule)
            });
            match raised {
                Ok(rule) => chain.rules.push(rule),
                Err(_) => {
                    let rule = Strange::read(expressions.as_ref().ok());
                    self.foreign.push(Foreign { object, what: rule.words() });
                    let after = chain.rules.len();
                    self.strange.entry(name).or_default().push(StrangeRule { after, rule });
                }
            }
        }
    }
}

/// The key of an element that cannot be read as a whole.
fn key_of(item: &[u8]) -> String {
    let key = Attributes::read(item).and_then(|it| it.nest(crate::netlink::uapi::element::KEY)?.bytes(1).map(<[u8]>::to_vec));
    match key.as_deref() {
        Ok([a, b, c, d]) => format!("{a}.{b}.{c}.{d} (or number {:#x})", u32::from_ne_bytes([*a, *b, *c, *d])),
        Ok(key) => match <[u8; 16]>::try_from(key) {
            Ok(address) => std::net::Ipv6Addr::from(address).to_string(),
            Err(_) => format!("{key:02x?}"),
        },
        Err(odd) => odd.0.clone(),
    }
}

fn read_stance(from: &Attributes<'_>) -> Result<Option<Stance>, Odd> {
    if from.find(chain::HOOK).is_none() {
        return Ok(None);
    }
    let hook = from.nest(chain::HOOK)?;
    let priority = i32::from_be_bytes(hook.u32(chain::HOOK_PRIORITY)?.to_be_bytes());
    let policy = match from.u32(chain::POLICY)? {
        chain::ACCEPT => Policy::Accept,
        0 => Policy::Drop,
        other => return Err(Odd(format!("policy {other}"))),
    };
    let kind = from.text(chain::TYPE)?.to_owned();
    Ok(Some(Stance { kind, hook: hook.u32(chain::HOOK_NUMBER)?, priority, policy, devices: read_devices(&hook)? }))
}
