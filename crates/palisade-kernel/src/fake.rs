//! A kernel in memory, for whoever wants to try what a caller does when a kernel says no.

use std::collections::{BTreeMap, VecDeque};

use nix::errno::Errno;
use palisade_nft::{Cause, Change, Counted, Expected, Layout, Refused, Ruleset, Statement, Table, Transaction, apply, encode};

use crate::error::{KernelError, Refusal};
use crate::kernel::Kernel;

/// A table in memory that takes and refuses what the kernel takes and refuses.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    tables: BTreeMap<Table, Ruleset>,
    generation: u32,
    graces: usize,
    /// Packets and bytes by chain and place.
    counts: BTreeMap<(String, usize), (u64, u64)>,
    faults: VecDeque<Fault>,
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done.
    Before(KernelError),
    /// It is done, and only the answer is lost.
    After(KernelError),
    /// Nothing: this call goes well, and the fault behind it meets the next one.
    Spared,
}

impl Fake {
    /// Without a table.
    pub fn new() -> Fake {
        Fake { generation: 1, ..Fake::default() }
    }

    /// Lets the next calls fail, one after the other, behind those that are to fail already.
    pub fn fail(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.extend(faults);
    }

    /// Forgets the faults that no call has met yet.
    pub fn forgive(&mut self) {
        self.faults.clear();
    }

    /// The faults that no call has met yet.
    pub fn faults(&self) -> usize {
        self.faults.len()
    }

    /// How often somebody waited for packets on their way.
    pub fn graces(&self) -> usize {
        self.graces
    }

    /// A transaction of somebody else, in another table.
    pub fn disturb(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// What a rule has counted from now on, as long as its chain is not flushed.
    pub fn count(&mut self, chain: &str, index: usize, packets: u64, bytes: u64) {
        self.counts.insert((chain.to_owned(), index), (packets, bytes));
    }

    /// Meets the next fault, if there is one.
    fn call<T>(&mut self, work: impl FnOnce(&mut Fake) -> Result<T, KernelError>) -> Result<T, KernelError> {
        match self.faults.pop_front() {
            None | Some(Fault::Spared) => work(self),
            Some(Fault::Before(error)) => Err(error),
            Some(Fault::After(error)) => work(self).and(Err(error)),
        }
    }

    fn apply(&mut self, transaction: &Transaction) -> Result<(), KernelError> {
        // What cannot be written is never sent.
        encode(transaction, 1, Expected::Anything)?;
        if transaction.is_empty() {
            return Ok(());
        }
        let mut table = self.tables.get(&transaction.table).cloned();
        apply(&mut table, transaction).map_err(|refused| KernelError::Refused(refused.into_iter().map(refusal).collect()))?;
        match table {
            Some(table) => self.tables.insert(transaction.table, table),
            None => self.tables.remove(&transaction.table),
        };
        self.generation = self.generation.wrapping_add(1);
        if transaction.table != Table::Own {
            return Ok(());
        }
        for change in &transaction.changes {
            match change {
                Change::DeleteTable | Change::FlushTable => self.counts.clear(),
                Change::DeleteChain(name) | Change::FlushChain(name) => self.counts.retain(|(chain, _), _| chain != name),
                Change::AddTable(_) | Change::AddChain { .. } | Change::AppendRule { .. } => {}
                Change::AddDevices { .. } | Change::DeleteDevices { .. } => {}
                Change::AddMap { .. } | Change::DeleteMap(_) | Change::AddElements { .. } | Change::DeleteElements { .. } => {}
            }
        }
        Ok(())
    }

    fn counted(&self, table: Table) -> Vec<Counted> {
        let mut counters = Vec::new();
        for (name, chain) in self.tables.get(&table).into_iter().flat_map(|it| &it.chains) {
            let counting = chain.rules.iter().enumerate().filter(|(_, rule)| rule.statements.contains(&Statement::Counter));
            counters.extend(counting.map(|(index, rule)| {
                let own = self.counts.get(&(name.clone(), index)).filter(|_| table == Table::Own);
                let (packets, bytes) = own.copied().unwrap_or_default();
                Counted { chain: name.clone(), index, comment: rule.comment.clone(), packets, bytes }
            }));
        }
        counters
    }
}

impl Kernel for Fake {
    fn commit(&mut self, transaction: &Transaction) -> Result<(), KernelError> {
        self.call(|fake| fake.apply(transaction))
    }

    fn commit_at(&mut self, generation: u32, transaction: &Transaction) -> Result<(), KernelError> {
        self.call(|fake| {
            if fake.generation != generation {
                return Err(KernelError::Outdated { expected: generation });
            }
            fake.apply(transaction)
        })
    }

    fn grace(&mut self) -> Result<(), KernelError> {
        self.call(|fake| {
            fake.graces += 1;
            Ok(())
        })
    }

    fn exists(&mut self, table: Table) -> Result<bool, KernelError> {
        self.call(|fake| Ok(fake.tables.contains_key(&table)))
    }

    fn standing(&mut self) -> Result<Vec<Table>, KernelError> {
        self.call(|fake| Ok(fake.tables.keys().copied().filter(|it| Table::ALL.contains(it)).collect()))
    }

    fn layout(&mut self) -> Result<Option<Layout>, KernelError> {
        self.call(|fake| Ok(fake.tables.get(&Table::Own).map(|it| it.layout)))
    }

    fn generation(&mut self) -> Result<u32, KernelError> {
        self.call(|fake| Ok(fake.generation))
    }

    fn dump_of(&mut self, table: Table) -> Result<Option<Ruleset>, KernelError> {
        self.call(|fake| Ok(fake.tables.get(&table).cloned()))
    }

    fn counters_of(&mut self, table: Table) -> Result<Vec<Counted>, KernelError> {
        self.call(|fake| Ok(fake.counted(table)))
    }
}

/// A refusal with the number that the kernel gives it.
fn refusal(Refused { object, cause }: Refused) -> Refusal {
    let errno = match cause {
        Cause::Exists => Errno::EEXIST,
        Cause::Missing => Errno::ENOENT,
        Cause::InUse => Errno::EBUSY,
        Cause::Invalid => Errno::EINVAL,
        Cause::Unread => Errno::ENODATA,
        Cause::BaseChain | Cause::WrongHook => Errno::EOPNOTSUPP,
        Cause::TooDeep => Errno::EMLINK,
    };
    Refusal { object, errno }
}
