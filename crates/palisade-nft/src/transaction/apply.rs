//! What a transaction does to a table, with the refusals of the kernel.
//!
//! A message that is refused does not stop the others: the kernel goes on, names each that it refuses, and then undoes all. Of a message with
//! several elements those before the refused one count until then.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::Layout;
use crate::netlink::accept::accepts;
use crate::netlink::map::Shape;
use crate::object::Object;
use crate::ruleset::{Chain, Hook, Rule, Ruleset, Statement, Verdict};
use crate::transaction::difference::maps_of;
use crate::transaction::elements;
use crate::transaction::map::{Map, MapKind};
use crate::transaction::validate::validate;
use crate::transaction::{Change, Places, Transaction};

/// One object that is refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub object: Object,
    pub cause: Cause,
}

/// Why something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It is there already, whatever it says, or overlaps with something that is.
    Exists,
    /// It, or what it refers to, is not there.
    Missing,
    /// Something refers to it.
    InUse,
    /// It does not fit what it is put into, or refers to.
    Invalid,
    /// A map is asked by more than the rule has read from the packet.
    Unread,
    /// It goes to a base chain, or would make one of another chain.
    BaseChain,
    /// It cannot be where it, or what goes there, stands.
    WrongHook,
    /// Chains call each other in a circle, or nest too deep.
    TooDeep,
}

/// Does all of a transaction, or nothing. No table is `None`.
///
/// The table is as a dump shows it: without `origins`, and with rules as they are kept.
///
/// In two things the kernel is less strict, and what it then keeps is no ruleset any more: of two ranges that overlap, one of them up to
/// the last address, it takes the one that starts first; and it takes addresses for starts of ranges and the other way round. In one it is
/// stricter: it does not find a range again that the same transaction has put over one that it deleted.
pub fn apply(table: &mut Option<Ruleset>, transaction: &Transaction) -> Result<(), Vec<Refused>> {
    let mut state = State::of(table.clone(), Validate::Never);
    state.run(transaction);
    // The kernel looks at chains that nest when all else is well, and if they nest too deep it begins again and looks after each step.
    if state.refused.is_empty() && state.table.as_ref().is_some_and(|it| validate(it).is_err()) {
        state = State::of(table.clone(), Validate::AtEachStep);
        state.run(transaction);
    }
    if state.refused.is_empty() {
        *table = state.table;
        Ok(())
    } else {
        Err(state.refused)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validate {
    Never,
    AtEachStep,
}

/// A table in the middle of a transaction.
struct State {
    table: Option<Ruleset>,
    /// How many rules and elements go to a chain.
    chain_uses: BTreeMap<String, usize>,
    /// How many rules ask a map.
    map_uses: BTreeMap<String, usize>,
    /// Devices that chains get, each with its chain if that is still there: until the transaction is over they cannot be deleted.
    coming: BTreeMap<String, Option<String>>,
    places: Places,
    validate: Validate,
    refused: Vec<Refused>,
}

impl State {
    fn of(table: Option<Ruleset>, validate: Validate) -> State {
        let (chain_uses, map_uses) = (BTreeMap::new(), BTreeMap::new());
        let (coming, places) = (BTreeMap::new(), Places::default());
        let mut state = State { table, chain_uses, map_uses, coming, places, validate, refused: Vec::new() };
        let Some(table) = &state.table else { return state };
        for rule in table.chains.values().flat_map(|it| &it.rules) {
            count_rule(&mut state.chain_uses, &mut state.map_uses, rule, up);
        }
        let tuples = table.tuples.values().flat_map(|it| it.elements.values());
        for chain in table.verdicts.values().flat_map(|it| it.elements.values()).chain(tuples) {
            count(&mut state.chain_uses, chain, up);
        }
        state
    }

    fn run(&mut self, transaction: &Transaction) {
        for change in &transaction.changes {
            let object = change.object(&mut self.places);
            let mut done = self.change(change);
            let looks = matches!(change, Change::AddElements { .. } | Change::AppendRule { .. });
            if done.is_ok() && looks && self.validate == Validate::AtEachStep {
                done = self.table.as_ref().map_or(Ok(()), validate);
            }
            self.refused.extend(done.err().map(|cause| Refused { object, cause }));
        }
    }

    fn change(&mut self, change: &Change) -> Result<(), Cause> {
        if change.is_empty() {
            return Ok(());
        }
        match change {
            Change::AddTable(_) if self.table.is_some() => Err(Cause::Exists),
            Change::AddTable(layout) => {
                self.table = Some(Ruleset { layout: *layout, ..Ruleset::default() });
                Ok(())
            }
            Change::DeleteTable => {
                self.table = None;
                self.chain_uses.clear();
                self.map_uses.clear();
                self.coming.clear();
                Ok(())
            }
            Change::FlushTable => self.flush_table(),
            Change::AddChain { name, hook } => self.add_chain(name, hook.clone()),
            Change::DeleteChain(name) => self.delete_chain(name),
            Change::AddDevices { chain, devices } => self.add_devices(chain, devices),
            Change::DeleteDevices { chain, devices } => self.delete_devices(chain, devices),
            Change::FlushChain(name) => self.flush(name),
            Change::AppendRule { chain, rule } => self.append(chain, rule),
            Change::AddMap { name, kind, .. } => self.add_map(name, *kind),
            Change::DeleteMap(name) => self.delete_map(name),
            Change::AddElements { map, elements } => self.add_elements(map, elements),
            Change::DeleteElements { map, elements } => self.delete_elements(map, elements),
        }
    }

    fn flush_table(&mut self) -> Result<(), Cause> {
        // The message creates what it empties, and has no mark.
        let table = self.table.get_or_insert_with(|| Ruleset { layout: Layout::Unmarked, ..Ruleset::default() });
        let chains: Vec<String> = table.chains.keys().cloned().collect();
        chains.iter().try_for_each(|it| self.flush(it))
    }

    fn ruleset(&mut self) -> Result<&mut Ruleset, Cause> {
        self.table.as_mut().ok_or(Cause::Missing)
    }

    fn add_chain(&mut self, name: &str, hook: Option<Hook>) -> Result<(), Cause> {
        let ruleset = self.ruleset()?;
        match (ruleset.chains.get(name).map(|it| &it.hook), &hook) {
            (None, _) => {}
            (Some(None), Some(_)) => return Err(Cause::BaseChain),
            (Some(Some(_) | None), _) => return Err(Cause::Exists),
        }
        ruleset.chains.insert(name.to_owned(), Chain { hook, rules: Vec::new() });
        Ok(())
    }

    fn flush(&mut self, name: &str) -> Result<(), Cause> {
        let chain = self.ruleset()?.chains.get_mut(name).ok_or(Cause::Missing)?;
        for rule in std::mem::take(&mut chain.rules) {
            count_rule(&mut self.chain_uses, &mut self.map_uses, &rule, down);
        }
        Ok(())
    }

    fn delete_chain(&mut self, name: &str) -> Result<(), Cause> {
        // The kernel has deleted the rules when it finds that something goes there, and a rule of its own counts too.
        let used = self.chain_uses.get(name).is_some_and(|it| *it > 0);
        self.flush(name)?;
        if used {
            return Err(Cause::InUse);
        }
        self.ruleset()?.chains.remove(name);
        self.coming.values_mut().filter(|it| it.as_deref() == Some(name)).for_each(|it| *it = None);
        Ok(())
    }

    fn add_devices(&mut self, name: &str, devices: &BTreeSet<String>) -> Result<(), Cause> {
        let chain = self.table.as_mut().and_then(|it| it.chains.get_mut(name)).ok_or(Cause::Missing)?;
        let hook = chain.hook.as_mut().ok_or(Cause::Exists)?;
        let known = hook.devices_mut().ok_or(Cause::WrongHook)?;
        let of_chain =
            |device: &String, coming: &BTreeMap<String, Option<String>>| coming.get(device).is_some_and(|it| it.as_deref() == Some(name));
        let new: Vec<&String> = devices.iter().filter(|it| !known.contains(*it) || of_chain(it, &self.coming)).collect();
        if new.iter().any(|it| self.coming.contains_key(*it)) {
            return Err(Cause::Exists);
        }
        for device in new {
            known.insert(device.clone());
            self.coming.insert(device.clone(), Some(name.to_owned()));
        }
        Ok(())
    }

    fn delete_devices(&mut self, name: &str, devices: &BTreeSet<String>) -> Result<(), Cause> {
        let chain = self.table.as_mut().and_then(|it| it.chains.get_mut(name)).ok_or(Cause::Missing)?;
        let Some(known) = chain.hook.as_mut().and_then(Hook::devices_mut) else {
            // The kernel does not look at the devices then, and deletes the chain.
            return self.delete_chain(name);
        };
        let is_coming = |it: &String| self.coming.get(it).is_some_and(|it| it.as_deref() == Some(name));
        if devices.iter().any(|it| !known.contains(it) || is_coming(it)) {
            return Err(Cause::Missing);
        }
        known.retain(|it| !devices.contains(it));
        Ok(())
    }

    fn append(&mut self, chain: &str, rule: &Rule) -> Result<(), Cause> {
        let ruleset = self.ruleset()?;
        if !ruleset.chains.contains_key(chain) {
            return Err(Cause::Missing);
        }
        accepts(ruleset, rule)?;
        let rule = rule.as_kept();
        if let Some(chain) = ruleset.chains.get_mut(chain) {
            chain.rules.push(rule.clone());
        }
        count_rule(&mut self.chain_uses, &mut self.map_uses, &rule, up);
        Ok(())
    }

    fn add_map(&mut self, name: &str, kind: MapKind) -> Result<(), Cause> {
        let ruleset = self.ruleset()?;
        if ruleset.map(name).is_some() {
            return Err(Cause::Exists);
        }
        ruleset.add_map(name.to_owned(), kind);
        Ok(())
    }

    fn delete_map(&mut self, name: &str) -> Result<(), Cause> {
        let used = self.map_uses.get(name).is_some_and(|it| *it > 0);
        let ruleset = self.ruleset()?;
        if ruleset.map(name).is_some() && used {
            return Err(Cause::InUse);
        }
        match ruleset.remove_map(name).ok_or(Cause::Missing)? {
            Map::Verdict(map) => map.elements.values().for_each(|chain| count(&mut self.chain_uses, chain, down)),
            Map::Tuples(map) => map.elements.values().for_each(|chain| count(&mut self.chain_uses, chain, down)),
            Map::Data(_) | Map::Interval(_) | Map::Sources(_) | Map::Pairs(_) | Map::Addresses(_) => {}
        }
        Ok(())
    }

    fn add_elements(&mut self, name: &str, elements: &Map) -> Result<(), Cause> {
        let ruleset = self.ruleset()?;
        if ruleset.map(name).ok_or(Cause::Missing)?.kind() != elements.kind() {
            return Err(Cause::Invalid);
        }
        let mut added = Vec::new();
        let done = elements::add(ruleset, name, elements, &mut added);
        added.iter().for_each(|chain| count(&mut self.chain_uses, chain, up));
        done
    }

    fn delete_elements(&mut self, name: &str, elements: &Map) -> Result<(), Cause> {
        let ruleset = self.ruleset()?;
        let kind = ruleset.map(name).ok_or(Cause::Missing)?.kind();
        if kind != elements.kind() {
            // Keys of one length are looked for.
            let alike = Shape::of(kind).key().1 == Shape::of(elements.kind()).key().1;
            return Err(if alike { Cause::Missing } else { Cause::Invalid });
        }
        let mut deleted = Vec::new();
        let done = elements::delete(ruleset, name, elements, &mut deleted);
        deleted.iter().for_each(|chain| count(&mut self.chain_uses, chain, down));
        done
    }
}

/// The chains that a rule goes to by itself.
pub(crate) fn chains_of(rule: &Rule) -> impl Iterator<Item = &str> {
    rule.statements.iter().filter_map(|it| match it {
        Statement::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => Some(chain.as_str()),
        Statement::Verdict(Verdict::Accept | Verdict::Drop | Verdict::Return) => None,
        Statement::Set(_) | Statement::Counter | Statement::Log(_) | Statement::Would(_) => None,
        Statement::Look(_) | Statement::LookTuple { .. } => None,
    })
}

fn count_rule(chains: &mut BTreeMap<String, usize>, maps: &mut BTreeMap<String, usize>, rule: &Rule, by: fn(usize) -> usize) {
    chains_of(rule).for_each(|it| count(chains, it, by));
    maps_of(rule).for_each(|it| count(maps, it, by));
}

fn count(uses: &mut BTreeMap<String, usize>, name: &str, by: fn(usize) -> usize) {
    match uses.get_mut(name) {
        Some(uses) => *uses = by(*uses),
        None => {
            uses.insert(name.to_owned(), by(0));
        }
    }
}

fn up(uses: usize) -> usize {
    uses.saturating_add(1)
}

fn down(uses: usize) -> usize {
    uses.saturating_sub(1)
}
