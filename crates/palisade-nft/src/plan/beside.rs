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
    let mut steps = Vec::from(loaded(beside, new));
    let others = standing.iter().copied().filter(|it| *it != beside);
    for table in others {
        steps.extend(left(table));
        steps.extend([Step::Commit(Transaction { table, changes: vec![Change::DeleteTable] }), Step::Grace]);
    }
    steps.extend(left(Table::Own));
    steps.extend(loaded(Table::Own, new));
    steps.extend(left(beside));
    steps.extend([Step::Commit(Transaction { table: beside, changes: vec![Change::DeleteTable] }), Step::Grace]);
    steps
}

/// Loads a table that nobody asks yet, and lets packets into it when its maps are filled: the kernel may show what is in a map of intervals
/// only some time after the rules that came with it.
fn loaded(table: Table, new: &Ruleset) -> [Step; 4] {
    let Transaction { changes, .. } = Transaction::load_into(table, new);
    let (entries, rest) = changes.into_iter().partition(|it| match it {
        Change::AppendRule { chain, .. } => new.chains.get(chain).is_some_and(|it| it.hook.is_some()),
        Change::AddTable | Change::DeleteTable | Change::FlushTable | Change::AddMap { .. } | Change::DeleteMap(_) => false,
        Change::AddChain { .. } | Change::DeleteChain(_) | Change::FlushChain(_) => false,
        Change::AddElements { .. } | Change::DeleteElements { .. } | Change::AddDevices { .. } | Change::DeleteDevices { .. } => false,
    });
    let commit = |changes| Step::Commit(Transaction { table, changes });
    [commit(rest), Step::Grace, commit(entries), Step::Grace]
}

fn left(table: Table) -> [Step; 2] {
    [Step::Commit(Transaction { table, changes: vec![Change::FlushTable] }), Step::Grace]
}
