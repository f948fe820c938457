//! Whether there is room for new connections, as connection tracking counts it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use palisade_kernel::{Conntrack, Tracking};

use crate::counts::Counts;
use crate::notice::Notice;
use crate::running::{Event, lock};

/// How often connection tracking is asked.
const LOOK: Duration = Duration::from_secs(1);
/// After so many looks without a drop there is room again.
const CALM: usize = 3;

/// Who asks.
#[derive(Debug)]
pub(crate) struct Lookout {
    conntrack: Conntrack,
    room: Room,
    looked: Option<Instant>,
    /// What was said last about a question without an answer.
    failure: Option<String>,
}

impl Lookout {
    pub(crate) fn new(conntrack: Conntrack) -> Lookout {
        Lookout { conntrack, room: Room::default(), looked: None, failure: None }
    }

    /// Asks if it is time, counts what came since, and tells what people should know.
    pub(crate) fn look(&mut self, counts: &Mutex<Counts>, report: &dyn Fn(Event)) {
        if self.looked.is_some_and(|it| it.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        match self.conntrack.tracking() {
            Ok(tracking) => {
                let Looked { untracked, evictions, notice } = self.room.look(tracking);
                let mut counts = lock(counts);
                counts.untracked += untracked;
                counts.evictions += evictions;
                drop(counts);
                self.failure = None;
                notice.into_iter().for_each(|it| report(Event::Noticed(it)));
            }
            Err(error) => {
                lock(counts).failed(&error);
                let failure = Some(error.to_string());
                if self.failure != failure {
                    report(Event::Failed(error.to_string()));
                }
                self.failure = failure;
            }
        }
    }
}

/// Makes notices of what connection tracking counts, second by second.
#[derive(Debug, Default)]
struct Room {
    before: Option<Tracking>,
    /// What was dropped since it began, and for how many looks nothing has been.
    lacking: Option<(u64, usize)>,
}

/// What one look adds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looked {
    untracked: u64,
    evictions: u64,
    notice: Option<Notice>,
}

impl Room {
    /// What came since the look before. The first one only shows where counting begins.
    fn look(&mut self, now: Tracking) -> Looked {
        let Some(before) = self.before.replace(now) else { return Looked::default() };
        // The kernel counts in 32 bits for each processor: after four billion it begins anew, and one look sees nothing.
        let untracked = now.dropped.saturating_sub(before.dropped);
        let evictions = now.evicted.saturating_sub(before.evicted);
        let notice = match (self.lacking, untracked) {
            (None, 0) => None,
            (None, packets) => {
                self.lacking = Some((packets, 0));
                Some(Notice::Untracked { packets, tracking: now })
            }
            (Some((packets, calm)), 0) if calm + 1 >= CALM => {
                self.lacking = None;
                Some(Notice::TracksAgain { packets })
            }
            (Some((packets, calm)), 0) => {
                self.lacking = Some((packets, calm + 1));
                None
            }
            (Some((packets, _)), more) => {
                self.lacking = Some((packets + more, 0));
                None
            }
        };
        Looked { untracked, evictions, notice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dropped: u64, evicted: u64) -> Tracking {
        Tracking { connections: 10, most: Some(10), dropped, evicted }
    }

    #[test]
    fn a_want_of_room_is_told_when_it_begins_and_when_it_is_over() {
        let mut room = Room::default();
        let mut told = Vec::new();
        let (mut untracked, mut evictions) = (0, 0);
        for (dropped, evicted) in [(7, 1), (7, 1), (9, 1), (12, 2), (12, 2), (12, 2), (13, 2), (13, 2), (13, 2), (13, 5), (13, 5), (14, 5)]
        {
            let looked = room.look(at(dropped, evicted));
            (untracked, evictions) = (untracked + looked.untracked, evictions + looked.evictions);
            told.extend(looked.notice);
        }
        let expected = [
            Notice::Untracked { packets: 2, tracking: at(9, 1) },
            Notice::TracksAgain { packets: 6 },
            Notice::Untracked { packets: 1, tracking: at(14, 5) },
        ];
        assert_eq!((told.as_slice(), untracked, evictions), (&expected[..], 7, 4));
    }
}
