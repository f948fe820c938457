//! What is measured: grounds with their rulesets, the traffic over each, and the numbers that come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use palisade_kernel::{Log, LogOptions, Namespace, Nftables, TableKeeper};
use palisade_model::Family;
use palisade_nft::{Frames, LOG_GROUP, Ruleset, Table};

use super::changes::Lowered;
use super::ground::{Ground, TO_SERVER};
use super::rulesets::{Foreign, bare, conntrack_only, iptables, linear};
use super::traffic::{Callers, Ending, Traffic, Way};
use super::{Clusters, Extent};
use crate::bench::clock::timed;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// New connections in a second of CPU time, closed by both ends.
    Exchanges,
    /// The same, ended by a reset.
    Connections,
    /// Those that are reset, each logged to a reader that reads later.
    ConnectionsLogged,
    /// Packets of established flows in a second of CPU time.
    Established,
    /// The same of what called pods send.
    Answers,
    /// Seconds of CPU time for a denied packet, if nobody reads the log.
    Denied,
    /// The same while the log has a reader that reads later.
    DeniedAndLogged,
    /// Seconds of the reader's CPU time for an event.
    Reading,
}

const MAIN: &[Measure] = &[Measure::Exchanges, Measure::Connections, Measure::Established, Measure::Answers, Measure::Denied];
const UNFILTERED: &[Measure] = &[Measure::Exchanges, Measure::Connections, Measure::Established, Measure::Answers];
const PALISADE: &[Measure] =
    &[Measure::Exchanges, Measure::Connections, Measure::Established, Measure::Answers, Measure::Denied, Measure::DeniedAndLogged];
const LOGGING: &[Measure] = &[Measure::Connections, Measure::ConnectionsLogged];
const SIDE: &[Measure] = &[Measure::Exchanges, Measure::Connections, Measure::Denied];

/// One line of the tables.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    ground: usize,
    /// The row that this one is compared with.
    pub(super) baseline: usize,
    measures: &'static [Measure],
    traffic: Traffic,
    counts: BTreeMap<Measure, u32>,
    pub(super) values: BTreeMap<Measure, Vec<f64>>,
}

#[derive(Debug)]
pub(super) struct Rows {
    grounds: Vec<Ground>,
    pub(super) rows: Vec<Row>,
    /// Designs that cannot be measured here, and the program that is missing.
    pub(super) missing: BTreeMap<&'static str, &'static str>,
    /// CPU time of one measurement.
    turn: Duration,
}

/// The row of conntrack alone, which comes second.
const CONNTRACK: usize = 1;
/// Callers that a node hears of all the time: what is asked about them is in caches. Of all addresses each is met once in a while, and nothing is.
const USUAL: usize = 64;
pub(super) const FEW_CALLERS: &str = ", 64 callers";
/// What every policy accepts is logged.
const LOGGED: &str = "palisade, 1000 policies, all logging";
/// How often a reader is asked for the rest of its events.
const READS: usize = 200;
/// Operations before the first measurement, to see how many fit into a turn.
const TRIAL: u32 = 50;
const MOST: f64 = 20_000.0;

/// What stands on a ground.
enum Loaded<'a> {
    Nothing,
    /// A table of ours and nothing else.
    Table(&'a Ruleset),
    /// All that an agent leaves on a node.
    Agent(&'a Ruleset),
    Foreign(&'a Foreign),
}

impl Rows {
    pub(super) fn set_up(clusters: &Clusters, extent: Extent) -> Result<Rows> {
        let turn = match extent {
            Extent::Whole => Duration::from_millis(25),
            Extent::Quick => Duration::from_millis(10),
        };
        let mut rows = Rows { grounds: Vec::new(), rows: Vec::new(), missing: BTreeMap::new(), turn };
        let callers = Callers::Remote(clusters.by_size.iter().map(|it| it.size.remote).min().unwrap_or_default());
        let plain = [(String::new(), Family::V4, callers)];
        let usual = (FEW_CALLERS.to_owned(), Family::V4, Callers::Remote(USUAL));
        let own = [plain[0].clone(), usual.clone()];
        let few = Callers::Remote(clusters.dual.size.remote);
        let all = [
            (String::new(), Family::V4, callers),
            usual,
            (", IPv6".to_owned(), Family::V6, few),
            (", both ends on the node".to_owned(), Family::V4, Callers::Local),
        ];
        rows.add("no policy", &Loaded::Nothing, &plain, UNFILTERED)?;
        rows.add("conntrack only", &Loaded::Table(&conntrack_only()), &all, MAIN)?;
        for Lowered { size, ruleset, .. } in &clusters.by_size {
            rows.add(&format!("palisade, {} policies", size.policies), &Loaded::Agent(ruleset), &own, PALISADE)?;
        }
        rows.add(LOGGED, &Loaded::Agent(&clusters.logging), &plain, LOGGING)?;
        let name = format!("palisade, {} policies", clusters.dual.size.policies);
        let [_, _, side @ ..] = all;
        rows.add(&name, &Loaded::Agent(&clusters.dual.ruleset), &side, SIDE)?;
        for make in [bare, linear, iptables] {
            for Lowered { size, .. } in &clusters.by_size {
                let foreign = make(*size);
                match foreign.missing() {
                    Some(program) => {
                        rows.missing.insert(foreign.name, program);
                    }
                    None => {
                        let name = format!("{}, {} policies", foreign.name, size.policies);
                        rows.add(&name, &Loaded::Foreign(&foreign), &plain, MAIN)?;
                    }
                }
            }
        }
        Ok(rows)
    }

    /// A ground with its ruleset, and a row for each kind of traffic over it.
    fn add(&mut self, name: &str, loaded: &Loaded<'_>, kinds: &[(String, Family, Callers)], measures: &'static [Measure]) -> Result<()> {
        let ground = Ground::create()?;
        let mut traffics = Vec::new();
        for (slot, (kind, family, callers)) in (0..).zip(kinds) {
            let mut traffic = Traffic::open(&ground, *family, *callers, slot)?;
            if !traffic.closed_port_is_open(&ground).with_context(|| format!("`{name}{kind}`, before there is a ruleset"))? {
                bail!("`{name}{kind}`: what is to be denied does not even come through without a ruleset");
            }
            traffics.push((kind, traffic));
        }
        match loaded {
            Loaded::Nothing => {}
            Loaded::Table(ruleset) => ground.router.run(|| Nftables::open()?.load(ruleset))??,
            Loaded::Agent(ruleset) => ground.router.run(|| {
                let frames = Frames { links: [TO_SERVER.to_owned()].into() };
                TableKeeper::new(Nftables::open()?, Table::Frames).replace(frames.ruleset(None))?;
                Nftables::open()?.load(ruleset)
            })??,
            Loaded::Foreign(foreign) => foreign.load(&ground.router)?,
        }
        for (kind, mut traffic) in traffics {
            let open = traffic.closed_port_is_open(&ground).with_context(|| format!("`{name}{kind}`"))?;
            if open != matches!(loaded, Loaded::Nothing) {
                bail!("`{name}{kind}`: what is to be denied comes through");
            }
            let name = format!("{name}{kind}");
            // Like is compared with like: the same kind of traffic over conntrack alone.
            let like = self.rows.iter().position(|it| it.name == format!("conntrack only{kind}"));
            let measures = if kind.is_empty() { measures } else { SIDE };
            let (counts, values) = (BTreeMap::new(), BTreeMap::new());
            let baseline = like.unwrap_or(if kind.is_empty() { CONNTRACK } else { self.rows.len() });
            let mut row = Row { name, ground: self.grounds.len(), baseline, measures, traffic, counts, values };
            row.try_out(&ground, self.turn)?;
            self.rows.push(row);
        }
        self.grounds.push(ground);
        Ok(())
    }

    /// The namespace that has the ruleset of a row.
    pub(super) fn router(&self, row: usize) -> Option<&Namespace> {
        Some(&self.grounds.get(self.rows.get(row)?.ground)?.router)
    }

    /// Measures everything once.
    pub(super) fn round(&mut self) -> Result<()> {
        for row in &mut self.rows {
            let ground = self.grounds.get(row.ground).context("a row without a ground")?;
            ground.client.enter()?;
            for measure in row.measures {
                let count = row.counts.get(measure).copied().unwrap_or(TRIAL);
                let seconds = row.measure(ground, *measure, count).with_context(|| format!("`{}`, {measure:?}", row.name))?;
                let value = match measure {
                    Measure::Exchanges | Measure::Connections | Measure::ConnectionsLogged | Measure::Established | Measure::Answers => {
                        1.0 / seconds
                    }
                    Measure::Denied | Measure::DeniedAndLogged | Measure::Reading => seconds,
                };
                row.values.entry(*measure).or_default().push(value);
            }
        }
        Ok(())
    }
}

impl Row {
    /// Finds out how many operations fit into a turn.
    fn try_out(&mut self, ground: &Ground, turn: Duration) -> Result<()> {
        ground.client.enter()?;
        for measure in self.measures {
            let seconds = self.measure(ground, *measure, TRIAL)?;
            let fitting = (turn.as_secs_f64() / seconds).clamp(f64::from(TRIAL), MOST);
            let count = (TRIAL..).find(|it| f64::from(*it) >= fitting).unwrap_or(TRIAL);
            self.counts.insert(*measure, count);
        }
        self.values.clear();
        Ok(())
    }

    /// Seconds of CPU time for one of `count` operations.
    fn measure(&mut self, ground: &Ground, measure: Measure, count: u32) -> Result<f64> {
        let traffic = &mut self.traffic;
        let ((), took) = match measure {
            Measure::Exchanges => timed(|| traffic.connections(count, Ending::Closed))?,
            Measure::Connections => timed(|| traffic.connections(count, Ending::Reset))?,
            Measure::ConnectionsLogged => {
                let mut log = ground.router.run(|| Log::open(LOG_GROUP, LogOptions::default()))??;
                let called = timed(|| traffic.connections(count, Ending::Reset))?;
                read_all(&mut log, count)?;
                called
            }
            Measure::Established => {
                traffic.establish()?;
                timed(|| traffic.established(Way::ToPods, count))?
            }
            Measure::Answers => {
                traffic.establish()?;
                timed(|| traffic.established(Way::FromPods, count))?
            }
            Measure::Denied | Measure::Reading => timed(|| traffic.denied(count))?,
            Measure::DeniedAndLogged => {
                let mut log = ground.router.run(|| Log::open(LOG_GROUP, LogOptions::default()))??;
                let sent = timed(|| traffic.denied(count))?;
                let ((), reading) = timed(|| read_all(&mut log, count))?;
                self.values.entry(Measure::Reading).or_default().push(reading.cpu.as_secs_f64() / f64::from(count));
                sent
            }
        };
        Ok(took.cpu.as_secs_f64() / f64::from(count))
    }
}

/// Reads an event for each packet that was sent.
fn read_all(log: &mut Log, count: u32) -> Result<()> {
    let mut events = 0;
    for _ in 0..READS {
        let read = log.read(Duration::from_millis(100), |_| {})?;
        events += read.events;
        if read.lost > 0 {
            bail!("{} events were lost", read.lost);
        }
        if events == u64::from(count) {
            return Ok(());
        }
    }
    bail!("{events} events of {count} packets")
}
