//! What is wanted next: the newest word counts, and changes of policy wait for each other a little.
//!
//! A change of addresses costs some microseconds in the kernel, one of verdicts makes it look at the whole table. So pods are seen to at once,
//! and policies that come in a burst are seen to together. Nothing waits for ever: after `Pace::longest` a burst is over.

use std::time::Duration;

/// What a new word changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matter {
    /// Pods come, go and move: addresses in maps.
    Data,
    /// Policies, namespaces, labels of nodes: verdicts.
    Verdicts,
}

/// How long changes of verdicts wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So long after the last one.
    pub quiet: Duration,
    /// But not longer than this after the first.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { quiet: Duration::from_millis(20), longest: Duration::from_millis(200) }
    }
}

/// The newest word, until it is taken.
#[derive(Debug)]
pub struct Queue<T> {
    pace: Pace,
    pending: Option<Pending<T>>,
}

#[derive(Debug)]
struct Pending<T> {
    wanted: T,
    /// How many words it stands for.
    words: usize,
    due: Duration,
    latest: Duration,
}

/// When there is something to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<T> {
    /// The newest word, and how many it stands for.
    Now {
        wanted: T,
        words: usize,
    },
    In(Duration),
    Nothing,
}

impl<T> Queue<T> {
    pub fn new(pace: Pace) -> Queue<T> {
        Queue { pace, pending: None }
    }

    /// Puts a word in the place of all before it. It says everything that they say.
    pub fn put(&mut self, now: Duration, matter: Matter, wanted: T) {
        let before = self.pending.take();
        let latest = before.as_ref().map_or(now + self.pace.longest, |it| it.latest);
        let due = match matter {
            Matter::Data => now,
            Matter::Verdicts => (now + self.pace.quiet).min(latest),
        };
        // What was to happen at once still is.
        let due = before.as_ref().filter(|it| it.due <= now).map_or(due, |it| it.due);
        self.pending = Some(Pending { wanted, words: before.map_or(0, |it| it.words) + 1, due, latest });
    }

    /// Puts a word back that could not be made true, for later; unless a newer one is there.
    pub fn put_back(&mut self, later: Duration, wanted: T) {
        self.pending.get_or_insert(Pending { wanted, words: 1, due: later, latest: later });
    }

    /// Whether a word waits.
    pub fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes the newest word if its time has come.
    pub fn take(&mut self, now: Duration) -> Due<T> {
        match self.pending.take_if(|it| it.due <= now) {
            Some(Pending { wanted, words, .. }) => Due::Now { wanted, words },
            None => self.pending.as_ref().map_or(Due::Nothing, |it| Due::In(it.due.saturating_sub(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { quiet: Duration::from_millis(20), longest: Duration::from_millis(100) };

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn pods_are_seen_to_at_once_with_all_that_waits() {
        let mut queue = Queue::new(PACE);
        assert_eq!(queue.take(at(0)), Due::Nothing);
        queue.put(at(0), Matter::Data, 1);
        assert_eq!(queue.take(at(0)), Due::Now { wanted: 1, words: 1 });
        queue.put(at(5), Matter::Verdicts, 2);
        assert_eq!(queue.take(at(6)), Due::In(at(19)));
        queue.put(at(7), Matter::Data, 3);
        assert_eq!(queue.take(at(7)), Due::Now { wanted: 3, words: 2 });
        assert_eq!(queue.take(at(7)), Due::Nothing);
    }

    #[test]
    fn policies_wait_for_each_other_but_not_for_ever() {
        let mut queue = Queue::new(PACE);
        for time in (0..=90).step_by(10) {
            queue.put(at(time), Matter::Verdicts, time);
            assert!(matches!(queue.take(at(time)), Due::In(_)), "{time}");
        }
        assert_eq!(queue.take(at(99)), Due::In(at(1)));
        assert_eq!(queue.take(at(100)), Due::Now { wanted: 90, words: 10 });
        queue.put(at(200), Matter::Verdicts, 1);
        assert_eq!(queue.take(at(219)), Due::In(at(1)));
        assert_eq!(queue.take(at(220)), Due::Now { wanted: 1, words: 1 });
    }

    #[test]
    fn a_policy_does_not_hold_up_a_pod() {
        let mut queue = Queue::new(PACE);
        queue.put(at(0), Matter::Data, 1);
        queue.put(at(1), Matter::Verdicts, 2);
        assert_eq!(queue.take(at(1)), Due::Now { wanted: 2, words: 2 });
    }
}
