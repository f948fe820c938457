//! A lab that is up: what a plan says, in namespaces, with agents and listeners. Dropped, it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use palisade_agent::{AgentError, Attention, Denial, Event, RuleCount, Running, StartError, Totals, Watched};
use palisade_kernel::{KernelError, Namespace, Services};
use palisade_model::{ContainerPort, EndpointId, NodeId, PodName};

use crate::files;
use crate::listen::{Listeners, Listening};
use crate::plan::{Plan, PodNetwork};
use crate::probe::{Numbers, probe};
use crate::question::{Finding, Question, Speaker};
use crate::services::rules;
use crate::topology::{Became, Fabric, NodePlace, PodPlace, join_neighbours};

/// How long a probe waits for proof. Denials and answers take milliseconds; the rest is for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(3);

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
    others: Sender<NodeEvent>,
}

/// What the rules of a node have counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCounts {
    pub node: Box<str>,
    pub rules: Vec<RuleCount>,
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
        let (probes, denials) = channel();
        let mut lab = Lab {
            plan: plan.clone(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            fabric: Fabric::create()?,
            outside: Vec::new(),
            listeners: Listeners::start()?,
            denials,
            report: Report { probes, others: events },
            numbers: Numbers::default(),
        };
        let notes = lab.apply(plan, progress)?;
        Ok((lab, notes))
    }

    /// Brings the lab to another plan: what is in both stays as it is. Notes say what could not be listened on.
    pub fn apply(&mut self, plan: Plan, mut progress: impl FnMut(Progress)) -> Result<Vec<String>, LabError> {
        let needed = files::needed(&plan);
        files::allow(needed).map_err(|hard| LabError::Files { needed, hard })?;
        let total = plan.model.nodes.len() * 2 + plan.model.endpoints.len();
        let mut done = 0;
        let mut step = |doing: String| {
            done += 1;
            progress(Progress { done: done.min(total), total, doing });
        };
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
        for at in 0..self.plan.model.nodes.len() {
            self.enforce(NodeId(at), &mut step)?;
        }
        Ok(self.listen())
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
        let findings = probe(&asked, &self.denials, &mut numbers, PATIENCE);
        self.numbers = numbers;
        Ok(findings)
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

    /// What audited policies would have done, node by node and set by set.
    pub fn watched(&self) -> Result<Vec<Watched>, LabError> {
        let mut watched = Vec::new();
        for node in self.nodes.values() {
            watched.extend(node.agent.watched()?);
        }
        Ok(watched)
    }

    /// What all nodes have denied so far, in numbers.
    pub fn totals(&self) -> Totals {
        self.nodes.values().map(|it| it.agent.totals()).fold(Totals::default(), |sum, it| sum.and(it))
    }

    /// An address that nobody of the cluster has, nor any Service.
    fn is_outside(&self, address: IpAddr) -> bool {
        let of_service = self.plan.model.services.iter().any(|it| it.addresses().contains(&address));
        !of_service && self.plan.model.place_of(address) == palisade_model::Place::Outside
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
        let (report, name) = (self.report.clone(), node.name.clone());
        let started = Running::start(&place.place.namespace, Attention::Packets, move |event| report.take(&name, event));
        let agent = started.map_err(|error| LabError::Start { node: node.name.clone(), error })?;
        let services = place.place.namespace.run(Services::open)??;
        let added = Node { agent, services, listening: Vec::new(), place, addresses };
        self.nodes.insert(node.name.clone(), added);
        Ok(())
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
        self.pods.insert(endpoint.name.clone(), Pod { node: home, ports: Vec::new(), listening: Vec::new(), place });
        Ok(())
    }

    fn join_bridges(&mut self) -> Result<(), LabError> {
        for name in self.nodes.keys() {
            let mut of_node: Vec<&mut PodPlace> = self.pods.values_mut().filter(|it| it.node == *name).map(|it| &mut it.place).collect();
            join_neighbours(&mut of_node)?;
        }
        Ok(())
    }

    fn enforce(&mut self, id: NodeId, step: &mut impl FnMut(String)) -> Result<(), LabError> {
        let Some(name) = self.plan.model.node(id).map(|it| it.name.clone()) else { return Ok(()) };
        step(format!("policy on {name}"));
        let Some(node) = self.nodes.get_mut(&name) else { return Ok(()) };
        let links: BTreeMap<EndpointId, String> =
            self.plan.pods_of(id).filter_map(|(id, endpoint)| Some((id, self.pods.get(&endpoint.name)?.place.link.clone()))).collect();
        node.agent.apply(&self.plan.model, id, links).map_err(|error| LabError::Agent { node: name, error })?;
        let own: Vec<IpAddr> = self.plan.pods_of(id).flat_map(|(id, _)| self.plan.own_addresses(id)).collect();
        node.services.replace(&rules(&self.plan.model), &own)?;
        Ok(())
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

impl Report {
    /// A receiver that is gone wants nothing more.
    fn take(&self, node: &str, event: Event) {
        if let Event::Denied(denial) | Event::DeniedAgain(denial) = &event {
            drop(self.probes.send((**denial).clone()));
        }
        drop(self.others.send(NodeEvent { node: node.into(), event }));
    }
}
