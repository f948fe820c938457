//! One table of a node that follows what its caller asks for.

use palisade_nft::{Ruleset, Table, Transaction};

use crate::error::KernelError;
use crate::kernel::Kernel;

/// Keeps one table at the ruleset that was asked for last. The table stays when the keeper is dropped.
#[derive(Debug)]
pub struct TableKeeper<K> {
    kernel: K,
    table: Table,
    /// The ruleset that was asked for last, also when writing it failed. No ruleset is no table.
    wanted: Option<Option<Ruleset>>,
    held: Held,
    due: Due,
}

/// Whether packets may be on their way that the next change must wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// A stage was written, and the wait after it has not ended well.
    Grace,
}

/// The content of the table, as far as the keeper knows it.
#[derive(Clone, Debug)]
enum Held {
    /// Another process may have written it.
    Unknown,
    /// This ruleset, or no table.
    Known(Option<Ruleset>),
}

/// Whether a table was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    Yes,
    No,
}

impl<K: Kernel> TableKeeper<K> {
    pub fn new(kernel: K, table: Table) -> TableKeeper<K> {
        TableKeeper { kernel, table, wanted: None, held: Held::Unknown, due: Due::Nothing }
    }

    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    /// The table in the kernel, whoever wrote it.
    pub fn dump(&mut self) -> Result<Option<Ruleset>, KernelError> {
        self.kernel.dump_of(self.table)
    }

    /// Brings the table to one ruleset after the other, and waits for a grace between two. `make` gets the present content: what this keeper has written, or
    /// what another process has left; None if there is no table, or one that is not of Palisade's making.
    pub fn replace_in_stages(&mut self, make: impl Fn(Option<&Ruleset>) -> Vec<Option<Ruleset>>) -> Result<(), KernelError> {
        match self.run_stages(&make) {
            // Another process has changed the table, or a link that a chain stood at is gone: it is read again.
            Err(KernelError::Refused(_)) => self.run_stages(&make),
            result => result,
        }
    }

    fn run_stages(&mut self, make: impl Fn(Option<&Ruleset>) -> Vec<Option<Ruleset>>) -> Result<(), KernelError> {
        let held = match std::mem::replace(&mut self.held, Held::Unknown) {
            Held::Known(held) => Ok(held),
            Held::Unknown => self.dump(),
        };
        let mut held = match held {
            Ok(held) => held,
            Err(KernelError::Foreign { .. }) => {
                let wanted = make(None).pop().flatten();
                self.wanted = Some(wanted.clone());
                self.load(wanted.as_ref())?;
                self.held = Held::Known(wanted);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let stages = make(held.as_ref());
        self.wanted = stages.last().cloned();
        let mut stages = stages.into_iter().peekable();
        while let Some(stage) = stages.next() {
            if self.due == Due::Grace {
                self.kernel.grace()?;
                self.due = Due::Nothing;
            }
            self.change(held.as_ref(), stage.as_ref())?;
            held = stage;
            self.due = if stages.peek().is_some() { Due::Grace } else { Due::Nothing };
        }
        self.held = Held::Known(held);
        Ok(())
    }

    /// Brings the table to a ruleset, or removes it. Objects that stay the same are not touched, also those that another process has left.
    pub fn replace(&mut self, wanted: Option<Ruleset>) -> Result<(), KernelError> {
        self.wanted = Some(wanted.clone());
        self.bring(wanted)
    }

    /// Reads the table, and brings it to what was asked for last if it is something else.
    pub fn restore(&mut self) -> Result<Restored, KernelError> {
        let Some(wanted) = self.wanted.clone() else { return Ok(Restored::No) };
        self.held = Held::Unknown;
        match self.dump() {
            Ok(found) if found == wanted => {
                self.held = Held::Known(wanted);
                return Ok(Restored::No);
            }
            Ok(_) | Err(KernelError::Foreign { .. }) => {}
            Err(error) => return Err(error),
        }
        self.bring(wanted)?;
        Ok(Restored::Yes)
    }

    /// Puts the table back if it is not there. That is less work than `restore`.
    pub fn restore_missing(&mut self) -> Result<Restored, KernelError> {
        let Some(wanted @ Some(_)) = self.wanted.clone() else { return Ok(Restored::No) };
        if self.kernel.exists(self.table)? {
            return Ok(Restored::No);
        }
        self.held = Held::Unknown;
        self.bring(wanted)?;
        Ok(Restored::Yes)
    }

    fn bring(&mut self, wanted: Option<Ruleset>) -> Result<(), KernelError> {
        let held = std::mem::replace(&mut self.held, Held::Unknown);
        let done = match held {
            Held::Known(held) => match self.change(held.as_ref(), wanted.as_ref()) {
                // Another process has changed the table.
                Err(KernelError::Refused(_)) => self.bring_unknown(wanted.as_ref()),
                result => result,
            },
            Held::Unknown => self.bring_unknown(wanted.as_ref()),
        };
        done?;
        self.held = Held::Known(wanted);
        Ok(())
    }

    /// Changes the table that is there.
    fn bring_unknown(&mut self, wanted: Option<&Ruleset>) -> Result<(), KernelError> {
        match self.dump() {
            Ok(found) => match self.change(found.as_ref(), wanted) {
                // A set is full, or the kernel cannot change the links of a chain: the table is made anew.
                Err(KernelError::Refused(_)) => self.load(wanted),
                result => result,
            },
            Err(KernelError::Foreign { .. }) => self.load(wanted),
            Err(error) => Err(error),
        }
    }

    fn change(&mut self, held: Option<&Ruleset>, wanted: Option<&Ruleset>) -> Result<(), KernelError> {
        match (held, wanted) {
            (held, wanted) if held == wanted => Ok(()),
            (Some(held), Some(wanted)) if held.layout == wanted.layout => {
                self.kernel.commit(&Transaction { table: self.table, ..wanted.changes_since(held) })
            }
            (Some(_) | None, wanted) => self.load(wanted),
        }
    }

    /// Makes the table anew, whatever is there.
    fn load(&mut self, wanted: Option<&Ruleset>) -> Result<(), KernelError> {
        match wanted {
            Some(ruleset) => self.kernel.commit(&Transaction::load_into(self.table, ruleset)),
            None if self.kernel.exists(self.table)? => self.kernel.commit(&Transaction::unload_of(self.table)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_nft::Frames;

    use super::*;
    use crate::fake::{Fake, Fault};

    fn frames(links: &[&str]) -> Frames {
        Frames { links: links.iter().map(|it| (*it).to_owned()).collect() }
    }

    #[test]
    fn between_two_stages_packets_leave_and_a_refusal_reads_the_table_again() {
        let mut fake = Fake::new();
        let refused = || Fault::Before(KernelError::Refused(Vec::new()));
        // Of the first call the commit is refused, of the second the wait after its first stage.
        let well = |calls: usize| std::iter::repeat_n(Fault::Spared, calls);
        fake.fail(well(1).chain([refused()]).chain(well(2)).chain(well(2)).chain([refused()]));
        let mut keeper = TableKeeper::new(fake, Table::Frames);
        keeper.replace_in_stages(|held| frames(&["a", "b"]).stages(held)).unwrap();
        assert_eq!((keeper.dump().unwrap().as_ref().map(Frames::of), keeper.kernel().graces()), (Some(frames(&["a", "b"])), 0));
        keeper.replace_in_stages(|held| frames(&["b", "c"]).stages(held)).unwrap();
        assert_eq!(keeper.kernel().faults(), 0);
        let found = keeper.dump().unwrap().unwrap();
        assert_eq!((Frames::of(&found), keeper.kernel().graces()), (frames(&["b", "c"]), 1));
        assert_eq!(found.chains.keys().collect::<Vec<_>>(), ["frames-2"]);
        assert_eq!(keeper.restore(), Ok(Restored::No));
    }

    #[test]
    fn what_could_not_be_written_is_written_by_the_next_restore() {
        let mut fake = Fake::new();
        fake.fail([Fault::Spared, Fault::Before(KernelError::Overrun)]);
        let mut keeper = TableKeeper::new(fake, Table::Frames);
        let wanted = frames(&["a"]).ruleset(None);
        assert_eq!(keeper.restore(), Ok(Restored::No));
        assert_eq!(keeper.replace(wanted.clone()), Err(KernelError::Overrun));
        assert_eq!((keeper.restore(), keeper.dump()), (Ok(Restored::Yes), Ok(wanted)));
    }
}
