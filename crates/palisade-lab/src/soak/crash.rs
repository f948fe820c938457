//! Agents that are killed in the middle of a change.
//!
//! Such an agent is a process of its own. It is told the seed and the number of a change, and comes to the same cluster by making the same changes.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use palisade_agent::{Attention, Running};
use palisade_kernel::{Kernel as _, Namespace, Nftables};
use palisade_model::{EndpointId, NodeId};
use palisade_nft::Table;
use serde::{Deserialize, Serialize};

use crate::lab::{Lab, LabError};
use crate::plan::plan;
use crate::soak::random::Random;
use crate::soak::world::{NODES, World};
use crate::soak::{OPTIONS, SoakError, change};

/// How to start a process that calls [`be_agent`] with these words.
pub type Start = fn(&str) -> io::Result<Command>;

/// What an agent says right before it makes its change, and right after.
const READY: &str = "ready";
const DONE: &str = "done";
/// How long a process may take to get there.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a change is thought to take, at first, at least and at most.
const FIRST: Duration = Duration::from_millis(300);
const LEAST: Duration = Duration::from_micros(200);
const MOST: Duration = Duration::from_secs(2);

/// What a process is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    seed: u64,
    /// From 0.
    change: usize,
    node: usize,
    namespace: PathBuf,
    links: BTreeMap<usize, String>,
}

/// How killed agents fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    /// In the middle of their change.
    pub amid: usize,
    /// They had just made it.
    pub after: usize,
    /// With two tables in force.
    pub beside: usize,
}

/// Who kills.
#[derive(Debug)]
pub(crate) struct Killer {
    start: Start,
    random: Random,
    /// How long a change seems to take.
    usual: Duration,
    pub(crate) kills: Kills,
}

impl Killer {
    pub(crate) fn new(start: Start, seed: u64) -> Killer {
        Killer { start, random: Random::new(!seed), usual: FIRST, kills: Kills::default() }
    }

    /// Lets a process make a change on one of the nodes in place of its agent, kills it, and starts an agent again. The lab is built for the
    /// change, which is the one of that number.
    pub(crate) fn strike(&mut self, lab: &mut Lab, seed: u64, change: usize) -> Result<(), SoakError> {
        let node = self.random.below(NODES.len());
        let links = lab.links(NodeId(node)).into_iter().map(|(id, link)| (id.0, link)).collect();
        let Some(name) = NODES.get(node) else { return Ok(()) };
        let struck = lab.without_agent(name, |namespace| {
            let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd()));
            self.kill(&Order { seed, change, node, namespace: path, links }).map_err(SoakError::Process)?;
            self.kills.beside += usize::from(beside(namespace)?.is_some());
            Ok(())
        })?;
        struck.unwrap_or(Ok(()))
    }

    fn kill(&mut self, order: &Order) -> io::Result<()> {
        let words = serde_json::to_string(order)?;
        let mut command = (self.start)(&words)?;
        let mut child = Dying(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let stdout = child.0.stdout.take().ok_or_else(|| io::Error::other("a process that says nothing"))?;
        let mut lines = BufReader::new(stdout);
        await_word(&mut lines, READY)?;
        // A random moment is what is wanted.
        let micros = u64::try_from(self.usual.as_micros()).unwrap_or(u64::MAX);
        std::thread::sleep(Duration::from_micros(self.random.number() % micros.max(1)));
        child.0.kill()?;
        child.0.wait()?;
        // What it said before it died is still there.
        let mut rest = String::new();
        io::Read::read_to_string(&mut lines, &mut rest)?;
        if rest.lines().any(|it| it.ends_with(DONE)) {
            self.kills.after += 1;
            self.usual = (self.usual * 4 / 5).max(LEAST);
        } else {
            self.kills.amid += 1;
            self.usual = (self.usual * 21 / 20).min(MOST);
        }
        Ok(())
    }
}

/// A process that does not outlive this value.
struct Dying(Child);

impl Drop for Dying {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and that is well.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Reads until a line ends with a word: the harness of a test may have begun the line.
fn await_word(lines: &mut BufReader<std::process::ChildStdout>, word: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(lines.get_ref().as_fd(), PollFlags::POLLIN)];
        if lines.buffer().is_empty() && poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX))? == 0 {
            return Err(io::Error::other("the process of an agent is not ready in time"));
        }
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the process of an agent ended before its change"));
        }
        if line.trim_end().ends_with(word) {
            return Ok(());
        }
    }
}

/// In a process of its own: is the agent of a node for one change, and tells so on the standard output.
pub fn be_agent(words: &str) -> Result<(), SoakError> {
    let order: Order = serde_json::from_str(words).map_err(|error| SoakError::Process(error.into()))?;
    let mut random = Random::new(order.seed);
    let mut world = World::first();
    let first = plan(&world.model(), &OPTIONS)?;
    for _ in 0..=order.change {
        world = change::next(&world, &mut random).ok_or(SoakError::Stuck)?.world;
    }
    let plan = first.next(&world.model(), &OPTIONS)?;
    let node = NodeId(order.node);
    let name = NODES.get(order.node).copied().unwrap_or_default();
    let agent = Running::start(&Namespace::open(&order.namespace)?, Attention::Connections, |_| {})
        .map_err(|error| LabError::Start { node: name.into(), error })?;
    let links = order.links.into_iter().map(|(id, link)| (EndpointId(id), link)).collect();
    say(READY)?;
    agent.apply(&Arc::new(plan.model), node, links).map_err(|error| LabError::Agent { node: name.into(), error })?;
    say(DONE)
}

fn say(word: &str) -> Result<(), SoakError> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{word}").and_then(|()| stdout.flush()).map_err(SoakError::Process)
}

/// What is wrong with the tables of a node after its agent has made its change: there is one, and nothing beside it.
pub(crate) fn beside(namespace: &Namespace) -> Result<Option<String>, SoakError> {
    let standing = namespace.run(|| Nftables::open()?.standing())??;
    Ok((standing != [Table::Own]).then(|| format!("{standing:?} stand")))
}
