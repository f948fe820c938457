//! Whether somebody else has changed our tables.

use palisade_kernel::Changed;
use palisade_nft::Table;

/// The own table, and that of the frames.
const TABLE: &str = "palisade";

/// Who made a change of our table, unless it came by one of our own sockets.
pub(crate) fn stranger(changed: &Changed, ours: [u32; 2]) -> Option<String> {
    match changed {
        Changed::Transaction { by, process, port, tables, .. } => {
            let touched = tables.iter().any(|it| it.name == TABLE || it.name == Table::Audit.name());
            (touched && !ours.contains(port)).then(|| format!("{process} (process {by})"))
        }
        Changed::Unknown => Some("an unknown process".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use palisade_kernel::TableName;

    use super::*;

    #[test]
    fn a_stranger_is_whoever_touches_a_table_of_ours_by_another_socket() {
        let by = |port, name: &str| {
            let tables = [TableName { family: 1, name: name.to_owned() }].into();
            stranger(&Changed::Transaction { generation: 7, by: 12, process: "nft".to_owned(), port, tables }, [5, 6])
        };
        assert_eq!([by(5, TABLE), by(6, TABLE), by(7, "palisade-answers")], [None, None, None]);
        let theirs = Some("nft (process 12)".to_owned());
        assert_eq!([by(7, TABLE), by(0, Table::Audit.name())], [theirs.clone(), theirs]);
    }
}
