//! A lab that is up: what a plan says, in namespaces, with agents and listeners. Dropped, it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use palisade_agent::{
    AgentError, Attention, Counts, Denial, Established, Event, Held, RuleCount, Running, Settings, StartError, Swept, Totals, Untraceable,
    Watched, verification,
};
use palisade_kernel::{KernelError, Namespace};
use palisade_model::{ContainerPort, EndpointId, NetworkId, NodeId, PodName};
use palisade_nft::{LinkName, NodeView, PodLinks, Unknown};
use palisade_report::v1;

use crate::files;
use crate::listen::{Listeners, Listening};
use crate::plan::{Plan, PodNetwork, WhileUnknown};
use crate::probe::{Numbers, probe};
use crate::question::{Finding, Question, Speaker};
use crate::services::{Services, ServicesError, rules};
use crate::topology::{BRIDGE, Became, Fabric, LINK_OF_POD, NodePlace, PodPlace, join_neighbours};

/// How long a probe waits for proof. Denials and answers take milliseconds; the rest is for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long connections may take to end that a change denies. They take milliseconds, and on a busy machine with large tables a while.
const SWEEP: Duration = Duration::from_secs(30);

/// A cluster of namespaces.
#[derive(Debug)]
pub struct Lab {
    plan: Plan,
    // INVARIANT: pods before nodes before the fabric: what is dropped first has nothing below it.
    pods: BTreeMap<PodName, Pod>,
    nodes: BTreeMap<Box<str>, Node>,
    fabric: Fabric,
    /// What answers at the addresses of the outside.
    outside: Vec<Listening>,
    listeners: Listeners,
    denials: Receiver<Denial>,
    report: Report,
    numbers: Numbers,
    established: Established,
}

#[derive(Debug)]
struct Node {
    agent: Running,
    services: Services,
    listening: Vec<Listening>,
    place: NodePlace,
    addresses: Vec<IpAddr>,
}

#[derive(Debug)]
struct Pod {
    node: Box<str>,
    ports: Vec<ContainerPort>,
    listening: Vec<Listening>,
    place: PodPlace,
    policy: PolicyOf,
}

/// Whether a pod's policy is in force on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyOf {
    Awaited,
    /// Its link had been up for this long by then.
    InForce(Duration),
}

/// Something that a node of the lab says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    pub node: Box<str>,
    pub event: Event,
}

/// Where events go.
#[derive(Clone, Debug)]
struct Report {
    probes: Sender<Denial>,
    /// Whether anybody waits for them: nobody else takes them away.
    probing: Arc<AtomicBool>,
    others: Sender<NodeEvent>,
}

/// What the rules of a node have counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCounts {
    pub node: Box<str>,
    pub rules: Vec<RuleCount>,
}

/// How long a pod had its link before its policy was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedFor {
    pub pod: PodName,
    pub time: Duration,
}

/// How far a lab is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
    pub doing: String,
}

/// Why a lab is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Untraceable(#[from] Untraceable),
    #[error(transparent)]
    Services(#[from] ServicesError),
    #[error("node `{node}`: {error}")]
    Start { node: Box<str>, error: StartError },
    #[error("node `{node}`: {error}")]
    Agent { node: Box<str>, error: AgentError },
    #[error("this lab needs {needed} open files, and a process may have {hard} (`ulimit -Hn`)")]
    Files { needed: u64, hard: u64 },
    #[error("listeners: {0}")]
    Io(#[from] io::Error),
}

impl Lab {
    /// Builds a lab. Policy is in force before anything listens.
    pub fn up(plan: Plan, events: Sender<NodeEvent>, progress: impl FnMut(Progress)) -> Result<(Lab, Vec<String>), LabError> {
        Lab::up_with(plan, Established::default(), events, progress)
    }

    /// The same for who says what becomes of connections that a change denies.
    pub fn up_with(
        plan: Plan,
        established: Established,
        events: Sender<NodeEvent>,
        progress: impl FnMut(Progress),
    ) -> Result<(Lab, Vec<String>), LabError> {
        let (probes, denials) = channel();
        let mut lab = Lab {
            plan: plan.clone(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fabric: Fabric::create()?,
            outside: Vec::new(),
            listeners: Listeners::start()?,
            denials,
            report: Report { probes, probing: Arc::default(), others: events },
            numbers: Numbers::default(),
            established,
        };
        let notes = lab.apply(plan, progress)?;
        Ok((lab, notes))
    }

    /// Brings the lab to another plan: what is in both stays as it is, and connections that are denied now have ended. Notes say what
    /// could not be listened on, and where connections may live on.
    pub fn apply(&mut self, plan: Plan, mut progress: impl FnMut(Progress)) -> Result<Vec<String>, LabError> {
        let total = plan.model.nodes.len() * 2 + plan.model.endpoints.len();
        let mut done = 0;
        let mut step = |doing: String| {
            done += 1;
            progress(Progress { done: done.min(total), total, doing });
        };
        self.build(plan, &mut step)?;
        self.enforce_all(&mut step)
    }

    /// Brings the links and addresses of the lab to another plan, and tells no agent: policy is what it was, also for pods that are new.
    pub fn build(&mut self, plan: Plan, mut step: impl FnMut(String)) -> Result<(), LabError> {
        let needed = files::needed(&plan);
        files::allow(needed).map_err(|hard| LabError::Files { needed, hard })?;
        self.plan = plan;
        self.remove_what_is_not_planned()?;
        for at in 0..self.plan.model.nodes.len() {
            self.add_node(NodeId(at), &mut step)?;
        }
        for at in 0..self.plan.model.endpoints.len() {
            self.add_pod(EndpointId(at), &mut step)?;
        }
        if self.plan.network == PodNetwork::Bridged {
            self.join_bridges()?;
        }
        Ok(())
    }

    /// Policy on every node, on all at the same time as in any cluster, then Services and listeners.
    pub(crate) fn enforce_all(&mut self, step: &mut impl FnMut(String)) -> Result<Vec<String>, LabError> {
        let (model, unknown) = (&Arc::new(self.plan.model.clone()), unknown(&self.plan));
        let nodes: Vec<(NodeId, &Box<str>)> = model.nodes.iter_ids().map(|(id, it)| (id, &it.name)).collect();
        std::thread::scope(|scope| {
            let applied: Vec<_> = nodes
                .iter()
                .filter_map(|(id, name)| {
                    let (agent, links) = (&self.nodes.get(*name)?.agent, self.links(*id));
                    agent.treat_unknown(unknown.clone());
                    Some((*name, scope.spawn(move || agent.apply(model, *id, links))))
                })
                .collect();
            applied.into_iter().try_for_each(|(name, thread)| {
                step(format!("policy on {name}"));
                let applied = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                applied.map(drop).map_err(|error| LabError::Agent { node: name.clone(), error })
            })
        })?;
        for at in 0..self.plan.model.nodes.len() {
            self.is_enforced(NodeId(at));
            self.serve(NodeId(at))?;
        }
        let unswept = self.nodes.iter().filter(|(_, node)| node.agent.await_sweep(SWEEP) == Swept::NotAll);
        let mut notes: Vec<String> =
            unswept.map(|(name, _)| format!("node {name}: connections that are denied now may still live")).collect();
        notes.extend(self.listen());
        Ok(notes)
    }

    /// Tells the agent of one node what the plan says.
    pub fn tell(&mut self, node: &str) -> Result<(), LabError> {
        let at = self.plan.model.nodes.iter().position(|it| *it.name == *node);
        let Some(id) = at.map(NodeId) else { return Ok(()) };
        if let Some(known) = self.nodes.get(node) {
            known.agent.treat_unknown(unknown(&self.plan));
            let applied = known.agent.apply(&Arc::new(self.plan.model.clone()), id, self.links(id));
            applied.map_err(|error| LabError::Agent { node: node.into(), error })?;
        }
        self.is_enforced(id);
        self.serve(id)
    }

    /// How long each pod waited for its policy, by name.
    pub fn closed_for(&self) -> Vec<ClosedFor> {
        let each = self.pods.iter().filter_map(|(name, pod)| match pod.policy {
            PolicyOf::InForce(time) => Some(ClosedFor { pod: name.clone(), time }),
            PolicyOf::Awaited => None,
        });
        each.collect()
    }

    /// What it was built from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tries connections with real packets.
    pub fn probe(&mut self, questions: &[Question]) -> Result<Vec<Finding>, LabError> {
        let strangers = questions.iter().flat_map(|it| [it.source, it.to]).filter(|it| self.is_outside(*it)).collect::<BTreeSet<_>>();
        for address in strangers {
            if self.fabric.be(address)? == Became::New {
                let (listening, _) = self.listeners.answer_sctp(&self.fabric.place.namespace, "outside", &[address], &[]);
                self.outside.push(listening);
            }
        }
        let mut numbers = std::mem::take(&mut self.numbers);
        let asked: Vec<(&Question, Option<&Namespace>)> = questions.iter().map(|it| (it, self.namespace(&it.from))).collect();
        self.report.probing.store(true, Ordering::SeqCst);
        let findings = probe(&asked, &self.denials, &mut numbers, PATIENCE);
        self.report.probing.store(false, Ordering::SeqCst);
        self.numbers = numbers;
        Ok(findings)
    }

    /// Ends the agent of a node and starts another. The table stays in force, and is what it was until the next `apply`.
    pub fn restart_agent(&mut self, name: &str) -> Result<(), LabError> {
        self.without_agent(name, |_| ())?;
        Ok(())
    }

    /// Ends the agent of a node, does something that gets its namespace, and starts another agent. None if there is no such node.
    pub(crate) fn without_agent<T>(&mut self, name: &str, work: impl FnOnce(&Namespace) -> T) -> Result<Option<T>, LabError> {
        let Some(Node { agent, services, listening, place, addresses }) = self.nodes.remove(name) else { return Ok(None) };
        // A namespace has one agent.
        drop(agent);
        let done = work(&place.place.namespace);
        let agent = self.start_agent(name, &place)?;
        self.nodes.insert(name.into(), Node { agent, services, listening, place, addresses });
        Ok(Some(done))
    }

    /// The node's ends of its pods' links.
    pub(crate) fn links(&self, id: NodeId) -> BTreeMap<EndpointId, String> {
        self.plan.pods_of(id).filter_map(|(id, endpoint)| Some((id, self.pods.get(&endpoint.name)?.place.link.clone()))).collect()
    }

    /// Gives the outside an address.
    pub(crate) fn be_outside(&mut self, address: IpAddr) -> Result<(), LabError> {
        self.fabric.be(address)?;
        Ok(())
    }

    /// The namespace that somebody lives in.
    pub fn namespace(&self, of: &Speaker) -> Option<&Namespace> {
        match of {
            Speaker::Pod(name) => self.pods.get(name).map(|it| &it.place.place.namespace),
            Speaker::Node(name) => self.nodes.get(name).map(|it| &it.place.place.namespace),
            Speaker::Outside => Some(&self.fabric.place.namespace),
        }
    }

    /// All namespaces, with who lives in each.
    pub fn namespaces(&self) -> Vec<(Speaker, &Namespace)> {
        let pods = self.pods.keys().cloned().map(Speaker::Pod);
        let nodes = self.nodes.keys().cloned().map(Speaker::Node);
        let all = pods.chain(nodes).chain([Speaker::Outside]);
        all.filter_map(|it| Some((it.clone(), self.namespace(&it)?))).collect()
    }

    /// What the rules of each node have counted.
    pub fn counted(&self) -> Result<Vec<NodeCounts>, LabError> {
        self.nodes.iter().map(|(name, node)| Ok(NodeCounts { node: name.clone(), rules: node.agent.counted()? })).collect()
    }

    /// Whether the kernel of a node does what policy says.
    pub fn verify(&self, id: NodeId) -> Result<v1::Verification, LabError> {
        let node = self.plan.model.node(id).and_then(|it| self.nodes.get(&it.name));
        let held = node.map(|it| it.place.place.namespace.run(Held::read)).transpose()?.transpose()?.unwrap_or_default();
        Ok(verification(&self.plan.model, &NodeView { node: id, links: self.links(id), unknown: unknown(&self.plan) }, &held)?)
    }

    /// Has the agent of a node put back what is wrong with its tables.
    pub fn repair(&self, id: NodeId) -> Result<(), LabError> {
        let Some((name, node)) = self.plan.model.node(id).and_then(|it| self.nodes.get_key_value(&it.name)) else { return Ok(()) };
        node.agent.check().map(drop).map_err(|error| LabError::Agent { node: name.clone(), error })
    }

    /// What audited policies would have done, node by node and set by set.
    pub fn watched(&self) -> Result<Vec<Watched>, LabError> {
        let mut watched = Vec::new();
        for node in self.nodes.values() {
            watched.extend(node.agent.watched()?);
        }
        Ok(watched)
    }

    /// What the agent of each node has done and met, in numbers.
    pub fn counts(&self) -> BTreeMap<Box<str>, Counts> {
        self.nodes.iter().map(|(name, node)| (name.clone(), node.agent.counts())).collect()
    }

    /// What all nodes have denied so far, in numbers.
    pub fn totals(&self) -> Totals {
        self.nodes.values().map(|it| it.agent.totals()).fold(Totals::default(), |sum, it| sum.and(it))
    }

    /// An address that nobody of the cluster has, nor any Service.
    fn is_outside(&self, address: IpAddr) -> bool {
        let of_service = self.plan.model.services.iter().any(|it| it.addresses().contains(&address));
        !of_service && self.plan.model.place_of(NetworkId::DEFAULT, address) == palisade_model::Place::Outside
    }

    fn remove_what_is_not_planned(&mut self) -> Result<(), LabError> {
        let plan = &self.plan;
        let wanted_nodes: BTreeMap<&str, Vec<IpAddr>> =
            plan.model.nodes.iter().enumerate().map(|(at, it)| (&*it.name, plan.own_node_addresses(NodeId(at)))).collect();
        let gone: BTreeSet<Box<str>> = self
            .nodes
            .iter()
            .filter(|(name, it)| wanted_nodes.get(&***name) != Some(&it.addresses))
            .map(|(name, _)| name.clone())
            .collect();
        let wanted_pods: BTreeMap<&PodName, (Option<&str>, Vec<IpAddr>)> = plan
            .model
            .endpoints
            .iter()
            .enumerate()
            .map(|(at, it)| {
                let node = it.node.and_then(|id| plan.model.node(id)).map(|node| &*node.name);
                (&it.name, (node, plan.own_addresses(EndpointId(at))))
            })
            .collect();
        let leaves = |name: &PodName, pod: &Pod| {
            let stays =
                wanted_pods.get(name).is_some_and(|(node, addresses)| *node == Some(&*pod.node) && *addresses == pod.place.addresses);
            !stays || gone.contains(&pod.node)
        };
        let leaving: Vec<PodName> = self.pods.iter().filter(|(name, pod)| leaves(name, pod)).map(|(name, _)| name.clone()).collect();
        for name in leaving {
            let Some(pod) = self.pods.remove(&name) else { continue };
            drop(pod.listening);
            if let Some(node) = self.nodes.get_mut(&pod.node) {
                self.fabric.remove_pod(&mut node.place, pod.place)?;
            }
        }
        for name in gone {
            if let Some(node) = self.nodes.remove(&name) {
                self.fabric.remove_node(node.place)?;
            }
        }
        Ok(())
    }

    fn add_node(&mut self, id: NodeId, step: &mut impl FnMut(String)) -> Result<(), LabError> {
        let Some(node) = self.plan.model.node(id) else { return Ok(()) };
        step(format!("node {}", node.name));
        if self.nodes.contains_key(&node.name) {
            return Ok(());
        }
        let addresses = self.plan.own_node_addresses(id);
        let place = self.fabric.add_node(addresses.clone(), self.plan.network)?;
        let agent = self.start_agent(&node.name, &place)?;
        // Before it has pods: they come to a node that knows none of them.
        let closed = agent.apply(&Arc::default(), id, BTreeMap::new());
        closed.map_err(|error| LabError::Agent { node: node.name.clone(), error })?;
        let services = place.place.namespace.run(Services::open)??;
        let added = Node { agent, services, listening: Vec::new(), place, addresses };
        self.nodes.insert(node.name.clone(), added);
        Ok(())
    }

    fn start_agent(&self, name: &str, place: &NodePlace) -> Result<Running, LabError> {
        let (report, node) = (self.report.clone(), Box::<str>::from(name));
        let settings = Settings { attention: Attention::Packets, established: self.established, ..Settings::default() };
        let started = Running::start_as(&place.place.namespace, settings, move |event| report.take(&node, event));
        let agent = started.map_err(|error| LabError::Start { node: name.into(), error })?;
        agent.treat_unknown(unknown(&self.plan));
        Ok(agent)
    }

    fn add_pod(&mut self, id: EndpointId, step: &mut impl FnMut(String)) -> Result<(), LabError> {
        let Some(endpoint) = self.plan.model.endpoint(id) else { return Ok(()) };
        step(format!("pod {}", endpoint.name));
        let home = endpoint.node.and_then(|id| self.plan.model.node(id)).map(|it| it.name.clone());
        let Some((home, node)) = home.and_then(|home| self.nodes.get_mut(&home).map(|node| (home, node))) else { return Ok(()) };
        if self.pods.contains_key(&endpoint.name) {
            return Ok(());
        }
        let place = self.fabric.add_pod(&mut node.place, &endpoint.name, self.plan.own_addresses(id))?;
        let policy = PolicyOf::Awaited;
        self.pods.insert(endpoint.name.clone(), Pod { node: home, ports: Vec::new(), listening: Vec::new(), place, policy });
        Ok(())
    }

    fn join_bridges(&mut self) -> Result<(), LabError> {
        for name in self.nodes.keys() {
            let mut of_node: Vec<&mut PodPlace> = self.pods.values_mut().filter(|it| it.node == *name).map(|it| &mut it.place).collect();
            join_neighbours(&mut of_node)?;
        }
        Ok(())
    }

    /// Policy of a node is in force, and its pods know since when.
    fn is_enforced(&mut self, id: NodeId) {
        let Some(node) = self.plan.model.node(id) else { return };
        for pod in self.pods.values_mut().filter(|it| it.node == node.name && it.policy == PolicyOf::Awaited) {
            pod.policy = PolicyOf::InForce(pod.place.up.elapsed());
        }
    }

    fn serve(&mut self, id: NodeId) -> Result<(), LabError> {
        let Some(node) = self.plan.model.node(id).and_then(|it| self.nodes.get_mut(&it.name)) else { return Ok(()) };
        let own: Vec<IpAddr> = self.plan.pods_of(id).flat_map(|(id, _)| self.plan.own_addresses(id)).collect();
        Ok(node.services.replace(&rules(&self.plan.model), &own)?)
    }

    fn listen(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut keep = |name: &str, (listening, problems): (Listening, Vec<String>)| {
            notes.extend(problems.into_iter().map(|it| format!("{name}: {it}")));
            listening
        };
        for endpoint in &self.plan.model.endpoints {
            let Some(pod) = self.pods.get_mut(&endpoint.name) else { continue };
            if !pod.listening.is_empty() && pod.ports == endpoint.ports {
                continue;
            }
            // The old ones close first: a port has one listener.
            pod.listening.clear();
            let (namespace, addresses, name) = (&pod.place.place.namespace, &pod.place.addresses, endpoint.name.to_string());
            pod.listening.push(keep(&name, self.listeners.listen(namespace, &name, addresses, &endpoint.ports)));
            pod.listening.push(keep(&name, self.listeners.answer_sctp(namespace, &name, addresses, &endpoint.ports)));
            pod.ports.clone_from(&endpoint.ports);
        }
        for planned in &self.plan.model.nodes {
            let Some(node) = self.nodes.get_mut(&planned.name) else { continue };
            node.listening.clear();
            let namespace = &node.place.place.namespace;
            for pod in &planned.host_pods {
                let name = pod.name.to_string();
                node.listening.push(keep(&name, self.listeners.listen(namespace, &name, &node.addresses, &pod.ports)));
            }
            let ports: Vec<ContainerPort> = planned.host_pods.iter().flat_map(|it| it.ports.iter().cloned()).collect();
            let name = format!("node {}", planned.name);
            node.listening.push(keep(&name, self.listeners.answer_sctp(namespace, &name, &node.addresses, &ports)));
        }
        notes
    }
}

/// What the nodes of a lab do with pods that they do not know.
fn unknown(plan: &Plan) -> Unknown {
    let WhileUnknown::Closed { exempt, .. } = &plan.unknown else { return Unknown::Open };
    let (names, bridges) = match plan.network {
        PodNetwork::Routed => (BTreeSet::from([LinkName::Beginning(LINK_OF_POD.to_owned())]), BTreeSet::new()),
        PodNetwork::Bridged => (BTreeSet::new(), BTreeSet::from([BRIDGE.to_owned()])),
    };
    Unknown::Closed(PodLinks { names, bridges, exempt: exempt.clone() })
}

impl Report {
    /// A receiver that is gone wants nothing more.
    fn take(&self, node: &str, event: Event) {
        if let Event::Denied(denial) | Event::DeniedAgain(denial) = &event
            && self.probing.load(Ordering::SeqCst)
        {
            drop(self.probes.send((**denial).clone()));
        }
        drop(self.others.send(NodeEvent { node: node.into(), event }));
    }
}
