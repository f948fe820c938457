//! Parts of our smaller tables of the family `inet`, as messages of a transaction.

use nix::errno::Errno;
use palisade_nft::uapi::{chain, flag, kind, message, rule, set, table};
use palisade_nft::{LOG_GROUP, LOG_PREFIX, Object};

use crate::error::KernelError;
use crate::services::expression::{self, Expression};
use crate::socket::Socket;
use crate::transaction::Transaction;

/// Before the rules of `inet palisade`.
const PRIORITY: i32 = -1;

/// Hooks.
pub(crate) const INPUT: u32 = 1;
pub(crate) const FORWARD: u32 = 2;
pub(crate) const OUTPUT: u32 = 3;

/// Whether a table is there.
pub(crate) fn is_there(socket: &mut Socket, name: &str) -> Result<bool, KernelError> {
    match socket.ask(Object::Table, message::GET_TABLE, flag::ACK, |writer| writer.text(table::NAME, name)) {
        Ok(_) => Ok(true),
        Err(KernelError::Refused(refusals)) if refusals.iter().all(|it| it.errno == Errno::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a table, whether it is there or not.
pub(crate) fn remove_table(transaction: &mut Transaction, name: &str) {
    add_table(transaction, name);
    transaction.push(Object::Table, message::DELETE_TABLE, 0, |writer| writer.text(table::NAME, name));
}

pub(crate) fn add_table(transaction: &mut Transaction, name: &str) {
    transaction.push(Object::Table, message::NEW_TABLE, flag::CREATE, |writer| {
        writer.text(table::NAME, name);
        writer.u32(table::FLAGS, 0);
    });
}

/// What a set holds.
pub(crate) enum Holds {
    Keys,
    /// Keys, each with the chain that it leads to.
    Chains,
}

/// Adds a set: its name, and the types and length of its keys.
pub(crate) fn add_set(transaction: &mut Transaction, of: &str, name: &str, id: u32, (types, length): (u32, u32), holds: &Holds) {
    transaction.push(Object::Map(name.to_owned()), message::NEW_SET, flag::CREATE, |writer| {
        writer.text(set::TABLE, of);
        writer.text(set::NAME, name);
        let flags = match holds {
            Holds::Keys => 0,
            Holds::Chains => set::MAP,
        };
        writer.u32(set::FLAGS, flags);
        writer.u32(set::KEY_TYPE, types);
        writer.u32(set::KEY_LENGTH, length);
        match holds {
            Holds::Keys => {}
            Holds::Chains => {
                writer.u32(set::DATA_TYPE, kind::VERDICT);
                writer.u32(set::DATA_LENGTH, 0);
            }
        }
        writer.u32(set::ID, id);
    });
}

/// Adds a base chain at a hook.
pub(crate) fn add_base(transaction: &mut Transaction, of: &str, name: &str, hook: u32) {
    transaction.push(Object::Chain(name.to_owned()), message::NEW_CHAIN, flag::CREATE, |writer| {
        writer.text(chain::TABLE, of);
        writer.text(chain::NAME, name);
        writer.text(chain::TYPE, "filter");
        writer.u32(chain::POLICY, chain::ACCEPT);
        writer.nest(chain::HOOK, |writer| {
            writer.u32(chain::HOOK_NUMBER, hook);
            writer.bytes(chain::HOOK_PRIORITY, &PRIORITY.to_be_bytes());
        });
    });
}

/// Adds a chain that counts, logs and drops, as the rules of `inet palisade` do.
pub(crate) fn add_denial(transaction: &mut Transaction, of: &str, name: &str, origin: u32) {
    transaction.push(Object::Chain(name.to_owned()), message::NEW_CHAIN, flag::CREATE, |writer| {
        writer.text(chain::TABLE, of);
        writer.text(chain::NAME, name);
    });
    let log = Expression::Log { prefix: format!("{LOG_PREFIX}{origin:08x} "), group: LOG_GROUP };
    add_rule(transaction, of, name, 0, &[Expression::Counter, log, Expression::Drop]);
}

pub(crate) fn add_rule(transaction: &mut Transaction, of: &str, chain: &str, index: usize, expressions: &[Expression]) {
    let object = Object::Rule { chain: chain.to_owned(), index };
    transaction.push(object, message::NEW_RULE, flag::CREATE | flag::APPEND, |writer| {
        writer.text(rule::TABLE, of);
        writer.text(rule::CHAIN, chain);
        writer.nest(rule::EXPRESSIONS, |writer| expression::write(writer, expressions));
    });
}
