//! Replacing all of the table, whatever it holds.

use crate::plan::Step;
use crate::ruleset::{DataMap, Ruleset};
use crate::shared_map::SharedMap;
use crate::transaction::map::Map;
use crate::transaction::{Change, Table, Transaction};

/// So many elements of a map come in one commit where nobody asks it yet. The kernel tells whoever listens of each one for itself, in memory of some
/// kilobytes, and keeps that of a whole commit until it is over.
const AT_ONCE: usize = 4096;

/// Puts a ruleset in place of whatever our tables hold. `standing` are those that stand beside the own one, left by somebody who died; of two, the first stays until
/// the new one is in force, so it must be one that packets are asked in, if any is.
///
/// The new ruleset comes to stand beside what is there, so that a packet must pass both. Then the old tables are left by all packets, one
/// after the other: without rules they let everything pass, and with a rule missing a packet passes that it would have met there. Maps go when
/// nobody asks them: without an element a packet may be dropped.
pub fn replace(new: &Ruleset, standing: &[Table]) -> Vec<Step> {
    let free = [Table::Next, Table::Again].into_iter().find(|it| !standing.contains(it));
    // Where all names are taken somebody died twice in a row. The own table may have no rules by then.
    let beside = free.or(standing.last().copied()).unwrap_or(Table::Again);
    let mut steps = load_into(beside, new);
    let others = standing.iter().copied().filter(|it| *it != beside);
    for table in others {
        steps.extend(left(table));
        steps.extend([Step::Commit(Transaction { table, changes: vec![Change::DeleteTable] }), Step::Grace]);
    }
    steps.extend(left(Table::Own));
    steps.extend(load_into(Table::Own, new));
    steps.extend(left(beside));
    steps.extend([Step::Commit(Transaction { table: beside, changes: vec![Change::DeleteTable] }), Step::Grace]);
    steps
}

/// Puts a ruleset where no table is, in parts: if the kernel refuses one, nothing is in force yet that would have to be kept.
pub fn load(new: &Ruleset) -> Vec<Step> {
    let mut steps = load_into(Table::Own, new);
    if let Some(Step::Commit(silent)) = steps.first_mut() {
        let table = silent.table;
        let parts: Vec<Change> = silent.changes.extract_if(.., |it| is_large(it)).flat_map(parts).collect();
        let parts = parts.into_iter().map(|it| Step::Commit(Transaction { table, changes: vec![it] }));
        steps.splice(1..1, parts);
    }
    steps
}

/// First all that base chains lead to, then these: ranges are in force a moment later than the rest of their commit, and whoever asks them
/// before finds nothing.
fn load_into(table: Table, new: &Ruleset) -> Vec<Step> {
    let of_base_chain = |change: &Change| match change {
        Change::AppendRule { chain, .. } => new.chains.get(chain).is_some_and(|it| it.hook.is_some()),
        Change::AddTable(_) | Change::DeleteTable | Change::FlushTable | Change::AddMap { .. } | Change::DeleteMap(_) => false,
        Change::AddChain { .. } | Change::DeleteChain(_) | Change::FlushChain(_) => false,
        Change::AddDevices { .. } | Change::DeleteDevices { .. } | Change::AddElements { .. } | Change::DeleteElements { .. } => false,
    };
    let mut silent = Transaction::load_into(table, new);
    let rules = Transaction { table, changes: silent.changes.extract_if(.., |it| of_base_chain(it)).collect() };
    vec![Step::Commit(silent), Step::Commit(rules), Step::Grace]
}

fn is_large(change: &Change) -> bool {
    matches!(change, Change::AddElements { elements: Map::Data(data), .. } if data.elements.len() > AT_ONCE)
}

/// The same, one after the other.
fn parts(change: Change) -> Vec<Change> {
    let Change::AddElements { map, elements: Map::Data(data) } = change else { return vec![change] };
    let mut left = data.elements.iter().map(|(address, number)| (*address, *number)).peekable();
    let mut parts = Vec::new();
    while left.peek().is_some() {
        let elements: SharedMap<_, _> = left.by_ref().take(AT_ONCE).collect();
        parts.push(Change::AddElements { map: map.clone(), elements: Map::Data(DataMap { family: data.family, elements }) });
    }
    parts
}

fn left(table: Table) -> [Step; 2] {
    [Step::Commit(Transaction { table, changes: vec![Change::FlushTable] }), Step::Grace]
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use crate::ruleset::Address;
    use crate::transaction::apply::apply;

    use super::*;

    #[test]
    fn a_large_map_is_loaded_in_parts() {
        let mut wanted = Ruleset::default();
        for (name, count) in [("large", 10_000), ("small", 10)] {
            let elements = (0..count).map(|it| (IpAddr::V4(Ipv4Addr::from_bits(it)), it % 7)).collect();
            wanted.data.insert(name.to_owned(), DataMap { family: Address::V4, elements });
        }
        let (mut table, mut commits) = (None, 0);
        for step in load(&wanted) {
            let Step::Commit(transaction) = step else { continue };
            let sizes = transaction.changes.iter().map(|it| if let Change::AddElements { elements, .. } = it { elements.len() } else { 0 });
            assert!(sizes.sum::<usize>() <= AT_ONCE);
            apply(&mut table, &transaction).unwrap();
            commits += usize::from(!transaction.is_empty());
        }
        assert_eq!((table, commits), (Some(wanted), 4));
    }
}
