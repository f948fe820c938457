//! One step of the agent: an input changes the state and asks for effects. No I/O, clock, thread or lock.

use std::time::Duration;

use palisade_kernel::Changed;
use palisade_nft::{PodLinks, Unknown};

use crate::acceptance::Acceptance;
use crate::book::denial;
use crate::core::state::{
    Effect, Hearing, Input, LogKind, Logged, LoggedPacket, Now, RECOMPUTE, Repeats, Request, RequestId, Response, Seen, Source, State,
};
use crate::core::work::{Done, Outcome, Recompute, Token, Work};
use crate::counts::Counts;
use crate::notice::Notice;
use crate::room::Looked;
use crate::running::{Attention, Event};
use crate::stranger::By;

/// Work that failed is tried again after this time.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);
/// The statistics of connection tracking are read this often.
const TRACKING: Duration = Duration::from_secs(1);
/// A recomputation that a change overtook is repeated after this time.
const OVERTAKEN: Duration = Duration::from_secs(10);

/// Takes an input. The host does the effects in their order.
pub fn step(state: &mut State, now: Now, input: Input) -> Vec<Effect> {
    let mut out = Vec::new();
    state.take(now, input, &mut out);
    state.begin_jobs(now, &mut out);
    out.extend(state.read_environment(now));
    out.extend(state.read_tracking(now));
    out.extend(state.recompute(now));
    state.tell_suppressed(now, &mut out);
    out.extend(state.sweep.satisfied().into_iter().map(|it| Effect::Answer(it, Response::Done)));
    if state.stopping && state.job.is_none() {
        let settled = Now { since_start: Duration::MAX, ..now };
        state.tell_suppressed(settled, &mut out);
        out.push(Effect::Exit);
    }
    out.extend(state.wake(now).map(Effect::WakeAt));
    out
}

impl State {
    fn take(&mut self, now: Now, input: Input, out: &mut Vec<Effect>) {
        #[cfg(test)]
        if self.ignores_by_mistake(&input) {
            return;
        }
        match input {
            Input::Changed(news) => self.pending.add(now.since_start, news.0, news.1, None),
            Input::Relisted => self.recompute.due = now.since_start,
            Input::Done(token, outcome) => self.done(token, outcome, now, out),
            Input::Heard(heard) => self.heard(
                heard.unwrap_or_else(|error| {
                    out.push(Effect::Report(Event::Failed(error.to_string())));
                    vec![Changed::Unknown]
                }),
                now,
                out,
            ),
            Input::LinksChanged => {
                self.links = Seen::NotBefore(now.since_start);
                self.environment.stir();
            }
            Input::RoutesChanged => self.routes = Seen::NotBefore(now.since_start),
            Input::Logged(logged) => self.logged(logged, now, out),
            Input::Asked(id, request) => self.asked_for(id, request, now, out),
            Input::Woken => {}
            Input::Stop => self.stopping = true,
        }
    }

    fn done(&mut self, token: Token, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        if self.job.as_ref().is_some_and(|it| it.waits_for(token)) {
            self.resume(outcome, now, out);
        } else if self.sweep.waits_for(token) {
            out.extend(self.connections(outcome, now));
        } else if self.environment.waits_for(token) {
            out.extend(self.environment_read(outcome, now));
        } else if self.tracking.waiting.is_some_and(|it| it.0 == token) {
            self.tracked(outcome, now, out);
        } else if let Some((_, version)) = self.recompute.waiting.filter(|it| it.0 == token) {
            self.recomputed(version, outcome, now, out);
        }
    }

    fn asked_for(&mut self, id: RequestId, request: Request, now: Now, out: &mut Vec<Effect>) {
        match request {
            Request::Apply(news) => self.pending.add(now.since_start, news.0, news.1, Some(id)),
            Request::TreatUnknown(unknown) => {
                self.unknown = unknown;
                out.push(Effect::Answer(id, Response::Done));
            }
            Request::AwaitSweep => self.sweep.wait(id),
            Request::Counts => {
                let counts = Counts { events_lost: self.totals.lost, ..self.own.counts().clone().and(&self.counts) };
                out.push(Effect::Answer(id, Response::Counts(Box::new(counts))));
            }
            Request::Totals => out.push(Effect::Answer(id, Response::Totals(self.totals))),
            Request::Uncovered => out.push(Effect::Answer(id, Response::Uncovered(self.uncovered()))),
            Request::Check | Request::Counted | Request::Watched => self.requests.push_back((id, request)),
        }
    }

    /// Links of pods whose names match no pattern of pods: others like them stay open while their pods are not known.
    fn uncovered(&self) -> Vec<String> {
        // On a bridge it is the bridge that counts.
        let open = |pods: &PodLinks, link: &String| pods.bridges.is_empty() && !pods.covers(link);
        match &self.unknown {
            Unknown::Open => Vec::new(),
            Unknown::Closed(pods) => self.names.cluster.links().values().filter(|it| open(pods, it)).cloned().collect(),
        }
    }

    /// Finds out whether another process changed our tables.
    fn heard(&mut self, changes: Vec<Changed>, now: Now, out: &mut Vec<Effect>) {
        let hearing = if changes.contains(&Changed::Unknown) { Hearing::NotAll } else { Hearing::All };
        self.counts.resyncs += u64::from(hearing == Hearing::NotAll);
        // The kernel goes on dropping for a while, and one report is enough.
        if (self.hearing, hearing) == (Hearing::All, Hearing::NotAll) {
            out.push(Effect::Report(Event::Noticed(Notice::Missed)));
        }
        self.hearing = hearing;
        for changed in &changes {
            if self.suspects.note(changed, &self.settings.ports) == By::Somebody {
                self.environment.stir();
                self.check_at = self.check_at.min(now.since_start);
            }
        }
    }

    fn logged(&mut self, logged: Logged, now: Now, out: &mut Vec<Effect>) {
        out.extend(logged.failure.and_then(|it| self.failed(Source::Log, it)));
        for packet in &logged.packets {
            match logged.log {
                LogKind::Policies => self.packet(*packet, now, out),
                LogKind::Audits => {
                    let LoggedPacket { key, packets, .. } = *packet;
                    let [_, _, rates] = &mut self.rates;
                    if let Some(told) = self.audit.take(key, packets, &self.names, now.since_1970)
                        && rates.tells(key.origin, now.since_start)
                    {
                        out.push(Effect::Report(Event::Would(Box::new(told))));
                    }
                }
            }
        }
        if logged.log == LogKind::Audits {
            if logged.lost > 0 {
                self.audit.lost(logged.lost);
            }
            return self.audit.failure().into_iter().for_each(|it| out.push(Effect::Report(Event::Failed(it))));
        }
        let repeated: u64 = logged.repeated.iter().filter(|(origin, _)| self.names.accepting(**origin).is_none()).map(|it| it.1).sum();
        self.totals.packets += repeated + logged.unreadable;
        self.totals.repeated += repeated;
        self.totals.unreadable += logged.unreadable;
        self.totals.forgotten += logged.forgotten;
        self.totals.lost += logged.lost;
        if logged.lost > 0 {
            out.push(Effect::Report(Event::Lost(logged.lost)));
        }
    }

    fn packet(&mut self, LoggedPacket { key, packets, repeats }: LoggedPacket, now: Now, out: &mut Vec<Effect>) {
        let [denied, accepted, _] = &mut self.rates;
        match (self.names.accepting(key.origin), repeats) {
            (Some(by), Repeats::No) => {
                if accepted.tells(key.origin, now.since_start) {
                    let acceptance = Acceptance::of(denial(key, packets, &self.names), by.clone());
                    out.push(Effect::Report(Event::Accepted(Box::new(acceptance))));
                }
            }
            (Some(_), Repeats::Yes) => {}
            (None, Repeats::Yes) => out.push(Effect::Report(Event::DeniedAgain(Box::new(denial(key, 1, &self.names))))),
            (None, Repeats::No) => {
                self.totals.packets += 1;
                if denied.tells(key.origin, now.since_start) {
                    self.totals.events += 1;
                    out.push(Effect::Report(Event::Denied(Box::new(denial(key, packets, &self.names)))));
                } else {
                    self.totals.suppressed += 1;
                    if self.settings.attention == Attention::Packets {
                        out.push(Effect::Report(Event::DeniedAgain(Box::new(denial(key, 1, &self.names)))));
                    }
                }
            }
        }
    }

    /// Tells of events that were too many to be told one by one, second by second.
    fn tell_suppressed(&mut self, now: Now, out: &mut Vec<Effect>) {
        let [denied, accepted, audits] = &mut self.rates;
        for it in denied.settle(now.since_start) {
            let event = Event::Suppressed { by: self.names.origin(it.origin), connections: it.connections };
            out.push(Effect::Report(event));
        }
        for it in accepted.settle(now.since_start) {
            // The policy of a rule that is gone has no reader left.
            let by = self.names.accepting(it.origin).cloned();
            out.extend(by.map(|by| Effect::Report(Event::AcceptedMore { by, connections: it.connections })));
        }
        for it in audits.settle(now.since_start) {
            // Nor has an audit that has ended.
            let would = self.audit.would(it.origin).cloned().map(Box::new);
            out.extend(would.map(|would| Effect::Report(Event::WouldMore { would, connections: it.connections })));
        }
    }

    fn read_tracking(&mut self, now: Now) -> Option<Effect> {
        if self.tracking.waiting.is_some() || now.since_start < self.tracking.due {
            return None;
        }
        let token = self.token();
        (self.tracking.waiting, self.tracking.due) = (Some((token, 0)), now.since_start + TRACKING);
        Some(Effect::Work(token, Work::Tracking))
    }

    fn tracked(&mut self, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        (self.tracking.waiting, self.tracking.due) = (None, now.since_start + TRACKING);
        match outcome {
            Ok(Done::Tracking(tracking)) => {
                let Looked { untracked, evictions, notice } = self.room.look(tracking);
                self.counts.untracked += untracked;
                self.counts.evictions += evictions;
                self.failures.remove(&Source::Tracking);
                out.extend(notice.map(|it| Effect::Report(Event::Noticed(it))));
            }
            Ok(_) => {}
            Err(error) => {
                self.counts.failed(&error);
                out.extend(self.failed(Source::Tracking, error.to_string()));
            }
        }
    }

    /// Has the rulesets lowered from scratch if it is time: a change that was left out is a hole that no comparison with the tables finds.
    fn recompute(&mut self, now: Now) -> Option<Effect> {
        if self.recompute.waiting.is_some() || now.since_start < self.recompute.due {
            return None;
        }
        let view = self.view()?;
        self.lowered.as_ref()?;
        let token = self.token();
        (self.recompute.waiting, self.recompute.due) = (Some((token, self.version)), now.since_start + RECOMPUTE);
        let recompute = Recompute { model: self.names.cluster.model().clone(), view, layout: self.own.layout() };
        Some(Effect::Work(token, Work::Recompute(recompute.into())))
    }

    fn recomputed(&mut self, version: u64, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        self.recompute.waiting = None;
        let Ok(Done::Recomputed(fresh)) = outcome else {
            self.recompute.due = self.recompute.due.min(now.since_start + OVERTAKEN);
            return;
        };
        if version != self.version {
            self.recompute.due = self.recompute.due.min(now.since_start + OVERTAKEN);
            return;
        }
        self.counts.recomputations += 1;
        let other_audit = self.audit.recomputed(fresh.auditing, fresh.audit);
        let other_rules = self.lowered.as_ref() != Some(&fresh.ruleset);
        if other_rules {
            (self.lowering, self.lowered) = (fresh.lowering, Some(fresh.ruleset));
        }
        if other_rules || other_audit {
            self.counts.mismatches += 1;
            out.push(Effect::Report(Event::Noticed(Notice::Mismatch)));
            self.sweep_all();
            self.pending.again(now.since_start);
        }
    }

    /// When the state needs to be looked at without any input.
    fn wake(&self, now: Now) -> Option<Duration> {
        let seen = |it: Seen| if let Seen::NotBefore(time) = it { Some(time) } else { None };
        let has_node = self.names.cluster.node().is_some();
        let idle = self.job.is_none();
        let of_jobs = [
            self.pending.due(),
            self.sweep.due(),
            (!self.suspects.is_empty()).then_some(self.check_at),
            seen(self.links).filter(|_| has_node),
            seen(self.routes).filter(|_| self.own.wanted().is_some()),
        ];
        let others = [
            self.environment.due().filter(|_| has_node),
            self.tracking.waiting.is_none().then_some(self.tracking.due),
            (self.recompute.waiting.is_none() && has_node).then_some(self.recompute.due),
        ];
        let rates = self.rates.iter().map(|it| it.due());
        let times = of_jobs.into_iter().filter(|_| idle).chain(others).chain(rates).flatten();
        times.min().map(|it| it.max(now.since_start))
    }
}
