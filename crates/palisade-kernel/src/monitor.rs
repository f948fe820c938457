//! What anybody changes in the `nf_tables` of a network namespace, as the kernel tells it after each transaction.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use palisade_netlink::{Attributes, Message, Messages, Odd};
use palisade_nft::uapi::{GENERATION_ID, SUBSYSTEM};

use crate::error::KernelError;
use crate::socket::{Socket, Unasked};

/// `NFNLGRP_NFTABLES` is group 7.
const GROUPS: u32 = 1 << 6;
/// How many datagrams one `wait` takes.
const DATAGRAMS: usize = 16 * 1024;

/// Hears of every change in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    /// What the transaction whose end has not come yet has touched.
    touched: BTreeSet<TableName>,
    overrun: Overrun,
}

/// Whether the kernel has dropped something and may still do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overrun {
    No,
    /// The kernel says it once, and then drops in silence until the queue was empty.
    UntilEmpty,
}

/// A table by its family, as `NFPROTO_*` numbers it, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableName {
    pub family: u8,
    pub name: String,
}

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// One transaction.
    Transaction {
        /// Its number, as `nft` prints it.
        generation: u32,
        /// The thread that made it, which is the process if that has only one. Numbered as in the first process namespace of the host.
        by: u32,
        /// The name of that thread.
        process: String,
        /// The socket that it came by, as `Nftables::port` says it: no two of a network namespace have the same.
        port: u32,
        /// The tables in which something was added, removed or changed, or that were themselves.
        tables: BTreeSet<TableName>,
    },
    /// The kernel dropped notifications: anything may have changed before this was said, and only looking at the whole tells.
    Unknown,
}

impl Monitor {
    /// Bytes that may wait until they are read: a transaction of a hundred thousand elements fits.
    pub const RECEIVE_BUFFER: usize = 32 * 1024 * 1024;

    /// Changes after this call are heard of.
    pub fn open() -> Result<Monitor, KernelError> {
        Monitor::open_with(Monitor::RECEIVE_BUFFER)
    }

    /// The same with room for so many bytes that were not read yet.
    pub fn open_with(receive_buffer: usize) -> Result<Monitor, KernelError> {
        let socket = Socket::open_to(GROUPS, receive_buffer)?;
        Ok(Monitor { socket, touched: BTreeSet::new(), overrun: Overrun::No })
    }

    /// Waits up to `patience` for a notification, then gives every transaction whose end has come. None at all is no error: the
    /// patience ended, or only a part of a transaction was there.
    pub fn wait(&mut self, patience: Duration) -> Result<Vec<Changed>, KernelError> {
        let mut changes = Vec::new();
        self.socket.wait(patience)?;
        let mut emptied = false;
        for _ in 0..DATAGRAMS {
            match self.socket.unasked()? {
                Unasked::Nothing => {
                    emptied = true;
                    break;
                }
                Unasked::Overrun => self.overrun = Overrun::UntilEmpty,
                Unasked::Datagram(datagram) => {
                    changes.extend(Changed::all_of(datagram, &mut self.touched).map_err(|odd| KernelError::Truncated(odd.0))?);
                }
            }
        }
        if self.overrun == Overrun::UntilEmpty {
            // Said last: whoever looks at the whole afterwards sees all that was dropped.
            changes.push(Changed::Unknown);
            if emptied {
                self.overrun = Overrun::No;
                self.touched.clear();
            }
        }
        Ok(changes)
    }
}

impl Changed {
    /// The transactions that end in one datagram of the kernel. `touched` is what those before it have left open.
    pub fn all_of(datagram: &[u8], touched: &mut BTreeSet<TableName>) -> Result<Vec<Changed>, Odd> {
        let mut changes = Vec::new();
        for message in Messages::of(datagram) {
            changes.extend(heard(&message?, touched)?);
        }
        Ok(changes)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Notes the table that a message is about. The message that ends a transaction gives it.
fn heard(message: &Message<'_>, touched: &mut BTreeSet<TableName>) -> Result<Option<Changed>, Odd> {
    if message.kind >> 8 != SUBSYSTEM {
        return Ok(None);
    }
    let attributes = Attributes::of_payload(message.payload)?;
    if message.kind == SUBSYSTEM << 8 | uapi::NEW_GENERATION {
        return Ok(Some(Changed::Transaction {
            generation: attributes.u32(GENERATION_ID)?,
            by: attributes.u32(uapi::PROCESS_ID)?,
            process: attributes.text(uapi::PROCESS_NAME)?.to_owned(),
            port: message.port,
            tables: std::mem::take(touched),
        }));
    }
    let family = *message.payload.first().ok_or_else(|| Odd::new("a notification without a family"))?;
    touched.insert(TableName { family, name: attributes.text(uapi::TABLE)?.to_owned() });
    Ok(None)
}

/// Numbers of `linux/netfilter/nf_tables.h`.
mod uapi {
    pub(super) const NEW_GENERATION: u16 = 15;
    pub(super) const PROCESS_ID: u16 = 2;
    pub(super) const PROCESS_NAME: u16 = 3;
    /// Where every object has the name of its table: `NFTA_TABLE_NAME`, `NFTA_CHAIN_TABLE`, `NFTA_RULE_TABLE` and so on.
    pub(super) const TABLE: u16 = 1;
}
