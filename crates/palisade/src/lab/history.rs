//! What happened in a lab, the latest last, for whoever asks later or wants to go on listening.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use palisade_report::v1;

/// Older ones are forgotten, and counted.
const KEPT: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct History {
    inner: Mutex<Inner>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Entry>,
    /// How many came before the first that is kept.
    forgotten: u64,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Denied(Box<v1::Denial>),
    /// Live connections that a change ended.
    Cut(Box<v1::Cut>),
    /// Denied connections beyond those that a node tells of in a second.
    Suppressed {
        node: String,
        by: String,
        connections: u64,
    },
    /// As a policy asked to have it logged.
    Accepted(Box<v1::Acceptance>),
    /// Accepted connections beyond those that a node tells of in a second.
    AcceptedMore {
        node: String,
        by: String,
        connections: u64,
    },
    /// As audited policies would treat it.
    Would(Box<v1::Would>),
    /// Connections that a set of them would treat otherwise, by one rule, beyond those that a node tells of in a second.
    WouldMore {
        node: String,
        set: String,
        connections: u64,
    },
    /// Logged packets that were never read.
    Lost {
        node: String,
        packets: u64,
    },
    /// Something about the lab itself.
    Note(String),
}

impl Entry {
    /// What stands in no list of connections, in a line.
    pub(crate) fn aside(&self) -> Option<String> {
        match self {
            Entry::Denied(_) | Entry::Accepted(_) | Entry::Cut(_) | Entry::Would(_) => None,
            Entry::AcceptedMore { node, by, connections } => {
                Some(format!("node {node}: {connections} more accepted within a second, {by}\n"))
            }
            Entry::Suppressed { node, by, connections } => Some(format!("node {node}: {connections} more denied within a second, {by}\n")),
            Entry::WouldMore { node, set, connections } => {
                Some(format!("node {node}: {connections} more within a second that policies of the set `{set}` would treat otherwise\n"))
            }
            Entry::Lost { node, packets } => Some(format!("node {node}: {packets} logged packets were not read in time\n")),
            Entry::Note(note) => Some(format!("{note}\n")),
        }
    }
}

/// A part of the history.
#[derive(Debug)]
pub(crate) struct Since {
    pub(crate) entries: Vec<Entry>,
    /// How many entries of that part are not known any more.
    pub(crate) missed: u64,
    /// Where the next part starts.
    pub(crate) next: u64,
}

impl History {
    pub(crate) fn push(&self, entry: Entry) {
        let mut inner = self.lock();
        if inner.entries.len() == KEPT {
            inner.entries.pop_front();
            inner.forgotten += 1;
        }
        inner.entries.push_back(entry);
        drop(inner);
        self.more.notify_all();
    }

    /// What came from a place on; waits a while if there is nothing yet.
    pub(crate) fn since(&self, place: u64, patience: Duration) -> Since {
        let mut inner = self.lock();
        if place >= inner.end() && !patience.is_zero() {
            inner = self.more.wait_timeout(inner, patience).map(|(inner, _)| inner).unwrap_or_else(|error| error.into_inner().0);
        }
        let missed = inner.forgotten.saturating_sub(place);
        let skip = usize::try_from(place.saturating_sub(inner.forgotten)).unwrap_or(usize::MAX);
        Since { entries: inner.entries.iter().skip(skip).cloned().collect(), missed, next: inner.end().max(place) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What it guards is whole at any time, also when its holder panicked.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn end(&self) -> u64 {
        self.forgotten + u64::try_from(self.entries.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_counted() {
        let history = History::default();
        for number in 0..KEPT + 3 {
            history.push(Entry::Note(number.to_string()));
        }
        let Since { entries, missed, next } = history.since(1, Duration::ZERO);
        assert_eq!((entries.len(), missed, next), (KEPT, 2, 10_003));
        assert!(matches!(entries.first(), Some(Entry::Note(first)) if first == "3"));
        assert!(history.since(next, Duration::ZERO).entries.is_empty());
    }
}
