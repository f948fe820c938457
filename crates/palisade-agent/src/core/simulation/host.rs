//! A node in memory that does the work of a core late, in another order, wrongly or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use nix::errno::Errno;
use palisade_kernel::{Connection, Deleted, Fake, Kernel as _, KernelError, Object, Refusal, Status, Tracking, Transport, Tuple};
use palisade_model::{EndpointId, Model};
use palisade_nft::{BlockedReplies, Change, Frames, Ruleset, Standing, Table, Transaction, UnknownPod, UnknownPods, fates};
use palisade_testkit::random::Random;

use super::mistake::Mistake;
use super::world::{SLOTS, Way, World, address, is_local, link};
use crate::core::state::{Effect, Now};
use crate::core::work::{Done, Found, Outcome, Token, Work, perform};
use crate::running::Event;

/// How often each kind of effect was failed, delayed, and followed by a kill.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) done: BTreeMap<&'static str, u64>,
    pub(super) failed: BTreeMap<&'static str, u64>,
    pub(super) delayed: BTreeMap<&'static str, u64>,
    pub(super) killed: BTreeMap<&'static str, u64>,
    pub(super) histories: u64,
    pub(super) inputs: u64,
    pub(super) packets: u64,
    pub(super) edits: u64,
    pub(super) cut: u64,
}

impl Counters {
    pub(super) fn add(&mut self, other: &Counters) {
        for (all, more) in [
            (&mut self.done, &other.done),
            (&mut self.failed, &other.failed),
            (&mut self.delayed, &other.delayed),
            (&mut self.killed, &other.killed),
        ] {
            more.iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
        }
        self.histories += other.histories;
        self.inputs += other.inputs;
        self.packets += other.packets;
        self.edits += other.edits;
        self.cut += other.cut;
    }
}

/// A connection, with the pods at both ends when it was opened.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) connection: Connection,
    pub(super) way: Way,
    pub(super) owners: [Option<String>; 2],
    /// The indexes of the interfaces at both ends, if the agent knew these.
    pub(super) links: [Option<u32>; 2],
    /// The agent that was alive.
    pub(super) incarnation: u64,
}

/// Work whose answer has not come.
struct Outstanding {
    token: Token,
    work: Work,
    /// The outcome, if the work is done already.
    outcome: Option<Outcome>,
}

pub(super) struct Host {
    kernel: Fake,
    /// All tables of the kernel.
    tables: BTreeMap<Table, Ruleset>,
    /// Those of policies.
    standing: [Standing; 1],
    /// Whether tables changed since packets were sent through them.
    pub(super) changed: bool,
    pub(super) links: BTreeMap<String, u32>,
    pub(super) routes: BTreeSet<UnknownPod>,
    /// Whether routes changed since the agent was last at rest: until then it may act by a list from before.
    pub(super) flapped: bool,
    pub(super) tracked: Vec<Tracked>,
    outstanding: Vec<Outstanding>,
    pub(super) now: Duration,
    pub(super) wall: Duration,
    pub(super) wake: Option<Duration>,
    pub(super) random: Random,
    pub(super) counters: Counters,
    pub(super) mistake: Option<Mistake>,
    /// Faults are drawn for so many percent of the work.
    pub(super) faults: usize,
    /// Whether a commit to a table of policies came after the last grace.
    behind: bool,
    next_link: u32,
    pub(super) incarnation: u64,
    pub(super) restored: u64,
    pub(super) mismatches: u64,
    /// The error.
    pub(super) broken: Option<String>,
}

impl Host {
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Host {
        let mut host = Host {
            kernel: Fake::new(),
            tables: BTreeMap::new(),
            standing: [Standing::new()],
            changed: false,
            links: BTreeMap::new(),
            routes: BTreeSet::new(),
            flapped: false,
            tracked: Vec::new(),
            outstanding: Vec::new(),
            now: Duration::from_secs(1),
            wall: Duration::from_secs(1_000_000),
            wake: None,
            random: Random::new(seed),
            counters: Counters::default(),
            mistake,
            faults: 0,
            behind: true,
            next_link: 1,
            incarnation: 0,
            restored: 0,
            mismatches: 0,
            broken: None,
        };
        SLOTS.filter_map(link).for_each(|it| host.renew_link(&it));
        host
    }

    pub(super) fn time(&self) -> Now {
        Now { since_start: self.now, since_1970: self.wall }
    }

    /// An interface goes and comes again under its name.
    pub(super) fn renew_link(&mut self, link: &str) {
        self.links.insert(link.to_owned(), self.next_link);
        self.next_link += 1;
    }

    pub(super) fn table(&self, table: Table) -> Option<&Ruleset> {
        self.tables.get(&table)
    }

    /// Reads a table that was written.
    fn read(&mut self, table: Table) {
        match self.kernel.dump_of(table).unwrap() {
            Some(ruleset) => drop(self.tables.insert(table, ruleset)),
            None => drop(self.tables.remove(&table)),
        }
        if Table::ALL.contains(&table) {
            self.standing = [self.tables.iter().filter(|it| Table::ALL.contains(it.0)).map(|(table, it)| (*table, it.clone())).collect()];
            self.changed = true;
        }
    }

    fn breaks(&mut self, what: impl FnOnce() -> String) {
        self.broken.get_or_insert_with(what);
    }

    /// Begins an effect. Work is done now or when its answer is delivered.
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Work(token, work) => {
                if let Work::Connections(touched) = &work
                    && self.behind
                    && (touched.judges([address(1); 2]) || !touched.left.is_empty())
                {
                    self.breaks(|| "connections are read before packets have left that met the ruleset before".to_owned());
                }
                let outcome = self.random.percent(50).then(|| self.execute(&work));
                self.outstanding.push(Outstanding { token, work, outcome });
            }
            Effect::Report(Event::Restored { .. }) => self.restored += 1,
            Effect::Report(Event::Cut(cuts)) => self.counters.cut += cuts.connections,
            Effect::Report(Event::Noticed(crate::notice::Notice::Mismatch)) => self.mismatches += 1,
            Effect::WakeAt(time) => self.wake = Some(time),
            Effect::Report(_) | Effect::Answer(..) | Effect::Exit => {}
        }
    }

    pub(super) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Delivers the answer of some work, not always the oldest.
    pub(super) fn deliver(&mut self) -> Option<(Token, &'static str, Outcome)> {
        if self.outstanding.is_empty() {
            return None;
        }
        let at = self.random.below(self.outstanding.len());
        for late in self.outstanding.iter().enumerate().filter(|it| it.0 != at).map(|it| it.1.work.kind()) {
            *self.counters.delayed.entry(late).or_default() += 1;
        }
        let Outstanding { token, work, outcome } = self.outstanding.remove(at);
        let outcome = outcome.unwrap_or_else(|| self.execute(&work));
        Some((token, work.kind(), outcome))
    }

    /// Counts the work that another input overtakes.
    pub(super) fn overtaken(&mut self) {
        for late in &self.outstanding {
            *self.counters.delayed.entry(late.work.kind()).or_default() += 1;
        }
    }

    /// The agent dies. Work that was not begun may still be done, or not.
    pub(super) fn kill(&mut self) {
        for Outstanding { work, outcome, .. } in std::mem::take(&mut self.outstanding) {
            *self.counters.killed.entry(work.kind()).or_default() += 1;
            if outcome.is_none() && self.random.percent(50) {
                drop(self.execute(&work));
            }
        }
        self.incarnation += 1;
    }

    fn execute(&mut self, work: &Work) -> Outcome {
        *self.counters.done.entry(work.kind()).or_default() += 1;
        // Connections are read and deleted more rarely than tables are written.
        let faults = if matches!(work, Work::Connections(_) | Work::Forget(_)) { self.faults * 4 } else { self.faults };
        if self.random.percent(faults) {
            *self.counters.failed.entry(work.kind()).or_default() += 1;
            let refused = |errno| KernelError::Refused(vec![Refusal { object: Object::Table, errno }]);
            let error = match (work, self.random.below(6)) {
                (Work::Commit(_), 0) => refused(Errno::ENOMEM),
                (Work::Commit(_), 1) => refused(Errno::EBUSY),
                (Work::Commit(_), 2) => refused(Errno::ENOENT),
                (Work::Commit(_), 3) => refused(Errno::ENFILE),
                (_, 4) => KernelError::Timeout(10),
                (_, 5) => KernelError::Socket { doing: "send to the kernel", errno: Errno::EAGAIN },
                _ => KernelError::Socket { doing: "send to the kernel", errno: Errno::ENOMEM },
            };
            // Only the answer is lost.
            if error == KernelError::Timeout(10) && self.random.percent(50) {
                drop(self.done(work));
            }
            let lies = self.mistake == Some(Mistake::LostAnswersCountAsSuccess)
                && matches!((work, &error), (Work::Commit(_), KernelError::Timeout(_)));
            return if lies { Ok(Done::Done) } else { Err(error) };
        }
        self.done(work)
    }

    fn done(&mut self, work: &Work) -> Outcome {
        if let Work::Commit(transaction) = work {
            return self.commit(transaction).map(|()| Done::Done);
        }
        if let Some(outcome) = perform(&mut self.kernel, work) {
            if matches!(work, Work::Grace) && outcome.is_ok() {
                self.behind = false;
            }
            return outcome;
        }
        Ok(match work {
            Work::Links if self.mistake == Some(Mistake::InterfaceIndexesAreReused) => {
                Done::Links(self.links.keys().map(|it| (it.clone(), 1)).collect())
            }
            Work::Links => Done::Links(self.links.clone()),
            Work::Routes => Done::Routes(self.routes.iter().cloned().collect()),
            Work::Connections(touched) => {
                let ends = |it: &Tracked| [it.connection.original.source, it.connection.reply.source];
                let wanted = |it: &&Tracked| touched.left_by(ends(it)).is_some() || touched.judges(ends(it));
                let connections = self.tracked.iter().filter(wanted).map(|it| it.connection.clone()).collect();
                Done::Connections(Box::new(Found { node: [address(9)].into(), connections }))
            }
            Work::Forget(connections) => Done::Forgotten(connections.iter().map(|it| self.forget(it)).collect()),
            Work::Environment => Done::Environment(Box::default()),
            Work::Tracking => Done::Tracking(Tracking::default()),
            Work::Recompute(recompute) => Done::Recomputed(Box::new(recompute.run())),
            other => panic!("{other:?}"),
        })
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), KernelError> {
        let before = self.table(transaction.table).cloned();
        self.kernel.commit(transaction)?;
        self.read(transaction.table);
        let after = self.table(transaction.table).cloned();
        match transaction.table {
            Table::Own | Table::Next | Table::Again => self.behind = true,
            Table::UnknownPods => {
                let pods = |it: &Option<Ruleset>| it.as_ref().map(UnknownPods::pods_of).unwrap_or_default();
                let opened = &pods(&before) - &pods(&after);
                if self.behind && !self.flapped && opened.iter().any(|it| self.routes.contains(it)) {
                    self.breaks(|| format!("{opened:?} open before packets have met their programs"));
                }
            }
            Table::Replies => {
                let replies = |it: &Option<Ruleset>| it.as_ref().map(BlockedReplies::of).unwrap_or_default().replies;
                let (before, after) = (replies(&before), replies(&after));
                if self.behind && before.keys().any(|it| !after.contains_key(it)) {
                    self.breaks(|| "replies pass before packets have left that met the ruleset before".to_owned());
                }
            }
            Table::Audit | Table::Frames => {}
        }
        Ok(())
    }

    fn forget(&mut self, connection: &Connection) -> Deleted {
        let Some(at) = self.tracked.iter().position(|it| it.connection == *connection) else { return Deleted::WasGone };
        if self.mistake != Some(Mistake::NothingIsForgotten) {
            self.tracked.remove(at);
        }
        Deleted::Yes
    }

    /// Whether a packet passes the tables of policies as they are.
    pub(super) fn passes(&mut self, way: &Way) -> bool {
        self.counters.packets += 1;
        fates(&self.standing, &way.hooks()).unwrap().iter().all(|it| it.accepted)
    }

    /// A pod of the world opens a connection, if the tables let it.
    pub(super) fn open(&mut self, world: &World, told: &Model, listed: &BTreeSet<String>, way: Way, udp: bool) {
        // A pod that the agent was not told of is a matter of the tables alone.
        let known = |slot: usize| told.endpoint(EndpointId(slot)).map(|it| it.name.name.to_string());
        let exists = |slot: usize| !SLOTS.contains(&slot) || world.pods.contains_key(&slot) && known(slot) == world.pod_name(slot);
        if !exists(way.from) || !exists(way.to) || !way.is_allowed_elsewhere(told) || !self.passes(&way) {
            return;
        }
        let protocol = if udp { 17 } else { 6 };
        let source = u16::try_from(4000 + self.tracked.len()).unwrap();
        let tuple = |source: IpAddr, destination: IpAddr, from: u16, to: u16| Tuple {
            source,
            destination,
            protocol,
            transport: Transport::Ports { source: from, destination: to },
        };
        let (from, to) = (address(way.from), address(way.to));
        let connection = Connection {
            original: tuple(from, to, source, way.port),
            reply: tuple(to, from, way.port, source),
            zone: 0,
            reply_zone: 0,
            id: u32::from(source),
            status: Status(2),
            mark: 0,
            protocol,
        };
        let owners = [way.from, way.to].map(|it| world.pod_name(it));
        let links = [way.from, way.to].map(|it| link(it).filter(|it| listed.contains(it)).and_then(|it| self.links.get(&it).copied()));
        self.tracked.push(Tracked { connection, way, owners, links, incarnation: self.incarnation });
    }

    /// Another process changes a table. None if there is nothing to change.
    pub(super) fn edit(&mut self) -> Option<Table> {
        let table = self.random.of(Table::EVERY);
        let before = self.table(table)?.clone();
        let chains: Vec<&String> = before.chains.keys().collect();
        let change = match self.random.pick(&chains) {
            Some(chain) if self.random.percent(60) => Change::FlushChain((*chain).clone()),
            _ => Change::DeleteTable,
        };
        self.kernel.commit(&Transaction { table, changes: vec![change] }).ok()?;
        self.read(table);
        self.counters.edits += 1;
        (self.table(table) != Some(&before)).then_some(table)
    }

    /// Every pod that a table of policies admits is behind an interface whose frames are checked.
    pub(super) fn check_frames(&mut self) {
        let covered = self.table(Table::Frames).map(|it| Frames::of(it).links).unwrap_or_default();
        let own = self.table(Table::Own);
        let admitted: BTreeSet<String> =
            own.iter().flat_map(|it| it.sets.values()).flat_map(|it| &it.elements).map(|(link, _)| link.clone()).collect();
        if let Some(link) = admitted.iter().find(|it| !covered.contains(*it)) {
            self.breaks(|| format!("a pod behind `{link}` is admitted, and no chain checks the frames of that interface"));
        }
    }

    /// Whether the pod behind the interface that no pattern covers is closed by its route.
    pub(super) fn is_tap_closed(&self) -> bool {
        let pods = self.table(Table::UnknownPods).map(UnknownPods::pods_of).unwrap_or_default();
        SLOTS.filter(|it| is_local(*it)).filter_map(|it| Some((link(it)?, address(it)))).any(|it| it.0 == "tap5" && pods.contains(&it))
    }
}
