//! The objects of the table, as errors name them.

use std::fmt;

/// Something in the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The transaction as a whole.
    Batch,
    /// The number that changes with each transaction.
    Generation,
    Table,
    Chain(String),
    Map(String),
    /// Elements of a map. The kernel does not say which.
    Elements(String),
    /// A rule by its chain and its place there, from 0. In a transaction that is its place among those that it appends there.
    Rule {
        chain: String,
        index: usize,
    },
}

/// What no message can say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} cannot be written: {what}")]
pub struct Unwritable {
    pub object: Object,
    pub what: String,
}

/// Something in the table that no ruleset has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object} is not of Palisade's making: {what}")]
pub struct Foreign {
    pub object: Object,
    pub what: String,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Batch => write!(f, "the transaction"),
            Object::Generation => write!(f, "the generation"),
            Object::Table => write!(f, "table `inet palisade`"),
            Object::Chain(name) => write!(f, "chain `{name}`"),
            Object::Map(name) => write!(f, "map `{name}`"),
            Object::Elements(map) => write!(f, "elements of map `{map}`"),
            Object::Rule { chain, index } => write!(f, "rule {index} of chain `{chain}`"),
        }
    }
}
