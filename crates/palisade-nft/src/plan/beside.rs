//! Replacing all of the table, whatever it holds.

use crate::plan::Step;
use crate::ruleset::Ruleset;
use crate::transaction::{Change, Table, Transaction};

/// Puts a ruleset in place of whatever our tables hold. `standing` are those that stand beside the own one, left by somebody who died.
///
/// The new ruleset comes to stand beside what is there, so that a packet must pass both. Then the old tables are left by all packets, one
/// after the other: without rules they let everything pass, and with a rule missing a packet passes that it would have met there. Maps go when
/// nobody asks them: without an element a packet may be dropped.
pub fn replace(new: &Ruleset, standing: &[Table]) -> Vec<Step> {
    let free = [Table::Next, Table::Again].into_iter().find(|it| !standing.contains(it));
    // Where all names are taken somebody died twice in a row; the oldest of them is the least of what is in force.
    let beside = free.unwrap_or(Table::Again);
    let mut steps = Vec::from(load_into(beside, new));
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

/// Puts a ruleset where no table is.
pub fn load(new: &Ruleset) -> Vec<Step> {
    load_into(Table::Own, new).into()
}

/// First all that base chains lead to, then these: ranges are in force a moment later than the rest of their commit, and whoever asks them
/// before finds nothing.
fn load_into(table: Table, new: &Ruleset) -> [Step; 3] {
    let of_base_chain = |change: &Change| match change {
        Change::AppendRule { chain, .. } => new.chains.get(chain).is_some_and(|it| it.hook.is_some()),
        Change::AddTable(_) | Change::DeleteTable | Change::FlushTable | Change::AddMap { .. } | Change::DeleteMap(_) => false,
        Change::AddChain { .. } | Change::DeleteChain(_) | Change::FlushChain(_) => false,
        Change::AddDevices { .. } | Change::DeleteDevices { .. } | Change::AddElements { .. } | Change::DeleteElements { .. } => false,
    };
    let mut silent = Transaction::load_into(table, new);
    let rules = Transaction { table, changes: silent.changes.extract_if(.., |it| of_base_chain(it)).collect() };
    [Step::Commit(silent), Step::Commit(rules), Step::Grace]
}

fn left(table: Table) -> [Step; 2] {
    [Step::Commit(Transaction { table, changes: vec![Change::FlushTable] }), Step::Grace]
}
