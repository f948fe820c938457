//! The table `inet palisade` of one network namespace.

use nix::errno::Errno;
use palisade_nft::{Expected, Ruleset, Transaction, encode};

use crate::dump;
use crate::error::KernelError;
use crate::socket::Socket;

/// A connection to the `nf_tables` of the network namespace that the thread was in when it was opened.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
}

impl Nftables {
    /// Connects, and finds out whether there is permission and support.
    pub fn open() -> Result<Nftables, KernelError> {
        let mut socket = Socket::open()?;
        match dump::generation(&mut socket) {
            Ok(_) => Ok(Nftables { socket }),
            // Netfilter says so when nothing answers for the subsystem.
            Err(KernelError::Refused(refusals)) => Err(KernelError::NoSupport(refusals.first().map_or(Errno::EOPNOTSUPP, |it| it.errno))),
            Err(error) => Err(error),
        }
    }

    /// Puts the ruleset in place of whatever the table holds, in one transaction. On `Refused` the table is as it was before.
    ///
    /// Packets that are on their way through the old table at that moment may meet maps without elements and pass: whoever replaces a
    /// table in force must know that until changes are made step by step.
    ///
    /// Double quotes in comments become single ones, as in `palisade_nft::render`; lists of protocols are kept as sets.
    pub fn load(&mut self, ruleset: &Ruleset) -> Result<(), KernelError> {
        self.commit(&Transaction::load(ruleset), Expected::Anything)
    }

    /// Removes the table with all that is in it. It is no error if there is none.
    pub fn unload(&mut self) -> Result<(), KernelError> {
        self.commit(&Transaction::unload(), Expected::Anything)
    }

    fn commit(&mut self, transaction: &Transaction, expected: Expected) -> Result<(), KernelError> {
        self.socket.commit(&encode(transaction, self.socket.sequence(), expected)?)
    }

    /// Whether there is a table, whoever made it.
    pub fn exists(&mut self) -> Result<bool, KernelError> {
        Ok(dump::table(&mut self.socket)?.is_some())
    }

    /// The table as the kernel has it, or None if there is none. It is of one state: what changes meanwhile is read again.
    ///
    /// All of a loaded ruleset comes back but `origins`, which stays empty: the kernel keeps their numbers in the prefixes of logs and a
    /// part of their text in comments, but no direction, and whoever lowered the ruleset has them whole. Counters are not read.
    ///
    /// Anything that no ruleset has is `Foreign`: a chain of another priority, a dormant table, an element with a timeout. Flow
    /// tables and named counters, quotas and the like are not looked for: no rule of a ruleset can refer to one.
    pub fn dump(&mut self) -> Result<Option<Ruleset>, KernelError> {
        dump::dump(&mut self.socket)
    }
}
