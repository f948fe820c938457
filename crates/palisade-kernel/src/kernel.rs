//! What takes transactions and shows what came of them.

use palisade_nft::{Counted, Layout, Ruleset, Table, Transaction};

use crate::error::KernelError;

/// Our tables in one network namespace: `inet palisade`, those that may stand beside it while it is replaced, and the small ones.
pub trait Kernel {
    /// Does all of a transaction, or nothing. On `Refused` the table is as it was before.
    ///
    /// Double quotes in comments become single ones, as in `palisade_nft::render`; lists of protocols are kept as sets.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), KernelError>;

    /// Does all of a transaction if no table of the network namespace has changed since a generation; `Outdated` if one has.
    fn commit_at(&mut self, generation: u32, transaction: &Transaction) -> Result<(), KernelError>;

    /// Waits until every packet that is on its way has left.
    fn grace(&mut self) -> Result<(), KernelError>;

    /// Whether one of our tables is there, whoever made it.
    fn exists(&mut self, table: Table) -> Result<bool, KernelError>;

    /// The tables of policies that are there.
    fn standing(&mut self) -> Result<Vec<Table>, KernelError>;

    /// The layout that the own table says it has, whatever else is in it. None if there is no table.
    fn layout(&mut self) -> Result<Option<Layout>, KernelError>;

    /// The own table, or None if there is none. It is of one state: what changes meanwhile is read again.
    ///
    /// All of a loaded ruleset comes back but `origins`, which stays empty: the kernel keeps their numbers in the prefixes of logs and a
    /// part of their text in comments, but no direction, and whoever lowered the ruleset has them whole.
    ///
    /// Anything that no ruleset has is `Foreign`: a chain of another priority, a dormant table, an element with a timeout. Flow
    /// tables and named counters, quotas and the like are not looked for: no rule of a ruleset can refer to one.
    fn dump(&mut self) -> Result<Option<Ruleset>, KernelError> {
        self.dump_of(Table::Own)
    }

    /// The number of the last transaction in the network namespace, by anyone.
    fn generation(&mut self) -> Result<u32, KernelError>;

    /// What the rules have counted, by chain and in their order; rules that count nothing are left out.
    fn counters(&mut self) -> Result<Vec<Counted>, KernelError> {
        self.counters_of(Table::Own)
    }

    /// The same as `dump` for one of our tables.
    fn dump_of(&mut self, table: Table) -> Result<Option<Ruleset>, KernelError>;

    /// The same as `counters` for one of our tables.
    fn counters_of(&mut self, table: Table) -> Result<Vec<Counted>, KernelError>;
}
