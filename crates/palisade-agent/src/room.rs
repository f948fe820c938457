//! Whether there is room for new connections, as connection tracking counts it.

use palisade_kernel::Tracking;

use crate::notice::Notice;

/// After so many looks without a drop there is room again.
const CALM: usize = 3;

/// Makes notices of what connection tracking counts, second by second.
#[derive(Debug, Default)]
pub(crate) struct Room {
    before: Option<Tracking>,
    /// What was dropped since it began, and for how many looks nothing has been.
    lacking: Option<(u64, usize)>,
}

/// What one look adds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    pub(crate) untracked: u64,
    pub(crate) evictions: u64,
    pub(crate) notice: Option<Notice>,
}

impl Room {
    /// What came since the look before. The first one only shows where counting begins.
    pub(crate) fn look(&mut self, now: Tracking) -> Looked {
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
