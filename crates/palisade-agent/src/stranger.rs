//! Whether somebody else has changed our tables.

use std::collections::BTreeSet;
use std::fmt;

use palisade_kernel::{Answers, Changed, Strays};
use palisade_nft::Table;

/// The own table, and that of the frames.
const TABLE: &str = "palisade";

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

/// Who may have changed tables of ours, until these were seen to be well or were put back.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Of tables that are held against what they should be.
    pub(crate) compared: Option<Suspect>,
    /// Of the small ones, which are made anew.
    pub(crate) remade: Option<Suspect>,
}

impl Suspects {
    /// Notes who has made a change, unless it came by one of our own sockets, and says whether it did. Whoever was noted before stays.
    pub(crate) fn note(&mut self, changed: &Changed, ours: &BTreeSet<u32>) -> By {
        match changed {
            Changed::Transaction { port, .. } if ours.contains(port) => return By::Us,
            Changed::Transaction { by, process, tables, .. } => {
                let suspect = |names: &[&str]| {
                    let touched = tables.iter().any(|it| names.contains(&it.name.as_str()));
                    touched.then(|| Suspect::Known(format!("{process} (process {by})")))
                };
                self.compared = self.compared.take().or_else(|| suspect(&[TABLE, Table::Audit.name()]));
                self.remade = self.remade.take().or_else(|| suspect(&[Answers::TABLE, Strays::TABLE]));
            }
            Changed::Unknown => {
                self.compared.get_or_insert(Suspect::Anybody);
                self.remade.get_or_insert(Suspect::Anybody);
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

    #[test]
    fn a_stranger_is_whoever_touches_a_table_of_ours_by_another_socket() {
        let noted = |changed: &Changed| {
            let mut suspects = Suspects::default();
            let by = suspects.note(changed, &[5, 6].into());
            let port = if let Changed::Transaction { port, .. } = changed { *port } else { 0 };
            assert_eq!(by == By::Us, [5, 6].contains(&port));
            (suspects.compared, suspects.remade)
        };
        let by = |port, name: &str| {
            let tables = [TableName { family: 1, name: name.to_owned() }].into();
            noted(&Changed::Transaction { generation: 7, by: 12, process: "nft".to_owned(), port, tables })
        };
        assert_eq!([by(5, TABLE), by(6, Answers::TABLE), by(7, "filter")], [(None, None), (None, None), (None, None)]);
        let nft = || Some(Suspect::Known("nft (process 12)".to_owned()));
        assert_eq!([by(7, TABLE), by(0, Table::Audit.name())], [(nft(), None), (nft(), None)]);
        assert_eq!([by(7, Answers::TABLE), by(7, Strays::TABLE)], [(None, nft()), (None, nft())]);
        assert_eq!(noted(&Changed::Unknown), (Some(Suspect::Anybody), Some(Suspect::Anybody)));
    }

    #[test]
    fn who_was_noted_first_stays() {
        let nft = Some(Suspect::Known("nft (process 3)".to_owned()));
        let mut suspects = Suspects { compared: nft.clone(), remade: None };
        suspects.note(&Changed::Unknown, &BTreeSet::new());
        assert_eq!((suspects.compared, suspects.remade), (nft, Some(Suspect::Anybody)));
    }
}
