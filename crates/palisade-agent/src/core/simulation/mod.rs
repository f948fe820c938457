//! Histories of an agent on a node in memory, drawn from a seed: work is done late, in another order, wrongly or not at all, the agent is killed between any two
//! effects, other processes edit tables, and clocks jump.
//!
//! After each commit every flow of the cluster is sent through the tables: it passes only if a model between the last one in force and the newest one allows it. At rest the
//! tables are those of a fresh lowering, no connection is left that is denied, and each edit by another process was reported.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the variants that it is about")]
#![expect(clippy::print_stdout, reason = "the counters are a result of the test")]

mod host;
mod mistake;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use palisade_engine::compile;
use palisade_kernel::{Changed, TableName};
use palisade_model::{Changes, Model, NodeId, Revision};
use palisade_nft::{Frames, Ids, Layout, LinkName, Lowering, NodeView, PodLinks, Table, Unknown, UnknownPods, lower};
use palisade_testkit::random::Random;

use crate::cluster::Here;
use crate::core::refusals::same;
use crate::core::simulation::host::{Counters, Host};
use crate::core::simulation::world::{SLOTS, Way, World, address, link, ways};
use crate::core::state::{CoreSettings, Effect, Input, Request, RequestId, Seen, State};
use crate::core::step;
use crate::running::Attention;
use crate::sweep::Established;

pub(crate) use mistake::Mistake;

/// The number of histories of a full run. Few by default.
const HISTORIES: &str = "PALISADE_SIMULATION_HISTORIES";
/// The seed of one history, which is run alone and printed.
const SEED: &str = "PALISADE_SIMULATION_SEED";
/// Inputs of one history, besides answers to work.
const INPUTS: usize = 30;
/// A history that comes to rest needs fewer steps than this.
const STEPS: usize = 3_000;
/// Each kind of effect is failed, delayed and followed by a kill this often in a full run.
const LEAST: u64 = 100;

/// One history.
struct History {
    host: Host,
    state: State,
    random: Random,
    world: World,
    ways: Vec<Way>,
    /// The model that the agent was told last.
    told: (Model, Revision),
    /// Verdicts of the models that may be in force, by flow: those of the last model that came into force, and of all after it.
    possible: Vec<Vec<bool>>,
    /// Whether a model was ever in force.
    enforces: bool,
    /// Tables that another process changed and nobody has put back.
    edited: BTreeSet<Table>,
    /// The agent, the number of reports and that of faults when an idle agent's table was edited. After a fault a change may overwrite the edit before a dump has shown it.
    unreported: Option<(u64, u64, u64)>,
    tap_was_closed: bool,
    prints: bool,
}

fn unknown() -> Unknown {
    Unknown::Closed(PodLinks { names: [LinkName::Beginning("p".to_owned())].into(), ..PodLinks::default() })
}

fn fresh(host: &Host, mistake: Option<Mistake>) -> State {
    let settings = CoreSettings { attention: Attention::Connections, established: Established::Cut, ports: [1].into() };
    let mut state = State::new(settings, host.time());
    state.mistake = mistake;
    state.unknown = unknown();
    state
}

impl History {
    fn new(seed: u64, mistake: Option<Mistake>) -> History {
        let host = Host::new(seed, mistake);
        let state = fresh(&host, mistake);
        let mut world = World::default();
        let mut random = Random::new(seed ^ 0x5eed);
        (0..12).for_each(|_| world.change(&mut random));
        let told = (Model::default(), Revision::default());
        History {
            host,
            state,
            random,
            world,
            ways: ways(),
            told,
            possible: Vec::new(),
            enforces: false,
            edited: BTreeSet::new(),
            unreported: None,
            tap_was_closed: false,
            prints: false,
        }
    }

    /// Runs a history. The error says what went wrong.
    fn run(&mut self) -> Result<(), String> {
        self.tell();
        self.rest()?;
        for _ in 0..INPUTS {
            self.host.faults = if self.random.percent(30) { 12 } else { 0 };
            self.host.counters.inputs += 1;
            self.host.overtaken();
            self.input()?;
            for _ in 0..self.random.below(6) {
                self.answer()?;
            }
            if self.random.percent(6) {
                self.kill();
            }
            if self.random.percent(12) {
                self.rest()?;
            }
        }
        self.rest()?;
        match self.host.mismatches {
            0 => Ok(()),
            _ => Err("a recomputation gave another ruleset than the changes did".to_owned()),
        }
    }

    fn input(&mut self) -> Result<(), String> {
        match self.random.below(21) {
            0..=7 => {
                self.world.change(&mut self.random);
                if self.random.percent(80) {
                    self.tell();
                }
            }
            8..=11 => {
                for _ in 0..4 {
                    let way = *self.random.pick(&self.ways).unwrap();
                    let udp = self.random.percent(30);
                    // An agent that has just started has not seen the interfaces that are there.
                    let listed: BTreeSet<String> = self.state.present.keys().cloned().collect();
                    self.host.open(&self.world, &self.told.0, &listed, way, udp);
                }
            }
            12 | 13 => self.edit()?,
            14 => {
                let slot = self.random.between(1, 5);
                // The pod behind it is another one from now on.
                link(slot).iter().for_each(|it| self.host.renew_link(it));
                self.take(Input::LinksChanged)?;
            }
            15 | 16 => {
                let route = (link(5).unwrap(), address(5));
                self.host.flapped = true;
                if !self.host.routes.remove(&route) {
                    self.host.routes.insert(route);
                }
                self.take(Input::RoutesChanged)?;
            }
            17 => {
                // A clock jumps.
                let jump = Duration::from_millis(u64::try_from(self.random.below(8_000_000)).unwrap());
                self.host.now += jump;
                self.host.wall = if self.random.percent(50) { self.host.wall + jump } else { self.host.wall.saturating_sub(jump) };
                self.take(Input::Woken)?;
            }
            18 => self.take(Input::Relisted)?,
            _ => {
                let request = match self.random.below(3) {
                    0 => Request::Check,
                    1 => Request::Counted,
                    _ => Request::Watched,
                };
                self.take(Input::Asked(RequestId(1), request))?;
            }
        }
        Ok(())
    }

    /// Tells the agent of the world as it is.
    fn tell(&mut self) {
        let model = self.world.model();
        let changes = Changes::between(&self.told.0, &model).starting(self.told.1);
        let here = Here { node: NodeId(0), links: self.world.links(), pod_ranges: model.pod_ranges.clone() };
        self.possible.push(self.ways.iter().map(|it| it.is_allowed(&model)).collect());
        self.told = (model, changes.to);
        // The next step reports an error.
        drop(self.take(Input::Changed(Box::new((changes, here)))));
    }

    /// The agent dies, and another one starts that knows nothing.
    fn kill(&mut self) {
        self.print(|| "the agent is killed".to_owned());
        self.host.kill();
        self.state = fresh(&self.host, self.host.mistake);
        self.told = (Model::default(), Revision::default());
        self.host.wake = None;
        // The agent that was killed has reported nothing.
        self.tap_was_closed = false;
        self.tell();
    }

    fn edit(&mut self) -> Result<(), String> {
        let idle = self.is_idle() && self.enforces;
        let Some(table) = self.host.edit() else { return Ok(()) };
        self.print(|| format!("another process edits {table}, idle: {idle}"));
        // The tables of policies are right or wrong together.
        self.edited.insert(if Table::ALL.contains(&table) { Table::Own } else { table });
        if idle && self.unreported.is_none() {
            self.unreported = Some((self.host.incarnation, self.host.restored, self.host.counters.failed.values().sum()));
        }
        let tables = [TableName { family: table.family(), name: table.name().to_owned() }].into();
        let by_another = Changed::Transaction { generation: 1, by: 7, process: "nft".to_owned(), port: 9, tables };
        let heard = if self.random.percent(20) { Changed::Unknown } else { by_another };
        self.take(Input::Heard(Ok(vec![heard])))
    }

    /// Delivers one answer, or lets time pass until the agent wakes.
    fn answer(&mut self) -> Result<(), String> {
        self.host.now += Duration::from_millis(1);
        match self.host.deliver() {
            Some((token, _, outcome)) => {
                self.check()?;
                self.take(Input::Done(token, outcome))
            }
            None => match self.host.wake {
                Some(wake) => {
                    self.host.now = self.host.now.max(wake);
                    self.take(Input::Woken)
                }
                None => Ok(()),
            },
        }
    }

    fn take(&mut self, input: Input) -> Result<(), String> {
        self.host.wake = None;
        self.print(|| format!("{:?} <- {}", self.host.now, short(&input)));
        let effects = step(&mut self.state, self.host.time(), input);
        let many = effects.len();
        // The agent may die between any two effects.
        let survives = if self.host.faults > 0 && self.random.percent(2) { self.random.below(many + 1) } else { many };
        let dies = survives < many;
        for effect in effects.into_iter().take(survives) {
            let is_work = matches!(effect, Effect::Work(..));
            self.print(|| format!("    -> {}", short(&effect)));
            self.host.perform(effect);
            if is_work {
                self.check()?;
            }
        }
        if dies {
            self.kill();
        }
        self.came_into_force();
        self.host.broken.take().map_or(Ok(()), Err)
    }

    fn print(&self, what: impl FnOnce() -> String) {
        if self.prints {
            println!("{}", what());
        }
    }

    /// Whether the agent has nothing to do.
    fn is_idle(&self) -> bool {
        self.state.is_at_rest() && !self.host.has_outstanding()
    }

    /// Forgets the models before the one that is in force.
    fn came_into_force(&mut self) {
        let is_told = self.state.names.cluster.revision() == self.told.1;
        let own = &self.state.own;
        // After a change that failed the table may hold that change, though the model went back to the ruleset before it.
        let in_force = own.is_as_left() && own.wanted().is_some() && own.wanted() == self.state.lowered.as_ref();
        if is_told && in_force && !self.state.is_applying() {
            self.enforces = true;
            let past = self.possible.len().saturating_sub(1);
            self.host.changed |= past > 0;
            self.possible.drain(..past);
        }
    }

    /// Checks the tables as they are.
    fn check(&mut self) -> Result<(), String> {
        // The chains of frames are whole again only with the ruleset that admits no other pods.
        let edited: Vec<Table> = self.edited.iter().copied().filter(|it| *it != Table::Frames).collect();
        for table in edited {
            let found = self.host.table(table);
            let wanted = self.state.wanted(table);
            let is_back = match (found, &wanted) {
                (Some(found), Some(wanted)) => same(found, wanted),
                // An agent that has applied nothing yet does not know.
                (None, None) => self.state.has_applied(table),
                (Some(_), None) | (None, Some(_)) => false,
            };
            let stand_beside = Table::ALL.iter().any(|it| *it != Table::Own && self.host.table(*it).is_some());
            let is_back = is_back && (table != Table::Own || !stand_beside && self.state.job.is_none());
            if is_back {
                self.host.changed = true;
                self.edited.remove(&table);
            }
        }
        let of_policies = self.edited.iter().any(|it| Table::ALL.contains(it));
        if self.enforces && !of_policies && std::mem::take(&mut self.host.changed) {
            for (at, way) in self.ways.clone().iter().enumerate().filter(|(_, it)| !it.is_tapped()) {
                let passes = self.host.passes(way);
                if !self.possible.iter().any(|it| it[at] == passes) {
                    let verdict = if passes { "passes, and no model allows it" } else { "is dropped, and every model allows it" };
                    return Err(format!("{way:?} {verdict}"));
                }
            }
        }
        if self.enforces && !of_policies && !self.edited.contains(&Table::Frames) {
            self.host.check_frames();
        }
        self.check_tap(of_policies)?;
        self.host.broken.take().map_or(Ok(()), Err)
    }

    /// A pod that its route has closed stays closed until its programs are in force.
    fn check_tap(&mut self, of_policies: bool) -> Result<(), String> {
        let closed = self.host.is_tap_closed();
        let route = (link(5).unwrap(), address(5));
        let own = self.host.table(Table::Own);
        let admitted = own.is_some_and(|it| it.sets.values().any(|it| it.elements.contains(&route)));
        let excused = of_policies || self.edited.contains(&Table::UnknownPods) || self.host.flapped;
        if self.tap_was_closed && !closed && !admitted && !excused {
            return Err("a pod is open before its programs are in force".to_owned());
        }
        self.tap_was_closed = closed && !excused;
        Ok(())
    }

    /// Lets everything come to its end without further faults, and checks what is left.
    fn rest(&mut self) -> Result<(), String> {
        self.host.faults = 0;
        if self.told.0 != self.world.model() {
            self.tell();
        }
        let mut steps = 0;
        while !self.is_idle() {
            steps += 1;
            if steps > STEPS {
                return Err(format!("the agent does not come to rest: {:?}", self.state.job));
            }
            self.answer()?;
        }
        self.host.flapped = false;
        self.edited.remove(&Table::Frames);
        self.check()?;
        self.check_tables()?;
        self.check_connections()?;
        match self.unreported.take() {
            Some(then) if then == (self.host.incarnation, self.host.restored, self.host.counters.failed.values().sum()) => {
                Err("an edit by another process was not reported".to_owned())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// At rest the tables are those of a fresh lowering.
    fn check_tables(&mut self) -> Result<(), String> {
        let model = self.world.model();
        let view = NodeView { node: NodeId(0), links: self.world.links(), unknown: unknown() };
        let expected = lower(&model, &compile(&model), &view, &mut Ids::default());
        let found = self.host.table(Table::Own).ok_or("no table at rest")?;
        if !same(found, &expected) {
            return Err("at rest the table is not that of a fresh lowering".to_owned());
        }
        if Table::ALL.iter().any(|it| *it != Table::Own && self.host.table(*it).is_some()) {
            return Err("at rest a table stands beside the own one".to_owned());
        }
        let frames = self.host.table(Table::Frames).map(|it| Frames::of(it).links).unwrap_or_default();
        if frames != view.links.values().cloned().collect::<BTreeSet<String>>() {
            return Err(format!("at rest the frames of {frames:?} are checked"));
        }
        let closed = self.host.table(Table::UnknownPods).map(UnknownPods::pods_of).unwrap_or_default();
        let is_known = self.world.pods.contains_key(&5);
        let expected = if is_known { BTreeSet::new() } else { self.host.routes.clone() };
        if closed != expected {
            return Err(format!("at rest {closed:?} are closed, and {expected:?} should be"));
        }
        Ok(())
    }

    /// At rest no connection is left that is denied, or whose pod is another one.
    fn check_connections(&mut self) -> Result<(), String> {
        let model = self.world.model();
        for tracked in &self.host.tracked {
            let slots = [tracked.way.from, tracked.way.to];
            let is_ours = slots.iter().any(|it| link(*it).is_some() && self.world.pods.contains_key(it));
            let source = tracked.connection.protocol == 6;
            if is_ours && source && !tracked.way.is_allowed_by_both(&model) {
                return Err(format!("at rest {:?} lives on and is denied", tracked.way));
            }
            // An agent that was not there could not see who left.
            if tracked.incarnation != self.host.incarnation {
                continue;
            }
            let owners = slots.map(|it| self.world.pod_name(it));
            let changed = slots.iter().zip(&owners).zip(&tracked.owners).any(|((slot, now), then)| SLOTS.contains(slot) && now != then);
            let indexes = slots.map(|it| link(it).and_then(|it| self.host.links.get(&it).copied()));
            let renewed = indexes.iter().zip(&tracked.links).any(|(now, then)| then.is_some() && now != then);
            if is_ours && (changed || renewed) {
                return Err(format!("at rest a connection of {:?} lives on, and they are {owners:?} now", tracked.owners));
            }
        }
        Ok(())
    }
}

impl State {
    /// Whether the agent has nothing to do but to wait.
    fn is_at_rest(&self) -> bool {
        self.job.is_none()
            && self.pending.due().is_none()
            && self.suspects.is_empty()
            && self.requests.is_empty()
            && self.sweep.is_idle()
            && self.links == Seen::Yes
            && self.routes == Seen::Yes
            && self.recompute.waiting.is_none()
    }

    /// Whether a job brings a change into force.
    fn is_applying(&self) -> bool {
        self.job.as_ref().is_some_and(|it| matches!(it.kind, super::job::Kind::Apply))
    }

    /// Whether the agent has ever applied something to a table.
    fn has_applied(&self, table: Table) -> bool {
        match table {
            Table::Own | Table::Next | Table::Again => self.own.wanted().is_some(),
            Table::Frames => self.frames.is_applied(),
            Table::UnknownPods => self.unknown_table.is_applied(),
            Table::Replies => self.replies_table.is_applied(),
            Table::Audit => self.audit_table.is_applied(),
        }
    }

    /// The content that a table should have.
    fn wanted(&self, table: Table) -> Option<palisade_nft::Ruleset> {
        match table {
            Table::Own => self.own.wanted().map(|it| it.as_ref().clone()),
            Table::Next | Table::Again => None,
            Table::Frames => self.frames.wanted(),
            Table::UnknownPods => self.unknown_table.wanted(),
            Table::Replies => self.replies_table.wanted(),
            Table::Audit => self.audit_table.wanted(),
        }
    }
}

fn short(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take(230).collect()
}

/// Runs histories on all processors. The first that goes wrong, with its seed.
fn histories(first: u64, count: u64, mistake: Option<Mistake>) -> (Counters, Option<(u64, String)>) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let run = |thread: usize| {
            let (mut counters, mut wrong) = (Counters::default(), None);
            for seed in (first..first + count).skip(thread).step_by(threads) {
                let mut history = History::new(seed, mistake);
                let result = history.run();
                history.host.counters.histories += 1;
                counters.add(&history.host.counters);
                if let Err(error) = result {
                    wrong = Some((seed, error));
                    break;
                }
            }
            (counters, wrong)
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let mut all = (Counters::default(), None);
        for (counters, wrong) in running.into_iter().map(|it| it.join().unwrap()) {
            all.0.add(&counters);
            all.1 = all.1.or(wrong);
        }
        all
    })
}

#[test]
fn no_history_leaks_loses_or_forgets() {
    if let Ok(seed) = std::env::var(SEED) {
        let mut history = History { prints: true, ..History::new(seed.parse().unwrap(), None) };
        return history.run().unwrap_or_else(|error| panic!("{error}"));
    }
    let full = std::env::var(HISTORIES).ok().map(|it| it.parse().unwrap());
    let (counters, wrong) = histories(0, full.unwrap_or(60), None);
    println!("{counters:#?}");
    if let Some((seed, error)) = wrong {
        panic!("history {seed}: {error}");
    }
    if full.is_some_and(|it| it >= 10_000) {
        for (what, counts) in [("failed", &counters.failed), ("delayed", &counters.delayed), ("killed", &counters.killed)] {
            let rare: BTreeMap<_, _> =
                counters.done.keys().map(|it| (it, counts.get(it).copied().unwrap_or(0))).filter(|it| it.1 < LEAST).collect();
            assert!(rare.is_empty(), "rarely {what}: {rare:?}");
        }
    }
}

/// A change that the lowering missed is found by no comparison of tables, because the agent wants the wrong ruleset.
#[test]
fn a_recomputation_finds_a_change_that_the_lowering_missed() {
    let mut history = History::new(1, None);
    history.tell();
    history.rest().unwrap();
    let stale = history.state.lowered.clone().unwrap();
    let mut lowering = Lowering::new(Layout::CURRENT);
    let view = NodeView { node: NodeId(0), links: history.world.links(), unknown: unknown() };
    lowering.lower(&history.world.model(), &view);
    while history.state.lowered.as_ref() == Some(&stale) {
        history.world.change(&mut history.random);
        history.rest().unwrap();
    }
    (history.state.lowering, history.state.lowered) = (lowering, Some(stale));
    history.take(Input::Relisted).unwrap();
    assert_eq!(history.rest(), Ok(()));
    assert_eq!((history.state.counts.mismatches, history.host.mismatches), (1, 1));
}

#[test]
fn every_mistake_is_found() {
    for mistake in Mistake::ALL {
        let (counters, wrong) = histories(0, 2_000, Some(mistake));
        let (seed, error) = wrong.unwrap_or_else(|| panic!("{mistake:?} is not found in {} histories", counters.histories));
        println!("{mistake:?}: history {seed}: {error}");
    }
}
