//! The thread that reads tracked connections and forgets those that end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, RwLockReadGuard};
use std::time::{Duration, Instant};

use palisade_kernel::{Answer, Connection, Conntrack, Deleted, KernelError, Links, Restored};
use palisade_model::PodName;
use palisade_nft::{Address, Ruleset};

use crate::agent::{Applied, Built};
use crate::names::Names;
use crate::running::{Event, Shared, lock};
use crate::sweep::answers::{Shut, ShutError, answers_of};
use crate::sweep::cut::{Cuts, Tally, Why};
use crate::sweep::judge::{Fate, Judge, Opening, TCP};
use crate::sweep::view::{Amount, Touched, View};

/// How often a table that changes its shape meanwhile is read again.
const ATTEMPTS: usize = 5;
/// How many addresses the kernel is asked about one by one.
const FEW: usize = 4;
/// Judged before the first of them is forgotten.
const CHUNK: usize = 4_096;
/// How long until something is tried again that did not go well.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the next sweep waits at most after one.
const REST: Duration = Duration::from_millis(300);
/// Longer than any sweep takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What there is to do.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// What is in force.
    view: Option<Arc<View>>,
    pending: Touched,
    activity: Activity,
    /// Addresses whose connections are being forgotten.
    leaving: BTreeSet<IpAddr>,
}

/// Whether all connections have ended that are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    All,
    NotAll,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Idle,
    Sweeping,
    Ended,
}

impl Desk {
    /// What is in force.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        lock(&self.inner).view.clone()
    }

    /// Puts down what else there is to do.
    pub(crate) fn add(&self, touched: Touched) {
        lock(&self.inner).pending.absorb(touched);
        self.changed.notify_all();
    }

    /// Another view is in force.
    pub(crate) fn in_force(&self, view: Arc<View>, applied: Applied, built: Built) {
        let before = lock(&self.inner).view.replace(Arc::clone(&view));
        let mut touched = before.map_or_else(Touched::all, |before| view.touched_since(&before));
        match (applied, built) {
            (Applied::Unchanged | Applied::Changed(_), Built::OnKnown) => {}
            // What was in force before is not known.
            (Applied::Loaded | Applied::TakenOver(_), _) | (_, Built::OnUnknown) => touched.absorb(Touched::all()),
        }
        // Who has an address now has made way for what the one before left.
        touched.left.retain(|it, _| !view.is_pod(*it));
        self.add(touched);
    }

    /// Takes those addresses whose connections wait to be forgotten, and that somebody has again.
    fn take_left(&self, used: impl Fn(IpAddr) -> bool) -> BTreeMap<IpAddr, PodName> {
        let at_work = |it: &mut Inner| it.leaving.iter().any(|it| used(*it));
        let waited = self.changed.wait_timeout_while(lock(&self.inner), PATIENCE, at_work);
        let mut inner = waited.map_or_else(|it| it.into_inner().0, |it| it.0);
        let (taken, stay) = std::mem::take(&mut inner.pending.left).into_iter().partition(|(it, _)| used(*it));
        inner.pending.left = stay;
        taken
    }

    /// Waits until nothing is left to do.
    pub(crate) fn await_idle(&self, patience: Duration) -> Swept {
        let busy = |it: &mut Inner| it.activity == Activity::Sweeping || !it.pending.is_empty();
        let waited = self.changed.wait_timeout_while(lock(&self.inner), patience, busy);
        // Whoever panicked left something to do.
        if waited.is_ok_and(|(_, result)| !result.timed_out()) { Swept::All } else { Swept::NotAll }
    }

    /// The thread ends with what it is doing.
    pub(crate) fn end(&self) {
        lock(&self.inner).activity = Activity::Ended;
        self.changed.notify_all();
    }

    /// The next thing to do; None at the end.
    fn next(&self) -> Option<Touched> {
        let idle = |it: &mut Inner| it.activity != Activity::Ended && it.pending.is_empty();
        let mut inner = self.changed.wait_while(lock(&self.inner), idle).unwrap_or_else(std::sync::PoisonError::into_inner);
        if inner.activity == Activity::Ended {
            return None;
        }
        inner.activity = Activity::Sweeping;
        let touched = std::mem::take(&mut inner.pending);
        inner.leaving = touched.left.keys().copied().collect();
        Some(touched)
    }

    fn done(&self) {
        let mut inner = lock(&self.inner);
        if inner.activity == Activity::Sweeping {
            inner.activity = Activity::Idle;
        }
        inner.leaving.clear();
        drop(inner);
        self.changed.notify_all();
    }

    /// Puts something back that did not go well, and waits a while.
    fn again(&self, touched: Touched) {
        let mut inner = lock(&self.inner);
        inner.pending.absorb(touched);
        inner.leaving.clear();
        drop(inner);
        self.rest(PAUSE);
    }

    /// Waits, but not beyond the end.
    fn rest(&self, time: Duration) {
        let alive = |it: &mut Inner| it.activity != Activity::Ended;
        drop(self.changed.wait_timeout_while(lock(&self.inner), time, alive));
    }
}

/// What reads and forgets, in the namespace of the node.
#[derive(Debug)]
pub(crate) struct Tools {
    conntrack: Conntrack,
    links: Links,
}

impl Tools {
    pub(crate) fn open() -> Result<Tools, KernelError> {
        Ok(Tools { conntrack: Conntrack::open()?, links: Links::open()? })
    }

    /// The connections that something touches.
    fn candidates(&mut self, touched: &Touched) -> Result<Vec<(Opening, Connection)>, KernelError> {
        for _ in 0..ATTEMPTS {
            let mut found = Vec::new();
            match self.read(touched, |connection| found.push((Opening::of(&connection), connection))) {
                Err(KernelError::Unsteady(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(found),
            }
        }
        Err(KernelError::Unsteady(ATTEMPTS))
    }

    /// Reads no more of the table than it must. The kernel picks out a few addresses of IPv4 by itself; of IPv6 it cannot.
    fn read(&mut self, touched: &Touched, mut take: impl FnMut(Connection)) -> Result<(), KernelError> {
        let conntrack = &mut self.conntrack;
        let wanted = |ends| touched.left_by(ends).is_some() || touched.judges(ends);
        match Address::BOTH.map(|it| touched.of(it, FEW)) {
            [Amount::Nothing, Amount::Nothing] => Ok(()),
            [Amount::Few(addresses), Amount::Nothing] => addresses.iter().try_for_each(|it| conntrack.each_of(*it, &mut take)),
            [Amount::Many, Amount::Nothing] => conntrack.each_between(Some(Address::V4), wanted, take),
            [Amount::Nothing, Amount::Few(_) | Amount::Many] => conntrack.each_between(Some(Address::V6), wanted, take),
            // To look at the table is most of the work: once for both.
            [Amount::Few(_) | Amount::Many, Amount::Few(_) | Amount::Many] => conntrack.each_between(None, wanted, take),
        }
    }

    /// All addresses of the node.
    fn own_addresses(&mut self) -> Result<BTreeSet<IpAddr>, KernelError> {
        Ok(self.links.addresses()?.into_iter().map(|it| it.address.addr()).collect())
    }
}

/// What can go wrong with a sweep.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error("connections that are denied may live on: {0}")]
    Kernel(#[from] KernelError),
    #[error("connections that are denied may live on: the ruleset cannot be followed: {0}")]
    Ruleset(String),
    #[error("{0} connections that are denied live on: a flowtable has them")]
    Offloaded(u64),
    #[error(transparent)]
    Shut(#[from] ShutError),
}

/// Sweeps whenever there is something on the desk.
#[derive(Debug)]
pub(crate) struct Sweeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tools: Mutex<Tools>,
    pub(crate) shut: Mutex<Shut>,
}

impl Sweeper {
    pub(crate) fn work(&self, report: &dyn Fn(Event)) {
        let mut failure = None;
        while let Some(touched) = self.shared.desk.next() {
            let start = Instant::now();
            let mut tally = Tally::default();
            let swept = self.sweep(&touched, &mut tally);
            tell(tally.cuts(), report);
            let failed = swept.err().map(|it| it.to_string());
            if failed.is_some() {
                if failed != failure {
                    report(Event::Failed(failed.clone().unwrap_or_default()));
                }
                self.shared.desk.again(touched);
            }
            failure = failed;
            self.shared.desk.done();
            // Reading a large table takes a while. Where changes follow each other all the time, several of them share one sweep.
            self.shared.desk.rest((start.elapsed() * 3).min(REST));
        }
    }

    /// Before addresses have another owner: forgets what the one before has left. Later, connections of both could not be told apart.
    pub(crate) fn make_way(&self, view: &View, report: &dyn Fn(Event)) {
        let desk = &self.shared.desk;
        let Some(before) = desk.view() else { return };
        let used = |it: IpAddr| view.is_pod(it);
        let mut left = desk.take_left(used);
        left.extend(view.left_since(&before).into_iter().filter(|(it, _)| used(*it)));
        if left.is_empty() {
            return;
        }
        let mut tally = Tally::default();
        let touched = Touched { left, ..Touched::default() };
        let made = self.sweep(&touched, &mut tally);
        tell(tally.cuts(), report);
        if let Err(error) = made {
            report(Event::Failed(error.to_string()));
            desk.add(touched);
        }
    }

    fn sweep(&self, touched: &Touched, tally: &mut Tally) -> Result<(), SweepError> {
        // Every packet has to leave that met what was in force before: it could be about to be tracked.
        lock(&self.shared.agent).settle()?;
        let mut tools = lock(&self.tools);
        let node = tools.own_addresses()?;
        let found = tools.candidates(touched)?;
        // What is in force only now: what was found was opened under it or before.
        let (ruleset, view) = self.in_force();
        let mut judge = ruleset.as_deref().zip(view.as_deref()).map(|(ruleset, view)| Judge::new(ruleset, view, &node));
        // Somebody may have removed what holds those of earlier sweeps.
        let (mut offloaded, mut open) = (0, self.shut(&[]).err());
        for chunk in found.chunks(CHUNK) {
            let judged = self.judged(touched, judge.as_mut(), chunk)?;
            // Before they are forgotten: later, the next datagram could be an answer already.
            let more: Vec<Answer> = judged.iter().flat_map(|(_, connection, _)| answers_of(connection, &node)).collect();
            // Whatever comes of that, they are forgotten.
            open = open.or(self.shut(&more).err());
            let deleted = tools.conntrack.delete_all(&judged.iter().map(|it| it.1).collect::<Vec<_>>())?;
            for ((opening, connection, why), deleted) in judged.into_iter().zip(deleted) {
                match deleted {
                    // Its first packet was denied elsewhere: there was nothing to cut.
                    Deleted::Yes if connection.protocol == TCP && !connection.status.seen_reply() => {}
                    Deleted::Yes => tally.add(opening, why),
                    // It has ended by itself.
                    Deleted::WasGone => {}
                    Deleted::Offloaded => offloaded += 1,
                }
            }
        }
        match open {
            Some(error) => Err(error.into()),
            None if offloaded > 0 => Err(SweepError::Offloaded(offloaded)),
            None => Ok(()),
        }
    }

    /// Drops what is denied of conversations that were cut, by what has come into force now. Some that were remembered may be allowed again.
    pub(crate) fn settle_answers(&self, report: &dyn Fn(Event)) {
        if let Err(error) = self.shut(&[]) {
            report(Event::Failed(error.to_string()));
        }
    }

    /// Makes the table of answers what it was left as.
    pub(crate) fn restore_answers(&self) -> Result<Restored, KernelError> {
        lock(&self.shut).restore()
    }

    fn shut(&self, more: &[Answer]) -> Result<(), ShutError> {
        let mut shut = lock(&self.shut);
        if more.is_empty() && shut.is_settled() {
            return Ok(());
        }
        // What is let pass again must not meet a packet that was let pass by what was in force before.
        lock(&self.shared.agent).settle()?;
        // Whoever brings something else into force settles after that.
        let (Some(ruleset), Some(view)) = self.in_force() else { return Ok(()) };
        // Only pods are asked about.
        shut.settle(more, &mut Judge::new(&ruleset, &view, &BTreeSet::new()))
    }

    fn in_force(&self) -> (Option<Arc<Ruleset>>, Option<Arc<View>>) {
        // Whoever brings both into force holds the agent.
        let agent = lock(&self.shared.agent);
        (agent.ruleset().cloned(), self.shared.desk.view())
    }

    /// Those of some connections that end.
    fn judged<'c>(
        &self,
        touched: &Touched,
        mut judge: Option<&mut Judge<'_>>,
        connections: &'c [(Opening, Connection)],
    ) -> Result<Vec<(Opening, &'c Connection, Why)>, SweepError> {
        let mut ended = Vec::new();
        for (opening, connection) in connections {
            if let Some(pod) = touched.left_by(opening.ends()) {
                ended.push((*opening, connection, Why::gone(*opening, pod, &touched.left, &self.names())));
            } else if let Some(judge) = &mut judge {
                match judge.fate(opening).map_err(SweepError::Ruleset)? {
                    Fate::NotOurs | Fate::Lives => {}
                    Fate::Denied(by) => ended.push((*opening, connection, Why::denied(*opening, by, &self.names()))),
                }
            }
        }
        Ok(ended)
    }

    fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.shared.names.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn tell(cuts: Cuts, report: &dyn Fn(Event)) {
    if cuts.connections > 0 {
        report(Event::Cut(Box::new(cuts)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pods: &[(&str, &str)]) -> Touched {
        let pod = |name: &str| PodName { namespace: "x".into(), name: name.into() };
        Touched { left: pods.iter().map(|(it, name)| (it.parse().unwrap(), pod(name))).collect(), ..Touched::default() }
    }

    #[test]
    fn what_was_put_down_is_taken_once() {
        let desk = Desk::default();
        desk.add(left(&[("10.0.0.1", "a")]));
        desk.add(left(&[("10.0.0.2", "b")]));
        assert_eq!(desk.next(), Some(left(&[("10.0.0.1", "a"), ("10.0.0.2", "b")])));
        assert_eq!(desk.await_idle(Duration::ZERO), Swept::NotAll);
        desk.done();
        assert_eq!(desk.await_idle(Duration::ZERO), Swept::All);
        desk.end();
        assert_eq!(desk.next(), None);
    }

    #[test]
    fn what_did_not_go_well_waits_to_be_done_again() {
        let desk = Desk::default();
        desk.add(left(&[("10.0.0.1", "a")]));
        let touched = desk.next().unwrap();
        desk.again(touched.clone());
        desk.done();
        assert_eq!(desk.await_idle(Duration::ZERO), Swept::NotAll);
        assert_eq!(desk.next(), Some(touched));
    }

    #[test]
    fn an_address_that_is_used_again_is_forgotten_first() {
        let desk = Desk::default();
        desk.add(left(&[("10.0.0.1", "a"), ("10.0.0.2", "b")]));
        let used: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(desk.take_left(|it| it == used), left(&[("10.0.0.1", "a")]).left);
        assert_eq!(desk.next(), Some(left(&[("10.0.0.2", "b")])));
    }

    #[test]
    fn who_uses_an_address_again_waits_until_it_is_forgotten() {
        let desk = Desk::default();
        desk.add(left(&[("10.0.0.1", "a")]));
        desk.next().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| desk.take_left(|_| true));
            assert!(!waiting.is_finished());
            desk.done();
            assert_eq!(waiting.join().unwrap(), BTreeMap::new());
        });
    }
}
