//! Why is this connection allowed or denied.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use palisade_engine::{Decision, Nodes, Signature, decide, signature};
use palisade_model::{Endpoint, Family, Flow, Model, NetworkId, Place, PodName, Protocol, Verdict};

use crate::flip::{Flip, flips};
use crate::party::Party;
use crate::resolve::{Candidate, Destination, PortAsked, destination, ends, source};

/// The question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The network that both ends are on.
    pub network: NetworkId,
    pub from: Party,
    pub to: Party,
    pub protocol: Protocol,
    pub port: PortAsked,
}

/// The answer, with everything that led to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub answer: Answer,
    /// One for each way the connection can go that policy can tell apart. More than one when a workload has unlike pods, a Service unlike
    /// endpoints, or the pods two families and the answers differ.
    pub cases: Vec<Case>,
    /// The model the cases speak of: what was read, and the pods that were only asked about.
    pub model: Model,
    /// Namespaces that only the question speaks of.
    pub assumed: Vec<String>,
    /// Set when no packet can go from one end to the other: the verdict is then that of policy alone.
    pub impossible: Option<String>,
}

/// What came out, over all cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed,
    Denied,
    /// It depends on what a name in a policy resolves to.
    DependsOnDns,
    /// Some ways are allowed and some denied.
    Mixed,
    /// The Service has nobody to send the connection to, so no policy is asked.
    NoEndpoints,
}

/// One way the connection can go.
#[derive(Clone, Debug)]
pub struct Case {
    pub from: Side,
    pub to: Side,
    pub flow: Flow,
    pub family: Option<Family>,
    pub decision: Decision,
    /// How many pairs of pods this stands for.
    pub pairs: usize,
    /// What would change the verdict, each tried out.
    pub flips: Vec<Flip>,
}

/// One end of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// What to call it.
    pub name: String,
    pub place: Place,
    /// Names of the others that it stands for.
    pub alike: Vec<String>,
}

impl Explanation {
    /// The same with one case for both families where they agree.
    #[must_use]
    pub fn families_together(self) -> Explanation {
        Explanation { cases: merge_families(self.cases), ..self }
    }
}

/// Answers one question, and says what would change the answer. An error means that the question names something that is not there.
pub fn explain(model: &Model, asked: &Asked) -> Result<Explanation, String> {
    let mut explanation = answer(model, asked)?;
    if let Some(why) = explanation.impossible {
        return Err(why);
    }
    for case in &mut explanation.cases {
        case.flips = flips(&explanation.model, &case.flow, &case.decision);
    }
    Ok(explanation)
}

/// Answers one question. The cases have no flips.
pub fn answer(model: &Model, asked: &Asked) -> Result<Explanation, String> {
    Ok(answer_by_family(model, asked)?.families_together())
}

/// The same with a case for each family, whether they differ or not.
pub fn answer_by_family(model: &Model, asked: &Asked) -> Result<Explanation, String> {
    let network = asked.network;
    let read = &*model.on_network(network);
    let mut model = read.clone();
    let from = source(&mut model, network, &asked.from)?;
    let to = destination(&mut model, network, &asked.to, asked.protocol, &asked.port)?;
    let to = part_replicas(&mut model, &from, to);
    let called: Vec<Place> = to.iter().map(|it| it.candidate.place).collect();
    let mut cases = Vec::new();
    let mut impossible = None;
    for (from, from_alike) in alike(&model, &from, |it| (it, None, Meets::of(it.place, &called))) {
        let caller = [from.place];
        for (to, to_alike) in alike(&model, &to, |it: &Destination| (&it.candidate, it.port, Meets::of(it.candidate.place, &caller))) {
            if !share_a_family(from, &to.candidate) {
                let ends = format!("{} and {}", from.name, to.candidate.name);
                impossible = Some(format!("{ends} have no IP family in common, so there is no such connection"));
            }
            for pair in ends(from, &to.candidate) {
                let flow = Flow { network, from: pair.from, to: pair.to, protocol: asked.protocol, port: to.port, path: to.path };
                let decision = decide(&model, &flow);
                let pairs = (from_alike.len() + 1) * (to_alike.len() + 1);
                let from = Side { name: from.name.clone(), place: from.place, alike: from_alike.clone() };
                let to = Side { name: to.candidate.name.clone(), place: to.candidate.place, alike: to_alike.clone() };
                cases.push(Case { from, to, flow, family: pair.family, decision, pairs, flips: Vec::new() });
            }
        }
    }
    let assumed = model.namespaces.keys().filter(|name| !read.namespaces.contains_key(*name)).map(|name| name.to_string()).collect();
    Ok(Explanation { answer: overall(&cases), cases, model, assumed, impossible })
}

/// Whether a packet can go from one to the other; addresses that are not known may be of any family.
fn share_a_family(from: &Candidate, to: &Candidate) -> bool {
    let families = |it: &Candidate| -> Vec<Family> { it.addresses.iter().map(|address| Family::of(*address)).collect() };
    let (from, to) = (families(from), families(to));
    from.is_empty() || to.is_empty() || from.iter().any(|it| to.contains(it))
}

fn overall(cases: &[Case]) -> Answer {
    let mut verdicts = cases.iter().map(|case| case.decision.verdict);
    let Some(first) = verdicts.next() else { return Answer::NoEndpoints };
    match (verdicts.all(|verdict| verdict == first), first) {
        (false, _) => Answer::Mixed,
        (true, Verdict::Accept) => Answer::Allowed,
        (true, Verdict::Deny) => Answer::Denied,
        (true, Verdict::DependsOnDns) => Answer::DependsOnDns,
    }
}

/// One case for both families where they agree.
fn merge_families(cases: Vec<Case>) -> Vec<Case> {
    let mut merged: Vec<Case> = Vec::with_capacity(cases.len());
    for case in cases {
        let reasons = |it: &Case| (it.decision.walks.egress.reason.clone(), it.decision.walks.ingress.reason.clone());
        let same = |it: &&mut Case| {
            it.from == case.from && it.to == case.to && it.decision.verdict == case.decision.verdict && reasons(it) == reasons(&case)
        };
        match merged.iter_mut().find(same) {
            Some(known) => known.family = None,
            None => merged.push(case),
        }
    }
    merged
}

/// One candidate, and the names of those it stands for.
type Group<'c, T> = (&'c T, Vec<String>);

/// Whether a pod meets itself at the other end. Policy tells it from its likes there, and only there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meets {
    Itself,
    Others,
}

impl Meets {
    fn of(place: Place, others: &[Place]) -> Meets {
        match place {
            Place::Pod(_) if others.contains(&place) => Meets::Itself,
            Place::Pod(_) | Place::Node(_) | Place::Outside => Meets::Others,
        }
    }
}

/// Candidates that policy cannot tell apart, once each.
fn alike<'c, T>(model: &Model, candidates: &'c [T], of: impl Fn(&T) -> (&Candidate, Option<u16>, Meets)) -> Vec<Group<'c, T>> {
    if let [only] = candidates {
        return vec![(only, Vec::new())];
    }
    let mut groups: BTreeMap<(Vec<Signature>, Option<u16>, Meets), Group<'c, T>> = BTreeMap::new();
    for item in candidates {
        let (candidate, port, meets) = of(item);
        let signed: Vec<Signature> = addresses(candidate).map(|end| signature(model, &end, Nodes::Apart)).collect();
        match groups.entry((signed, port, meets)) {
            Entry::Occupied(mut known) => known.get_mut().1.push(candidate.name.clone()),
            Entry::Vacant(new) => {
                new.insert((item, Vec::new()));
            }
        }
    }
    groups.into_values().collect()
}

fn addresses(candidate: &Candidate) -> impl Iterator<Item = palisade_model::End> + '_ {
    let none = candidate.addresses.is_empty().then_some(None);
    let each = candidate.addresses.iter().copied().map(Some);
    none.into_iter().chain(each).map(|address| palisade_model::End { place: candidate.place, address })
}

/// A workload that calls itself means two of its pods: the endpoint that stands for it gets a second one beside it.
fn part_replicas(model: &mut Model, from: &[Candidate], mut to: Vec<Destination>) -> Vec<Destination> {
    for destination in &mut to {
        let Place::Pod(id) = destination.candidate.place else { continue };
        let calls_itself = from.iter().any(|it| it.place == destination.candidate.place);
        let Some(endpoint) = model.endpoint(id).filter(|it| calls_itself && stands_for_workload(it)).cloned() else { continue };
        let name: Box<str> = format!("{} (another pod)", endpoint.name.name).into();
        destination.candidate.name = format!("{}/{name}", endpoint.name.namespace);
        let name = PodName { namespace: endpoint.name.namespace.clone(), name };
        destination.candidate.place = Place::Pod(model.endpoints.push(Endpoint { name, ..endpoint }));
    }
    to
}

pub(crate) fn stands_for_workload(endpoint: &Endpoint) -> bool {
    endpoint.workload().is_some_and(|owner| owner.name == endpoint.name.name)
}
