//! Whether somebody else has changed our tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use palisade_kernel::Changed;
use palisade_nft::Table;

/// Somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Suspect {
    /// A process, in words.
    Known(String),
    /// The kernel did not tell all, and perhaps nobody did anything.
    Anybody,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suspect::Known(process) => f.write_str(process),
            Suspect::Anybody => f.write_str("an unknown process"),
        }
    }
}

/// The tables of ours that another process may have changed, until each was seen to be well or was put back.
#[derive(Debug, Default)]
pub(crate) struct Suspects(BTreeMap<Table, Suspect>);

impl Suspects {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tables, each with the process that changed it first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (Table, &Suspect)> {
        self.0.iter().map(|(table, suspect)| (*table, suspect))
    }

    /// Puts back tables whose check failed.
    pub(crate) fn again(&mut self, others: Suspects) {
        for (table, suspect) in others.0 {
            self.0.insert(table, suspect);
        }
    }

    /// Notes who has made a change, unless it came by one of our own sockets, and says whether it did. Whoever was noted before stays.
    pub(crate) fn note(&mut self, changed: &Changed, ours: &BTreeSet<u32>) -> By {
        match changed {
            Changed::Transaction { port, .. } if ours.contains(port) => return By::Us,
            Changed::Transaction { by, process, tables, .. } => {
                for table in tables.iter().filter_map(|it| Table::named(it.family, &it.name)) {
                    self.0.entry(table).or_insert_with(|| Suspect::Known(format!("{process} (process {by})")));
                }
            }
            Changed::Unknown => {
                for table in Table::EVERY {
                    self.0.entry(table).or_insert(Suspect::Anybody);
                }
            }
        }
        By::Somebody
    }
}

/// Who has made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Us,
    /// Or nobody knows.
    Somebody,
}

#[cfg(test)]
mod tests {
    use palisade_kernel::TableName;

    use super::*;

    fn by_nft(port: u32, (family, name): (u8, &str)) -> Changed {
        let tables = [TableName { family, name: name.to_owned() }].into();
        Changed::Transaction { generation: 7, by: 12, process: "nft".to_owned(), port, tables }
    }

    #[test]
    fn a_stranger_is_whoever_touches_a_table_of_ours_by_another_socket() {
        let noted = |changed: &Changed| {
            let mut suspects = Suspects::default();
            let by = suspects.note(changed, &[5, 6].into());
            let port = if let Changed::Transaction { port, .. } = changed { *port } else { 0 };
            assert_eq!(by == By::Us, [5, 6].contains(&port));
            suspects.tables().map(|(table, by)| (table, by.clone())).collect::<Vec<_>>()
        };
        for table in Table::EVERY {
            assert_eq!(noted(&by_nft(5, (table.family(), table.name()))), []);
            let suspect = Suspect::Known("nft (process 12)".to_owned());
            assert_eq!(noted(&by_nft(7, (table.family(), table.name()))), [(table, suspect)]);
        }
        assert_eq!(noted(&by_nft(7, (1, "filter"))), []);
        assert_eq!(noted(&by_nft(7, (2, "palisade"))), []);
        assert_eq!(noted(&Changed::Unknown), Table::EVERY.map(|it| (it, Suspect::Anybody)));
    }

    #[test]
    fn who_was_noted_first_stays() {
        let mut suspects = Suspects::default();
        suspects.note(&by_nft(7, (1, Table::Replies.name())), &BTreeSet::new());
        suspects.note(&Changed::Unknown, &BTreeSet::new());
        let known: Vec<Table> = suspects.tables().filter(|(_, it)| **it != Suspect::Anybody).map(|(table, _)| table).collect();
        assert_eq!((known, suspects.tables().count()), (vec![Table::Replies], Table::EVERY.len()));
    }
}
