//! Changes that come faster than they can be made: a thread that always makes the newest one.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use palisade_model::{EndpointId, Model, NodeId};

use crate::agent::{AgentError, Applied};
use crate::queue::{Due, Matter, Pace, Queue};

/// After so long something that could not be done is tried again, unless something newer is wanted by then.
const AGAIN: Duration = Duration::from_millis(500);

/// What a node is to enforce.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub model: Arc<Model>,
    pub node: NodeId,
    /// The node's ends of its pods' links.
    pub links: BTreeMap<EndpointId, String>,
}

/// What came of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force, and so are all before it.
    Applied { applied: Applied, words: usize },
    /// What is in force stays so; it is tried again.
    Failed { error: AgentError, words: usize },
}

/// How many words there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// That were said.
    pub said: u64,
    /// In whose place a later one came true.
    pub coalesced: u64,
    /// Attempts to make one come true that failed.
    pub failed: u64,
}

/// Takes words and makes them come true one after the other, the newest first and those before it never. Dropped, it ends with the one it is at.
#[derive(Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
    start: Instant,
}

#[derive(Debug)]
struct State {
    queue: Queue<Wanted>,
    words: Words,
    busy: bool,
    ended: bool,
}

impl Changes {
    /// `apply` makes a word come true, `report` hears what came of it.
    pub fn start(
        pace: Pace,
        mut apply: impl FnMut(&Wanted) -> Result<Applied, AgentError> + Send + 'static,
        report: impl Fn(Outcome) + Send + 'static,
    ) -> Result<Changes, io::Error> {
        let state = Mutex::new(State { queue: Queue::new(pace), words: Words::default(), busy: false, ended: false });
        let shared = Arc::new(Shared { state, news: Condvar::new(), start: Instant::now() });
        let of_thread = Arc::clone(&shared);
        let work = move || {
            while let Some((wanted, words)) = of_thread.next() {
                let outcome = match apply(&wanted) {
                    Ok(applied) => Outcome::Applied { applied, words },
                    Err(error) => {
                        of_thread.lock().words.failed += 1;
                        of_thread.again(wanted);
                        Outcome::Failed { error, words }
                    }
                };
                report(outcome);
                of_thread.done();
            }
        };
        let thread = std::thread::Builder::new().name("changes".to_owned()).spawn(work)?;
        Ok(Changes { shared, thread: Some(thread) })
    }

    /// Says what is wanted from now on, all of it, and what has changed since the last word.
    pub fn want(&self, matter: Matter, wanted: Wanted) {
        let mut state = self.shared.lock();
        state.words.said += 1;
        state.queue.put(self.shared.start.elapsed(), matter, wanted);
        drop(state);
        self.shared.news.notify_all();
    }

    /// How many words there were so far.
    pub fn words(&self) -> Words {
        self.shared.lock().words
    }

    /// Waits until nothing is left to do; whether that came to be in time.
    pub fn settle(&self, patience: Duration) -> bool {
        let is_busy = |state: &mut State| state.busy || state.queue.is_waiting();
        let waited = self.shared.news.wait_timeout_while(self.shared.lock(), patience, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.news.notify_all();
        // A panic of the thread has been printed by then, and nothing depends on it any more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What it guards is whole at any time, also when its holder panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next word. None when there is to be no other.
    fn next(&self) -> Option<(Wanted, usize)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            let patience = match state.queue.take(self.start.elapsed()) {
                Due::Now { wanted, words } => {
                    state.busy = true;
                    state.words.coalesced += u64::try_from(words.saturating_sub(1)).unwrap_or(u64::MAX);
                    return Some((wanted, words));
                }
                Due::In(wait) => wait,
                // Woken by what comes; the bound is for a wake that was missed.
                Due::Nothing => Duration::from_secs(1),
            };
            state = self.news.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn again(&self, wanted: Wanted) {
        let now = self.start.elapsed();
        self.lock().queue.put_back(now + AGAIN, wanted);
    }

    fn done(&self) {
        self.lock().busy = false;
        self.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use nix::errno::Errno;
    use palisade_kernel::KernelError;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn wanted(number: usize) -> Wanted {
        Wanted { model: Arc::default(), node: NodeId(number), links: BTreeMap::new() }
    }

    #[test]
    fn of_a_burst_the_last_word_comes_true_and_few_others() {
        let (made, all_made) = mpsc::channel();
        let (told, all_told) = mpsc::channel();
        let apply = move |it: &Wanted| {
            made.send(it.node.0).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            Ok(Applied::Changed(1))
        };
        let changes = Changes::start(Pace::default(), apply, move |it| told.send(it).unwrap()).unwrap();
        for number in 0..1_000 {
            changes.want(if number % 7 == 0 { Matter::Data } else { Matter::Verdicts }, wanted(number));
        }
        assert!(changes.settle(PATIENCE));
        let words = changes.words();
        drop(changes);
        let made: Vec<usize> = all_made.iter().collect();
        assert_eq!(made.last(), Some(&999));
        let coalesced = 1_000 - u64::try_from(made.len()).unwrap();
        assert_eq!(words, Words { said: 1_000, coalesced, failed: 0 });
        assert!(made.is_sorted() && made.len() < 500, "{made:?}");
        let words = all_told.iter().map(|it| match it {
            Outcome::Applied { words, .. } => words,
            Outcome::Failed { .. } => panic!("{it:?}"),
        });
        assert_eq!(words.sum::<usize>(), 1_000);
    }

    #[test]
    fn what_fails_is_tried_again_until_something_newer_is_wanted() {
        let mut left = 2;
        let apply = move |_: &Wanted| {
            if left == 0 {
                return Ok(Applied::Loaded);
            }
            left -= 1;
            Err(AgentError::Kept(KernelError::Grace(Errno::ENOMEM)))
        };
        let (told, all_told) = mpsc::channel();
        let changes = Changes::start(Pace::default(), apply, move |it| told.send(it).unwrap()).unwrap();
        changes.want(Matter::Data, wanted(1));
        assert!(changes.settle(PATIENCE));
        assert_eq!(changes.words(), Words { said: 1, coalesced: 0, failed: 2 });
        drop(changes);
        let told: Vec<Outcome> = all_told.iter().collect();
        assert!(matches!(told.as_slice(), [Outcome::Failed { .. }, Outcome::Failed { .. }, Outcome::Applied { .. }]), "{told:?}");
    }
}
