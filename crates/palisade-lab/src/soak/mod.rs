//! A lab under change: packets that must not pass and packets that must, while pods, policies and agents come and go.
//!
//! What policy says of each packet is asked of the model before and after each change. Whatever both deny must never arrive, whatever both accept must
//! never be lost.

mod change;
mod classes;
mod crash;
mod ledger;
mod random;
mod tally;
mod traffic;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use palisade_agent::{Established, Event, Notice};
use palisade_engine::Decision;
use palisade_kernel::{KernelError, Namespace, set_sysctl};
use palisade_model::NodeId;

use crate::lab::{Lab, LabError, NodeEvent};
use crate::plan::{Families, Nodes, Options, Plan, PlanError, PodNetwork, WhileUnknown, plan};
use crate::question::Speaker;

pub use change::Kind;
pub use crash::{Kills, Start, be_agent};
pub use tally::{Breach, Broken, Count};

use change::{Change, OUTSIDE};
use classes::{Claim, Class, Line, claim, classes};
use crash::Killer;
use ledger::{Ledger, Made};
use random::Random;
use tally::Tally;
use traffic::{Order, Place, Traffic, greet};
use world::{NODES, Presence, World};

/// What a soak does.
#[derive(Clone, Copy, Debug)]
pub struct SoakOptions {
    pub changes: usize,
    pub seed: u64,
    pub agents: Agents,
}

/// How agents fare.
#[derive(Clone, Copy, Debug)]
pub enum Agents {
    /// They are asked to end.
    Live,
    /// In each change that of one node is killed, and another takes over.
    Die(Start),
}

/// What came of a soak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soaked {
    pub seed: u64,
    /// How many of each kind were made.
    pub changes: BTreeMap<Kind, usize>,
    /// Packets by the kind of change that they met; none between changes.
    pub counts: BTreeMap<Option<Kind>, Count>,
    /// Some of those that should not be.
    pub breaches: Vec<Breach>,
    /// What agents said that should not be.
    pub incidents: Vec<String>,
    /// Packets that the kernel had no way for, and those that came too late to be counted.
    pub unsent: u64,
    pub late: u64,
    /// Datagrams that a full socket refused.
    pub overruns: u64,
    /// Agents that were killed.
    pub kills: Kills,
    /// How long the changes took, packets or not.
    pub took: Duration,
}

/// Why a soak did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("change {number} ({kind}: {words}): {error}")]
    Change { number: usize, kind: Kind, words: String, error: Box<SoakError> },
    #[error("no change is possible any more")]
    Stuck,
    #[error("packets: {0}")]
    Packets(io::Error),
    #[error("the process of an agent: {0}")]
    Process(io::Error),
}

impl From<KernelError> for SoakError {
    fn from(error: KernelError) -> SoakError {
        SoakError::Lab(LabError::Kernel(error))
    }
}

const OPTIONS: Options =
    Options { nodes: Nodes::AsRead, families: Families::Both, network: PodNetwork::Routed, unknown: WhileUnknown::CLOSED };

/// Connections that nobody answers are forgotten soon: there is a new one with each packet.
const FORGET: [(&str, &str); 3] = [
    ("net/netfilter/nf_conntrack_udp_timeout", "1"),
    ("net/netfilter/nf_conntrack_tcp_timeout_syn_sent", "1"),
    ("net/netfilter/nf_conntrack_tcp_timeout_close", "1"),
];

/// Makes changes under traffic. `progress` hears how many are done.
pub fn soak(options: &SoakOptions, mut progress: impl FnMut(usize)) -> Result<Soaked, SoakError> {
    let world = World::first();
    let plan = plan(&world.model(), &OPTIONS)?;
    let classes: Arc<[Class]> = classes(&plan).into();
    let (events, heard) = channel();
    // Nothing that is sent here is ever answered, so there is no connection to end; but there are many entries to look at.
    let (lab, _) = Lab::up_with(plan, Established::Keep, events, |_| {})?;
    let ledger = Arc::new(Ledger::default());
    let (orders, obeyed) = channel();
    let traffic = Traffic::new(Arc::clone(&classes), Arc::clone(&ledger), obeyed, options.seed).map_err(SoakError::Packets)?;
    let mut soak = Soak {
        decided: decide_all(&classes, lab.plan()),
        lab,
        world,
        random: Random::new(options.seed),
        classes,
        ledger,
        orders,
        heard,
        changes: BTreeMap::new(),
        incidents: Vec::new(),
        overruns: 0,
        seed: options.seed,
        killer: match options.agents {
            Agents::Live => None,
            Agents::Die(start) => Some(Killer::new(start, options.seed)),
        },
    };
    soak.prepare()?;
    let start = Instant::now();
    let thread = std::thread::Builder::new().name("traffic".to_owned()).spawn(move || traffic.run()).map_err(SoakError::Packets)?;
    let made = (0..options.changes).try_for_each(|number| {
        if thread.is_finished() {
            // What went wrong is told when it is joined.
            return Ok(());
        }
        soak.make(number)?;
        progress(number + 1);
        Ok(())
    });
    let took = start.elapsed();
    soak.ledger.end();
    let tally = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(SoakError::Packets)?;
    made.and_then(|()| soak.end(options.seed, tally, took))
}

/// A soak at work.
struct Soak {
    lab: Lab,
    world: World,
    random: Random,
    classes: Arc<[Class]>,
    /// About each class, by the model in force.
    decided: Vec<Option<Decision>>,
    ledger: Arc<Ledger>,
    orders: Sender<Order>,
    heard: Receiver<NodeEvent>,
    changes: BTreeMap<Kind, usize>,
    incidents: Vec<String>,
    overruns: u64,
    seed: u64,
    killer: Option<Killer>,
}

impl Soak {
    fn prepare(&mut self) -> Result<(), SoakError> {
        OUTSIDE.into_iter().try_for_each(|it| self.lab.be_outside(it))?;
        let lines = self.decided.iter().map(|it| Line::of(it.as_ref())).collect();
        self.ledger.begin(Arc::new(self.lab.plan().model.clone()), lines);
        for node in NODES {
            if let Some(namespace) = self.lab.namespace(&Speaker::Node(node.into())) {
                namespace.run(|| FORGET.into_iter().try_for_each(|(name, value)| set_sysctl(name, value)))??;
            }
        }
        let all = self.world.pods.iter().map(|it| Speaker::Pod(it.name.clone())).chain([Speaker::Outside]);
        all.collect::<Vec<_>>().into_iter().try_for_each(|it| self.come(it))
    }

    fn make(&mut self, number: usize) -> Result<(), SoakError> {
        let Change { kind, words, world, restarts } = change::next(&self.world, &mut self.random).ok_or(SoakError::Stuck)?;
        let plan = self.lab.plan().next(&world.model(), &OPTIONS)?;
        let decided = decide_all(&self.classes, &plan);
        self.order(Order::Hot(self.hot(&decided, &restarts)));
        let (come, go) = (self.those(&world, Presence::Here), self.those(&world, Presence::Gone));
        for speaker in go {
            self.overruns += self.overruns_of(&speaker)?;
            self.order(Order::Go(speaker));
        }
        let lines = decided.iter().map(|it| Line::of(it.as_ref())).collect();
        self.ledger.announce(Made { kind, words: words.clone() }, Arc::new(plan.model.clone()), lines);
        self.apply(number, plan, &restarts).map_err(|error| SoakError::Change { number, kind, words, error: Box::new(error) })?;
        // Its sockets are there before anybody counts on it.
        come.into_iter().try_for_each(|it| self.come(it))?;
        self.ledger.done();
        (self.world, self.decided) = (world, decided);
        *self.changes.entry(kind).or_default() += 1;
        self.hear(number);
        Ok(())
    }

    fn apply(&mut self, number: usize, plan: Plan, restarts: &[NodeId]) -> Result<(), SoakError> {
        restarts.iter().filter_map(|it| NODES.get(it.0)).try_for_each(|it| self.lab.restart_agent(it))?;
        self.lab.build(plan, &mut |_| {})?;
        if let Some(killer) = &mut self.killer {
            killer.strike(&mut self.lab, self.seed, number)?;
        }
        self.lab.enforce_all(&mut |_| {})?;
        for node in NODES {
            let namespace = self.lab.namespace(&Speaker::Node(node.into()));
            let wrong = namespace.map(crash::beside).transpose()?.flatten();
            self.incidents.extend(wrong.map(|it| format!("change {number}, {node}: {it}")));
        }
        Ok(())
    }

    /// The classes that a change is about, the more often the easier they would leak: those of which nothing may be seen, though they are decided in
    /// another way.
    fn hot(&self, next: &[Option<Decision>], restarts: &[NodeId]) -> Vec<usize> {
        let mut hot = Vec::new();
        for (at, ((class, before), after)) in self.classes.iter().zip(&self.decided).zip(next).enumerate() {
            let lines = [before, after].map(|it| Line::of(it.as_ref()));
            let [first, second] = lines;
            let times = match claim(class.judges, lines.into_iter()) {
                Claim::Denied | Claim::Accepted if first != second => 8,
                Claim::Denied | Claim::Accepted if before != after => 4,
                // Agents that start anew write everything.
                Claim::Denied | Claim::Accepted | Claim::DeniedByTurns => usize::from(!restarts.is_empty() || before != after),
                Claim::Either => 0,
            };
            hot.extend(std::iter::repeat_n(at, times));
        }
        hot
    }

    /// Pods that are here, or gone, only in another world.
    fn those(&self, next: &World, presence: Presence) -> Vec<Speaker> {
        let pairs = self.world.pods.iter().zip(&next.pods);
        pairs
            .filter(|(before, after)| before.presence != after.presence && after.presence == presence)
            .map(|(_, it)| Speaker::Pod(it.name.clone()))
            .collect()
    }

    fn come(&self, speaker: Speaker) -> Result<(), SoakError> {
        let Some(namespace) = self.lab.namespace(&speaker) else { return Ok(()) };
        let place = namespace.run(Place::open)?.map_err(SoakError::Packets)?;
        if let Some((node, addresses)) = self.neighbour(&speaker) {
            // What a node says to its own pods meets no policy.
            node.run(|| greet(&place, addresses))?.map_err(SoakError::Packets)?;
        }
        self.order(Order::Come(speaker, place));
        Ok(())
    }

    /// The node of a pod, and the addresses at which it finds it.
    fn neighbour(&self, speaker: &Speaker) -> Option<(&Namespace, &[IpAddr])> {
        let model = &self.lab.plan().model;
        let endpoint = model.endpoints.iter().find(|it| Speaker::Pod(it.name.clone()) == *speaker)?;
        let node = model.node(endpoint.node?)?;
        Some((self.lab.namespace(&Speaker::Node(node.name.clone()))?, &endpoint.addresses))
    }

    /// A thread that has ended has said why.
    fn order(&self, order: Order) {
        drop(self.orders.send(order));
    }

    fn hear(&mut self, number: usize) {
        for NodeEvent { node, event } in self.heard.try_iter() {
            match event {
                Event::Denied(_) | Event::DeniedAgain(_) | Event::Lost(_) | Event::Cut(_) => {}
                Event::Suppressed { .. } | Event::Accepted(_) | Event::AcceptedMore { .. } | Event::Would(_) | Event::WouldMore { .. } => {}
                Event::Restored { checked, by } => self.incidents.push(format!("change {number}, {node}: {checked:?} by {by}")),
                Event::Bypassed(finding) => self.incidents.push(format!("change {number}, {node}: {}", finding.sentence)),
                // Nothing is wrong with a table that was looked at once more.
                Event::Noticed(Notice::Missed) => {}
                Event::Noticed(notice) => self.incidents.push(format!("change {number}, {node}: {notice}")),
                Event::Failed(why) => self.incidents.push(format!("change {number}, {node}: {why}")),
            }
        }
    }

    /// Datagrams that a pod's full sockets refused.
    fn overruns_of(&self, speaker: &Speaker) -> Result<u64, SoakError> {
        let Some(namespace) = self.lab.namespace(speaker) else { return Ok(0) };
        namespace.run(overruns)?.map_err(SoakError::Packets)
    }

    fn end(mut self, seed: u64, tally: Tally, took: Duration) -> Result<Soaked, SoakError> {
        let all: Vec<Speaker> = self.lab.namespaces().into_iter().map(|(it, _)| it).collect();
        for speaker in all {
            self.overruns += self.overruns_of(&speaker)?;
        }
        self.hear(self.changes.values().sum());
        let Tally { counts, breaches, unsent, late } = tally;
        let Soak { changes, incidents, overruns, killer, .. } = self;
        let kills = killer.map(|it| it.kills).unwrap_or_default();
        Ok(Soaked { seed, changes, counts, breaches, incidents, unsent, late, overruns, kills, took })
    }
}

fn decide_all(classes: &[Class], plan: &Plan) -> Vec<Option<Decision>> {
    classes.iter().map(|it| it.decided(&plan.model)).collect()
}

/// What the sockets of the calling thread's namespace refused.
fn overruns() -> io::Result<u64> {
    let six = std::fs::read_to_string("/proc/thread-self/net/snmp6")?;
    let four = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let six = six.lines().filter_map(|it| it.strip_prefix("Udp6RcvbufErrors")).filter_map(|it| it.trim().parse::<u64>().ok());
    let mut udp = four.lines().filter_map(|it| it.strip_prefix("Udp: "));
    let at = udp.next().and_then(|names| names.split_whitespace().position(|it| it == "RcvbufErrors"));
    let four = udp.next().zip(at).and_then(|(values, at)| values.split_whitespace().nth(at)?.parse::<u64>().ok());
    Ok(six.chain(four).sum())
}

impl Soaked {
    /// All packets.
    pub fn total(&self) -> Count {
        self.counts.values().fold(Count::default(), |sum, it| sum.and(*it))
    }

    /// Whether nothing was delivered or lost that should not be, and no agent failed.
    pub fn is_clean(&self) -> bool {
        let total = self.total();
        total.leaked == 0 && total.lost == 0 && self.incidents.is_empty() && self.late == 0
    }

    /// The table, for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:30} {:>7} {:>10} {:>9} {:>10} {:>6} {:>8} {:>9}\n",
            "change", "changes", "denied", "DELIVERED", "allowed", "LOST", "by turns", "delivered"
        );
        let mut line = |name: &str, changes: usize, it: Count| {
            text += &format!(
                "{name:30} {changes:>7} {:>10} {:>9} {:>10} {:>6} {:>8} {:>9}\n",
                it.denied, it.leaked, it.accepted, it.lost, it.by_turns, it.by_turns_delivered
            );
        };
        for kind in Kind::ALL {
            let changes = self.changes.get(&kind).copied().unwrap_or_default();
            line(&kind.to_string(), changes, self.counts.get(&Some(kind)).copied().unwrap_or_default());
        }
        line("between changes", 0, self.counts.get(&None).copied().unwrap_or_default());
        let changes: usize = self.changes.values().sum();
        line("all", changes, self.total());
        text
    }
}
