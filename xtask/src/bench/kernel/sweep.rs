//! What it takes to find and forget the connections that a change denies, a few of many, as a ratio to reading the table of connections.
//!
//! A policy of every pod closes one port of a hundred, so all connections are read and judged. The agent is a real one; its sweeps are
//! measured by the CPU time of their thread, and from the moment at which the change is in force.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use palisade_agent::{Attention, Event, Running, Swept};
use palisade_kernel::{Conntrack, set_sysctl};
use palisade_model::{EndpointId, Family, Model};
use palisade_nft::Address;

use super::cluster::{CALLERS, LOCAL, NODE, OPEN, PolicyTypes, Size, Stack, is_called, local, remote};
use super::ground::{CALLERS_V6, Ground, TO_SERVER};
use crate::bench::clock::timed;
use crate::bench::{Line, Spread, Table, optimized};

const ROUNDS: usize = 9;
const MOST_ROUNDS: usize = 99;
/// Connections to each of the ports: a thousand in all that end.
const PER_PORT: usize = 1_000;
const PORTS: u16 = 100;
/// Longer than any sweep takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The agent rests after a sweep, for less than this.
const REST: Duration = Duration::from_millis(400);
const SIZE: Size = Size { policies: 100, remote: 2_000, groups: 50, types: PolicyTypes::Ingress, stack: Stack::Dual };

pub(crate) fn sweep(arguments: &[&str]) -> Result<()> {
    let rounds = match arguments {
        [] => ROUNDS,
        ["--rounds", value] => value.parse().with_context(|| format!("`--rounds {value}`: not a number"))?,
        other => bail!("`{}` is no option of `bench sweep`, or has no value", other.join(" ")),
    };
    if !(1..=MOST_ROUNDS).contains(&rounds) {
        bail!("`--rounds {rounds}`: from 1 to {MOST_ROUNDS}");
    }
    if cfg!(debug_assertions) {
        return optimized("sweep", arguments);
    }
    let mut tables = [Family::V4, Family::V6].into_iter().map(Connections::open).collect::<Result<Vec<_>>>()?;
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        tables.iter_mut().try_for_each(Connections::round)?;
    }
    tables.iter().try_for_each(Connections::report)
}

/// A node with many connections of one family.
struct Connections {
    family: Family,
    ground: Ground,
    agent: Running,
    open: Arc<Model>,
    closed: Arc<Model>,
    conntrack: Conntrack,
    measured: Measured,
}

/// In seconds.
#[derive(Debug, Default)]
struct Measured {
    /// CPU time of a reading that keeps nothing.
    reading: Vec<f64>,
    /// CPU time of a sweep.
    sweeping: Vec<f64>,
    /// From the change to the end of the sweep.
    elapsed: Vec<f64>,
}

impl Connections {
    fn open(family: Family) -> Result<Connections> {
        let ground = Ground::create()?;
        ground.router.run(|| set_sysctl("net/netfilter/nf_conntrack_udp_timeout", "3600"))??;
        let report = |event| {
            if let Event::Failed(error) = event {
                eprintln!("{error}");
            }
        };
        let agent = Running::start(&ground.router, Attention::Connections, report)?;
        let conntrack = ground.router.run(Conntrack::open)??;
        let (open, closed) = (Arc::new(SIZE.model()), Arc::new(SIZE.model_open_to(last_port() - 1)));
        let this = Connections { family, ground, agent, open, closed, conntrack, measured: Measured::default() };
        this.apply(&this.open)?;
        first_port_to_last().try_for_each(|port| this.call(port))?;
        Ok(this)
    }

    fn round(&mut self) -> Result<()> {
        self.apply(&self.open)?;
        self.swept()?;
        self.call(last_port())?;
        let before = self.count()?;
        ensure!(before >= PER_PORT * usize::from(PORTS), "{before} connections are too few");
        let family = match self.family {
            Family::V4 => Address::V4,
            Family::V6 => Address::V6,
        };
        let conntrack = &mut self.conntrack;
        let ((), reading) = timed(|| Ok(conntrack.each_between(Some(family), |_| false, |_| {})?))?;
        std::thread::sleep(REST);
        let spent = spent_by_sweeper()?;
        self.apply(&self.closed)?;
        let start = Instant::now();
        self.swept()?;
        let elapsed = start.elapsed();
        let sweeping = spent_by_sweeper()?.saturating_sub(spent);
        let after = self.count()?;
        ensure!(before - after == PER_PORT, "{} of {PER_PORT} connections have ended", before - after);
        for (list, time) in
            [(&mut self.measured.reading, reading.cpu), (&mut self.measured.sweeping, sweeping), (&mut self.measured.elapsed, elapsed)]
        {
            list.push(time.as_secs_f64());
        }
        Ok(())
    }

    fn report(&self) -> Result<()> {
        let reading = Spread::of(&self.measured.reading)?;
        let line = |name, values: &[f64]| -> Result<Line<'_>> {
            let spread = Spread::of(values)?;
            Ok((name, spread, Some(spread.median / reading.median)))
        };
        let lines = [
            line("reading the table, CPU time", &self.measured.reading)?,
            line("a sweep, CPU time", &self.measured.sweeping)?,
            line("a sweep, elapsed since the change", &self.measured.elapsed)?,
        ];
        let title = format!("{PER_PORT} of {} connections end, {:?}", PER_PORT * usize::from(PORTS), self.family);
        print!("{}", Table { title: &title, unit: "ms", scale: 1e3, digits: 1 }.text(&lines));
        Ok(())
    }

    fn apply(&self, model: &Arc<Model>) -> Result<()> {
        let called = model.endpoints.iter().enumerate().filter(|(_, it)| it.addresses.first().is_some_and(|it| is_called(*it)));
        let links: BTreeMap<EndpointId, String> = called.map(|(at, _)| (EndpointId(at), TO_SERVER.to_owned())).collect();
        self.agent.apply(model, NODE, links)?;
        Ok(())
    }

    fn swept(&self) -> Result<()> {
        ensure!(self.agent.await_sweep(PATIENCE) == Swept::All, "a sweep did not end");
        Ok(())
    }

    fn count(&mut self) -> Result<usize> {
        Ok(usize::try_from(self.conntrack.count()?)?)
    }

    /// Opens the connections to one port, each of another pair of pods.
    fn call(&self, port: u16) -> Result<()> {
        let callers = match self.family {
            Family::V4 => PER_PORT,
            Family::V6 => CALLERS_V6,
        };
        let pair = |at: usize| (remote(at % callers, self.family), local(CALLERS + at * 7 % (LOCAL - CALLERS), self.family));
        self.ground.client.run(|| (0..PER_PORT).map(pair).try_for_each(|(from, to)| send(from, to, port)))?
    }
}

fn send(from: IpAddr, to: IpAddr, port: u16) -> Result<()> {
    // The same port each time: what ended is opened again as it was.
    let socket = UdpSocket::bind((from, port)).with_context(|| format!("no socket at {from}"))?;
    socket.send_to(b"x", (to, port)).with_context(|| format!("nothing can be sent from {from} to {to}"))?;
    Ok(())
}

fn last_port() -> u16 {
    OPEN.1
}

fn first_port_to_last() -> std::ops::RangeInclusive<u16> {
    last_port() - PORTS + 1..=last_port()
}

/// CPU time of the threads of this process that sweep.
fn spent_by_sweeper() -> Result<Duration> {
    let mut spent = Duration::ZERO;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        if std::fs::read_to_string(thread.join("comm"))?.trim() == "sweeper" {
            let times = std::fs::read_to_string(thread.join("schedstat"))?;
            let nanoseconds = times.split(' ').next().and_then(|it| it.parse().ok()).context("no time of a thread")?;
            spent += Duration::from_nanos(nanoseconds);
        }
    }
    Ok(spent)
}
