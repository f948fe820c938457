//! What became of the packets of a soak, by the change that was made.

use std::collections::BTreeMap;
use std::fmt;

use crate::soak::change::Kind;
use crate::soak::classes::Claim;
use crate::soak::ledger::{Made, Window};

/// How many breaches of each sort are described. All are counted.
const DESCRIBED: usize = 50;

/// Packets in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Denied before and after.
    pub denied: u64,
    /// Of these, delivered.
    pub leaked: u64,
    /// Accepted before and after.
    pub accepted: u64,
    /// Of these, not delivered.
    pub lost: u64,
    /// Denied before by one node and after by the other.
    pub by_turns: u64,
    /// Of these, delivered: one node was ahead.
    pub by_turns_delivered: u64,
    /// Verdicts that changed, and ends that came or went.
    pub either: u64,
}

/// What a packet should not have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Leak,
    Loss,
}

/// A packet that did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub broken: Broken,
    /// The change, from 0; none between changes.
    pub change: Option<(usize, Kind, String)>,
    pub packet: String,
    /// What the models say that were in force.
    pub said: Vec<String>,
}

/// What one thread counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<Option<Kind>, Count>,
    pub(crate) breaches: Vec<Breach>,
    /// The kernel had no way for them.
    pub(crate) unsent: u64,
    /// Arrived when nobody waited any more.
    pub(crate) late: u64,
}

impl Tally {
    pub(crate) fn take(&mut self, kind: Option<Kind>, claim: Claim, arrived: bool) {
        let count = self.counts.entry(kind).or_default();
        let (sent, surprising) = match claim {
            Claim::Denied => (&mut count.denied, Some((&mut count.leaked, arrived))),
            Claim::Accepted => (&mut count.accepted, Some((&mut count.lost, !arrived))),
            Claim::DeniedByTurns => (&mut count.by_turns, Some((&mut count.by_turns_delivered, arrived))),
            Claim::Either => (&mut count.either, None),
        };
        *sent += 1;
        if let Some((surprises, true)) = surprising {
            *surprises += 1;
        }
    }

    pub(crate) fn broke(
        &mut self,
        broken: Broken,
        number: u64,
        window: Window,
        packet: String,
        made: Option<Made>,
        said: impl FnOnce() -> Vec<String>,
    ) {
        if self.breaches.iter().filter(|it| it.broken == broken).count() < DESCRIBED {
            let change = made.map(|it| (*window.models().start(), it.kind, it.words));
            self.breaches.push(Breach { broken, change, packet: format!("packet {number}: {packet}"), said: said() });
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.broken {
            Broken::Leak => "denied, and delivered",
            Broken::Loss => "accepted, and lost",
        };
        match &self.change {
            Some((number, kind, words)) => writeln!(f, "{what} in change {number} ({kind}: {words})")?,
            None => writeln!(f, "{what} while nothing changed")?,
        }
        write!(f, "  {}", self.packet)?;
        self.said.iter().try_for_each(|it| write!(f, "\n  {it}"))
    }
}

impl Count {
    pub(crate) fn and(self, other: Count) -> Count {
        Count {
            denied: self.denied + other.denied,
            leaked: self.leaked + other.leaked,
            accepted: self.accepted + other.accepted,
            lost: self.lost + other.lost,
            by_turns: self.by_turns + other.by_turns,
            by_turns_delivered: self.by_turns_delivered + other.by_turns_delivered,
            either: self.either + other.either,
        }
    }
}
