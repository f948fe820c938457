//! From a question that people ask to packets, and from what became of them to whether policy was kept.

use std::fmt;
use std::net::IpAddr;

use palisade_agent::DeniedBy;
use palisade_analysis::{Asked, Case, Party, PortAsked, Side, answer_by_family};
use palisade_engine::decide;
use palisade_model::{
    ContainerPort, Direction, End, EndpointId, Family, Flow, HostPod, Model, NetworkId, NodeId, Path, Place, Protocol, Reason, Verdict,
};

use crate::plan::Plan;
use crate::question::{Finding, Question, Speaker};

/// A connection to try, with what was decided about it.
#[derive(Clone, Debug)]
pub struct Trial {
    pub question: Question,
    /// The ways it can go: more than one only behind a Service.
    pub cases: Vec<Case>,
    /// Whether something answers there: then a refusal is somebody else's.
    pub answers: Answers,
}

/// Whether the lab listens at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Yes,
    No,
}

impl Answers {
    fn at(plan: &Plan, case: &Case) -> Answers {
        let declared = |it: &ContainerPort| Protocol::Port(it.protocol) == case.flow.protocol && Some(it.port) == case.flow.port;
        let listens = match case.flow.to.place {
            Place::Pod(id) => plan.model.endpoint(id).is_some_and(|it| it.ports.iter().any(declared)),
            Place::Node(id) => plan.model.node(id).is_some_and(|it| it.host_pods.iter().flat_map(|pod| &pod.ports).any(declared)),
            Place::Outside => false,
        };
        if listens { Answers::Yes } else { Answers::No }
    }
}

/// Why no packet can show something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotShown {
    NoAddress,
    TwoFamilies,
    Itself,
    NoHostsAddress,
    AnothersAddress,
    NoServiceAddress,
    NoEndpoints,
}

impl fmt::Display for NotShown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotShown::NoAddress => "an end has no address",
            NotShown::TwoFamilies => "the ends have no family in common",
            NotShown::Itself => "what one says to oneself stays in one's own network namespace",
            NotShown::NoHostsAddress => "no host can have such an address",
            NotShown::AnothersAddress => "the address belongs to another",
            NotShown::NoServiceAddress => "the Service has no address of that family",
            NotShown::NoEndpoints => "the Service has no endpoints",
        })
    }
}

/// The connections behind one question, and those that cannot be shown.
pub fn trials(plan: &Plan, asked: &Asked) -> Result<(Vec<Trial>, Vec<NotShown>), String> {
    let explanation = answer_by_family(&plan.model, asked)?;
    if let Some(why) = explanation.impossible {
        return Err(why);
    }
    let service = service(&plan.model, asked);
    let mut trials: Vec<Trial> = Vec::new();
    let mut not_shown: Vec<NotShown> = Vec::new();
    if explanation.cases.is_empty() {
        not_shown.push(NotShown::NoEndpoints);
    }
    for case in explanation.cases {
        match question(plan, &case, service.as_ref()) {
            Err(why) => not_shown.push(why),
            Ok(question) => match trials.iter_mut().find(|it| it.question == question) {
                Some(trial) => trial.cases.push(case),
                None => trials.push(Trial { question, answers: Answers::at(plan, &case), cases: vec![case] }),
            },
        }
    }
    Ok((trials, not_shown))
}

/// Everybody to every port that a pod declares, in each family that both have. Pods on their node's network and the outside are ends like the
/// others.
pub fn everybody(plan: &Plan, outside: &[IpAddr]) -> Vec<Trial> {
    let called: Vec<(Talker, &[ContainerPort])> = pods(plan).chain(host_pods(plan)).collect();
    let strangers = outside.iter().map(|it| Talker::new(it.to_string(), Place::Outside, vec![*it]));
    let speakers: Vec<Talker> = pods(plan).map(|(it, _)| it).chain(hosts(plan)).chain(strangers).collect();
    let mut trials = Vec::new();
    for (to, ports) in &called {
        for port in *ports {
            for from in speakers.iter().filter(|it| it.side.place != to.side.place) {
                trials.extend(between(plan, from, to, port));
            }
        }
    }
    trials
}

fn pods(plan: &Plan) -> impl Iterator<Item = (Talker, &[ContainerPort])> {
    plan.model.endpoints.iter().enumerate().map(|(at, it)| {
        let id = EndpointId(at);
        (Talker::new(it.name.to_string(), Place::Pod(id), plan.own_addresses(id)), it.ports.as_slice())
    })
}

fn host_pods(plan: &Plan) -> impl Iterator<Item = (Talker, &[ContainerPort])> {
    plan.model.nodes.iter().enumerate().flat_map(move |(at, node)| {
        let id = NodeId(at);
        let talker = move |pod: &HostPod| Talker::new(on_host(pod), Place::Node(id), plan.own_node_addresses(id));
        node.host_pods.iter().map(move |pod| (talker(pod), pod.ports.as_slice()))
    })
}

/// Each node with host-network pods, once: whichever of them speaks, policy sees the node.
fn hosts(plan: &Plan) -> impl Iterator<Item = Talker> {
    plan.model.nodes.iter().enumerate().filter_map(|(at, node)| {
        let (first, others) = node.host_pods.split_first()?;
        let id = NodeId(at);
        let mut talker = Talker::new(on_host(first), Place::Node(id), plan.own_node_addresses(id));
        talker.side.alike = others.iter().map(on_host).collect();
        Some(talker)
    })
}

fn on_host(pod: &HostPod) -> String {
    format!("{} (host network)", pod.name)
}

/// An end with its addresses.
#[derive(Clone)]
struct Talker {
    side: Side,
    addresses: Vec<IpAddr>,
}

impl Talker {
    fn new(name: String, place: Place, addresses: Vec<IpAddr>) -> Talker {
        Talker { side: Side { name, place, alike: Vec::new() }, addresses }
    }
}

fn between<'a>(plan: &'a Plan, from: &'a Talker, to: &'a Talker, port: &'a ContainerPort) -> impl Iterator<Item = Trial> + 'a {
    [Family::V4, Family::V6].into_iter().filter_map(move |family| {
        let of = |addresses: &[IpAddr]| addresses.iter().copied().find(|it| Family::of(*it) == family);
        let (source, address) = (of(&from.addresses)?, of(&to.addresses)?);
        let end = |party: &Talker, address| End { place: party.side.place, address: Some(address) };
        let flow = Flow {
            network: NetworkId::DEFAULT,
            from: end(from, source),
            to: end(to, address),
            protocol: Protocol::Port(port.protocol),
            port: Some(port.port),
            path: Path::Direct,
        };
        let decision = decide(&plan.model, &flow);
        let case = Case { from: from.side.clone(), to: to.side.clone(), flow, family: Some(family), decision, pairs: 1, flips: Vec::new() };
        let question = question(plan, &case, None).ok()?;
        Some(Trial { question, answers: Answers::at(plan, &case), cases: vec![case] })
    })
}

impl Trial {
    /// Whether the packets did what was decided, by the rule that decided it.
    pub fn agrees_with(&self, finding: &Finding) -> bool {
        self.cases.iter().any(|case| self.agrees_in(case, finding))
    }

    /// The same for one of its cases.
    pub fn agrees_in(&self, case: &Case, finding: &Finding) -> bool {
        let denying = Direction::BOTH.into_iter().find(|it| case.decision.walks.of(*it).verdict != Verdict::Accept);
        match (denying, finding) {
            (None, Finding::Answered) => true,
            (None, Finding::Refused) => self.answers == Answers::No,
            (Some(direction), Finding::Denied(denial)) => match &denial.by {
                DeniedBy::Policy { direction: at, reason } => *at == direction && *reason == case.decision.walks.of(direction).reason,
                DeniedBy::UnresolvedName { direction: at, rule } => {
                    *at == direction && Reason::Rule(rule.clone()) == case.decision.walks.of(direction).reason
                }
                DeniedBy::Guard(_) | DeniedBy::Unknown(_) => false,
            },
            (None | Some(_), _) => false,
        }
    }

    /// What was decided; None where it depends on the endpoint that a Service picks.
    pub fn decided(&self) -> Option<Verdict> {
        let mut verdicts = self.cases.iter().map(|it| it.decision.verdict);
        let first = verdicts.next()?;
        verdicts.all(|it| it == first).then_some(first)
    }
}

/// The address and port at which a Service is called.
struct Called {
    addresses: Vec<IpAddr>,
    port: u16,
}

fn service(model: &Model, asked: &Asked) -> Option<Called> {
    let found = model.services.iter().find(|service| match &asked.to {
        Party::Service { namespace, name } => *service.namespace == **namespace && *service.name == **name,
        Party::Address(address) => service.addresses().contains(address),
        Party::Pod { .. } | Party::Workload { .. } | Party::Labels { .. } | Party::Node(_) => false,
    })?;
    let of_protocol = found.ports.iter().filter(|it| Protocol::Port(it.protocol) == asked.protocol);
    let port = of_protocol.map(|it| (it.port, it.name.as_deref())).find(|(number, name)| match &asked.port {
        PortAsked::Number(asked) => number == asked,
        PortAsked::Name(asked) => *name == Some(asked),
        PortAsked::None => false,
    })?;
    Some(Called { addresses: found.addresses().to_vec(), port: port.0 })
}

fn question(plan: &Plan, case: &Case, service: Option<&Called>) -> Result<Question, NotShown> {
    let flow = &case.flow;
    let (Some(source), Some(address)) = (flow.from.address, flow.to.address) else { return Err(NotShown::NoAddress) };
    if source.is_ipv4() != address.is_ipv4() {
        return Err(NotShown::TwoFamilies);
    }
    if flow.path == Path::Direct && (flow.from.place == flow.to.place || source == address) {
        return Err(NotShown::Itself);
    }
    if [source, address].into_iter().any(|it| it.is_loopback() || it.is_multicast() || it.is_unspecified()) {
        return Err(NotShown::NoHostsAddress);
    }
    let owns = |end: &End| end.address.is_some_and(|it| plan.model.place_of(NetworkId::DEFAULT, it) == end.place);
    if !owns(&flow.from) || !owns(&flow.to) {
        return Err(NotShown::AnothersAddress);
    }
    let named = match flow.from.place {
        Place::Pod(id) => plan.model.endpoint(id).map(|it| Speaker::Pod(it.name.clone())),
        Place::Node(id) => plan.model.node(id).map(|it| Speaker::Node(it.name.clone())),
        Place::Outside => Some(Speaker::Outside),
    };
    let from = named.ok_or(NotShown::NoAddress)?;
    let (to, port) = match (flow.path, service) {
        (Path::Direct, _) => (address, flow.port),
        (Path::Service, Some(called)) => {
            let of_family = called.addresses.iter().copied().find(|it| it.is_ipv4() == address.is_ipv4());
            (of_family.ok_or(NotShown::NoServiceAddress)?, Some(called.port))
        }
        (Path::Service, None) => return Err(NotShown::NoServiceAddress),
    };
    Ok(Question { from, source, to, protocol: flow.protocol, port })
}
