//! Jobs: the order in which the effects of one change, check or sweep happen, as data.
//!
//! There is one job at a time. A job is a list of stages; each stage asks for work until it is done. A change that arrives meanwhile waits in `pending`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use palisade_kernel::Connection;
use palisade_model::{Changes, PodName};
use palisade_nft::{Table, UnknownPod};

use crate::agent::{AgentError, Applied, Checked};
use crate::core::own_table::{Built, Due};
use crate::core::pending::News;
#[cfg(test)]
use crate::core::simulation::Mistake;
use crate::core::state::{Effect, Now, Request, RequestId, Response, Seen, Source, State};
use crate::core::step::AGAIN;
use crate::core::work::{Outcome, Token, Work};
use crate::names::PoliciesDiffer;
use crate::notice::Notice;
use crate::running::Event;
use crate::stranger::Suspects;
use crate::sweep::{Established, Opening, Tally, Touched, Why};

/// A change comes into force. Reused addresses lose the connections of their last owner before the new owner is known. The frames chain covers a link before its pod is
/// admitted, and until its pod is gone. An unknown pod is admitted after a grace behind its programs. Replies that are allowed again pass after a grace.
const APPLY: &[Stage] = &[
    Stage::ListLinks,
    Stage::InheritReplies,
    Stage::SettleReused,
    Stage::ReadReused,
    Stage::SettleReplies,
    Stage::WriteReplies,
    Stage::Forget,
    Stage::CoverLinks,
    Stage::Rules,
    Stage::UncoverLinks,
    Stage::CountAudit,
    Stage::WriteAudit,
    Stage::ListRoutes,
    Stage::SettleUnknown,
    Stage::WriteUnknown,
    Stage::SettleReplies,
    Stage::WriteReplies,
];

/// Before connections are read: packets must have left that met the ruleset before, because one could be about to be tracked.
const BEFORE_SWEEP: &[Stage] = &[Stage::InheritReplies, Stage::Settle];

/// Connections end that are denied now. Their replies are blocked first: after that, the next datagram could be a reply already.
const SWEEP: &[Stage] = &[Stage::JudgeConnections, Stage::SettleReplies, Stage::WriteReplies, Stage::Forget];

const ROUTES: &[Stage] = &[Stage::ListRoutes, Stage::SettleUnknown, Stage::WriteUnknown];
const LINKS: &[Stage] = &[Stage::ListLinks];
const SETTLE: &[Stage] = &[Stage::Settle];

/// One step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    ListLinks,
    InheritReplies,
    SettleReused,
    ReadReused,
    Settle,
    SettleReplies,
    WriteReplies,
    Forget,
    CoverLinks,
    Rules,
    UncoverLinks,
    CountAudit,
    WriteAudit,
    ListRoutes,
    SettleUnknown,
    WriteUnknown,
    JudgeConnections,
    Check(Table),
    Count(Table),
}

/// The purpose of a job.
#[derive(Debug)]
pub(crate) enum Kind {
    Apply,
    /// Connections are read after this.
    BeforeSweep,
    Sweep,
    /// With the tables that another process may have changed.
    Check(Suspects),
    Routes,
    Links,
    Settle,
    Request(RequestId),
}

/// A job that is under way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) stages: VecDeque<Stage>,
    pub(super) stage: Stage,
    /// The work that the job waits for.
    waits: Option<Token>,
    askers: Vec<RequestId>,
    /// Addresses that have another owner now, with the last one.
    pub(super) reused: BTreeMap<IpAddr, PodName>,
    /// Connections that end.
    pub(super) ended: Vec<(Opening, Connection, Why)>,
    /// Addresses of the node.
    pub(super) node: BTreeSet<IpAddr>,
    pub(super) tally: Tally,
    pub(super) applied: Option<Applied>,
    in_vain: u64,
    pub(super) unknown_may_open: bool,
    /// The unknown pods that are written.
    pub(super) closes: BTreeSet<UnknownPod>,
    checked: Checked,
    /// The first table that was put back.
    restored: Option<Table>,
    /// The first table that another process had changed and that could not be put back.
    found: Option<(Table, Checked)>,
    /// The first failure of a check, or of a sweep.
    failure: Option<String>,
    error: Option<AgentError>,
    pub(super) response: Option<Response>,
}

/// How a job goes on.
pub(super) enum Flow {
    Do(Work),
    Next,
    /// The change is not in force.
    Abort(AgentError),
}

/// The event that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stage,
    Outcome,
}

impl Job {
    fn new(kind: Kind, stages: &[Stage], askers: Vec<RequestId>) -> Job {
        Job {
            kind,
            stages: stages.to_vec().into(),
            stage: Stage::Settle,
            waits: None,
            askers,
            reused: BTreeMap::new(),
            ended: Vec::new(),
            node: BTreeSet::new(),
            tally: Tally::default(),
            applied: None,
            in_vain: 0,
            unknown_may_open: true,
            closes: BTreeSet::new(),
            checked: Checked::Intact,
            restored: None,
            found: None,
            failure: None,
            error: None,
            response: None,
        }
    }

    /// Whether the job waits for this work.
    pub(crate) fn waits_for(&self, token: Token) -> bool {
        self.waits == Some(token)
    }

    pub(super) fn fail(&mut self, failure: impl ToString) {
        self.failure.get_or_insert_with(|| failure.to_string());
    }

    /// Takes the connections that end.
    pub(crate) fn judged(&mut self, ended: Vec<(Opening, Connection, Why)>, node: BTreeSet<IpAddr>, failure: Option<String>) {
        (self.ended, self.node) = (ended, node);
        failure.into_iter().for_each(|it| self.fail(it));
    }

    /// Takes the result of the check of a table. The first table that was put back counts.
    pub(super) fn took(&mut self, table: Table, checked: Result<Checked, AgentError>, found: Option<Checked>) {
        if let (Err(_), Some(found)) = (&checked, found) {
            self.found.get_or_insert((table, found));
        }
        match (checked, self.restored) {
            (Ok(checked @ (Checked::WasRemoved | Checked::WasChanged)), None) => (self.checked, self.restored) = (checked, Some(table)),
            (Ok(Checked::NothingWanted), None) if table == Table::Own => self.checked = Checked::NothingWanted,
            (Ok(_), _) => {}
            (Err(error), _) => drop(self.error.get_or_insert(error)),
        }
    }

    /// The first table that another process had changed, with that process.
    fn changed_by(&self, suspects: &Suspects) -> Option<(Checked, String)> {
        let (table, checked) = self.restored.map(|it| (it, self.checked)).or(self.found)?;
        let is_it = |it: Table| it == table || Table::ALL.contains(&it) && table == Table::Own;
        let by = suspects.tables().find(|(it, _)| is_it(*it)).map(|(_, by)| by.to_string());
        Some((checked, by.unwrap_or_default()))
    }
}

fn is_due(seen: Seen, now: std::time::Duration) -> bool {
    matches!(seen, Seen::NotBefore(time) if time <= now)
}

/// Checks of tables. Those that stand beside the own table are checked with it.
fn checks(tables: impl Iterator<Item = Table>) -> Vec<Stage> {
    let of = |it| if Table::ALL.contains(&it) { Table::Own } else { it };
    tables.map(of).collect::<BTreeSet<Table>>().into_iter().map(Stage::Check).collect()
}

/// The small table that a stage is about.
pub(super) fn table_of(stage: Stage) -> Table {
    match stage {
        Stage::CoverLinks | Stage::UncoverLinks => Table::Frames,
        Stage::WriteAudit => Table::Audit,
        Stage::WriteUnknown => Table::UnknownPods,
        Stage::Check(table) | Stage::Count(table) => table,
        Stage::InheritReplies | Stage::SettleReplies | Stage::WriteReplies => Table::Replies,
        Stage::ListLinks | Stage::SettleReused | Stage::ReadReused | Stage::Settle | Stage::Forget | Stage::Rules => Table::Own,
        Stage::CountAudit | Stage::ListRoutes | Stage::SettleUnknown | Stage::JudgeConnections => Table::Own,
    }
}

fn tell(cuts: Tally, out: &mut Vec<Effect>) {
    let cuts = cuts.cuts();
    if cuts.connections > 0 {
        out.push(Effect::Report(Event::Cut(Box::new(cuts))));
    }
}

impl State {
    /// Begins the next job if there is one to do and none is under way.
    pub(crate) fn begin_jobs(&mut self, now: Now, out: &mut Vec<Effect>) {
        while self.job.is_none() {
            let Some(job) = self.next_job(now, out) else { return };
            self.job = Some(job);
            #[cfg(test)]
            self.make_mistake_in_stages();
            self.advance(now, out);
        }
    }

    fn next_job(&mut self, now: Now, out: &mut Vec<Effect>) -> Option<Job> {
        let time = now.since_start;
        // First: a change would overwrite what another process did, and nobody would be told.
        if !self.suspects.is_empty() && self.check_at <= time {
            let suspects = std::mem::take(&mut self.suspects);
            let stages = checks(suspects.tables().map(|(table, _)| table));
            return Some(Job::new(Kind::Check(suspects), &stages, Vec::new()));
        }
        if let Some(news) = self.pending.take(time) {
            return self.apply(news, out).or_else(|| self.next_job(now, out));
        }
        if let Some((id, request)) = self.requests.pop_front() {
            return self.asked(id, &request, out).or_else(|| self.next_job(now, out));
        }
        if is_due(self.links, time) && self.names.cluster.node().is_some() {
            return Some(Job::new(Kind::Links, LINKS, Vec::new()));
        }
        if is_due(self.routes, time) && self.own.wanted().is_some() {
            return Some(Job::new(Kind::Routes, ROUTES, Vec::new()));
        }
        if self.stopping {
            return (self.own.due() == Due::Grace && !self.failures.contains_key(&Source::Sweep)).then(|| self.settle());
        }
        if self.sweep.has_found() {
            return Some(Job::new(Kind::Sweep, SWEEP, Vec::new()));
        }
        if self.sweep.begin(time) {
            return Some(Job::new(Kind::BeforeSweep, BEFORE_SWEEP, Vec::new()));
        }
        (self.own.due() == Due::Grace && self.own.wanted().is_some() && self.check_at <= time).then(|| self.settle())
    }

    fn settle(&mut self) -> Job {
        Job::new(Kind::Settle, SETTLE, Vec::new())
    }

    /// Takes changes up into everything that follows them.
    fn apply(&mut self, news: News, out: &mut Vec<Effect>) -> Option<Job> {
        let News { changes, askers, cancels, passed_by } = news;
        let before = self.own.wanted().map(|it| it.origins.clone()).unwrap_or_default();
        let changes = match changes {
            Some((changes, here)) => match self.names.cluster.follow(&changes, here) {
                Ok(touched) => {
                    self.sweep.touch(touched);
                    if cancels {
                        self.sweep.touch(Touched::all());
                    }
                    let cluster = &self.names.cluster;
                    let left = passed_by.into_iter().filter(|(it, pod)| cluster.pod(*it) != Some(pod)).collect();
                    self.sweep.touch(Touched { left, ..Touched::default() });
                    changes
                }
                Err(gap) => {
                    out.push(Effect::Report(Event::Failed(AgentError::Gap(gap).to_string())));
                    let refused = |it| Effect::Answer(it, Response::Applied(Err(AgentError::Gap(gap))));
                    out.extend(askers.into_iter().map(refused));
                    return None;
                }
            },
            None => Changes::default().starting(self.names.cluster.revision()),
        };
        let view = self.view()?;
        self.version += 1;
        let model = self.names.cluster.model();
        #[cfg(test)]
        let changes = self.mistake.map_or_else(|| changes.clone(), |it| it.lowered(changes.clone()));
        let (lowered, _) = self.lowering.update(model, &changes, &view);
        self.audit.update(model, &changes, view.node);
        let policies =
            if changes.policies.is_empty() && changes.from != Changes::default().from { PoliciesDiffer::No } else { PoliciesDiffer::Yes };
        self.names.follow(&before, &lowered.origins, policies);
        self.lowered = Some(lowered);
        Some(Job { in_vain: self.own.in_vain(), ..Job::new(Kind::Apply, APPLY, askers) })
    }

    fn asked(&mut self, id: RequestId, request: &Request, out: &mut Vec<Effect>) -> Option<Job> {
        let stages = match request {
            // A table that stands beside the own one is checked with it.
            Request::Check => checks(Table::EVERY.into_iter()),
            Request::Counted => vec![Stage::Count(Table::Own)],
            Request::Watched if self.audit.has_counters() => vec![Stage::Count(Table::Audit)],
            Request::Watched => {
                out.push(Effect::Answer(id, Response::Watched(Ok(self.audit.watched()))));
                return None;
            }
            Request::Apply(..)
            | Request::TreatUnknown(_)
            | Request::AwaitSweep
            | Request::Counts
            | Request::Totals
            | Request::Uncovered => {
                return None;
            }
        };
        Some(Job::new(Kind::Request(id), &stages, Vec::new()))
    }

    /// Goes on with the outcome of the work that the job waits for.
    pub(crate) fn resume(&mut self, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        let Some(mut job) = self.job.take() else { return };
        job.waits = None;
        let flow = self.resume_stage(&mut job, outcome, now, out);
        let next = self.flow(&mut job, flow, out);
        self.job = Some(job);
        if next == Next::Stage {
            self.advance(now, out);
        }
    }

    /// Begins stage after stage until one needs work.
    fn advance(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(mut job) = self.job.take() {
            let Some(stage) = job.stages.pop_front() else { return self.finish(job, now, out) };
            job.stage = stage;
            let flow = self.begin_stage(&mut job, now, out);
            let next = self.flow(&mut job, flow, out);
            self.job = Some(job);
            if next == Next::Outcome {
                return;
            }
        }
    }

    fn flow(&mut self, job: &mut Job, flow: Flow, out: &mut Vec<Effect>) -> Next {
        match flow {
            Flow::Do(work) => {
                let token = self.token();
                job.waits = Some(token);
                out.push(Effect::Work(token, work));
                Next::Outcome
            }
            Flow::Next => Next::Stage,
            Flow::Abort(error) => {
                job.error = Some(error);
                job.stages.clear();
                Next::Stage
            }
        }
    }

    pub(crate) fn report(&mut self, out: &mut Vec<Effect>, failure: impl ToString) {
        out.push(Effect::Report(Event::Failed(failure.to_string())));
    }

    fn finish(&mut self, mut job: Job, now: Now, out: &mut Vec<Effect>) {
        let cuts = std::mem::take(&mut job.tally);
        match &job.kind {
            Kind::Apply => {
                tell(cuts, out);
                job.failure.take().into_iter().for_each(|it| self.report(out, it));
                self.finish_apply(job, now, out);
            }
            Kind::BeforeSweep => match job.failure {
                None => {
                    let token = self.token();
                    out.extend(self.sweep.read(token));
                }
                failure => out.extend(self.swept(failure, now)),
            },
            Kind::Sweep => {
                self.sweep.cut(cuts);
                self.sweep.fail(job.failure);
                out.extend(self.swept_chunk(now));
            }
            Kind::Check(suspects) => {
                let changed = job.changed_by(suspects);
                self.finish_check(job, changed, now, out);
            }
            Kind::Settle => {
                if let Some(failure) = job.failure {
                    out.extend(self.failed(Source::Sweep, failure));
                    self.check_at = now.since_start + AGAIN;
                } else {
                    self.failures.remove(&Source::Sweep);
                }
            }
            Kind::Routes | Kind::Links => {}
            Kind::Request(id) => {
                let id = *id;
                let response = job.response.take().unwrap_or_else(|| {
                    if matches!(job.checked, Checked::WasChanged | Checked::WasRemoved) {
                        // Another process may have opened anything meanwhile.
                        self.sweep_all();
                    }
                    Response::Checked(job.error.take().map_or(Ok(job.checked), Err))
                });
                out.push(Effect::Answer(id, response));
            }
        }
        self.audit.failure().into_iter().for_each(|it| out.push(Effect::Report(Event::Failed(it))));
    }

    fn finish_apply(&mut self, job: Job, now: Now, out: &mut Vec<Effect>) {
        let answer = |applied: Result<Applied, AgentError>, out: &mut Vec<Effect>| {
            out.extend(job.askers.iter().map(|it| Effect::Answer(*it, Response::Applied(applied.clone()))));
        };
        let applied = match (job.error, job.applied) {
            (None, Some(applied)) => applied,
            (Some(error), _) => {
                if job.askers.is_empty() {
                    out.push(Effect::Report(Event::Failed(error.to_string())));
                }
                #[cfg(test)]
                if self.makes(Mistake::FailedChangesAreDropped) {
                    return answer(Err(error), out);
                }
                self.pending.failed(now.since_start);
                return answer(Err(error), out);
            }
            (None, None) => return,
        };
        if let Applied::TakenOver(layout) = applied {
            out.push(Effect::Report(Event::Noticed(Notice::TookOver(layout))));
        }
        if job.in_vain > 0 {
            out.push(Effect::Report(Event::Noticed(Notice::Fulfilled { attempts: job.in_vain })));
        }
        if self.settings.established == Established::Cut {
            let everything = match (applied, self.own.built()) {
                (Applied::Unchanged | Applied::Changed(_), Built::OnKnown) => false,
                // The ruleset that was active before is not known.
                (Applied::Loaded | Applied::TakenOver(_), _) | (_, Built::OnUnknown) => true,
            };
            #[cfg(test)]
            if self.makes(Mistake::TouchedConnectionsStay) {
                return answer(Ok(applied), out);
            }
            let cluster = &self.names.cluster;
            // The connections of a reused address were deleted before.
            self.sweep.in_force(everything, |it| cluster.is_pod(it));
        }
        answer(Ok(applied), out);
    }

    fn finish_check(&mut self, job: Job, changed: Option<(Checked, String)>, now: Now, out: &mut Vec<Effect>) {
        let Kind::Check(suspects) = job.kind else { return };
        let changed = changed.or(self.unreported.take());
        match job.error {
            Some(error) => {
                self.suspects.again(suspects);
                self.check_at = now.since_start + AGAIN;
                out.extend(self.failed(Source::Check, error.to_string()));
            }
            None => drop(self.failures.remove(&Source::Check)),
        }
        let Some((checked, by)) = changed else { return };
        if job.restored.is_none() && !self.suspects.is_empty() {
            // Reported when it is put back, by whatever job.
            self.unreported = Some((checked, by));
            return;
        }
        // Another process may have opened anything meanwhile.
        self.sweep_all();
        #[cfg(test)]
        if self.makes(Mistake::RestorationsAreNotReported) {
            return;
        }
        out.push(Effect::Report(Event::Restored { checked, by }));
    }
}
