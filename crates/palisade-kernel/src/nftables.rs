//! The tables of one network namespace.

use nix::errno::Errno;
use palisade_nft::{Counted, Dump, Expected, Layout, Messages, Ruleset, Table, Transaction, encode};

use crate::dump;
use crate::error::KernelError;
use crate::grace::grace;
use crate::kernel::Kernel;
use crate::socket::{Socket, is_no_support};

/// A connection to the `nf_tables` of the network namespace that the thread was in when it was opened.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
}

impl Nftables {
    /// Connects, and finds out whether there is permission and support.
    pub fn open() -> Result<Nftables, KernelError> {
        Nftables::of(Socket::open()?)
    }

    /// Connects with a socket that sends and receives no more than so many bytes at once; the kernel rounds up what is less than it can do with.
    /// A transaction that does not fit is refused before anything of it is done (EMSGSIZE).
    pub fn open_within(send_buffer: usize, receive_buffer: usize) -> Result<Nftables, KernelError> {
        Nftables::of(Socket::open_to(0, receive_buffer)?.limited_to(send_buffer))
    }

    fn of(mut socket: Socket) -> Result<Nftables, KernelError> {
        match dump::generation(&mut socket) {
            Ok(_) => Ok(Nftables { socket }),
            Err(error) => Err(without_support(error)),
        }
    }

    /// Puts the ruleset in place of whatever the table holds, in one transaction. On `Refused` the table is as it was before.
    ///
    /// Packets that are on their way through the old table at that moment may meet maps without elements and pass: whoever replaces a
    /// table in force must know that until changes are made step by step.
    ///
    /// Double quotes in comments become single ones, as in `palisade_nft::render`; lists of protocols are kept as sets.
    pub fn load(&mut self, ruleset: &Ruleset) -> Result<(), KernelError> {
        self.commit(&Transaction::load(ruleset))
    }

    /// Removes the table with all that is in it. It is no error if there is none.
    pub fn unload(&mut self) -> Result<(), KernelError> {
        self.commit(&Transaction::unload())
    }

    /// What a `Monitor` calls the socket that transactions of this one come by.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// One of our tables as the kernel tells it, whoever made what is in it. None if there is none.
    pub fn raw(&mut self, table: Table) -> Result<Option<Dump>, KernelError> {
        dump::raw(&mut self.socket, table)
    }

    /// Commits messages about tables of an address family (`NFPROTO_*`) that no `Ruleset` describes, all in one transaction. On `Refused` nothing has changed.
    pub fn commit_messages(&mut self, family: u8, write: impl FnOnce(&mut Messages)) -> Result<(), KernelError> {
        let mut messages = Messages::new(family, self.socket.sequence(), Expected::Anything);
        write(&mut messages);
        self.socket.commit(&messages.finish()?)
    }

    fn send(&mut self, transaction: &Transaction, expected: Expected) -> Result<(), KernelError> {
        self.socket.commit(&encode(transaction, self.socket.sequence(), expected)?)
    }
}

impl Kernel for Nftables {
    fn commit(&mut self, transaction: &Transaction) -> Result<(), KernelError> {
        // Nothing is acknowledged where nothing is asked for.
        if transaction.is_empty() { Ok(()) } else { self.send(transaction, Expected::Anything) }
    }

    fn commit_at(&mut self, generation: u32, transaction: &Transaction) -> Result<(), KernelError> {
        let outdated = KernelError::Outdated { expected: generation };
        if transaction.is_empty() {
            return if self.generation()? == generation { Ok(()) } else { Err(outdated) };
        }
        match self.send(transaction, Expected::Generation(generation)) {
            Err(KernelError::Refused(refusals)) if refusals.iter().any(|it| it.errno == Errno::ERESTART) => Err(outdated),
            result => result,
        }
    }

    fn grace(&mut self) -> Result<(), KernelError> {
        grace()
    }

    fn exists(&mut self, table: Table) -> Result<bool, KernelError> {
        Ok(dump::table(&mut self.socket, table)?.is_some())
    }

    fn standing(&mut self) -> Result<Vec<Table>, KernelError> {
        let mut standing = Vec::new();
        for table in Table::ALL {
            standing.extend(self.exists(table)?.then_some(table));
        }
        Ok(standing)
    }

    fn layout(&mut self) -> Result<Option<Layout>, KernelError> {
        let table = dump::table(&mut self.socket, Table::Own)?;
        table.map(|it| palisade_nft::layout(&it)).transpose().map_err(|odd| KernelError::Truncated(odd.0))
    }

    fn generation(&mut self) -> Result<u32, KernelError> {
        dump::generation(&mut self.socket)
    }

    fn dump_of(&mut self, table: Table) -> Result<Option<Ruleset>, KernelError> {
        dump::dump(&mut self.socket, table)
    }

    fn counters_of(&mut self, table: Table) -> Result<Vec<Counted>, KernelError> {
        dump::counters(&mut self.socket, table)
    }
}

/// What it means that the first question was refused.
fn without_support(error: KernelError) -> KernelError {
    if let KernelError::Refused(refusals) = &error
        && let Some(refusal) = refusals.iter().find(|it| is_no_support(it.errno))
    {
        return KernelError::NoSupport(refusal.errno);
    }
    error
}

#[cfg(test)]
mod tests {
    use palisade_nft::Object;

    use super::*;
    use crate::error::Refusal;

    #[test]
    fn only_a_subsystem_that_nobody_answers_for_is_no_support() {
        let refused = |errno| KernelError::Refused(vec![Refusal { object: Object::Generation, errno }]);
        for errno in [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::EPROTONOSUPPORT] {
            assert_eq!(without_support(refused(errno)), KernelError::NoSupport(errno));
        }
        for error in [refused(Errno::ENOMEM), refused(Errno::EBUSY), KernelError::NoPermission, KernelError::Overrun] {
            assert_eq!(without_support(error.clone()), error);
        }
    }
}
