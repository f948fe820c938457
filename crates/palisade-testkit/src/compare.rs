//! One question to every judge. Where [`crate::check`] knows the answer, here only their agreement counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use palisade_analysis::{Asked, answer, answer_by_family};
use palisade_engine::{Compiled, Decision, Reach, ReachEnd, decide};
use palisade_model::{Direction, End, EndpointId, Flow, Model, NetworkId, NodeId, Path, PerDirection, Place, PodName, Reason, Verdict};
use palisade_nft::Origin;

use crate::changes::Incremental;
use crate::check::{asked, expectation, primary};
use crate::nodes::Nodes;
use crate::objects::Objects;
use crate::raw_judge::RawCluster;
use crate::scenario::{Expect, Party, RawProtocol};

/// A connection to ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// `NAMESPACE/NAME` of the network that both ends are on; `None` for the pod network.
    pub network: Option<String>,
    pub from: Party,
    pub to: Party,
    pub protocol: RawProtocol,
    pub port: Option<u16>,
}

/// The judges do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub between: Between,
    /// What each says.
    pub text: String,
}

/// A difference with the question that shows it; without one where any would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub question: Option<Question>,
    pub difference: Difference,
}

impl Found {
    pub(crate) fn by(question: Question, difference: Difference) -> Box<Found> {
        Box::new(Found { question: Some(question), difference })
    }

    pub(crate) fn by_any(difference: Difference) -> Box<Found> {
        Box::new(Found { question: None, difference })
    }
}

/// Who disagrees about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    SpecAndEngine,
    /// One flow alone, and the whole cluster at once.
    DecideAndReach,
    /// One flow alone, and the whole cluster after it came about change by change.
    DecideAndUpdated,
    /// One flow alone, and a packet through the rulesets of the nodes on its way.
    DecideAndNodes,
    RawJudgeAndEngine,
    /// One of them can be asked and the other cannot.
    Askable,
    /// A policy that should count was refused.
    Refused,
    /// A judge panics.
    Panics,
}

/// Everybody who can be asked about one cluster, each with what it works out once.
#[derive(Debug)]
pub struct Judges<'a> {
    pub(crate) model: &'a Model,
    pub(crate) network: NetworkId,
    /// The network alone.
    pub(crate) view: Cow<'a, Model>,
    pub(crate) reach: Reach<'a>,
    pub(crate) updated: Option<Updated<'a>>,
    pub(crate) nodes: Nodes,
    /// None where the objects are not to be trusted: an API server would not hold some of them.
    pub(crate) raw: Option<Result<RawCluster<'a>, String>>,
}

/// The verdict of one judge, with those of both directions and their reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reasoned {
    pub(crate) verdict: Verdict,
    pub(crate) directions: PerDirection<(Verdict, Reason)>,
}

impl<'a> Judges<'a> {
    /// `compiled` is one network of the model, and `objects` are those of that network.
    pub fn of(model: &'a Model, compiled: &'a Compiled, objects: Option<&'a Objects>) -> Judges<'a> {
        let network = compiled.network();
        let (view, nodes) = (model.on_network(network), Nodes::of_network(model, network));
        Judges { model, network, view, reach: compiled.reach(), updated: None, nodes, raw: objects.map(RawCluster::read) }
    }

    /// With a compiled cluster that followed changes from another model to this one.
    pub fn and_updated(self, incremental: &'a Incremental) -> Judges<'a> {
        let name = self.network_name();
        Judges { updated: Updated::of(incremental, name.as_deref()), ..self }
    }

    /// The name of the network; `None` for the pod network.
    pub(crate) fn network_name(&self) -> Option<String> {
        self.model.network(self.network).filter(|_| self.network != NetworkId::DEFAULT).map(|it| it.name.to_string())
    }

    /// Asks all of them. The number of connections that were judged.
    pub fn ask(&mut self, question: &Question) -> Result<usize, Difference> {
        let judged = self.ask_by_model(question)?;
        self.ask_raw(question)?;
        Ok(judged)
    }

    /// Those who know the model, also by their reasons.
    fn ask_by_model(&mut self, question: &Question) -> Result<usize, Difference> {
        let Ok(explanation) = answer_by_family(self.model, &self.asked(question)) else { return Ok(0) };
        // A pod that is only asked about was not compiled and has no node.
        let all_known = explanation.model.endpoints.len() == self.view.endpoints.len();
        for case in &explanation.cases {
            let decided = Reasoned::of(&case.decision);
            same_reasons(&by_spec(&explanation.model, &case.flow), &decided)?;
            if all_known {
                same_by_reach(&mut self.reach, &case.flow, decided.verdict)?;
                if let Some(updated) = &mut self.updated {
                    updated.same(self.model, &case.flow, decided.verdict)?;
                }
                same_on_nodes(self.model, &self.nodes, &case.flow, &decided)?;
            }
        }
        Ok(explanation.cases.len())
    }

    fn asked(&self, question: &Question) -> Asked {
        Asked { network: self.network, ..question.asked() }
    }

    fn ask_raw(&self, question: &Question) -> Result<(), Difference> {
        let raw = match &self.raw {
            None => return Ok(()),
            Some(Ok(raw)) => raw.judge(&question.from, &question.to, question.protocol, question.port),
            Some(Err(error)) => Err(error.clone()),
        };
        let product = answer(self.model, &self.asked(question)).map(|explanation| {
            let verdicts = primary(&explanation).into_iter().map(|case| expectation(case.decision.verdict));
            verdicts.collect::<Vec<Expect>>()
        });
        let differ = |between| Err(Difference { between, text: format!("the raw judge says {raw:?}, the engine {product:?}") });
        match (&raw, &product) {
            // What has no endpoint or is not there cannot be asked about; each says so in its own way.
            (Ok(Expect::None) | Err(_), Err(_)) => Ok(()),
            (Ok(Expect::Accept | Expect::Deny | Expect::DependsOnDns), Err(_)) => differ(Between::Askable),
            (Ok(raw), Ok(verdicts)) if *raw == Expect::None && verdicts.is_empty() => Ok(()),
            (Ok(raw), Ok(verdicts)) if !verdicts.is_empty() && verdicts.iter().all(|it| it == raw) => Ok(()),
            (Ok(_), Ok(_)) => differ(Between::RawJudgeAndEngine),
            // The raw judge has one word for all endpoints of a Service, so it has none where they differ.
            (Err(_), Ok(verdicts)) if verdicts.windows(2).any(|pair| pair.first() != pair.last()) => Ok(()),
            (Err(_), Ok(_)) => differ(Between::Askable),
        }
    }
}

/// A compiled cluster that followed changes. Pods and nodes have ids of its own.
#[derive(Debug)]
pub(crate) struct Updated<'a> {
    pods: BTreeMap<&'a PodName, EndpointId>,
    nodes: BTreeMap<&'a str, NodeId>,
    reach: Reach<'a>,
}

impl<'a> Updated<'a> {
    /// None if no object is on the network.
    fn of(incremental: &'a Incremental, network: Option<&str>) -> Option<Updated<'a>> {
        let model = incremental.model();
        let network = network.map_or(Some(NetworkId::DEFAULT), |it| model.network_named(it))?;
        let Model { endpoints, nodes, .. } = model;
        Some(Updated {
            pods: endpoints.iter_ids().filter(|(_, it)| it.network() == network).map(|(id, it)| (&it.name, id)).collect(),
            nodes: nodes.iter_ids().map(|(id, it)| (it.name.as_ref(), id)).collect(),
            reach: incremental.of_network(network)?.reach(),
        })
    }
}

impl Updated<'_> {
    fn same(&mut self, model: &Model, flow: &Flow, decided: Verdict) -> Result<(), Difference> {
        // What a Service leads back to itself is no pair of ends.
        if flow.path == Path::Service && flow.from.place == flow.to.place {
            return Ok(());
        }
        let reached = self.between(model, &flow.from, &flow.to);
        self.same_as_reached(reached, flow, decided)
    }

    pub(crate) fn between(&mut self, model: &Model, from: &End, to: &End) -> Option<ReachEnd> {
        let (from, to) = (self.end(model, from)?, self.end(model, to)?);
        self.reach.between(&from, &to)
    }

    pub(crate) fn same_as_reached(&self, reached: Option<ReachEnd>, flow: &Flow, decided: Verdict) -> Result<(), Difference> {
        same_as_reached(&self.reach, reached, flow, decided)
            .map_err(|it| Difference { between: Between::DecideAndUpdated, text: format!("after changes, {}", it.text) })
    }

    /// An end of the model as it is known here.
    fn end(&self, model: &Model, end: &End) -> Option<End> {
        let place = match end.place {
            Place::Pod(id) => Place::Pod(*self.pods.get(&model.endpoint(id)?.name)?),
            Place::Node(id) => Place::Node(*self.nodes.get(model.node(id)?.name.as_ref())?),
            Place::Outside => Place::Outside,
        };
        Some(End { place, address: end.address })
    }
}

impl Reasoned {
    pub(crate) fn of(decision: &Decision) -> Reasoned {
        let side = |direction| {
            let walk = decision.walks.of(direction);
            (walk.verdict, walk.reason.clone())
        };
        let directions = PerDirection { egress: side(Direction::Egress), ingress: side(Direction::Ingress) };
        Reasoned { verdict: decision.verdict, directions }
    }
}

pub(crate) fn by_engine(model: &Model, flow: &Flow) -> Reasoned {
    Reasoned::of(&decide(model, flow))
}

pub(crate) fn by_spec(model: &Model, flow: &Flow) -> Reasoned {
    let judgement = palisade_spec::judge(model, flow);
    Reasoned { verdict: judgement.verdict, directions: judgement.directions }
}

/// Whether the specification and the engine agree in everything.
pub(crate) fn same_reasons(spec: &Reasoned, engine: &Reasoned) -> Result<(), Difference> {
    let mut text = Vec::new();
    for direction in Direction::BOTH {
        let ((of_spec, by_spec), (of_engine, by_engine)) = (spec.directions.of(direction), engine.directions.of(direction));
        if (of_spec, by_spec) != (of_engine, by_engine) {
            text.push(format!("{direction}: the spec says {of_spec:?} by {by_spec}, the engine {of_engine:?} by {by_engine}"));
        }
    }
    if spec.verdict != engine.verdict {
        text.push(format!("the spec says {:?}, the engine {:?}", spec.verdict, engine.verdict));
    }
    if text.is_empty() { Ok(()) } else { Err(Difference { between: Between::SpecAndEngine, text: text.join("; ") }) }
}

/// Whether the whole cluster at once says the same as one flow alone.
pub(crate) fn same_by_reach(reach: &mut Reach<'_>, flow: &Flow, decided: Verdict) -> Result<(), Difference> {
    // What a Service leads back to itself is no pair of ends.
    if flow.path == Path::Service && flow.from.place == flow.to.place {
        return Ok(());
    }
    let reached = reach.between(&flow.from, &flow.to);
    same_as_reached(reach, reached, flow, decided)
}

/// The same for a pair that was looked up already.
pub(crate) fn same_as_reached(reach: &Reach<'_>, reached: Option<ReachEnd>, flow: &Flow, decided: Verdict) -> Result<(), Difference> {
    let differ = |text: String| Err(Difference { between: Between::DecideAndReach, text });
    let Some(reached) = reached else {
        // Ends without a family in common are judged all the same, one of them without an address.
        let nowhere = flow.from.address.is_none() || flow.to.address.is_none();
        return if nowhere { Ok(()) } else { differ(format!("reach does not know {flow:?}")) };
    };
    let has = |set| reach.sets().contains(set, flow.protocol, flow.port);
    let verdict = match (has(reached.allowed), has(reached.depends_on_dns)) {
        (true, _) => Verdict::Accept,
        (false, true) => Verdict::DependsOnDns,
        (false, false) => Verdict::Deny,
    };
    if verdict == decided { Ok(()) } else { differ(format!("reach says {verdict:?}, decide {decided:?}")) }
}

/// Whether the rulesets of the nodes on the way do what was decided, and name the reason that decided it.
pub(crate) fn same_on_nodes(model: &Model, nodes: &Nodes, flow: &Flow, decided: &Reasoned) -> Result<(), Difference> {
    let differ = |text: String| Err(Difference { between: Between::DecideAndNodes, text });
    // Nobody gets through with an address that belongs to another.
    let owned = |end: &End| end.address.is_none_or(|address| model.place_of(flow.network, address) == end.place);
    if !owned(&flow.from) || !owned(&flow.to) {
        return Ok(());
    }
    let passed = match nodes.pass(flow) {
        Ok(None) => return Ok(()),
        Ok(Some(passed)) => passed,
        Err(error) => return differ(format!("nft: {error}")),
    };
    // What depends on DNS stays closed until a name is resolved.
    if passed.accepted != (decided.verdict == Verdict::Accept) {
        return differ(format!("nft lets it pass: {}, by {:?}; decide {:?}", passed.accepted, passed.comments, decided.verdict));
    }
    let denied = Direction::BOTH.into_iter().find(|direction| decided.directions.of(*direction).0 != Verdict::Accept);
    let expected = denied.map(|direction| Origin::Policy { direction, reason: decided.directions.of(direction).1.clone() });
    if passed.dropped_by == expected { Ok(()) } else { differ(format!("nft drops by {:?}, decide by {expected:?}", passed.dropped_by)) }
}

/// The end at an address, or a pod without one by its name. None for what needs more than that to be found.
pub(crate) fn end_of(model: &Model, network: NetworkId, party: &Party) -> Option<End> {
    match party {
        Party::Address(address) => Some(End { place: model.place_of(network, *address), address: Some(*address) }),
        Party::Pod { namespace, name } => {
            let is_named = |it: &palisade_model::Endpoint| *it.name.namespace == **namespace && *it.name.name == **name;
            let mut all = model.endpoints.iter_ids().filter(|(_, it)| it.network() == network && is_named(it));
            let (id, _) = all.find(|(_, it)| it.addresses.is_empty())?;
            Some(End { place: Place::Pod(id), address: None })
        }
        Party::Node(_) | Party::Service { .. } => None,
    }
}

impl Question {
    pub(crate) fn asked(&self) -> Asked {
        asked(&self.from, &self.to, self.protocol, self.port)
    }
}

/// The first half of a line of `expect.txt`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            RawProtocol::Tcp => "tcp".to_owned(),
            RawProtocol::Udp => "udp".to_owned(),
            RawProtocol::Sctp => "sctp".to_owned(),
            RawProtocol::Icmp => "icmp".to_owned(),
            RawProtocol::Other(number) => number.to_string(),
        };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let network = self.network.as_ref().map(|it| format!("@{it}")).unwrap_or_default();
        write!(f, "{}{network} -> {}{network}  {protocol}{port}", shown(&self.from), shown(&self.to))
    }
}

fn shown(party: &Party) -> String {
    match party {
        Party::Pod { namespace, name } => format!("{namespace}/{name}"),
        Party::Node(name) => format!("node/{name}"),
        Party::Address(address) => address.to_string(),
        Party::Service { namespace, name } => format!("svc/{namespace}/{name}"),
    }
}
