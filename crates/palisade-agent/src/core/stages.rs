//! The stages of jobs: what each asks for, and what it does with the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_kernel::{Deleted, KernelError};
use palisade_model::PodName;
use palisade_nft::{Table, Unknown};

use crate::agent::{AgentError, Checked, RuleCount};
use crate::core::job::{Flow, Job, Kind, Stage, table_of};
use crate::core::own_table::{self, Ends};
use crate::core::small_table::{self, Goal, SmallTable};
use crate::core::state::{Effect, Now, Response, Seen, Source, State};
use crate::core::step::AGAIN;
use crate::core::unknown::unknown_pods;
use crate::core::work::{Done, Outcome, Progress, Work};
use crate::sweep::{Established, Judge, Opening, RepliesError, TCP, Touched, Why, replies_of};

impl State {
    pub(super) fn begin_stage(&mut self, job: &mut Job, now: Now, out: &mut Vec<Effect>) -> Flow {
        match job.stage {
            Stage::ListLinks => {
                // A change that is heard of from now on may not be in the list.
                self.links = Seen::Yes;
                Flow::Do(Work::Links)
            }
            Stage::InheritReplies if self.replies.is_unread() => match self.settings.established {
                Established::Cut => Flow::Do(Work::Dump(Table::Replies)),
                Established::Keep => {
                    self.replies.forget();
                    Flow::Next
                }
            },
            Stage::InheritReplies => Flow::Next,
            Stage::SettleReused => {
                if self.settings.established == Established::Cut {
                    let cluster = &self.names.cluster;
                    job.reused = self.sweep.take_left(|it| cluster.is_pod(it));
                }
                if job.reused.is_empty() { Flow::Next } else { self.begin_settle(job, now, out) }
            }
            Stage::ReadReused if job.reused.is_empty() => Flow::Next,
            Stage::ReadReused => Flow::Do(Work::Connections(Arc::new(Touched { left: job.reused.clone(), ..Touched::default() }))),
            Stage::Settle => self.begin_settle(job, now, out),
            Stage::SettleReplies if job.ended.is_empty() && self.replies.is_settled() => Flow::Next,
            Stage::SettleReplies => self.begin_settle(job, now, out),
            Stage::WriteReplies => self.write_replies(job),
            Stage::Forget if job.ended.is_empty() => Flow::Next,
            Stage::Forget => Flow::Do(Work::Forget(Arc::new(job.ended.iter().map(|it| it.1.clone()).collect()))),
            Stage::CoverLinks | Stage::UncoverLinks => {
                let links = self.names.cluster.links().values().cloned().collect();
                let progress = self.frames.bring(Goal::Frames { links, and_held: job.stage == Stage::CoverLinks });
                self.small(job, progress, now, out)
            }
            Stage::Rules => {
                let progress = self.own.apply(self.lowered.clone().unwrap_or_default(), Ends::InForce);
                self.own(job, progress, now, out)
            }
            Stage::CountAudit if self.audit.needs(self.names.cluster.model()).count => Flow::Do(Work::Counters(Table::Audit)),
            Stage::CountAudit => Flow::Next,
            Stage::WriteAudit if self.audit.needs(self.names.cluster.model()).write => {
                let progress = self.audit_table.bring(Goal::Ruleset(self.audit.goal()));
                self.small(job, progress, now, out)
            }
            Stage::WriteAudit => {
                self.audit.written(Ok(None), self.names.cluster.model(), now.since_1970);
                Flow::Next
            }
            Stage::ListRoutes => self.list_routes(),
            Stage::SettleUnknown => {
                let wanted = self.unknown_pods().pods;
                // The first change opens what an agent before this one has closed.
                let opens = self.closed.as_ref().is_none_or(|it| it.iter().any(|it| !wanted.contains(it)));
                if opens { self.begin_settle(job, now, out) } else { Flow::Next }
            }
            Stage::WriteUnknown => self.write_unknown(job, now, out),
            Stage::JudgeConnections => {
                self.judge_connections(job);
                Flow::Next
            }
            Stage::Check(Table::Own | Table::Next | Table::Again) => {
                let progress = self.own.check();
                self.own(job, progress, now, out)
            }
            Stage::Check(table) => {
                let progress = self.small_table(table).restore();
                self.small(job, progress, now, out)
            }
            Stage::Count(table) => Flow::Do(Work::Counters(table)),
        }
    }

    pub(super) fn resume_stage(&mut self, job: &mut Job, outcome: Outcome, now: Now, out: &mut Vec<Effect>) -> Flow {
        match (job.stage, outcome) {
            (Stage::ListLinks, outcome) => {
                self.listed_links(outcome, now, out);
                Flow::Next
            }
            (Stage::InheritReplies, Ok(Done::Dump(found))) => {
                self.replies.inherit(found.as_ref());
                Flow::Next
            }
            (Stage::InheritReplies, Err(KernelError::Foreign { .. })) => {
                // No agent has written that. The table is made anew with the replies that are blocked first.
                self.replies.inherit(None);
                Flow::Next
            }
            (Stage::InheritReplies, outcome) => {
                // It is read again by the next job, and nothing is unblocked before.
                outcome.err().into_iter().for_each(|it| self.report(out, RepliesError::from(it)));
                Flow::Next
            }
            (
                Stage::Settle
                | Stage::SettleReused
                | Stage::SettleUnknown
                | Stage::SettleReplies
                | Stage::Rules
                | Stage::Check(Table::Own | Table::Next | Table::Again),
                outcome,
            ) => {
                let progress = self.own.done(outcome);
                progress.map_or(Flow::Next, |it| self.own(job, it, now, out))
            }
            (Stage::ReadReused, Ok(Done::Connections(found))) => {
                job.node = found.node;
                for connection in found.connections {
                    let opening = Opening::of(&connection);
                    let touched = Touched { left: job.reused.clone(), ..Touched::default() };
                    if let Some(pod) = touched.left_by(opening.ends()) {
                        let why = Why::gone(opening, pod, &job.reused, &self.names);
                        job.ended.push((opening, connection, why));
                    }
                }
                Flow::Next
            }
            (Stage::ReadReused, outcome) => {
                self.not_forgotten(job, outcome.err(), out);
                Flow::Next
            }
            (Stage::Forget, Ok(Done::Forgotten(deleted))) => {
                self.forgotten(job, &deleted);
                Flow::Next
            }
            (Stage::Forget, outcome) => {
                job.ended.clear();
                self.not_forgotten(job, outcome.err(), out);
                Flow::Next
            }
            (
                Stage::CoverLinks | Stage::UncoverLinks | Stage::WriteAudit | Stage::WriteUnknown | Stage::WriteReplies | Stage::Check(_),
                outcome,
            ) => {
                let progress = self.small_table(table_of(job.stage)).done(outcome);
                progress.map_or(Flow::Next, |it| self.small(job, it, now, out))
            }
            (Stage::CountAudit, Ok(Done::Counters(counters))) => {
                self.audit.counted(&counters);
                Flow::Next
            }
            (Stage::CountAudit, outcome) => {
                outcome.err().iter().for_each(|it| self.audit.not_counted(it));
                Flow::Next
            }
            (Stage::ListRoutes, outcome) => {
                self.listed_routes(outcome, now, out);
                Flow::Next
            }
            (Stage::Count(table), outcome) => {
                job.response = Some(self.counted(table, outcome));
                Flow::Next
            }
            (Stage::JudgeConnections, _) => Flow::Next,
        }
    }

    fn list_routes(&mut self) -> Flow {
        match self.unknown {
            Unknown::Closed(_) if self.host_routes.is_some() && self.routes == Seen::Yes => Flow::Next,
            Unknown::Closed(_) => {
                // A change that is heard of from now on may not be in the list.
                self.routes = Seen::Yes;
                Flow::Do(Work::Routes)
            }
            Unknown::Open => {
                // They are listed when unknown pods are closed again.
                (self.host_routes, self.routes) = (None, Seen::Yes);
                Flow::Next
            }
        }
    }

    fn write_unknown(&mut self, job: &mut Job, now: Now, out: &mut Vec<Effect>) -> Flow {
        let mut wanted = self.unknown_pods();
        let listed = self.host_routes.is_some() || matches!(self.unknown, Unknown::Open);
        match &self.closed {
            _ if listed && job.unknown_may_open => {}
            Some(closed) => wanted.pods.extend(closed.iter().cloned()),
            // Nobody knows what is closed, so nothing may be opened.
            None => return Flow::Next,
        }
        let progress = self.unknown_table.bring(Goal::Ruleset(wanted.ruleset()));
        job.closes = wanted.pods;
        self.small(job, progress, now, out)
    }

    /// Counters were read for a request.
    fn counted(&mut self, table: Table, outcome: Outcome) -> Response {
        let counters = match outcome {
            Ok(Done::Counters(counters)) => Ok(counters),
            Ok(_) => Err(KernelError::Truncated("the answer to another question".to_owned())),
            Err(error) => Err(error),
        };
        if table == Table::Audit {
            return Response::Watched(counters.map(|it| {
                self.audit.counted(&it);
                self.audit.watched()
            }));
        }
        Response::Counted(counters.map(|it| RuleCount::of(it, self.own.wanted().map(Arc::as_ref))))
    }

    fn begin_settle(&mut self, job: &mut Job, now: Now, out: &mut Vec<Effect>) -> Flow {
        let progress = self.own.settle();
        self.own(job, progress, now, out)
    }

    /// Goes on with the own table.
    fn own(&mut self, job: &mut Job, progress: Progress<own_table::Finished>, now: Now, out: &mut Vec<Effect>) -> Flow {
        let finished = match progress {
            Progress::Do(work) => return Flow::Do(work),
            Progress::Finished(finished) => finished,
        };
        match finished {
            own_table::Finished::Applied(Ok(applied)) => job.applied = Some(applied),
            own_table::Finished::Applied(Err(error)) => return Flow::Abort(error),
            own_table::Finished::Checked(checked) => job.took(Table::Own, checked, self.own.found()),
            own_table::Finished::Settled(Ok(())) => {}
            own_table::Finished::Settled(Err(error)) => self.not_settled(job, error, now, out),
        }
        Flow::Next
    }

    /// Packets that met an earlier ruleset could not be waited for.
    fn not_settled(&mut self, job: &mut Job, error: KernelError, now: Now, out: &mut Vec<Effect>) {
        match job.stage {
            Stage::SettleReused => self.not_forgotten(job, Some(error), out),
            Stage::SettleUnknown => {
                job.unknown_may_open = false;
                self.report(out, error);
                self.routes = Seen::NotBefore(now.since_start + AGAIN);
            }
            Stage::SettleReplies => {
                let error = RepliesError::from(error);
                if matches!(job.kind, Kind::Sweep) {
                    job.fail(error);
                } else {
                    self.report(out, error);
                }
                job.stages.pop_front_if(|it| *it == Stage::WriteReplies);
            }
            Stage::Settle
            | Stage::ListLinks
            | Stage::InheritReplies
            | Stage::ReadReused
            | Stage::WriteReplies
            | Stage::Forget
            | Stage::CoverLinks
            | Stage::Rules
            | Stage::UncoverLinks
            | Stage::CountAudit
            | Stage::WriteAudit
            | Stage::ListRoutes
            | Stage::WriteUnknown
            | Stage::JudgeConnections
            | Stage::Check(_)
            | Stage::Count(_) => {
                job.fail(format!("connections that are denied may live on: {error}"));
            }
        }
    }

    /// Goes on with a small table.
    fn small(&mut self, job: &mut Job, progress: Progress<small_table::Finished>, now: Now, out: &mut Vec<Effect>) -> Flow {
        let finished = match progress {
            Progress::Do(work) => return Flow::Do(work),
            Progress::Finished(finished) => finished,
        };
        match (job.stage, finished) {
            (Stage::WriteAudit, small_table::Finished::Written(written)) => {
                if written.is_err() {
                    self.pending.failed(now.since_start);
                }
                self.audit.written(written.map(Some), self.names.cluster.model(), now.since_1970);
            }
            (Stage::CoverLinks, small_table::Finished::Written(Err(error))) => {
                self.counts.failed(&error);
                self.counts.unfulfilled += 1;
                return Flow::Abort(AgentError::Kept(error));
            }
            (Stage::WriteReplies, small_table::Finished::Written(Ok(_))) => self.replies.written(),
            (Stage::WriteReplies, small_table::Finished::Written(Err(error))) => {
                self.counts.failed(&error);
                let error = RepliesError::from(error);
                if matches!(job.kind, Kind::Sweep) {
                    job.fail(error);
                } else {
                    self.pending.failed(now.since_start);
                    self.report(out, error);
                }
            }
            (Stage::WriteUnknown, small_table::Finished::Written(Ok(_))) => self.closed = Some(std::mem::take(&mut job.closes)),
            (Stage::WriteUnknown, small_table::Finished::Written(Err(error))) => {
                self.closed = None;
                self.counts.failed(&error);
                self.routes = Seen::NotBefore(now.since_start + AGAIN);
                out.extend(self.failed(Source::Routes, error.to_string()));
            }
            (_, small_table::Finished::Written(Err(error))) => {
                self.counts.failed(&error);
                self.pending.failed(now.since_start);
                self.report(out, error);
            }
            (_, small_table::Finished::Written(Ok(_))) => {}
            (stage, small_table::Finished::Restored(restored)) => {
                if matches!((stage, &restored), (Stage::Check(Table::Audit), Ok(Checked::WasChanged | Checked::WasRemoved))) {
                    self.audit.reloaded();
                }
                match &restored {
                    Ok(Checked::WasChanged | Checked::WasRemoved) => self.counts.restorations += 1,
                    Ok(Checked::Intact | Checked::NothingWanted) => {}
                    Err(error) => {
                        self.counts.failed(error);
                        self.counts.unfulfilled += 1;
                    }
                }
                let found = self.small_table(table_of(stage)).found();
                job.took(table_of(stage), restored.map_err(AgentError::NotKnown), found);
            }
        }
        Flow::Next
    }

    fn small_table(&mut self, table: Table) -> &mut SmallTable {
        match table {
            Table::Frames => &mut self.frames,
            Table::UnknownPods => &mut self.unknown_table,
            Table::Audit => &mut self.audit_table,
            // Those of policies are checked as one.
            Table::Replies | Table::Own | Table::Next | Table::Again => &mut self.replies_table,
        }
    }

    /// Writes the replies that are blocked, with those of connections that end now.
    fn write_replies(&mut self, job: &mut Job) -> Flow {
        let more: Vec<_> = job.ended.iter().flat_map(|(_, connection, _)| replies_of(connection, &job.node)).collect();
        if self.replies.is_unread() || more.is_empty() && self.replies.is_settled() {
            return Flow::Next;
        }
        let goal = match (self.settings.established, self.own.wanted()) {
            (Established::Keep, _) => None,
            // A later job settles them by the ruleset that it brings into force.
            (Established::Cut, None) => return Flow::Next,
            (Established::Cut, Some(ruleset)) => {
                // Only pods are asked about.
                let nowhere = BTreeSet::new();
                match self.replies.settle(&more, &mut Judge::new(ruleset, &self.names.cluster, &nowhere)) {
                    Ok((table, beyond)) => {
                        if beyond > 0 {
                            job.fail(RepliesError::TooMany(beyond));
                        }
                        table
                    }
                    Err(error) => {
                        job.fail(error);
                        return Flow::Next;
                    }
                }
            }
        };
        match self.replies_table.bring(Goal::Ruleset(goal)) {
            Progress::Do(work) => Flow::Do(work),
            Progress::Finished(_) => {
                self.replies.written();
                Flow::Next
            }
        }
    }

    /// Counts the connections that were deleted.
    fn forgotten(&mut self, job: &mut Job, deleted: &[Deleted]) {
        let mut offloaded = 0;
        for ((opening, connection, why), deleted) in std::mem::take(&mut job.ended).into_iter().zip(deleted) {
            match deleted {
                // Its first packet was denied elsewhere: there was nothing to end.
                Deleted::Yes if connection.protocol == TCP && !connection.status.seen_reply() => {}
                Deleted::Yes => job.tally.add(opening, why),
                // It has ended by itself.
                Deleted::WasGone => {}
                Deleted::Offloaded => offloaded += 1,
            }
        }
        if offloaded > 0 {
            job.fail(format!("{offloaded} connections that are denied live on: a flowtable has them"));
        }
    }

    /// Connections of reused addresses, or those that are denied, could not be read or deleted: they are by the next sweep.
    fn not_forgotten(&mut self, job: &mut Job, error: Option<KernelError>, out: &mut Vec<Effect>) {
        let failure = error.map_or_else(String::new, |it| format!("connections that are denied may live on: {it}"));
        if !matches!(job.kind, Kind::Apply) {
            return job.fail(failure);
        }
        self.report(out, failure);
        let left = std::mem::take(&mut job.reused);
        self.sweep.add(Touched { left, ..Touched::default() });
    }

    fn listed_links(&mut self, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        let listed = match outcome {
            Ok(Done::Links(listed)) => listed,
            Ok(_) => return,
            Err(error) => {
                // The next list of links tells.
                self.links = Seen::NotBefore(now.since_start + AGAIN);
                out.extend(self.failed(Source::Links, error.to_string()));
                return;
            }
        };
        self.failures.remove(&Source::Links);
        // A link of the same name is another one if its index is.
        let went = |(link, (index, _)): &(&String, &(u32, BTreeMap<IpAddr, PodName>))| listed.get(*link) != Some(index);
        let left: BTreeMap<IpAddr, PodName> = self.present.iter().filter(went).flat_map(|(_, (_, pods))| pods.clone()).collect();
        if self.settings.established == Established::Cut {
            self.sweep.add(Touched { left, ..Touched::default() });
        }
        let cluster = &self.names.cluster;
        let own = cluster.links().iter().filter_map(|(id, link)| {
            let pod = cluster.model().endpoint(*id).filter(|it| it.node == cluster.node())?;
            let pods = pod.addresses.iter().map(|it| (*it, pod.name.clone())).collect();
            Some((link.clone(), (*listed.get(link)?, pods)))
        });
        self.present = own.collect();
    }

    fn listed_routes(&mut self, outcome: Outcome, now: Now, out: &mut Vec<Effect>) {
        match outcome {
            Ok(Done::Routes(routes)) => {
                self.host_routes = Some(routes);
                self.failures.remove(&Source::Routes);
            }
            Ok(_) => {}
            Err(error) => {
                self.routes = Seen::NotBefore(now.since_start + AGAIN);
                if !matches!(error, KernelError::Unsteady(_) | KernelError::UnsteadyNetwork { .. }) {
                    out.extend(self.failed(Source::Routes, error.to_string()));
                }
            }
        }
    }

    fn unknown_pods(&self) -> palisade_nft::UnknownPods {
        let origins = self.own.wanted().map(|it| it.origins.clone()).unwrap_or_default();
        unknown_pods(&self.names.cluster, &self.unknown, &origins, self.host_routes.iter().flatten().cloned())
    }
}
