//! Changes of the table as a value: what is sent to the kernel at once, and what all of it does or nothing.
//!
//! A transaction says what happens in which order and knows nothing of what is there: `apply` does, and so does the kernel.

pub(crate) mod apply;
pub(crate) mod difference;
mod elements;
pub(crate) mod map;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::layout::Layout;
use crate::netlink::uapi;
use crate::object::Object;
use crate::ruleset::{Hook, Rule, Ruleset};
use crate::transaction::map::{Map, MapKind};

/// Changes that are in force together or not at all, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub table: Table,
    pub changes: Vec<Change>,
}

/// The nftables tables that Palisade writes on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The rules of policies.
    #[default]
    Own,
    /// Stands beside `Own` while all of `Own` is replaced.
    Next,
    /// Stands beside both when an agent exited during that replacement.
    Again,
    /// Says what audited policies would do. Nothing in it decides, and it is none of `ALL`.
    Audit,
    /// Drops packets from and for pods that the agent does not know yet, by interface and address.
    UnknownPods,
    /// Drops packets of connections that were cut, which the kernel would take for replies.
    Replies,
    /// Drops frames of the pods' links that the other tables would not see as they are.
    Frames,
}

/// One change. What it adds must not be there yet, and what it deletes must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Without anything in it but the mark of its layout.
    AddTable(Layout),
    /// With all that is in it, and whether it is there or not.
    DeleteTable,
    /// Deletes all rules of all chains, if there is a table.
    FlushTable,
    /// Without rules. A base chain if it has a hook.
    AddChain {
        name: String,
        hook: Option<Hook>,
    },
    /// With its rules. Nothing else may go there.
    DeleteChain(String),
    /// Has a chain at links stand at more of them.
    AddDevices {
        chain: String,
        devices: BTreeSet<String>,
    },
    /// Has it stand at fewer.
    DeleteDevices {
        chain: String,
        devices: BTreeSet<String>,
    },
    /// Deletes all rules of a chain.
    FlushChain(String),
    AppendRule {
        chain: String,
        rule: Rule,
    },
    /// Without elements.
    AddMap {
        name: String,
        kind: MapKind,
        /// How many it will get soon: it has room for more.
        elements: usize,
    },
    /// With its elements. No rule may ask it.
    DeleteMap(String),
    AddElements {
        map: String,
        elements: Map,
    },
    /// By their keys: what they are mapped to is not compared.
    DeleteElements {
        map: String,
        elements: Map,
    },
}

impl Table {
    /// The tables with rules of policies. A packet must pass each of these that is there.
    pub const ALL: [Table; 3] = [Table::Own, Table::Next, Table::Again];
    /// All tables.
    pub const EVERY: [Table; 7] = [Table::Own, Table::Next, Table::Again, Table::Audit, Table::UnknownPods, Table::Replies, Table::Frames];

    /// The table of an address family (`NFPROTO_*`) and a name, if it is one of ours.
    pub fn named(family: u8, name: &str) -> Option<Table> {
        Table::EVERY.into_iter().find(|it| (it.family(), it.name()) == (family, name))
    }

    /// Its address family (`NFPROTO_*`).
    pub fn family(self) -> u8 {
        match self {
            Table::Own | Table::Next | Table::Again | Table::Audit | Table::UnknownPods | Table::Replies => uapi::INET,
            Table::Frames => uapi::NETDEV,
        }
    }

    fn family_name(self) -> &'static str {
        if self.family() == uapi::NETDEV { "netdev" } else { "inet" }
    }

    pub fn name(self) -> &'static str {
        match self {
            Table::Own | Table::Frames => uapi::TABLE,
            Table::Next => "palisade-next",
            Table::Again => "palisade-again",
            Table::Audit => "palisade-audit",
            Table::UnknownPods => "palisade-strays",
            Table::Replies => "palisade-answers",
        }
    }
}

/// `inet palisade`, with its family as `nft` takes it.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.family_name(), self.name())
    }
}

impl Transaction {
    /// Puts a whole ruleset in place of whatever is there. Safe against packets on their way only where nothing is.
    pub fn load(ruleset: &Ruleset) -> Transaction {
        Transaction::load_into(Table::Own, ruleset)
    }

    /// The same for one of our tables.
    pub fn load_into(table: Table, ruleset: &Ruleset) -> Transaction {
        let mut transaction = Transaction { table, changes: vec![Change::DeleteTable, Change::AddTable(ruleset.layout)] };
        transaction.changes.extend(ruleset.changes_since(&Ruleset::default()).changes);
        transaction
    }

    /// Removes the table, whether it is there or not.
    pub fn unload() -> Transaction {
        Transaction::unload_of(Table::Own)
    }

    /// The same for one of our tables.
    pub fn unload_of(table: Table) -> Transaction {
        Transaction { table, changes: vec![Change::DeleteTable] }
    }

    /// Whether it says nothing to the kernel.
    pub fn is_empty(&self) -> bool {
        self.changes.iter().all(Change::is_empty)
    }
}

impl Change {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Change::AddElements { elements, .. } | Change::DeleteElements { elements, .. } => elements.is_empty(),
            Change::AddDevices { devices, .. } | Change::DeleteDevices { devices, .. } => devices.is_empty(),
            Change::AddTable(_) | Change::DeleteTable | Change::FlushTable | Change::AddMap { .. } | Change::DeleteMap(_) => false,
            Change::AddChain { .. } | Change::DeleteChain(_) | Change::FlushChain(_) | Change::AppendRule { .. } => false,
        }
    }

    /// What the change is about, as errors name it.
    pub(crate) fn object(&self, places: &mut Places) -> Object {
        match self {
            Change::AddTable(_) | Change::DeleteTable | Change::FlushTable => Object::Table,
            Change::AddChain { name, .. } | Change::DeleteChain(name) | Change::FlushChain(name) => Object::Chain(name.clone()),
            Change::AddDevices { chain, .. } | Change::DeleteDevices { chain, .. } => Object::Chain(chain.clone()),
            Change::AppendRule { chain, .. } => Object::Rule { chain: chain.clone(), index: places.next(chain) },
            Change::AddMap { name, .. } | Change::DeleteMap(name) => Object::Map(name.clone()),
            Change::AddElements { map, .. } | Change::DeleteElements { map, .. } => Object::Elements(map.clone()),
        }
    }
}

/// How many rules a transaction has appended to each chain so far.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<String, usize>);

impl Places {
    fn next(&mut self, chain: &str) -> usize {
        if let Some(next) = self.0.get_mut(chain) {
            *next += 1;
            return *next - 1;
        }
        self.0.insert(chain.to_owned(), 1);
        0
    }
}
