//! What it costs to change the table: all of it, and one pod more or less.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use palisade_kernel::{Kernel as _, Links, Namespace, Nftables};
use palisade_model::{Action, Direction, EndpointId, Model, Rule, RuleRef};
use palisade_nft::{Change, Lowering, NodeView, PodLinks, Ruleset, Step, Transaction, Unknown, plan};

use super::cluster::{LOCAL, NODE, Size, is_called};
use super::ground::{LINK, TO_SERVER};
use crate::bench::clock::{Took, timed};

/// A cluster and what became of it.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) size: Size,
    pub(super) ruleset: Arc<Ruleset>,
    pub(super) lowering: Duration,
    /// One pod more, and the ruleset then, made of the one without it as an agent does.
    pub(super) grown: Vec<(Pod, Arc<Ruleset>)>,
}

/// Where the pod is that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pod {
    Remote,
    Local,
}

/// Lowers a cluster, and again with one pod more of each kind that is asked for.
pub(super) fn lowered(size: Size, pods: &[Pod]) -> Lowered {
    let (mut from, mut model) = (Lowering::default(), size.model());
    let start = Instant::now();
    let ruleset = of_node(&model, &mut from);
    let lowering = start.elapsed();
    let mut grown = Vec::new();
    for pod in pods {
        model.endpoints.push(match pod {
            Pod::Remote => size.remote_pod(size.remote),
            Pod::Local => size.local_pod(LOCAL),
        });
        grown.push((*pod, of_node(&model, &mut from)));
        model.endpoints.pop();
        of_node(&model, &mut from);
    }
    Lowered { size, ruleset, lowering, grown }
}

/// The ruleset of a cluster in which every policy wants to have logged what it accepts.
pub(super) fn logging(size: Size) -> Arc<Ruleset> {
    let mut model = size.model();
    for policy in &model.policies {
        for direction in Direction::BOTH {
            let rule = |it: &Rule| RuleRef { policy: policy.origin.clone(), direction, index: it.index, name: it.name.clone() };
            model.logged.extend(policy.rules.of(direction).iter().filter(|it| it.action == Action::Accept).map(rule));
        }
    }
    of_node(&model, &mut Lowering::default())
}

/// With the sources of the called pods bound to their link, which is closed to others as an agent closes it. Callers share theirs with pods of other nodes, so
/// it is not a pod's.
fn of_node(model: &Model, from: &mut Lowering) -> Arc<Ruleset> {
    let local = model.endpoints.iter().enumerate().filter(|(_, it)| it.node == Some(NODE));
    let called = local.filter(|(_, it)| it.addresses.first().is_some_and(|it| is_called(*it)));
    let links = called.map(|(at, _)| (EndpointId(at), TO_SERVER.to_owned())).collect();
    from.lower(model, &NodeView { node: NODE, links, unknown: Unknown::Closed(PodLinks::default()) }).0
}

/// How much a ruleset is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) chains: usize,
    pub(super) rules: usize,
    pub(super) elements: usize,
}

pub(super) fn amount(ruleset: &Ruleset) -> Amount {
    let data = ruleset.data.values().map(|it| it.elements.len());
    let sets = ruleset.sets.values().map(|it| it.elements.len());
    let intervals = ruleset.intervals.values().map(|it| it.elements.len());
    let verdicts = ruleset.verdicts.values().map(|it| it.elements.len());
    let pairs = ruleset.pairs.values().map(|it| it.elements.len());
    Amount {
        chains: ruleset.chains.len(),
        rules: ruleset.chains.values().map(|it| it.rules.len()).sum(),
        elements: data.chain(intervals).chain(verdicts).chain(sets).chain(pairs).sum(),
    }
}

/// Loads a ruleset into a kernel that has none.
pub(super) fn load(ruleset: &Ruleset) -> Result<Took> {
    let namespace = Namespace::create()?;
    namespace.run(|| {
        // A chain at ingress wants its link.
        Links::open()?.add_veth(TO_SERVER, LINK, &namespace)?;
        let mut kernel = Nftables::open()?;
        Ok(make(&mut kernel, &palisade_nft::load(ruleset))?.commits)
    })?
}

/// One pod added and removed again.
#[derive(Debug, Default)]
pub(super) struct PodChange {
    /// Finding out what to do, CPU time.
    pub(super) planning: Vec<f64>,
    /// All commits of adding it, after it was planned.
    pub(super) added: Vec<Took>,
    /// The same right after the commits that removed it, with nothing between them: what the kernel looks at is in caches then.
    pub(super) added_next: Vec<Took>,
    /// Until the last commit of adding it has come into force, with every wait for packets before that.
    pub(super) in_force: Vec<f64>,
    pub(super) removed: Vec<Took>,
    pub(super) commits: usize,
    /// What is touched.
    pub(super) maps: Vec<String>,
}

/// Adds a pod to a table in force and removes it, so many times.
pub(super) fn pod(router: &Namespace, old: &Ruleset, new: &Ruleset, times: usize) -> Result<PodChange> {
    router.run(|| {
        let mut kernel = Nftables::open()?;
        let mut changed = PodChange { maps: touched(&new.changes_since(old)), ..PodChange::default() };
        // Nobody sends anything now: there is nobody to wait for.
        let at_once = |steps: Vec<Step>| steps.into_iter().filter(|it| matches!(it, Step::Commit(_))).collect::<Vec<Step>>();
        let (add, remove) = (at_once(plan(old, new)), at_once(plan(new, old)));
        for _ in 0..times {
            changed.added_next.push(make(&mut kernel, &add)?.commits);
            make(&mut kernel, &remove)?;
        }
        for _ in 0..times {
            let (add, took) = timed(|| Ok(plan(old, new)))?;
            changed.planning.push(took.cpu.as_secs_f64());
            changed.commits = add.iter().filter(|it| matches!(it, Step::Commit(_))).count();
            let made = make(&mut kernel, &add)?;
            changed.added.push(made.commits);
            changed.in_force.push(made.in_force.as_secs_f64());
            changed.removed.push(make(&mut kernel, &plan(new, old))?.commits);
        }
        Ok(changed)
    })?
}

/// How long a plan took.
struct Made {
    commits: Took,
    in_force: Duration,
}

fn make(kernel: &mut Nftables, steps: &[Step]) -> Result<Made> {
    let (start, mut commits, mut in_force) = (Instant::now(), Took::default(), Duration::ZERO);
    for step in steps {
        match step {
            Step::Commit(transaction) => {
                let took = timed(|| Ok(kernel.commit(transaction)?))?.1;
                commits = Took { cpu: commits.cpu + took.cpu, elapsed: commits.elapsed + took.elapsed };
                in_force = start.elapsed();
            }
            Step::Grace => kernel.grace()?,
        }
    }
    Ok(Made { commits, in_force })
}

/// What a transaction touches, as nft names it.
fn touched(transaction: &Transaction) -> Vec<String> {
    let name = |change: &Change| match change {
        Change::AddElements { map, elements } => match elements.len() {
            1 => map.clone(),
            many => format!("{map} ({many})"),
        },
        Change::DeleteElements { map, .. } => format!("out of {map}"),
        Change::AddChain { name, .. } | Change::DeleteChain(name) | Change::FlushChain(name) => format!("chain {name}"),
        Change::AppendRule { chain, .. } => format!("rule of {chain}"),
        Change::AddDevices { chain, .. } | Change::DeleteDevices { chain, .. } => format!("devices of {chain}"),
        Change::AddMap { name, .. } | Change::DeleteMap(name) => format!("map {name}"),
        Change::AddTable(_) | Change::DeleteTable | Change::FlushTable => "the table".to_owned(),
    };
    transaction.changes.iter().map(name).collect()
}
