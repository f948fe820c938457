//! The queue of connections that are judged again after a change.
//!
//! Connections are read beside jobs, since that may take long, and judged between jobs in chunks, by the ruleset that is then in force: a connection that was read was
//! opened under that ruleset or an earlier one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use palisade_kernel::Connection;
use palisade_model::PodName;

use crate::core::job::Job;
use crate::core::state::{Effect, Now, RequestId, Response, Source, State};
use crate::core::work::{Done, Outcome, Token, Work};
use crate::running::Event;
use crate::sweep::{Established, Fate, Judge, Opening, Tally, Touched, Why};

/// Connections that are judged before the first of them is deleted.
const CHUNK: usize = 4_096;
/// A sweep that failed is tried again after this time.
const PAUSE: Duration = Duration::from_millis(500);
/// The next sweep waits three times as long as the last one took, but no longer than this: where changes follow each other all the time, several share one sweep.
const REST: Duration = Duration::from_millis(300);

/// The connections to judge, and the sweep that is under way.
#[derive(Debug, Default)]
pub(crate) struct SweepQueue {
    /// Touched by changes that are not in force yet.
    unswept: Touched,
    pending: Touched,
    active: Option<Active>,
    /// No sweep begins before this time.
    rest: Duration,
    waiters: Vec<RequestId>,
}

#[derive(Debug)]
struct Active {
    touched: Touched,
    began: Duration,
    reads: Option<Token>,
    /// Addresses of the node.
    node: BTreeSet<IpAddr>,
    found: VecDeque<Connection>,
    tally: Tally,
    failure: Option<String>,
}

impl SweepQueue {
    /// Adds connections that are touched by a change that is not in force yet.
    pub(crate) fn touch(&mut self, touched: Touched) {
        self.unswept.absorb(touched);
    }

    pub(crate) fn add(&mut self, touched: Touched) {
        self.pending.absorb(touched);
    }

    /// All changes are in force. `everything`: no one knows which ruleset was in force before. Addresses that are in use lost their connections before.
    pub(crate) fn in_force(&mut self, everything: bool, used: impl Fn(IpAddr) -> bool) {
        let mut touched = std::mem::take(&mut self.unswept);
        if everything {
            touched.absorb(Touched::all());
        }
        touched.left.retain(|it, _| !used(*it));
        self.pending.absorb(touched);
    }

    /// Takes the addresses that another pod uses now: their connections must go before that pod is known, because later nobody could tell
    /// the connections of both apart.
    pub(crate) fn take_left(&mut self, used: impl Fn(IpAddr) -> bool) -> BTreeMap<IpAddr, PodName> {
        let mut taken = BTreeMap::new();
        let active = self.active.as_mut().map(|it| &mut it.touched.left);
        for left in [&mut self.unswept.left, &mut self.pending.left].into_iter().chain(active) {
            let (used, stay) = std::mem::take(left).into_iter().partition(|(it, _)| used(*it));
            *left = stay;
            taken.extend::<BTreeMap<_, _>>(used);
        }
        taken
    }

    /// Whether connections wait to be judged.
    pub(crate) fn has_found(&self) -> bool {
        self.active.as_ref().is_some_and(|it| !it.found.is_empty())
    }

    /// Begins a sweep if there is something to judge and its time has come.
    pub(crate) fn begin(&mut self, now: Duration) -> bool {
        if self.active.is_some() || self.pending.is_empty() || now < self.rest {
            return false;
        }
        let (touched, node, found) = (std::mem::take(&mut self.pending), BTreeSet::new(), VecDeque::new());
        self.active = Some(Active { touched, began: now, reads: None, node, found, tally: Tally::default(), failure: None });
        true
    }

    /// Reads the connections.
    pub(crate) fn read(&mut self, token: Token) -> Option<Effect> {
        let active = self.active.as_mut()?;
        active.reads = Some(token);
        Some(Effect::Work(token, Work::Connections(Arc::new(active.touched.clone()))))
    }

    pub(crate) fn waits_for(&self, token: Token) -> bool {
        self.active.as_ref().is_some_and(|it| it.reads == Some(token))
    }

    pub(crate) fn cut(&mut self, tally: Tally) {
        self.active.iter_mut().for_each(|it| it.tally.absorb(tally.clone()));
    }

    pub(crate) fn fail(&mut self, failure: Option<String>) {
        self.active.iter_mut().for_each(|it| it.failure = it.failure.take().or(failure.clone()));
    }

    /// When the next sweep begins.
    pub(crate) fn due(&self) -> Option<Duration> {
        (self.active.is_none() && !self.pending.is_empty()).then_some(self.rest)
    }

    /// Whether nothing is left to judge.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_none() && self.pending.is_empty()
    }

    pub(crate) fn wait(&mut self, id: RequestId) {
        self.waiters.push(id);
    }

    /// The requests that waited until nothing is left to judge.
    pub(crate) fn satisfied(&mut self) -> Vec<RequestId> {
        if self.is_idle() { std::mem::take(&mut self.waiters) } else { Vec::new() }
    }
}

impl State {
    /// All connections are judged again.
    pub(crate) fn sweep_all(&mut self) {
        if self.settings.established == Established::Cut {
            self.sweep.add(Touched::all());
        }
    }

    /// Connections were read.
    pub(crate) fn connections(&mut self, outcome: Outcome, now: Now) -> Vec<Effect> {
        let Some(active) = &mut self.sweep.active else { return Vec::new() };
        active.reads = None;
        match outcome {
            Ok(Done::Connections(found)) => {
                (active.node, active.found) = (found.node, found.connections.into());
                if active.found.is_empty() { self.swept(None, now) } else { Vec::new() }
            }
            Ok(_) => self.swept(Some("connections that are denied may live on: no answer".to_owned()), now),
            Err(error) => self.swept(Some(format!("connections that are denied may live on: {error}")), now),
        }
    }

    /// Finds the connections of the next chunk that end.
    pub(crate) fn judge_connections(&mut self, job: &mut Job) {
        let State { sweep, own, names, .. } = self;
        let Some(active) = &mut sweep.active else { return };
        let many = active.found.len().min(CHUNK);
        let mut judge = own.wanted().map(|ruleset| Judge::new(ruleset, &names.cluster, &active.node));
        let (mut ended, mut failure) = (Vec::new(), None);
        for connection in active.found.drain(..many) {
            let opening = Opening::of(&connection);
            if let Some(pod) = active.touched.left_by(opening.ends()) {
                ended.push((opening, connection, Why::gone(opening, pod, &active.touched.left, names)));
            } else if let Some(judge) = &mut judge {
                match judge.fate(&opening) {
                    Ok(Fate::NotOurs | Fate::Lives) => {}
                    Ok(Fate::Denied(by)) => ended.push((opening, connection, Why::denied(opening, by, names))),
                    Err(error) => {
                        failure = Some(format!("connections that are denied may live on: the ruleset cannot be followed: {error}"))
                    }
                }
            }
        }
        job.judged(ended, active.node.clone(), failure);
    }

    /// A chunk is done. Ends the sweep with the last one.
    pub(crate) fn swept_chunk(&mut self, now: Now) -> Vec<Effect> {
        if self.sweep.has_found() {
            return Vec::new();
        }
        self.swept(None, now)
    }

    /// Ends a sweep. One that failed is tried again.
    pub(crate) fn swept(&mut self, failure: Option<String>, now: Now) -> Vec<Effect> {
        let Some(active) = self.sweep.active.take() else { return Vec::new() };
        let mut effects = Vec::new();
        let cuts = active.tally.cuts();
        if cuts.connections > 0 {
            effects.push(Effect::Report(Event::Cut(Box::new(cuts))));
        }
        let took = now.since_start.saturating_sub(active.began);
        self.sweep.rest = now.since_start + (took * 3).min(REST);
        match failure.or(active.failure) {
            Some(failure) => {
                self.sweep.rest = now.since_start + PAUSE;
                #[cfg(test)]
                if self.makes(crate::core::simulation::Mistake::FailedSweepsAreDropped) {
                    return effects;
                }
                self.sweep.pending.absorb(active.touched);
                effects.extend(self.failed(Source::Sweep, failure));
            }
            None => drop(self.failures.remove(&Source::Sweep)),
        }
        effects.extend(self.sweep.satisfied().into_iter().map(|it| Effect::Answer(it, Response::Done)));
        effects
    }
}
